//! Bounded load: what a worker has too much runs over to the next one on a ring.
//!
//! Workers stand on a ring by a hash of their names, and so do cachelets. A worker beyond its bound passes cachelets
//! on, and each goes to the first worker from its place on the ring that has room below the bound. Neither loads nor
//! sizes are compared, so it is simple and anybody can follow it, and it moves more than it would have to.

use evenkeel_types::KeyHash;

use super::draft::Draft;
use super::{Planner, PlannerName};

/// Workers that are asked for each cachelet. With a bound a twentieth above the mean, a walk is far shorter on
/// average.
const WALK_MAX: usize = 256;

/// The planner. O(w log w) for w workers, and a walk for each move.
#[derive(Clone, Copy, Debug, Default)]
pub struct BoundedLoad;

impl Planner for BoundedLoad {
    fn name(&self) -> PlannerName {
        PlannerName::BoundedLoad
    }

    fn relieve(&mut self, draft: &mut Draft<'_>) {
        let mut ring: Vec<(u64, usize)> = (0..draft.workers().len())
            .map(|worker| {
                let at = draft.workers()[worker].at;
                let [a, b] = at.server.0.to_le_bytes();
                let [c, d] = at.worker.to_le_bytes();
                (KeyHash::of(&[b'w', a, b, c, d]).0, worker)
            })
            .collect();
        ring.sort_unstable();
        for source in draft.sources() {
            let mut own: Vec<(u64, usize)> = draft.workers()[source]
                .cachelets
                .iter()
                .map(|&cachelet| (place_of(draft, cachelet), cachelet))
                .collect();
            own.sort_unstable();
            for (place, cachelet) in own {
                if draft.workers()[source].load <= draft.permissible() {
                    break;
                }
                let first = ring.partition_point(|&(at, _)| at < place);
                let walk = ring[first..].iter().chain(&ring[..first]).take(WALK_MAX);
                let mut workers = walk.map(|&(_, worker)| worker);
                if let Some(to) = workers.find(|&to| draft.may_move(cachelet, to)) {
                    draft.give(cachelet, to);
                }
            }
        }
    }
}

/// Where a cachelet stands on the ring.
fn place_of(draft: &Draft<'_>, cachelet: usize) -> u64 {
    let [a, b, c, d] = draft.cachelet(cachelet).number.0.to_le_bytes();
    KeyHash::of(&[b'c', a, b, c, d]).0
}
