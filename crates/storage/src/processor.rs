//! Two instructions of the processor that have no safe name: the crate's only `unsafe`.
//!
//! Both are part of every x86-64; elsewhere, and under Miri, there are words instead. Comparing the
//! tags of a bucket in one vector takes half the instructions of comparing them in words.
//!
//! Prefetching asks for a cache line ahead of its use. A lookup in a table larger than the processor's
//! caches waits for memory twice, for the index line and for the item; a batch of keys can wait for
//! all of them at once. The benchmark `get/batch` against `get/one_by_one` (`benches/paths.rs`) shows
//! what it is worth: with two million items, 145 instead of 240 ns a get. Reading a byte of the line
//! instead would need no `unsafe`, but a load must arrive before later instructions can retire, so
//! only as many lines are in flight as the reorder window has room for.

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

/// Which of the sixteen bytes in four words equal `byte`: bit i for byte i, counted from the lowest byte
/// of the first word.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
pub(crate) fn equal_bytes(words: &[u32; 4], byte: u8) -> u32 {
    use core::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    // SAFETY: the load reads the sixteen bytes that the reference lends, whatever their alignment; the
    // rest computes on values alone. SSE2, which all belong to, is part of every x86-64.
    let equal = unsafe {
        let bytes = _mm_loadu_si128(core::ptr::from_ref(words).cast());
        _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8)))
    };
    equal as u32
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) use equal_bytes_in_words as equal_bytes;

/// As [`equal_bytes`], in the arithmetic that every machine has: eight bytes at a time in one word.
#[cfg(any(test, not(all(target_arch = "x86_64", not(miri)))))]
#[inline]
pub(crate) fn equal_bytes_in_words(words: &[u32; 4], byte: u8) -> u32 {
    /// The lowest bit of each byte of a word.
    const LOW_BITS: u64 = 0x0101_0101_0101_0101;
    /// Moves bit 8i of a word to bit 56 + i of the product, for each i.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let zero_bytes = |word: u64| {
        // The highest bit of each byte that is zero. Exact: no carry passes from byte to byte.
        let low_seven = 0x7f * LOW_BITS;
        let highest = !(((word & low_seven) + low_seven) | word | low_seven);
        ((highest >> 7).wrapping_mul(GATHER) >> 56) as u32
    };
    let wanted = u64::from(byte) * LOW_BITS;
    let [a, b, c, d] = words.map(u64::from);
    zero_bytes((a | b << 32) ^ wanted) | zero_bytes((c | d << 32) ^ wanted) << 8
}
