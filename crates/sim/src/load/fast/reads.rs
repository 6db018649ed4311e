//! Gets: at homes, and at copies of hot keys.

use super::Cluster;
use super::asks::Ask;
use crate::history::Nanos;
use crate::load::ReadChoice;
use crate::load::cluster::worker_number;
use crate::load::report::Outcome;
use evenkeel_hotkeys::burden::burden;
use evenkeel_hotkeys::client::{Answer, ClientLeases, Connection, ReadTicket, Route, Verdict};
use evenkeel_hotkeys::server::{HotKeys, Reader};
use evenkeel_placement::renaming;
use evenkeel_types::{CacheletId, Epoch, Instant, KeyHash, Version};
use std::cmp::Reverse;

impl Cluster<'_> {
    #[inline]
    pub(super) fn get(&mut self, ask: &Ask) {
        let key = self.keys.of(ask.key);
        if key.lent {
            return self.get_lent(ask);
        }
        let hit = key.read();
        let home = usize::from(ask.home);
        if !self.passes_read(home) {
            self.look_at_read(ask, hit);
        }
        self.finish_get(ask, home, hit);
    }

    /// Whether a read at a home needs no further look.
    #[inline]
    fn passes_read(&mut self, home: usize) -> bool {
        let bytes = self.plan.value_bytes;
        (self.hot.get_mut(home)).is_none_or(|hot| hot.pass_read(bytes))
    }

    /// Whether a write at a home needs no further look.
    #[inline]
    pub(super) fn passes_write(&mut self, home: usize) -> bool {
        self.hot.get_mut(home).is_none_or(HotKeys::pass_write)
    }

    #[inline]
    fn finish_get(&mut self, ask: &Ask, worker: usize, hit: bool) {
        let (cost, outcome) = match hit {
            true => (self.costs.hit, Outcome::Hit),
            false => (self.costs.miss, Outcome::Miss),
        };
        let done = self.serve(ask, worker, cost);
        if worker == usize::from(ask.home) {
            self.count(ask, done, outcome);
        }
        self.tally.answered(done, done - ask.at, outcome);
        if !hit && self.plan.fill {
            self.fills.push(Reverse((done, ask.key, ask.client)));
        }
    }

    /// A read at its home that may be sampled, or of a key with copies.
    fn look_at_read(&mut self, ask: &Ask, hit: bool) {
        let (at, epoch, name) = (
            Instant(ask.at),
            self.epoch(ask.proxy),
            self.names.of(ask.key),
        );
        let (hash, home) = (KeyHash::of(&name), usize::from(ask.home));
        let (reader, found) = (
            Reader::Aware { epoch },
            hit.then_some(self.plan.value_bytes),
        );
        let advice = self.hot[home].handle_read(at, hash, &name, reader, found);
        if self.hot[home].has_output() {
            self.pump(ask.at, home);
        }
        if let Some(grant) = advice.grant(self.plan.hot_keys.lease) {
            self.keys.of(ask.key).lent = true;
            if self.plan.reads != ReadChoice::Guarded {
                let length = grant.left.as_nanos() as Nanos;
                let (key, client) = (ask.key, ask.client);
                return (self.copy_leases).grant(ask.at, key, client, grant.gamma, length);
            }
            let leases = &mut self.leases[usize::from(ask.proxy)];
            let ticket = leases.home_read(at, epoch, (hash, Connection(u64::from(ask.client))));
            leases.grant(at, epoch, &ticket, VERSION, grant);
            release(leases, at, epoch, ticket);
        }
    }

    /// A get of a key for which the client or its proxy may have a lease.
    fn get_lent(&mut self, ask: &Ask) {
        match self.plan.reads {
            ReadChoice::Guarded => self.get_guarded(ask),
            ReadChoice::Sticky => {
                let suffix = self.copy_leases.sticky(ask.at, ask.key, ask.client);
                self.get_copy(ask, suffix.unwrap_or(0));
            }
        }
    }

    /// The worker that has a copy: the home of suffix 0, and of one that there is not.
    fn find_copy(&mut self, ask: &Ask, suffix: u8) -> usize {
        let home = usize::from(ask.home);
        let shadows = self.find_shadows(ask);
        let place = usize::from(suffix).checked_sub(1);
        let shadow = place.and_then(|place| shadows.get(place));
        shadow.map_or(home, |&shadow| usize::from(shadow))
    }

    /// A get at a copy that was chosen.
    fn get_copy(&mut self, ask: &Ask, suffix: u8) {
        let home = usize::from(ask.home);
        let worker = self.find_copy(ask, suffix);
        let hit = self.keys.of(ask.key).read();
        if worker != home {
            self.note_replica_read(ask, worker);
        } else if !self.passes_read(home) {
            self.look_at_read(ask, hit);
        }
        self.finish_get(ask, worker, hit);
    }

    fn note_replica_read(&mut self, ask: &Ask, shadow: usize) {
        self.hot[shadow].handle_replica_read(self.plan.value_bytes);
        // A proxy tells of it with its next read at the home; here that is known at once.
        let name = self.names.of(ask.key);
        self.hot[usize::from(ask.home)].handle_elsewhere(KeyHash::of(&name), &name, 1);
        let measured = self.tally.measures(ask.at + self.way);
        self.tally.replica_reads += u64::from(measured);
    }

    /// A get by what ships, for which the client's proxy may have a lease.
    fn get_guarded(&mut self, ask: &Ask) {
        let (at, epoch, home) = (
            Instant(ask.at),
            self.epoch(ask.proxy),
            usize::from(ask.home),
        );
        let hash = KeyHash::of(&self.names.of(ask.key));
        self.find_shadows(ask);
        let shadows = &self.shadows[&(ask.key, epoch)];
        let shadow = |suffix: u8| {
            shadows
                .get(usize::from(suffix) - 1)
                .map(|&at| usize::from(at))
        };
        // A proxy knows how many of its own requests wait at a server; here it knows how many do in all: none where they take no
        // time.
        let load = |suffix| {
            let copy = if suffix == 0 { home } else { shadow(suffix)? };
            let turns = &self.turns[copy];
            let wait = turns.ends.saturating_sub(ask.at) + turns.next;
            let recent = self.recent[usize::from(ask.proxy) * self.hot.len() + copy].sum(at);
            let waiting = wait.checked_div(self.costs.hit).unwrap_or(0);
            Some(burden(recent, waiting as usize))
        };
        let connection = Connection(u64::from(ask.client));
        let leases = &mut self.leases[usize::from(ask.proxy)];
        let ticket = leases.route_read(at, epoch, (hash, connection), load);
        let hit = self.keys.of(ask.key).read();
        let worker = match ticket.route() {
            Route::Home => {
                leases.abandon(at, ticket);
                if !self.passes_read(home) {
                    self.look_at_read(ask, hit);
                }
                home
            }
            Route::Shadow { suffix } => {
                release(leases, at, epoch, ticket);
                let shadow = shadow(suffix).unwrap_or(home);
                self.note_replica_read(ask, shadow);
                shadow
            }
        };
        self.finish_get(ask, worker, hit);
    }

    /// Where the copies of a key are, by the map of the proxy that asks.
    fn find_shadows(&mut self, ask: &Ask) -> &[u16] {
        let (plan, names) = (self.plan, self.names);
        let map = &self.views[usize::from(ask.proxy)].map;
        let epoch = map.as_ref().map_or(Epoch(0), |map| map.epoch());
        self.shadows.entry((ask.key, epoch)).or_insert_with(|| {
            let owner =
                (map.as_ref()).and_then(|map| Some((map, map.owner(CacheletId(ask.place))?)));
            let Some((map, owner)) = owner else {
                return Vec::new();
            };
            renaming::shadows(
                map,
                &names.of(ask.key),
                owner.server,
                plan.hot_keys.gamma_max,
            )
            .into_iter()
            .map(|worker| worker_number(plan, worker) as u16)
            .collect()
        })
    }
}

/// Versions are not followed: every answer has the same.
const VERSION: Answer = Answer::Hit(Version(1));

/// A read is over.
fn release(leases: &mut ClientLeases, at: Instant, epoch: Epoch, ticket: ReadTicket) {
    if let Verdict::AskHome(again) = leases.release(at, epoch, ticket, VERSION) {
        leases.abandon(at, again);
    }
}
