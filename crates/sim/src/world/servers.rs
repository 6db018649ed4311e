//! The servers: each a process with its workers, driven as the server's event loop drives them.

mod wishes;

use super::command::{Change, Command};
use super::connection::{ACCEPTOR, Arrival, ConnectionNumber, INITIATOR, Who};
use super::fault::Fault;
use super::mutants::{spoil_answer, spoil_hello, with_name, without_name};
use super::plan::Cluster;
use super::server::{HOT_TRIGGER_RPS, ITEM_SIZE_MAX, MEMORY};
use super::voting::Leases;
use super::{Event, World};
use crate::history::Nanos;
use core::time::Duration;
use evenkeel_balance::load::TriggerConfig;
use evenkeel_hotkeys::config::HotKeysConfig;
use evenkeel_protocol::Limits;
use evenkeel_server_core::{
    ConnectionId, LinkId, Message, Peer, Task, WorkerConfig, WorkerCore, first_version,
};
use evenkeel_storage::{PoolConfig, SegmentPool};
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{BootId, CacheletId, Epoch, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

impl World {
    /// A server's process starts, empty.
    pub(super) fn start_server(&mut self, server: usize) {
        let boot = BootId(self.random.seed());
        let seed = self.random.seed();
        // As memcached counts uniques: from one, in each life.
        let first_version = if self.has_fault(Fault::VersionsRepeated) || self.led.is_some() {
            Version(1)
        } else {
            first_version(boot.0)
        };
        self.narrate(&[server], || "starts".into());
        let s = &mut self.servers[server];
        if s.boot != BootId(0) {
            s.process.restart(&mut self.random);
        }
        s.process.alive = true;
        let hot_keys = HotKeysConfig {
            consistency: self.plan.consistency,
            lease: Duration::from_nanos(self.plan.lease()),
            sampling: Some(1.0),
            write_weight: 1.5,
            copy_share: 0.05,
            entries_max: 4,
            replicated_max: 3,
            trigger: TriggerConfig {
                absolute_rps: Some(HOT_TRIGGER_RPS),
                ..TriggerConfig::default()
            },
            ..HotKeysConfig::default()
        };
        let config = WorkerConfig {
            limits: Limits {
                item_size_max: ITEM_SIZE_MAX,
                ..Limits::default()
            },
            // One command at a time, so that each can be watched.
            requests_per_turn: 1,
            clustered: self.plan.cluster == Cluster::Evenkeel,
            hot_keys,
            boot,
            first_version,
            ..WorkerConfig::new(self.workers_per_server, s.process.now(self.time), seed)
        };
        let pool = SegmentPool::new(PoolConfig {
            limit_bytes: MEMORY,
            item_size_max: ITEM_SIZE_MAX,
            cachelets_expected: 8 * usize::from(self.workers_per_server),
        });
        let made = |index| {
            WorkerCore::new(
                WorkerConfig {
                    index,
                    ..config.clone()
                },
                &pool,
            )
        };
        s.workers = (0..config.workers)
            .map(|i| made(i).expect("sound settings"))
            .collect();
        if config.clustered {
            s.workers.iter_mut().for_each(WorkerCore::require_lease);
        }
        s.leases = Leases::new(boot);
        s.pool = Some(pool);
        s.queues.clear();
        s.links = vec![BTreeMap::new(); s.workers.len()];
        s.mapped_at = vec![0; s.workers.len()];
        s.early = vec![BTreeMap::new(); s.workers.len()];
        s.sessions = vec![BTreeMap::new(); s.workers.len()];
        (s.boot, s.id, s.told, s.busy_until) = (boot, None, Epoch(0), self.time);
        self.forget_uniques();
        self.arm(server);
        self.send_heartbeat_soon(server);
    }

    /// A server's process dies without a word.
    pub(super) fn kill_server(&mut self, server: usize) {
        self.narrate(&[server], || "is killed".into());
        self.lose_everything(server);
        self.count_server(server);
        self.note_killed(server);
        let s = &mut self.servers[server];
        s.process.alive = false;
        s.process.stopped_until = 0;
        self.abandon_connections(server);
    }

    pub(super) fn count_server(&mut self, server: usize) {
        for worker in &mut self.servers[server].workers {
            self.report.take_worker(worker.counters());
        }
    }

    pub(super) fn handle_session(
        &mut self,
        connection: ConnectionNumber,
        (server, worker, id): (usize, u16, Option<ConnectionId>),
        arrival: Arrival,
    ) {
        self.look_at_lease(server, worker);
        let w = usize::from(worker);
        let s = &mut self.servers[server];
        match (arrival, id) {
            (Arrival::Open, _) => {
                let id = s.workers[w].open(Peer::default());
                s.sessions[w].insert((id.slot, id.generation), connection);
                let id = Some(id);
                self.connections[connection].ends[ACCEPTOR].who = Who::Session { worker, id };
            }
            (Arrival::Bytes, Some(id)) => {
                if self.stop_in_turn(connection, (server, worker, id)) {
                    return;
                }
                self.feed(connection, server, worker, id);
            }
            (Arrival::Closed, Some(id)) => {
                s.workers[w].close(id);
                s.sessions[w].remove(&(id.slot, id.generation));
            }
            // The other end has gone before this one was there.
            (_, None) => {}
        }
        self.pump_worker(server, worker);
    }

    /// Shows a worker what a connection has sent, command by command.
    pub(super) fn feed(
        &mut self,
        connection: ConnectionNumber,
        server: usize,
        worker: u16,
        id: ConnectionId,
    ) {
        loop {
            let core = &mut self.servers[server].workers[usize::from(worker)];
            let Some(session) = core.session(id) else {
                return;
            };
            // With answers awaited from other workers, one cannot see what a command was answered.
            if session.awaits() {
                return;
            }
            let is_fresh = session.swallow == 0 && !session.closing;
            let input = core::mem::take(&mut self.connections[connection].ends[ACCEPTOR].input);
            let command = if is_fresh {
                Command::parse(&input, &self.keys)
            } else {
                None
            };
            let (consumed, out) = self.execute((server, worker, id), command.as_ref(), &input);
            let rest = &mut self.connections[connection].ends[ACCEPTOR].input;
            *rest = input;
            rest.drain(..consumed);
            let is_done = rest.is_empty() || consumed == 0;
            if self.is_too_late(server, worker) {
                return self.close_late(server, worker, id);
            }
            self.send(connection, ACCEPTOR, &out);
            if is_done {
                return;
            }
        }
    }

    /// Lets a worker execute the command at the front of an input, and gives what it consumed and
    /// answered.
    fn execute(
        &mut self,
        (server, worker, id): (usize, u16, ConnectionId),
        command: Option<&Command>,
        input: &[u8],
    ) -> (usize, Vec<u8>) {
        if self.led.is_some() {
            return self.execute_led((server, worker, id), command, input);
        }
        let Some(command) = command else {
            if self.has_fault(Fault::ReplicasUnnamed)
                && let Some((unnamed, name)) = without_name(input)
            {
                let (consumed, out) = self.show_input((server, worker, id), &unnamed);
                return (consumed, with_name(out, &name));
            }
            let (consumed, mut out) = self.show_input((server, worker, id), input);
            spoil_hello(self.plan.fault, &mut out);
            return (consumed, out);
        };
        if let Some(answer) = self.swallow(command, input) {
            return (command.len, answer.to_vec());
        }
        self.note_leave(server, worker);
        let forged = self.forge(command, input);
        let (consumed, mut out) = match &forged {
            Some(forged) => {
                let (consumed, out) = self.show_input((server, worker, id), forged);
                (if consumed > 0 { command.len } else { 0 }, out)
            }
            None => self.show_input((server, worker, id), input),
        };
        let kept = self
            .kept_answer(server, worker, id)
            .filter(|_| out.is_empty());
        // What is executed after the end of the lease is told to nobody, and forgotten where it was given away. A
        // flush concerns what was not, too; what is only read, by a clock that may have stood still, concerns nothing.
        let is_void = command.change != Change::Flush
            && self.is_too_late(server, worker)
            && (command.change == Change::Read || self.is_given_away(server, worker, command.key));
        if consumed > 0 && !is_void {
            let answer = kept.as_ref().unwrap_or(&out);
            self.observe(server, worker, command, answer);
        }
        if let Some(kept) = kept.filter(|_| self.answers_early(server, worker)) {
            let early = &mut self.servers[server].early[usize::from(worker)];
            *early.entry((id.slot, id.generation)).or_default() += kept.len();
            out = kept;
        }
        if self.has_fault(Fault::WritesRepeated) && command.is_write() && self.random.chance(1, 20)
        {
            let (_, second) = self.show_input((server, worker, id), input);
            self.observe(server, worker, command, &second);
        }
        if let Some(old) = self.old_fill(command, input) {
            self.show_input((server, worker, id), &old);
        }
        spoil_answer(self.plan.fault, command, &mut out);
        (consumed, out)
    }

    /// What a worker has answered to the command that was just shown to it, and holds back.
    fn kept_answer(&mut self, server: usize, worker: u16, id: ConnectionId) -> Option<Vec<u8>> {
        let session = self.servers[server].workers[usize::from(worker)].session(id)?;
        session.last_kept().map(<[u8]>::to_vec)
    }

    /// With a fault: whether a worker does not hold its answers back.
    fn answers_early(&self, server: usize, worker: u16) -> bool {
        let since = self.time - self.servers[server].mapped_at[usize::from(worker)];
        self.has_fault(Fault::AnswersNotHeld)
            || self.has_fault(Fault::NewHomesAnswer) && since < self.plan.lease()
    }

    pub(super) fn show_input(
        &mut self,
        (server, worker, id): (usize, u16, ConnectionId),
        input: &[u8],
    ) -> (usize, Vec<u8>) {
        self.time += 1;
        let s = &mut self.servers[server];
        let now = s.process.now(s.leases.read(self.time));
        let core = &mut s.workers[usize::from(worker)];
        let consumed = core.handle_input(now, id, input).consumed;
        let out = core
            .session(id)
            .map(|session| core::mem::take(&mut session.out));
        (consumed, out.unwrap_or_default())
    }

    pub(super) fn handle_link(
        &mut self,
        connection: ConnectionNumber,
        (server, worker, link): (usize, u16, LinkId),
        arrival: Arrival,
    ) {
        self.look_at_lease(server, worker);
        let w = usize::from(worker);
        let s = &mut self.servers[server];
        let now = s.process.now(self.time);
        if s.links[w].get(&link) != Some(&connection) {
            return;
        }
        match arrival {
            Arrival::Open => s.workers[w].link_up(now, link),
            Arrival::Bytes => {
                let input = &mut self.connections[connection].ends[INITIATOR].input;
                let consumed = s.workers[w].link_input(now, link, input);
                input.drain(..consumed);
                if link.migrates().is_some() {
                    self.note_decisions(server, worker);
                }
            }
            Arrival::Closed => {
                s.links[w].remove(&link);
                s.workers[w].link_lost(now, link);
            }
        }
        if matches!(arrival, Arrival::Open) {
            self.linked.insert(connection);
        }
        self.pump_worker(server, worker);
    }

    /// A message from one worker of a server to another.
    pub(super) fn handle_message(&mut self, server: usize, from: u16, to: u16, message: Message) {
        self.look_at_lease(server, to);
        if let Message::Whole {
            task: Task::Flush { at_s: None },
            ..
        } = message
        {
            self.lose_worker(server, to);
        }
        if let Message::FlushGiven(flush) = &message {
            self.lose_cachelets(server, to, flush.cachelets());
        }
        let came = match &message {
            Message::Handover(handover) => Some(handover.cachelet()),
            _ => None,
        };
        if let Some(cachelet) = came {
            self.carry(server, cachelet, to);
        }
        self.time += 1;
        let s = &mut self.servers[server];
        let now = s.process.now(self.time);
        let core = &mut s.workers[usize::from(to)];
        let refused = core.counters().cachelets_refused;
        core.handle_whole_message(now, from, message);
        let was_refused = core.counters().cachelets_refused > refused;
        if let Some(cachelet) = came {
            self.report.tell("cachelets given to other workers", 1);
            if was_refused {
                self.report.tell("cachelets that came too late", 1);
                self.lose_cachelets(server, to, &[cachelet]);
            }
        }
        self.pump_worker(server, to);
    }

    /// A worker is handed a map.
    pub(super) fn handle_map(&mut self, server: usize, worker: u16, map: &Arc<ClusterMap>) {
        let s = &mut self.servers[server];
        let Some(id) = s.id else { return };
        let now = s.process.now(self.time);
        let w = &mut s.workers[usize::from(worker)];
        let before = w.epoch();
        let is_taken = w.handle_map(now, map, id);
        let after = w.epoch();
        if is_taken {
            self.let_go(server, worker);
            self.look_at_lease(server, worker);
            self.servers[server].mapped_at[usize::from(worker)] = self.time;
        }
        if after < before {
            self.fail(format!(
                "server {server} went from map {before} back to {after}"
            ));
        }
        self.pump_worker(server, worker);
    }

    /// Hands a map to each worker, not quite at the same time.
    pub(super) fn tell_workers(&mut self, server: usize, map: &Arc<ClusterMap>) {
        self.servers[server].told = map.epoch();
        self.narrate(&[server], || format!("is told of map {}", map.epoch()));
        let map = &self.forged_map(server, map);
        self.check_same_map(map);
        self.handle_map_of_voters(server, map);
        let within = self.forged_delay_of_maps();
        for worker in 0..self.workers_per_server {
            let at = self.in_turn(server, within);
            let life = self.servers[server].process.life;
            let map = map.clone();
            self.at(
                at,
                Event::Map {
                    server,
                    life,
                    worker,
                    map,
                },
            );
        }
    }

    /// A time soon, not before anything else that was said inside of that server.
    pub(super) fn in_turn(&mut self, server: usize, within: Nanos) -> Nanos {
        let at = self.time + 1 + self.random.below(within);
        let s = &mut self.servers[server];
        s.busy_until = at.max(s.busy_until + 1);
        s.busy_until
    }

    /// A message from one worker of a server to another is there.
    pub(super) fn message_event(
        &self,
        server: usize,
        (from, to): (u16, u16),
        message: Message,
    ) -> Event {
        Event::Message {
            server,
            life: self.servers[server].process.life,
            from,
            to,
            message,
        }
    }

    /// A time soon, not before what else was said by one worker of that server to another.
    pub(super) fn in_queue(&mut self, server: usize, queue: (u16, u16), within: Nanos) -> Nanos {
        let at = self.time + 1 + self.random.below(within);
        let busy_until = self.servers[server].queues.entry(queue).or_default();
        *busy_until = at.max(*busy_until + 1);
        *busy_until
    }

    /// Some cachelets go to other workers of their servers.
    pub(super) fn move_cachelets(&mut self) -> bool {
        (0..4).filter(|_| self.move_one()).count() > 0
    }

    fn move_one(&mut self) -> bool {
        let Some((cachelet, owner)) = self.some_cachelet() else {
            return false;
        };
        let server = self.server_of(owner.server);
        server.is_some_and(|server| self.move_within(server, cachelet))
    }

    /// Orders a cachelet to some worker of its server. False when that does not run.
    pub(super) fn move_within(&mut self, server: usize, cachelet: CacheletId) -> bool {
        let process = &self.servers[server].process;
        if !process.alive || process.stopped_until > self.time {
            return false;
        }
        let to = self.random.below(u64::from(self.workers_per_server)) as u16;
        for worker in 0..self.workers_per_server {
            self.time += 1;
            let s = &mut self.servers[server];
            let now = s.process.now(self.time);
            s.workers[usize::from(worker)].order_move(now, cachelet, to);
            self.pump_worker(server, worker);
        }
        self.narrate(&[server], || {
            format!("is to have cachelet {cachelet} at worker {to}")
        });
        true
    }

    /// A server's timer went off.
    pub(super) fn tick_server(&mut self, server: usize) {
        self.ask_for_votes(server);
        for worker in 0..self.workers_per_server {
            self.look_at_lease(server, worker);
            let s = &mut self.servers[server];
            let now = s.process.now(self.time);
            let core = &mut s.workers[usize::from(worker)];
            core.handle_timeout(now);
            core.maintain(now);
            self.pump_worker(server, worker);
        }
    }

    /// When a server's timer should go off.
    pub(super) fn server_deadline(&self, server: usize) -> Option<Nanos> {
        let s = &self.servers[server];
        let next = s.workers.iter().map(WorkerCore::poll_deadline).min()?;
        let next = next.min(s.leases.keeper.poll_deadline());
        Some(s.process.clock.time_of(next))
    }
}
