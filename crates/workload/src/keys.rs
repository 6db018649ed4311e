//! What keys look like and how large their values are.

use crate::rng::mix64;
use crate::{WorkloadError, refuse};
use core::fmt;
use core::str::FromStr;
use evenkeel_types::limits::{ITEM_SIZE_DEFAULT, KEY_LEN_MAX};

/// Names keys: a prefix, then the key's number in decimal, padded with zeros to a fixed length.
#[derive(Clone, Debug)]
pub struct KeyFormat {
    prefix: Box<[u8]>,
    len: usize,
}

impl KeyFormat {
    /// Names of `len` bytes for keys `0..keys`.
    ///
    /// # Errors
    /// When the prefix has bytes that a key must not have, or `len` is too short for prefix and
    /// number or longer than memcached allows.
    pub fn new(prefix: &str, len: usize, keys: u64) -> Result<Self, WorkloadError> {
        if prefix.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return refuse(format!(
                "key prefix '{prefix}' has a space or a control character"
            ));
        }
        let digits = keys.max(1) - 1;
        let needed = prefix.len() + digits.checked_ilog10().map_or(1, |log| log as usize + 1);
        if !(needed..=KEY_LEN_MAX).contains(&len) {
            return refuse(format!(
                "keys of {len} bytes: {keys} keys with prefix '{prefix}' need {needed} to {KEY_LEN_MAX}"
            ));
        }
        Ok(KeyFormat {
            prefix: prefix.as_bytes().into(),
            len,
        })
    }

    /// Appends the name of key `id`.
    #[inline]
    pub fn write(&self, id: u64, out: &mut Vec<u8>) {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(id).as_bytes();
        out.extend_from_slice(&self.prefix);
        let zeros = self.len.saturating_sub(self.prefix.len() + digits.len());
        out.resize(out.len() + zeros, b'0');
        out.extend_from_slice(digits);
    }

    /// Length of every key, in bytes.
    pub fn len_bytes(&self) -> usize {
        self.len
    }
}

/// Value sizes in bytes, as text `100` or `64..1024` (both ends included).
///
/// A size is drawn from the key's hash, so that a key keeps its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueSizes {
    min: usize,
    max: usize,
}

impl ValueSizes {
    /// Sizes from `min` to `max` bytes, both included, each equally likely.
    ///
    /// # Errors
    /// When `min` is above `max`, or `max` above what a memcached takes by default.
    pub fn new(min: usize, max: usize) -> Result<Self, WorkloadError> {
        if min > max || max > ITEM_SIZE_DEFAULT {
            return refuse(format!(
                "value sizes {min}..{max} are not within 0 and {ITEM_SIZE_DEFAULT}"
            ));
        }
        Ok(ValueSizes { min, max })
    }

    /// The size of the value of the key with this hash.
    #[inline]
    pub fn of(&self, key_hash: u64) -> usize {
        if self.min == self.max {
            return self.min;
        }
        let span = (self.max - self.min) as u64 + 1;
        self.min + ((u128::from(mix64(key_hash)) * u128::from(span)) >> 64) as usize
    }

    /// The largest size.
    pub fn max(&self) -> usize {
        self.max
    }
}

impl FromStr for ValueSizes {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        match (min.parse(), max.parse()) {
            (Ok(min), Ok(max)) => ValueSizes::new(min, max),
            _ => refuse(format!("'{text}' is not a value size: BYTES or MIN..MAX")),
        }
    }
}

impl fmt::Display for ValueSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "{}", self.min)
        } else {
            write!(f, "{}..{}", self.min, self.max)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(format: &KeyFormat, id: u64) -> String {
        let mut out = Vec::new();
        format.write(id, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_have_the_asked_length() {
        let format = KeyFormat::new("key:", 12, 1_000_000).unwrap();
        assert_eq!(name(&format, 0), "key:00000000");
        assert_eq!(name(&format, 999_999), "key:00999999");
        assert_eq!(name(&KeyFormat::new("", 1, 10).unwrap(), 9), "9");
        assert!(KeyFormat::new("", 250, 10).is_ok());
    }

    #[test]
    fn keys_that_do_not_fit_are_refused() {
        assert!(KeyFormat::new("", 1, 11).is_err(), "key 10 has two digits");
        assert!(KeyFormat::new("key:", 7, 1001).is_err());
        assert!(KeyFormat::new("", 251, 10).is_err());
        assert!(KeyFormat::new("a b", 20, 10).is_err());
        assert!(KeyFormat::new("a\n", 20, 10).is_err());
    }

    #[test]
    fn sizes_stay_with_their_key_and_cover_the_range() {
        let sizes: ValueSizes = "64..67".parse().unwrap();
        let mut seen = [0u32; 4];
        for hash in 0..4000 {
            assert_eq!(sizes.of(hash), sizes.of(hash));
            seen[sizes.of(hash) - 64] += 1;
        }
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
        assert_eq!("100".parse::<ValueSizes>().unwrap().of(7), 100);
        assert_eq!(sizes.to_string(), "64..67");
        for text in ["", "x", "5..4", "..", "1048577", "-1"] {
            assert!(text.parse::<ValueSizes>().is_err(), "{text}");
        }
    }
}
