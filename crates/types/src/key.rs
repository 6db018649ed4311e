//! What a key is, how it is written for people, and the hash that decides where it lives.

use crate::limits::KEY_LEN_MAX;
use xxhash_rust::xxh3::xxh3_64;

/// XXH3-64 (seed 0) of a key's bytes: the *placement* hash.
///
/// It must be the same in every process, version and language, because clients and servers find a
/// key's worker with it independently of each other. Hash tables use another hash with a secret
/// seed, so that nobody who knows this one can aim at a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub u64);

impl KeyHash {
    /// Hashes a key as it stands in the protocol (decoded, if it was sent in base64).
    #[inline]
    pub fn of(key: &[u8]) -> Self {
        KeyHash(xxh3_64(key))
    }
}

/// Whether the text protocol takes these bytes for a key: 1 to 250 of them, neither spaces nor control characters. Linear in their
/// number.
pub fn is_key(bytes: &[u8]) -> bool {
    let is_of_key = |byte: &u8| *byte > b' ' && *byte != 0x7f;
    (1..=KEY_LEN_MAX).contains(&bytes.len()) && bytes.iter().all(is_of_key)
}

/// A key as [`escape`] writes it.
pub fn printable(key: &[u8]) -> String {
    let mut out = Vec::with_capacity(key.len());
    escape(key, &mut out);
    // What escape writes is ASCII.
    String::from_utf8_lossy(&out).into_owned()
}

/// Writes a key so that it is one word of printable characters, still easy to read: only what is not
/// printable, and the sign itself, becomes `%XX`.
pub fn escape(key: &[u8], out: &mut Vec<u8>) {
    percent_encode(key, out, |byte| byte.is_ascii_graphic() && byte != b'%');
}

/// Writes a key as memcached does in dumps and logs: what may not stand in a URI becomes `%XX`.
pub fn uri_encode(key: &[u8], out: &mut Vec<u8>) {
    percent_encode(key, out, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
    });
}

fn percent_encode(key: &[u8], out: &mut Vec<u8>, stays: impl Fn(u8) -> bool) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in key {
        if stays(byte) {
            out.push(byte);
        } else {
            let digit = |half: u8| DIGITS[usize::from(half)];
            out.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_neither_spaces_nor_control_characters_and_at_most_250_bytes() {
        let longest = [b'k'; KEY_LEN_MAX];
        for key in [&b"k"[..], &longest, "grün".as_bytes()] {
            assert!(is_key(key), "{key:?}");
        }
        let too_long = [b'k'; KEY_LEN_MAX + 1];
        for not in [&b""[..], b"a b", b"a\n", b"a\x7f", &too_long] {
            assert!(!is_key(not), "{not:?}");
        }
    }

    /// Golden values: placement must never change between versions.
    #[test]
    fn the_placement_hash_is_xxh3_with_seed_0() {
        assert_eq!(KeyHash::of(b""), KeyHash(0x2d06_8005_38d3_94c2));
        assert_eq!(KeyHash::of(b"foo"), KeyHash(0xab6e_5f64_077e_7d8a));
    }

    #[test]
    fn keys_become_one_printable_word() {
        assert_eq!(printable(b"a%b \x00\xff"), "a%25b%20%00%FF");
    }

    #[test]
    fn keys_become_words_of_uris() {
        let mut out = Vec::new();
        uri_encode(b"a:b-c._~/ %", &mut out);
        assert_eq!(out, b"a%3Ab-c._~%2F%20%25");
    }
}
