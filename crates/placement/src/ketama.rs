//! Ketama: where the points of the servers lie on the ring, as libmemcached and twemproxy put them.
//!
//! Every server puts points on a ring of 32-bit numbers; a key belongs to the first point at or after
//! its hash. Losing one server of n moves one key in n. Teams that come from another client must find
//! every key where that client put it, so this follows the originals to their rounding:
//!
//! - [`equal_points`] (`MEMCACHED_BEHAVIOR_KETAMA`): 100 points a server, each from the hash that the
//!   keys are hashed with.
//! - [`weighted_points`] (`MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED`, also for servers of equal weight; and
//!   twemproxy's `ketama`): 160 points a server on average, four from each MD5 digest, by weight in
//!   single precision. How keys are hashed is another matter.
//!
//! Hashed is a server's identity followed by `-i`. Golden vectors come from libmemcached itself
//! (`tests/fixtures/ketama_vectors.c`).

use super::config::Server;
use super::hash::{Hash, md5_words};
use super::points::Point;

/// Points of a server in a ring of equals (`MEMCACHED_POINTS_PER_SERVER`).
const POINTS_EQUAL: u32 = 100;

/// Mean points of a server in a weighted ring (`MEMCACHED_POINTS_PER_SERVER_KETAMA`).
const POINTS_WEIGHTED: u32 = 160;

/// Points that a weighted ring takes from one digest.
const POINTS_PER_DIGEST: u32 = 4;

/// The same number of points for each server, placed by the hash of the keys.
pub(super) fn equal_points(servers: &[Server], hash: Hash) -> Vec<Point> {
    let mut points = Vec::with_capacity(servers.len() * POINTS_EQUAL as usize);
    for (index, server) in (0u16..=u16::MAX).zip(servers) {
        let identity = server.identity();
        for i in 0..POINTS_EQUAL {
            let at = hash.of(format!("{identity}-{i}").as_bytes());
            points.push((at as u32, index));
        }
    }
    points
}

/// Points by weight, placed by MD5. A server whose share is below a 160th of a mean one may get none.
///
/// `order` are the positions of all servers; where two points coincide, the earlier server's wins.
pub(super) fn weighted_points(servers: &[Server], order: &[u16]) -> Vec<Point> {
    let mut points = Vec::with_capacity(servers.len() * POINTS_WEIGHTED as usize);
    let total: u64 = servers.iter().map(|server| u64::from(server.weight)).sum();
    for &index in order {
        let server = &servers[usize::from(index)];
        // The order of these operations and their precision are those of both originals.
        let share = server.weight as f32 / total as f32;
        let digests = share * POINTS_WEIGHTED as f32 / POINTS_PER_DIGEST as f32;
        let digests = (digests * servers.len() as f32 + 1e-10).floor() as u32;
        let identity = server.identity();
        for i in 0..digests {
            let words = md5_words(format!("{identity}-{i}").as_bytes());
            points.extend(words.map(|at| (at, index)));
        }
    }
    points
}
