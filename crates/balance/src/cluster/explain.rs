//! Why workers keep what they have too much.

use std::collections::BTreeMap;

use evenkeel_types::WorkerRef;

use super::draft::{Draft, DraftWorker, Hold};
use super::report::{BadReport, ClusterReport};
use super::{ClusterConfig, Planner};

/// A worker that keeps more than what is permissible.
#[derive(Clone, Debug, PartialEq)]
pub struct OverloadedWorker {
    /// Which.
    pub worker: WorkerRef,
    /// The load that it keeps.
    pub load: f64,
    /// What is permissible.
    pub permissible: f64,
    /// How many of its cachelets stay for which reason, for the least loaded worker that could get them.
    pub holds: BTreeMap<Hold, usize>,
}

/// What a planner would leave as it is, and why. O(c) for c cachelets, and what the planner takes.
///
/// # Errors
///
/// If the reports contradict themselves.
pub fn explain(
    planner: &mut dyn Planner,
    report: &ClusterReport,
    config: &ClusterConfig,
) -> Result<Vec<OverloadedWorker>, BadReport> {
    report.validate()?;
    let mut draft = Draft::new(report, config);
    planner.relieve(&mut draft);
    let sources = draft.sources();
    Ok(sources.iter().map(|&worker| kept(&draft, worker)).collect())
}

fn kept(draft: &Draft<'_>, worker: usize) -> OverloadedWorker {
    let source = &draft.workers()[worker];
    let others = (0..draft.workers().len()).filter(|&w| draft.workers()[w].server != source.server);
    // One that is to be emptied only where all are.
    let least = others.min_by(|&a, &b| {
        let [a, b] = [a, b].map(|w| &draft.workers()[w]);
        let accepts = |worker: &DraftWorker| draft.servers()[worker.server].accepts;
        (accepts(b).cmp(&accepts(a))).then(a.utilization().total_cmp(&b.utilization()))
    });
    let mut holds = BTreeMap::new();
    for &cachelet in &source.cachelets {
        let hold = least.map_or(Some(Hold::Drained), |to| draft.hold(cachelet, to));
        *holds.entry(hold.unwrap_or(Hold::Gain)).or_default() += 1;
    }
    OverloadedWorker {
        worker: source.at,
        load: source.load,
        permissible: source.share.permissible,
        holds,
    }
}
