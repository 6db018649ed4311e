//! What distance costs (Talaga and Chapin, "Exploring non-typical memcache architectures"): the plots of their model, by ours, and
//! real servers beside it.

mod figure_11;
mod figure_4;
mod figure_5;
mod figure_6;
mod ground;
mod local_copies;
mod means;
mod profiled;
mod switch;

pub(super) use figure_4::FIGURE_4;
pub(super) use figure_5::FIGURE_5;
pub(super) use figure_6::FIGURE_6;
pub(super) use figure_11::FIGURE_11;
pub(super) use local_copies::LOCAL_COPIES;
pub(super) use means::MEANS;
pub use profiled::plots;
pub(super) use switch::SWITCH;

use super::Experiment;
use crate::report::Table;
use evenkeel_bench::plot::{Axis, Curve, Plot};
use evenkeel_schemes::locality::Outcome;
use evenkeel_schemes::locality::model::turn::turns;
use evenkeel_schemes::locality::model::{Architecture, Network, Racks, Usage, paper};

/// Racks of the paper's figures, and copies in SDR.
const RACKS: Racks = Racks {
    racks: 5,
    copies: 2,
};

/// The network of its Figures 5 and 6; Figure 4 has other switches.
const NETWORK: Network = Network {
    switch: 1.0,
    base: 4.4,
};

/// The values of ps that its Figures 4 and 6 are drawn for.
const PS: [f64; 3] = [0.1, 0.5, 0.9];

/// Points of a curve.
const POINTS: u32 = 20;

/// MediaWiki with full caching, as Figure 7 prints it.
fn mediawiki(ps: f64) -> Usage {
    Usage {
        shares: Usage::mix(&[
            (Outcome::SetHit, 0.24),
            (Outcome::DeleteHit, 0.02),
            (Outcome::IncrMiss, 0.22),
            (Outcome::GetHit, 0.44),
            (Outcome::GetMiss, 0.08),
        ]),
        ps,
        rw_net: 0.61,
        object_bytes: 870.0,
        message_bytes: 100.0,
    }
}

/// Reads and sets alone; this many of the commands are reads, and this many of these find nothing.
fn reads_and_sets(reads: f64, misses: f64, ps: f64) -> Usage {
    Usage {
        shares: Usage::mix(&[
            (Outcome::SetHit, 1.0 - reads),
            (Outcome::GetHit, reads * (1.0 - misses)),
            (Outcome::GetMiss, reads * misses),
        ]),
        ..mediawiki(ps)
    }
}

/// The mean latency of a command, in ms. All of the paper's networks but Figure 11's have a central server.
fn mean(architecture: Architecture, usage: &Usage, network: Network) -> f64 {
    paper::mean(architecture, usage, network.into(), RACKS).unwrap_or(f64::NAN)
}

/// Where an answer turns from no to yes, if it does.
fn from_on(low: f64, high: f64, is_better: impl Fn(f64) -> bool) -> Option<f64> {
    let turns = turns(low, high, is_better);
    turns.into_iter().find(|turn| turn.to).map(|turn| turn.at)
}

/// Such a place in words.
fn place(found: Option<f64>) -> String {
    found.map_or("nowhere".into(), |at| format!("{at:.3}"))
}

/// The means of all architectures of a figure over one number: the curves of a plot and the rows of a table.
struct Sweep<'a> {
    architectures: &'a [Architecture],
    /// The number's name, with the unit.
    over: &'a str,
    range: (f64, f64),
    /// The mean latency in ms of an architecture where the number is so.
    mean: &'a dyn Fn(Architecture, f64) -> f64,
}

impl Sweep<'_> {
    fn plot(&self, name: String, title: String) -> Plot {
        let (low, high) = self.range;
        let at = |point| low + (high - low) * f64::from(point) / f64::from(POINTS);
        let curve = |&architecture: &Architecture| {
            let points =
                (0..=POINTS).map(|point| (at(point), (self.mean)(architecture, at(point))));
            Curve::new(architecture.word(), points.collect())
        };
        Plot {
            name,
            title,
            x: Axis::linear(self.over),
            y: Axis::linear("mean of a command, ms"),
            curves: self.architectures.iter().map(curve).collect(),
        }
    }

    /// A row for each of these values of the number.
    fn table(&self, title: &str, values: &[f64]) -> Table {
        let words: Vec<_> = self.architectures.iter().map(|one| one.word()).collect();
        let mut table = Table::new(title, &format!("{}|{}", self.over, words.join("|")));
        for &value in values {
            let means = self
                .architectures
                .iter()
                .map(|&one| (self.mean)(one, value));
            let means = means.map(|mean| format!("{mean:.2}"));
            table.row([value.to_string()].into_iter().chain(means));
        }
        table
    }
}
