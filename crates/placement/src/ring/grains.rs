//! Grains: what is counted, and the least that a planner moves.
//!
//! A slice may be a third of the ring. So that a planner knows what a part of it carries, a slice is cut at every 4,096th of the ring.

use super::{Part, Ring};

/// Parts of equal width at whose borders slices are cut into grains.
pub const GRAINS_OF_RING: u32 = 4_096;

/// Hashes between two cuts.
const CUT: u32 = (1 << 31) / (GRAINS_OF_RING / 2);

/// A slice, or what a cut leaves of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grain {
    /// Its hashes; they never go around 0.
    pub part: Part,
    /// Whose it is.
    pub owner: u16,
}

impl Ring {
    /// All grains in ascending order; together they are the whole ring. O(s + 4,096).
    pub fn grains(&self) -> Vec<Grain> {
        let mut grains = Vec::with_capacity(self.slices.len() + GRAINS_OF_RING as usize);
        let mut slices = self.slices.iter().peekable();
        let mut first = 0;
        loop {
            // Past the last end it is the first slice again.
            let slice = slices.peek().map_or(&self.slices[0], |slice| *slice);
            let cut = first | (CUT - 1);
            let last = match slices.peek() {
                Some(slice) => slice.end.min(cut),
                None => cut,
            };
            if slice.end >= first || slices.peek().is_none() {
                grains.push(Grain {
                    part: Part { first, last },
                    owner: slice.owner,
                });
                let Some(next) = last.checked_add(1) else {
                    return grains;
                };
                first = next;
            }
            while slices.next_if(|slice| slice.end < first).is_some() {}
        }
    }
}

impl Ring {
    /// Parts of a server that have about this many 4,096ths of the ring together, or all that it has: at most this many parts, the lower ones
    /// first. They are cut where grains end. O(s + 4,096).
    pub fn parts_of(&self, owner: u16, grains: u32, parts_max: usize) -> Vec<Part> {
        let wanted = u64::from(grains) * u64::from(CUT);
        let mut width = 0;
        let mut parts: Vec<Part> = Vec::new();
        let own = self.grains().into_iter().filter(|it| it.owner == owner);
        for Grain { part, .. } in own {
            if width >= wanted {
                break;
            }
            let is_full = parts.len() == parts_max;
            match parts.last_mut() {
                Some(last) if last.last.wrapping_add(1) == part.first => last.last = part.last,
                _ if is_full => break,
                _ => parts.push(part),
            }
            width += part.width();
        }
        parts
    }
}

/// Position of the grain with a hash, among all of a ring. O(log g).
pub fn grain_of(grains: &[Grain], hash: u32) -> usize {
    grains.partition_point(|grain| grain.part.last < hash)
}
