//! `me`: what is known of an item, for a person.

use crate::shard::engine::{At, Engine, shown_version, ttl};
use evenkeel_protocol::SentKey;
use evenkeel_protocol::text;
use std::io::Write;

/// The slab class shown for every item: there are no slab classes, and tools expect a number.
const PSEUDO_CLASS: u32 = 1;

/// Answers `me`, without changing anything about the item.
pub fn meta_debug(engine: &Engine, at: &At, sent: SentKey<'_>, key: &[u8], out: &mut Vec<u8>) {
    let Some(item) = engine
        .store
        .peek_hashed(at.cachelet, key, at.table, at.seconds)
    else {
        return out.extend_from_slice(text::META_MISS);
    };
    out.extend_from_slice(b"ME ");
    out.extend_from_slice(sent.text);
    let expiry = ttl(&item, at.seconds).map_or(-1, i64::from);
    let idle = at.seconds.saturating_sub(item.last_access());
    let fetched = if item.fetched() { "yes" } else { "no" };
    let (version, size) = (
        shown_version(engine.cas_shown, at, item.version()),
        item.size(),
    );
    // Writing into memory cannot fail.
    let _ = write!(
        out,
        " exp={expiry} la={idle} cas={version} fetch={fetched} cls={PSEUDO_CLASS} size={size}\r\n"
    );
}
