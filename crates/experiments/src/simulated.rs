//! Load on simulated servers, in either fidelity of the simulator.

use crate::trial::{Subject, Trial};
use anyhow::anyhow;
use evenkeel_bench::Latency;
use evenkeel_sim::load::{Arrivals, LatencyUs, LoadPlan, fast, whole};
use std::fmt;

/// How much is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Fidelity {
    /// Queues and decisions alone.
    #[default]
    Fast,
    /// The cores that ship, byte by byte, with proxies and storage: some twenty times slower.
    Whole,
}

impl fmt::Display for Fidelity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fidelity::Whole => "the cores that ship, byte by byte",
            Fidelity::Fast => "queues and decisions alone",
        })
    }
}

/// Simulated servers under a load of one kind. Each trial begins with new ones.
#[derive(Clone, Debug)]
pub struct SimulatedLoad {
    /// What is simulated, but for the rate.
    pub plan: LoadPlan,
    /// How much of it.
    pub fidelity: Fidelity,
}

impl Subject for SimulatedLoad {
    fn trial(&mut self, requests_per_second: f64) -> anyhow::Result<Trial> {
        let plan = LoadPlan {
            arrivals: Arrivals::Open {
                rate: requests_per_second,
            },
            ..self.plan.clone()
        };
        let report = match self.fidelity {
            Fidelity::Whole => whole::run(&plan),
            Fidelity::Fast => fast::run(&plan),
        };
        let report = report.map_err(|words| anyhow!(words))?;
        let answered = (report.requests - report.errors) as f64;
        Ok(Trial {
            offered_per_second: requests_per_second,
            requests_per_second: answered * 1e9 / plan.length as f64,
            latency: latency(&report.latency_us),
            reads: latency(&report.read_latency_us),
            writes: latency(&report.write_latency_us),
            hit_ratio: report.hit_ratio,
            keys_per_second_of_servers: report.worker_keys_per_second,
            loads_of_workers: Vec::new(),
            errors: report.errors,
            // The simulator ends a run in which one was read.
            wrong_values: 0,
        })
    }

    /// The same load goes the same way again.
    fn has_hiccups(&self) -> bool {
        false
    }
}

/// Latencies as real servers' are told.
pub(crate) fn latency(of: &LatencyUs) -> Latency {
    Latency {
        latency_us_mean: of.mean,
        latency_us_p50: of.p50,
        latency_us_p90: of.p90,
        latency_us_p95: of.p95,
        latency_us_p99: of.p99,
        latency_us_p99_9: of.p99_9,
        latency_us_p99_99: of.p99_99,
        latency_us_max: of.max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_sim::load::ServiceModel;
    use evenkeel_workload::Popularity;

    #[test]
    fn both_fidelities_give_trials_that_agree() {
        let plan = LoadPlan {
            servers: 3,
            proxies: 1,
            clients: 16,
            keys: 3_000,
            popularity: Popularity::Uniform,
            get_share: 0.9,
            prefill: true,
            service: ServiceModel {
                operation_ns: 1e6,
                ..ServiceModel::default()
            },
            warm_up: 2_000_000_000,
            length: 10_000_000_000,
            ..LoadPlan::default()
        };
        let [whole, fast] = [Fidelity::Whole, Fidelity::Fast].map(|fidelity| {
            let plan = plan.clone();
            let mut load = SimulatedLoad { plan, fidelity };
            load.trial(1_500.0).expect("a sound plan")
        });
        for trial in [&whole, &fast] {
            assert_eq!(trial.hit_ratio, 1.0);
            assert_eq!(trial.errors, 0);
            assert!((1_450.0..1_550.0).contains(&trial.requests_per_second));
            assert_eq!(trial.keys_per_second_of_servers.len(), 3);
            // A key takes a millisecond, and there are queues.
            assert!((1_000.0..2_000.0).contains(&trial.reads.latency_us_p50));
            assert!(trial.writes.latency_us_p90 > trial.writes.latency_us_p50);
        }
        let p90 = whole.latency.latency_us_p90 / fast.latency.latency_us_p90;
        assert!((0.8..1.25).contains(&p90), "{p90}");
    }
}
