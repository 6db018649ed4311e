//! Writers: each appends to a `Vec<u8>` that the caller owns and reuses.
//!
//! [`answer`] writes what servers say, [`request`] what clients say. Fixed lines are constants in
//! [`text`](crate::text).

pub mod answer;
mod meta_line;
pub mod request;

pub use meta_line::MetaLine;

/// Appends a number in decimal.
#[inline]
pub fn number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
