//! Writers: each appends to a `Vec<u8>` that the caller owns and reuses.
//!
//! [`answer`] writes what servers say, [`request`] what clients say. Fixed lines are constants in
//! [`text`](crate::text).

pub mod answer;
mod meta_line;
pub mod request;

pub use crate::number::write as number;
pub use meta_line::MetaLine;
