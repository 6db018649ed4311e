//! The ring that a pool begins with that has a ketama: every hash where it was, so that no key moves on that day.

use super::super::config::{Distribution, PlacementConfig, PlacementError};
use super::super::pool::Placement;
use super::build::Stretch;
use super::{HASHES, Ring, SERVERS_MAX, SLICES_MAX};

/// Why a pool's placement does not become a ring. The configuration is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAdoption {
    /// There is no placement to begin with.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// Its hash space is not cut into parts.
    #[error("{distribution} has no ring; a ring begins as a ketama, or even")]
    NotARing {
        /// The rule.
        distribution: Distribution,
    },
    /// Too many servers.
    #[error("a ring has at most {SERVERS_MAX} servers, not {servers}")]
    TooManyServers {
        /// How many.
        servers: usize,
    },
    /// Too many slices: a ketama has 100 or 160 points a server.
    #[error(
        "the points of the {distribution} make {slices} slices, more than {SLICES_MAX}; begin with an even ring"
    )]
    TooManySlices {
        /// The rule.
        distribution: Distribution,
        /// How many slices.
        slices: usize,
    },
}

impl Ring {
    /// The ring of generation 0 that places every hash as the pool's `ketama`, `ketama_weighted` or `twemproxy_ketama` does. Its
    /// hash and hash tag stay the pool's. O(p log p) for p points.
    ///
    /// # Errors
    ///
    /// See [`BadAdoption`].
    pub fn adopt(config: &PlacementConfig) -> Result<Ring, BadAdoption> {
        let (servers, distribution) = (config.servers.len(), config.distribution);
        let placement = Placement::new(config)?;
        let Some(points) = placement.points() else {
            return Err(BadAdoption::NotARing { distribution });
        };
        if servers > SERVERS_MAX {
            return Err(BadAdoption::TooManyServers { servers });
        }
        let mut points: Vec<_> = points.iter().collect();
        // Of points at the same place the first has the keys.
        points.dedup_by_key(|&mut (at, _)| at);
        let (last, _) = points[points.len() - 1];
        let mut end = u64::from(last);
        let stretches = points.iter().map(|&(at, owner)| {
            // The first reaches back around to the last.
            let behind = core::mem::replace(&mut end, u64::from(at));
            let width = match u64::from(at) {
                at if at > behind => at - behind,
                at => at + HASHES - behind,
            };
            Stretch {
                width,
                owner,
                generation: 0,
            }
        });
        let stretches = stretches.collect();
        let ring = Ring::build(servers as u16, 0, last.wrapping_add(1), stretches);
        match ring.slices.len() {
            0..=SLICES_MAX => Ok(ring),
            slices => Err(BadAdoption::TooManySlices {
                distribution,
                slices,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::config::Server;
    use super::super::super::hash::Hash;
    use super::super::tests::check;
    use super::*;
    use evenkeel_testkit::seed;
    use evenkeel_types::random::SplitMix64;

    const RINGS: [Distribution; 3] = [
        Distribution::Ketama,
        Distribution::KetamaWeighted,
        Distribution::TwemproxyKetama,
    ];

    /// What a pool says of hashes, by its own points.
    #[test]
    fn every_hash_finds_the_server_that_it_had() {
        let mut random = SplitMix64::new(seed(0x0add));
        for round in 0..60 {
            let count = 1 + random.below(if round % 10 == 0 { 300 } else { 12 });
            for distribution in RINGS {
                let servers = (0..count).map(|i| Server {
                    weight: match distribution {
                        Distribution::Ketama => 1,
                        _ => 1 + random.below(4) as u32,
                    },
                    ..Server::new(format!("10.0.0.{i}"), 11211)
                });
                let config = PlacementConfig {
                    distribution,
                    hash: (distribution == Distribution::Ketama).then_some(Hash::Fnv1a32),
                    servers: servers.collect(),
                    hash_tag: None,
                };
                let ring = Ring::adopt(&config).unwrap();
                check(&ring);
                assert_eq!(ring.generation(), 0);
                let placement = Placement::new(&config).unwrap();
                let points = placement.points().unwrap();
                let near = points
                    .iter()
                    .flat_map(|(at, _)| [at.wrapping_sub(1), at, at.wrapping_add(1)]);
                let some: Vec<u32> = (0..500).map(|_| random.next_u64() as u32).collect();
                for hash in near.chain(some).chain([0, 1, u32::MAX]) {
                    let (ours, theirs) = (usize::from(ring.owner(hash)), points.server(hash));
                    assert_eq!(ours, theirs, "{distribution}, {hash:#x}, round {round}");
                }
                let key = format!("key:{round}");
                let (server, hash) = placement.server_and_hash(key.as_bytes());
                assert_eq!(usize::from(ring.owner(hash as u32)), server);
            }
        }
    }

    /// Printed by libmemcached and by twemproxy themselves.
    #[test]
    fn keys_live_where_libmemcached_and_twemproxy_put_them() {
        let mut pools = 0;
        let mut try_pool = |distribution: &str, hash: &str, list: Vec<&str>, expected: &str| {
            let config = PlacementConfig {
                distribution: distribution.parse().unwrap(),
                hash: Some(hash.parse().unwrap()),
                servers: list.into_iter().map(|s| s.parse().unwrap()).collect(),
                hash_tag: None,
            };
            if !RINGS.contains(&config.distribution) {
                return;
            }
            let ring = Ring::adopt(&config).unwrap();
            for (i, expected) in expected.chars().enumerate() {
                let hash = config.hash().of(format!("key:{i}").as_bytes());
                let expected = expected.to_digit(36).unwrap();
                assert_eq!(u32::from(ring.owner(hash as u32)), expected, "key:{i}");
            }
            pools += 1;
        };
        let libmemcached = include_str!("../../tests/fixtures/ketama_vectors.txt");
        let lines: Vec<&str> = libmemcached.lines().collect();
        for pair in lines.chunks_exact(2) {
            let words: Vec<&str> = pair[0].split(' ').collect();
            try_pool(words[0], words[1], words[2..].to_vec(), pair[1]);
        }
        let twemproxy = include_str!("../../tests/fixtures/twemproxy_vectors.txt");
        let lines: Vec<&str> = twemproxy.lines().collect();
        for pair in lines.chunks_exact(2) {
            let words: Vec<&str> = pair[0].split('|').collect();
            if words[2] == "-" {
                let distribution = format!("twemproxy_{}", words[0]);
                try_pool(&distribution, words[1], words[3..].to_vec(), pair[1]);
            }
        }
        assert!(pools >= 40, "{pools}");
    }

    #[test]
    fn what_is_no_ring_is_refused() {
        let config = |distribution, servers: u16| PlacementConfig {
            distribution,
            servers: (0..servers).map(|i| Server::new("a", 1 + i)).collect(),
            ..PlacementConfig::default()
        };
        let refused = |distribution, servers| {
            let refused = Ring::adopt(&config(distribution, servers));
            refused.unwrap_err().to_string()
        };
        assert_eq!(
            refused(Distribution::Jump, 3),
            "jump has no ring; a ring begins as a ketama, or even"
        );
        assert_eq!(
            refused(Distribution::Ketama, 1025),
            "a ring has at most 1024 servers, not 1025"
        );
        assert!(refused(Distribution::KetamaWeighted, 600).contains("more than 65536"));
        assert!(matches!(
            Ring::adopt(&PlacementConfig::default()),
            Err(BadAdoption::Placement(PlacementError::NoServers))
        ));
    }
}
