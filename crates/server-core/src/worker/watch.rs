//! `watch`: connections that read what happens, at whichever worker it does.

use crate::mesh::message::{Message, Task};
use crate::observe::Lines;
use crate::observe::watcher::CloseReason;
use crate::observe::watcher::WATCHERS_MAX;
use crate::observe::watcher::Watcher;
use crate::session::{ConnectionId, Peer, Session};
use crate::shard::time::TimeBase;
use crate::worker::core::WorkerCore;
use evenkeel_protocol::admin::{self, Streams};
use evenkeel_protocol::text;
use evenkeel_types::Now;
use std::io::Write;

impl WorkerCore {
    /// Carries out `watch`. From then on the connection is told what happens, and what it says is
    /// not listened to.
    pub(crate) fn watch(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        arguments: &[u8],
    ) {
        let refuse = |session: &mut Session, reply: &[u8]| {
            session.sink().extend_from_slice(reply);
        };
        if !self.config.admin.watch {
            return refuse(session, text::WATCH_NOT_ALLOWED);
        }
        let Some(streams) = admin::watch(arguments) else {
            return refuse(session, text::ERROR);
        };
        if self.observers.watchers_everywhere() >= WATCHERS_MAX {
            return refuse(session, text::TOO_MANY_WATCHERS);
        }
        self.observers.watchers.push(Watcher {
            connection: id,
            streams,
            skipped: 0,
        });
        session.swallow = usize::MAX;
        session.watching = true;
        let task = self.watch_task();
        self.whole(now, id, session, task, false);
    }

    /// A connection is over; if it watched, all workers are told.
    pub(crate) fn forget_watcher(&mut self, id: ConnectionId) {
        let before = self.observers.watchers.len();
        self.observers
            .watchers
            .retain(|watcher| watcher.connection != id);
        if before == self.observers.watchers.len() {
            return;
        }
        let task = self.watch_task();
        let me = self.config.index;
        for worker in (0..self.config.workers).filter(|worker| *worker != me) {
            self.send_whole(worker, None, task);
        }
        self.take_watched(task);
    }

    /// What the watchers of this worker want now.
    fn watch_task(&self) -> Task {
        let watchers = &self.observers.watchers;
        let streams = watchers.iter().fold(Streams::default(), |all, watcher| {
            all.union(watcher.streams)
        });
        Task::Watch {
            worker: self.config.index,
            streams,
            // At most `WATCHERS_MAX`.
            watchers: watchers.len() as u16,
        }
    }

    /// A worker says what its watchers want.
    pub(crate) fn take_watched(&mut self, task: Task) {
        let Task::Watch {
            worker,
            streams,
            watchers,
        } = task
        else {
            return;
        };
        if let Some(target) = self.observers.targets.get_mut(usize::from(worker)) {
            target.streams = streams;
            target.watchers = watchers;
            if streams.is_empty() {
                target.waiting = Lines::default();
            }
        }
        self.observers.update();
        let evictions = self.observers.wants(Streams::EVICTIONS);
        self.engine.store.log_evictions(evictions);
    }

    /// Sends lines that have gathered to the watchers of all workers.
    pub(crate) fn send_lines(&mut self) {
        let now = self.now;
        if self.observers.wants(Streams::EVICTIONS) {
            let log = self.engine.store.take_evictions();
            let seconds = TimeBase::seconds(now);
            for evicted in &log.evicted {
                self.observers.saw_eviction(now, seconds, evicted);
            }
            self.observers.dropped += log.dropped;
        }
        for worker in 0..self.observers.targets.len() {
            let Some(lines) = self.observers.targets[worker].take() else {
                continue;
            };
            if worker == usize::from(self.config.index) {
                self.observers.targets[worker].in_flight = false;
                self.write_to_watchers(&lines);
            } else {
                self.outbox.push(worker as u16, Message::Log(lines));
            }
        }
    }

    /// Another worker took the lines that were sent to it.
    pub(crate) fn lines_taken(&mut self, by: u16) {
        if let Some(target) = self.observers.targets.get_mut(usize::from(by)) {
            target.in_flight = false;
        }
    }

    /// Writes lines to the watchers of this worker, as far as they read.
    pub(crate) fn write_to_watchers(&mut self, lines: &Lines) {
        let mut watchers = core::mem::take(&mut self.observers.watchers);
        let most = self.observers.watcher_bytes_max;
        let (mut sent, mut skipped) = (0, 0);
        for watcher in &mut watchers {
            let Some(session) = self.session(watcher.connection) else {
                continue;
            };
            let wanted = lines
                .iter()
                .filter(|(streams, _)| streams.intersects(watcher.streams));
            for (_, line) in wanted {
                if session.waiting_bytes() + line.len() > most {
                    watcher.skipped += 1;
                    skipped += 1;
                    continue;
                }
                let out = session.sink();
                if watcher.skipped > 0 {
                    // Writing into memory cannot fail.
                    let _ = writeln!(out, "skipped={}", watcher.skipped);
                    watcher.skipped = 0;
                }
                out.extend_from_slice(line);
                sent += 1;
            }
            self.connections.touch(watcher.connection);
        }
        self.observers.watchers = watchers;
        let counters = &mut self.engine.counters;
        counters.log_watcher_sent += sent;
        counters.log_watcher_skipped += skipped;
    }

    /// A connection was made.
    pub(crate) fn observe_open(&mut self, id: ConnectionId) {
        if self.observers.wants(Streams::CONNEVENTS)
            && let Some(session) = self.session(id)
        {
            let peer = session.peer.clone();
            let (now, number) = (self.now, self.connection_number(id));
            self.observers.tell(now, Streams::CONNEVENTS, |line| {
                line.extend_from_slice(b"type=conn_new ");
                write_peer(line, &peer);
                let _ = write!(line, " cfd={number}");
            });
        }
    }

    /// A connection is over.
    pub(crate) fn observe_close(&mut self, id: ConnectionId, reason: CloseReason) {
        if self.observers.wants(Streams::CONNEVENTS)
            && let Some(session) = self.session(id)
        {
            let peer = session.peer.clone();
            let (now, number) = (self.now, self.connection_number(id));
            self.observers.tell(now, Streams::CONNEVENTS, |line| {
                line.extend_from_slice(b"type=conn_close ");
                write_peer(line, &peer);
                let _ = write!(line, " reason={} cfd={number}", reason.word());
            });
        }
    }
}

fn write_peer(line: &mut Vec<u8>, peer: &Peer) {
    // Writing into memory cannot fail.
    let _ = match peer.address {
        Some(address) => write!(
            line,
            "rip={} rport={} transport=tcp",
            address.ip(),
            address.port()
        ),
        None => write!(line, "rip=unix rport=0 transport=local"),
    };
}
