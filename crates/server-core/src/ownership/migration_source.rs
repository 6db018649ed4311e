//! The source's side of a migration: it begins, decides, and takes the cachelet back.

use crate::links::{LinkId, LinkPurpose, LinkRequest};
use crate::ownership::hosting::Hosting;
use crate::ownership::migration::TARGET_TIMEOUT;
use crate::ownership::migration::copying::{Asked, Link};
use crate::ownership::migration::outgoing::{BEGIN_TIME, Outgoing, Stage};
use crate::placement::Holder;
use crate::shard::counters::Counters;
use crate::shard::engine::Engine;
use evenkeel_protocol::Migrate;
use evenkeel_protocol::compose::request;
use evenkeel_types::{CacheletId, Now};

impl Hosting {
    /// Looks for migrations of the map whose source is this worker.
    pub(crate) fn find_migrations(&mut self, engine: &mut Engine, now: Now) {
        let Some(map) = &self.map else { return };
        for order in &map.document().migrations {
            let cachelet = order.cachelet;
            let is_known = self.migrations.outgoing.contains_key(&cachelet);
            let owner = map.owner(cachelet);
            let is_mine = owner.is_some_and(|owner| owner.server == self.me.server);
            let is_open = self.handovers.is_open(cachelet, order.began);
            if is_mine && !is_known && is_open && self.hosts_cachelet(&engine.store, cachelet) {
                engine.counters.migrations_ordered += 1;
                let outgoing = Outgoing::new(*order, now.monotonic);
                self.migrations.outgoing.insert(cachelet, outgoing);
            }
        }
    }

    /// Connects to the target. False where the map does not say how.
    pub(crate) fn begin(&mut self, now: Now, cachelet: CacheletId) -> bool {
        let Some(outgoing) = self.migrations.outgoing.get_mut(&cachelet) else {
            return true;
        };
        let (to, epoch) = (outgoing.order.to, self.placement.epoch());
        let address = self.map.as_ref().and_then(|map| map.address(to));
        let Some((host, port)) = address.map(|(host, port)| (host.to_owned(), port)) else {
            return false;
        };
        self.migrations.links_made += 1;
        let link = LinkId {
            worker: to,
            purpose: LinkPurpose::Migration(cachelet),
            number: self.migrations.links_made,
        };
        let connect = LinkRequest::Connect { link, host, port };
        self.migrations.requests.push_back(connect);
        let link = outgoing.link.insert(Link::new(link));
        let hello = |out: &mut Vec<u8>| request::hello(out, epoch);
        link.ask(Asked::Hello, now.monotonic, hello);
        let until = now.monotonic + BEGIN_TIME;
        outgoing.stage = Stage::Beginning { until };
        self.ask_to_begin(now, cachelet);
        true
    }

    /// Asks the target whether it takes part.
    pub(crate) fn ask_to_begin(&mut self, now: Now, cachelet: CacheletId) {
        let seat = self.placement.seat(cachelet);
        let outgoing = self.migrations.outgoing.get_mut(&cachelet);
        let (Some(seat), Some(outgoing)) = (seat, outgoing) else {
            return;
        };
        let word = Migrate::Begin {
            cachelet,
            began: outgoing.order.began,
            since: seat.since,
        };
        outgoing.ask(Asked::Begin, now.monotonic, word);
        outgoing.next_at = now.monotonic + TARGET_TIMEOUT;
    }

    /// Stops serving the cachelet and asks the target to, if that is possible now. All that was written has been sent.
    pub(crate) fn pass(&mut self, engine: &mut Engine, now: Now, cachelet: CacheletId) {
        if !self.handovers.is_handed_over(cachelet, self.me.worker)
            || !engine.hot.prepare_to_leave(now.monotonic, cachelet)
        {
            return;
        }
        let Some(outgoing) = self.migrations.outgoing.get_mut(&cachelet) else {
            return;
        };
        debug_assert!(engine.rewritten.is_empty());
        let newest = engine.newest_version();
        let word = Migrate::Activate { newest };
        outgoing.ask(Asked::Activate, now.monotonic, word);
        outgoing.stage = Stage::Passing {
            since: now.monotonic,
        };
        self.placement.set_host(cachelet, Holder::Changing);
        self.handovers.passing = Some(cachelet);
    }

    /// The target serves the cachelet. From here on this worker never does. False where nothing was to be decided.
    pub(crate) fn decide(&mut self, engine: &mut Engine, now: Now, cachelet: CacheletId) -> bool {
        let Some(outgoing) = self.migrations.outgoing.get_mut(&cachelet) else {
            return false;
        };
        let Stage::Passing { since } = outgoing.stage else {
            return false;
        };
        outgoing.stage = Stage::Moved;
        outgoing.ask(Asked::Confirm, now.monotonic, Migrate::Confirm);
        let home = self.placement.seat(cachelet).map(|seat| seat.home);
        let me = self.me.worker;
        (engine.hot).handle_left(now.monotonic, cachelet, home == Some(me));
        engine.store.drop_cachelet(cachelet);
        self.placement.let_go(cachelet);
        engine.update_meters(now.monotonic);
        let counters = &mut engine.counters;
        counters.migrations_passed += 1;
        counters.migration_pass_us +=
            u64::try_from(now.monotonic.since(since).as_micros()).unwrap_or(u64::MAX);
        true
    }

    /// Takes the cachelet back, or does not give it away. False where it is over.
    pub(crate) fn take_back(&mut self, counters: &mut Counters, cachelet: CacheletId) -> bool {
        let Some(outgoing) = self.migrations.outgoing.get_mut(&cachelet) else {
            return false;
        };
        if outgoing.is_over() {
            return false;
        }
        let was_passing = matches!(outgoing.stage, Stage::Passing { .. });
        outgoing.stage = Stage::Aborted;
        self.migrations.close_link(cachelet);
        counters.migrations_aborted += 1;
        if was_passing {
            let me = Holder::Worker(self.me.worker);
            self.placement.set_host(cachelet, me);
        }
        true
    }
}
