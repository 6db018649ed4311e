//! The target's side of a migration: what comes is stored apart, and served when the source has decided.

use crate::ownership::migration::incoming::Incoming;
use crate::ownership::migration::incoming::Staged;
use crate::ownership::migration::volume::{Volume, stands};
use crate::placement::LocalPlacement;
use crate::session::{ConnectionId, Session};
use crate::shard::time::{NEVER, Seconds, TimeBase};
use crate::worker::core::WorkerCore;
use evenkeel_protocol::compose::answer as compose;
use evenkeel_protocol::{Meta, Migrate, Request, text};
use evenkeel_storage::NewItem;
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{CacheletId, Epoch, KeyHash, Now, Version};

/// Newest version of a source that is believed. No source comes this far: clients may set versions up to 2^63 (`E`), and what
/// servers count on from there would take centuries. As much is left to be counted here.
const NEWEST_VERSION_MAX: u64 = 3 << 62;

impl WorkerCore {
    /// A word from the source of a migration.
    pub(crate) fn hear_source(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        word: Migrate,
    ) {
        let answer = match word {
            _ if !session.agreed => text::ERROR,
            Migrate::Begin {
                cachelet,
                began,
                since,
            } => {
                let answer = self.begin_incoming(now, id, cachelet, began, since);
                if answer.is_empty() {
                    let seconds = TimeBase::seconds(now);
                    compose::number_line(session.sink(), u64::from(seconds));
                }
                answer
            }
            Migrate::Activate { newest } => self.activate(id, newest),
            Migrate::Confirm => match self.cachelet_from(id, Staged::Active) {
                Some(cachelet) => {
                    self.go_live(now, cachelet);
                    text::OK
                }
                None => text::OK,
            },
        };
        session.sink().extend_from_slice(answer);
    }

    /// The answer; empty if it takes part, which it says by telling what its clock shows.
    fn begin_incoming(
        &mut self,
        now: Now,
        id: ConnectionId,
        cachelet: CacheletId,
        began: Epoch,
        since: Epoch,
    ) -> &'static [u8] {
        // Whatever becomes of it: items on this connection are not replicas.
        self.migrations.sources.insert(id, cachelet);
        let me = self.me();
        let Some(map) = self.map.as_ref().filter(|map| map.epoch() >= began) else {
            return text::MIGRATE_LATER;
        };
        if self.has_flushed_lately(now.monotonic) {
            return text::MIGRATE_LATER;
        }
        let is_ordered = stands(map, cachelet, began).is_some_and(|order| order.to == me);
        if !is_ordered || self.migrations.incoming.contains_key(&cachelet) {
            return text::MIGRATE_NO;
        }
        if !self.engine.store.create_cachelet(cachelet) {
            return text::MIGRATE_NO;
        }
        let incoming = Incoming {
            began,
            since,
            connection: id,
            staged: Staged::Partly,
            taken: Volume::default(),
        };
        self.migrations.incoming.insert(cachelet, incoming);
        self.engine.counters.migrations_staged += 1;
        b""
    }

    /// The cachelet that comes over a connection, if it is as far as that.
    fn cachelet_from(&self, id: ConnectionId, staged: Staged) -> Option<CacheletId> {
        let cachelet = *self.migrations.sources.get(&id)?;
        let incoming = self.migrations.incoming.get(&cachelet)?;
        (incoming.connection == id && incoming.staged == staged).then_some(cachelet)
    }

    /// A command with `G` on a connection over which a cachelet comes. False on other connections.
    pub(crate) fn stage(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        key: &[u8],
        request: &Request<'_>,
        meta: &Meta<'_>,
    ) -> bool {
        if !self.migrations.sources.contains_key(&id) {
            return false;
        }
        let Some(cachelet) = self.cachelet_from(id, Staged::Partly) else {
            session.sink().extend_from_slice(text::MIGRATE_NO);
            return true;
        };
        let seconds = TimeBase::seconds(now);
        match request {
            Request::MetaSet(_) => self.stage_item(cachelet, seconds, key, meta),
            Request::MetaDelete(_) => {
                self.engine.store.delete(cachelet, key, seconds);
            }
            _ => {
                session.sink().extend_from_slice(text::MIGRATE_NO);
                return true;
            }
        }
        if let Some(incoming) = self.migrations.incoming.get_mut(&cachelet) {
            incoming.taken.items += 1;
            incoming.taken.bytes += (key.len() + meta.value.len()) as u64;
        }
        let counters = &mut self.engine.counters;
        counters.migration_items_taken += 1;
        counters.migration_bytes_taken += (key.len() + meta.value.len()) as u64;
        true
    }

    fn stage_item(&mut self, cachelet: CacheletId, now: Seconds, key: &[u8], meta: &Meta<'_>) {
        let flags = &meta.flags;
        // By the clock of this server.
        let expires_at = flags
            .unsigned(b'T')
            .and_then(|at| Seconds::try_from(at).ok());
        if expires_at.is_some_and(|at| at <= now) {
            self.engine.store.delete(cachelet, key, now);
            return;
        }
        let item = NewItem {
            key,
            value: [meta.value, b""],
            flags: flags.client_flags().unwrap_or(0),
            expires_at: expires_at.unwrap_or(NEVER),
            version: Version(flags.unsigned(b'E').unwrap_or(0)),
        };
        let store = &mut self.engine.store;
        if store.insert(cachelet, item, now).is_err() {
            // Better none than the one before.
            store.delete(cachelet, key, now);
            self.engine.counters.migration_items_unstored += 1;
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

    /// Everything has come.
    fn activate(&mut self, id: ConnectionId, newest: Version) -> &'static [u8] {
        let Some(cachelet) = self.cachelet_from(id, Staged::Partly) else {
            return text::MIGRATE_NO;
        };
        let Some(incoming) = self.migrations.incoming.get_mut(&cachelet) else {
            return text::MIGRATE_NO;
        };
        if newest.0 > NEWEST_VERSION_MAX {
            return text::MIGRATE_NO;
        }
        incoming.staged = Staged::Active;
        self.engine.adopt_version(newest);
        let began = incoming.began;
        self.skip_versions(began);
        text::OK
    }

    /// The source has decided.
    fn go_live(&mut self, now: Now, cachelet: CacheletId) {
        let (Some(incoming), Some(map)) = (self.migrations.incoming.get_mut(&cachelet), &self.map)
        else {
            return;
        };
        incoming.staged = Staged::Live;
        let me = self.config.index;
        let stay = (incoming.since, incoming.began);
        self.placement.take_in(map, cachelet, me, stay);
        self.engine.hot.handle_came(cachelet, false);
        self.settle_meters(now.monotonic);
        self.engine.counters.migrations_came += 1;
    }

    /// Whether a client with the map of this epoch was sent here for a key that this worker did not serve until now. Nobody
    /// but the source of its cachelet can have sent it, and only after it had decided: all maps since the migration began,
    /// up to the one that this worker knows, name the source as the owner. By a newer map the migration may have come to
    /// nothing and the cachelet be this server's anew, while what is here is old.
    #[cold]
    pub(crate) fn admit(&mut self, now: Now, epoch: Epoch, hash: KeyHash) -> bool {
        if self.migrations.incoming.is_empty() {
            return false;
        }
        let Some(map) = &self.map else {
            return false;
        };
        let cachelet = map.locate(hash).cachelet;
        let incoming = self.migrations.incoming.get(&cachelet);
        // By an older map it may be here because this server had the cachelet before.
        let may = incoming.is_some_and(|incoming| {
            incoming.staged == Staged::Active && (incoming.began..=map.epoch()).contains(&epoch)
        });
        if may {
            self.go_live(now, cachelet);
        }
        may
    }

    /// A new map, and the placement made from it.
    pub(crate) fn revise_incoming(
        &mut self,
        map: &ClusterMap,
        placement: &mut LocalPlacement,
        cachelet: CacheletId,
    ) {
        let Some(incoming) = self.migrations.incoming.get(&cachelet) else {
            return;
        };
        let (began, since, staged) = (incoming.began, incoming.since, incoming.staged);
        if stands(map, cachelet, began).is_some() {
            if staged == Staged::Live {
                placement.take_in(map, cachelet, self.config.index, (since, began));
            }
            return;
        }
        let seat = placement.seat(cachelet);
        let is_whole = matches!(staged, Staged::Active | Staged::Live);
        let is_mine = seat.is_some_and(|seat| {
            is_whole && (seat.since, seat.stay) == (since, began) && seat.home == self.config.index
        });
        if !is_mine && staged != Staged::Not {
            self.engine.store.drop_cachelet(cachelet);
            self.engine.counters.migrations_dropped += 1;
        }
        if staged == Staged::Active && is_mine {
            self.engine.counters.migrations_came += 1;
        }
        self.engine.hot.handle_host_by_map(cachelet);
        self.migrations.incoming.remove(&cachelet);
    }

    /// A `flush_all` came: what is on its way may be older than it.
    pub(crate) fn flush_ends_incoming(&mut self) {
        for (cachelet, incoming) in &mut self.migrations.incoming {
            incoming.forget_part(*cachelet, &mut self.engine);
        }
    }

    /// A connection is gone, over which a cachelet may have come.
    pub(crate) fn source_lost(&mut self, id: ConnectionId) {
        let Some(cachelet) = self.migrations.sources.remove(&id) else {
            return;
        };
        let incoming = self.migrations.incoming.get_mut(&cachelet);
        let Some(incoming) = incoming.filter(|incoming| incoming.connection == id) else {
            return;
        };
        incoming.forget_part(cachelet, &mut self.engine);
    }
}
