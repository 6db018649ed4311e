//! A comparison of keys.

/// Whether two slices of the same length are equal, compared sixteen bytes at a time: keys are short, and
/// a call of the library's comparison costs more than most of them.
#[inline(always)]
pub(crate) fn same_bytes(left: &[u8], right: &[u8]) -> bool {
    debug_assert_eq!(left.len(), right.len());
    let (Some(left_end), Some(right_end)) = (left.last_chunk(), right.last_chunk()) else {
        return same_short_bytes(left, right);
    };
    // The ends first, because that is where most keys differ.
    if u128::from_ne_bytes(*left_end) != u128::from_ne_bytes(*right_end) {
        return false;
    }
    // What is before the last byte: the end would be compared again where it makes up a whole chunk.
    let (left_chunks, _) = left[..left.len() - 1].as_chunks();
    let (right_chunks, _) = right[..right.len() - 1].as_chunks();
    for (left, right) in left_chunks.iter().zip(right_chunks) {
        if u128::from_ne_bytes(*left) != u128::from_ne_bytes(*right) {
            return false;
        }
    }
    true
}

/// As [`same_bytes`], for fewer than sixteen bytes.
#[inline]
fn same_short_bytes(left: &[u8], right: &[u8]) -> bool {
    // Two words that overlap where there is room for one; otherwise byte by byte.
    match (left.last_chunk(), right.last_chunk()) {
        (Some(left_end), Some(right_end)) => {
            let starts = left.first_chunk().zip(right.first_chunk());
            u64::from_ne_bytes(*left_end) == u64::from_ne_bytes(*right_end)
                && starts.is_some_and(|(left, right)| {
                    u64::from_ne_bytes(*left) == u64::from_ne_bytes(*right)
                })
        }
        _ => left.iter().zip(right).all(|(a, b)| a == b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_compared_as_slices_are() {
        for len in 0..40 {
            let key: Vec<u8> = (0..len).collect();
            assert!(same_bytes(&key, &key.clone()));
            for at in 0..key.len() {
                let mut other = key.clone();
                other[at] ^= 0x40;
                assert!(!same_bytes(&key, &other), "{len} {at}");
            }
        }
    }
}
