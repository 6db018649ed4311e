//! Compares what homes answer with what they must hold, and keeps the [`Register`](super::register::Register) up to date.

use super::World;
use super::command::{Change, Command};
use super::plan::FIRST_MISHAP;
use super::register::{EXPIRY_SLACK, Expiry, Held, ON_THE_LINK_MAX, There};
use crate::history::WriteId;
use evenkeel_coordinator_core::MigrationEnd;
use evenkeel_protocol::{
    Limits, MetaReply, MetaStatus, Reply, ReplyOutcome, StoreMode, parse_reply,
};
use evenkeel_types::{CacheletId, Epoch, KeyHash};

/// What a command was answered, in meta words or in classic ones; `None` when it was refused.
pub(super) fn told<'a>(
    answer: &'a [u8],
    limits: &Limits,
) -> Option<(MetaStatus, Option<MetaReply<'a>>)> {
    let ReplyOutcome::Reply { reply, .. } = parse_reply(answer, limits) else {
        return None;
    };
    match reply {
        Reply::Meta(meta) => Some((meta.status, Some(meta))),
        Reply::Stored | Reply::Deleted | Reply::Touched | Reply::Number(_) => {
            Some((MetaStatus::Done, None))
        }
        Reply::NotStored => Some((MetaStatus::NotStored, None)),
        Reply::Exists => Some((MetaStatus::Exists, None)),
        Reply::NotFound => Some((MetaStatus::NotFound, None)),
        _ => None,
    }
}

impl World {
    /// A worker has executed a command, or refused to.
    pub(super) fn observe(&mut self, server: usize, worker: u16, command: &Command, answer: &[u8]) {
        let key = usize::from(command.key);
        match &command.change {
            Change::ReplicaStore
            | Change::ReplicaRemove
            | Change::ReplicaBlock
            | Change::ReplicaRead => return,
            Change::Flush => return self.lose_worker(server, worker),
            _ => {}
        }
        // By the clock as it was read at the beginning of the turn.
        let at = self.servers[server].leases.read(self.time);
        self.register.expire(key, at);
        let limits = Limits::default();
        // Refused: with an error, or because the key is another worker's.
        let Some((status, shown)) = told(answer, &limits) else {
            return;
        };
        let there = self.register.there(key, at);
        let is_done = matches!(status, MetaStatus::Done | MetaStatus::Value);
        let known = self.register.held[key]
            .as_ref()
            .and_then(|held| held.version);
        let needs = match (&command.change, status) {
            // Not there: what it can be that says so.
            (_, MetaStatus::Miss | MetaStatus::NotFound) => There::No,
            (Change::Store { mode, .. }, MetaStatus::NotStored) => match mode {
                StoreMode::Set => {
                    return self.fail(format!("a home refused to set key {key}"));
                }
                StoreMode::Add => There::Yes,
                _ => There::No,
            },
            (Change::Store { expects, .. }, MetaStatus::Exists) => {
                if known.is_some() && known == *expects {
                    self.fail(format!(
                        "a home refused to swap version {known:?} of key {key}"
                    ));
                }
                There::Yes
            }
            (Change::Store { mode, expects, .. }, _) if is_done => {
                if known.is_some() && expects.is_some() && known != *expects {
                    self.fail(format!("key {key} had version {known:?}, not {expects:?}"));
                }
                match (mode, expects) {
                    (StoreMode::Add, _) => There::No,
                    (StoreMode::Set, None) => There::Perhaps,
                    _ => There::Yes,
                }
            }
            _ => There::Yes,
        };
        if needs != There::Perhaps && there != There::Perhaps && needs != there {
            let held = &self.register.held[key];
            return self.fail(format!(
                "server {server}, worker {worker} answered {status:?} to {:?} of key {key}, of which \
                 {held:?} is known",
                command.change
            ));
        }
        if needs == There::No && !is_done && there == There::Perhaps {
            // So it has expired.
            if let Some(held) = &mut self.register.held[key] {
                held.lapsed = true;
            }
            self.report.tell("expiries seen", 1);
        }
        let is_read = matches!(command.change, Change::Read | Change::Touch(_));
        if let Some(shown) = shown.filter(|_| is_read) {
            self.check_shown(key, &shown);
        }
        if is_done {
            self.apply(server, worker, key, &command.change);
        }
    }

    /// The value that a home shows is the one that it was given, and its version is its own.
    fn check_shown(&mut self, key: usize, reply: &MetaReply<'_>) {
        let (Some(held), Some(shown)) = (&mut self.register.held[key], reply.value) else {
            return;
        };
        if held.content != shown {
            let (has, shown) = (
                held.content.escape_ascii().to_string(),
                shown.escape_ascii(),
            );
            let words = format!("the home of key {key} showed {shown} and holds {has}");
            return self.fail(words);
        }
        let Some(version) = reply.flags.unsigned(b'c') else {
            return;
        };
        held.version = Some(version);
        let Some(&id) = self.register.named[key].get(shown) else {
            return;
        };
        let first = *self.register.versions[key].entry(version).or_insert(id);
        if first != id {
            self.fail(format!(
                "version {version} of key {key} was given to {first:?} and to {id:?}"
            ));
        }
    }

    /// A command has been executed.
    fn apply(&mut self, server: usize, worker: u16, key: usize, change: &Change) {
        let now = self.time;
        let at = self.servers[server].leases.read(now);
        let before = self.register.held[key].as_ref();
        let content_before = before.map(|held| held.content.clone()).unwrap_or_default();
        let expiry_before = before.and_then(|held| held.expiry);
        let (content, expiry, id) = match change {
            Change::Store {
                mode,
                value,
                exptime,
                ..
            } => {
                let id = self.register.sender_of(value);
                match mode {
                    StoreMode::Append => {
                        ([&content_before, &value[..]].concat(), expiry_before, id)
                    }
                    StoreMode::Prepend => {
                        ([value, &content_before[..]].concat(), expiry_before, id)
                    }
                    _ => (value.clone(), Expiry::new(at, *exptime), id),
                }
            }
            Change::Increase(by) => {
                let number = String::from_utf8_lossy(&content_before).parse::<u64>();
                let sum = number.unwrap_or(0).wrapping_add(*by).to_string();
                let id = self.register.numbers.get(by).copied();
                (sum.into_bytes(), expiry_before, id)
            }
            Change::Remove => return self.log_state(key, None),
            Change::Touch(exptime) => {
                self.register.may_have_lapsed(key, now);
                if let Some(held) = &mut self.register.held[key] {
                    held.expiry = Expiry::new(at, *exptime);
                }
                return;
            }
            _ => return,
        };
        let Some(id) = id else {
            return self.fail(format!("key {key} was given a value that nobody sent"));
        };
        let held = Held {
            server,
            worker,
            content,
            expiry,
            lapsed: false,
            version: None,
        };
        self.hold(key, id, held);
    }

    fn hold(&mut self, key: usize, id: WriteId, held: Held) {
        if let Some(other) = &self.register.held[key]
            && (other.server, other.worker) != (held.server, held.worker)
        {
            let places = [(other.server, other.worker), (held.server, held.worker)];
            self.fail(format!("key {key} has two homes, {places:?}"));
        }
        self.register.named[key].insert(held.content.clone(), id);
        self.register.may_have_lapsed(key, self.time);
        self.register.held[key] = Some(held);
        self.log_state(key, Some(id));
    }

    fn log_state(&mut self, key: usize, state: Option<WriteId>) {
        if state.is_none() {
            self.register.may_have_lapsed(key, self.time);
        }
        let held = &mut self.register.held[key];
        if state.is_none() && held.take().is_none() {
            return;
        }
        let server = held.as_ref().map(|held| held.server);
        self.register.note(key, self.time, state);
        if self.listener.is_some() {
            let name = String::from_utf8_lossy(&self.keys[key]).into_owned();
            let hosts: Vec<usize> = server.into_iter().collect();
            self.narrate(&hosts, || match state {
                Some(id) => format!("home: {name} is {id:?} from now on"),
                None => format!("home: {name} is gone"),
            });
        }
    }

    /// Everything that one worker is home of is gone.
    pub(super) fn lose_worker(&mut self, server: usize, worker: u16) {
        self.note_flush(server, worker);
        self.lose(|held, _| (held.server, held.worker) == (server, worker));
    }

    /// Everything that a server is home of is gone.
    pub(super) fn lose_everything(&mut self, server: usize) {
        self.lose(|held, _| held.server == server);
    }

    /// A worker has forgotten what a map gives to others.
    pub(super) fn let_go(&mut self, server: usize, worker: u16) {
        let core = &self.servers[server].workers[usize::from(worker)];
        let keys = self.keys.iter();
        let gone: Vec<_> = keys.map(|key| !core.keeps_key(key)).collect();
        self.lose_keys(server, worker, &gone);
    }

    /// Keys of a worker, by their numbers, are gone.
    fn lose_keys(&mut self, server: usize, worker: u16, gone: &[bool]) {
        for key in (0..self.keys.len()).filter(|key| gone[*key]) {
            self.register.expire(key, self.time);
            let held = self.register.held[key].as_ref();
            if held.is_some_and(|held| (held.server, held.worker) == (server, worker)) {
                self.lose_key(key);
            }
        }
    }

    /// The cachelet of a key, which is the same in all maps.
    fn cachelet_of(&self, key: usize) -> Option<CacheletId> {
        let map = self.coordinator.core.map()?;
        Some(map.locate(KeyHash::of(&self.keys[key])).cachelet)
    }

    /// A cachelet has left a worker of a server, for another one or [`ON_THE_WAY`] to one.
    pub(super) fn carry(&mut self, server: usize, cachelet: CacheletId, to: u16) {
        for key in 0..self.keys.len() {
            let is_in = self.cachelet_of(key) == Some(cachelet);
            if let Some(held) = &mut self.register.held[key]
                && held.server == server
                && is_in
            {
                held.worker = to;
            }
        }
    }

    /// A cachelet has passed to another server, with its contents. True if any key was in it. The target counts
    /// by a clock of its own, and errs on the early side.
    pub(super) fn carry_over(
        &mut self,
        source: usize,
        cachelet: CacheletId,
        target: usize,
        worker: u16,
    ) -> bool {
        let Some(map) = self.coordinator.core.map().cloned() else {
            return false;
        };
        let mut any = false;
        for key in 0..self.keys.len() {
            let place = map.locate(KeyHash::of(&self.keys[key]));
            if let Some(held) = &mut self.register.held[key]
                && held.server == source
                && place.cachelet == cachelet
            {
                (held.server, held.worker) = (target, worker);
                if let Some(expiry) = &mut held.expiry {
                    let early = 2 * EXPIRY_SLACK + ON_THE_LINK_MAX;
                    expiry.from = expiry.from.saturating_sub(early);
                }
                any = true;
            }
        }
        any
    }

    /// Some cachelets of a worker are emptied.
    pub(super) fn lose_cachelets(&mut self, server: usize, worker: u16, cachelets: &[CacheletId]) {
        let is_in = |key| (self.cachelet_of(key)).is_some_and(|its| cachelets.contains(&its));
        let gone: Vec<_> = (0..self.keys.len()).map(is_in).collect();
        self.lose_keys(server, worker, &gone);
    }

    /// A migration whose target was to have a cachelet has left nothing of it there.
    pub(super) fn lose_migrated(&mut self, server: usize, worker: u16, cachelet: CacheletId) {
        let Some(map) = self.coordinator.core.map().cloned() else {
            return;
        };
        self.lose(|held, key| {
            (held.server, held.worker) == (server, worker)
                && map.locate(KeyHash::of(key)).cachelet == cachelet
        });
    }

    /// Contents that begin anew with a map later than this are gone from where they were.
    pub(super) fn lose_begun_anew(&mut self, before: Epoch) {
        let Some(map) = self.coordinator.core.map().cloned() else {
            return;
        };
        self.lose(|_, key| {
            let cachelet = map.locate(KeyHash::of(key)).cachelet;
            map.document().since[usize::from(cachelet.0)] > before
        });
    }

    fn lose(&mut self, is_lost: impl Fn(&Held, &[u8]) -> bool) {
        for key in 0..self.keys.len() {
            let held = self.register.held[key].as_ref();
            if held.is_some_and(|held| is_lost(held, &self.keys[key])) {
                self.register.expire(key, self.time);
                self.lose_key(key);
            }
        }
    }

    /// What a key held is gone, though nobody has removed it.
    fn lose_key(&mut self, key: usize) {
        let is_held = self.register.there(key, self.time) == There::Yes;
        if is_held && self.time >= FIRST_MISHAP && self.plan.swarm.is_gentle() {
            let counts = self.coordinator.core.migration_counts();
            // What cannot migrate is released, and begins anew elsewhere.
            if counts.ended[&MigrationEnd::Aborted] == 0 {
                let held = self.register.held[key].as_ref();
                let place = held.map(|held| (held.server, held.worker));
                let by_map = self.coordinator.core.map().map(|map| {
                    let its = map.locate(KeyHash::of(&self.keys[key]));
                    let since = map.document().since[usize::from(its.cachelet.0)];
                    (map.epoch(), its, since)
                });
                self.fail(format!(
                    "what key {key} held is lost on its way at {place:?}, where the map says {by_map:?}"
                ));
            }
        }
        self.log_state(key, None);
    }
}
