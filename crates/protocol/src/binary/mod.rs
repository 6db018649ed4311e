//! The binary protocol: a header of 24 bytes, then extras, key and value of announced lengths.
//!
//! It is the older of memcached's two compact protocols and deprecated in favour of meta commands,
//! but clients exist that speak nothing else.
//!
//! ```text
//!   byte      0       1        2–3        4        5        6–7       8–11    12–15   16–23
//!   request   0x80    opcode   key len    extras   data     vbucket   body    opaque  cas
//!   reply     0x81    opcode   key len    len      type     status    len     opaque  cas
//! ```
//!
//! All numbers are big-endian. The body is extras, key and value, and `body len` the length of the
//! three; the length of the value is what is left. memcached once computed it without a check, and
//! from that came CVE-2016-8704, 8705 and 8706: here one function checks the lengths for all opcodes,
//! before anything is buffered.
//!
//! # Which memcached
//!
//! Opcodes, statuses and messages are those of memcached 1.6. What it refuses with `Invalid
//! arguments` closes the connection, an item that is too large is swallowed and its connection goes
//! on. The data type is ignored, as is the vbucket of anyone who has not said hello (see
//! `docs/protocol-extension.md`). Evenkeel goes its own way in these points, where memcached loses
//! its place in the stream:
//!
//! | input | memcached 1.6.18 | Evenkeel |
//! |---|---|---|
//! | an unknown opcode with a key or extras | drops their length too much | drops the body |
//! | a value behind `touch`, the `gat` family or `stat` | reads it as the next request | `Invalid arguments` |
//! | a body of 2^31 bytes or more | a negative length | `Invalid arguments`, whatever the opcode |
//! | `verbosity` | `Unknown command` | is executed |

pub mod answer;
mod header;
mod opcode;
mod parse;
mod reply;
mod request;
pub mod wording;

pub use header::{Echo, HEADER_LEN, ReplyHeader, RequestHeader};
pub use opcode::Opcode;
pub use parse::{Outcome, Refusal, parse_request};
pub use reply::{Reply, ReplyOutcome, Status, parse_reply};
pub use request::{Command, Request};

/// First byte of a request. No command of the text protocol begins with it.
pub const REQUEST_MAGIC: u8 = 0x80;

/// First byte of a reply.
pub const REPLY_MAGIC: u8 = 0x81;
