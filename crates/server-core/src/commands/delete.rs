//! `delete` and `md`.

use crate::commands::touch::set_expiry;
use crate::shard::engine::{At, Engine};
use crate::shard::time::NEVER;
use evenkeel_hotkeys::server::{Reader, WriteKind};
use evenkeel_protocol::compose::answer;
use evenkeel_protocol::{Meta, MetaStatus, text};
use evenkeel_storage::NewItem;

/// Removes an item. False when there is none.
pub fn remove(engine: &mut Engine, at: &At, key: &[u8]) -> bool {
    let there = engine
        .store
        .delete_hashed(at.cachelet, key, at.table, at.seconds);
    match there {
        true => engine.counters.delete_hits += 1,
        false => engine.counters.delete_misses += 1,
    }
    // Found or not: replicas, or the target of a migration, may have what was evicted here.
    engine.saw_write(at, key, WriteKind::Delete);
    there
}

/// Answers `delete`.
pub fn delete(engine: &mut Engine, at: &At, key: &[u8]) -> &'static [u8] {
    if remove(engine, at, key) {
        text::DELETED
    } else {
        text::NOT_FOUND
    }
}

/// Answers `md`.
pub fn meta_delete(engine: &mut Engine, at: &At, key: &[u8], meta: &Meta<'_>, out: &mut Vec<u8>) {
    engine.counters.cmd_meta += 1;
    let status = execute(engine, at, key, meta);
    let quiet = meta.flags.has(b'q') && status == MetaStatus::Done;
    if quiet {
        return;
    }
    let is_gone = match status {
        MetaStatus::Done => !(meta.flags.has(b'I') || meta.flags.has(b'x')),
        MetaStatus::NotFound => true,
        _ => false,
    };
    // Who knows leases compares with it what copies say.
    let is_told = is_gone
        && matches!(at.reader, Reader::Aware { .. })
        && engine.hot.may_have_replicas(at.key_hash(key));
    let newest = is_told.then(|| engine.newest_version());
    let line = answer::echo_flags(answer::meta(out, status), meta, key);
    answer::extension_flags(line, None, newest).end();
}

fn execute(engine: &mut Engine, at: &At, key: &[u8], meta: &Meta<'_>) -> MetaStatus {
    let flags = &meta.flags;
    let Some(item) = engine
        .store
        .find_hashed(at.cachelet, key, at.table, at.seconds)
    else {
        engine.counters.delete_misses += 1;
        engine.saw_write(at, key, WriteKind::Delete);
        return MetaStatus::NotFound;
    };
    if flags
        .unsigned(b'C')
        .is_some_and(|cas| cas != item.version().0)
    {
        engine.counters.cas_badval += 1;
        return MetaStatus::Exists;
    }
    engine.counters.delete_hits += 1;
    if flags.has(b'I') || flags.has(b'x') {
        mark(engine, at, key, meta);
    } else {
        engine
            .store
            .delete_hashed(at.cachelet, key, at.table, at.seconds);
        engine.saw_write(at, key, WriteKind::Delete);
    }
    MetaStatus::Done
}

/// Keeps the item, but stale (`I`, with `T` a new expiry) or without its value, flags and expiry (`x`).
fn mark(engine: &mut Engine, at: &At, key: &[u8], meta: &Meta<'_>) {
    let flags = &meta.flags;
    let version = engine.version_for(flags.unsigned(b'E'));
    if flags.has(b'x') {
        let Some(item) = engine
            .store
            .peek_hashed(at.cachelet, key, at.table, at.seconds)
        else {
            return;
        };
        let (stale, win_sent) = (item.stale(), item.win_sent());
        let new = NewItem {
            key,
            value: [b"", b""],
            flags: 0,
            expires_at: NEVER,
            version,
        };
        if engine
            .store
            .insert_hashed(at.cachelet, new, at.table, at.seconds)
            .is_err()
        {
            engine.saw_write(at, key, WriteKind::Delete);
            return;
        }
        if let Some(mut item) = engine
            .store
            .find_hashed(at.cachelet, key, at.table, at.seconds)
        {
            item.set_stale(stale);
            item.set_win_sent(win_sent);
        }
    }
    if flags.has(b'I') {
        if let Some(expiry) = flags
            .exptime(b'T')
            .map(|exptime| engine.time.expiry(at.now, exptime))
            && !set_expiry(engine, at, key, expiry)
        {
            return;
        }
        let moved = match engine
            .store
            .find_hashed(at.cachelet, key, at.table, at.seconds)
        {
            Some(mut item) => {
                item.set_stale(true);
                item.set_win_sent(false);
                item.set_version(version)
            }
            None => return,
        };
        if moved.is_err() {
            engine
                .store
                .delete_hashed(at.cachelet, key, at.table, at.seconds);
            engine.saw_write(at, key, WriteKind::Delete);
            return;
        }
    }
    engine.saw_write(at, key, WriteKind::Update);
}
