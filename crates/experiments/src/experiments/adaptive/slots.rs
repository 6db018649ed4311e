//! A pool in slots: what its caches are asked for in one, by the ring of that slot. No network and no time; a miss is
//! followed by a set, an edit by a delete.
//!
//! A move is one of hash space alone: what the former owner has is not fetched, so that a part that moves is cold.

use super::pages::{Pages, Sampler};
use crate::experiments::lru::Lru;
use evenkeel_balance::ring::{GrainCounts, RingPlanner, SlotReport};
use evenkeel_placement::ring::{HASHES, Ring, grain_of};
use evenkeel_workload::rng::{self, WorkloadRng};

/// Requests of which one is an edit.
const REQUESTS_PER_EDIT: usize = 200;

/// Pages, caches and the ring between them.
pub(super) struct Slots {
    pub ring: Ring,
    pages: Pages,
    sampler: Sampler,
    caches: Vec<Lru>,
    requests: usize,
    random: WorkloadRng,
    edits: usize,
}

/// What a slot was like.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// What each server carried.
    pub servers: Vec<GrainCounts>,
    /// The part of the ring that moved behind it.
    pub moved: f64,
}

impl Slot {
    /// Gets and sets of each server.
    pub fn rates(&self) -> Vec<f64> {
        let rates = self.servers.iter().map(|of| (of.gets + of.sets) as f64);
        rates.collect()
    }

    /// Hits by gets of each server. Each miss is followed by a set, so that they are what the paper infers, too.
    pub fn hit_rates(&self) -> Vec<f64> {
        let rates = self
            .servers
            .iter()
            .map(|of| of.hits as f64 / of.gets.max(1) as f64);
        rates.collect()
    }
}

impl Slots {
    /// Cold caches of these sizes, in bytes.
    pub fn new(ring: Ring, pages: Pages, cache_bytes: &[u64], requests: usize, seed: u64) -> Slots {
        let cache = |&bytes: &u64| Lru::new(pages.hashes.len(), bytes);
        Slots {
            ring,
            sampler: pages.sampler(),
            caches: cache_bytes.iter().map(cache).collect(),
            requests,
            random: rng::stream(seed, 3),
            edits: 0,
            pages,
        }
    }

    /// A slot, without a plan behind it. O(p log s + r log p) for p pages and r requests.
    pub fn serve(&mut self) -> SlotReport {
        let grains = self.ring.grains();
        let place = |&hash: &u32| {
            let slice = &self.ring.slices()[self.ring.slice_of(hash)];
            (
                grain_of(&grains, hash),
                usize::from(slice.owner),
                slice.generation,
            )
        };
        let places: Vec<(usize, usize, u64)> = self.pages.hashes.iter().map(place).collect();
        let mut counts = vec![GrainCounts::default(); grains.len()];
        for request in 0..self.requests {
            if request % REQUESTS_PER_EDIT == 0 {
                let page = self.pages.edits[self.edits % self.pages.edits.len()];
                self.caches[places[page as usize].1].remove(page);
                self.edits += 1;
            }
            let page = self.sampler.draw(&mut self.random);
            let (grain, owner, generation) = places[page as usize];
            let (counts, cache) = (&mut counts[grain], &mut self.caches[owner]);
            counts.gets += 1;
            counts.load += 1.0;
            if cache.get(page, generation) {
                counts.hits += 1;
            } else {
                cache.set(page, generation, self.pages.sizes[page as usize]);
                counts.sets += 1;
                counts.load += 1.0;
            }
        }
        SlotReport {
            grains: counts,
            utilization: None,
        }
    }

    /// A slot, and the plan behind it, executed.
    pub fn step(&mut self, planner: &mut dyn RingPlanner) -> anyhow::Result<Slot> {
        let report = self.serve();
        let plan = planner.plan(&self.ring, &report)?;
        let servers = report.of_servers(&self.ring);
        let moved: u64 = plan.moves.iter().map(|of| of.part.width()).sum();
        self.ring = self.ring.moved(&plan.to_moves())?;
        if let Some(joined) = self.ring.joined() {
            self.ring = joined;
        }
        Ok(Slot {
            servers,
            moved: moved as f64 / HASHES as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::paper;
    use super::*;
    use crate::args::{Mode, Scale};
    use crate::run::Run;

    #[test]
    fn caches_fill_and_what_moves_is_cold() {
        let run = Run::silent(Scale::Quick, Mode::Sim);
        let pages = Pages::new(&run, 500, 0.9, &mut Vec::new()).unwrap();
        let ring = Ring::even(3, 2).unwrap();
        let mut slots = Slots::new(ring, pages, &[u64::MAX; 3], 5_000, 1);
        slots.serve();
        let mut nothing_moves = paper(0.0, 1e-9).unwrap();
        let warm = slots.step(&mut nothing_moves).unwrap();
        let gets: u64 = warm.servers.iter().map(|of| of.gets).sum();
        assert_eq!(gets, 5_000);
        assert!(warm.hit_rates().iter().all(|&rate| rate > 0.8), "{warm:?}");
        let run = slots.ring.runs()[0];
        let to = run.behind;
        let part = run.lower(run.width).unwrap();
        let mv = evenkeel_placement::ring::Move { part, to };
        slots.ring = slots.ring.moved(&[mv]).unwrap();
        let cold = slots.step(&mut nothing_moves).unwrap();
        let sets = |slot: &Slot| slot.servers.iter().map(|of| of.sets).sum::<u64>();
        assert!(sets(&cold) > sets(&warm), "{cold:?}");
    }
}
