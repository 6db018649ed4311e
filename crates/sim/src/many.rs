//! Many runs at once: each is one thread's work from its beginning to its end.

use crate::world::{Outcome, Plan, World};
use core::num::NonZeroUsize;
use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

/// Cores of this machine.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Runs the plan of each seed, `threads` at a time, and shows the outcomes in the order of seeds.
/// It ends early when `each` says so by `false`.
pub fn run(
    seeds: Range<u64>,
    threads: usize,
    plan: impl Fn(u64) -> Plan + Sync,
    mut each: impl FnMut(u64, Outcome) -> bool,
) {
    // A few outcomes may wait for an earlier one, not all: a history takes megabytes.
    let (finished, outcomes) = mpsc::sync_channel(threads);
    let (next, plan) = (&AtomicU64::new(seeds.start), &plan);
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let (finished, end) = (finished.clone(), seeds.end);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let outcome = World::new(plan(seed)).run();
                    if finished.send((seed, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(finished);
        let mut early = BTreeMap::new();
        let mut due = seeds.start;
        // Dropping the receiver at the end of this scope ends the others.
        let outcomes = outcomes;
        'runs: for (seed, outcome) in &outcomes {
            early.insert(seed, outcome);
            while let Some(outcome) = early.remove(&due) {
                if !each(due, outcome) {
                    break 'runs;
                }
                due += 1;
            }
        }
    });
}
