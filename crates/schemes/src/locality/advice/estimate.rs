//! What the model says, and how sure that is.

use serde::{Deserialize, Serialize};

use super::question::{Inputs, Objective, Question};
use crate::locality::model::{Architecture, Racks, network, shipped, space};

/// The share of the samples below an interval, and above it.
const TAIL: f64 = 0.05;

/// A figure of the model, and between which ones it lies in nine of ten samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// For the profile as it was measured.
    pub value: f64,
    /// The 5th percentile of the samples; `value` where that is less.
    pub low: f64,
    /// The 95th; `value` where that is more.
    pub high: f64,
}

impl Estimate {
    /// What a figure is for the whole profile and for its samples. `None` if it is for any of them.
    pub(super) fn of(
        whole: &Inputs,
        samples: &[Inputs],
        figure: impl Fn(&Inputs) -> Option<f64>,
    ) -> Option<Estimate> {
        let value = figure(whole)?;
        let mut sorted = samples.iter().map(figure).collect::<Option<Vec<f64>>>()?;
        sorted.sort_by(f64::total_cmp);
        // The nearest rank.
        let percentile = |share: f64| {
            let rank = (share * sorted.len() as f64).ceil() as usize;
            sorted.get(rank.max(1) - 1).copied().unwrap_or(value)
        };
        Some(Estimate {
            value,
            low: percentile(TAIL).min(value),
            high: percentile(1.0 - TAIL).max(value),
        })
    }

    /// This many times as much.
    pub(super) fn times(self, factor: f64) -> Estimate {
        Estimate {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
        }
    }
}

/// What an objective wants small: ms, bytes, items' worth of memory, or the product of the three. `None` where the architecture needs a
/// central server and there is none.
pub(super) fn cost(
    objective: Objective,
    architecture: Architecture,
    inputs: &Inputs,
    racks: Racks,
) -> Option<f64> {
    let usage = &inputs.usage;
    let latency = shipped::mean(architecture, usage, inputs.distances, racks)?;
    let bytes = network::bytes(architecture, usage, racks);
    let memory = 1.0 / space::efficiency(architecture, usage, racks);
    Some(match objective {
        Objective::Latency => latency,
        Objective::Network => bytes,
        Objective::Space => memory,
        Objective::Mixed => latency * bytes * memory,
    })
}

/// What an architecture would cost: of the mixed objective by what today's does, in the same sample. So what all of them share is no
/// uncertainty.
pub(super) fn score(
    question: &Question,
    architecture: Architecture,
    whole: &Inputs,
    samples: &[Inputs],
) -> Option<Estimate> {
    let Question {
        objective, racks, ..
    } = *question;
    Estimate::of(whole, samples, |inputs| {
        let cost_of = |one| cost(objective, one, inputs, racks);
        match objective {
            Objective::Mixed => {
                let (cost, today) = (
                    cost_of(architecture)?,
                    cost_of(question.today.architecture)?,
                );
                // Nothing by nothing is as much as today.
                Some(if cost == today { 1.0 } else { cost / today })
            }
            _ => cost_of(architecture),
        }
    })
}
