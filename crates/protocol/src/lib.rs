//! The memcached protocol: bytes to requests and replies, without I/O.
//!
//! One parser for requests and one for replies, shared by the server, the proxy and the load
//! generator, so that two parts can never read the same bytes differently (memcached's own proxy
//! once had a second parser, and with it CVE-2023-46852 and CVE-2023-46853).
//!
//! # The model
//!
//! A parser is a pure function from *the bytes received so far* to an outcome: a whole request with
//! the number of bytes it took, a refusal with memcached's words for it and how many bytes to drop,
//! or the least number of bytes that must arrive before asking again makes sense. Nothing is copied
//! and nothing is allocated: requests and replies borrow from the buffer. How the bytes were split
//! into packets never changes an outcome; the tests feed every prefix to prove it.
//!
//! ```text
//!   bytes ──parse_request──> Request ──(execute)──> compose ──> bytes ──parse_reply──> Reply
//! ```
//!
//! Text and meta commands are read by [`parse_request`], the binary protocol by
//! [`binary::parse_request`], and what a client says before it is known by [`parse_auth`].
//!
//! # Which memcached
//!
//! The feature set is memcached 1.6.45's text and meta protocol (`doc/protocol.txt`) without
//! extstore. Where 1.6.45 and the widely installed 1.6.18 answer malformed input differently, the
//! older answer is given, because that is what clients in the field were tested against:
//!
//! | input | 1.6.18 and Evenkeel | 1.6.45 |
//! |---|---|---|
//! | too few words (`get`, `set k 0 0`) | `ERROR` | `CLIENT_ERROR bad command line format` |
//! | too many words (`incr k 1 2 3`) | `ERROR` | ignored |
//! | `set` or `ms` with a key over 250 bytes | data block is read as commands | data block swallowed |
//! | `delete k 0` | accepted | `0` ignored, as is any word |
//! | `md`, `ma` with bad flags | `CLIENT_ERROR invalid or duplicate flag` | `md` names the flag's fault |
//! | `M` with a token that is not one byte | `CLIENT_ERROR incorrect length for M token` | first byte counts |
//! | `ms` with 17 flags, other meta commands with 18 | too many | accepted |
//! | `noreply` behind an unknown command | `ERROR` | silence |
//! | `shutdown` where it is not allowed | `ERROR: shutdown not enabled` | `SERVER_ERROR: …` |
//! | numbers with surrounding blanks or a sign (`+5`, `5<TAB>`) | accepted, as by `strtol` | partly refused |
//! | numbers beyond 32 bits for flags and exptime | taken modulo 2^32 | partly refused |
//!
//! In these points 1.6.45 is followed instead, because the older behaviour is a trap:
//!
//! - A NUL is an ordinary byte; 1.6.18 ends the line there.
//! - A data length outside of 32 bits is refused; 1.6.18 takes it modulo 2^32 and loses its place.
//! - An unknown command whose last word starts with `HTTP/` closes the connection, whatever letter
//!   it starts with.
//! - `bget`, an undocumented synonym of `get`, is gone.
//! - Flags `E` (the version to give) and `x` (drop the value) exist.
//!
//! And in these points Evenkeel goes its own way:
//!
//! - Whether an over-long line closes the connection depends on its length alone. memcached looks
//!   only at what one `read` happened to return, so it sometimes lets long lines through.
//! - `gat` and `gats` lines may be as long as `get` lines.
//! - In the midst of text, a line that starts with the binary protocol's magic byte closes the
//!   connection at once, since a binary client would otherwise wait for ever.
//! - A refused multi-get leaves the answers to earlier pipelined requests alone; 1.6.18 drops them.
//!
//! # Limits
//!
//! Every length a peer announces is checked against [`Limits`] before a byte of it is buffered.

#![forbid(unsafe_code)]
// See clippy.toml.
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

pub mod admin;
pub mod auth;
mod auth_line;
pub mod base64;
pub mod binary;
pub mod compose;
mod extension;
mod limits;
mod meta;
mod mode;
mod number;
mod parse;
mod quarantined;
#[cfg(test)]
#[path = "../tests/protocol/random.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod random;
mod reply;
mod request;
mod scan;
pub mod text;
mod value;
mod words;

pub use auth_line::{AuthOutcome, parse_auth};
pub use extension::{Hello, HelloReply, Migrate, Moved};
pub use limits::{
    AUTH_TOKEN_LEN_MAX, FLAG_COUNT_MAX, FLAG_COUNT_MAX_MS, ITEM_OVERHEAD, KEY_LEN_MAX,
    LINE_LEN_MAX, LONG_LINE_LEN_DEFAULT, Limits, OPAQUE_LEN_MAX, REPLY_LINE_LEN_MAX,
    SASL_MECHANISM_LEN_MAX, SASL_TOKEN_LEN_MAX, VALUE_LEN_MAX,
};
pub use meta::{KeyScratch, Meta, MetaFlags, MetaFlagsIter, SentKey};
pub use mode::{Direction, StoreMode};
pub use number::unsigned as stored_number;
pub use parse::{Refusal, RequestOutcome, parse_request};
pub use quarantined::Quarantined;
pub use reply::{MetaReply, MetaStatus, Reply, ReplyOutcome, parse_reply};
pub use request::{Admin, Keys, KeysIter, Request, ShutdownMode, Store, StoreVerb};
pub use scan::{KeyAt, SetAt, scan_get, scan_get_of_one, scan_set, scan_value_head, scan_value_of};
pub use value::Value;
pub use words::next_word;
