//! What advice is asked for, and what of it is no possible number.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::locality::model::{Architecture, Distances, Racks, Usage};
use crate::locality::topology::RACKS_MAX;

/// Longest time, in ms: nobody waits ten minutes for a memcached.
pub const MS_MAX: f64 = 600_000.0;

/// Most bytes of a request and its answer: the largest item of a memcached has 1 GiB.
pub const BYTES_MAX: f64 = (1u64 << 30) as f64;

/// Most commands of a page: a million would take minutes.
pub const REQUESTS_MAX: f64 = 1e6;

/// How far shares may be from 1 together: they are added up from rounded parts.
const SUM_OFF_MAX: f64 = 1e-6;

/// What the model is told of an application and its network.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// What is asked.
    pub usage: Usage,
    /// How far it is.
    pub distances: Distances,
}

/// What is to be small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// The mean latency of a command.
    Latency,
    /// Bytes across the central switch.
    Network,
    /// The memory that an item takes, copies and notes included.
    Space,
    /// All three: the product of what each would be by what it is today.
    Mixed,
}

impl Objective {
    /// All of them.
    pub const ALL: [Objective; 4] = [
        Objective::Latency,
        Objective::Network,
        Objective::Space,
        Objective::Mixed,
    ];

    /// What is to be small, in words.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Objective::Latency => "the mean latency",
            Objective::Network => "what crosses the central switch",
            Objective::Space => "the memory of an item",
            Objective::Mixed => "the product of latency, network and space",
        }
    }

    /// Whether latency counts.
    pub(super) const fn has_latency(self) -> bool {
        matches!(self, Objective::Latency | Objective::Mixed)
    }
}

/// What there is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Today {
    /// The architecture.
    pub architecture: Architecture,
    /// The mean latency of a command that was measured, in ms.
    pub latency_ms: f64,
}

/// What advice is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// What is to be small.
    pub objective: Objective,
    /// What there is.
    pub today: Today,
    /// 2 to [`RACKS_MAX`] racks, as many as a topology may have.
    pub racks: Racks,
    /// Commands of a page, one after the other.
    pub requests_per_page: f64,
}

/// Why there is no advice. The fault is in what was measured or told, and asking again changes nothing.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Bad {
    /// A number is none, or no possible one.
    #[error("{what} is {value}, which is not between {low} and {high}")]
    Number {
        /// What it is.
        what: &'static str,
        /// The number.
        value: f64,
        /// The least that is possible.
        low: f64,
        /// The most.
        high: f64,
    },
    /// Shares of outcomes are not all there is.
    #[error("the shares of the commands add up to {0} and not to 1")]
    Shares(f64),
    /// One rack or none, or more than there may be.
    #[error("{0} racks: advice is for 2 to {RACKS_MAX}")]
    Racks(u32),
    /// No copy, or more than racks.
    #[error("{copies} copies of an item in {racks} racks: 1 to {racks} are possible")]
    Copies {
        /// Copies.
        copies: u32,
        /// Racks.
        racks: u32,
    },
    /// The servers are said to be central, and no distance to a central one is known.
    #[error("the servers are said to be central, and the distance to a central one is not known")]
    NoCentral,
    /// Some samples know a distance to central servers and others do not.
    #[error(
        "a sample knows no distance to central servers, or knows one as the whole profile does not"
    )]
    Samples,
}

/// Whether all numbers are possible.
///
/// # Errors
/// The first that is not.
pub(super) fn check(question: &Question, whole: &Inputs, samples: &[Inputs]) -> Result<(), Bad> {
    let Racks { racks, copies } = question.racks;
    if !(2..=RACKS_MAX as u32).contains(&racks) {
        return Err(Bad::Racks(racks));
    }
    if !(1..=racks).contains(&copies) {
        return Err(Bad::Copies { copies, racks });
    }
    let measured = question.today.latency_ms;
    between("the latency that was measured", measured, 0.0, MS_MAX)?;
    let requests = question.requests_per_page;
    between(
        "the number of commands of a page",
        requests,
        0.0,
        REQUESTS_MAX,
    )?;
    check_inputs(whole)?;
    let central = whole.distances.central.is_some();
    if question.today.architecture == Architecture::Sdc && !central {
        return Err(Bad::NoCentral);
    }
    for sample in samples {
        check_inputs(sample)?;
        if sample.distances.central.is_some() != central {
            return Err(Bad::Samples);
        }
    }
    Ok(())
}

fn check_inputs(inputs: &Inputs) -> Result<(), Bad> {
    let Inputs { usage, distances } = inputs;
    for share in usage.shares {
        between("the share of a command", share, 0.0, 1.0)?;
    }
    let sum = usage.shares.iter().sum::<f64>();
    if (sum - 1.0).abs() > SUM_OFF_MAX {
        return Err(Bad::Shares(sum));
    }
    between("ps", usage.ps, 0.0, 1.0)?;
    between("rw_net", usage.rw_net, 0.0, 1.0)?;
    between("the size of a request", usage.object_bytes, 1.0, BYTES_MAX)?;
    between("the size of a message", usage.message_bytes, 0.0, BYTES_MAX)?;
    between("the distance within a rack", distances.own, 0.0, MS_MAX)?;
    if let Some(central) = distances.central {
        between("the distance to the central servers", central, 0.0, MS_MAX)?;
    }
    between("the distance to another rack", distances.other, 0.0, MS_MAX)
}

fn between(what: &'static str, value: f64, low: f64, high: f64) -> Result<(), Bad> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Bad::Number {
        what,
        value,
        low,
        high,
    })
}
