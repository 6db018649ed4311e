//! Bytes that a connection has sent and nobody has consumed yet.
//!
//! A worker reads into one scratch area that all its connections share, and hands the bytes to the
//! core at once. Only what the core leaves over (half a command) is kept per connection, so that an
//! idle connection holds no buffer at all.

use evenkeel_types::copy;
use evenkeel_types::rooms::Rooms;
use std::io::{self, Read};

/// What a connection has left over: the beginning of a command whose end has not arrived.
#[derive(Debug, Default)]
pub struct InputBuffer {
    bytes: Vec<u8>,
    /// Invariant: `start <= bytes.len()`; everything before it is consumed.
    start: usize,
}

/// Above this many spare bytes an emptied buffer is given back to the allocator: an idle connection
/// shall cost less than 4 KiB in all.
const KEEP_MAX: usize = 1024;

/// A command of which this many bytes have come and that goes on is taken for a large one.
const LARGE_MIN: usize = 48 << 10;

/// A buffer of which less than one part in this many is in use gives the rest back.
const SPARSE: usize = 4;

impl InputBuffer {
    /// Bytes waiting.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// True when nothing is left over.
    pub fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Number of bytes waiting.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Bytes of memory held.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Keeps bytes for later.
    pub fn push(&mut self, bytes: &[u8]) {
        self.compact();
        copy::append(&mut self.bytes, bytes);
    }

    /// Makes room for `total` waiting bytes, those that are there included, so that a command whose
    /// length is known takes its size once and is not moved while it grows.
    pub fn reserve(&mut self, total: usize) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes
            .reserve_exact(total.saturating_sub(self.bytes.len()));
    }

    /// As [`InputBuffer::reserve`], in memory that is there already: empty, and with room for more than waits.
    pub fn reserve_in(&mut self, mut room: Vec<u8>) {
        copy::append(&mut room, self.as_slice());
        self.bytes = room;
        self.start = 0;
    }

    /// Keeps the beginning of a command. One that filled most of a read is taken for a large one, and begins in emptied memory if
    /// there is some.
    pub fn begin(&mut self, bytes: &[u8], rooms: &mut Rooms) {
        if bytes.len() >= LARGE_MIN
            && let Some(room) = rooms.take(2 * bytes.len())
        {
            self.reserve_in(room);
        }
        self.push(bytes);
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        *self = InputBuffer::default();
    }

    /// Drops `count` bytes from the front. Gives the memory that is not needed any more, empty, to be used again or dropped: none
    /// unless it is large for what is left.
    ///
    /// # Panics
    /// When `count` exceeds what is there: a core consumed bytes that it was never shown.
    pub fn consume(&mut self, count: usize) -> Vec<u8> {
        assert!(count <= self.len(), "consumed more than was there");
        if count == 0 {
            // What was reserved for the rest of a command stays.
            return Vec::new();
        }
        self.start += count;
        let capacity = self.bytes.capacity();
        if capacity > KEEP_MAX && self.len() < capacity / SPARSE {
            // A quarter at most is moved, and three quarters were filled and consumed before.
            let left = self.as_slice().to_vec();
            self.start = 0;
            let mut emptied = std::mem::replace(&mut self.bytes, left);
            emptied.clear();
            return emptied;
        }
        if self.is_empty() {
            self.start = 0;
            self.bytes.clear();
        }
        Vec::new()
    }

    /// Reads once, through the worker's `scratch`, and keeps what came. Zero means end of stream.
    pub fn fill(&mut self, source: &mut impl Read, scratch: &mut [u8]) -> io::Result<usize> {
        let count = source.read(scratch)?;
        self.push(&scratch[..count]);
        Ok(count)
    }

    /// Moves what is left to the front once the consumed part is the larger one, so that each byte
    /// is moved at most once on average.
    fn compact(&mut self) {
        if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_the_order_they_went_in() {
        let mut buffer = InputBuffer::default();
        let mut expected: Vec<u8> = Vec::new();
        let mut next = 0u8;
        for round in 0..500usize {
            let chunk: Vec<u8> = (0..round % 37)
                .map(|_| {
                    next = next.wrapping_add(1);
                    next
                })
                .collect();
            buffer.push(&chunk);
            expected.extend_from_slice(&chunk);
            let take = (round * 7) % (buffer.len() + 1);
            assert_eq!(&buffer.as_slice()[..take], &expected[..take]);
            buffer.consume(take);
            expected.drain(..take);
            assert_eq!(buffer.len(), expected.len());
        }
    }

    #[test]
    fn a_large_buffer_is_given_back_once_empty() {
        let mut buffer = InputBuffer::default();
        buffer.push(&vec![1; 1 << 20]);
        let emptied = buffer.consume(1 << 20);
        assert!(emptied.is_empty() && emptied.capacity() >= 1 << 20);
        assert!(buffer.is_empty());
        assert!(buffer.capacity() <= KEEP_MAX);
        // It serves the next command.
        buffer.push(b"beginning");
        buffer.consume(3);
        let at = emptied.as_ptr();
        buffer.reserve_in(emptied);
        assert_eq!(buffer.as_slice(), b"inning");
        assert_eq!((buffer.as_slice().as_ptr(), buffer.start), (at, 0));
    }

    #[test]
    fn a_buffer_with_a_little_left_in_it_gives_the_rest_back() {
        let mut buffer = InputBuffer::default();
        buffer.push(&vec![1; 1 << 20]);
        buffer.push(b"tail");
        buffer.consume(1 << 20);
        assert_eq!(buffer.as_slice(), b"tail");
        assert!(buffer.capacity() <= KEEP_MAX);
    }

    #[test]
    fn what_was_reserved_is_enough_and_no_more() {
        let mut buffer = InputBuffer::default();
        buffer.push(b"set k 0 0 100000\r\n");
        buffer.consume(4);
        buffer.reserve(100_000);
        assert!(buffer.as_slice().starts_with(b"k 0"));
        let reserved = buffer.capacity();
        assert!((100_000..101_000).contains(&reserved));
        buffer.consume(0);
        while buffer.len() < 100_000 {
            buffer.push(&[0; 500][..500.min(100_000 - buffer.len())]);
        }
        assert_eq!(buffer.capacity(), reserved);
    }
}
