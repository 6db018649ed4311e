//! Bytes that a connection has sent and nobody has consumed yet.
//!
//! A worker reads into one scratch area that all its connections share, and hands the bytes to the
//! core at once. Only what the core leaves over (half a command) is kept per connection, so that an
//! idle connection holds no buffer at all.

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

    /// Keeps bytes for later.
    pub fn push(&mut self, bytes: &[u8]) {
        self.compact();
        self.bytes.extend_from_slice(bytes);
    }

    /// Drops `count` bytes from the front.
    ///
    /// # Panics
    /// When `count` exceeds what is there: a core consumed bytes that it was never shown.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.len(), "consumed more than was there");
        self.start += count;
        if self.is_empty() {
            self.start = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEEP_MAX {
                self.bytes = Vec::new();
            }
        }
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
        buffer.consume(1 << 20);
        assert!(buffer.is_empty());
        assert!(buffer.bytes.capacity() <= KEEP_MAX);
    }
}
