//! `touch`, and giving an item a new expiry in general.

use crate::shard::engine::{At, Engine};
use crate::shard::time::{NEVER, Seconds};
use evenkeel_hotkeys::server::WriteKind;
use evenkeel_protocol::text;
use evenkeel_types::Version;

/// Touches an item: the client flags and the version it has, or `None` when there is none.
pub fn execute(
    engine: &mut Engine,
    at: &At,
    key: &[u8],
    expiry: Seconds,
) -> Option<(u32, Version)> {
    engine.counters.cmd_touch += 1;
    let Some(mut item) = engine
        .store
        .find_hashed(at.cachelet, key, at.table, at.seconds)
    else {
        engine.counters.touch_misses += 1;
        return None;
    };
    // A touch is an access, as in memcached.
    item.touch_access(at.seconds);
    let touched = (item.flags(), item.version());
    engine.counters.touch_hits += 1;
    if set_expiry(engine, at, key, expiry) {
        engine.saw_write(at, key, WriteKind::Update);
    }
    Some(touched)
}

/// Answers `touch`.
pub fn touch(engine: &mut Engine, at: &At, key: &[u8], expiry: Seconds) -> &'static [u8] {
    match execute(engine, at, key, expiry) {
        Some(_) => text::TOUCHED,
        None => text::NOT_FOUND,
    }
}

/// Gives an item a new expiry; one in the past removes it. False when nothing is left to propagate:
/// the item is not there, or was removed (and the hot keys know).
pub fn set_expiry(engine: &mut Engine, at: &At, key: &[u8], expiry: Seconds) -> bool {
    let Some(mut item) = engine
        .store
        .find_hashed(at.cachelet, key, at.table, at.seconds)
    else {
        return false;
    };
    let expired = expiry != NEVER && expiry <= at.seconds;
    // With no memory to move the item into its new expiry class, it is better gone than immortal.
    if expired || item.set_expires_at(expiry).is_err() {
        engine
            .store
            .delete_hashed(at.cachelet, key, at.table, at.seconds);
        engine.saw_write(at, key, WriteKind::Delete);
        return false;
    }
    true
}
