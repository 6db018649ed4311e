//! What the tests over many seeds share.

use std::ops::Range;

/// A number that somebody has set for this run.
pub fn from_environment(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name}={value} is not a number")),
    )
}

/// The seeds of a test, printed: one alone, as many as somebody wants, all in the nightly run, or a share of them.
#[allow(
    dead_code,
    reason = "each program that uses this module uses a part of it"
)]
pub fn seeds(all: u64, share: u64) -> Range<u64> {
    let seeds = match from_environment("EVENKEEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let usual = match from_environment("EVENKEEL_NIGHTLY") {
                Some(1) => all,
                _ => share,
            };
            let count = from_environment("EVENKEEL_SIM_SEEDS").unwrap_or(usual);
            let from = from_environment("EVENKEEL_SEEDS_FROM").unwrap_or(0);
            let end = from.checked_add(count).expect("seeds are 64 bits wide");
            from..end
        }
    };
    println!("seeds {seeds:?}");
    seeds
}
