//! Values that tell whether they are right.
//!
//! A value is made of its key and a version alone: eight bytes of version, then a checksum of key,
//! version and length, repeated to the end. Anyone who reads it can tell that it belongs to the key, is
//! whole, and is one write's and not a mixture, without knowing what was last written. Values too
//! short for both are the checksum of version 0, cut.

use evenkeel_types::KeyHash;
use evenkeel_workload::rng::mix64;

/// Values of at least this many bytes carry a version.
pub(crate) const VERSIONED_LEN_MIN: usize = 16;

/// Appends the value of `len` bytes for the key with this hash.
#[inline]
pub(crate) fn write(key: KeyHash, version: u64, len: usize, out: &mut Vec<u8>) {
    let end = out.len() + len;
    let version = if len < VERSIONED_LEN_MIN { 0 } else { version };
    let word = checksum(key, version, len).to_le_bytes();
    if len >= VERSIONED_LEN_MIN {
        out.extend_from_slice(&version.to_le_bytes());
    }
    while out.len() + word.len() <= end {
        out.extend_from_slice(&word);
    }
    out.extend_from_slice(&word[..end - out.len()]);
}

/// Whether this is a value that [`write`] makes for the key.
#[inline]
pub(crate) fn is_right(key: KeyHash, value: &[u8]) -> bool {
    let (version, body) = match value.first_chunk::<8>() {
        Some(version) if value.len() >= VERSIONED_LEN_MIN => {
            (u64::from_le_bytes(*version), &value[8..])
        }
        _ => (0, value),
    };
    let word = checksum(key, version, value.len()).to_le_bytes();
    let (whole, rest) = body.as_chunks::<8>();
    whole.iter().all(|chunk| *chunk == word) && *rest == word[..rest.len()]
}

fn checksum(key: KeyHash, version: u64, len: usize) -> u64 {
    mix64(key.0 ^ mix64(version ^ mix64(len as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(key: &[u8], version: u64, len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        write(KeyHash::of(key), version, len, &mut out);
        out
    }

    #[test]
    fn a_value_has_its_length_and_is_right_for_its_key_alone() {
        let key = KeyHash::of(b"key");
        for len in 0..200 {
            let right = value(b"key", 7, len);
            assert_eq!(right.len(), len);
            assert!(is_right(key, &right));
            // Three bytes of checksum can agree by chance; from four on these keys do not.
            if len >= 4 {
                assert!(!is_right(key, &value(b"kez", 7, len)), "{len}");
            }
        }
    }

    #[test]
    fn every_flipped_bit_cut_and_mixture_is_seen() {
        let key = KeyHash::of(b"key");
        for len in [4usize, 8, 15, 16, 17, 24, 100] {
            let right = value(b"key", 7, len);
            for bit in 0..len * 8 {
                let mut wrong = right.clone();
                wrong[bit / 8] ^= 1 << (bit % 8);
                assert!(!is_right(key, &wrong), "bit {bit} of {len} bytes");
            }
            assert!(!is_right(key, &right[..len - 1]), "cut at {len}");
            assert!(
                !is_right(key, &[&right[..], b"x"].concat()),
                "longer than {len}"
            );
        }
        let mut torn = value(b"key", 7, 100);
        torn[50..].copy_from_slice(&value(b"key", 8, 100)[50..]);
        assert!(!is_right(key, &torn));
    }
}
