//! What the driver tells a worker: messages of other workers, maps, settings, leases, links and the time.

use crate::links::{LinkId, LinkPurpose};
use crate::mesh::message::Message;
use crate::ownership::handovers::ORDER_TIME;
use crate::ownership::serving_lease::ServingLease;
use crate::session::ConnectionId;
use crate::session::address::ReturnAddress;
use crate::shard::time::TimeBase;
use crate::stats::{self, ProcessFacts};
use crate::worker::admin::update_cluster_config;
use crate::worker::core::WorkerCore;
use crate::worker::forward::execute_commands;
use crate::worker::handover::{take_early, take_follow, take_followed, take_handover};
use crate::worker::migration::{
    find_migrations, migrate, migration_link_input, migration_link_lost, revise_migrations,
};
use crate::worker::watch::write_to_watchers;
use crate::worker::whole::{do_share, finish_flush, flush, take_flush_given};
use core::time::Duration;
use evenkeel_balance::cachelet_load::CacheletMeter;
use evenkeel_hotkeys::settings::Settings;
use evenkeel_protocol::auth::Credentials;
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{CacheletId, Epoch, Instant, Now, ServerId};
use std::collections::BTreeSet;
use std::sync::Arc;

impl WorkerCore {
    /// A message from another worker arrived. Of commands with large answers a part may be left: it is to be handed in
    /// before anything that came later and [goes behind](Message::goes_behind) it, once there is memory for more answers.
    #[must_use = "commands that are left were not executed"]
    pub fn handle_message(&mut self, now: Now, from: u16, message: Message) -> Option<Message> {
        let mut left = None;
        match message {
            Message::Commands(commands) => {
                left = execute_commands(self, now, from, &commands).map(Message::Commands);
            }
            Message::Answers(answers) => answers.deliver(&mut self.connections),
            Message::Gone(_) => {}
            Message::Whole { to, task } => {
                let (to, task, share) = do_share(self, now, from, to, task);
                if let Some(to) = to {
                    self.outbox.push(from, Message::Share { to, task, share });
                }
            }
            Message::Handover(handover) => take_handover(self, now, from, handover),
            Message::Hosted(hosted) => self.hosting.take_hosted(&mut self.outbox, now, hosted),
            Message::Follow(follow) => take_follow(self, now, follow),
            Message::Followed(follow) => take_followed(self, now, follow),
            Message::FlushGiven(flush) => take_flush_given(self, now, flush),
            Message::Share { to, task, share } => {
                let facts = &self.process.facts;
                self.connections.deliver(to.connection, |session| {
                    stats::add_share(facts, now, session, to, task, share);
                });
            }
            Message::Log(lines) => {
                write_to_watchers(self, &lines);
                self.outbox.push(from, Message::LogTaken);
            }
            Message::LogTaken => self.observers.lines_taken(from),
        }
        self.execute_replication(now);
        left
    }

    /// The same for a driver that bounds no memory: all of the message is executed.
    pub fn handle_whole_message(&mut self, now: Now, from: u16, message: Message) {
        let mut next = Some(message);
        while let Some(message) = next {
            next = self.handle_message(now, from, message);
        }
    }

    /// Executes what waited for a cachelet, for a driver that bounds no memory: see [`poll_released`](Self::poll_released).
    pub fn handle_released(&mut self, now: Now) {
        while let Some((from, message)) = self.poll_released() {
            self.handle_whole_message(now, from, message);
        }
    }

    /// What the server's clock shows when the machine's shows `read`: the same, unless `debugtime`
    /// has moved it. A driver shows each reading of the clock here first and goes on with what it
    /// gets.
    #[inline]
    pub fn now(&mut self, read: Now) -> Now {
        self.now = self.debug_clock.show(read);
        self.engine.hot.handle_turn(self.now.monotonic);
        self.now
    }

    /// Time passed: expiry, delayed flush, hot keys, links that do not answer.
    pub fn handle_timeout(&mut self, now: Now) {
        let seconds = TimeBase::seconds(now);
        if self.flush_at.is_some_and(|at| at <= seconds) {
            self.flush_at = None;
            flush(self, now);
            finish_flush(self, now, self.config.index, None);
        }
        (self.hosting).execute_orders(&mut self.engine, &mut self.outbox, now);
        migrate(self, now);
        self.engine.hot.handle_timeout(now.monotonic);
        self.engine.hottest.roll(now.monotonic);
        self.engine.measure(now.monotonic);
        self.links.handle_timeout(&mut self.engine, now.monotonic);
        self.execute_replication(now);
        self.release_held();
    }

    /// A bounded step of housekeeping. True when there is more to do at once; otherwise call it again
    /// within milliseconds, because other workers may want memory back at any time. Items expire by
    /// the second, so the round that looks for them begins once a second.
    pub fn maintain(&mut self, now: Now) -> bool {
        self.engine.maintain(now)
    }

    /// The event loop has slept for this long, because there was nothing to do.
    #[inline]
    pub fn handle_slept(&mut self, time: Duration) {
        self.engine.hot.handle_slept(time);
    }

    /// The coordinator's map. All workers of a server are to be given the same maps in the same order. Contents of cachelets that it gives to others are forgotten before
    /// this returns, so that the caller may report the epoch. False when the map cannot be used.
    pub fn handle_map(&mut self, now: Now, map: &Arc<ClusterMap>, server: ServerId) -> bool {
        let made = (self.hosting.placement).updated(map, server, self.config.workers);
        let Ok(mut placement) = made else {
            self.engine.counters.maps_refused += 1;
            return false;
        };
        revise_migrations(self, now, map, &mut placement);
        let mut wanted = (self.hosting).revise_handovers(&mut self.engine.hot, &placement);
        wanted.extend(self.hosting.migrations.staged());
        let mut held: BTreeSet<_> = self.engine.store.cachelet_ids().collect();
        if self.hosting.placement.is_private() {
            for id in core::mem::take(&mut held) {
                self.engine.store.drop_cachelet(id);
            }
        }
        // What came to this server anew, after another had it, begins empty.
        held.retain(|id| {
            let (before, after) = (self.hosting.placement.seat(*id), placement.seat(*id));
            let begins =
                before.is_some_and(|before| after.is_some_and(|after| after.stay != before.stay));
            if begins || !wanted.contains(id) {
                self.engine.store.drop_cachelet(*id);
            }
            !begins
        });
        let mut begin = wanted.difference(&held).peekable();
        if begin.peek().is_some() && self.hosting.placement.epoch() > Epoch(0) {
            // Anyone who had them last may have counted on from versions of this worker.
            self.engine.skip_versions(map.epoch());
        }
        for id in begin {
            self.engine.store.create_cachelet(*id);
        }
        self.engine.update_meters(now.monotonic);
        self.hosting.placement = placement;
        self.hosting.me.server = server;
        self.hosting.map = Some(map.clone());
        update_cluster_config(self);
        (self.engine.hot).handle_map(now.monotonic, map.clone(), self.hosting.me);
        take_early(self, now);
        self.homes.wake(&mut self.connections);
        find_migrations(self, now);
        self.execute_replication(now);
        self.release_held();
        true
    }

    /// Is to give a cachelet to another worker of this server, as soon as that is possible.
    pub fn order_move(&mut self, now: Now, cachelet: CacheletId, to: u16) {
        let until = now.monotonic + ORDER_TIME;
        self.hosting.handovers.orders.insert(cachelet, (to, until));
        (self.hosting).execute_orders(&mut self.engine, &mut self.outbox, now);
    }

    /// What is known of the load of a cachelet that goes to another worker.
    pub fn release_meter(&mut self, id: CacheletId) -> Option<CacheletMeter> {
        self.engine.meter.release(id)
    }

    /// What the former worker knew of the load of a cachelet that comes.
    pub fn admit_meter(&mut self, id: CacheletId, meter: CacheletMeter) {
        self.engine.meter.admit(id, meter);
    }

    /// From now on it serves what its server owns under leases only, of which it has none yet.
    pub fn require_lease(&mut self) {
        self.hosting.require_lease();
    }

    /// Its server has a lease. Without effect on a worker that works by an older map. `now` is a reading of the clock in this
    /// turn. If the former lease ended before this one was taken in, connections are given as by
    /// [`look_at_lease`](Self::look_at_lease): their answers are not covered by this one.
    #[must_use = "the driver closes these connections"]
    pub fn handle_lease(&mut self, now: Instant, lease: ServingLease) -> Vec<ConnectionId> {
        let late = self.look_at_lease(now);
        (self.hosting).take_lease(&mut self.engine.counters, now, lease);
        late
    }

    /// Whether the lease is over: to be asked in each turn, before anything is executed and after the words of
    /// [`handle_lease`](Self::handle_lease) were passed on. `now` is a reading of the clock in this turn. When it has just ended,
    /// the connections are given whose answers were not all written: the driver closes them, because nobody can
    /// say whether those were composed in time.
    #[must_use = "the driver closes these connections"]
    pub fn look_at_lease(&mut self, now: Instant) -> Vec<ConnectionId> {
        if !self.hosting.end_lease(&mut self.engine.counters, now) {
            return Vec::new();
        }
        let owing = self
            .connections
            .iter()
            .filter(|(_, session)| session.owes_output() || session.awaits());
        owing.map(|(id, _)| id).collect()
    }

    /// Mean load of the cluster's workers, in requests per second.
    pub fn handle_cluster_load(&mut self, mean: f64) {
        self.engine.hot.handle_cluster_load(mean);
    }

    /// What the operator of the cluster has chosen, but for what the map says of it.
    pub fn handle_settings(&mut self, now: Now, settings: &Settings) {
        self.process.chosen = *settings;
        self.engine.hot.take_settings(now.monotonic, settings);
        self.execute_replication(now);
        self.release_held();
    }

    /// Samples less for hot keys, in parts of what is sampled normally.
    pub fn set_sampling_ratio(&mut self, ratio: f64) {
        self.engine.hot.set_sampling_ratio(ratio);
    }

    /// What the process knows for `stats`.
    pub fn set_process_facts(&mut self, facts: ProcessFacts) {
        let moved = self.process.facts.address != facts.address;
        self.process.facts = facts;
        if moved {
            update_cluster_config(self);
        }
    }

    /// How many connections the process has, for `stats`: open now, admitted and refused so far.
    pub fn set_connections(&mut self, open: u64, total: u64, refused: u64) {
        self.process.set_connections(open, total, refused);
    }

    /// Who may come in from now on; connections that are known already stay so, as with memcached.
    pub fn set_credentials(&mut self, credentials: Arc<Credentials>) {
        self.credentials = Some(credentials);
    }

    /// What the driver holds of input that was not executed, for `stats`: connections and bytes.
    pub fn set_input_held(&mut self, connections: u64, bytes: u64) {
        self.connections.input_held = (connections, bytes);
    }

    /// Whether there is no memory for the answers of anyone who is served next: a connection, or the asker of a message. Until
    /// there is, who is to be answered with a value of more than [`LARGE_ANSWER`](crate::LARGE_ANSWER) bytes waits, alone: a connection
    /// ([`Session::lacks_room`](crate::Session::lacks_room)), or what is left of a message.
    pub fn set_scarce(&mut self, scarce: bool) {
        self.connections.scarce = scarce;
    }

    /// The process has done what it was asked for; `reply` is a whole line of the protocol.
    pub fn answer_process_request(&mut self, to: ReturnAddress, reply: &[u8]) {
        (self.connections).deliver(to.connection, |session| session.answered(to.ticket, reply));
    }

    /// A link stands.
    pub fn link_up(&mut self, now: Now, link: LinkId) {
        if link.purpose == LinkPurpose::Replicas && self.links.stands(link) {
            self.engine.hot.handle_link_up(link.worker);
            self.execute_replication(now);
        }
    }

    /// A link broke or could not be made.
    pub fn link_lost(&mut self, now: Now, link: LinkId) {
        if let LinkPurpose::Migration(_) = link.purpose {
            return migration_link_lost(self, now, link);
        }
        self.links.lost(&mut self.engine, now.monotonic, link);
        self.execute_replication(now);
    }

    /// Bytes arrived on a link. Gives the number consumed.
    pub fn link_input(&mut self, now: Now, link: LinkId, input: &[u8]) -> usize {
        if let LinkPurpose::Migration(_) = link.purpose {
            return migration_link_input(self, now, link, input);
        }
        let consumed = (self.links).input(&mut self.engine, now.monotonic, link, input);
        self.execute_replication(now);
        self.release_held();
        consumed
    }
}
