//! What a ring becomes when parts of it change hands.

use super::adjacency::{self, Pair};
use super::build::{self, Stretch};
use super::{ADJACENT_SERVERS_MAX, HASHES, JOIN_ABOVE, Ring, SLICES_MAX};

/// Hashes that follow each other, at least one; around 0 where the last is the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// The first.
    pub first: u32,
    /// The last.
    pub last: u32,
}

impl Part {
    /// This many hashes, 1 to 2³², from one on.
    pub(super) fn of(first: u32, width: u64) -> Part {
        let last = first.wrapping_add(width as u32).wrapping_sub(1);
        Part { first, last }
    }

    /// How many hashes: 1 to 2³².
    pub fn width(&self) -> u64 {
        u64::from(self.last.wrapping_sub(self.first)) + 1
    }

    /// Whether a hash is in both.
    pub fn overlaps(&self, other: &Part) -> bool {
        let holds = |part: &Part, hash: u32| {
            hash.wrapping_sub(part.first) <= part.last.wrapping_sub(part.first)
        };
        holds(self, other.first) || holds(other, self.first)
    }
}

/// A part that a server is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Which.
    pub part: Part,
    /// Who gets it: a position in the list of servers.
    pub to: u16,
}

/// Why a ring does not change so. Anyone who asked for it is at fault; the ring is as it was.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadChange {
    /// A server that is not in the list.
    #[error("there is no server {server} among {servers}")]
    UnknownServer {
        /// The position that was told.
        server: usize,
        /// How many there are.
        servers: usize,
    },
    /// Two moves of one hash.
    #[error("hashes {first:#010x} to {last:#010x} are told to move twice", first = .0.first, last = .0.last)]
    Overlap(Part),
    /// The ring would be too long.
    #[error("it would make {slices} slices, more than {SLICES_MAX}")]
    TooManySlices {
        /// How many.
        slices: usize,
    },
    /// Too many servers.
    #[error("a ring has at most {max} servers", max = super::SERVERS_MAX)]
    TooManyServers,
    /// A newcomer at a place that another has, or that is none, or not one number for each server.
    #[error(
        "a newcomer takes the place of a server that owns nothing, or the next one, not place {server} of {servers}; and {gives} servers are told to give"
    )]
    BadNewcomer {
        /// The place that was told.
        server: usize,
        /// How many there are.
        servers: usize,
        /// Of how many it was told what they give.
        gives: usize,
    },
    /// A newcomer that gets nothing.
    #[error("no server gives a newcomer anything")]
    NothingGiven,
    /// Nobody would be left.
    #[error("server {server} is the last one with a share")]
    LastServer {
        /// Which.
        server: usize,
    },
    /// Costs that cannot be.
    #[error("{given} costs for {servers} servers, each a number from 0 on: {reason}")]
    BadCosts {
        /// How many were told.
        given: usize,
        /// How many there are.
        servers: usize,
        /// What is wrong.
        reason: String,
    },
}

/// A move by where it begins and ends behind the first hash of the ring's first slice.
struct Stint {
    from: u64,
    to: u64,
    owner: u16,
}

impl Ring {
    /// The ring in which these parts have moved, under one new generation. A part may stay with its owner: then it is its
    /// generation that is new.
    ///
    /// Pairs of servers that were adjacent are so afterwards, up to [`ADJACENT_SERVERS_MAX`] servers: see `adjacency.rs`.
    /// O((s + m) log (s + m)) for m moves, and as much for each pair to be restored.
    ///
    /// # Errors
    ///
    /// See [`BadChange`].
    pub fn moved(&self, moves: &[Move]) -> Result<Ring, BadChange> {
        if moves.is_empty() {
            return Ok(self.clone());
        }
        self.changed(self.servers, moves, self.pairs_to_keep())
    }

    /// The same ring, which never gives out this generation and those below it: a change that was taken back may have used it.
    #[must_use]
    pub fn with_spent(self, generation: u64) -> Ring {
        let generation = self.generation.max(generation);
        Ring { generation, ..self }
    }

    /// Past [`JOIN_ABOVE`] slices, the ring in which the two shortest neighbours of one owner are one, by a move within
    /// the server; `None` while it is shorter, or where no owner has two side by side. O(s).
    pub fn joined(&self) -> Option<Ring> {
        if self.slices.len() <= JOIN_ABOVE {
            return None;
        }
        let mut first = self.begin();
        let mut shortest: Option<Part> = None;
        for (slice, of) in self.slices.iter().enumerate() {
            let next = (slice + 1) % self.slices.len();
            let both = self.width(slice) + self.width(next);
            let is_shorter = shortest.is_none_or(|part| both < part.width());
            if self.slices[next].owner == of.owner && is_shorter {
                shortest = Some(Part::of(first, both));
            }
            first = first.wrapping_add(self.width(slice) as u32);
        }
        let part = shortest?;
        let to = self.owner(part.first);
        self.moved(&[Move { part, to }]).ok()
    }

    /// The pairs that a change has to keep.
    pub(super) fn pairs_to_keep(&self) -> Vec<Pair> {
        match self.servers() {
            0..=ADJACENT_SERVERS_MAX => adjacency::pairs(&self.stretches()),
            _ => Vec::new(),
        }
    }

    /// The ring of this many servers after these moves, in which these pairs are adjacent.
    pub(super) fn changed(
        &self,
        servers: u16,
        moves: &[Move],
        pairs: Vec<Pair>,
    ) -> Result<Ring, BadChange> {
        if let Some(of) = moves.iter().find(|of| of.to >= servers) {
            return Err(BadChange::UnknownServer {
                server: usize::from(of.to),
                servers: usize::from(servers),
            });
        }
        let stints = self.stints(moves)?;
        let generation = self.generation + 1;
        let mut stretches = apply(&self.stretches(), &stints, generation);
        let first = self
            .begin()
            .wrapping_sub(build::merge(&mut stretches) as u32);
        adjacency::restore(&mut stretches, &pairs);
        match stretches.len() {
            0..=SLICES_MAX => Ok(Ring::build(servers, generation, first, stretches)),
            slices => Err(BadChange::TooManySlices { slices }),
        }
    }

    /// The moves in the order of the ring; one that goes over the end of the last slice is cut there.
    fn stints(&self, moves: &[Move]) -> Result<Vec<Stint>, BadChange> {
        let begin = self.begin();
        let mut stints = Vec::with_capacity(moves.len() + 1);
        for &Move { part, to: owner } in moves {
            let from = u64::from(part.first.wrapping_sub(begin));
            let to = from + part.width();
            stints.push(Stint {
                from,
                to: to.min(HASHES),
                owner,
            });
            if to > HASHES {
                let to = to - HASHES;
                stints.push(Stint { from: 0, to, owner });
            }
        }
        stints.sort_by_key(|stint| stint.from);
        for pair in stints.windows(2) {
            if pair[1].from < pair[0].to {
                let first = begin.wrapping_add(pair[1].from as u32);
                let width = pair[0].to.min(pair[1].to) - pair[1].from;
                return Err(BadChange::Overlap(Part::of(first, width)));
            }
        }
        Ok(stints)
    }
}

/// Cuts the stretches where the stints begin and end, and gives what lies in one to its owner. Those of no width inside of
/// a stint are left out. O(s + m).
fn apply(stretches: &[Stretch], stints: &[Stint], generation: u64) -> Vec<Stretch> {
    let mut changed = Vec::with_capacity(stretches.len() + 2 * stints.len());
    let mut stints = stints.iter().peekable();
    let mut at = 0;
    for stretch in stretches {
        let end = at + stretch.width;
        if stretch.width == 0 {
            let is_inside = stints.peek().is_some_and(|stint| stint.from < at);
            if !is_inside {
                changed.push(*stretch);
            }
        }
        while at < end {
            // Invariant: the next stint ends behind `at`.
            let piece = match stints.peek() {
                Some(stint) if stint.from <= at => Stretch {
                    width: end.min(stint.to) - at,
                    owner: stint.owner,
                    generation,
                },
                stint => Stretch {
                    width: stint.map_or(end, |stint| end.min(stint.from)) - at,
                    ..*stretch
                },
            };
            at += piece.width;
            changed.push(piece);
            stints.next_if(|stint| stint.to == at);
        }
    }
    changed
}
