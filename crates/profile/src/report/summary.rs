//! A report as it is shown: each quantity with its spread.

use super::groups::GROUPS;
use super::measured::{Measured, Sums};
use super::network::Sorted;
use crate::head::Head;
use crate::sampling::Sampling;
use evenkeel_schemes::locality::Outcome;
use serde::Serialize;

/// All of a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Who has recorded.
    pub proxy: String,
    /// What was recorded.
    pub sampling: Sampling,
    /// Records that were read.
    pub records: u64,
    /// From the first record's time to the last one's.
    pub seconds: f64,
    /// All pools together, and then each if there are several.
    pub sections: Vec<Section>,
    /// What the profile cannot say, and what bends what it says: a sentence each.
    pub remarks: Vec<String>,
}

/// What is said of a pool, or of all.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Section {
    /// The pool; `None` for all together.
    pub pool: Option<String>,
    /// Commands in the sample that commands are counted in.
    pub commands: u64,
    /// Sessions in it, about.
    pub sessions: u64,
    /// Pages in it, about.
    pub pages: u64,
    /// Outcomes that occurred, in the order of the paper's Figure 1.
    pub mix: Vec<Share>,
    /// [`Measured::ps`].
    pub ps: Option<Figure>,
    /// [`Measured::ps_rack`].
    pub ps_rack: Option<Figure>,
    /// [`Measured::rw_cmd`].
    pub rw_cmd: Option<Figure>,
    /// [`Measured::rw_net`].
    pub rw_net: Option<Figure>,
    /// [`Measured::hits`].
    pub hits: Option<Figure>,
    /// [`Measured::object_bytes`].
    pub object_bytes: Option<Figure>,
    /// [`Measured::network_bytes`].
    pub network_bytes: Option<Figure>,
    /// [`Measured::message_bytes`].
    pub message_bytes: Option<Figure>,
    /// [`Measured::commands_per_page`].
    pub commands_per_page: Option<Figure>,
    /// [`Measured::requests_per_page`].
    pub requests_per_page: Option<Figure>,
    /// [`Measured::latency_ms`].
    pub latency_ms: Option<Figure>,
    /// [`Measured::switch_ms`].
    pub switch_ms: Option<Figure>,
    /// [`Measured::base_ms`].
    pub base_ms: Option<Figure>,
    /// The paper's `l_1`, `l_2` and `l_3`, those that occurred.
    pub distances: Vec<Distance>,
    /// Latencies by the rack that answered.
    pub racks: Vec<RackLatency>,
    /// The same quantities as bare numbers.
    #[serde(skip)]
    pub measured: Measured,
    /// What each resample of the sessions makes of them; empty if there is no second session.
    #[serde(skip)]
    pub resamples: Vec<Measured>,
}

/// A quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What it is.
    pub value: f64,
    /// From where to where 95 % of the resamples lie; `None` if there are none.
    pub spread: Option<(f64, f64)>,
}

/// A part of the mix.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// [`Outcome::word`].
    pub outcome: &'static str,
    /// Its share of the commands.
    pub share: Figure,
}

/// Latencies of all commands that passed this many switches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Distance {
    /// 1 within a rack, 2 to or from the backbone, 3 to another rack.
    pub switches: u8,
    /// Answered commands.
    pub commands: u64,
    /// Their median, weighed by commands over racks.
    pub median_ms: f64,
}

/// Latencies of a rack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RackLatency {
    /// The rack that answered; `None` if it is not known.
    pub rack: Option<String>,
    /// How many switches away it was; `None` if one of both racks is not known.
    pub switches: Option<u8>,
    /// Answered commands.
    pub commands: u64,
    /// Half of them took no longer.
    pub p50_ms: f64,
    /// 99 of 100 took no longer.
    pub p99_ms: f64,
}

/// What sums say of a pool. `sessions` and `pages` are counts of the sample.
pub(super) fn section(
    pool: Option<String>,
    sums: &Sums<'_>,
    (sessions, pages): (u64, u64),
    head: &Head,
) -> Section {
    let once = [1; GROUPS];
    let measured = sums.measured(&once);
    let resamples = sums.resamples();
    let figure = |of: &dyn Fn(&Measured) -> Option<f64>| {
        let value = of(&measured)?;
        let drawn = resamples.iter().filter_map(of).collect();
        Some(Figure {
            value,
            spread: spread(drawn),
        })
    };
    let mix = Outcome::ALL.into_iter().filter_map(|outcome| {
        let share = figure(&|of| Some(of.shares[usize::from(outcome.number())]))?;
        let outcome = outcome.word();
        (share.value > 0.0).then_some(Share { outcome, share })
    });
    Section {
        pool,
        commands: sums.groups.sum(&once).commands(),
        sessions,
        pages,
        mix: mix.collect(),
        ps: figure(&|of| of.ps),
        ps_rack: figure(&|of| of.ps_rack),
        rw_cmd: figure(&|of| of.rw_cmd),
        rw_net: figure(&|of| of.rw_net),
        hits: figure(&|of| of.hits),
        object_bytes: figure(&|of| of.object_bytes),
        network_bytes: figure(&|of| of.network_bytes),
        message_bytes: figure(&|of| of.message_bytes),
        commands_per_page: figure(&|of| of.commands_per_page),
        requests_per_page: figure(&|of| of.requests_per_page),
        latency_ms: figure(&|of| of.latency_ms),
        switch_ms: figure(&|of| of.switch_ms),
        base_ms: figure(&|of| of.base_ms),
        distances: distances(&sums.latencies),
        racks: sums
            .latencies
            .iter()
            .filter_map(|of_rack| rack_latency(of_rack, head))
            .collect(),
        measured,
        resamples,
    }
}

/// Where the middle 95 % of what was drawn lie.
fn spread(mut drawn: Vec<f64>) -> Option<(f64, f64)> {
    drawn.sort_unstable_by(f64::total_cmp);
    let skipped = drawn.len() / 40;
    let low = *drawn.get(skipped)?;
    let high = *drawn.get(drawn.len() - 1 - skipped)?;
    Some((low, high))
}

fn distances(latencies: &[Sorted]) -> Vec<Distance> {
    let once = [1; GROUPS];
    let distances = (1..=3).filter_map(|switches| {
        let at = latencies.iter().filter(|it| it.distance == Some(switches));
        let (mut commands, mut sum) = (0, 0.0);
        for of_rack in at {
            let answered = of_rack.commands(&once);
            commands += answered;
            sum += of_rack.quantile_ms(0.5, &once)? * answered as f64;
        }
        (commands > 0).then(|| Distance {
            switches,
            commands,
            median_ms: sum / commands as f64,
        })
    });
    distances.collect()
}

fn rack_latency(of_rack: &Sorted, head: &Head) -> Option<RackLatency> {
    let once = [1; GROUPS];
    let rack = head.racks.get(usize::from(of_rack.rack));
    Some(RackLatency {
        rack: rack.map(|rack| rack.name.clone()),
        switches: of_rack.distance,
        commands: of_rack.commands(&once),
        p50_ms: of_rack.quantile_ms(0.5, &once)?,
        p99_ms: of_rack.quantile_ms(0.99, &once)?,
    })
}
