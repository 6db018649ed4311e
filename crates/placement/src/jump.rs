//! Jump consistent hash (Lamping and Veach, "A fast, minimal memory, consistent hash algorithm",
//! 2014).
//!
//! Needs no table, and deals more evenly than any ring. A server added at the end of the list takes
//! one key in n; so does removing the last one. Removing another moves what the later ones hold, so
//! that the list may change only at its end. It knows no weights.

/// Jumps tried for each further candidate before the list is followed instead.
const TRIES_PER_CANDIDATE: u32 = 16;

/// The bucket of a key among some, at least one. O(log n).
#[inline]
pub(super) fn jump(mut key: u64, buckets: u32) -> u32 {
    let (mut bucket, mut next) = (0, 0);
    while next < u64::from(buckets) {
        bucket = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let step = (1u64 << 31) as f64 / ((key >> 33) + 1) as f64;
        // At most 2^31 times a number below 2^32, which a double holds; what is cut off is the
        // fraction, as in the paper.
        next = ((bucket + 1) as f64 * step) as u64;
    }
    bucket as u32
}

/// The bucket of a key, then those of its hash mixed again and again; may repeat itself, and may leave
/// some out.
pub(super) fn walk(key: u64, buckets: u32) -> impl Iterator<Item = usize> {
    let tries = u64::from(buckets) * u64::from(TRIES_PER_CANDIDATE);
    let further = (1..tries).map(move |n| jump(mix(key.wrapping_add(n)), buckets));
    std::iter::once(jump(key, buckets))
        .chain(further)
        .map(|bucket| bucket as usize)
}

/// Spreads a change of any bit over all of them (the finalizer of SplitMix64).
#[inline]
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_testkit::seed;
    use evenkeel_types::random::SplitMix64;

    /// Values of the paper's program, compiled as it is printed there.
    #[test]
    fn values_are_those_of_the_papers_program() {
        for (key, buckets, expected) in GOLDEN {
            assert_eq!(jump(key, buckets), expected, "{key} among {buckets}");
        }
    }

    const GOLDEN: [(u64, u32, u32); 42] = [
        (0, 1, 0),
        (0, 2, 0),
        (0, 57, 0),
        (0, 666, 0),
        (0, 1024, 0),
        (0, 65536, 0),
        (0x1, 1, 0),
        (0x1, 2, 0),
        (0x1, 57, 55),
        (0x1, 666, 549),
        (0x1, 1024, 549),
        (0x1, 65536, 21134),
        (0x2a, 2, 1),
        (0x2a, 57, 43),
        (0x2a, 666, 571),
        (0x2a, 1024, 571),
        (0x2a, 65536, 5747),
        (0xdead10cc, 2, 1),
        (0xdead10cc, 57, 13),
        (0xdead10cc, 666, 361),
        (0xdead10cc, 1024, 361),
        (0xdead10cc, 65536, 6591),
        (0x100, 2, 1),
        (0x100, 57, 16),
        (0x100, 666, 520),
        (0x100, 1024, 520),
        (0x100, 65536, 8799),
        (0xffffffffffffffff, 2, 1),
        (0xffffffffffffffff, 57, 10),
        (0xffffffffffffffff, 666, 313),
        (0xffffffffffffffff, 1024, 313),
        (0xffffffffffffffff, 65536, 18311),
        (0x123456789abcdef, 2, 0),
        (0x123456789abcdef, 57, 35),
        (0x123456789abcdef, 666, 194),
        (0x123456789abcdef, 1024, 194),
        (0x123456789abcdef, 65536, 33301),
        (0x2698ad4b48eacf, 2, 1),
        (0x2698ad4b48eacf, 57, 21),
        (0x2698ad4b48eacf, 666, 117),
        (0x2698ad4b48eacf, 1024, 830),
        (0x2698ad4b48eacf, 65536, 4855),
    ];

    #[test]
    fn one_more_bucket_takes_its_share_and_moves_nothing_else() {
        let mut random = SplitMix64::new(seed(0x5eed));
        for buckets in [1, 2, 7, 100, 65_536] {
            let mut moved = 0;
            for _ in 0..20_000 {
                let key = random.next_u64();
                let (before, after) = (jump(key, buckets), jump(key, buckets + 1));
                assert!(before < buckets);
                assert!(after == before || after == buckets);
                moved += u32::from(after != before);
            }
            let expected = 20_000 / (buckets + 1);
            // Five standard deviations of a binomial count.
            let slack = 5 * (expected.isqrt() + 1);
            assert!(moved.abs_diff(expected) <= slack, "{moved} of {expected}");
        }
    }
}
