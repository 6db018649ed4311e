//! Weighted rendezvous hashing: each server draws a score for the key, and the highest has it.
//!
//! The hash of key and server, as a number u in (0, 1), gives the score -w / ln u (Schindelhauer and
//! Schomaker, "Weighted distributed hash tables", SPAA 2005). A server has its exact share by weight,
//! and a change of one server or weight moves only keys to or from that server, whatever the order of
//! the list: what the ring approximates with hundreds of points. The price is a look at every server
//! for each key, so it suits pools of tens.
//!
//! Two processes must agree on every last bit, and the logarithm of the platform's library is not
//! the same everywhere. [`neg_ln`] uses nothing but the four operations that IEEE 754 defines
//! exactly.

use std::cmp::Reverse;

use super::config::Server;
use super::hash::Hash;
use super::jump::mix;

/// What each server brings to its draw.
#[derive(Clone, Debug)]
pub(super) struct Rendezvous {
    /// Hash of the server's identity.
    seeds: Vec<u64>,
    /// By server; empty if all are equal.
    weights: Vec<f64>,
}

impl Rendezvous {
    pub fn new(servers: &[Server]) -> Self {
        let seeds = servers
            .iter()
            .map(|server| Hash::Xxh3.of(server.identity().as_bytes()))
            .collect();
        let equal = servers
            .iter()
            .all(|server| server.weight == servers[0].weight);
        let weights = match equal {
            true => Vec::new(),
            false => servers.iter().map(|s| f64::from(s.weight)).collect(),
        };
        Rendezvous { seeds, weights }
    }

    /// The server that a hash belongs to. O(n).
    #[inline]
    pub fn server(&self, hash: u64) -> usize {
        let mut best = (0, 0);
        for server in 0..self.seeds.len() {
            let score = self.score(hash, server);
            if server == 0 || score > best.0 {
                best = (score, server);
            }
        }
        best.1
    }

    /// All servers, by falling score. O(n log n).
    pub fn walk(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let mut all: Vec<(u64, usize)> = (0..self.seeds.len())
            .map(|server| (self.score(hash, server), server))
            .collect();
        // Of equal scores the earlier server's wins, as above.
        all.sort_unstable_by_key(|&(score, server)| (Reverse(score), server));
        all.into_iter().map(|(_, server)| server)
    }

    /// A number that orders the servers as their scores do.
    #[inline]
    fn score(&self, hash: u64, server: usize) -> u64 {
        let drawn = mix(hash ^ self.seeds[server]);
        match self.weights.get(server) {
            // The score grows with u.
            None => drawn,
            // Positive doubles are ordered like their bits.
            Some(weight) => (weight / neg_ln(drawn)).to_bits(),
        }
    }
}

/// -ln of a draw as a number in (0, 1): the middle of one of 2^52 equal intervals.
fn neg_ln(drawn: u64) -> f64 {
    use core::f64::consts::{LN_2, SQRT_2};
    // u = (2k + 1) / 2^53, whose numerator a double holds exactly.
    let odd = ((drawn >> 12) << 1) | 1;
    // u = m / 2^halvings with m from 1/√2 to √2, so that nothing cancels out near u = 1.
    let mut halvings = 53 - odd.ilog2();
    let mut m = odd as f64 / (1u64 << odd.ilog2()) as f64;
    if m > SQRT_2 {
        m /= 2.0;
        halvings -= 1;
    }
    // ln m = 2 (s + s³/3 + s⁵/5 + …) with s = (m - 1) / (m + 1), which is below 0.172.
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let series = (0..SERIES_TERMS)
        .rev()
        .fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    f64::from(halvings) * LN_2 - 2.0 * s * series
}

/// Terms of the series; the next is below 0.172^24, less than the precision of a double.
const SERIES_TERMS: u32 = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_testkit::seed;
    use evenkeel_types::random::SplitMix64;

    #[test]
    fn the_logarithm_is_one() {
        let mut random = SplitMix64::new(seed(0x5eed));
        let edges = [
            0,
            1 << 12,
            u64::MAX,
            u64::MAX - (1 << 12),
            1 << 63,
            (1 << 63) - 1,
        ];
        let drawn = (0..100_000).map(|i| random.next_u64() >> (i % 64));
        for drawn in edges.into_iter().chain(drawn) {
            let u = (((drawn >> 12) << 1) | 1) as f64 / (1u64 << 53) as f64;
            assert!(u > 0.0 && u < 1.0);
            let (expected, found) = (-u.ln(), neg_ln(drawn));
            assert!(found > 0.0);
            let off = (found - expected).abs() / expected;
            assert!(off <= 1e-15, "{drawn:#x}: {found} {expected}");
        }
    }

    #[test]
    fn the_server_is_the_one_of_the_highest_score() {
        let mut random = SplitMix64::new(seed(0x5eed));
        for round in 0..50 {
            let servers: Vec<Server> = (0..1 + random.below(20))
                .map(|i| Server {
                    weight: 1 + random.below(if round % 5 == 0 { 1 } else { 1000 }) as u32,
                    ..Server::new("a", 1 + i as u16)
                })
                .collect();
            let rendezvous = Rendezvous::new(&servers);
            for _ in 0..200 {
                let hash = random.next_u64();
                // The formula as it is written, by the platform's logarithm.
                let scores = servers.iter().map(|server| {
                    let seed = Hash::Xxh3.of(server.identity().as_bytes());
                    let u = (mix(hash ^ seed) as f64 + 0.5) / 2f64.powi(64);
                    -f64::from(server.weight) / u.ln()
                });
                let scores: Vec<f64> = scores.collect();
                let order: Vec<usize> = rendezvous.walk(hash).collect();
                assert_eq!(order[0], rendezvous.server(hash));
                for pair in order.windows(2) {
                    let (first, second) = (scores[pair[0]], scores[pair[1]]);
                    assert!(first >= second * (1.0 - 1e-9), "{first} before {second}");
                }
            }
        }
    }
}
