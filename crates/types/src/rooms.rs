//! Emptied memory of large values, kept for the next ones.
//!
//! Memory that is freed goes back to the system, and the kernel clears each page of it before it can be used again: for a value of 1 MB
//! that takes longer than its copies (docs/performance.md, "Large values").

/// Pieces that are kept at most.
const ROOMS_MAX: usize = 4;

/// A smaller piece is not kept, in bytes: the allocator has such a one at hand.
const ROOM_BYTES_MIN: usize = 64 << 10;

/// A larger piece is not kept, in bytes: a value of the largest usual size and its line are less.
pub const ROOM_BYTES_MAX: usize = (1 << 20) + (1 << 17);

/// At most four pieces of at most [`ROOM_BYTES_MAX`], so 4.5 MiB.
///
/// ```
/// let mut rooms = evenkeel_types::rooms::Rooms::default();
/// rooms.keep(Vec::with_capacity(1_000_000));
/// let mut value = Vec::new();
/// rooms.lend(&mut value, 900_000);
/// assert_eq!(value.capacity(), 1_000_000);
/// ```
#[derive(Debug, Default)]
pub struct Rooms(Vec<Vec<u8>>);

impl Rooms {
    /// A piece for at least this many bytes, empty, if there is one. O(pieces).
    pub fn take(&mut self, bytes: usize) -> Option<Vec<u8>> {
        // What was used last is still in the processor's cache.
        let place = (self.0.iter()).rposition(|room| room.capacity() >= bytes)?;
        Some(self.0.remove(place))
    }

    /// Has a vector without content take a piece in place of its own memory, where this many bytes do not fit into that; or new memory
    /// that will be such a piece. For more than [`ROOM_BYTES_MAX`] nothing is done: who announces that may not send it.
    #[inline]
    pub fn lend(&mut self, to: &mut Vec<u8>, bytes: usize) {
        let is_large = (ROOM_BYTES_MIN + 1..=ROOM_BYTES_MAX).contains(&bytes);
        if is_large && to.is_empty() && to.capacity() < bytes {
            self.lend_large(to, bytes);
        }
    }

    #[cold]
    fn lend_large(&mut self, to: &mut Vec<u8>, bytes: usize) {
        match self.take(bytes) {
            Some(room) => *to = room,
            None => to.reserve_exact(bytes),
        }
    }

    /// Keeps a piece, or drops it: the largest that are allowed are kept. What is in it is dropped.
    #[inline]
    pub fn keep(&mut self, emptied: Vec<u8>) {
        if emptied.capacity() > ROOM_BYTES_MIN {
            self.keep_large(emptied);
        }
    }

    #[cold]
    fn keep_large(&mut self, mut emptied: Vec<u8>) {
        let bytes = emptied.capacity();
        if bytes > ROOM_BYTES_MAX {
            return;
        }
        if self.0.len() == ROOMS_MAX {
            let smaller = (self.0.iter()).position(|room| room.capacity() < bytes);
            let Some(place) = smaller else {
                return;
            };
            self.0.remove(place);
        }
        emptied.clear();
        self.0.push(emptied);
    }

    /// Drops all pieces.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_pieces_are_kept_and_no_more_than_are_allowed() {
        let mut rooms = Rooms::default();
        for bytes in [0, ROOM_BYTES_MIN, ROOM_BYTES_MAX + 1] {
            rooms.keep(Vec::with_capacity(bytes));
            assert_eq!(rooms.take(0), None, "{bytes}");
        }
        for at in 1..=ROOMS_MAX + 2 {
            rooms.keep(Vec::with_capacity(ROOM_BYTES_MIN + at));
        }
        rooms.keep(Vec::with_capacity(ROOM_BYTES_MIN + 1));
        assert_eq!(rooms.0.len(), ROOMS_MAX);
        let largest = ROOM_BYTES_MIN + ROOMS_MAX + 2;
        assert_eq!(rooms.take(largest + 1), None);
        let room = rooms.take(largest).expect("it was kept");
        assert!(room.is_empty() && room.capacity() == largest);
        assert_eq!(rooms.0.len(), ROOMS_MAX - 1);
        rooms.clear();
        assert_eq!(rooms.take(0), None);
    }

    #[test]
    fn a_piece_is_lent_where_it_is_needed_alone() {
        let mut rooms = Rooms::default();
        rooms.keep(vec![1; 1_000_000]);
        let mut filled = vec![7];
        rooms.lend(&mut filled, 900_000);
        assert_eq!(filled, [7]);
        let mut small = Vec::new();
        rooms.lend(&mut small, ROOM_BYTES_MIN);
        assert_eq!(small.capacity(), 0);
        rooms.lend(&mut small, ROOM_BYTES_MAX + 1);
        assert_eq!(small.capacity(), 0);
        rooms.lend(&mut small, 900_000);
        assert!(small.is_empty() && small.capacity() == 1_000_000);
        rooms.lend(&mut small, 1_000_001);
        assert!(small.capacity() > 1_000_000);
    }
}
