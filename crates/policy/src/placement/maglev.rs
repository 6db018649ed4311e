//! Maglev: servers take turns in claiming the places of a table, each in an order of its own
//! (Eisenbud et al., "Maglev: a fast and reliable software network load balancer", NSDI 2016, 3.4).
//!
//! Finding a key's server is one division and one look at the table. Shares are equal to about one
//! place in a hundred with [`PLACES`] places for 655 servers, and closer with fewer. When a server
//! goes, its keys move, and a few per cent of the others do too: the price for the even table.
//!
//! A server's orders come from two hashes of its identity. Weights work as in Envoy and Katran: a
//! server of weight w has its turn in w of as many rounds as the largest weight is, the first among
//! them, so that each has a place.

use super::config::Server;
use super::hash::Hash;
use super::jump::mix;

/// Places of the table: a prime, so that every step visits all of them. The paper's smaller size.
pub(super) const PLACES: u32 = 65_537;

/// The table.
#[derive(Clone, Debug)]
pub(super) struct Maglev {
    /// Server of each place.
    places: Vec<u16>,
}

impl Maglev {
    /// Fills the table. O(M log M) for M places on average.
    pub fn new(servers: &[Server]) -> Self {
        let mut claimants: Vec<Claimant> = servers.iter().map(Claimant::new).collect();
        let heaviest = servers.iter().map(|server| server.weight).max();
        let heaviest = u64::from(heaviest.expect("a pool has a server"));
        let mut places: Vec<Option<u16>> = vec![None; PLACES as usize];
        let mut free = places.len();
        let mut round = 0;
        loop {
            round += 1;
            for (index, claimant) in (0u16..=u16::MAX).zip(&mut claimants) {
                if round * claimant.weight < claimant.due {
                    continue;
                }
                claimant.due += heaviest;
                let place = claimant.next_free(&places);
                places[place] = Some(index);
                free -= 1;
                if free == 0 {
                    let places = places.into_iter().flatten().collect();
                    return Maglev { places };
                }
            }
        }
    }

    /// The server that a hash belongs to. O(1).
    #[inline]
    pub fn server(&self, hash: u64) -> usize {
        usize::from(self.places[(hash % u64::from(PLACES)) as usize])
    }

    /// The servers of all places, from that of a hash, once around.
    pub fn walk(&self, hash: u64) -> impl Iterator<Item = usize> + use<'_> {
        let first = (hash % u64::from(PLACES)) as usize;
        let (before, from) = self.places.split_at(first);
        from.iter().chain(before).map(|&server| usize::from(server))
    }
}

/// A server while the table is filled.
struct Claimant {
    weight: u64,
    /// It has a turn once the rounds times its weight reach this.
    due: u64,
    /// The place that it claims next, if it is free.
    next: u32,
    /// From one place that it claims to the next.
    step: u32,
}

impl Claimant {
    fn new(server: &Server) -> Self {
        let name = Hash::Xxh3.of(server.identity().as_bytes());
        Claimant {
            weight: u64::from(server.weight),
            due: 0,
            next: (name % u64::from(PLACES)) as u32,
            step: (mix(name) % u64::from(PLACES - 1)) as u32 + 1,
        }
    }

    /// The next place in its order that nobody has; there must be one.
    fn next_free(&mut self, places: &[Option<u16>]) -> usize {
        loop {
            let place = self.next as usize;
            self.next = (self.next + self.step) % PLACES;
            if places[place].is_none() {
                return place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_claimed_and_shares_follow_weights() {
        let weights = [1, 2, 3, 10, 1];
        let servers: Vec<Server> = (0u16..)
            .zip(weights)
            .map(|(i, weight)| Server {
                weight,
                ..Server::new("a", i)
            })
            .collect();
        let maglev = Maglev::new(&servers);
        assert_eq!(maglev.places.len(), PLACES as usize);
        let total: u32 = weights.iter().sum();
        for (server, weight) in weights.into_iter().enumerate() {
            let held = maglev
                .places
                .iter()
                .filter(|&&s| usize::from(s) == server)
                .count();
            let share = f64::from(PLACES) * f64::from(weight) / f64::from(total);
            assert!(
                (held as f64 - share).abs() < 3.0,
                "{server}: {held}, not {share}"
            );
        }
    }

    #[test]
    fn the_number_of_places_is_a_prime() {
        assert!((2..=256).all(|d| !PLACES.is_multiple_of(d)) && 257 * 257 > PLACES);
    }

    /// Pseudocode 1 of the paper, with its table of permutations; no weights.
    #[test]
    fn the_table_is_that_of_the_papers_pseudocode() {
        let servers: Vec<Server> = (1..=7).map(|i| Server::new("a", i)).collect();
        let m = u64::from(PLACES);
        let permutation: Vec<Vec<u64>> = servers
            .iter()
            .map(|server| {
                let name = Hash::Xxh3.of(server.identity().as_bytes());
                let (offset, skip) = (name % m, mix(name) % (m - 1) + 1);
                (0..m).map(|j| (offset + j * skip) % m).collect()
            })
            .collect();
        let mut next = vec![0; servers.len()];
        let mut entry = vec![usize::MAX; m as usize];
        let mut n = 0;
        'fill: loop {
            for i in 0..servers.len() {
                let mut c = permutation[i][next[i]] as usize;
                while entry[c] != usize::MAX {
                    next[i] += 1;
                    c = permutation[i][next[i]] as usize;
                }
                entry[c] = i;
                next[i] += 1;
                n += 1;
                if n == m {
                    break 'fill;
                }
            }
        }
        let maglev = Maglev::new(&servers);
        let places: Vec<usize> = maglev.places.iter().map(|&s| usize::from(s)).collect();
        assert!(places == entry);
    }
}
