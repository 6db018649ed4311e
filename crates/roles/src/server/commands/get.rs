//! `get`, `gets`, `gat` and `gats`.

use crate::server::engine::{At, Engine};
use crate::server::time::Seconds;
use evenkeel_policy::hot_keys::server::WriteKind;
use evenkeel_protocol::compose::answer;

/// Answers one key of a classic get: a `VALUE` block, or nothing on a miss.
#[inline]
pub fn get_key(engine: &mut Engine, at: &At, key: &[u8], with_cas: bool, out: &mut Vec<u8>) {
    engine.counters.cmd_get += 1;
    let present = match engine.store.get(at.cachelet, key, at.seconds) {
        Some(mut item) => {
            item.touch_access(at.seconds);
            let item = item.into_item();
            let cas = with_cas.then(|| item.version());
            answer::value(out, key, item.flags(), item.value(), cas);
            engine.counters.get_hits += 1;
            true
        }
        None => {
            engine.counters.get_misses += 1;
            false
        }
    };
    engine.saw_read(at, key, present);
}

/// Answers one key of a get-and-touch, which also gives what it finds a new expiry.
pub fn get_and_touch_key(
    engine: &mut Engine,
    at: &At,
    key: &[u8],
    expiry: Seconds,
    with_cas: bool,
    out: &mut Vec<u8>,
) {
    engine.counters.cmd_get += 1;
    engine.counters.cmd_touch += 1;
    let Some(mut item) = engine.store.get(at.cachelet, key, at.seconds) else {
        engine.counters.get_misses += 1;
        engine.counters.touch_misses += 1;
        engine.saw_read(at, key, false);
        return;
    };
    item.touch_access(at.seconds);
    let shown = item.into_item();
    let cas = with_cas.then(|| shown.version());
    answer::value(out, key, shown.flags(), shown.value(), cas);
    engine.counters.get_hits += 1;
    engine.counters.touch_hits += 1;
    if super::touch::set_expiry(engine, at, key, expiry) {
        engine.saw_write(at, key, WriteKind::Update);
    }
}
