//! `mg`.

use crate::commands::touch::set_expiry;
use crate::shard::engine::{At, Engine, saw_read, shown_version, ttl};
use crate::shard::time::{NEVER, Seconds, TimeBase};
use evenkeel_hotkeys::server::{ReadAdvice, Reader, WriteKind};
use evenkeel_protocol::compose::answer::{self, ItemFacts};
use evenkeel_protocol::{Meta, MetaStatus, text};
use evenkeel_storage::{ItemMut, NewItem};

/// Answers `mg` at the home of the key.
pub fn meta_get(engine: &mut Engine, at: &At, key: &[u8], meta: &Meta<'_>, out: &mut Vec<u8>) {
    engine.counters.cmd_meta += 1;
    if let Some(exptime) = meta.flags.exptime(b'T') {
        let expiry = engine.time.expiry(at.now, exptime);
        return touch_and_show(engine, at, key, meta, expiry, out);
    }
    engine.counters.cmd_get += 1;
    if at.owned
        && let Some(others) = meta.flags.unsigned(b'H')
    {
        let hash = at.key_hash(key);
        engine.hot.handle_elsewhere(hash, key, others);
    }
    let Some(item) = engine
        .store
        .get_hashed(at.cachelet, key, at.table, at.seconds)
    else {
        engine.counters.get_misses += 1;
        let advice = saw_read(
            (&mut engine.hot, &mut engine.hottest),
            &mut engine.counters,
            at,
            key,
            None,
        );
        return miss(engine, at, key, meta, advice, out);
    };
    engine.counters.get_hits += 1;
    // What is stale gets no replicas: the next who reads it must be told to replace it.
    let found = (!item.stale()).then(|| item.value().len());
    let advice = saw_read(
        (&mut engine.hot, &mut engine.hottest),
        &mut engine.counters,
        at,
        key,
        found,
    );
    let terms = Terms {
        cas_shown: engine.cas_shown,
        recache_before: recache_before(&engine.time, at, meta),
        advice,
    };
    if show(item, &terms, at, key, meta, out) {
        // Somebody was told to recache the item: copies must not tell a second one.
        engine.saw_write(at, key, WriteKind::Update);
    }
}

/// A miss: the item is created if the client asks for that (`N`); otherwise `EN`, unless the client
/// wants to hear of hits only (`q`).
fn miss(
    engine: &mut Engine,
    at: &At,
    key: &[u8],
    meta: &Meta<'_>,
    advice: ReadAdvice,
    out: &mut Vec<u8>,
) {
    if let Some(exptime) = meta.flags.exptime(b'N') {
        return vivify(engine, at, key, meta, exptime, out);
    }
    if meta.flags.has(b'q') {
        return;
    }
    // Only who knows leases can make anything of it.
    let is_told = advice.replicated && matches!(at.reader, Reader::Aware { .. });
    let newest = is_told.then(|| engine.newest_version());
    let line = answer::echo_flags(answer::meta(out, MetaStatus::Miss), meta, key);
    answer::extension_flags(line, None, newest).end();
}

/// A read that also gives the item a new expiry (`T`); memcached counts it as a touch alone. An
/// expiry in the past removes the item after it was shown.
fn touch_and_show(
    engine: &mut Engine,
    at: &At,
    key: &[u8],
    meta: &Meta<'_>,
    expiry: Seconds,
    out: &mut Vec<u8>,
) {
    engine.counters.cmd_touch += 1;
    let expired = expiry != NEVER && expiry <= at.seconds;
    if !expired && set_expiry(engine, at, key, expiry) {
        engine.saw_write(at, key, WriteKind::Update);
    }
    let Some(item) = engine
        .store
        .get_hashed(at.cachelet, key, at.table, at.seconds)
    else {
        engine.counters.touch_misses += 1;
        return miss(engine, at, key, meta, ReadAdvice::default(), out);
    };
    engine.counters.touch_hits += 1;
    let terms = Terms {
        cas_shown: engine.cas_shown,
        recache_before: recache_before(&engine.time, at, meta),
        advice: ReadAdvice::default(),
    };
    show(item, &terms, at, key, meta, out);
    if expired {
        set_expiry(engine, at, key, expiry);
    }
}

/// What a hit is shown by, besides what was asked.
struct Terms {
    cas_shown: bool,
    recache_before: Seconds,
    advice: ReadAdvice,
}

/// What expires before this time is to be recached (`R`), read as an exptime is: beyond 30 days it is a
/// Unix time, and nothing expires before a time that has passed.
fn recache_before(time: &TimeBase, at: &At, meta: &Meta<'_>) -> Seconds {
    let limit = meta.flags.exptime(b'R');
    limit.map_or(NEVER, |limit| time.expiry(at.now, limit))
}

/// Writes a hit. True when this client won the right to recache the item.
fn show(
    mut item: ItemMut<'_>,
    terms: &Terms,
    at: &At,
    key: &[u8],
    meta: &Meta<'_>,
    out: &mut Vec<u8>,
) -> bool {
    let (fetched, last_access) = (item.fetched(), item.last_access());
    if !meta.flags.has(b'u') {
        item.touch_access(at.seconds);
    }
    let (win_sent, stale, expires_at) = (item.win_sent(), item.stale(), item.expires_at());
    let due = expires_at != NEVER && expires_at < terms.recache_before;
    // A classic command takes no part in recaching: it could not be told (flag `A` of the extension).
    let won = !win_sent && (stale || due) && !meta.flags.has(b'A');
    if won {
        item.set_win_sent(true);
    }
    let item = item.into_item();
    let facts = ItemFacts {
        value_len: item.value().len(),
        version: shown_version(terms.cas_shown, at, item.version()),
        flags: item.flags(),
        ttl: ttl(&item, at.seconds),
        last_access: at.seconds.saturating_sub(last_access),
        fetched,
        win_sent,
        stale,
        won,
    };
    let ReadAdvice { gamma, left, .. } = terms.advice;
    let lease = (gamma > 0).then(|| (gamma, left.map(|left| left.as_millis() as u64)));
    if meta.flags.has(b'v') {
        let line = answer::meta_value(out, facts.value_len);
        let line = answer::item_flags(line, meta, key, &facts);
        answer::extension_flags(line, lease, None).end_with(item.value());
    } else {
        let line = answer::meta(out, MetaStatus::Done);
        let line = answer::item_flags(line, meta, key, &facts);
        answer::extension_flags(line, lease, None).end();
    }
    won
}

/// A miss with `N`: the item is created empty and this client is told to fill it. With `T` besides,
/// that is its time, as if the item had been there.
fn vivify(
    engine: &mut Engine,
    at: &At,
    key: &[u8],
    meta: &Meta<'_>,
    exptime: i64,
    out: &mut Vec<u8>,
) {
    let exptime = meta.flags.exptime(b'T').unwrap_or(exptime);
    let expires_at = engine.time.expiry(at.now, exptime);
    let version = engine.version_for(meta.flags.unsigned(b'E'));
    let item = NewItem {
        key,
        value: [b"", b""],
        flags: 0,
        expires_at,
        version,
    };
    engine.counters.total_items += 1;
    if engine.put(at, item).is_err() {
        return out.extend_from_slice(text::OUT_OF_MEMORY);
    }
    if let Some(mut item) = engine
        .store
        .find_hashed(at.cachelet, key, at.table, at.seconds)
    {
        item.set_win_sent(true);
        if !meta.flags.has(b'u') {
            item.touch_access(at.seconds);
        }
    }
    let facts = ItemFacts {
        version: shown_version(engine.cas_shown, at, version),
        ttl: (expires_at != NEVER).then(|| expires_at.saturating_sub(at.seconds)),
        won: true,
        ..ItemFacts::default()
    };
    if meta.flags.has(b'v') {
        answer::item_flags(answer::meta_value(out, 0), meta, key, &facts).end_with(b"");
    } else {
        answer::item_flags(answer::meta(out, MetaStatus::Done), meta, key, &facts).end();
    }
}
