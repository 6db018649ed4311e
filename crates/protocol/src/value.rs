//! A value that is answered.

use evenkeel_types::Version;

/// A hit of a classic `get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Client flags.
    pub flags: u32,
    /// The value.
    pub data: &'a [u8],
    /// The CAS unique, if it was asked for.
    pub cas: Option<Version>,
}
