//! What a profile begins with.
//!
//! Eight bytes `EVKPROF1`, the length of what follows (32 bits, little endian), and JSON.

use crate::record::RECORD_LEN;
use crate::sampling::Sampling;
use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 7] = b"EVKPROF";
const VERSION: u8 = b'1';
const FIXED_LEN: usize = MAGIC.len() + 1 + 4;

/// Bytes of JSON at most: 64 racks and 256 pools with their names fit in.
const JSON_MAX: usize = 64 << 10;

/// How a profile was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Bytes of a record: [`RECORD_LEN`].
    pub record_len: usize,
    /// The proxy that has recorded.
    pub proxy: String,
    /// What was recorded.
    pub sampling: Sampling,
    /// Racks, in the order of their numbers.
    pub racks: Vec<RackOfHead>,
    /// Rack of the proxy, if it has one.
    pub own_rack: Option<String>,
    /// Pools, in the order of their numbers.
    pub pools: Vec<String>,
}

/// A rack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RackOfHead {
    /// Its name.
    pub name: String,
    /// Whether it stands on the backbone.
    pub is_central: bool,
}

/// Why a file is no profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// It does not begin as one.
    NoProfile,
    /// Another version has made it.
    Version(char),
    /// It ends within its head.
    CutOff,
    /// Its head cannot be read.
    Malformed(String),
    /// Its records have another length.
    RecordLen(usize),
}

impl core::fmt::Display for HeadError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            HeadError::NoProfile => f.write_str("no profile: it does not begin with EVKPROF"),
            HeadError::Version(version) => {
                write!(
                    f,
                    "a profile of format {version}; this program reads format 1"
                )
            }
            HeadError::CutOff => f.write_str("the file ends within its head"),
            HeadError::Malformed(why) => write!(f, "the head cannot be read: {why}"),
            HeadError::RecordLen(len) => {
                write!(f, "records of {len} bytes; this program reads {RECORD_LEN}")
            }
        }
    }
}

impl core::error::Error for HeadError {}

impl Head {
    /// As it is written.
    ///
    /// # Errors
    /// The names in it are too long.
    pub fn to_bytes(&self) -> Result<Vec<u8>, HeadError> {
        let json =
            serde_json::to_vec(self).map_err(|error| HeadError::Malformed(error.to_string()))?;
        if json.len() > JSON_MAX {
            return Err(HeadError::Malformed(format!(
                "more than {JSON_MAX} bytes of names"
            )));
        }
        let mut bytes = Vec::with_capacity(FIXED_LEN + json.len());
        bytes.extend_from_slice(MAGIC);
        bytes.push(VERSION);
        bytes.extend_from_slice(&(json.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&json);
        Ok(bytes)
    }

    /// Most bytes that a head has.
    pub const LEN_MAX: usize = FIXED_LEN + JSON_MAX;

    /// Reads the head that a file begins with, and says how long it is. [`Head::LEN_MAX`] bytes are enough to be given.
    ///
    /// # Errors
    /// See [`HeadError`].
    pub fn of_bytes(bytes: &[u8]) -> Result<(Head, usize), HeadError> {
        let magic = &bytes[..bytes.len().min(MAGIC.len())];
        if magic.is_empty() || !MAGIC.starts_with(magic) {
            return Err(HeadError::NoProfile);
        }
        let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED_LEN>() else {
            return Err(HeadError::CutOff);
        };
        let [.., version, a, b, c, d] = *fixed;
        if version != VERSION {
            return Err(HeadError::Version(version.into()));
        }
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        if len > JSON_MAX {
            return Err(HeadError::Malformed(format!(
                "{len} bytes; the most is {JSON_MAX}"
            )));
        }
        let json = rest.get(..len).ok_or(HeadError::CutOff)?;
        let head: Head = serde_json::from_slice(json)
            .map_err(|error| HeadError::Malformed(error.to_string()))?;
        if head.record_len != RECORD_LEN {
            return Err(HeadError::RecordLen(head.record_len));
        }
        Ok((head, FIXED_LEN + len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let rack = |name: &str, is_central| RackOfHead {
            name: name.to_owned(),
            is_central,
        };
        Head {
            record_len: RECORD_LEN,
            proxy: "proxy-1".to_owned(),
            sampling: Sampling::FULL,
            racks: vec![rack("a", false), rack("core", true)],
            own_rack: Some("a".to_owned()),
            pools: vec!["main".to_owned()],
        }
    }

    #[test]
    fn a_head_is_read_as_it_was_written_and_never_in_part() {
        let bytes = head().to_bytes().expect("its names are short");
        let mut more = bytes.clone();
        more.extend_from_slice(&[7; RECORD_LEN]);
        assert_eq!(Head::of_bytes(&more), Ok((head(), bytes.len())));
        assert_eq!(Head::of_bytes(b""), Err(HeadError::NoProfile));
        for len in 1..bytes.len() {
            assert_eq!(
                Head::of_bytes(&bytes[..len]),
                Err(HeadError::CutOff),
                "{len}"
            );
        }
    }

    #[test]
    fn what_is_no_head_is_told_in_words() {
        let bytes = head().to_bytes().expect("its names are short");
        assert_eq!(Head::of_bytes(b"{\"time\":1}"), Err(HeadError::NoProfile));
        let mut later = bytes.clone();
        later[7] = b'2';
        let error = Head::of_bytes(&later).expect_err("another version");
        assert_eq!(
            error.to_string(),
            "a profile of format 2; this program reads format 1"
        );
        let mut long = bytes.clone();
        long[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(
            Head::of_bytes(&long),
            Err(HeadError::Malformed(_))
        ));
        let mut broken = bytes;
        broken[13] = b'?';
        assert!(matches!(
            Head::of_bytes(&broken),
            Err(HeadError::Malformed(_))
        ));
        let other = Head {
            record_len: 56,
            ..head()
        };
        let other = other.to_bytes().expect("its names are short");
        assert_eq!(Head::of_bytes(&other), Err(HeadError::RecordLen(56)));
        let wordy = Head {
            pools: vec!["p".repeat(JSON_MAX)],
            ..head()
        };
        assert!(wordy.to_bytes().is_err());
    }
}
