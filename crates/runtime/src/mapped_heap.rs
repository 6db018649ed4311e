//! A heap of the process's allocator in memory that was mapped for it.
//!
//! mimalloc can be told to allocate in one mapping and nowhere else (an *exclusive arena*), besides what it does
//! ordinarily. What it allocates there is freed as everything else is, by whatever thread. So an owner of such memory
//! is an ordinary `Box`, and who reads it need not know where it is.
//!
//! Rejected: cutting the mapping into slots of one size, with a list of those that are free. Blocks would be of a type of
//! their own, which every look-up reads through; and what has no such size, index and large items, would be left out.

use crate::mapping::{Mapping, Pages};
use libmimalloc_sys::{
    mi_arena_min_size, mi_heap_malloc_aligned, mi_heap_new_in_arena, mi_heap_t,
    mi_is_in_heap_region, mi_manage_os_memory_ex,
};
use std::alloc::Layout;
use std::hint::black_box;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// After a refusal so many requests are refused unasked. Before it refuses, mimalloc looks through all that the thread has
/// of the heap, some ten microseconds for a gigabyte; spread over so many requests that is nothing. What is freed in
/// the meantime is found by the next that is asked.
const REFUSED_UNASKED: u32 = 255;

/// A heap in one mapping. It is there for the life of the process, as nobody knows who still has a block of it.
#[derive(Debug)]
pub struct MappedHeap {
    heap: NonNull<mi_heap_t>,
    /// Requests that are refused unasked before the next is asked.
    unasked: AtomicU32,
    refused: AtomicU64,
}

// SAFETY: mimalloc's heaps may be used by any thread, and by several at a time (version 3, `mimalloc.h`, "Heaps").
unsafe impl Send for MappedHeap {}
// SAFETY: likewise.
unsafe impl Sync for MappedHeap {}

impl MappedHeap {
    /// Takes a mapping for good.
    ///
    /// # Errors
    /// When the program has another allocator than mimalloc, which would not know the blocks when they are freed, or when
    /// mimalloc cannot use the mapping. Then it is unmapped.
    pub fn new(mapping: Mapping) -> Result<MappedHeap, String> {
        if !mimalloc_frees_boxes() {
            return Err("this program's allocator is not mimalloc".to_owned());
        }
        let mut arena = ptr::null_mut();
        // Purging would take huge pages apart, and give back what cannot be had again.
        let stays = mapping.pages() != Pages::Ordinary;
        // SAFETY: the addresses can be used, are zero and nobody else's, and stay mapped: the mapping is forgotten
        // unless mimalloc has refused it.
        let heap = unsafe {
            let (start, bytes) = (mapping.start(), mapping.bytes());
            // No memory node is named, for whoever asks this heap has chosen already.
            mi_manage_os_memory_ex(start, bytes, true, stays, true, -1, true, &mut arena)
                .then(|| mi_heap_new_in_arena(arena))
        };
        let Some(heap) = heap else {
            return Err("mimalloc cannot use the memory".to_owned());
        };
        // It is mimalloc's from now on, even if there is no heap for it.
        std::mem::forget(mapping);
        let heap = NonNull::new(heap).ok_or("mimalloc can make no more heaps")?;
        Ok(MappedHeap {
            heap,
            unasked: AtomicU32::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// Mappings for heaps are multiples of this many bytes: what goes beyond the last is not used. 32 MiB.
    pub fn granule_bytes() -> usize {
        // SAFETY: reads a constant.
        unsafe { mi_arena_min_size() }
    }

    /// So many copies of a value, if there is room for them.
    pub fn filled<T: Copy>(&self, value: T, count: usize) -> Option<Box<[T]>> {
        const { assert!(size_of::<T>() > 0, "what has no size needs no memory") };
        if count == 0 {
            return Some(Box::default());
        }
        let layout = Layout::array::<T>(count).ok()?;
        let Some(start) = self.allocate(layout) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let start = start.cast::<T>().as_ptr();
        // SAFETY: there is room for `count` values, which nobody else uses. The first is written, and then what has been
        // written is copied behind itself, until all are. The box frees its memory by the global allocator,
        // which is mimalloc, and which it comes from.
        unsafe {
            start.write(value);
            let mut written = 1;
            while written < count {
                let more = written.min(count - written);
                ptr::copy_nonoverlapping(start, start.add(written), more);
                written += more;
            }
            Some(Box::from_raw(ptr::slice_from_raw_parts_mut(start, count)))
        }
    }

    fn allocate(&self, layout: Layout) -> Option<NonNull<u8>> {
        // Two at a time may pass over one more or less.
        let unasked = self.unasked.load(Ordering::Relaxed);
        if unasked > 0 {
            self.unasked.store(unasked - 1, Ordering::Relaxed);
            return None;
        }
        let heap = self.heap.as_ptr();
        // SAFETY: the heap is never deleted.
        let start = unsafe { mi_heap_malloc_aligned(heap, layout.size(), layout.align()) };
        if start.is_null() {
            self.unasked.store(REFUSED_UNASKED, Ordering::Relaxed);
        }
        NonNull::new(start.cast())
    }

    /// Requests that found no room.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// Whether the global allocator is mimalloc, so that a box may have memory that comes from it by another way.
fn mimalloc_frees_boxes() -> bool {
    // Not optimized away, and so from the global allocator.
    let probe = black_box(Box::new(0u64));
    // SAFETY: asks whether mimalloc knows an address, of which it reads nothing.
    unsafe { mi_is_in_heap_region(ptr::from_ref(&*probe).cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests of this crate have the system's allocator; `tests/mapped_heap.rs` has mimalloc.
    #[test]
    fn a_program_with_another_allocator_is_refused() {
        let mapping = Mapping::on_node(MappedHeap::granule_bytes(), 0).expect("addresses");
        let why = MappedHeap::new(mapping).expect_err("boxes would be freed by another");
        assert!(why.contains("mimalloc"), "{why}");
    }
}
