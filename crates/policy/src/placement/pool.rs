//! Where keys live in a pool of plain memcached servers: one type for all distributions.

use super::config::{Distribution, HashTag, PlacementConfig, PlacementError};
use super::hash::Hash;
use super::ketama;
use super::ring::Ring;

/// Deals keys to the servers of a pool. Equal configurations deal equally, in every process.
#[derive(Clone, Debug)]
pub struct Placement {
    hash: Hash,
    hash_tag: Option<HashTag>,
    servers: usize,
    table: Table,
}

/// What a distribution works out in advance.
#[derive(Clone, Debug)]
enum Table {
    Ring(Ring),
}

impl Placement {
    /// Works out the tables of a distribution.
    ///
    /// # Errors
    ///
    /// See [`PlacementError`].
    pub fn new(config: &PlacementConfig) -> Result<Self, PlacementError> {
        config.check()?;
        let (servers, hash) = (&config.servers[..], config.hash());
        let table = match config.distribution {
            Distribution::Ketama => Table::Ring(Ring::new(ketama::equal_points(servers, hash))),
            Distribution::KetamaWeighted => {
                Table::Ring(Ring::new(ketama::weighted_points(servers)))
            }
        };
        Ok(Placement {
            hash,
            hash_tag: config.hash_tag,
            servers: servers.len(),
            table,
        })
    }

    /// How many servers there are.
    #[allow(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.servers
    }

    /// Position in the list of the server that a key belongs to. Allocates nothing.
    #[inline]
    pub fn server(&self, key: &[u8]) -> usize {
        let hash = self.hash(key);
        match &self.table {
            Table::Ring(ring) => ring.server(hash as u32),
        }
    }

    /// All servers, each once, in the order in which a key should look for another home when those
    /// before cannot be reached; the first is [`Placement::server`].
    ///
    /// On a ring that is the order in which their points follow, so that the keys of a lost server go
    /// where they would go without it. Servers without a point come last, in the order of the list.
    pub fn candidates(&self, key: &[u8]) -> impl Iterator<Item = usize> + use<'_> {
        let hash = self.hash(key);
        let walk = match &self.table {
            Table::Ring(ring) => ring.walk(hash as u32),
        };
        distinct(walk.chain(0..self.servers), self.servers)
    }

    /// The hash of the part of a key that decides.
    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        let part = match &self.hash_tag {
            None => key,
            Some(tag) => tag.part(key),
        };
        self.hash.of(part)
    }
}

/// Each server the first time that it comes; ends when all have come.
fn distinct(walk: impl Iterator<Item = usize>, servers: usize) -> impl Iterator<Item = usize> {
    let mut seen = vec![false; servers];
    walk.filter(move |&server| !std::mem::replace(&mut seen[server], true))
        .take(servers)
}

#[cfg(test)]
mod tests {
    use super::super::config::Server;
    use super::*;

    const KETAMA: &str = include_str!("../../tests/fixtures/ketama_vectors.txt");

    fn parse(server: &str) -> Server {
        let mut parts = server.split(':');
        let host = parts.next().unwrap();
        let port = parts.next().unwrap().parse().unwrap();
        let weight = parts.next().map_or(1, |weight| weight.parse().unwrap());
        Server {
            weight,
            ..Server::new(host, port)
        }
    }

    fn placement(distribution: Distribution, servers: &str) -> Placement {
        Placement::new(&PlacementConfig {
            distribution,
            servers: servers.split(' ').map(parse).collect(),
            ..PlacementConfig::default()
        })
        .unwrap()
    }

    fn keys() -> impl Iterator<Item = Vec<u8>> {
        (0..4000).map(|i| format!("key:{i}").into_bytes())
    }

    #[test]
    fn every_key_lives_where_libmemcached_puts_it() {
        let mut lines = KETAMA.lines();
        let mut pools = 0;
        while let (Some(pool), Some(expected)) = (lines.next(), lines.next()) {
            let (mode, list) = pool.split_once(' ').unwrap();
            let distribution = match mode {
                "weighted" => Distribution::KetamaWeighted,
                _ => Distribution::Ketama,
            };
            let placement = placement(distribution, list);
            for (key, expected) in keys().zip(expected.chars()) {
                let expected = expected.to_digit(36).unwrap() as usize;
                assert_eq!(placement.server(&key), expected, "{key:?} in {pool}");
            }
            assert_eq!(expected.len(), 600);
            pools += 1;
        }
        assert_eq!(pools, 10);
    }

    #[test]
    fn candidates_are_all_servers_once_from_the_home_on() {
        for &distribution in Distribution::ALL {
            let placement = placement(distribution, "a:1 b:1 c:1 d:1 e:1 f:1 g:1");
            for key in keys() {
                let mut all: Vec<usize> = placement.candidates(&key).collect();
                assert_eq!(all[0], placement.server(&key));
                all.sort_unstable();
                assert_eq!(all, [0, 1, 2, 3, 4, 5, 6], "{distribution}");
            }
        }
    }

    #[test]
    fn keys_of_a_lost_server_go_to_their_second_candidates_and_no_other_key_moves() {
        for distribution in [Distribution::Ketama, Distribution::KetamaWeighted] {
            let all = placement(distribution, "a:11211 b:11211 c:11211 d:11211");
            let without = placement(distribution, "a:11211 b:11211 d:11211");
            let mut heirs = [0; 4];
            for key in keys() {
                let home = all.server(&key);
                let expected = all.candidates(&key).find(|&server| server != 2).unwrap();
                let now = [0, 1, 3][without.server(&key)];
                assert_eq!(now, expected);
                assert!(now == home || home == 2);
                heirs[now] += u32::from(home == 2);
            }
            assert!(
                [0, 1, 3].iter().all(|&server| heirs[server] > 100),
                "{heirs:?}"
            );
        }
    }

    #[test]
    fn a_server_without_points_is_the_last_resort() {
        let placement = placement(Distribution::KetamaWeighted, "a:1:1000000 b:1:1");
        for key in keys() {
            assert_eq!(placement.candidates(&key).collect::<Vec<_>>(), [0, 1]);
        }
    }

    #[test]
    fn keys_with_equal_tags_live_together() {
        let mut config = PlacementConfig {
            servers: (0..9).map(|i| Server::new("a", 1 + i)).collect(),
            hash_tag: Some("{}".parse().unwrap()),
            ..PlacementConfig::default()
        };
        let tagged = Placement::new(&config).unwrap();
        config.hash_tag = None;
        let whole = Placement::new(&config).unwrap();
        let mut apart = 0;
        for i in 0..500 {
            let (tag, key) = (format!("u{i}"), format!("a:{{u{i}}}:{}", i * 7));
            assert_eq!(tagged.server(key.as_bytes()), whole.server(tag.as_bytes()));
            apart += u32::from(tagged.server(key.as_bytes()) != whole.server(key.as_bytes()));
            assert_eq!(tagged.server(tag.as_bytes()), whole.server(tag.as_bytes()));
        }
        assert!(apart > 300, "{apart}");
    }
}
