//! A meta line under construction, request or answer: the same flags in both directions.

use super::number;
use crate::base64;
use crate::text;
use evenkeel_types::copy;

/// Appends flags to a line that was begun by [`answer::meta`](super::answer::meta),
/// [`answer::meta_value`](super::answer::meta_value) or one of the functions in
/// [`request`](super::request), and ends it.
#[must_use = "the line has no end yet"]
#[derive(Debug)]
pub struct MetaLine<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> MetaLine<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>) -> Self {
        MetaLine { out }
    }

    /// A flag without a token.
    #[inline]
    pub fn flag(self, letter: u8) -> Self {
        self.out.extend_from_slice(&[b' ', letter]);
        self
    }

    /// A flag with a number.
    #[inline]
    pub fn number(self, letter: u8, value: impl itoa::Integer) -> Self {
        self.out.extend_from_slice(&[b' ', letter]);
        number(self.out, value);
        self
    }

    /// A flag with a token, which must hold neither space nor control characters.
    #[inline]
    pub fn token(self, letter: u8, token: &[u8]) -> Self {
        self.out.extend_from_slice(&[b' ', letter]);
        self.out.extend_from_slice(token);
        self
    }

    /// The key as return flag `k`; a base64 key is followed by flag `b`, as memcached does.
    pub fn key(self, key: &[u8], base64: bool) -> Self {
        if !base64 {
            return self.token(b'k', key);
        }
        self.out.extend_from_slice(b" k");
        base64::encode(key, self.out);
        self.flag(b'b')
    }

    /// Flags as text, such as [`MetaFlags::raw`](crate::MetaFlags::raw) gives them.
    pub fn raw(self, flags: &[u8]) -> Self {
        if !flags.is_empty() {
            self.out.push(b' ');
            self.out.extend_from_slice(flags);
        }
        self
    }

    /// Ends the line.
    #[inline]
    pub fn end(self) {
        self.out.extend_from_slice(text::CRLF);
    }

    /// Ends the line and appends the data block that the line announced.
    #[inline]
    pub fn end_with(self, value: &[u8]) {
        self.out.extend_from_slice(text::CRLF);
        copy::append(self.out, value);
        self.out.extend_from_slice(text::CRLF);
    }
}
