//! The target's side of a migration: what comes is stored apart, and served when the source has decided.

use crate::ownership::hosting::Hosting;
use crate::ownership::migration::incoming::{Incoming, Staged};
use crate::ownership::migration::volume::{Volume, stands};
use crate::placement::LocalPlacement;
use crate::session::{ConnectionId, Session};
use crate::shard::engine::Engine;
use crate::shard::time::TimeBase;
use evenkeel_protocol::compose::answer as compose;
use evenkeel_protocol::{Migrate, text};
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{CacheletId, Epoch, KeyHash, Now, Version};

/// Newest version of a source that is believed. No source comes this far: clients may set versions up to 2^63 (`E`), and what
/// servers count on from there would take centuries. As much is left to be counted here.
const NEWEST_VERSION_MAX: u64 = 3 << 62;

impl Hosting {
    /// A word from the source of a migration.
    pub(crate) fn handle_source(
        &mut self,
        engine: &mut Engine,
        now: Now,
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
                let answer = self.begin_incoming(engine, now, session.id, cachelet, began, since);
                if answer.is_empty() {
                    let seconds = TimeBase::seconds(now);
                    compose::number_line(session.sink(), u64::from(seconds));
                }
                answer
            }
            Migrate::Activate { newest } => self.activate(engine, session.id, newest),
            Migrate::Confirm => match self.migrations.cachelet_from(session.id, Staged::Active) {
                Some(cachelet) => {
                    self.go_live(engine, now, cachelet);
                    text::OK
                }
                None => text::OK,
            },
        };
        session.say(answer);
    }

    /// The answer; empty if it takes part, which it says by telling what its clock shows.
    fn begin_incoming(
        &mut self,
        engine: &mut Engine,
        now: Now,
        id: ConnectionId,
        cachelet: CacheletId,
        began: Epoch,
        since: Epoch,
    ) -> &'static [u8] {
        // Whatever becomes of it: items on this connection are not replicas.
        self.migrations.sources.insert(id, cachelet);
        let Some(map) = self.map.as_ref().filter(|map| map.epoch() >= began) else {
            return text::MIGRATE_LATER;
        };
        if self.migrations.has_flushed_lately(now.monotonic) {
            return text::MIGRATE_LATER;
        }
        let is_ordered = stands(map, cachelet, began).is_some_and(|order| order.to == self.me);
        if !is_ordered || self.migrations.incoming.contains_key(&cachelet) {
            return text::MIGRATE_NO;
        }
        if !engine.store.create_cachelet(cachelet) {
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
        engine.counters.migrations_staged += 1;
        b""
    }

    /// Everything has come.
    fn activate(
        &mut self,
        engine: &mut Engine,
        id: ConnectionId,
        newest: Version,
    ) -> &'static [u8] {
        let Some(cachelet) = self.migrations.cachelet_from(id, Staged::Partly) else {
            return text::MIGRATE_NO;
        };
        let Some(incoming) = self.migrations.incoming.get_mut(&cachelet) else {
            return text::MIGRATE_NO;
        };
        if newest.0 > NEWEST_VERSION_MAX {
            return text::MIGRATE_NO;
        }
        incoming.staged = Staged::Active;
        engine.adopt_version(newest);
        engine.skip_versions(incoming.began);
        text::OK
    }

    /// The source has decided.
    fn go_live(&mut self, engine: &mut Engine, now: Now, cachelet: CacheletId) {
        let (Some(incoming), Some(map)) = (self.migrations.incoming.get_mut(&cachelet), &self.map)
        else {
            return;
        };
        incoming.staged = Staged::Live;
        let me = self.me.worker;
        let stay = (incoming.since, incoming.began);
        self.placement.take_in(map, cachelet, me, stay);
        engine.hot.handle_came(cachelet, false);
        engine.update_meters(now.monotonic);
        engine.counters.migrations_came += 1;
    }

    /// Whether a client with the map of this epoch was sent here for a key that this worker did not serve until now. Nobody
    /// but the source of its cachelet can have sent it, and only after it had decided: all maps since the migration began,
    /// up to the one that this worker knows, name the source as the owner. By a newer map the migration may have come to
    /// nothing and the cachelet be this server's anew, while what is here is old.
    #[cold]
    pub(crate) fn admit(
        &mut self,
        engine: &mut Engine,
        now: Now,
        epoch: Epoch,
        hash: KeyHash,
    ) -> bool {
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
            self.go_live(engine, now, cachelet);
        }
        may
    }

    /// A new map, and the placement made from it.
    pub(crate) fn revise_incoming(
        &mut self,
        engine: &mut Engine,
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
                placement.take_in(map, cachelet, self.me.worker, (since, began));
            }
            return;
        }
        let seat = placement.seat(cachelet);
        let is_whole = matches!(staged, Staged::Active | Staged::Live);
        let is_mine = seat.is_some_and(|seat| {
            is_whole && (seat.since, seat.stay) == (since, began) && seat.home == self.me.worker
        });
        if !is_mine && staged != Staged::Not {
            engine.store.drop_cachelet(cachelet);
            engine.counters.migrations_dropped += 1;
        }
        if staged == Staged::Active && is_mine {
            engine.counters.migrations_came += 1;
        }
        engine.hot.handle_host_by_map(cachelet);
        self.migrations.incoming.remove(&cachelet);
    }
}
