//! Where a command on one key goes, and how it is carried out.
//!
//! ```text
//!   text ──┐                      ┌─ here: execute ── answer, now or later
//!   get ───┼─ KeyCommand ─ route ─┼─ another worker: forward
//!   binary ┘                      └─ nobody here: what its protocol says to that
//! ```

use crate::WorkerCore;
use crate::commands::key_command::{KeyCommand, Named};
use crate::commands::{self, arithmetic, delete, get, meta_debug, meta_get, store, touch};
use crate::mesh::forwarded::Whose;
use crate::mesh::held::Whom;
use crate::placement::Holder;
use crate::placement::Located;
use crate::session::{ConnectionId, Session};
use crate::shard::engine::At;
use evenkeel_hotkeys::server::{HoldId, Reader};
use evenkeel_protocol::{Moved, Request};
use evenkeel_types::{KeyHash, Now};

/// Where a command on one key goes.
enum Route {
    Here(At),
    Worker(u16, Located),
    /// To the worker that an aware client should have asked, which is told so for its request with this mark.
    Moved(Located, KeyHash, Option<u64>),
    /// Nowhere yet: its key changes its worker.
    Changing,
    /// Nowhere: the server may not serve what it owns at present.
    NoLease,
    /// Nowhere: another server owns the key, and the client cannot be sent there.
    Elsewhere,
}

/// There is no memory for the answer of a command, which was not carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoRoom;

impl WorkerCore {
    /// Carries out a command on one key, or sends it on its way. False when it must be shown again later: its key has to
    /// come to another worker, or there is no memory for its value.
    #[inline]
    pub(crate) fn one_key(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        key: &[u8],
        command: KeyCommand<'_, '_>,
    ) -> bool {
        match self.route(now, session, key, command) {
            Route::Here(at) if command.is_read() && self.is_too_large_now(&at, key) => {
                session.lack_room();
                return false;
            }
            Route::Here(at) => {
                let before = session.sink().len();
                let hold = self.execute(&at, key, command, session.sink());
                if let Some(hold) = hold {
                    let ticket = session.hold_back(before);
                    self.held.add(hold, Whom::Here(id, ticket));
                }
            }
            Route::Worker(worker, located) => {
                let ticket = command.is_answered().then(|| session.await_answer(1));
                let whose = Whose::of(id, session);
                self.forward(worker, whose, ticket, located, command.form(), |out| {
                    command.write(key, out);
                });
            }
            Route::Moved(located, hash, mark) => {
                let moved = self.moved(&located, hash, session, mark);
                command.say_moved(session, &moved);
            }
            Route::Changing => {
                self.wait_for_host(id);
                return false;
            }
            Route::NoLease => {
                self.engine.counters.requests_without_lease += 1;
                command.say_no_lease(session);
            }
            Route::Elsewhere => {
                let why = self.refuse_elsewhere(key);
                command.say_elsewhere(session, why);
            }
        }
        true
    }

    /// Finds where a command on one key goes.
    #[inline]
    fn route(
        &mut self,
        now: Now,
        session: &Session,
        key: &[u8],
        command: KeyCommand<'_, '_>,
    ) -> Route {
        let located = self.locate(key);
        if let Some(named) = command.named(session) {
            let is_held_back = !session.marks.is_empty() && self.is_held_back(session, key, &named);
            return match self.here_by_map(now, &located, command, &named) {
                Some(at) if !is_held_back => Route::Here(command.confine(at, key)),
                _ => self.elsewhere_by_map(now, key, command, &named, is_held_back),
            };
        }
        match located.place.holder() {
            Holder::Worker(worker) if worker == self.config.index => {
                let at = located.at(now, Reader::Unaware);
                Route::Here(command.confine(at, key))
            }
            Holder::Worker(worker) => Route::Worker(worker, located),
            Holder::Changing => Route::Changing,
            Holder::NoLease => Route::NoLease,
            Holder::Elsewhere => Route::Elsewhere,
        }
    }

    /// Where a key is for a client that names a map, if it is here by that map, too. Nothing that such clients ask is on
    /// its way between workers.
    #[inline]
    fn here_by_map(
        &self,
        now: Now,
        located: &Located,
        command: KeyCommand<'_, '_>,
        named: &Named,
    ) -> Option<At> {
        let at = located.at(now, command.reader(named));
        let is_named = named
            .cachelet
            .is_none_or(|cachelet| cachelet == at.cachelet);
        let is_here = at.owned && is_named && named.epoch >= at.since;
        (is_here && self.hosts(&located.place)).then_some(at)
    }

    /// Where a command goes that names a map by which its key is not here, or that was sent before its client had read
    /// what became of those before it.
    #[cold]
    fn elsewhere_by_map(
        &mut self,
        now: Now,
        key: &[u8],
        command: KeyCommand<'_, '_>,
        named: &Named,
        is_held_back: bool,
    ) -> Route {
        let hash = KeyHash::of(key);
        if !is_held_back && self.admit(now, named.epoch, hash) {
            let located = self.locate(key);
            if let Some(at) = self.here_by_map(now, &located, command, named) {
                return Route::Here(command.confine(at, key));
            }
        }
        Route::Moved(self.locate(key), hash, named.mark)
    }

    /// Whether a command was sent before its client had read what became of those before it: see
    /// [`Marks`](crate::session::Marks).
    #[cold]
    fn is_held_back(&self, session: &Session, key: &[u8], named: &Named) -> bool {
        let by_map = || Some(self.map.as_ref()?.locate(KeyHash::of(key)).cachelet);
        let cachelet = named.cachelet.or_else(by_map);
        cachelet.is_some_and(|cachelet| session.marks.hold_back(cachelet, named.mark))
    }

    /// What a client is told whose request with this mark is not carried out here.
    fn moved(
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

    /// Whether commands on keys may take a shorter way than [`execute`](Self::execute): nobody looks on, and no answer
    /// may have to wait.
    #[inline]
    pub(crate) fn has_short_way(&self) -> bool {
        !(self.observers.is_on() || self.engine.hot.is_careful())
    }

    /// Carries a command out at this worker, which holds the key. The one place where commands on keys are seen by who
    /// looks on. Gives what the answer, written to `out`, must wait for, if it must.
    #[inline]
    pub(crate) fn execute(
        &mut self,
        at: &At,
        key: &[u8],
        command: KeyCommand<'_, '_>,
        out: &mut Vec<u8>,
    ) -> Option<HoldId> {
        if self.observers.is_on() {
            self.observed(at, key, command.deed(), |core| {
                core.carry_out(at, key, command, out);
            });
        } else {
            self.carry_out(at, key, command, out);
        }
        match self.engine.hot.is_careful() {
            true => self.find_hold(at, key),
            false => None,
        }
    }

    /// Carries out a command that another worker sent, if its key is here. An answer that nobody awaits is written, too.
    pub(crate) fn execute_forwarded(
        &mut self,
        now: Now,
        located: &Located,
        key: &[u8],
        command: KeyCommand<'_, '_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<HoldId>, NoRoom> {
        if !self.hosts(&located.place) {
            command.say_key_moved(out);
            return Ok(None);
        }
        let at = located.at(now, Reader::Unaware);
        if command.is_read() && self.is_too_large_now(&at, key) {
            return Err(NoRoom);
        }
        Ok(self.execute(&command.confine(at, key), key, command, out))
    }

    fn carry_out(&mut self, at: &At, key: &[u8], command: KeyCommand<'_, '_>, out: &mut Vec<u8>) {
        let engine = &mut self.engine;
        match command {
            KeyCommand::Get(form) => match form.touch {
                None => get::get_key(engine, at, key, form.with_cas, out),
                Some(exptime) => {
                    let expiry = engine.time.expiry(at.now, exptime);
                    get::get_and_touch_key(engine, at, key, expiry, form.with_cas, out);
                }
            },
            KeyCommand::Text(request, _) => self.carry_out_text(at, key, request, out),
            KeyCommand::Binary(request, _) => commands::binary::answer(engine, at, request, out),
        }
    }

    fn carry_out_text(&mut self, at: &At, key: &[u8], request: &Request<'_>, out: &mut Vec<u8>) {
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
}
