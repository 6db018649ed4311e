//! The cluster's mean load, told to every server as the measure of "more than its share".

use evenkeel_balance::load::most_believed;
use evenkeel_types::Instant;

use crate::limits::LOAD_REFRESH;
use crate::members::Members;

/// The mean, as told to members.
#[derive(Debug, Default)]
pub(crate) struct MeanLoad {
    /// In requests per second of a worker.
    value: f64,
    /// When it was last computed.
    at: Option<Instant>,
}

impl MeanLoad {
    pub(crate) fn value(&self) -> f64 {
        self.value
    }

    /// Computes it, unless that was done just now.
    pub(crate) fn refresh(&mut self, now: Instant, members: &Members) {
        let fresh = |at: Instant| now.since(at) < LOAD_REFRESH;
        if self.at.is_some_and(fresh) {
            return;
        }
        let loads = members.up().flat_map(|server| server.load.iter().copied());
        self.value = clamped_mean(&mut loads.collect::<Vec<f64>>());
        self.at = Some(now);
    }
}

/// Mean of the loads, none counted as more than is believed (see [`most_believed`]). 0 for no loads. Reorders `loads`; all must be finite. O(n).
fn clamped_mean(loads: &mut [f64]) -> f64 {
    if loads.is_empty() {
        return 0.0;
    }
    let most = most_believed(loads);
    loads.iter().map(|load| load.min(most)).sum::<f64>() / loads.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_balance::load::LOAD_CLAMP;

    #[test]
    fn ordinary_loads_give_the_ordinary_mean() {
        assert_eq!(clamped_mean(&mut []), 0.0);
        assert_eq!(clamped_mean(&mut [70_000.0]), 70_000.0);
        assert_eq!(clamped_mean(&mut [4e4, 1e4, 3e4, 2e4]), 25_000.0);
        assert_eq!(clamped_mean(&mut [0.0, 0.0, 0.0, 400.0]), 100.0);
    }

    #[test]
    fn one_node_with_a_thousandfold_load_moves_the_mean_by_little() {
        let mut loads = [10_000.0; 8];
        loads[3] *= 1000.0;
        assert_eq!(
            clamped_mean(&mut loads),
            10_000.0 * (7.0 + LOAD_CLAMP) / 8.0
        );
        assert_eq!(
            clamped_mean(&mut [1e4, 1e7]),
            10_000.0 * (1.0 + LOAD_CLAMP) / 2.0
        );
    }

    #[test]
    fn a_node_that_claims_to_be_idle_cannot_lower_the_mean_by_more_than_its_share() {
        let mut loads = [10_000.0; 8];
        loads[0] = 0.0;
        assert_eq!(clamped_mean(&mut loads), 8_750.0);
    }
}
