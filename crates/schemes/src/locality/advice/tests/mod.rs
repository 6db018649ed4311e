mod noise;
mod stories;
mod twins;

use super::*;
use crate::locality::Outcome;
use crate::locality::model::{Architecture, Distances, Network, Racks, Usage, shipped};
use evenkeel_types::random::SplitMix64;

const NETWORK: Network = Network {
    switch: 1.0,
    base: 1.5,
};

/// MediaWiki with full caching (the paper's Figure 7).
fn mediawiki() -> Inputs {
    Inputs {
        usage: Usage {
            shares: Usage::mix(&[
                (Outcome::SetHit, 0.24),
                (Outcome::DeleteHit, 0.02),
                (Outcome::IncrMiss, 0.22),
                (Outcome::GetHit, 0.44),
                (Outcome::GetMiss, 0.08),
            ]),
            ps: 0.56,
            rw_net: 0.61,
            object_bytes: 870.0,
            message_bytes: 100.0,
        },
        distances: NETWORK.into(),
    }
}

/// As little latency as can be had, from servers that are as slow as the model says.
fn question(today: Architecture, inputs: &Inputs) -> Question {
    let racks = Racks {
        racks: 5,
        copies: 2,
    };
    let modelled = shipped::mean(today, &inputs.usage, inputs.distances, racks);
    Question {
        objective: Objective::Latency,
        today: Today {
            architecture: today,
            latency_ms: modelled.unwrap_or(1.0),
        },
        racks,
        requests_per_page: 16.7,
    }
}

fn advice(question: &Question, inputs: &Inputs) -> Advice {
    advise(question, inputs, &[]).expect("all is possible")
}

struct Chance(SplitMix64);

impl Chance {
    fn unit(&mut self) -> f64 {
        self.0.next_u64() as f64 / u64::MAX as f64
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.0.next_u64() % of.len() as u64) as usize]
    }

    fn one_of_mut<'a, const N: usize>(&mut self, of: [&'a mut f64; N]) -> &'a mut f64 {
        let chosen = (self.0.next_u64() % N as u64) as usize;
        of.into_iter().nth(chosen).expect("it is below")
    }

    /// How many events there are where this many are expected (Knuth).
    fn poisson(&mut self, expected: f64) -> f64 {
        let end = (-expected).exp();
        let mut product = self.unit();
        let mut events = 0.0;
        while product > end {
            product *= self.unit();
            events += 1.0;
        }
        events
    }

    fn inputs(&mut self, has_central: bool) -> Inputs {
        let weights: [f64; Outcome::ALL.len()] = core::array::from_fn(|_| self.unit());
        let sum: f64 = weights.iter().sum();
        Inputs {
            usage: Usage {
                shares: weights.map(|weight| weight / sum),
                ps: self.unit(),
                rw_net: self.unit(),
                object_bytes: 1.0 + 2_000.0 * self.unit(),
                message_bytes: 200.0 * self.unit(),
            },
            distances: Distances {
                own: self.unit(),
                central: has_central.then(|| 2.0 * self.unit()),
                other: 3.0 * self.unit(),
            },
        }
    }

    /// The same, measured again.
    fn again(&mut self, inputs: &Inputs) -> Inputs {
        let mut again = *inputs;
        again.usage.ps = (again.usage.ps * (0.95 + 0.1 * self.unit())).min(1.0);
        again.distances.other *= 0.95 + 0.1 * self.unit();
        again
    }
}
