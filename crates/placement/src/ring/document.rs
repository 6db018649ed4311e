//! A ring as it is written down and sent, and what a reader must not believe.
//!
//! Each slice says where it begins as well as where it ends. That is once more than is needed: two that overlap, or leave
//! hashes out, are seen, and not served by anyone who happens to be found first.

use serde::{Deserialize, Serialize};

use super::{Ring, SERVERS_MAX, SLICES_MAX, Slice};

/// A ring as others are told it. Nothing in it is checked; [`Ring::try_from`] does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RingDocument {
    /// How many servers its list has.
    pub servers: usize,
    /// The highest generation that was ever given out.
    pub generation: u64,
    /// In ascending order of their ends.
    pub slices: Vec<SliceDocument>,
}

/// A slice as others are told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceDocument {
    /// The hash before its first: the end of the slice before, of the first the end of the last.
    pub after: u32,
    /// Its last hash.
    pub end: u32,
    /// Whose it is: a position in the list of servers.
    pub owner: u16,
    /// Under which names its items are stored.
    pub generation: u64,
}

/// Why a document is no ring. Slices are counted from 0. Anyone who wrote it is at fault; trying again does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRing {
    /// Nobody to own it, or too many.
    #[error("a ring has 1 to {SERVERS_MAX} servers, not {servers}")]
    Servers {
        /// How many.
        servers: usize,
    },
    /// None, or too many.
    #[error("a ring has 1 to {SLICES_MAX} slices, not {slices}")]
    Slices {
        /// How many.
        slices: usize,
    },
    /// A server that is not in the list.
    #[error("slice {slice} belongs to server {owner}, and there are {servers}")]
    UnknownServer {
        /// Which slice.
        slice: usize,
        /// What it says.
        owner: u16,
        /// How many there are.
        servers: usize,
    },
    /// A generation that was never given out.
    #[error("slice {slice} has generation {given}, and the highest is {highest}")]
    Generation {
        /// Which slice.
        slice: usize,
        /// What it says.
        given: u64,
        /// What the ring says.
        highest: u64,
    },
    /// Hashes of two slices.
    #[error(
        "slice {slice} begins behind {after:#010x}, before the one before it ends at {end:#010x}: they overlap"
    )]
    Overlap {
        /// Which slice.
        slice: usize,
        /// Where it begins.
        after: u32,
        /// Where the one before it ends.
        end: u32,
    },
    /// Hashes of no slice.
    #[error(
        "slice {slice} begins behind {after:#010x}, and the one before it ends at {end:#010x}: a gap"
    )]
    Gap {
        /// Which slice.
        slice: usize,
        /// Where it begins.
        after: u32,
        /// Where the one before it ends.
        end: u32,
    },
    /// A slice that ends before it begins.
    #[error("slice {slice} ends at {end:#010x}, before it begins behind {after:#010x}")]
    Backwards {
        /// Which slice.
        slice: usize,
        /// Where it begins.
        after: u32,
        /// Where it ends.
        end: u32,
    },
    /// Two slices that should be one.
    #[error("slice {slice} is one with the slice before it")]
    Unjoined {
        /// Which slice.
        slice: usize,
    },
}

impl TryFrom<RingDocument> for Ring {
    type Error = BadRing;

    /// Checks a document. O(s).
    fn try_from(document: RingDocument) -> Result<Ring, BadRing> {
        let RingDocument {
            servers,
            generation,
            slices,
        } = document;
        if !(1..=SERVERS_MAX).contains(&servers) {
            return Err(BadRing::Servers { servers });
        }
        let count = slices.len();
        if !(1..=SLICES_MAX).contains(&count) {
            return Err(BadRing::Slices { slices: count });
        }
        let mut before = slices[count - 1];
        for (slice, of) in slices.iter().enumerate() {
            let SliceDocument {
                after,
                end,
                owner,
                generation: given,
            } = *of;
            if usize::from(owner) >= servers {
                return Err(BadRing::UnknownServer {
                    slice,
                    owner,
                    servers,
                });
            }
            if given > generation {
                let highest = generation;
                return Err(BadRing::Generation {
                    slice,
                    given,
                    highest,
                });
            }
            if after != before.end {
                let end = before.end;
                return Err(match after < end {
                    true => BadRing::Overlap { slice, after, end },
                    false => BadRing::Gap { slice, after, end },
                });
            }
            // The first is the one that may reach around.
            if slice > 0 && end < after {
                return Err(BadRing::Backwards { slice, after, end });
            }
            let empty = |slice: usize, of: &SliceDocument| slice > 0 && of.after == of.end;
            let previous = (slice + count - 1) % count;
            let agree = given == before.generation || empty(slice, of) || empty(previous, &before);
            if count > 1 && owner == before.owner && agree {
                return Err(BadRing::Unjoined { slice });
            }
            before = *of;
        }
        let slices = slices.iter().map(|of| Slice {
            end: of.end,
            owner: of.owner,
            generation: of.generation,
        });
        Ok(Ring::of_slices(
            servers as u16,
            generation,
            slices.collect(),
        ))
    }
}

impl From<Ring> for RingDocument {
    fn from(ring: Ring) -> RingDocument {
        let mut after = ring.begin().wrapping_sub(1);
        let slices = ring.slices.iter().map(|slice| SliceDocument {
            after: core::mem::replace(&mut after, slice.end),
            end: slice.end,
            owner: slice.owner,
            generation: slice.generation,
        });
        RingDocument {
            servers: ring.servers(),
            generation: ring.generation,
            slices: slices.collect(),
        }
    }
}
