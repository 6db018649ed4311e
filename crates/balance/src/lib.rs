//! Which cachelets move, and where to: the pure decisions of balancing by migration.
//!
//! Replicas (the crate `hotkeys`) divert the reads of a few keys. Where many keys are warm, or one is
//! written a lot, whole cachelets have to change hands (MBal, section 3):
//!
//! - [`local`], phase 2: from one worker to another of the same server. Nothing is copied, the move is lent, and
//!   the cachelet goes home when the hot spot is over.
//! - [`cluster`], phase 3: from one server to another, for good. The data is copied.
//! - [`ring`]: parts of the hash space, between memcached servers that are not ours. No phase of MBal's: it is planned
//!   from slot to slot.
//! - [`phase`]: which of the three phases has to act, and since when; a log of what was decided.
//!
//! Everything here is told loads and answers with a plan, which is a value: it can be printed, checked, compared
//! and thrown away. Nobody here executes it.
//!
//! Loads are in small requests per second (see [`load`]), averaged over some seconds by anyone who
//! measures. A plan predicts the loads that it leads to by the simplest of models: a cachelet takes its load along.
//!
//! # Solvers and their place
//!
//! The paper solves integer programs. Greedy search with swaps does nearly as well in a hundredth of the time, so it
//! decides wherever somebody waits; an integer program ([`solver`]) is for a thread of its own, under a limit on its
//! work.
//! What a solver says is never believed: it is turned into moves, and our own code checks those (`check.rs`).
//!
//! What a worker should carry is its part of the load by what it can do ([`share`]).
//!
//! # Noise
//!
//! Loads waver, and a planner that follows them moves cachelets to and fro. Four things keep it still: a worker is
//! overloaded from one load on and relieved down to a lower one; a plan has to gain something; a cachelet that has
//! just moved stays; and one that was lent goes home only where its home has room to spare.

#![forbid(unsafe_code)]
// See clippy.toml.
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

pub mod cachelet_load;
pub mod cluster;
pub mod load;
pub mod local;
pub mod phase;
pub mod ring;
pub mod share;
pub mod solver;

/// Sum over the loads of how far each is from their mean: the paper's measure of imbalance. 0 for no loads. O(n).
pub fn deviation(loads: &[f64]) -> f64 {
    let mean = mean(loads);
    loads.iter().map(|load| (load - mean).abs()).sum()
}

/// Mean of the loads, 0 for none. O(n).
pub fn mean(loads: &[f64]) -> f64 {
    match loads.len() {
        0 => 0.0,
        n => loads.iter().sum::<f64>() / n as f64,
    }
}

/// What two sums of the same loads in another order may differ by, in parts of the sum.
pub(crate) const ROUNDING: f64 = 1e-9;

/// Largest load that can be reckoned with: sums of a million of them are exact enough, and no machine gets near.
const LOAD_MAX: f64 = 1e12;

/// Whether a load that somebody reported can be reckoned with.
pub(crate) fn is_load(load: f64) -> bool {
    (0.0..=LOAD_MAX).contains(&load)
}
