//! Names of a pool's own for its items, so that what others have at the same servers is not in their way.

use super::adaptive::is_adaptive;
use super::pools::PoolServers;
use super::reader::{Reader, Section};
use evenkeel_schemes::generation::{GENERATION_MAX, PREFIX_LEN, name_prefix};
use evenkeel_types::KeyHash;

/// What it is called.
const GENERATION: &str = "generation";

/// What else puts items of ours elsewhere, or has names of its own.
const REFUSED: [&str; 4] = ["failover", "gutter", "hot_keys", "start"];

/// What stands before the keys of a pool in the names of its items: nothing in generation 0.
pub fn generation(
    reader: &mut Reader,
    pool: &str,
    section: &Section<'_>,
    servers: &PoolServers,
) -> Option<[u8; PREFIX_LEN]> {
    if !section.has(GENERATION) {
        return None;
    }
    let generation = reader.number(section, GENERATION, 0..=GENERATION_MAX)?;
    if matches!(servers, PoolServers::Evenkeel(_)) {
        let what = "generation goes with a pool of memcached servers";
        reader.fail(section.place_of(GENERATION), what);
    }
    for key in REFUSED.into_iter().filter(|key| section.has(key)) {
        let what = format!("{key} does not go with generation: not built");
        reader.fail(section.place_of(key), what);
    }
    if is_adaptive(section) {
        let what = "distribution = \"adaptive\" does not go with generation: items of a ring have names of its own";
        reader.fail(section.place_of(GENERATION), what);
    }
    // Pools of other names have other ones in the same generation.
    name_prefix(KeyHash::of(pool.as_bytes()).0, generation.value)
}
