//! What a request costs a server's worker: this much for each operation, each byte and each batch.
//!
//! A *batch* is what a worker reads of one connection at once. A worker that is behind finds more in
//! each batch, so that what a batch costs (a wake-up, two system calls) is shared by more requests:
//! real servers grow cheaper per request with load, and a model without that saturates too early.
//!
//! The three numbers come from measurements (`evenkeel sim calibrate`): closed-loop runs of
//! `evenkeel bench run` against a server that they saturate, with pipelines and sizes that differ.

use crate::history::Nanos;
use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Costs of a worker, in nanoseconds of its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceModel {
    /// Of each operation on a key.
    pub operation_ns: f64,
    /// Of each byte of a request or an answer.
    pub byte_ns: f64,
    /// Of each batch.
    pub batch_ns: f64,
}

impl ServiceModel {
    /// How long a worker takes.
    pub fn cost(&self, operations: u64, bytes: u64, batches: u64) -> Nanos {
        let cost = self.operation_ns * operations as f64
            + self.byte_ns * bytes as f64
            + self.batch_ns * batches as f64;
        cost as Nanos
    }

    /// Whether nothing takes any time.
    pub fn is_free(&self) -> bool {
        *self == ServiceModel::default()
    }

    /// Checks a model that was read from a file.
    ///
    /// # Errors
    /// When a cost is negative or not a number.
    pub fn validate(&self) -> anyhow::Result<()> {
        for (name, cost) in [
            ("operation_ns", self.operation_ns),
            ("byte_ns", self.byte_ns),
            ("batch_ns", self.batch_ns),
        ] {
            ensure!(
                cost.is_finite() && cost >= 0.0,
                "{name} = {cost} is no cost"
            );
        }
        Ok(())
    }
}

/// One measurement: what a request was on average, and what it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Operations, bytes and batches of a request.
    pub request: [f64; 3],
    /// Worker time of a request, in nanoseconds.
    pub nanos: f64,
}

/// A model and how well it fits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// The model.
    #[serde(flatten)]
    pub model: ServiceModel,
    /// Runs that it was made of.
    pub runs: usize,
    /// Largest difference between the model and a run, in parts of the run's own.
    pub worst_error: f64,
}

/// Bytes of a text request and its answer besides key and value: `get`, `VALUE … 0 100`, `END` and
/// line ends; `set … 0 0 100`, `STORED`.
const GET_HIT_OVERHEAD: f64 = 4.0 + 2.0 + 6.0 + 2.0 + 4.0 + 2.0 + 2.0 + 5.0;
const GET_MISS_OVERHEAD: f64 = 4.0 + 2.0 + 5.0;
const SET_OVERHEAD: f64 = 4.0 + 5.0 + 4.0 + 2.0 + 2.0 + 8.0;

impl Measured {
    /// The measurements of a report of `evenkeel bench run --format json`, of the target of this
    /// number. `workers` is how many threads the server had, each a core of its own.
    ///
    /// # Errors
    /// When it is no such report, or not of a closed loop: only a saturated server tells its cost.
    pub fn of_report(report: &Value, target: usize, workers: usize) -> anyhow::Result<Self> {
        let settings = &report["settings"];
        let absent = |name: &str| {
            format!("settings.{name} is not there; is it a report of evenkeel bench run?")
        };
        let number = |name: &str| settings[name].as_f64().with_context(|| absent(name));
        let size = |name: &str| mean_size(settings[name].as_str().with_context(|| absent(name))?);
        if !settings["rate_per_second"].is_null() {
            bail!("it is a run at a fixed rate; only a closed loop saturates a server");
        }
        let Some(measured) = report["targets"].get(target) else {
            bail!("it has no target {target}");
        };
        let rate = measured["medians"]["requests_per_second"]
            .as_f64()
            .filter(|rate| *rate > 0.0)
            .context("the target answered nothing")?;
        let hit = measured["rounds"][0]["hit_ratio"].as_f64().unwrap_or(1.0);
        let (key, value) = (size("key_size_bytes")?, size("value_size_bytes")?);
        let (gets, keys) = (number("get_share")?, size("multiget")?);
        let pipeline = number("pipeline")?;
        let get_bytes =
            hit * (GET_HIT_OVERHEAD + 2.0 * key + value) + (1.0 - hit) * (GET_MISS_OVERHEAD + key);
        let set_bytes = SET_OVERHEAD + key + value;
        let operations = gets * keys + (1.0 - gets);
        let bytes = gets * keys * get_bytes + (1.0 - gets) * set_bytes;
        Ok(Measured {
            request: [operations, bytes, 1.0 / pipeline.max(1.0)],
            nanos: workers as f64 * 1e9 / rate,
        })
    }
}

/// `100`, or the middle of `64..1024`.
fn mean_size(text: &str) -> anyhow::Result<f64> {
    let number = |part: &str| {
        part.parse::<f64>()
            .with_context(|| format!("'{text}' is neither a number nor a range"))
    };
    Ok(match text.split_once("..") {
        Some((least, most)) => (number(least)? + number(most)?) / 2.0,
        None => number(text)?,
    })
}

/// The model nearest to what was measured: of all models without negative costs, that with the least
/// sum of squared relative errors. What runs that are too alike cannot tell apart is counted as cost
/// of operations.
///
/// # Errors
/// Without any measurement.
pub fn fit(measured: &[Measured]) -> anyhow::Result<Fit> {
    ensure!(!measured.is_empty(), "there is nothing to calibrate by");
    // Which costs are not zero; simpler models first, and each is beaten only by a better one.
    let choices: [&[usize]; 7] = [&[0], &[0, 2], &[0, 1], &[0, 1, 2], &[1], &[2], &[1, 2]];
    let mut best: Option<([f64; 3], f64)> = None;
    for choice in choices.into_iter().filter(|c| c.len() <= measured.len()) {
        let Some(costs) = least_squares(measured, choice) else {
            continue;
        };
        if costs.iter().any(|cost| *cost < 0.0) {
            continue;
        }
        let error = squared_error(measured, &costs);
        if best.is_none_or(|(_, least)| error < 0.999 * least - 1e-12) {
            best = Some((costs, error));
        }
    }
    let (costs, _) = best.context("no model without negative costs fits")?;
    let worst = measured.iter().map(|run| relative_error(run, &costs).abs());
    Ok(Fit {
        model: ServiceModel {
            operation_ns: costs[0],
            byte_ns: costs[1],
            batch_ns: costs[2],
        },
        runs: measured.len(),
        worst_error: worst.fold(0.0, f64::max),
    })
}

fn relative_error(run: &Measured, costs: &[f64; 3]) -> f64 {
    let told: f64 = run
        .request
        .iter()
        .zip(costs)
        .map(|(x, cost)| x * cost)
        .sum();
    told / run.nanos - 1.0
}

fn squared_error(measured: &[Measured], costs: &[f64; 3]) -> f64 {
    measured
        .iter()
        .map(|run| relative_error(run, costs).powi(2))
        .sum()
}

/// Solves the normal equations for the chosen costs by Gaussian elimination.
fn least_squares(measured: &[Measured], choice: &[usize]) -> Option<[f64; 3]> {
    let n = choice.len();
    let mut rows = vec![vec![0.0; n + 1]; n];
    for run in measured {
        // Relative to what was measured, so that slow runs weigh no more than fast ones.
        let x = |i: usize| run.request[choice[i]] / run.nanos;
        for (i, row) in rows.iter_mut().enumerate() {
            for (j, cell) in row.iter_mut().take(n).enumerate() {
                *cell += x(i) * x(j);
            }
            row[n] += x(i);
        }
    }
    for i in 0..n {
        let largest = |row: &Vec<f64>| row[i].abs();
        let pivot = (i..n).max_by(|a, b| largest(&rows[*a]).total_cmp(&largest(&rows[*b])))?;
        rows.swap(i, pivot);
        let scale: f64 = rows[i].iter().take(n).map(|cell| cell.abs()).sum();
        // Runs that do not differ in these costs cannot tell them apart.
        if rows[i][i].abs() <= 1e-9 * scale || scale == 0.0 {
            return None;
        }
        let pivot = rows[i].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(j, _)| *j != i) {
            let factor = row[i] / pivot[i];
            for (cell, above) in row.iter_mut().zip(&pivot).skip(i) {
                *cell -= factor * above;
            }
        }
    }
    let mut costs = [0.0; 3];
    for (i, &cost) in choice.iter().enumerate() {
        costs[cost] = rows[i][n] / rows[i][i];
    }
    Some(costs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TRUE: ServiceModel = ServiceModel {
        operation_ns: 400.0,
        byte_ns: 0.5,
        batch_ns: 6_000.0,
    };

    fn run(operations: f64, bytes: f64, batches: f64, noise: f64) -> Measured {
        let nanos = TRUE.operation_ns * operations + TRUE.byte_ns * bytes + TRUE.batch_ns * batches;
        Measured {
            request: [operations, bytes, batches],
            nanos: nanos * noise,
        }
    }

    #[test]
    fn the_costs_behind_measurements_are_found() {
        let runs = [
            run(1.0, 150.0, 1.0, 1.0),
            run(1.0, 150.0, 1.0 / 16.0, 1.0),
            run(1.0, 4_000.0, 1.0 / 16.0, 1.0),
            run(10.0, 1_500.0, 1.0, 1.0),
        ];
        let found = fit(&runs).unwrap();
        assert!((found.model.operation_ns - 400.0).abs() < 0.01, "{found:?}");
        assert!((found.model.byte_ns - 0.5).abs() < 0.001, "{found:?}");
        assert!((found.model.batch_ns - 6_000.0).abs() < 0.1, "{found:?}");
        assert!(found.worst_error < 1e-6);
        let noisy: Vec<_> = runs.iter().zip([1.02, 0.98, 1.01, 0.99]).collect();
        let noisy: Vec<_> = noisy
            .into_iter()
            .map(|(run, noise)| Measured {
                nanos: run.nanos * noise,
                ..*run
            })
            .collect();
        let found = fit(&noisy).unwrap();
        assert!(found.worst_error < 0.03, "{found:?}");
    }

    #[test]
    fn what_cannot_be_told_apart_is_cost_of_operations() {
        let one = fit(&[run(1.0, 150.0, 1.0, 1.0)]).unwrap();
        assert_eq!((one.model.byte_ns, one.model.batch_ns), (0.0, 0.0));
        assert!((one.model.operation_ns - 6_475.0).abs() < 0.01);
        let same = fit(&[run(1.0, 150.0, 1.0, 1.0); 3]).unwrap();
        assert!((same.model.operation_ns - 6_475.0).abs() < 0.01);
        // Two pipelines: operations and batches.
        let two = [run(1.0, 150.0, 1.0, 1.0), run(1.0, 150.0, 1.0 / 16.0, 1.0)];
        let two = fit(&two).unwrap();
        assert!((two.model.batch_ns - 6_000.0).abs() < 0.1, "{two:?}");
        assert!((two.model.operation_ns - 475.0).abs() < 0.1, "{two:?}");
        assert!(fit(&[]).is_err());
        // Never negative, whatever noise says.
        let odd = [run(1.0, 150.0, 1.0, 1.0), run(1.0, 150.0, 0.1, 9.0)];
        let odd = fit(&odd).unwrap().model;
        odd.validate().unwrap();
    }

    #[test]
    fn a_bench_report_tells_what_a_request_was() {
        let report = |rate: Value| {
            json!({
                "settings": {
                    "pipeline": 16, "multiget": "1", "get_share": 0.5, "key_size_bytes": "10",
                    "value_size_bytes": "64..136", "rate_per_second": rate,
                },
                "targets": [{
                    "medians": { "requests_per_second": 500_000.0 },
                    "rounds": [{ "hit_ratio": 1.0 }],
                }],
            })
        };
        let measured = Measured::of_report(&report(Value::Null), 0, 2).unwrap();
        assert_eq!(measured.nanos, 4_000.0);
        let bytes = 0.5 * (GET_HIT_OVERHEAD + 120.0) + 0.5 * (SET_OVERHEAD + 110.0);
        assert_eq!(measured.request, [1.0, bytes, 1.0 / 16.0]);
        let wrong = [
            Measured::of_report(&report(json!(1000.0)), 0, 1),
            Measured::of_report(&report(Value::Null), 1, 1),
            Measured::of_report(&json!({}), 0, 1),
        ];
        for wrong in wrong {
            assert!(wrong.is_err());
        }
    }
}
