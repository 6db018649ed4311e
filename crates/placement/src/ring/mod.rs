//! The ring of a pool whose hash space follows the load (adaptive hashing).
//!
//! The 32-bit hash space of a pool is a circle. It is cut into *slices*, and each belongs to a server. Where a ketama
//! leaves its points where the names of the servers put them, here the borders move: a server that has too much to do gives
//! the lower part of a slice to the server whose slice ends there, and nothing else of the pool moves (Hwang and
//! Wood, "Adaptive performance-aware distributed memory caching", ICAC 2013, section 3).
//!
//! ```text
//!        ── hashes grow, clockwise ──>
//!   … a ────────┤ b ───────────────┤ c ─ …      b gives a the lower part of its slice:
//!   … a ────────┤ a' ──┤ b ────────┤ c ─ …      what moved is a slice of a new generation
//! ```
//!
//! - *Generation*: what moved is found under names of a new generation, so that nothing that a former owner still holds is
//!   ever read again. A ring counts them up and gives none out twice. Generation 0 is what was there before the ring.
//! - *Run*: slices of one server that follow each other. It is what the paper calls a virtual node; planners look at runs.
//! - *Zero width*: a slice may hold no hash at all. It stands before a slice of another server and says that this
//!   one may give to it: a place for what has yet to come.
//!
//! Everything here is a value: a change gives another ring and leaves this one as it is.
//!
//! How a ring begins is in `even.rs` and `adopt.rs`, how it changes in `change.rs` and `servers.rs`, what a reader
//! of documents must not believe in `document.rs`.

mod adjacency;
mod adopt;
mod build;
mod change;
mod document;
mod even;
mod grains;
mod servers;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

use super::points::Points;
pub use adopt::BadAdoption;
pub use change::{BadChange, Move, Part};
pub use document::{BadRing, RingDocument, SliceDocument};
pub use even::BadEven;
pub use grains::{GRAINS_OF_RING, Grain, grain_of};
pub use servers::GIVES_ALL;

/// Hashes of a pool.
pub const HASHES: u64 = 1 << 32;

/// Most slices of a ring. A ring of the paper for 256 servers has 65,280.
pub const SLICES_MAX: usize = 1 << 16;

/// Past this many slices the shortest neighbours of one server are joined: a document of a ring stays below a
/// megabyte.
pub const JOIN_ABOVE: usize = 8_192;

/// Most servers of a ring.
pub const SERVERS_MAX: usize = 1_024;

/// Up to this many servers every ordered pair of them is adjacent and stays so: beyond it the pairs would be more than
/// [`SLICES_MAX`].
pub const ADJACENT_SERVERS_MAX: usize = 256;

const _: () = assert!(ADJACENT_SERVERS_MAX * (ADJACENT_SERVERS_MAX - 1) <= SLICES_MAX);

/// A part of the hash space: from behind the end of the slice before it to its own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Its last hash.
    pub end: u32,
    /// Whose it is: a position in the list of servers.
    pub owner: u16,
    /// Under which names its items are stored.
    pub generation: u64,
}

/// A ring. Equal rings place equally, in every process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "RingDocument", into = "RingDocument")]
pub struct Ring {
    /// How many servers its list has, with those that own nothing.
    servers: u16,
    /// The highest generation that was ever given out.
    generation: u64,
    /// In ascending order of their ends. The first holds hash 0, and with it what lies behind the last end.
    /// Invariant: no two neighbours agree in owner and generation, none of no width stands beside one of its owner.
    slices: Vec<Slice>,
    /// The ends, for looking up.
    points: Points,
}

impl PartialEq for Ring {
    fn eq(&self, other: &Ring) -> bool {
        let key = |ring: &Ring| (ring.servers, ring.generation);
        key(self) == key(other) && self.slices == other.slices
    }
}

/// Slices of one server that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its first hash.
    pub first: u32,
    /// How many hashes it has: 0 to 2³².
    pub width: u64,
    /// Whose it is.
    pub owner: u16,
    /// Whose slice ends where it begins; the owner's own where it has all.
    pub behind: u16,
}

impl Run {
    /// Its lower part, of this many hashes, at most all; `None` for no hash.
    pub fn lower(&self, width: u64) -> Option<Part> {
        let width = width.min(self.width);
        (width > 0).then(|| Part::of(self.first, width))
    }
}

impl Ring {
    /// The server that a hash belongs to. O(1) where slices are about equally wide, O(log s) at most.
    #[inline]
    pub fn owner(&self, hash: u32) -> u16 {
        self.points.server(hash) as u16
    }

    /// Position in [`Ring::slices`] of the slice that a hash lies in; as quick.
    #[inline]
    pub fn slice_of(&self, hash: u32) -> usize {
        self.points.position(hash)
    }

    /// All slices, in ascending order of their ends; the first holds hash 0.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// How many servers the list has, with those that own nothing.
    pub fn servers(&self) -> usize {
        usize::from(self.servers)
    }

    /// The highest generation that was ever given out.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// How many hashes a slice has: 0 to 2³².
    ///
    /// # Panics
    ///
    /// Past the last slice.
    pub fn width(&self, slice: usize) -> u64 {
        let end = u64::from(self.slices[slice].end);
        let last = self.slices[self.slices.len() - 1].end;
        match slice {
            0 => HASHES - (u64::from(last) - end),
            _ => end - u64::from(self.slices[slice - 1].end),
        }
    }

    /// How many hashes each server has. O(s).
    pub fn shares(&self) -> Vec<u64> {
        let mut shares = vec![0; self.servers()];
        for (slice, of) in self.slices.iter().enumerate() {
            shares[usize::from(of.owner)] += self.width(slice);
        }
        shares
    }

    /// Whether a server, by its place in the list, has any hash. O(s).
    pub fn owns(&self, server: u16) -> bool {
        self.shares()
            .get(usize::from(server))
            .is_some_and(|share| *share > 0)
    }

    /// The servers that have parts of this ring which have changed hands in another one that was made of it. O(s log s).
    pub fn givers(&self, after: &Ring) -> BTreeSet<u16> {
        let slices = self.slices.iter().chain(&after.slices);
        let givers = slices.filter_map(|slice| {
            let of = |ring: &Ring| ring.slices[ring.slice_of(slice.end)];
            let (before, after) = (of(self), of(after));
            (before.generation != after.generation).then_some(before.owner)
        });
        givers.collect()
    }

    /// The servers that have hashes of a part, ascending. O(s).
    pub fn owners_of(&self, part: Part) -> BTreeSet<u16> {
        let mut first = self.begin();
        let mut owners = BTreeSet::new();
        for (slice, of) in self.slices.iter().enumerate() {
            let width = self.width(slice);
            if width > 0 && Part::of(first, width).overlaps(&part) {
                owners.insert(of.owner);
            }
            first = first.wrapping_add(width as u32);
        }
        owners
    }

    /// The runs, in the order of the ring. O(s).
    pub fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut first = self.begin();
        for (slice, of) in self.slices.iter().enumerate() {
            let width = self.width(slice);
            match runs.last_mut() {
                Some(run) if run.owner == of.owner => run.width += width,
                _ => runs.push(Run {
                    first,
                    width,
                    owner: of.owner,
                    behind: of.owner,
                }),
            }
            first = first.wrapping_add(width as u32);
        }
        // The last may go on in the first.
        if let [front, .., back] = &mut runs[..]
            && front.owner == back.owner
        {
            (front.first, front.width) = (back.first, front.width + back.width);
            runs.pop();
        }
        let mut behind = runs[runs.len() - 1].owner;
        for run in &mut runs {
            run.behind = core::mem::replace(&mut behind, run.owner);
        }
        runs
    }

    /// First hash of the first slice.
    fn begin(&self) -> u32 {
        self.slices[self.slices.len() - 1].end.wrapping_add(1)
    }
}
