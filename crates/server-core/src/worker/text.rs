//! What to do with a parsed request of the text protocol.

use crate::commands::key_command::{GetForm, KeyCommand, NO_LEASE, key_of, meta_of};
use crate::commands::{replica, store};
use crate::mesh::forwarded::{Form, Whose};
use crate::mesh::message::Task;
use crate::placement::Holder;
use crate::session::address::ReturnAddress;
use crate::session::{ConnectionId, Port, Session};
use crate::shard::time::Seconds;
use crate::worker::core::WorkerCore;
use evenkeel_hotkeys::replication::REPLICA_LIFETIME;
use evenkeel_hotkeys::server::Reader;
use evenkeel_protocol::binary;
use evenkeel_protocol::compose::answer;
use evenkeel_protocol::{Hello, HelloReply, KeyScratch, Keys, Meta, Refusal, Request, text};
use evenkeel_types::{Epoch, Now};

/// Said where somebody who is no server says what only servers do.
const ONLY_SERVERS: &[u8] = b"SERVER_ERROR only servers say that, and on a worker's port\r\n";

impl WorkerCore {
    /// Carries a command out, or sends it on its way. False when it must be shown again later.
    pub(crate) fn dispatch(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        request: &Request<'_>,
        frame: &[u8],
    ) -> bool {
        if let Some((keys, form)) = GetForm::of(request) {
            return self.multi_get(now, id, session, keys, form);
        }
        match request {
            Request::MetaNoop => session.sink().extend_from_slice(text::META_NOOP),
            Request::Version => answer::version(session.sink(), evenkeel_types::VERSION),
            Request::Verbosity { level, noreply } => {
                self.whole(now, id, session, Task::Verbosity(*level), *noreply);
            }
            Request::Quit => session.closing = true,
            Request::Hello(hello) => self.agree(id, session, hello),
            Request::Migrate(migrate) => {
                if !self.refuses_stranger(session) {
                    self.hear_source(now, id, session, *migrate);
                }
            }
            Request::FlushAll { delay, noreply } => {
                self.flush_all(now, id, session, *delay, *noreply);
            }
            Request::Stats { arguments } => return self.stats(now, id, session, arguments),
            Request::Admin(admin) => return self.admin(now, id, session, admin),
            Request::Get { .. } | Request::GetAndTouch { .. } => unreachable!("a form of get"),
            Request::Store(_)
            | Request::Delete { .. }
            | Request::Arithmetic { .. }
            | Request::Touch { .. }
            | Request::MetaGet(_)
            | Request::MetaSet(_)
            | Request::MetaDelete(_)
            | Request::MetaArithmetic(_)
            | Request::MetaDebug { .. } => {
                return self.key_request(now, id, session, request, frame);
            }
        }
        true
    }

    /// A refused request is answered, and the item that it meant to replace goes. False when it must wait
    /// for that item to come to another worker.
    pub(crate) fn refuse(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        refusal: &Refusal<'_>,
    ) -> bool {
        let mut scratch = KeyScratch::default();
        let key = refusal.invalidates.map(|sent| sent.decode(&mut scratch));
        if key.is_some_and(|key| self.waits_for_host(id, key)) {
            return false;
        }
        if key.is_some_and(|key| self.has_no_lease(key)) {
            // What it meant to replace stays, and may be read again.
            self.engine.counters.requests_without_lease += 1;
            session.sink().extend_from_slice(NO_LEASE);
            return true;
        }
        self.engine.counters.protocol_errors += 1;
        self.engine.counters.store_too_large += u64::from(refusal.too_large);
        session.sink().extend_from_slice(refusal.reply);
        if let Some(key) = key {
            self.observe_refusal(now, key);
            self.invalidate(now, key);
        }
        true
    }

    /// Whether the server owns a key and may not serve it.
    pub(crate) fn has_no_lease(&self, key: &[u8]) -> bool {
        self.locate(key).place.holder() == Holder::NoLease
    }

    /// Removes the item that a refused value was to replace, at whichever worker holds it.
    pub(crate) fn invalidate(&mut self, now: Now, key: &[u8]) {
        let located = self.locate(key);
        match located.place.holder() {
            Holder::Worker(worker) if worker == self.config.index => {
                let at = located.at(now, Reader::Unaware);
                store::invalidate(&mut self.engine, &at, key);
            }
            Holder::Worker(worker) => {
                // In binary, because no line of text can hold every key that base64 can.
                let mut delete = binary::Request::new(binary::Command::Delete { key });
                delete.quiet = true;
                self.forward(
                    worker,
                    Whose::default(),
                    None,
                    located,
                    Form::Frame,
                    |frame| delete.write(frame),
                );
            }
            Holder::Changing | Holder::NoLease | Holder::Elsewhere => {}
        }
    }

    /// Carries out a request on one key, or of servers about their copies of one. False when it must be shown again later.
    fn key_request(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        request: &Request<'_>,
        frame: &[u8],
    ) -> bool {
        let meta = meta_of(request);
        if !session.agreed && meta.is_some_and(|meta| meta.flags.uses_extension()) {
            self.engine.counters.protocol_errors += 1;
            let reply = answer::unknown_flag(request);
            session.sink().extend_from_slice(reply);
            return true;
        }
        let mut scratch = KeyScratch::default();
        let key = key_of(request, &mut scratch);
        if let Some(meta) = meta.filter(|meta| meta.flags.has(b'G')) {
            let is_read = matches!(request, Request::MetaGet(_));
            if !is_read && self.refuses_stranger(session) {
                return true;
            }
            if self.stage(now, id, session, key, request, meta) {
                return true;
            }
            let epoch = meta.flags.unsigned(b'Y').map_or(Epoch(0), Epoch);
            if !is_read && self.waits_for_map(now, id, epoch) {
                return false;
            }
            self.replica_command(now, key, request, meta, session.sink());
            return true;
        }
        self.one_key(now, id, session, key, KeyCommand::Text(request, frame))
    }

    /// A command with `G`: it concerns the replica index, wherever the key's home is.
    fn replica_command(
        &mut self,
        now: Now,
        key: &[u8],
        request: &Request<'_>,
        meta: &Meta<'_>,
        out: &mut Vec<u8>,
    ) {
        let at = self.locate(key).at(now, Reader::Unaware);
        let lifetime = Seconds::try_from(REPLICA_LIFETIME.as_secs()).unwrap_or(Seconds::MAX);
        match request {
            Request::MetaSet(_) => {
                replica::replica_set(&mut self.engine, &at, key, meta, lifetime, out);
            }
            Request::MetaDelete(_) => {
                replica::replica_delete(&mut self.engine, &at, key, meta, lifetime, out);
            }
            Request::MetaGet(_) => replica::replica_get(&mut self.engine, &at, key, meta, out),
            _ => out.extend_from_slice(answer::unknown_flag(request)),
        }
    }

    /// A get of any number of keys: those held here are answered in place, others are asked for one
    /// by one. Stops when the connection has to wait, and goes on from there when shown again.
    fn multi_get(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        keys: Keys<'_>,
        form: GetForm,
    ) -> bool {
        for key in keys.iter().skip(session.keys_done) {
            if session.is_paused() || self.outbox.is_full() {
                return false;
            }
            if !self.one_key(now, id, session, key, KeyCommand::Get(form)) {
                return false;
            }
            session.keys_done += 1;
        }
        session.end_get();
        true
    }

    /// Reserves the place of an answer in a connection's order.
    pub(crate) fn expect(
        &mut self,
        id: ConnectionId,
        session: &mut Session,
        shares: u16,
    ) -> ReturnAddress {
        ReturnAddress {
            connection: id,
            ticket: session.await_answer(shares),
        }
    }

    /// Whether what only servers say came to a port where they do not speak; then that is told.
    fn refuses_stranger(&mut self, session: &mut Session) -> bool {
        if session.peer.port == Port::Worker {
            return false;
        }
        self.engine.counters.strangers_refused += 1;
        session.sink().extend_from_slice(ONLY_SERVERS);
        true
    }

    /// The extension's hello. A home's newest link ends its older ones: what they still hold unread
    /// must not arrive after what the newer one brings.
    fn agree(&mut self, id: ConnectionId, session: &mut Session, hello: &Hello) {
        let is_server = hello.from.is_some() || hello.vote.is_some();
        if is_server && self.refuses_stranger(session) {
            return;
        }
        session.agreed = true;
        session.epoch = hello.epoch;
        session.marks.clear();
        // A connection is the link of one home, the last that it says, so that there are no more of them than connections.
        self.home_links.retain(|_, link| *link != id);
        if let Some(home) = hello.from
            && let Some(older) = self
                .home_links
                .insert(home, id)
                .filter(|older| *older != id)
            && let Some(older_session) = self.session(older)
        {
            older_session.closing = true;
            self.connections.touch(older);
        }
        let vote = hello
            .vote
            .map(|(server, boot)| self.vote(server, boot, hello.epoch));
        answer::hello(
            session.sink(),
            &HelloReply {
                version: Hello::VERSION,
                worker: self.me(),
                boot: self.config.boot,
                epoch: self.placement.epoch(),
                lease_ms: self.engine.hot.promise().lease_ms,
                vote,
            },
        );
    }
}
