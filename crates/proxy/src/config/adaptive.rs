//! Pools whose hash space follows the load.

use super::pools::PoolServers;
use super::reader::{Reader, Section};
use evenkeel_control::rings::RingWish;
use evenkeel_placement::ring::Ring;

/// What stands for a distribution of such a pool.
const ADAPTIVE: &str = "adaptive";

/// What its ring begins as that begins as none.
const EVEN: &str = "even";

/// What else says where its keys are, or puts items of ours elsewhere, and why it does not go with a ring.
const REFUSED: [(&str, &str); 4] = [
    ("warm_from", "its former servers are those of the ring"),
    (
        "failover",
        "what is stored elsewhere would not move with its slice",
    ),
    (
        "gutter",
        "what is stored elsewhere would not move with its slice",
    ),
    (
        "hot_keys",
        "replicas of hot keys do not follow a slice that moves",
    ),
];

/// Whether a pool's hash space follows the load.
pub fn is_adaptive(section: &Section<'_>) -> bool {
    section.text_of("distribution") == Some(ADAPTIVE)
}

/// Whether its ring begins with equal shares.
pub fn starts_even(section: &Section<'_>) -> bool {
    is_adaptive(section) && section.text_of("start") == Some(EVEN)
}

/// How the ring of a pool begins, if it has one. What it cannot go together with is told where that stands.
pub fn ring(reader: &mut Reader, section: &Section<'_>, servers: &PoolServers) -> Option<RingWish> {
    if !is_adaptive(section) {
        if section.has("start") {
            let what = "start goes with distribution = \"adaptive\"";
            reader.fail(section.place_of("start"), what);
        }
        return None;
    }
    let span = section.place_of("distribution");
    if !section.has("pool_coordinator") {
        let what = "an adaptive pool needs a pool_coordinator, which leads its ring";
        reader.fail(span.clone(), what);
    }
    for (key, what) in REFUSED.into_iter().filter(|(key, _)| section.has(key)) {
        let what = format!("{key} does not go with distribution = \"adaptive\": {what}");
        reader.fail(section.place_of(key), what);
    }
    let PoolServers::Memcached(list) = servers else {
        reader.fail(span, "an adaptive pool has a list of servers");
        return None;
    };
    let even = starts_even(section);
    let placement = list.config().clone();
    if let (false, Err(error)) = (even, Ring::adopt(&placement)) {
        let place = if section.has("start") {
            "start"
        } else {
            "servers"
        };
        reader.fail(section.place_of(place), error.to_string());
    }
    Some(RingWish { even, placement })
}
