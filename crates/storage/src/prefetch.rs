//! Asks the processor for a cache line ahead of its use: the crate's only `unsafe`.
//!
//! Why: a lookup in a table larger than the processor's caches waits for memory twice, for the
//! index line and for the item. A batch of keys can wait for all of them at once. The benchmark
//! `get/batch` against `get/one_by_one` (`benches/paths.rs`) shows what it is worth: with two million
//! items, 145 instead of 240 ns a get. Reading a byte
//! of the line instead would need no `unsafe`, but a load must arrive before later instructions
//! can retire, so only as many lines are in flight as the reorder window has room for.

/// Starts loading the line at `target`, if the processor knows how.
#[inline]
pub(crate) fn prefetch<T>(target: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: prefetching changes no state that a program can see and faults on no address; SSE,
    // which the instruction belongs to, is part of every x86-64.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(target).cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = target;
}
