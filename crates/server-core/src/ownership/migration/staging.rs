//! What comes of an incoming cachelet is stored apart.

use super::Migrations;
use super::incoming::Staged;
use crate::session::{ConnectionId, Session};
use crate::shard::engine::Engine;
use crate::shard::time::{NEVER, Seconds, TimeBase};
use evenkeel_protocol::{Meta, Request, text};
use evenkeel_storage::NewItem;
use evenkeel_types::{CacheletId, Now, Version};

impl Migrations {
    /// The cachelet that comes over a connection, if it is as far as that.
    pub(crate) fn cachelet_from(&self, id: ConnectionId, staged: Staged) -> Option<CacheletId> {
        let cachelet = *self.sources.get(&id)?;
        let incoming = self.incoming.get(&cachelet)?;
        (incoming.connection == id && incoming.staged == staged).then_some(cachelet)
    }

    /// A command with `G` on a connection over which a cachelet comes. False on other connections.
    pub(crate) fn stage(
        &mut self,
        engine: &mut Engine,
        now: Now,
        session: &mut Session,
        key: &[u8],
        request: &Request<'_>,
        meta: &Meta<'_>,
    ) -> bool {
        if !self.sources.contains_key(&session.id) {
            return false;
        }
        let Some(cachelet) = self.cachelet_from(session.id, Staged::Partly) else {
            session.say(text::MIGRATE_NO);
            return true;
        };
        let seconds = TimeBase::seconds(now);
        match request {
            Request::MetaSet(_) => stage_item(engine, cachelet, seconds, key, meta),
            Request::MetaDelete(_) => {
                engine.store.delete(cachelet, key, seconds);
            }
            _ => {
                session.say(text::MIGRATE_NO);
                return true;
            }
        }
        if let Some(incoming) = self.incoming.get_mut(&cachelet) {
            incoming.taken.items += 1;
            incoming.taken.bytes += (key.len() + meta.value.len()) as u64;
        }
        let counters = &mut engine.counters;
        counters.migration_items_taken += 1;
        counters.migration_bytes_taken += (key.len() + meta.value.len()) as u64;
        true
    }

    /// A `flush_all` came: what is on its way may be older than it.
    pub(crate) fn flush_ends_incoming(&mut self, engine: &mut Engine) {
        for (cachelet, incoming) in &mut self.incoming {
            incoming.forget_part(*cachelet, engine);
        }
    }

    /// A connection is gone, over which a cachelet may have come.
    pub(crate) fn source_lost(&mut self, engine: &mut Engine, id: ConnectionId) {
        let Some(cachelet) = self.sources.remove(&id) else {
            return;
        };
        let incoming = self.incoming.get_mut(&cachelet);
        let Some(incoming) = incoming.filter(|incoming| incoming.connection == id) else {
            return;
        };
        incoming.forget_part(cachelet, engine);
    }
}

fn stage_item(
    engine: &mut Engine,
    cachelet: CacheletId,
    now: Seconds,
    key: &[u8],
    meta: &Meta<'_>,
) {
    let flags = &meta.flags;
    // By the clock of this server.
    let expires_at = flags
        .unsigned(b'T')
        .and_then(|at| Seconds::try_from(at).ok());
    if expires_at.is_some_and(|at| at <= now) {
        engine.store.delete(cachelet, key, now);
        return;
    }
    let item = NewItem {
        key,
        value: [meta.value, b""],
        flags: flags.client_flags().unwrap_or(0),
        expires_at: expires_at.unwrap_or(NEVER),
        version: Version(flags.unsigned(b'E').unwrap_or(0)),
    };
    let store = &mut engine.store;
    if store.insert(cachelet, item, now).is_err() {
        // Better none than the one before.
        store.delete(cachelet, key, now);
        engine.counters.migration_items_unstored += 1;
        return;
    }
    let (stale, win_sent) = (flags.has(b'X'), flags.has(b'I'));
    if (stale || win_sent)
        && let Some(mut item) = store.get(cachelet, key, now)
    {
        item.set_stale(stale);
        item.set_win_sent(win_sent);
    }
}
