//! What a client is told that knows no map and asks for a key that is not this server's.

use core::fmt;
use evenkeel_protocol::Quarantined;
use evenkeel_types::CacheletId;

/// Whose the key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// Another server's, or nobody's for a moment.
    OfAnother,
    /// Nobody's, until an operator says so.
    Quarantined(CacheletId),
}

impl Elsewhere {
    /// The answer in a classic line.
    pub fn line(self) -> Vec<u8> {
        format!("SERVER_ERROR {self}\r\n").into_bytes()
    }
}

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Elsewhere::OfAnother => f.write_str("key belongs to another server: use a proxy"),
            Elsewhere::Quarantined(cachelet) => Quarantined(*cachelet).fmt(f),
        }
    }
}
