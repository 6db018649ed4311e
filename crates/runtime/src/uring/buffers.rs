//! The memory that receives write into, shared with the kernel.
//!
//! A *buffer ring* is a queue in shared memory: this side puts free buffers at its tail, the kernel
//! takes one from its head for each receive and tells which one in the completion. From then until the
//! buffer is put back, the kernel does not touch it.

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

/// The kernel wants the queue at the beginning of a page.
const PAGE_BYTES: usize = 4096;

/// Added to the distance between two buffers, so that their first cache lines, which is all that a
/// small request touches, do not all fall into the same sets of the processor's caches.
const STAGGER_BYTES: usize = 192;

/// The only group of buffers of a ring.
pub(super) const GROUP: u16 = 0;

/// Bytes that were received, in a buffer lent out until [`Ring::recycle`](super::Ring::recycle).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a buffer that is not recycled is lost to the ring"]
pub struct Piece {
    buffer: u16,
}

/// All receive buffers of one ring.
#[derive(Debug)]
pub(super) struct ReceiveBuffers {
    /// The queue, and behind it the buffers.
    memory: NonNull<u8>,
    layout: Layout,
    /// Where the first buffer begins.
    first: usize,
    bytes: u32,
    /// A power of two, as the kernel wants it.
    count: u16,
    /// Buffers ever put into the queue, modulo 2^16: the queue's tail.
    tail: u16,
    /// For each buffer that is lent out, how many bytes were received into it; zero while the kernel
    /// may write to it.
    lent: Box<[u32]>,
    /// See [`ReceiveBuffers::keep_for_ever`].
    kept: bool,
}

// SAFETY: the memory behind the pointer belongs to this value alone, apart from the kernel, which does
// not care about threads.
unsafe impl Send for ReceiveBuffers {}

impl ReceiveBuffers {
    /// Reserves `count` buffers of `bytes` bytes. Memory that no receive has touched is only reserved.
    ///
    /// # Panics
    /// When `count` is no power of two up to 2^15, or `bytes` is zero.
    pub(super) fn new(count: u16, bytes: u32) -> Self {
        assert!(count.is_power_of_two(), "the kernel's rule");
        assert!(bytes > 0, "a buffer has room");
        let queue = usize::from(count) * size_of::<BufRingEntry>();
        let first = queue.next_multiple_of(PAGE_BYTES);
        let size = first + usize::from(count) * (bytes as usize + STAGGER_BYTES);
        let layout = Layout::from_size_align(size, PAGE_BYTES)
            .expect("some megabytes with the alignment of a page");
        // SAFETY: the size is not zero, since `count` is not.
        let Some(memory) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            handle_alloc_error(layout)
        };
        let mut buffers = ReceiveBuffers {
            memory,
            layout,
            first,
            bytes,
            count,
            tail: 0,
            lent: vec![0; usize::from(count)].into_boxed_slice(),
            kept: false,
        };
        for buffer in 0..count {
            buffers.put(buffer);
        }
        buffers
    }

    /// Makes the buffers known to the ring.
    pub(super) fn register(&self, ring: &Submitter<'_>) -> io::Result<()> {
        // SAFETY: the queue has `count` entries, is zeroed or written by `put`, and lives until `self`
        // is dropped; `Ring` drops the kernel's side first, or leaks `self`.
        unsafe {
            ring.register_buf_ring_with_flags(self.memory.as_ptr() as u64, self.count, GROUP, 0)
        }
    }

    /// The kernel has received `len` bytes into a buffer: it is ours until it is given back.
    ///
    /// # Panics
    /// When the kernel names a buffer that it was not given, or more bytes than fit.
    pub(super) fn lend(&mut self, buffer: u16, len: u32) -> Piece {
        assert!(len > 0 && len <= self.bytes, "a receive fits its buffer");
        let lent = &mut self.lent[usize::from(buffer)];
        assert_eq!(*lent, 0, "the kernel uses only buffers that it was given");
        *lent = len;
        Piece { buffer }
    }

    /// What was received.
    ///
    /// # Panics
    /// When the piece was given back already.
    #[inline]
    pub(super) fn bytes(&self, piece: Piece) -> &[u8] {
        let len = self.lent[usize::from(piece.buffer)];
        assert!(len > 0, "a piece is read before it is recycled");
        let start = self.offset(piece.buffer);
        // SAFETY: the buffer lies in our memory, which was zeroed when it was reserved, so `len` bytes,
        // at most a buffer's size, are initialised. `lent` says that the kernel has given it up, and
        // nobody writes to it before `recycle`, which needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(start), len as usize) }
    }

    /// Gives a lent buffer back to the kernel.
    ///
    /// # Panics
    /// When it was given back already.
    pub(super) fn recycle(&mut self, piece: Piece) {
        let len = core::mem::take(&mut self.lent[usize::from(piece.buffer)]);
        assert!(len > 0, "a piece is recycled once");
        self.put(piece.buffer);
    }

    /// The kernel names a buffer in a completion that brings no bytes: it goes straight back.
    pub(super) fn put_unused(&mut self, buffer: u16) {
        assert_eq!(self.lent[usize::from(buffer)], 0, "it was the kernel's");
        self.put(buffer);
    }

    /// The kernel may write to the memory at any later time: it is never freed.
    pub(super) fn keep_for_ever(&mut self) {
        self.kept = true;
    }

    fn offset(&self, buffer: u16) -> usize {
        self.first + usize::from(buffer) * (self.bytes as usize + STAGGER_BYTES)
    }

    /// Puts a buffer at the tail of the queue.
    fn put(&mut self, buffer: u16) {
        let start = self.offset(buffer);
        let queue: *mut BufRingEntry = self.memory.as_ptr().cast();
        let place = usize::from(self.tail & (self.count - 1));
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `place` is below `count`, so the entry lies in the queue, which is aligned to a page;
        // and the buffer lies in our memory. The kernel reads an entry only once the tail has passed
        // it, which the store below says after the entry is written; it never has more than `count`
        // buffers, so it has read what was at this place before. The tail lies in the first entry, in
        // a field that none of the setters touches, and is written by this side only.
        unsafe {
            let entry = &mut *queue.add(place);
            entry.set_addr(self.memory.as_ptr().add(start) as u64);
            entry.set_len(self.bytes);
            entry.set_bid(buffer);
            AtomicU16::from_ptr(BufRingEntry::tail(queue).cast_mut())
                .store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for ReceiveBuffers {
    fn drop(&mut self) {
        if !self.kept {
            // SAFETY: allocated in `new` with this layout. `Ring::drop` has seen every receive end.
            unsafe { dealloc(self.memory.as_ptr(), self.layout) }
        }
    }
}
