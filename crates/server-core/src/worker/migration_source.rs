//! The source's side of a migration: begins, decides, and takes the cachelet back.

use crate::links::{LinkId, LinkPurpose, LinkRequest};
use crate::mesh::forwarded::Commands;
use crate::ownership::migration::copying::{Asked, Link};
use crate::ownership::migration::outgoing::BEGIN_TIME;
use crate::ownership::migration::outgoing::Progress;
use crate::ownership::migration::outgoing::Stage;
use crate::ownership::migration::outgoing::TARGET_TIMEOUT;
use crate::ownership::migration::volume::stands;
use crate::placement::{Holder, LocalPlacement};
use crate::shard::time::{Seconds, TimeBase};
use crate::worker::core::WorkerCore;
use core::time::Duration;
use evenkeel_protocol::compose::request;
use evenkeel_protocol::{Migrate, Reply, ReplyOutcome, parse_reply, text};
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{CacheletId, Now};

/// When it is asked again.
const BEGIN_PAUSE: Duration = Duration::from_millis(50);

/// How often it is tried whether the cachelet can pass, while keys still have replicas or workers follow a move.
const PASS_LOOK: Duration = Duration::from_millis(5);

impl WorkerCore {
    /// Goes on with what this worker copies, by one step at most.
    pub(crate) fn migrate(&mut self, now: Now) {
        if self.migrations.outgoing.is_empty() {
            return;
        }
        if self.migrations.active.is_none() {
            let waits = self.migrations.outgoing.iter();
            let mut waits = waits.filter(|(_, outgoing)| matches!(outgoing.stage, Stage::Waiting));
            self.migrations.active = waits.next().map(|(cachelet, _)| *cachelet);
        }
        let Some(cachelet) = self.migrations.active else {
            return;
        };
        let Some(outgoing) = self.migrations.outgoing.get(&cachelet) else {
            return;
        };
        if outgoing.order.cancelled || outgoing.is_late(now.monotonic) {
            return self.abort(now, cachelet);
        }
        if now.monotonic < outgoing.next_at {
            return;
        }
        match outgoing.stage {
            Stage::Waiting => self.begin(now, cachelet),
            Stage::Beginning { until } if now.monotonic >= until => self.abort(now, cachelet),
            Stage::Beginning { .. } => self.ask_to_begin(now, cachelet),
            Stage::Copying => self.copy(now, cachelet),
            Stage::Passing { .. } | Stage::Moved | Stage::Aborted => {}
        }
    }

    /// Connects to the target.
    fn begin(&mut self, now: Now, cachelet: CacheletId) {
        let Some(to) = self
            .migrations
            .outgoing
            .get(&cachelet)
            .map(|outgoing| outgoing.order.to)
        else {
            return;
        };
        let address = self.map.as_ref().and_then(|map| map.address(to));
        let Some((host, port)) = address.map(|(host, port)| (host.to_owned(), port)) else {
            return self.abort(now, cachelet);
        };
        let epoch = self.placement.epoch();
        self.migrations.links_made += 1;
        let id = LinkId {
            worker: to,
            purpose: LinkPurpose::Migration(cachelet),
            number: self.migrations.links_made,
        };
        self.migrations.requests.push_back(LinkRequest::Connect {
            link: id,
            host,
            port,
        });
        let mut link = Link::new(id);
        link.ask(Asked::Hello, now.monotonic, |out| {
            request::hello(out, epoch)
        });
        if let Some(outgoing) = self.migrations.outgoing.get_mut(&cachelet) {
            outgoing.link = Some(link);
            let until = now.monotonic + BEGIN_TIME;
            outgoing.stage = Stage::Beginning { until };
        }
        self.ask_to_begin(now, cachelet);
    }

    fn ask_to_begin(&mut self, now: Now, cachelet: CacheletId) {
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
        if let Some(link) = &mut outgoing.link {
            link.ask(Asked::Begin, now.monotonic, |out| {
                request::migrate(out, word)
            });
        }
        outgoing.next_at = now.monotonic + TARGET_TIMEOUT;
    }

    /// Sends some items, and tries to pass the cachelet when little is left.
    fn copy(&mut self, now: Now, cachelet: CacheletId) {
        let engine = &mut self.engine;
        let Some(outgoing) = self.migrations.outgoing.get_mut(&cachelet) else {
            return;
        };
        if engine.rewritten.is_too_much() {
            engine.counters.migrations_outrun += 1;
            return self.abort(now, cachelet);
        }
        let turn = outgoing.stepped_at.take().map(|at| now.monotonic.since(at));
        if let Some(pause) = turn.and_then(|turn| outgoing.pace.guard(turn)) {
            engine.counters.migration_pauses += 1;
            outgoing.next_at = now.monotonic + pause;
            return;
        }
        match outgoing.send_some(engine, now) {
            Progress::More => {
                outgoing.next_at = now.monotonic;
                outgoing.stepped_at = Some(now.monotonic);
            }
            Progress::At(next) => outgoing.next_at = next,
            Progress::LittleLeft => {
                outgoing.next_at = now.monotonic + PASS_LOOK;
                self.pass(now, cachelet);
            }
        }
    }

    /// Stops serving the cachelet and asks the target to, if that is possible now. All that was written has been sent.
    fn pass(&mut self, now: Now, cachelet: CacheletId) {
        let engine = &mut self.engine;
        if !self.handovers.is_settled(cachelet, self.config.index)
            || !engine.hot.prepare_to_leave(now.monotonic, cachelet)
        {
            return;
        }
        let Some(outgoing) = self.migrations.outgoing.get_mut(&cachelet) else {
            return;
        };
        debug_assert!(engine.rewritten.is_empty());
        let newest = engine.newest_version();
        if let Some(link) = &mut outgoing.link {
            let word = Migrate::Activate { newest };
            link.ask(Asked::Activate, now.monotonic, |out| {
                request::migrate(out, word)
            });
        }
        outgoing.stage = Stage::Passing {
            since: now.monotonic,
        };
        self.placement.set_host(cachelet, Holder::Changing);
        self.handovers.passing = Some(cachelet);
    }

    /// The target serves the cachelet. From here on this worker never does.
    fn decide(&mut self, now: Now, cachelet: CacheletId) {
        let Some(outgoing) = self.migrations.outgoing.get_mut(&cachelet) else {
            return;
        };
        let Stage::Passing { since } = outgoing.stage else {
            return;
        };
        outgoing.stage = Stage::Moved;
        if let Some(link) = &mut outgoing.link {
            link.ask(Asked::Confirm, now.monotonic, |out| {
                request::migrate(out, Migrate::Confirm)
            });
        }
        let home = self.placement.seat(cachelet).map(|seat| seat.home);
        let me = self.config.index;
        (self.engine.hot).handle_left(now.monotonic, cachelet, home == Some(me));
        self.engine.store.drop_cachelet(cachelet);
        self.placement.let_go(cachelet);
        self.settle_meters(now.monotonic);
        let counters = &mut self.engine.counters;
        counters.migrations_passed += 1;
        counters.migration_pass_us +=
            u64::try_from(now.monotonic.since(since).as_micros()).unwrap_or(u64::MAX);
        self.end_active(now, cachelet);
    }

    /// Takes the cachelet back, or never gave it away.
    pub(crate) fn abort(&mut self, now: Now, cachelet: CacheletId) {
        let Some(outgoing) = self.migrations.outgoing.get_mut(&cachelet) else {
            return;
        };
        if outgoing.is_over() {
            return;
        }
        let was_passing = matches!(outgoing.stage, Stage::Passing { .. });
        outgoing.stage = Stage::Aborted;
        self.close_migration_link(cachelet);
        self.engine.counters.migrations_aborted += 1;
        if was_passing {
            let me = Holder::Worker(self.config.index);
            self.placement.set_host(cachelet, me);
        }
        self.end_active(now, cachelet);
    }

    /// Lets those go on who wait for the cachelet, and the next migration begin.
    fn end_active(&mut self, now: Now, cachelet: CacheletId) {
        if self.migrations.active == Some(cachelet) {
            self.migrations.active = None;
            self.engine.rewritten.watch(None);
            self.handovers.passing = None;
        }
        self.wake_waiting();
        let outgoing = self.migrations.outgoing.get_mut(&cachelet);
        let held = outgoing.map(|outgoing| core::mem::take(&mut outgoing.held));
        for (from, commands) in held.into_iter().flatten() {
            self.carry_out_commands(now, from, &commands);
        }
        self.migrate(now);
    }

    /// Keeps a command of another worker's connection while its cachelet passes. False when it does not.
    pub(crate) fn hold_command(
        &mut self,
        from: u16,
        cachelet: CacheletId,
        command: impl FnOnce() -> Commands,
    ) -> bool {
        if self.handovers.passing != Some(cachelet) {
            return false;
        }
        if let Some(outgoing) = self.migrations.outgoing.get_mut(&cachelet) {
            outgoing.held.push((from, command()));
            self.engine.counters.commands_waited += 1;
        }
        true
    }

    /// A new map, and the placement made from it.
    pub(crate) fn revise_outgoing(
        &mut self,
        now: Now,
        map: &ClusterMap,
        placement: &mut LocalPlacement,
        cachelet: CacheletId,
    ) {
        let Some(outgoing) = self.migrations.outgoing.get_mut(&cachelet) else {
            return;
        };
        let is_gone = matches!(outgoing.stage, Stage::Moved);
        if let Some(order) = stands(map, cachelet, outgoing.order.began) {
            outgoing.order = *order;
            outgoing.pace.set_rate(order.bytes_per_second);
            if is_gone {
                placement.let_go(cachelet);
            }
            return;
        }
        if !is_gone {
            let was_passing = self.handovers.passing == Some(cachelet);
            self.abort(now, cachelet);
            if was_passing {
                // Made while nobody served it, and now it is back.
                placement.set_host(cachelet, Holder::Worker(self.config.index));
            }
        }
        self.close_migration_link(cachelet);
        self.engine.hot.handle_host_by_map(cachelet);
        self.migrations.outgoing.remove(&cachelet);
    }

    fn close_migration_link(&mut self, cachelet: CacheletId) {
        let outgoing = self.migrations.outgoing.get_mut(&cachelet);
        if let Some(link) = outgoing.and_then(|outgoing| outgoing.link.take()) {
            self.migrations
                .requests
                .push_back(LinkRequest::Close(link.id));
        }
    }

    /// The connection to a target broke, or could not be made.
    pub(crate) fn migration_link_lost(&mut self, now: Now, id: LinkId) {
        if let Some(cachelet) = self.migrations.of_link(id) {
            if let Some(outgoing) = self.migrations.outgoing.get_mut(&cachelet) {
                outgoing.link = None;
            }
            self.abort(now, cachelet);
        }
    }

    /// Bytes to be written to a target.
    pub(crate) fn migration_link_out(&mut self, id: LinkId) -> Option<&mut Vec<u8>> {
        let cachelet = self.migrations.of_link(id)?;
        let link = self.migrations.outgoing.get_mut(&cachelet)?.link.as_mut();
        link.map(|link| &mut link.out)
    }

    /// Answers of a target. Gives the number of bytes consumed.
    pub(crate) fn migration_link_input(&mut self, now: Now, id: LinkId, input: &[u8]) -> usize {
        let mut consumed = 0;
        while let Some(cachelet) = self.migrations.of_link(id) {
            match parse_reply(&input[consumed..], &self.engine.limits) {
                ReplyOutcome::Incomplete { .. } => return consumed,
                ReplyOutcome::Reply {
                    reply,
                    consumed: length,
                } => {
                    consumed += length;
                    if !self.hear_target(now, cachelet, &reply) {
                        self.migration_answer_is_wrong(now, cachelet);
                    }
                }
                ReplyOutcome::Malformed => self.migration_answer_is_wrong(now, cachelet),
            }
        }
        input.len()
    }

    /// A target that does not keep to the protocol, or takes no part, is not spoken to any more.
    fn migration_answer_is_wrong(&mut self, now: Now, cachelet: CacheletId) {
        self.abort(now, cachelet);
        self.close_migration_link(cachelet);
    }

    /// One answer of the target. False when the migration must end, or it is to nothing that was asked.
    fn hear_target(&mut self, now: Now, cachelet: CacheletId, reply: &Reply<'_>) -> bool {
        let Some(outgoing) = self.migrations.outgoing.get_mut(&cachelet) else {
            return false;
        };
        let Some(link) = &mut outgoing.link else {
            return false;
        };
        let Some((asked, _)) = link.asked.pop_front() else {
            return false;
        };
        match (asked, reply) {
            (Asked::Hello, Reply::Hello(hello)) => hello.worker == outgoing.order.to,
            (Asked::Begin, Reply::Number(seconds)) => {
                // No clock of a store shows more.
                let Ok(there) = Seconds::try_from(*seconds) else {
                    return false;
                };
                // It read its clock before this one shows what it does now, and both count whole seconds.
                let here = i64::from(TimeBase::seconds(now)) + 1;
                link.ahead = i64::from(there) - here;
                outgoing.stage = Stage::Copying;
                outgoing.next_at = now.monotonic;
                self.engine.rewritten.watch(Some(cachelet));
                self.migrate(now);
                true
            }
            (Asked::Begin, Reply::Other(word)) if *word == text::MIGRATE_LATER.trim_ascii_end() => {
                outgoing.next_at = now.monotonic + BEGIN_PAUSE;
                true
            }
            (Asked::Batch(sent), Reply::MetaNoop) => {
                link.answered = sent;
                outgoing.next_at = outgoing.next_at.min(now.monotonic);
                true
            }
            (Asked::Activate, Reply::Ok) => {
                self.decide(now, cachelet);
                true
            }
            (Asked::Confirm, Reply::Ok) => {
                self.close_migration_link(cachelet);
                true
            }
            _ => false,
        }
    }
}
