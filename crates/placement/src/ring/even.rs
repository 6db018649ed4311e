//! The ring that a new pool begins with: equal shares, and every server beside every other.
//!
//! The most loaded server can give to the least loaded one only where a slice of it lies behind one of the other. So
//! every ordered pair of servers is to be adjacent. Take the servers as the vertices of a graph with an edge from each to each other: a
//! closed walk that uses each edge once names, vertex by vertex, the owners of n(n − 1) slices in which each ordered
//! pair occurs once. Such a walk exists since as many edges come to a vertex as leave it, and Hierholzer finds it
//! in O(n²), where the paper's search takes O(n³) (section 3.2).

use super::build::Stretch;
use super::{ADJACENT_SERVERS_MAX, HASHES, Ring, SERVERS_MAX, SLICES_MAX};

/// Slices of a server where there are too many servers for all pairs.
const SLICES_OF_MANY: usize = 64;

const _: () = assert!(SERVERS_MAX * SLICES_OF_MANY <= SLICES_MAX);

/// Why there is no such ring. The settings are at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEven {
    /// Nobody to own it, or too many.
    #[error("a ring has 1 to {SERVERS_MAX} servers, not {servers}")]
    Servers {
        /// How many were asked for.
        servers: usize,
    },
    /// Too many slices.
    #[error(
        "{servers} servers of {each} slices each are more than {SLICES_MAX} slices; set fewer virtual nodes"
    )]
    TooManySlices {
        /// How many servers.
        servers: usize,
        /// Slices of each.
        each: usize,
    },
}

impl Ring {
    /// Virtual nodes of a server unless told otherwise: those of the paper (section 4.2).
    pub const VIRTUAL_NODES: usize = 100;

    /// A ring of generation 0 whose shares differ by at most one hash. Each server has n − 1 slices or a multiple of it,
    /// the one nearest to `virtual_nodes`, and every ordered pair of servers is adjacent equally often. Beyond
    /// [`ADJACENT_SERVERS_MAX`] servers each has 64 slices behind those of 64 different ones. O(s).
    ///
    /// # Errors
    ///
    /// See [`BadEven`].
    pub fn even(servers: usize, virtual_nodes: usize) -> Result<Ring, BadEven> {
        if !(1..=SERVERS_MAX).contains(&servers) {
            return Err(BadEven::Servers { servers });
        }
        let owners = match servers {
            1 => vec![0],
            2..=ADJACENT_SERVERS_MAX => {
                let others = servers - 1;
                let times = virtual_nodes.saturating_add(others / 2) / others;
                let times = times.max(1);
                if times.saturating_mul(servers * others) > SLICES_MAX {
                    let each = times.saturating_mul(others);
                    return Err(BadEven::TooManySlices { servers, each });
                }
                circuit(servers as u16).repeat(times)
            }
            _ => distributed(servers),
        };
        Ok(Ring::build(servers as u16, 0, 0, equal(servers, &owners)))
    }
}

/// A closed walk through the complete directed graph on n ≥ 2 vertices that uses each edge once: n(n − 1) vertices, the last of
/// which leads back to the first. O(n²).
///
/// Each vertex takes its edges by how far around they lead, the next vertex first. By number, the walk would come back from
/// most vertices to where it came from (0 1 0 2 0 …), and a lost server's runs would have one heir each.
fn circuit(n: u16) -> Vec<u16> {
    // How far the last edge led that each vertex has walked.
    let mut steps: Vec<u16> = vec![0; usize::from(n)];
    let mut walk: Vec<u16> = vec![0];
    let mut closed = Vec::with_capacity(usize::from(n) * usize::from(n));
    while let Some(&at) = walk.last() {
        let step = &mut steps[usize::from(at)];
        if *step < n - 1 {
            *step += 1;
            walk.push((at + *step) % n);
        } else {
            closed.push(at);
            walk.pop();
        }
    }
    // It was found backwards, and names its beginning twice.
    closed.reverse();
    closed.pop();
    closed
}

/// The owners of 64 slices of each server: 64 rounds, each in steps of another length that reaches all.
fn distributed(servers: usize) -> Vec<u16> {
    let steps = (1..servers).filter(|&step| coprime(step, servers));
    let rounds = steps.take(SLICES_OF_MANY);
    let owners = rounds.flat_map(|step| (0..servers).map(move |i| (i * step % servers) as u16));
    owners.collect()
}

fn coprime(a: usize, b: usize) -> bool {
    match a {
        0 => b == 1,
        a => coprime(b % a, a),
    }
}

/// Stretches of these owners, each with its part of its server's share.
fn equal(servers: usize, owners: &[u16]) -> Vec<Stretch> {
    let of_each = (owners.len() / servers) as u64;
    let mut seen = vec![0u64; servers];
    let widths = owners.iter().map(|&owner| {
        let seen = &mut seen[usize::from(owner)];
        let share = part_of(HASHES, servers as u64, u64::from(owner));
        let width = part_of(share, of_each, *seen);
        *seen += 1;
        Stretch {
            width,
            owner,
            generation: 0,
        }
    });
    widths.collect()
}

/// Size of one of `parts` parts of a whole that differ by at most one.
fn part_of(whole: u64, parts: u64, part: u64) -> u64 {
    whole / parts + u64::from(part < whole % parts)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, pairs};
    use super::*;

    fn gap(ring: &Ring) -> u64 {
        let shares = ring.shares();
        shares.iter().max().unwrap() - shares.iter().min().unwrap()
    }

    #[test]
    fn all_ordered_pairs_are_adjacent_and_shares_differ_by_one_at_most() {
        for n in 1..=64 {
            let ring = Ring::even(n, Ring::VIRTUAL_NODES).unwrap();
            check(&ring);
            assert!(gap(&ring) <= 1, "{n}: {:?}", ring.shares());
            assert_eq!(pairs(&ring).len(), n * (n - 1), "{n}");
            let each = ring.slices().len() / n;
            assert!(n == 1 || each.is_multiple_of(n - 1), "{n}: {each}");
            assert!(n == 1 || each.abs_diff(100) <= n / 2, "{n}: {each}");
            let widths = (0..ring.slices().len()).map(|slice| ring.width(slice));
            let (least, most) = (widths.clone().min().unwrap(), widths.max().unwrap());
            assert!(most - least <= 2, "{n}: {least} {most}");
        }
    }

    /// Figure 4 of the paper: with five servers each is beside all the others.
    #[test]
    fn a_circuit_uses_each_edge_once() {
        for n in 2..=64u16 {
            let walk = circuit(n);
            let behind = walk.iter().skip(1).chain(&walk[..1]);
            let mut edges: Vec<_> = walk.iter().zip(behind).collect();
            assert!(edges.iter().all(|(a, b)| a != b));
            edges.sort();
            edges.dedup();
            assert_eq!(edges.len(), usize::from(n) * usize::from(n - 1));
            assert_eq!(edges.len(), walk.len());
            let back = (0..walk.len()).filter(|&i| walk[i] == walk[(i + 2) % walk.len()]);
            assert!(back.count() <= 2 * usize::from(n), "{n}: there and back");
        }
    }

    #[test]
    fn the_largest_with_all_pairs_fits() {
        let ring = Ring::even(ADJACENT_SERVERS_MAX, Ring::VIRTUAL_NODES).unwrap();
        assert_eq!(ring.slices().len(), 65_280);
        assert!(gap(&ring) <= 1);
    }

    #[test]
    fn many_servers_have_64_slices_each_behind_64_others() {
        for n in [257, 258, 300, 330, 420, 512, 990, 1000, 1024] {
            let ring = Ring::even(n, Ring::VIRTUAL_NODES).unwrap();
            check(&ring);
            assert_eq!(ring.slices().len(), 64 * n);
            assert!(gap(&ring) <= 1, "{n}");
            // Where one round meets the next a pair may occur again.
            assert!(pairs(&ring).len() >= 64 * n - 64, "{n}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let servers = |servers| Err(BadEven::Servers { servers });
        assert_eq!(Ring::even(0, 100), servers(0));
        assert_eq!(Ring::even(1025, 100), servers(1025));
        assert_eq!(
            Ring::even(100, 1000).unwrap_err().to_string(),
            "100 servers of 990 slices each are more than 65536 slices; set fewer virtual nodes"
        );
        assert!(Ring::even(2, usize::MAX).is_err());
    }
}
