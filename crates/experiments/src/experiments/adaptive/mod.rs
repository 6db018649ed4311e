//! Adaptive hashing (Hwang and Wood, ICAC 2013): a ring that follows the load, on a model of slots, and before real memcacheds.

mod convergence;
mod figure_10;
mod figure_2;
mod figure_7;
mod figure_8;
mod figure_9;
pub(super) mod fleet;
mod moves;
mod pages;
mod slots;

pub(super) use figure_2::FIGURE_2;
pub(super) use figure_7::FIGURE_7;
pub(super) use figure_8::FIGURE_8;
pub(super) use figure_9::FIGURE_9;
pub(super) use figure_10::FIGURE_10;
pub(super) use moves::MOVES;

use super::Experiment;
use evenkeel_balance::mean;
use evenkeel_balance::ring::{CostSettings, Paper, PaperSettings};
use evenkeel_placement::config::{Distribution, PlacementConfig, Server};
use evenkeel_placement::hash::Hash;
use evenkeel_placement::ring::Ring;

/// How many times as much the first of the paper's servers is asked for as each of the others (section 4.3).
const SKEW: f64 = 2.5;

/// By how much the paper's planner divides the deviation of request rates: from 0.77 to 0.09.
const DIVIDED: f64 = 0.77 / 0.09;

/// Standard deviation by mean, 0 for none.
fn deviation(numbers: &[f64]) -> f64 {
    let mean_of = mean(numbers);
    let squares: Vec<f64> = numbers.iter().map(|n| (n - mean_of).powi(2)).collect();
    match mean_of > 0.0 {
        true => mean(&squares).sqrt() / mean_of,
        false => 0.0,
    }
}

/// Servers as ketama knows them, with keys hashed as the paper's proxy does.
fn config(distribution: Distribution, servers: usize) -> PlacementConfig {
    let server = |n| Server::new(format!("10.0.{}.{}", n / 250, n % 250), 11211);
    PlacementConfig {
        distribution,
        hash: Some(Hash::Md5),
        servers: (0..servers).map(server).collect(),
        ..PlacementConfig::default()
    }
}

/// A ring as small as the paper's scheduling starts from: every ordered pair is adjacent once.
fn one_circuit(servers: usize) -> anyhow::Result<Ring> {
    Ok(Ring::even(servers, 1)?)
}

/// The paper's planner with slots of a minute.
fn paper(alpha: f64, beta: f64) -> anyhow::Result<Paper> {
    let cost = CostSettings {
        alpha,
        ..CostSettings::default()
    };
    Ok(Paper::new(PaperSettings { cost, beta })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_of_the_papers_start_is_0_47() {
        assert!((deviation(&[SKEW, 1.0, 1.0]) - 0.4714).abs() < 1e-4);
        assert_eq!(deviation(&[3.0, 3.0]), 0.0);
        assert_eq!(deviation(&[]), 0.0);
    }
}
