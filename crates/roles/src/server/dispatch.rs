//! Who carries a command out: this worker, another worker of this server, all of them, or nobody
//! here because the key's home is elsewhere.

use super::commands::{arithmetic, delete, get, meta_debug, meta_get, replica, store, touch};
use super::engine::At;
use super::forward::{Form, Whose};
use super::message::{ReturnAddress, Task};
use super::observe::Deed;
use super::placement::{CHANGING, ELSEWHERE, NOBODY};
use super::session::{ConnectionId, Port, Session};
use super::stats;
use super::time::Seconds;
use super::worker::{Located, WorkerCore};
use evenkeel_policy::hot_keys::replication::REPLICA_LIFETIME;
use evenkeel_policy::hot_keys::server::Reader;
use evenkeel_protocol::binary;
use evenkeel_protocol::compose::{answer, request as compose};
use evenkeel_protocol::{
    Hello, HelloReply, KeyScratch, Keys, Meta, MetaFlags, Moved, Refusal, Request, text,
};
use evenkeel_types::{Epoch, KeyHash, Now};

/// Said where somebody who is no server says what only servers do.
const ONLY_SERVERS: &[u8] = b"SERVER_ERROR only servers say that, and on a worker's port\r\n";

/// The server may own the key, and may not serve it.
const NO_LEASE: &[u8] =
    b"SERVER_ERROR no leave to serve this key: neither a coordinator nor enough servers answer\r\n";

/// Where a command on one key goes.
enum Route {
    Here(At),
    Worker(Located),
    /// To the worker that an aware client should have asked.
    Elsewhere(Located, KeyHash),
    /// Nowhere yet: its key changes its worker.
    Nowhere,
    /// Nowhere: the server may not serve what it owns at present.
    NoLease,
    /// Nowhere: another server owns the key, and the client cannot be sent there.
    OfAnother,
}

/// The form of a classic get, for passing single keys on.
#[derive(Clone, Copy)]
pub(super) struct GetForm {
    /// Exptime as sent, for `gat` and `gats`.
    touch: Option<i64>,
    with_cas: bool,
}

impl GetForm {
    /// `get`.
    pub const PLAIN: GetForm = GetForm {
        touch: None,
        with_cas: false,
    };

    /// The keys and the form of a classic get.
    #[inline]
    pub fn of<'a>(request: &Request<'a>) -> Option<(Keys<'a>, GetForm)> {
        let (keys, touch, with_cas) = match *request {
            Request::Get { keys, with_cas } => (keys, None, with_cas),
            Request::GetAndTouch {
                exptime,
                keys,
                with_cas,
            } => (keys, Some(exptime), with_cas),
            _ => return None,
        };
        Some((keys, GetForm { touch, with_cas }))
    }
}

/// Ends the answer to a classic get: with an error where one of its keys is another server's, as that is no miss.
#[inline]
pub(super) fn end_get(session: &mut Session) {
    session.keys_done = 0;
    match session.elsewhere.take() {
        None => session.sink().extend_from_slice(text::END),
        Some(elsewhere) => session.sink().extend_from_slice(&elsewhere.line()),
    }
}

impl WorkerCore {
    /// Carries a command out, or sends it on its way. False when it must be shown again later.
    pub(super) fn dispatch(
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
            Request::Version => answer::version(session.sink(), stats::VERSION),
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
            | Request::MetaDebug { .. } => return self.one_key(now, id, session, request, frame),
        }
        true
    }

    /// A refused request is answered, and the item that it meant to replace goes. False when it must wait
    /// for that item to come to another worker.
    pub(super) fn refuse(
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
        if key.is_some_and(|key| self.locate(key).place.worker == NOBODY) {
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

    /// Removes the item that a refused value was to replace, at whichever worker holds it.
    pub(super) fn invalidate(&mut self, now: Now, key: &[u8]) {
        let located = self.locate(key);
        if [NOBODY, ELSEWHERE].contains(&located.place.worker) {
            return;
        }
        if located.place.worker == self.config.index {
            let at = located.at(now, Reader::Unaware);
            store::invalidate(&mut self.engine, &at, key);
        } else {
            // In binary, because no line of text can hold every key that base64 can.
            let mut delete = binary::Request::new(binary::Command::Delete { key });
            delete.quiet = true;
            self.forward(Whose::default(), None, located, Form::Frame, |frame| {
                delete.write(frame)
            });
        }
    }

    /// Carries out a command on one key. False when it must wait for its key to come to another worker.
    fn one_key(
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
        let flags = meta.map(|meta| &meta.flags);
        if !session.marks.is_empty()
            && let Some((located, hash)) = self.is_held_back(session, key, flags)
        {
            self.point_elsewhere(&located, hash, flags, session);
            return true;
        }
        let mut route = self.route(now, session, key, flags);
        if let Route::Elsewhere(_, hash) = route
            && self.admit_redirected(now, flags, hash)
        {
            route = self.route(now, session, key, flags);
        }
        match route {
            Route::Here(at)
                if matches!(request, Request::MetaGet(_)) && self.is_too_large_now(&at, key) =>
            {
                session.lack_room();
                return false;
            }
            Route::Here(at) => {
                let before = session.sink().len();
                self.execute(&at, key, request, session.sink());
                self.hold_last(id, session, before);
            }
            Route::Worker(located) => {
                let ticket = (!wants_no_reply(request)).then(|| session.await_answer(1));
                self.forward(
                    Whose::of(id, session),
                    ticket,
                    located,
                    Form::Frame,
                    |bytes| {
                        bytes.extend_from_slice(frame);
                    },
                );
            }
            Route::Elsewhere(located, hash) => {
                self.point_elsewhere(&located, hash, flags, session);
            }
            Route::Nowhere => {
                self.wait_for_host(id);
                return false;
            }
            Route::NoLease => {
                self.engine.counters.requests_without_lease += 1;
                reply(session, NO_LEASE, wants_no_reply(request));
            }
            Route::OfAnother => {
                let line = self.refuse_elsewhere(key).line();
                reply(session, &line, wants_no_reply(request));
            }
        }
        true
    }

    /// Finds where a key's command goes. Only a command that names its map (`Y`) can be sent
    /// elsewhere: others come from clients that know no map.
    #[inline]
    fn route(
        &self,
        now: Now,
        session: &Session,
        key: &[u8],
        flags: Option<&MetaFlags<'_>>,
    ) -> Route {
        let epoch = flags
            .filter(|_| session.agreed)
            .and_then(|flags| flags.unsigned(b'Y'))
            .map(Epoch);
        let reader = match (epoch, flags) {
            (Some(epoch), Some(flags)) if is_plain_read(flags) => Reader::Aware { epoch },
            _ => Reader::Unaware,
        };
        let located = self.locate(key);
        let at = located.at(now, reader);
        let is_changing = located.place.worker == CHANGING;
        let is_here = if is_changing && epoch.is_some() {
            // Nothing that an aware client asked is on its way between workers.
            self.hosts(&located.place)
        } else {
            located.place.worker == self.config.index
        };
        if epoch.is_some_and(|epoch| !(at.owned && is_here) || epoch < at.since) {
            Route::Elsewhere(located, at.key_hash(key))
        } else if is_here {
            Route::Here(confine(at, key, flags))
        } else if is_changing {
            Route::Nowhere
        } else if located.place.worker == NOBODY {
            Route::NoLease
        } else if located.place.worker == ELSEWHERE {
            Route::OfAnother
        } else {
            Route::Worker(located)
        }
    }

    /// Whether a command was sent before its client had read what became of those before it: see
    /// [`Marks`](super::session::Marks).
    #[cold]
    fn is_held_back(
        &self,
        session: &Session,
        key: &[u8],
        flags: Option<&MetaFlags<'_>>,
    ) -> Option<(Located, KeyHash)> {
        let flags = flags.filter(|flags| flags.has(b'Y'))?;
        let hash = KeyHash::of(key);
        let cachelet = self.map.as_ref()?.locate(hash).cachelet;
        let is_held_back = session.marks.hold_back(cachelet, flags.unsigned(b'W'));
        is_held_back.then(|| (self.locate(key), hash))
    }

    fn point_elsewhere(
        &mut self,
        located: &Located,
        hash: KeyHash,
        flags: Option<&MetaFlags<'_>>,
        session: &mut Session,
    ) {
        let mark = flags.and_then(|flags| flags.unsigned(b'W'));
        let moved = self.moved(located, hash, session, mark);
        answer::moved(session.sink(), &moved);
    }

    /// What a client is told whose request with this mark is not carried out here.
    pub(super) fn moved(
        &mut self,
        located: &Located,
        hash: KeyHash,
        session: &mut Session,
        mark: Option<u64>,
    ) -> Moved {
        self.engine.counters.moved += 1;
        let mark = self.map.as_ref().map_or(0, |map| {
            let cachelet = map.locate(hash).cachelet;
            session.marks.add(cachelet, mark)
        });
        Moved {
            epoch: self.placement.epoch(),
            owner: self.owner_of(located, hash),
            mark,
        }
    }

    /// Carries a command on one key out at this worker, which holds the key.
    pub(super) fn execute(
        &mut self,
        at: &At,
        key: &[u8],
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) {
        if self.observers.is_on() {
            self.observed(at, key, Deed::of(request), |core| {
                core.carry_out(at, key, request, out);
            });
        } else {
            self.carry_out(at, key, request, out);
        }
        self.look_for_hold(at, key);
    }

    fn carry_out(&mut self, at: &At, key: &[u8], request: &Request<'_>, out: &mut Vec<u8>) {
        let engine = &mut self.engine;
        let mut say = |bytes: &[u8], noreply: bool| {
            if !noreply {
                out.extend_from_slice(bytes);
            }
        };
        match request {
            Request::Store(store) => say(store::store(engine, at, store), store.noreply),
            Request::Delete { noreply, .. } => say(delete::delete(engine, at, key), *noreply),
            Request::Touch {
                exptime, noreply, ..
            } => {
                let expiry = engine.time.expiry(at.now, *exptime);
                say(touch::touch(engine, at, key, expiry), *noreply);
            }
            Request::Arithmetic {
                delta,
                direction,
                noreply,
                ..
            } => {
                let before = out.len();
                arithmetic::arithmetic(engine, at, key, *delta, *direction, out);
                if *noreply {
                    out.truncate(before);
                }
            }
            Request::MetaGet(meta) => meta_get::meta_get(engine, at, key, meta, out),
            Request::MetaSet(meta) => store::meta_set(engine, at, key, meta, out),
            Request::MetaDelete(meta) => delete::meta_delete(engine, at, key, meta, out),
            Request::MetaArithmetic(meta) => {
                arithmetic::meta_arithmetic(engine, at, key, meta, out);
            }
            Request::MetaDebug { key: sent } => {
                meta_debug::meta_debug(engine, at, *sent, key, out);
            }
            Request::Get { .. }
            | Request::GetAndTouch { .. }
            | Request::FlushAll { .. }
            | Request::Version
            | Request::Verbosity { .. }
            | Request::Stats { .. }
            | Request::Quit
            | Request::Admin(_)
            | Request::MetaNoop
            | Request::Hello(_)
            | Request::Migrate(_) => unreachable!("only commands on one key are executed here"),
        }
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
        let (at, _) = self.at(now, key, Reader::Unaware);
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
            let located = self.locate(key);
            if located.place.worker == CHANGING {
                self.wait_for_host(id);
                return false;
            }
            if self.lacks_room(now, session, &located, key) {
                return false;
            }
            self.read_key(now, id, session, located, key, form);
            session.keys_done += 1;
        }
        end_get(session);
        true
    }

    /// Whether a get of a key that is here must wait for memory for its value; then its connection does.
    #[inline]
    pub(super) fn lacks_room(
        &self,
        now: Now,
        session: &mut Session,
        located: &Located,
        key: &[u8],
    ) -> bool {
        let is_here = located.place.worker == self.config.index;
        let lacks = is_here && self.is_too_large_now(&located.at(now, Reader::Unaware), key);
        if lacks {
            session.lack_room();
        }
        lacks
    }

    /// Answers one key of a get, or asks the worker that has it.
    #[inline]
    pub(super) fn read_key(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        located: Located,
        key: &[u8],
        form: GetForm,
    ) {
        if located.place.worker == NOBODY {
            self.engine.counters.requests_without_lease += 1;
            return;
        }
        if located.place.worker == ELSEWHERE {
            session.elsewhere = Some(self.refuse_elsewhere(key));
            return;
        }
        if located.place.worker == self.config.index {
            let at = located.at(now, Reader::Unaware);
            let before = session.sink().len();
            self.get_one(&at, key, form, session.sink());
            return self.hold_last(id, session, before);
        }
        let plain = form.touch.is_none() && !form.with_cas;
        let as_sent = if plain { Form::Key } else { Form::Frame };
        self.forward_awaited(id, session, located, as_sent, |bytes| match form.touch {
            None if plain => bytes.extend_from_slice(key),
            None => compose::get(bytes, [key], form.with_cas),
            Some(exptime) => compose::get_and_touch(bytes, exptime, [key], form.with_cas),
        });
    }

    #[inline]
    pub(super) fn get_one(&mut self, at: &At, key: &[u8], form: GetForm, out: &mut Vec<u8>) {
        if self.observers.is_on() {
            self.observed(at, key, Deed::Read, |core| {
                core.carry_out_get(at, key, form, out);
            });
        } else {
            self.carry_out_get(at, key, form, out);
        }
        self.look_for_hold(at, key);
    }

    fn carry_out_get(&mut self, at: &At, key: &[u8], form: GetForm, out: &mut Vec<u8>) {
        match form.touch {
            None => get::get_key(&mut self.engine, at, key, form.with_cas, out),
            Some(exptime) => {
                let expiry = self.engine.time.expiry(at.now, exptime);
                get::get_and_touch_key(&mut self.engine, at, key, expiry, form.with_cas, out);
            }
        }
    }

    /// Reserves the place of an answer in a connection's order.
    pub(super) fn expect(
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
            self.touched.push_back(older);
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

pub(super) fn reply(session: &mut Session, bytes: &[u8], noreply: bool) {
    if !noreply {
        session.sink().extend_from_slice(bytes);
    }
}

/// Where a key is, for a command with these flags. See [`At::confined_to`].
#[inline]
pub(super) fn confine(at: At, key: &[u8], flags: Option<&MetaFlags<'_>>) -> At {
    match flags {
        Some(flags) if flags.has(b'b') => at.confined_to(key),
        _ => at,
    }
}

/// A read that neither changes the item nor asks to be told to recache it.
fn is_plain_read(flags: &MetaFlags<'_>) -> bool {
    ![b'T', b'N', b'R', b'E']
        .into_iter()
        .any(|flag| flags.has(flag))
}

pub(super) fn meta_of<'r, 'a>(request: &'r Request<'a>) -> Option<&'r Meta<'a>> {
    match request {
        Request::MetaGet(meta)
        | Request::MetaSet(meta)
        | Request::MetaDelete(meta)
        | Request::MetaArithmetic(meta) => Some(meta),
        _ => None,
    }
}

/// The key of a command on one key; empty for other commands.
pub(super) fn key_of<'s, 'a: 's>(request: &Request<'a>, scratch: &'s mut KeyScratch) -> &'s [u8] {
    match request {
        Request::Store(store) => store.key,
        Request::Delete { key, .. }
        | Request::Arithmetic { key, .. }
        | Request::Touch { key, .. } => key,
        Request::MetaGet(meta)
        | Request::MetaSet(meta)
        | Request::MetaDelete(meta)
        | Request::MetaArithmetic(meta) => meta.key(scratch),
        Request::MetaDebug { key } => key.decode(scratch),
        _ => b"",
    }
}

fn wants_no_reply(request: &Request<'_>) -> bool {
    match request {
        Request::Store(store) => store.noreply,
        Request::Delete { noreply, .. }
        | Request::Arithmetic { noreply, .. }
        | Request::Touch { noreply, .. } => *noreply,
        _ => false,
    }
}
