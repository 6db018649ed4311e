//! Splitting what is too hot or too large to move, and merging what is cold.
//!
//! Both change the map and nothing else: the worker that owns the pieces stays the same, so no data is copied and
//! no load changes. They are for the next plan.

use super::draft::Draft;
use super::{SplitCause, Step};

/// Most splits of a plan: each makes the map larger, and the next plan knows better.
const SPLITS_MAX: usize = 16;

/// Most merges of a plan.
const MERGES_MAX: usize = 64;

/// Splits a cachelet of each worker that stays overloaded because nothing of it can move.
pub(super) fn split(draft: &mut Draft<'_>) {
    for worker in draft.sources().into_iter().take(SPLITS_MAX) {
        let at = draft.workers()[worker].at;
        if let Some((cachelet, cause)) = to_split(draft, worker) {
            let number = draft.cachelet(cachelet).number;
            let step = Step::Split {
                cachelet: number,
                at,
                cause,
            };
            draft.keep(step, &[cachelet]);
        }
    }
}

/// The hottest cachelet of a worker, if it stands in the way.
fn to_split(draft: &Draft<'_>, worker: usize) -> Option<(usize, SplitCause)> {
    let source = &draft.workers()[worker];
    if source.cachelets.len() >= draft.config().cachelets_max {
        return None;
    }
    let free = source.cachelets.iter().copied();
    let hottest = free
        .filter(|&c| draft.cachelet(c).is_free && draft.cachelet(c).virtual_nodes >= 2)
        .max_by(|&a, &b| {
            let (load_a, load_b) = (draft.cachelet(a).load, draft.cachelet(b).load);
            load_a.total_cmp(&load_b).then(b.cmp(&a))
        })?;
    let c = draft.cachelet(hottest);
    let accepting = draft.servers().iter().filter(|server| server.accepts);
    let workers = accepting.flat_map(|server| &draft.workers()[server.workers.clone()]);
    let least = workers.map(|w| w.load).min_by(f64::total_cmp)?;
    if least + c.load > draft.permissible() && c.load > 0.0 {
        Some((hottest, SplitCause::TooHot))
    } else if c.memory_bytes > draft.bytes_max() {
        Some((hottest, SplitCause::TooLarge))
    } else {
        None
    }
}

/// Merges the two coldest cachelets of each worker that has many, if they are cold together and not large.
pub(super) fn merge(draft: &mut Draft<'_>) {
    let count = draft.cachelets().len().max(1) as f64;
    let load_mean = draft.cachelets().iter().map(|c| c.load).sum::<f64>() / count;
    let mut merges = 0;
    for worker in 0..draft.workers().len() {
        let owner = &draft.workers()[worker];
        if owner.cachelets.len() <= draft.config().cachelets_many || merges == MERGES_MAX {
            continue;
        }
        let free = owner.cachelets.iter().copied();
        let mut coldest: Vec<usize> = free.filter(|&c| draft.cachelet(c).is_free).collect();
        coldest.sort_by(|&a, &b| {
            let (load_a, load_b) = (draft.cachelet(a).load, draft.cachelet(b).load);
            load_a.total_cmp(&load_b).then(a.cmp(&b))
        });
        let [a, b, ..] = coldest[..] else { continue };
        let pair = [draft.cachelet(a), draft.cachelet(b)];
        let is_cold = pair[0].load + pair[1].load < load_mean;
        let bytes = pair[0].memory_bytes + pair[1].memory_bytes;
        let is_small = bytes <= draft.bytes_max() / 2;
        if is_cold && is_small {
            let step = Step::Merge {
                cachelets: [pair[0].number, pair[1].number],
                at: owner.at,
            };
            draft.keep(step, &[a, b]);
            merges += 1;
        }
    }
}
