//! Taking over what an operator has chosen, while keys have replicas.
//!
//! What readers are promised comes with a map. From then on leases are of the new length: they are granted to those alone who name
//! that map, and know its lease. Others may hold leases of before, which end a lease of before later. Until they have, everything
//! that waits for leases to end waits for the longer of the two. So a lease that gets shorter loses nothing, and atomic writes hold for a key
//! from then on when its home has known the map for a lease of before: what was answered earlier was not held.
//!
//! A home of before, which the map takes a key from, has granted leases of the length that its map said. That its successor
//! waits for as long, as atomic writes need, holds as it has known that map, too; and a lease does not change while writes
//! are atomic ([`Settings`] of a cluster are checked for that), so that it holds for who has just started.

use crate::config::write_weight;
use core::time::Duration;

use evenkeel_types::Instant;

use super::HotKeys;
use super::former::{Former, waited};
use crate::settings::Settings;
use evenkeel_types::promise::Consistency;
use evenkeel_types::promise::Promise;

impl HotKeys {
    /// Takes over what the operator has chosen, but for what readers are promised: that comes with [`HotKeys::handle_map`].
    pub fn take_settings(&mut self, now: Instant, settings: &Settings) {
        let config = &mut self.config;
        config.sampling = settings.hot_sampling.map(|percent| percent / 100.0);
        config.hot_share = settings.hot_share / 100.0;
        config.cold_share = config.hot_share / 2.0;
        config.gamma_max = settings.gamma_max;
        if settings.hot_write_weight != self.chosen_write_weight {
            self.chosen_write_weight = settings.hot_write_weight;
            self.weigh_writes();
        }
        self.trigger.set_threshold(settings.hot_trigger_rps);
        self.set_mode(now, settings.hot_keys);
    }

    /// Makes a write outweigh as many reads as was chosen, or else as goes with the consistency.
    fn weigh_writes(&mut self) {
        let usual = write_weight(self.config.consistency);
        self.config.write_weight = self.chosen_write_weight.unwrap_or(usual);
    }

    /// What readers are promised by the map that is in use.
    pub fn promise(&self) -> Promise {
        self.config.promise()
    }

    /// A map promises that, or what this worker was made with where it says nothing.
    pub(super) fn take_promise(&mut self, now: Instant, promise: Option<Promise>) {
        let promise = promise.unwrap_or(self.built_in);
        if promise == self.promise() {
            return;
        }
        let (before, waited) = (self.lease_longest(), self.lease_waited());
        self.config.lease = promise.lease();
        if promise.consistency != self.config.consistency {
            self.config.consistency = promise.consistency;
            self.weigh_writes();
        }
        if self.config.lease < before {
            let until = now + waited;
            self.former = Some(Former::new(before, until));
            self.undated = true;
            self.next_due = self.next_due.min(until);
        }
        self.update_care();
    }

    /// Leases of before that were granted since the clock was last read are over as late as they can be.
    pub(super) fn date_former(&mut self, now: Instant) {
        if let Some(former) = &mut self.former {
            former.date(now);
        }
    }

    /// Forgets that leases were longer once the last of those is over.
    pub(super) fn end_former(&mut self, now: Instant) {
        match self.former {
            Some(former) if now < former.until => {
                self.next_due = self.next_due.min(former.until);
            }
            _ => self.former = None,
        }
    }

    /// The longest lease that may not be over.
    fn lease_longest(&self) -> Duration {
        let former = self.former.map_or(Duration::ZERO, |former| former.lease);
        self.config.lease.max(former)
    }

    /// How long a lease is waited for: itself, and the margin for clocks that run at different speeds.
    pub(super) fn lease_waited(&self) -> Duration {
        waited(self.lease_longest())
    }

    #[inline]
    pub(super) fn is_atomic(&self) -> bool {
        self.config.consistency == Consistency::Atomic
    }
}
