//! A queue of bytes that is appended to at one end and consumed at the other, contiguous.

use crate::limits::{SPARE_BUFFER_KEEP_MAX, SPARE_BUFFERS_MAX};
use evenkeel_types::rooms::{ROOM_BYTES_MAX, Rooms};

/// Above this many spare bytes an emptied queue is given back to the allocator.
const KEEP_MAX: usize = 64 * 1024;

/// Bytes in the order they were put in.
#[derive(Debug, Default)]
pub(crate) struct ByteQueue {
    bytes: Vec<u8>,
    /// Invariant: `start <= bytes.len()`; everything before it is consumed.
    start: usize,
}

impl ByteQueue {
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Bytes of memory that hold them. What an empty queue keeps is not counted.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        match self.is_empty() {
            true => 0,
            false => self.bytes.capacity(),
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where to append. The caller only appends: what stands in the vector already is not its own.
    ///
    /// Moves what is left to the front once the consumed part is the larger one, so that each byte
    /// is moved at most once on average.
    #[inline]
    pub fn tail(&mut self) -> &mut Vec<u8> {
        if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        &mut self.bytes
    }

    /// Drops `count` bytes from the front. Memory of a large value stays until [`ByteQueue::give_back`].
    ///
    /// # Panics
    /// When there are fewer.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.len(), "consumed more bytes than there are");
        self.start += count;
        if self.is_empty() {
            self.start = 0;
            self.bytes.clear();
            if self.bytes.capacity() > ROOM_BYTES_MAX {
                self.bytes = Vec::new();
            }
        }
    }

    /// Gives memory away that an empty queue does not keep.
    #[inline]
    pub fn give_back(&mut self, rooms: &mut Rooms) {
        if self.bytes.is_empty() && self.bytes.capacity() > KEEP_MAX {
            rooms.keep(std::mem::take(&mut self.bytes));
        }
    }

    /// Drops what is behind the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(self.start + len);
    }

    pub fn clear(&mut self) {
        self.start = 0;
        self.bytes.clear();
        if self.bytes.capacity() > KEEP_MAX {
            self.bytes = Vec::new();
        }
    }
}

/// Buffers for composed answers that wait for their turn, to be used again.
#[derive(Debug, Default)]
pub(crate) struct Spare(Vec<Vec<u8>>);

impl Spare {
    /// An empty buffer.
    #[inline]
    pub fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps a buffer for another use, within limits. What is in it is dropped.
    #[inline]
    pub fn keep(&mut self, mut buffer: Vec<u8>) {
        if self.0.len() < SPARE_BUFFERS_MAX && buffer.capacity() <= SPARE_BUFFER_KEEP_MAX {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_the_order_they_came_and_a_large_queue_is_given_back() {
        let mut queue = ByteQueue::default();
        let mut expected = Vec::new();
        for round in 0..300u32 {
            let chunk: Vec<u8> = (0..round % 91).map(|i| (i ^ round) as u8).collect();
            queue.tail().extend_from_slice(&chunk);
            expected.extend_from_slice(&chunk);
            assert_eq!(queue.as_slice(), expected);
            let taken = (round as usize * 31) % (queue.len() + 1);
            queue.consume(taken);
            expected.drain(..taken);
        }
        queue.tail().resize(1 << 20, 0);
        let mut rooms = Rooms::default();
        queue.give_back(&mut rooms);
        assert!(!queue.is_empty(), "what is in use stays");
        queue.consume(queue.len());
        queue.give_back(&mut rooms);
        assert!(queue.bytes.capacity() <= KEEP_MAX);
        assert!(rooms.take(1 << 20).is_some());
        queue.tail().resize(2 << 20, 0);
        queue.consume(queue.len());
        assert_eq!(queue.bytes.capacity(), 0);
    }
}
