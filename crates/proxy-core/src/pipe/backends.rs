//! The connections to servers of all pools.

use crate::composed::parse_own;
use crate::failure::Failure;
use crate::ids::BackendId;
use crate::outage::{ServerState, StateChange};
use crate::output::{Outbox, Output};
use crate::pipe::backend::{Backend, Link, Peer, Refused};
use crate::pipe::capability::Capability;
use crate::pipe::in_flight::Question;
use crate::pipe::login;
use crate::pipe::room::{self, Room};
use crate::racks::Racks;
use crate::slab::Slab;
use crate::stats::counters::ProxyStats;
use crate::stats::per_route::PerRoute;
use core::mem;
use evenkeel_protocol::{KeyScratch, Request, compose};
use evenkeel_schemes::mark;
use evenkeel_types::{Epoch, Instant};

/// The connections to servers, by name.
#[derive(Debug, Default)]
pub(crate) struct Backends {
    slab: Slab<Backend>,
    /// Whether a memcached is out of use.
    has_outage: bool,
    /// Whether it matters what servers of pools of any memcached understand.
    wants_capability: bool,
}

impl Backends {
    /// A new connection, which is not made yet.
    pub fn insert(&mut self, backend: Backend) -> BackendId {
        BackendId(self.slab.insert(backend))
    }

    #[inline]
    pub fn get(&self, id: BackendId) -> Option<&Backend> {
        self.slab.get(id.0)
    }

    #[inline]
    pub fn get_mut(&mut self, id: BackendId) -> Option<&mut Backend> {
        self.slab.get_mut(id.0)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Backend> {
        self.slab.iter().map(|(_, backend)| backend)
    }

    /// The names of all of them.
    pub fn ids(&self) -> Vec<BackendId> {
        self.slab.keys().into_iter().map(BackendId).collect()
    }

    /// The driver writes to a connection as it was told.
    #[inline]
    pub fn written_by_driver(&mut self, id: BackendId) {
        if let Some(backend) = self.get_mut(id) {
            backend.write_queued = false;
        }
    }

    /// There is something for the driver to write.
    #[inline]
    pub fn write(&mut self, outbox: &mut Outbox, id: BackendId) {
        if let Some(backend) = self.get_mut(id)
            && !backend.write_queued
        {
            backend.write_queued = true;
            outbox.push(Output::WriteBackend(id));
        }
    }

    /// Whether a backend takes a request of at most that many bytes now.
    #[inline]
    pub fn admit(
        &mut self,
        stats: &mut ProxyStats,
        to: BackendId,
        len_max: usize,
    ) -> Result<BackendId, Failure> {
        let backend = self.get_mut(to).ok_or(Failure::NoOwner)?;
        match backend.admit(len_max) {
            Ok(()) => Ok(to),
            Err(Refused::Down) => Err(backend.unavailable()),
            Err(Refused::Full) => {
                stats.backend_queue_full += 1;
                Err(Failure::Busy(backend.name.clone()))
            }
        }
    }

    /// Has the driver connect.
    pub fn connect(&mut self, outbox: &mut Outbox, now: Instant, id: BackendId) {
        let Some(backend) = self.get_mut(id) else {
            return;
        };
        let until = now + backend.connect_timeout;
        backend.connecting(until);
        outbox.push(Output::Connect {
            id,
            host: backend.host.clone(),
            port: backend.port,
            tls: backend.tls,
        });
        outbox.due_at(until);
    }

    /// No further requests; closed when those under way are answered.
    pub fn retire(&mut self, outbox: &mut Outbox, routes: &mut PerRoute, id: BackendId) {
        if let Some(backend) = self.get_mut(id) {
            backend.retired = true;
        }
        self.close_if_retired(outbox, routes, id);
    }

    /// Closes a connection that its pool no longer has, once nothing is awaited from it.
    #[inline]
    pub fn close_if_retired(&mut self, outbox: &mut Outbox, routes: &mut PerRoute, id: BackendId) {
        let Some(backend) = self.get(id) else {
            return;
        };
        if backend.retired && backend.queued_requests() == 0 {
            if !matches!(backend.link, Link::Idle | Link::Down { .. }) {
                outbox.push(Output::CloseBackend(id));
            }
            if let Some(mut backend) = self.slab.remove(id.0) {
                backend.stopwatch.flush(routes);
                if let Some(pool) = backend.outage.forget() {
                    outbox.push(Output::ServerState(Box::new(ServerState {
                        pool,
                        server: backend.name,
                        change: StateChange::Left,
                    })));
                }
            }
        }
    }

    /// Whether a server takes requests as far as its connection is concerned.
    pub fn takes_requests(&self, id: BackendId) -> bool {
        self.get(id).is_some_and(Backend::takes_requests)
    }

    /// Whether a server is in use.
    pub fn is_in_use(&self, id: BackendId) -> bool {
        self.get(id)
            .is_some_and(|backend| backend.health.is_in_use())
    }

    /// How far away a server is, in microseconds, if it has answered anything lately.
    pub fn distance_us(&self, now: Instant, id: BackendId) -> Option<u64> {
        self.get(id)?.stopwatch.distance_us(now)
    }

    /// Whether any memcached is out of use, as far as was looked.
    #[inline]
    pub fn has_outage(&self) -> bool {
        self.has_outage
    }

    /// Looks where each stands.
    pub fn find_racks(&mut self, racks: &Racks) {
        for id in self.ids() {
            if let Some(backend) = self.get_mut(id) {
                backend.find_rack(racks);
            }
        }
    }

    /// Looks whether any memcached is out of use.
    pub fn look_for_outages(&mut self) {
        let is_out =
            |backend: &Backend| backend.peer == Peer::Memcached && !backend.health.is_in_use();
        let has_outage = self.iter().any(is_out);
        self.has_outage = has_outage;
    }

    /// From now on it matters what servers understand. True if it did not before.
    pub fn want_capability(&mut self) -> bool {
        !mem::replace(&mut self.wants_capability, true)
    }

    /// Connects to the servers that were never asked anything, if what they understand matters.
    pub fn greet_strangers(&mut self, outbox: &mut Outbox, now: Instant) {
        if !self.wants_capability {
            return;
        }
        for id in self.ids() {
            let backend = self.get(id);
            if backend.is_some_and(|backend| backend.link == Link::Idle && is_stranger(backend)) {
                self.connect(outbox, now, id);
            }
        }
    }

    /// Whether any server that was never asked anything is about to say who it is.
    pub fn await_greetings(&self) -> bool {
        let is_under_way =
            |link: Link| matches!(link, Link::Connecting { .. } | Link::Greeting { .. });
        self.iter()
            .any(|backend| is_under_way(backend.link) && is_stranger(backend))
    }

    /// A server has missed the write of a key, or perhaps.
    pub fn note_missed(&mut self, id: BackendId, key: &[u8]) {
        let Some(backend) = self.get_mut(id) else {
            return;
        };
        if backend.peer != Peer::Memcached {
            return;
        }
        if backend.invalidations.note(key) {
            backend.counters.missed += 1;
        } else {
            backend.counters.missed_unnoted += 1;
        }
    }

    /// A server that is in use, but not connected to at the moment, has refused the write of a key.
    /// Keys of one that is out of use are noted when another place is looked for.
    pub fn note_refused(&mut self, id: BackendId, key: &[u8]) {
        if self.is_in_use(id) {
            self.note_missed(id, key);
        }
    }

    /// A server has missed a request, or perhaps.
    pub fn note_missed_request(&mut self, id: BackendId, question: &Question) {
        // A replica that is not stored is one that is not found.
        if !question.tag.is_read && !question.tag.is_replica {
            self.note_missed_write(id, &question.bytes);
        }
    }

    /// A server has missed this write, or perhaps.
    pub fn note_missed_write(&mut self, id: BackendId, bytes: &[u8]) {
        let mut scratch = KeyScratch::default();
        let key = match parse_own(bytes) {
            Some(Request::Store(store)) => store.key,
            Some(Request::Delete { key, .. } | Request::Arithmetic { key, .. }) => key,
            Some(
                Request::MetaSet(meta) | Request::MetaDelete(meta) | Request::MetaArithmetic(meta),
            ) => meta.key.decode(&mut scratch),
            Some(Request::FlushAll { .. }) => return self.note_missed_flush(id),
            _ => return,
        };
        self.note_missed(id, key);
    }

    /// A server has missed a `flush_all`, or perhaps.
    pub fn note_missed_flush(&mut self, id: BackendId) {
        if let Some(backend) = self.get_mut(id)
            && backend.peer == Peer::Memcached
        {
            backend.invalidations.note_flush();
            backend.counters.missed += 1;
        }
    }

    /// Counts for each route what was answered last.
    pub fn flush_runs(&mut self, routes: &mut PerRoute) {
        for id in self.ids() {
            if let Some(backend) = self.get_mut(id) {
                backend.stopwatch.flush(routes);
            }
        }
    }

    /// Finds out who answers on a connection that stands. A worker is told the epoch of its pool's map.
    pub fn greet(&mut self, outbox: &mut Outbox, id: BackendId, until: Instant, epoch: Epoch) {
        let Some(backend) = self.get_mut(id) else {
            return;
        };
        match backend.peer {
            Peer::Worker(_) => backend.greet(until, |out| compose::request::hello(out, epoch)),
            Peer::Memcached => {
                let login = backend.login_to_say();
                let is_tried = backend.is_to_be_tried();
                let is_measured = backend.room.as_mut().is_some_and(Room::is_to_be_asked);
                backend.greet(until, |out| {
                    if let Some(login) = login {
                        login::compose(out, &login);
                    }
                    if is_tried {
                        out.extend_from_slice(mark::TRIAL);
                    }
                    if is_measured {
                        out.extend_from_slice(room::QUESTION);
                    }
                    compose::request::version(out);
                });
            }
        }
        self.write(outbox, id);
        outbox.due_at(until);
    }
}

/// Whether it is not known yet what a server understands that can be asked.
fn is_stranger(backend: &Backend) -> bool {
    backend.peer == Peer::Memcached
        && backend.capability == Capability::Unknown
        && backend.takes_requests()
}
