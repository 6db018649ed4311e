//! Who hosts which cachelet while a plan is made, and the loads that follow from it.

use super::input::{HostedCachelet, LocalInput, LocalLimits};
use super::plan::LocalMove;

#[derive(Clone, Debug)]
pub(super) struct Assignment<'a> {
    pub(super) cachelets: &'a [HostedCachelet],
    /// Host of each cachelet, in the order of `cachelets`.
    pub(super) hosts: Vec<u16>,
    /// Load of each worker, by its index.
    pub(super) loads: Vec<f64>,
}

impl<'a> Assignment<'a> {
    /// The present one. A worker has at least the load of its cachelets.
    pub(super) fn new(input: &'a LocalInput) -> Self {
        let mut sums = vec![0.0; input.loads.len()];
        for c in &input.cachelets {
            sums[usize::from(c.host)] += c.load;
        }
        let loads = input.loads.iter().zip(sums);
        Assignment {
            cachelets: &input.cachelets,
            hosts: input.cachelets.iter().map(|c| c.host).collect(),
            loads: loads.map(|(load, sum)| load.max(sum)).collect(),
        }
    }

    /// Gives a cachelet, by its place in the list, to a worker.
    pub(super) fn shift(&mut self, cachelet: usize, to: u16) {
        let load = self.cachelets[cachelet].load;
        self.loads[usize::from(self.hosts[cachelet])] -= load;
        self.loads[usize::from(to)] += load;
        self.hosts[cachelet] = to;
    }

    /// Workers above the load that counts as overload, the most loaded first.
    pub(super) fn overloaded(&self, limits: LocalLimits) -> Vec<u16> {
        let mut workers: Vec<u16> = (0..self.loads.len() as u16)
            .filter(|&w| self.loads[usize::from(w)] > limits.overloaded)
            .collect();
        self.sort_by_load(&mut workers);
        workers.reverse();
        workers
    }

    /// Sorts workers, the least loaded first; equals by their index.
    pub(super) fn sort_by_load(&self, workers: &mut [u16]) {
        workers.sort_by(|&a, &b| {
            let (load_a, load_b) = (self.loads[usize::from(a)], self.loads[usize::from(b)]);
            load_a.total_cmp(&load_b).then(a.cmp(&b))
        });
    }

    /// Places of the cachelets that a worker hosts.
    pub(super) fn hosted(&self, worker: u16) -> impl Iterator<Item = usize> + '_ {
        (0..self.hosts.len()).filter(move |&c| self.hosts[c] == worker)
    }

    /// What leads here from the present, one move for each cachelet that ends elsewhere.
    pub(super) fn moves(&self) -> Vec<LocalMove> {
        let mut moves: Vec<LocalMove> = self
            .cachelets
            .iter()
            .zip(&self.hosts)
            .filter(|(c, host)| c.host != **host)
            .map(|(c, &to)| LocalMove {
                cachelet: c.cachelet,
                from: c.host,
                to,
                load: c.load,
            })
            .collect();
        moves.sort_by_key(|m| m.cachelet);
        moves
    }
}
