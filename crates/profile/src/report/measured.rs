//! The quantities of a profile as the model of architectures wants them: plain numbers, and the same of each resample.

use super::groups::{GROUPS, Group, Groups};
use super::network::{Sorted, line};
use crate::sampling::Sampling;
use evenkeel_schemes::locality::Outcome;
use evenkeel_types::random::SplitMix64;
use serde::Serialize;

/// Resamples of the groups of sessions: the 3rd and the 98th are the ends of a spread of 95 %.
pub(super) const RESAMPLES: usize = 100;

/// What is measured, in the paper's words (its section 2.3). `None` is what the profile does not say.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Share of each outcome among all commands, by [`Outcome::number`]; all are 0 without commands.
    pub shares: [f64; Outcome::ALL.len()],
    /// Share of the commands of pages whose key one session alone used.
    pub ps: Option<f64>,
    /// Share of commands whose key was last written from the rack that they come from.
    pub ps_rack: Option<f64>,
    /// Share of commands that are reads.
    pub rw_cmd: Option<f64>,
    /// Share of bytes, of requests and answers, that belongs to reads.
    pub rw_net: Option<f64>,
    /// Share of reads that found what they asked for.
    pub hits: Option<f64>,
    /// Bytes of an object on the wire: the answer of a hit, the request of a store.
    pub object_bytes: Option<f64>,
    /// Bytes of a command: of its request and its answer.
    pub network_bytes: Option<f64>,
    /// Bytes of a message about a key without an object: the request of a get or a delete, without what TCP/IP adds.
    pub message_bytes: Option<f64>,
    /// Commands of a page.
    pub commands_per_page: Option<f64>,
    /// Requests of a page: gets of a page that were answered in the same microsecond are taken for one.
    pub requests_per_page: Option<f64>,
    /// Milliseconds that an answered command took, on average.
    pub latency_ms: Option<f64>,
    /// Milliseconds for each switch that is passed.
    pub switch_ms: Option<f64>,
    /// Milliseconds that are always added.
    pub base_ms: Option<f64>,
}

/// What a section's quantities are made of.
#[derive(Debug)]
pub(super) struct Sums<'a> {
    pub groups: &'a Groups,
    pub latencies: Vec<Sorted>,
    pub sampling: Sampling,
}

impl Sums<'_> {
    /// What groups say, each of which counts this many times.
    pub fn measured(&self, times: &[u32; GROUPS]) -> Measured {
        let sum = self.groups.sum(times);
        let commands = sum.commands();
        let number = |outcome: Outcome| sum.outcomes[usize::from(outcome.number())];
        let (hits, misses) = (number(Outcome::GetHit), number(Outcome::GetMiss));
        let line = line(&self.latencies, times);
        let ps = self.ps(&sum, commands - number(Outcome::Flush));
        Measured {
            shares: sum
                .outcomes
                .map(|of_one| ratio(of_one, commands).unwrap_or(0.0)),
            ps,
            ps_rack: ps_rack(&sum, ps),
            rw_cmd: ratio(hits + misses, commands),
            rw_net: ratio(sum.read_bytes, sum.bytes),
            hits: ratio(hits, hits + misses),
            object_bytes: ratio(sum.object_bytes, sum.objects),
            network_bytes: ratio(sum.bytes, commands),
            message_bytes: ratio(sum.message_bytes, sum.messages),
            commands_per_page: ratio(sum.page_commands, sum.pages),
            requests_per_page: ratio(sum.page_requests, sum.pages),
            latency_ms: ratio(sum.latency_us, sum.answered).map(|us| us / 1000.0),
            switch_ms: line.map(|line| line.switch_ms),
            base_ms: line.map(|line| line.base_ms),
        }
    }

    /// What [`RESAMPLES`] draws with replacement of the groups that have commands say; none if fewer than two have. The seed is fixed: a
    /// profile has one spread.
    pub fn resamples(&self) -> Vec<Measured> {
        let filled = |group: &usize| self.groups.0[*group].commands() > 0;
        let filled: Vec<usize> = (0..GROUPS).filter(filled).collect();
        if filled.len() < 2 {
            return Vec::new();
        }
        let mut random = SplitMix64::new(1);
        let resamples = (0..RESAMPLES).map(|_| {
            let mut times = [0; GROUPS];
            for _ in &filled {
                times[filled[random.below(filled.len() as u64) as usize]] += 1;
            }
            self.measured(&times)
        });
        resamples.collect()
    }

    /// See `keys.rs`; `keyed` commands have a key.
    fn ps(&self, sum: &Group, keyed: u64) -> Option<f64> {
        let private_of_unseen = ratio(sum.private, sum.unseen);
        let not_seen_shared = ratio(sum.not_seen_shared, keyed)?.min(1.0);
        match self.sampling.pages {
            0 => private_of_unseen,
            // All of every page: nothing is unseen.
            1 => Some(not_seen_shared),
            _ if not_seen_shared == 0.0 => Some(0.0),
            _ => Some(not_seen_shared * private_of_unseen?),
        }
    }
}

fn ps_rack(sum: &Group, ps: Option<f64>) -> Option<f64> {
    let private = ratio(sum.private_here, sum.private_racked);
    let shared = ratio(sum.shared_here, sum.shared_racked);
    match (private, shared) {
        (Some(private), Some(shared)) => {
            let ps = ps?;
            Some(ps * private + (1.0 - ps) * shared)
        }
        (private, shared) => private.or(shared),
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
