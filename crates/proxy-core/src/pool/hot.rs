//! Hot keys of pools of plain memcached servers: where reads of them go, and what is told of writes.
//!
//! What may be shown, and why, is decided in [`plain`](evenkeel_hotkeys::plain), where the
//! argument for it stands. Here is what that asks for: reads of a replicated key go alone, on a line of
//! their own ([`Ask::Hot`]), to the copy whose turn it is, and their answers are held against what
//! the home said (`answer/hot.rs`). A replica goes by another name on its server and is shown under the key's.

use crate::config::PoolConfig;
use crate::draft::{Draft, Intent};
use crate::ids::PoolId;
use crate::pipe::backends::Backends;
use crate::pipe::in_flight::{Ask, Tag};
use crate::pool::pools::Pools;
use crate::pool::sent::Sent;
use crate::pool::{Pool, Servers};
use crate::routes::way::{WayKey, WayTo};
use crate::show::kinds::Unasked;
use crate::stats::counters::ProxyStats;
use crate::stats::hot_keys::{HotKeyReport, REPORTED_MAX};
use evenkeel_hotkeys::client::Connection;
use evenkeel_hotkeys::plain::{PlainHotKeys, PlainMode, ReadRoute, Wants};
use evenkeel_protocol::{FLAG_COUNT_MAX, MetaFlags};
use evenkeel_types::{Epoch, Instant, KeyHash};
use std::sync::Arc;

/// Flags that may be added to an `mg` here: `c` and `f`.
const ADDED_MAX: usize = 2;

impl Pools {
    /// Counts a read of a key.
    pub fn count_read(&mut self, pool: PoolId, key: &[u8]) {
        if let Some(pool) = self.get_mut(pool)
            && let Some(hot) = &mut pool.hot
        {
            hot.handle_read(key);
        }
    }

    /// Where a read goes that is to be held against what the home said; `None` for all others. A copy can
    /// answer one that shows what it `wants`; only the home can where that is not said.
    pub fn route_read(
        &mut self,
        backends: &Backends,
        (now, era): (Instant, Epoch),
        pool_id: PoolId,
        (key, reader): (&[u8], Connection),
        wants: Option<Wants>,
    ) -> Option<Sent> {
        let pool = self.get_mut(pool_id)?;
        let leases = &mut pool.leases;
        let (Some(hot), Servers::Memcached(servers)) = (&mut pool.hot, &pool.servers) else {
            return None;
        };
        let hash = KeyHash::of(key);
        if !hot.is_tracked(hash, key) && !leases.knows(hash) {
            return None;
        }
        let load = |server: usize| {
            let backend = servers.backends().get(server)?;
            backends.get(*backend)?.burden(now)
        };
        let (home, place_hash) = servers.home_and_hash(key);
        let of_home = |ticket| Sent {
            ticket,
            to: home,
            name: None,
            place_hash,
        };
        let route = match wants {
            Some(wants) => hot.route_read((leases, load), now, era, (hash, key, reader), wants),
            None => hot.route_home_read(leases, now, era, (hash, key, reader)),
        };
        let (ticket, server, name) = match route {
            ReadRoute::Ordinary => return None,
            ReadRoute::Home(ticket) => return Some(of_home(ticket)),
            ReadRoute::Copy {
                ticket,
                server,
                name,
            } => (ticket, server, name),
        };
        let to = servers.backends()[server];
        if !backends.takes_requests(to) {
            hot.give_up_copy(now, &ticket);
            return Some(of_home(ticket.sent_home()));
        }
        Some(Sent {
            ticket,
            to,
            name: Some(name),
            place_hash,
        })
    }

    /// Tells of a request that is not a classic read. Where one goes that reads what is replicated.
    #[inline(never)]
    pub fn watch(
        &mut self,
        backends: &Backends,
        (now, era): (Instant, Epoch),
        draft: &Draft<'_>,
    ) -> Option<Sent> {
        match draft.intent {
            Intent::Look => None,
            Intent::Write | Intent::Touch | Intent::ReadAndWrite => {
                self.watch_write(now, draft.pool, draft.key);
                None
            }
            Intent::Read | Intent::ReadAtHome if draft.place.is_some() => None,
            Intent::Read | Intent::ReadAtHome => {
                let wants = draft.copies.then_some(Wants::META);
                if draft.copies {
                    self.count_read(draft.pool, draft.key);
                }
                let read = (draft.key, draft.client.connection());
                self.route_read(backends, (now, era), draft.pool, read, wants)
            }
        }
    }

    /// Whether a copy could answer an `mg` with these flags, and what is to be asked besides.
    #[inline]
    pub fn watch_mg(&self, way: &WayTo, key: WayKey<'_>, flags: &MetaFlags<'_>) -> (bool, Unasked) {
        if !self.watches() || way.as_meta() {
            return (false, Unasked::default());
        }
        self.watch_plain_mg(way, key, flags)
    }

    #[inline(never)]
    fn watch_plain_mg(
        &self,
        way: &WayTo,
        key: WayKey<'_>,
        flags: &MetaFlags<'_>,
    ) -> (bool, Unasked) {
        let has_room = flags.iter().count() + ADDED_MAX <= FLAG_COUNT_MAX;
        // `u` does not count as an access, which a copy's is not either; a key in base64 is sent so.
        let mut letters = flags.iter().map(|(letter, _)| letter);
        let is_of_copy = flags.has(b'v')
            && !key.sent.base64
            && letters.all(|letter| b"cfkOqsuv".contains(&letter));
        let hot = self.get(way.pool).and_then(|pool| pool.hot.as_deref());
        let is_tracked = hot.is_some_and(|hot| hot.is_tracked(KeyHash::of(key.stored), key.stored));
        let adds = has_room && is_tracked;
        let unasked = Unasked {
            cas: adds && !flags.has(b'c'),
            flags: adds && flags.has(b'v') && !flags.has(b'f'),
            value: false,
        };
        (has_room && is_of_copy, unasked)
    }

    /// After which time an identical read has to have been asked that this one joins although it was sent: only of a replicated key's
    /// home. `None` for reads that join what waits to be sent, and nothing else.
    #[inline]
    pub fn joins_asked_after(&self, now: Instant, tag: &Tag) -> Option<Instant> {
        if tag.ask != Ask::Hot || tag.is_replica {
            return None;
        }
        let hot = self.get(tag.pool)?.hot.as_deref()?;
        Some(hot.joins_asked_after(now, tag.hash))
    }

    /// Tells of a request that may give a key another value.
    pub fn watch_write(&mut self, now: Instant, pool_id: PoolId, key: &[u8]) {
        let Some(pool) = self.get_mut(pool_id) else {
            return;
        };
        if let Some(hot) = &mut pool.hot {
            hot.handle_write(now, key);
        }
        if !pool.leases.is_empty() {
            pool.leases.write_sent_by_any(KeyHash::of(key));
        }
    }

    /// Tells of a `flush_all` that is about to be sent to a pool.
    pub fn watch_flush(&mut self, now: Instant, pool: PoolId) {
        if let Some(pool) = self.get_mut(pool)
            && let Some(hot) = &mut pool.hot
        {
            hot.handle_flush(now);
        }
    }

    /// A copy cannot be stored or asked for.
    pub fn copy_failed(&mut self, now: Instant, pool: PoolId, hash: KeyHash, suffix: u8) {
        if let Some(pool) = self.get_mut(pool)
            && let Some(hot) = &mut pool.hot
        {
            hot.handle_copy_failed(now, hash, suffix);
        }
    }

    /// The connection to a server of a pool is lost. A server that is started anew counts its CAS uniques
    /// anew, so that those which are known say nothing of what is there.
    pub fn forget_truths_of(&mut self, pool: PoolId) {
        if let Some(pool) = self.get_mut(pool)
            && let Some(hot) = &mut pool.hot
        {
            hot.forget_truths();
        }
    }

    /// Keys may have another home from now on.
    pub fn forget_truths(&mut self) {
        for id in self.ids() {
            self.forget_truths_of(id);
        }
    }

    /// Begins, goes on or ends to look for hot keys in a pool, as it is configured.
    pub fn take_over_hot_keys(&mut self, seed: u64, id: PoolId, wanted: &PoolConfig) {
        let Some(pool) = self.get_mut(id) else {
            return;
        };
        let Servers::Memcached(servers) = &pool.servers else {
            return;
        };
        let settings = &wanted.settings.hot_keys;
        let is_same = |hot: &PlainHotKeys| hot.config() == settings;
        match &mut pool.hot {
            hot if settings.mode == PlainMode::Off => *hot = None,
            Some(hot) if is_same(hot) => hot.handle_servers(servers.list().placement()),
            hot => {
                // Settings that make no sense are refused before they come here.
                let new = PlainHotKeys::new(settings.clone(), seed, Instant(0)).ok();
                *hot = new.map(Box::new);
            }
        }
    }

    /// Lets keys become hot, or cool, whose slot has ended. When to look again.
    pub fn judge_hot_keys(&mut self, now: Instant, stats: &mut ProxyStats) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for id in self.ids() {
            let Some(Pool { hot, servers, .. }) = self.get_mut(id) else {
                continue;
            };
            let (Some(hot), Servers::Memcached(servers)) = (hot, servers) else {
                continue;
            };
            hot.handle_timeout(now, servers.list().placement());
            let due = hot.poll_deadline();
            next = Some(next.map_or(due, |next| next.min(due)));
            let counted = hot.take_stats();
            stats.add_hot_keys(&counted);
        }
        next
    }

    /// The keys that are read most, in pools that look for them.
    pub fn hot_keys(&self, now: Instant) -> Vec<HotKeyReport> {
        let mut reports = Vec::new();
        for (_, pool) in self.iter() {
            let Some(hot) = &pool.hot else { continue };
            let list = hot.list(now).into_iter().take(REPORTED_MAX);
            reports.extend(list.map(|hot| HotKeyReport {
                pool: Arc::clone(&pool.name),
                key: hot.key,
                reads_per_second: hot.reads_per_second,
                writes_per_second: hot.writes_per_second,
                gamma: hot.gamma,
            }));
        }
        reports
    }
}
