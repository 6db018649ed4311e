//! How a ring is put together: from stretches that follow each other, wherever they begin.

use super::super::points::Points;
use super::{HASHES, Ring, Slice};

/// A slice by its width, so that a border moves by changing two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// How many hashes.
    pub width: u64,
    pub owner: u16,
    pub generation: u64,
}

impl Stretch {
    /// One of no width, which has no item and so no generation.
    pub fn place(owner: u16) -> Stretch {
        Stretch {
            width: 0,
            owner,
            generation: 0,
        }
    }

    /// Whether this one and one beside it are one slice.
    fn agrees(&self, other: &Stretch) -> bool {
        let empty = self.width == 0 || other.width == 0;
        self.owner == other.owner && (empty || self.generation == other.generation)
    }

    fn take(&mut self, other: Stretch) {
        if self.width == 0 {
            self.generation = other.generation;
        }
        self.width += other.width;
    }
}

/// Makes one of neighbours that agree, around the circle. Returns how many hashes the beginning moves back. O(s).
pub(super) fn merge(stretches: &mut Vec<Stretch>) -> u64 {
    let mut merged: Vec<Stretch> = Vec::with_capacity(stretches.len());
    for &stretch in &*stretches {
        match merged.last_mut() {
            Some(last) if last.agrees(&stretch) => last.take(stretch),
            _ => merged.push(stretch),
        }
    }
    let mut back = 0;
    while let [front, .., last] = &mut merged[..]
        && front.agrees(last)
    {
        back += last.width;
        front.take(*last);
        merged.pop();
    }
    *stretches = merged;
    back
}

impl Ring {
    /// A ring of stretches that begin at this hash. Their widths add up to [`HASHES`], and there is one. O(s).
    pub(super) fn build(
        servers: u16,
        generation: u64,
        first: u32,
        mut stretches: Vec<Stretch>,
    ) -> Ring {
        let sum: u64 = stretches.iter().map(|stretch| stretch.width).sum();
        assert_eq!(sum, HASHES, "the slices of a ring are the whole of it");
        let mut first = first.wrapping_sub(merge(&mut stretches) as u32);
        // The one with hash 0 comes first; those of no width before it come last.
        let zero = u64::from(0u32.wrapping_sub(first));
        let mut ends = 0;
        let holds = stretches.iter().position(|stretch| {
            ends += stretch.width;
            ends > zero
        });
        let holds = holds.expect("the widths add up to all hashes");
        let skipped: u64 = stretches[..holds].iter().map(|s| s.width).sum();
        first = first.wrapping_add(skipped as u32);
        stretches.rotate_left(holds);
        let slices: Vec<Slice> = stretches
            .into_iter()
            .map(|stretch| {
                first = first.wrapping_add(stretch.width as u32);
                Slice {
                    end: first.wrapping_sub(1),
                    owner: stretch.owner,
                    generation: stretch.generation,
                }
            })
            .collect();
        Ring::of_slices(servers, generation, slices)
    }

    /// A ring of slices that keep the invariants.
    pub(super) fn of_slices(servers: u16, generation: u64, slices: Vec<Slice>) -> Ring {
        let points = slices.iter().map(|slice| (slice.end, slice.owner));
        let points = Points::new(points.collect());
        Ring {
            servers,
            generation,
            slices,
            points,
        }
    }

    /// Its slices as stretches that begin at [`Ring::begin`].
    pub(super) fn stretches(&self) -> Vec<Stretch> {
        let stretch = |(slice, of): (usize, &Slice)| Stretch {
            width: self.width(slice),
            owner: of.owner,
            generation: of.generation,
        };
        self.slices.iter().enumerate().map(stretch).collect()
    }
}
