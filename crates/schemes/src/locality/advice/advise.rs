//! All that the model has to say about an application, in one value.

use serde::{Deserialize, Serialize};

use super::choice::choose;
use super::estimate::{Estimate, cost};
use super::question::{Bad, Inputs, Objective, Question, check};
use crate::locality::model::turn::{Turn, turns};
use crate::locality::model::{Architecture, Distances, network, shipped, space};

/// How many times as slow as they are switches may become among the turning points.
pub const SWITCH_TIMES: f64 = 10.0;

/// What an architecture would be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which.
    pub architecture: Architecture,
    /// Mean latency of a command, in ms. `None` where it needs a central server and there is none.
    pub latency_ms: Option<Estimate>,
    /// The same of all commands of a page.
    pub page_ms: Option<Estimate>,
    /// Bytes across the central switch, of a command.
    pub central_bytes: Option<Estimate>,
    /// The share of memory that holds items, each once.
    pub space: Option<Estimate>,
    /// The mean latency of a command that was measured, in ms: of today's architecture alone.
    pub measured_ms: Option<f64>,
}

/// A number of an application or its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Number {
    /// The share of keys that are a session's own.
    Ps,
    /// What a switch adds to a round trip, in ms.
    Switch,
    /// The share of reads among commands.
    Reads,
}

/// Where the best of all architectures is another one as a number changes and all else stays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turning {
    /// The number.
    pub number: Number,
    /// What it was measured as.
    pub now: f64,
    /// The least that was looked at.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// The places, from low to high.
    pub turns: Vec<Turn<Architecture>>,
}

/// What to do, and what it is worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// What was to be small.
    pub objective: Objective,
    /// Each of [`Architecture::ALL`], in that order.
    pub rows: Vec<Row>,
    /// What to change to. `None`: no change.
    pub choice: Option<Architecture>,
    /// Why, in a sentence.
    pub reason: String,
    /// Where the best is another: by ps, switch and reads.
    pub turnings: Vec<Turning>,
}

/// What to do, by the profile as it was measured and by bootstrap samples of it. Without samples every interval is a point.
///
/// Takes time by the number of samples, and at least some 3,000 evaluations of the model for the turning points.
///
/// # Errors
/// If a number is no possible one.
pub fn advise(question: &Question, whole: &Inputs, samples: &[Inputs]) -> Result<Advice, Bad> {
    check(question, whole, samples)?;
    let (choice, reason) = choose(question, whole, samples);
    let rows = Architecture::ALL.map(|architecture| row(question, architecture, whole, samples));
    let numbers = [Number::Ps, Number::Switch, Number::Reads];
    Ok(Advice {
        objective: question.objective,
        rows: rows.into(),
        choice,
        reason,
        turnings: numbers
            .map(|number| turning(question, number, whole))
            .into(),
    })
}

fn row(question: &Question, architecture: Architecture, whole: &Inputs, samples: &[Inputs]) -> Row {
    let (racks, today) = (question.racks, question.today);
    let latency_ms = Estimate::of(whole, samples, |inputs| {
        shipped::mean(architecture, &inputs.usage, inputs.distances, racks)
    });
    let of_usage = |figure: &dyn Fn(&Inputs) -> f64| {
        Estimate::of(whole, samples, |inputs| latency_ms.map(|_| figure(inputs)))
    };
    Row {
        architecture,
        latency_ms,
        page_ms: latency_ms.map(|latency| latency.times(question.requests_per_page)),
        central_bytes: of_usage(&|inputs| network::bytes(architecture, &inputs.usage, racks)),
        space: of_usage(&|inputs| space::efficiency(architecture, &inputs.usage, racks)),
        measured_ms: (architecture == today.architecture).then_some(today.latency_ms),
    }
}

fn turning(question: &Question, number: Number, whole: &Inputs) -> Turning {
    let Inputs { usage, distances } = *whole;
    let (now, low, high) = match number {
        Number::Ps => (usage.ps, 0.0, 1.0),
        Number::Reads => (usage.reads(), 0.0, 1.0),
        Number::Switch => {
            let now = distances.switch();
            let low = fastest_switch(distances);
            (now, low, (SWITCH_TIMES * now).max(low))
        }
    };
    let best = |value| {
        let mut inputs = *whole;
        match number {
            Number::Ps => inputs.usage.ps = value,
            Number::Reads => inputs.usage = usage.with_reads(value),
            Number::Switch => inputs.distances = distances.with_switch(value),
        }
        best(question, &inputs)
    };
    Turning {
        number,
        now,
        low,
        high,
        turns: turns(low, high, best),
    }
}

/// The fastest switch with which no distance is below nothing.
fn fastest_switch(distances: Distances) -> f64 {
    let less = [
        Some(distances.own),
        distances.central.map(|central| central / 2.0),
        Some(distances.other / 3.0),
    ];
    let least = less.into_iter().flatten().fold(f64::INFINITY, f64::min);
    (distances.switch() - least).max(0.0)
}

/// The architecture that costs least; of equal ones the plainest.
fn best(question: &Question, inputs: &Inputs) -> Architecture {
    let costs = Architecture::ALL.into_iter().filter_map(|one| {
        let cost = cost(question.objective, one, inputs, question.racks)?;
        Some((one, cost))
    });
    let least = costs.min_by(|a, b| a.1.total_cmp(&b.1));
    least.map_or(question.today.architecture, |(one, _)| one)
}
