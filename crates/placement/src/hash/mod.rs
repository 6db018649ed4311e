//! Hashes of keys, bit for bit as libmemcached and twemproxy compute them.
//!
//! A fleet is warm for those who hash as the others did, so the peculiarities count:
//!
//! - Both add up C's `char`s. Those are signed on x86-64, and that is what is followed: a byte from 0x80
//!   (as in UTF-8) changes all upper bits of a sum. On platforms with unsigned ones, such as ARM, the
//!   same programs place such keys elsewhere; keys in ASCII lie the same everywhere.
//! - The `fnv1_64` and `fnv1a_64` give the lower half of the 64-bit hash.
//! - `crc32` is 15 bits of the CRC; `crc32a` all of it.
//! - `crc16` keeps in its upper half what is shifted out of a CRC.
//! - `murmur` is MurmurHash2 and `murmur3` MurmurHash3, with a seed that depends on the key's length.
//! - `jenkins` is lookup3 with 13 as its seed; one-at-a-time, by the same author, is the default of
//!   libmemcached.
//! - libmemcached has `hsieh` only where it was built so, which Debian's is not.
//!
//! Golden vectors come from the libraries themselves (`tests/fixtures/hash_vectors.c`). Published
//! crates for fnv, murmur and jenkins compute the hash that the name stands for, not these.

mod bytewise;
mod wordwise;

use std::fmt;
use std::str::FromStr;

use evenkeel_types::KeyHash;
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};

use super::name::UnknownName;

/// A hash of keys, by twemproxy's name where it has one, else libmemcached's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Hash {
    /// Jenkins' one-at-a-time; libmemcached's `default`.
    OneAtATime,
    /// The first four bytes of the MD5 digest, little-endian.
    Md5,
    /// twemproxy's.
    Crc16,
    /// Bits 16 to 30 of the CRC; libmemcached's `crc`.
    Crc32,
    /// The CRC of zlib; twemproxy's.
    Crc32a,
    /// Lower half of the 64-bit FNV-1.
    Fnv1_64,
    /// Lower half of the 64-bit FNV-1a; the default of twemproxy.
    Fnv1a64,
    /// 32-bit FNV-1.
    Fnv1_32,
    /// 32-bit FNV-1a.
    Fnv1a32,
    /// Hsieh's SuperFastHash.
    Hsieh,
    /// MurmurHash2.
    Murmur,
    /// MurmurHash3, for 32 bits; libmemcached's.
    Murmur3,
    /// Jenkins' lookup3.
    Jenkins,
    /// XXH3 with 64 bits and seed 0: the one to choose where no other client is to be followed.
    Xxh3,
}

impl Hash {
    /// All of them.
    pub const ALL: &[Hash] = &[
        Hash::OneAtATime,
        Hash::Md5,
        Hash::Crc16,
        Hash::Crc32,
        Hash::Crc32a,
        Hash::Fnv1_64,
        Hash::Fnv1a64,
        Hash::Fnv1_32,
        Hash::Fnv1a32,
        Hash::Hsieh,
        Hash::Murmur,
        Hash::Murmur3,
        Hash::Jenkins,
        Hash::Xxh3,
    ];

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Hash::OneAtATime => "one_at_a_time",
            Hash::Md5 => "md5",
            Hash::Crc16 => "crc16",
            Hash::Crc32 => "crc32",
            Hash::Crc32a => "crc32a",
            Hash::Fnv1_64 => "fnv1_64",
            Hash::Fnv1a64 => "fnv1a_64",
            Hash::Fnv1_32 => "fnv1_32",
            Hash::Fnv1a32 => "fnv1a_32",
            Hash::Hsieh => "hsieh",
            Hash::Murmur => "murmur",
            Hash::Murmur3 => "murmur3",
            Hash::Jenkins => "jenkins",
            Hash::Xxh3 => "xxh3",
        }
    }

    /// The hash of some bytes; only [`Hash::Xxh3`] has more than 32 bits.
    #[inline]
    pub fn of(self, bytes: &[u8]) -> u64 {
        let hash = match self {
            Hash::Xxh3 => return KeyHash::of(bytes).0,
            Hash::OneAtATime => bytewise::one_at_a_time(bytes),
            Hash::Md5 => word(&Md5::digest(bytes), 0),
            Hash::Crc16 => bytewise::crc16(bytes),
            Hash::Crc32 => (crc32fast::hash(bytes) >> 16) & 0x7fff,
            Hash::Crc32a => crc32fast::hash(bytes),
            Hash::Fnv1_64 => bytewise::fnv1_64(bytes),
            Hash::Fnv1a64 => bytewise::fnv1a_64(bytes),
            Hash::Fnv1_32 => bytewise::fnv1_32(bytes),
            Hash::Fnv1a32 => bytewise::fnv1a_32(bytes),
            Hash::Hsieh => wordwise::hsieh(bytes),
            Hash::Murmur => wordwise::murmur(bytes),
            Hash::Murmur3 => wordwise::murmur3(bytes),
            Hash::Jenkins => wordwise::jenkins(bytes),
        };
        u64::from(hash)
    }
}

/// The four little-endian words of the MD5 digest of a name.
pub(super) fn md5_words(name: &[u8]) -> [u32; 4] {
    let digest = Md5::digest(name);
    [0, 1, 2, 3].map(|n| word(&digest, n))
}

/// The n-th little-endian word of a digest.
fn word(digest: &[u8], n: usize) -> u32 {
    let bytes = &digest[4 * n..];
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Hash> for &'static str {
    fn from(hash: Hash) -> Self {
        hash.name()
    }
}

impl FromStr for Hash {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        // libmemcached's other words.
        let name = match text {
            "default" => "one_at_a_time",
            "crc" => "crc32",
            other => other,
        };
        let known = Self::ALL.iter().copied();
        known
            .clone()
            .find(|hash| hash.name() == name)
            .ok_or_else(|| UnknownName::new("hash", text, known.map(Self::name)))
    }
}

impl TryFrom<String> for Hash {
    type Error = UnknownName;

    fn try_from(text: String) -> Result<Self, UnknownName> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VECTORS: &str = include_str!("../../tests/fixtures/hash_vectors.txt");

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
            .collect()
    }

    #[test]
    fn every_hash_is_that_of_the_library() {
        let mut seen = Vec::new();
        for line in VECTORS.lines() {
            let parts: Vec<&str> = line.split(' ').collect();
            let [library, name, key, value] = parts[..] else {
                panic!("four words: {line}");
            };
            let hash: Hash = name.parse().unwrap();
            let expected = u64::from_str_radix(value, 16).unwrap();
            assert_eq!(hash.of(&bytes(key)), expected, "{line}");
            seen.push((library, hash));
        }
        let count = |of: &str| {
            let mut hashes: Vec<Hash> = seen
                .iter()
                .filter(|(library, _)| *library == of)
                .map(|&(_, hash)| hash)
                .collect();
            hashes.sort_unstable();
            hashes.dedup();
            hashes.len()
        };
        assert_eq!(count("libmemcached"), 10, "all but hsieh");
        assert_eq!(count("twemproxy"), 12);
    }

    #[test]
    fn names_are_read_and_written_alike() {
        for &hash in Hash::ALL {
            let json = serde_json::to_string(&hash).unwrap();
            assert_eq!(json, format!("\"{hash}\""));
            assert_eq!(serde_json::from_str::<Hash>(&json).unwrap(), hash);
        }
        assert_eq!("default".parse(), Ok(Hash::OneAtATime));
        assert_eq!("crc".parse(), Ok(Hash::Crc32));
        let error = "sha1".parse::<Hash>().unwrap_err().to_string();
        assert!(error.starts_with("hash \"sha1\" is not one of one_at_a_time, md5,"));
    }
}
