//! Social graphs: who is whose friend. A request for a user's page asks for the items of all friends.
//!
//! A graph is read once and held in two arrays: 4 bytes an edge and 8 bytes a user. Ids of a file may be
//! any numbers; users are numbered anew, densely, in the order in which they first appear.

use crate::input::{self, LINE_LEN_MAX};
use crate::ranks::Ranks;
use crate::rng;
use crate::text::{self, Term};
use crate::{Permutation, WorkloadError, refuse};
use core::fmt;
use core::str::FromStr;
use std::collections::HashMap;
use std::io::{BufRead, Read};
use std::path::Path;

/// Most edges of a graph. While it is read an edge takes 8 bytes, so that this is 512 MiB at most.
pub const EDGES_MAX: usize = 64 << 20;

/// Most users of a graph: with [`EDGES_MAX`], memory stays below 2 GiB while a file is read.
pub const USERS_MAX: usize = 16 << 20;

/// A directed graph of users `0..users`.
#[derive(Clone, PartialEq, Eq)]
pub struct Graph {
    /// Where each user's friends begin; one more at the end.
    starts: Box<[u64]>,
    friends: Box<[u32]>,
    /// Users that have friends.
    readers: Box<[u32]>,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("users", &self.users())
            .field("edges", &self.friends.len())
            .finish()
    }
}

impl Graph {
    /// Reads a list of edges, plain or compressed: `from to` on a line, separated by spaces or a tab,
    /// further columns ignored; lines that begin with `#` are comments. So are the graphs of SNAP.
    /// Edges of a user to itself and repeated ones stay, as they are in the file.
    ///
    /// # Errors
    /// When the file cannot be read, a line is no edge, there is no edge, or the graph is larger than
    /// [`EDGES_MAX`] and [`USERS_MAX`] allow.
    pub fn read(path: &Path) -> Result<Self, WorkloadError> {
        let shown = path.display();
        let open = |error: std::io::Error| WorkloadError(format!("graph {shown}: {error}"));
        let mut input = input::open(path).map_err(open)?;
        let (mut ids, mut edges) = (HashMap::<u64, u32>::new(), Vec::new());
        let mut line = Vec::new();
        for number in 1u64.. {
            line.clear();
            let mut limited = (&mut input).take(LINE_LEN_MAX as u64);
            if limited.read_until(b'\n', &mut line).map_err(open)? == 0 {
                break;
            }
            if line.starts_with(b"#") {
                continue;
            }
            let Some((from, to)) = edge(&line) else {
                return refuse(format!("graph {shown}, line {number}: not two users"));
            };
            if edges.len() == EDGES_MAX {
                return refuse(format!("graph {shown}: more than {EDGES_MAX} edges"));
            }
            let mut user = |id: u64| {
                let next = ids.len() as u32;
                *ids.entry(id).or_insert(next)
            };
            edges.push((user(from), user(to)));
            if ids.len() > USERS_MAX {
                return refuse(format!("graph {shown}: more than {USERS_MAX} users"));
            }
        }
        if edges.is_empty() {
            return refuse(format!("graph {shown}: it holds no edge"));
        }
        Ok(Graph::of_edges(ids.len(), &edges))
    }

    /// The graph of these edges, each user's friends in the order given.
    ///
    /// # Panics
    /// When an edge names a user that is not below `users`.
    pub fn of_edges(users: usize, edges: &[(u32, u32)]) -> Self {
        let mut starts = vec![0u64; users + 1];
        for &(from, to) in edges {
            assert!((from.max(to) as usize) < users, "edge {from} {to}");
            starts[from as usize + 1] += 1;
        }
        for user in 0..users {
            starts[user + 1] += starts[user];
        }
        let mut next = starts.clone();
        let mut friends = vec![0u32; edges.len()];
        for &(from, to) in edges {
            let place = &mut next[from as usize];
            friends[*place as usize] = to;
            *place += 1;
        }
        let readers = (0..users)
            .filter(|&user| starts[user] < starts[user + 1])
            .map(|user| user as u32)
            .collect();
        Graph {
            starts: starts.into(),
            friends: friends.into(),
            readers,
        }
    }

    /// Number of users.
    pub fn users(&self) -> u64 {
        self.starts.len() as u64 - 1
    }

    /// Number of edges.
    pub fn edges(&self) -> u64 {
        self.friends.len() as u64
    }

    /// The friends of a user.
    ///
    /// # Panics
    /// When there is no such user.
    pub fn friends(&self, user: u32) -> &[u32] {
        let user = user as usize;
        &self.friends[self.starts[user] as usize..self.starts[user + 1] as usize]
    }

    /// The users that have friends.
    pub fn readers(&self) -> &[u32] {
        &self.readers
    }

    /// Most friends of a user.
    pub fn degree_max(&self) -> u64 {
        self.starts
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .max()
            .unwrap_or(0)
    }
}

fn edge(line: &[u8]) -> Option<(u64, u64)> {
    let mut fields = core::str::from_utf8(line).ok()?.split_ascii_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// A graph as many social networks look, as text `power-law(100k, exponent=2, max=2500)`: the
/// number of a user's friends is d with probability proportional to d to the power −`exponent`, up to
/// `max`. Whom a user has for a friend is drawn by Zipf's law with exponent 1/(`exponent` − 1), so that
/// the numbers of those who have a user for a friend follow the same power (Adamic, "Zipf, power-laws
/// and Pareto", 2000). Nobody is their own friend or a friend twice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerLaw {
    /// Number of users.
    pub users: u64,
    /// Exponent of the numbers of friends, above 1.
    pub exponent: f64,
    /// Most friends of a user.
    pub degree_max: u64,
}

/// Exponent where none is given: with [`DEGREE_MAX_DEFAULT`] the mean number of friends is 5.1, near
/// the 6.7 of Epinions.
const EXPONENT_DEFAULT: f64 = 2.0;

/// Most friends where nothing is said, near the 2,511 of Slashdot.
const DEGREE_MAX_DEFAULT: u64 = 2500;

/// Steepest numbers of friends.
const GRAPH_EXPONENT_MAX: f64 = 5.0;

impl PowerLaw {
    fn check(&self) -> Result<(), WorkloadError> {
        if !(2..=USERS_MAX as u64).contains(&self.users) {
            return refuse(format!(
                "{} users are not within 2 and {USERS_MAX}",
                self.users
            ));
        }
        // Half of all users as friends can still be drawn quickly without repetition.
        if !(1..=self.users / 2).contains(&self.degree_max) {
            return refuse(format!(
                "at most {} friends is not within 1 and half of {} users",
                self.degree_max, self.users
            ));
        }
        if !(self.exponent > 1.0 && self.exponent <= GRAPH_EXPONENT_MAX) {
            return refuse(format!(
                "exponent {} is not within 1 and {GRAPH_EXPONENT_MAX}",
                self.exponent
            ));
        }
        Ok(())
    }

    /// The graph of a seed.
    ///
    /// # Errors
    /// When the numbers are out of range, or the graph has more than [`EDGES_MAX`] edges.
    pub fn generate(&self, seed: u64) -> Result<Graph, WorkloadError> {
        self.check()?;
        let degrees = Ranks::zipf(self.degree_max, self.exponent);
        let fame = Ranks::zipf(self.users, 1.0 / (self.exponent - 1.0));
        let famous = Permutation::new(self.users, seed, GRAPH_STREAM);
        let mut rng = rng::stream(seed, GRAPH_STREAM);
        let mut edges = Vec::new();
        // Who is a friend of the user at hand already: the last user who took them.
        let mut friend_of = vec![u32::MAX; self.users as usize];
        for user in 0..self.users as u32 {
            friend_of[user as usize] = user;
            for _ in 0..=degrees.sample(&mut rng) {
                if edges.len() == EDGES_MAX {
                    return refuse(format!("{self} has more than {EDGES_MAX} edges"));
                }
                let mut friend = famous.apply(fame.sample(&mut rng));
                let mut draws = 0;
                while friend_of[friend as usize] == user {
                    // Somebody whose friends are the famous ones already takes the next at hand.
                    draws += 1;
                    friend = if draws < DRAWS_MAX {
                        famous.apply(fame.sample(&mut rng))
                    } else {
                        (friend + 1) % self.users
                    };
                }
                friend_of[friend as usize] = user;
                edges.push((user, friend as u32));
            }
        }
        Ok(Graph::of_edges(self.users as usize, &edges))
    }
}

/// Draws of a friend before the search goes from one user to the next. With a steep law and many
/// friends, most draws repeat the famous.
const DRAWS_MAX: u32 = 100;

/// The stream of graphs, apart from those of keys and arrivals.
const GRAPH_STREAM: u64 = 2 << 32;

impl FromStr for PowerLaw {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let mut term = Term::parse(text)?;
        if term.name() != "power-law" {
            return term.unknown(
                "a generated graph",
                "power-law(USERS, exponent=2, max=2500)",
            );
        }
        let users = term.required(0, "users", text::count)?;
        let law = PowerLaw {
            users,
            exponent: term.or(1, "exponent", EXPONENT_DEFAULT, text::number)?,
            degree_max: term.or(2, "max", DEGREE_MAX_DEFAULT.min(users / 2), text::count)?,
        };
        term.finish()?;
        law.check()?;
        Ok(law)
    }
}

impl fmt::Display for PowerLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "power-law({}, exponent={}, max={})",
            self.users, self.exponent, self.degree_max
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{assert_fits_counts, seed};

    #[test]
    fn edges_are_read_with_comments_and_any_ids() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            file.path(),
            "# a graph\n7\t900\n7 7\r\n900\t7 1341100972 MT\n5\t7",
        )
        .unwrap();
        let graph = Graph::read(file.path()).unwrap();
        assert_eq!(
            (graph.users(), graph.edges(), graph.degree_max()),
            (3, 4, 2)
        );
        // 7 is user 0, 900 is 1, 5 is 2.
        assert_eq!(graph.friends(0), [1, 0]);
        assert_eq!(graph.friends(1), [0]);
        assert_eq!(graph.friends(2), [0]);
        assert_eq!(graph.readers(), [0, 1, 2]);
    }

    #[test]
    fn damage_is_told_with_its_line() {
        for (content, expected) in [
            ("", ": it holds no edge"),
            ("# only\n", ": it holds no edge"),
            ("1 2\n3\n", ", line 2: not two users"),
            ("1 -2\n", ", line 1: not two users"),
            ("\n", ", line 1: not two users"),
        ] {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), content).unwrap();
            let message = Graph::read(file.path()).unwrap_err().to_string();
            assert!(message.ends_with(expected), "{message}");
        }
        assert!(Graph::read(Path::new("/no/such/graph")).is_err());
    }

    /// Numbers of friends against the law, and what a friend is.
    #[test]
    fn a_generated_graph_has_the_degrees_of_its_law() {
        let seed = seed();
        let law: PowerLaw = "power-law(20k, exponent=2.2, max=500)".parse().unwrap();
        let graph = law.generate(seed).unwrap();
        assert_eq!(graph.users(), 20_000);
        assert_eq!(graph.readers().len(), 20_000);
        let mut counts = vec![0u64; 500];
        for &user in graph.readers() {
            let friends = graph.friends(user);
            counts[friends.len() - 1] += 1;
            let mut others = friends.to_vec();
            others.sort_unstable();
            others.dedup();
            assert_eq!(others.len(), friends.len(), "a friend twice");
            assert!(!friends.contains(&user), "their own friend");
        }
        let weights: Vec<f64> = (1..=500).map(|d| f64::from(d).powf(-2.2)).collect();
        assert_fits_counts("degrees", &weights, &counts);
        // The famous have far more than their share.
        let mut fans = vec![0u64; 20_000];
        (0..20_000).for_each(|user| {
            graph
                .friends(user)
                .iter()
                .for_each(|&f| fans[f as usize] += 1)
        });
        fans.sort_unstable();
        let top: u64 = fans[19_800..].iter().sum();
        assert!(top * 5 > graph.edges(), "{top} of {}", graph.edges());
        assert_eq!(graph, law.generate(seed).unwrap());
        assert_ne!(graph, law.generate(seed + 1).unwrap());
    }

    #[test]
    fn crowded_graphs_can_be_generated() {
        let law: PowerLaw = "power-law(10, exponent=1.1, max=5)".parse().unwrap();
        let graph = law.generate(1).unwrap();
        assert!(graph.degree_max() <= 5 && graph.edges() >= 10);
        let steep: PowerLaw = "power-law(300, exponent=1.05, max=150)".parse().unwrap();
        steep.generate(1).unwrap();
    }

    #[test]
    fn laws_are_read_and_written() {
        let law: PowerLaw = "power-law(100k)".parse().unwrap();
        assert_eq!(law.to_string(), "power-law(100000, exponent=2, max=2500)");
        for text in [
            "power-law",
            "power-law(1)",
            "power-law(100, exponent=1)",
            "power-law(100, max=51)",
            "power-law(100M)",
        ] {
            assert!(text.parse::<PowerLaw>().is_err(), "{text}");
        }
    }
}
