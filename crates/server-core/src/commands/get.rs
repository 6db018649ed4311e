//! `get`, `gets`, `gat` and `gats`.

use crate::shard::engine::{At, Engine, saw_read, shown_version};
use crate::shard::time::Seconds;
use evenkeel_hotkeys::server::WriteKind;
use evenkeel_protocol::compose::answer;
use evenkeel_storage::{Hint, TableHash};
use evenkeel_types::CacheletId;

/// The key under which old clients of ElastiCache look for the list of servers. It is found where
/// nobody has stored anything under it.
pub const CLUSTER_KEY: &[u8] = b"AmazonElastiCache:cluster";

/// Answers one key of a classic get: a `VALUE` block, or nothing on a miss.
#[inline]
pub fn get_key(engine: &mut Engine, at: &At, key: &[u8], with_cas: bool, out: &mut Vec<u8>) {
    engine.counters.cmd_get += 1;
    let found = show(engine, at, key, with_cas, out);
    if found.is_some() {
        engine.counters.get_hits += 1;
    } else {
        missed(engine, key, out);
    }
    // A classic client knows nothing of leases: whatever the advice, it is not told.
    let _ = saw_read(
        (&mut engine.hot, &mut engine.hottest),
        &mut engine.counters,
        at,
        key,
        found,
    );
}

/// As [`get_key`] without versions, of a key in this place, and without telling anybody of the read.
/// Gives the length of the value if the key is there.
#[inline(always)]
pub fn plain(
    engine: &mut Engine,
    (cachelet, table, hint): (CacheletId, TableHash, Hint),
    now: Seconds,
    key: &[u8],
    out: &mut Vec<u8>,
) -> Option<usize> {
    engine.counters.cmd_get += 1;
    match engine.store.read_hinted(cachelet, key, table, hint, now) {
        Some(item) => {
            engine.counters.get_hits += 1;
            let value = item.value();
            answer::value(out, key, item.flags(), value, None);
            Some(value.len())
        }
        None => {
            missed(engine, key, out);
            None
        }
    }
}

/// Counts a miss. One key is answered all the same: some clients look for the servers under it.
fn missed(engine: &mut Engine, key: &[u8], out: &mut Vec<u8>) {
    engine.counters.get_misses += 1;
    if key == CLUSTER_KEY && !engine.cluster_config.is_empty() {
        answer::value(out, key, 0, &engine.cluster_config, None);
    }
}

/// Answers one key of a get-and-touch, which also gives what it finds a new expiry. memcached
/// counts it as a touch alone.
pub fn get_and_touch_key(
    engine: &mut Engine,
    at: &At,
    key: &[u8],
    expiry: Seconds,
    with_cas: bool,
    out: &mut Vec<u8>,
) {
    engine.counters.cmd_touch += 1;
    if show(engine, at, key, with_cas, out).is_none() {
        engine.counters.touch_misses += 1;
        return;
    }
    engine.counters.touch_hits += 1;
    if crate::commands::touch::set_expiry(engine, at, key, expiry) {
        engine.saw_write(at, key, WriteKind::Update);
    }
}

/// Writes the `VALUE` block of a key, if it is there. Gives the length of the value.
#[inline]
fn show(
    engine: &mut Engine,
    at: &At,
    key: &[u8],
    with_cas: bool,
    out: &mut Vec<u8>,
) -> Option<usize> {
    let store = &mut engine.store;
    let item = store.read_hashed(at.cachelet, key, at.table, at.seconds)?;
    let cas = with_cas.then(|| shown_version(engine.cas_shown, at, item.version()));
    let value = item.value();
    answer::value(out, key, item.flags(), value, cas);
    Some(value.len())
}
