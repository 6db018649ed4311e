//! The ketama ring, bit for bit as libmemcached builds it.
//!
//! Every server puts points on a ring of 32-bit numbers; a key belongs to the first point at or after
//! its hash. Losing one server of n moves one key in n. Teams that come from another client must find
//! every key where that client put it, so this follows libmemcached to its rounding:
//!
//! - [`Weighting::Equal`] (`MEMCACHED_BEHAVIOR_KETAMA` with `MEMCACHED_HASH_MD5`): 100 points a server,
//!   each from the first four bytes of an MD5 digest.
//! - [`Weighting::Weighted`] (`MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED`, also for servers of equal weight):
//!   160 points a server on average, four from each digest, by weight in single precision.
//!
//! The digest is that of `host-i`, or `host:port-i` if the port is not 11211. Golden vectors come
//! from libmemcached itself (`tests/fixtures/ketama_vectors.c`).

use md5::{Digest, Md5};

/// Port that is left out of the name of a point (`MEMCACHED_DEFAULT_PORT`).
const PORT_DEFAULT: u16 = 11211;

/// Points of a server in a ring of equals (`MEMCACHED_POINTS_PER_SERVER`).
const POINTS_EQUAL: u32 = 100;

/// Mean points of a server in a weighted ring (`MEMCACHED_POINTS_PER_SERVER_KETAMA`).
const POINTS_WEIGHTED: u32 = 160;

/// Points that a weighted ring takes from one digest.
const POINTS_PER_DIGEST: u32 = 4;

/// Most servers of a ring: a point names its server in 16 bits.
pub const SERVERS_MAX: usize = 1 << 16;

/// A server of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KetamaServer {
    /// Host name or address, exactly as other clients are given it: the name makes the points.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its share of the keys, relative to the others; not used by [`Weighting::Equal`].
    pub weight: u32,
}

/// Which of libmemcached's two rings to build. They have no point in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighting {
    /// Every server has the same number of points.
    Equal,
    /// Points by weight.
    Weighted,
}

/// Why there is no ring. The configuration is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KetamaError {
    /// There is nobody to send a key to.
    #[error("build a ketama ring: it has no servers")]
    NoServers,
    /// More than [`SERVERS_MAX`].
    #[error("build a ketama ring: {count} servers are more than {SERVERS_MAX}")]
    TooManyServers {
        /// How many there are.
        count: usize,
    },
    /// A server would get no key.
    #[error("build a ketama ring: the weight of server {index} is 0")]
    WeightZero {
        /// Its position in the list.
        index: usize,
    },
}

/// A ketama ring.
#[derive(Clone, Debug)]
pub struct Ketama {
    /// Position on the ring and position of the server in the list; ascending by the former.
    points: Vec<(u32, u16)>,
}

impl Ketama {
    /// Builds the ring of a list of servers. O(p log p) for p points.
    ///
    /// # Errors
    ///
    /// See [`KetamaError`].
    pub fn new(servers: &[KetamaServer], weighting: Weighting) -> Result<Self, KetamaError> {
        if servers.is_empty() {
            return Err(KetamaError::NoServers);
        }
        if servers.len() > SERVERS_MAX {
            return Err(KetamaError::TooManyServers {
                count: servers.len(),
            });
        }
        let mut points = Vec::new();
        match weighting {
            Weighting::Equal => equal_points(servers, &mut points),
            Weighting::Weighted => weighted_points(servers, &mut points)?,
        }
        // Stable: of equal points the first server's wins, as in libmemcached with glibc's qsort.
        points.sort_by_key(|&(at, _)| at);
        Ok(Ketama { points })
    }

    /// Position in the list of the server that a key belongs to. O(log p).
    pub fn server(&self, key: &[u8]) -> usize {
        usize::from(self.points[self.first(key)].1)
    }

    /// The same, but passes over servers that are not `usable`; `None` if none is. Keys of usable
    /// servers stay where they are.
    pub fn server_if(&self, key: &[u8], mut usable: impl FnMut(usize) -> bool) -> Option<usize> {
        let first = self.first(key);
        let (before, from) = self.points.split_at(first);
        let mut servers = from
            .iter()
            .chain(before)
            .map(|&(_, server)| usize::from(server));
        servers.find(|&server| usable(server))
    }

    /// Position of the point that a key belongs to.
    fn first(&self, key: &[u8]) -> usize {
        let hash = le_word(&Md5::digest(key), 0);
        let at = self.points.partition_point(|&(at, _)| at < hash);
        if at == self.points.len() { 0 } else { at }
    }
}

fn equal_points(servers: &[KetamaServer], points: &mut Vec<(u32, u16)>) {
    for (index, server) in (0u16..=u16::MAX).zip(servers) {
        for i in 0..POINTS_EQUAL {
            points.push((le_word(&Md5::digest(point_name(server, i)), 0), index));
        }
    }
}

fn weighted_points(
    servers: &[KetamaServer],
    points: &mut Vec<(u32, u16)>,
) -> Result<(), KetamaError> {
    if let Some(index) = servers.iter().position(|server| server.weight == 0) {
        return Err(KetamaError::WeightZero { index });
    }
    let total: u64 = servers.iter().map(|server| u64::from(server.weight)).sum();
    for (index, server) in (0u16..=u16::MAX).zip(servers) {
        // The order of these operations and their precision are libmemcached's.
        let share = server.weight as f32 / total as f32;
        let digests = share * POINTS_WEIGHTED as f32 / POINTS_PER_DIGEST as f32;
        let digests = (digests * servers.len() as f32 + 1e-10).floor() as u32;
        for i in 0..digests {
            let digest = Md5::digest(point_name(server, i));
            for word in 0..POINTS_PER_DIGEST as usize {
                points.push((le_word(&digest, word), index));
            }
        }
    }
    Ok(())
}

fn point_name(server: &KetamaServer, i: u32) -> String {
    match server.port {
        PORT_DEFAULT => format!("{}-{i}", server.host),
        port => format!("{}:{port}-{i}", server.host),
    }
}

/// The n-th little-endian word of a digest.
fn le_word(digest: &[u8], n: usize) -> u32 {
    let bytes = &digest[4 * n..];
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    const VECTORS: &str = include_str!("../../tests/fixtures/ketama_vectors.txt");

    fn parse(server: &str) -> KetamaServer {
        let mut parts = server.split(':');
        KetamaServer {
            host: parts.next().unwrap().into(),
            port: parts.next().unwrap().parse().unwrap(),
            weight: parts.next().map_or(1, |weight| weight.parse().unwrap()),
        }
    }

    fn servers(list: &str) -> Vec<KetamaServer> {
        list.split(' ').map(parse).collect()
    }

    #[test]
    fn every_key_lives_where_libmemcached_puts_it() {
        let mut lines = VECTORS.lines();
        let mut pools = 0;
        while let (Some(pool), Some(expected)) = (lines.next(), lines.next()) {
            let (mode, list) = pool.split_once(' ').unwrap();
            let weighting = if mode == "weighted" {
                Weighting::Weighted
            } else {
                Weighting::Equal
            };
            let ketama = Ketama::new(&servers(list), weighting).unwrap();
            for (i, expected) in expected.chars().enumerate() {
                let expected = expected.to_digit(36).unwrap() as usize;
                let key = format!("key:{i}");
                assert_eq!(ketama.server(key.as_bytes()), expected, "{key} in {pool}");
            }
            assert_eq!(expected.len(), 600);
            pools += 1;
        }
        assert_eq!(pools, 10);
    }

    #[test]
    fn keys_of_a_lost_server_go_to_the_others_and_no_other_key_moves() {
        let list = servers("a:11211 b:11211 c:11211 d:11211");
        let ketama = Ketama::new(&list, Weighting::Equal).unwrap();
        let mut heirs = [0; 4];
        for i in 0..4000 {
            let key = format!("key:{i}");
            let home = ketama.server(key.as_bytes());
            let now = ketama
                .server_if(key.as_bytes(), |server| server != 2)
                .unwrap();
            assert!(now == home || home == 2);
            heirs[now] += u32::from(home == 2);
            assert_eq!(ketama.server_if(key.as_bytes(), |_| true), Some(home));
        }
        assert_eq!(heirs[2], 0);
        assert!(
            [0, 1, 3].iter().all(|&server| heirs[server] > 100),
            "{heirs:?}"
        );
        assert_eq!(ketama.server_if(b"k", |_| false), None);
    }

    #[test]
    fn the_ring_wraps_around() {
        let ketama = Ketama {
            points: vec![(10, 0), (20, 1)],
        };
        // MD5 of this key begins far above 20.
        assert!(le_word(&Md5::digest(b"foo"), 0) > 20);
        assert_eq!(ketama.server(b"foo"), 0);
    }

    #[test]
    fn rings_that_cannot_work_are_refused() {
        let one = servers("a:11211:0 b:11211:1");
        assert_eq!(
            Ketama::new(&[], Weighting::Equal).unwrap_err(),
            KetamaError::NoServers
        );
        assert_eq!(
            Ketama::new(&one, Weighting::Weighted).unwrap_err(),
            KetamaError::WeightZero { index: 0 }
        );
        assert!(
            Ketama::new(&one, Weighting::Equal).is_ok(),
            "weights do not matter there"
        );
        let many = vec![one[1].clone(); SERVERS_MAX + 1];
        assert_eq!(
            Ketama::new(&many, Weighting::Equal).unwrap_err(),
            KetamaError::TooManyServers {
                count: SERVERS_MAX + 1
            }
        );
    }
}
