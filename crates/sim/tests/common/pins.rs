//! Faults built in on purpose, each with the seed that found it last.

use evenkeel_sim::world::Fault;
use std::io::Write as _;

/// Each fault is noticed: looked for in the seed that found it last, and in all others only once that no longer does, because the cores have
/// changed what happens there. `noticed` says what is wrong in a seed, `search` finds another.
pub fn are_noticed(
    faults: impl IntoIterator<Item = Fault>,
    pins: &[(Fault, u64)],
    noticed: impl Fn(Fault, u64) -> Option<String>,
    search: impl Fn(Fault) -> Option<(u64, String)>,
) {
    let mut missed = Vec::new();
    for fault in faults {
        let pin = pins.iter().find(|(of, _)| *of == fault);
        let pinned = pin.and_then(|(_, seed)| Some((*seed, noticed(fault, *seed)?)));
        if let Some((seed, words)) = pinned {
            println!("{fault:?}: seed {seed}: {words}");
            continue;
        }
        match search(fault) {
            // To the terminal, where it is seen although the test passes.
            Some((seed, words)) => {
                let line = format!("PINS needs (Fault::{fault:?}, {seed}): {words}\n");
                let _ = std::io::stderr().write_all(line.as_bytes());
            }
            None => missed.push(fault),
        }
    }
    assert!(missed.is_empty(), "not noticed in any seed: {missed:?}");
}
