//! What a client is told that knows no map and asks for a key that is not this server's.

use super::WorkerCore;
use core::fmt;
use evenkeel_protocol::Quarantined;
use evenkeel_types::{CacheletId, KeyHash};

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

impl WorkerCore {
    /// Counts that a key was asked for here that is not this server's, and says why.
    #[cold]
    pub(super) fn refuse_elsewhere(&mut self, key: &[u8]) -> Elsewhere {
        self.engine.counters.keys_of_others += 1;
        let map = self.map.as_deref();
        let cachelet = map.map(|map| map.locate(KeyHash::of(key)).cachelet);
        match cachelet.filter(|it| map.is_some_and(|map| map.is_quarantined(*it))) {
            Some(cachelet) => Elsewhere::Quarantined(cachelet),
            None => Elsewhere::OfAnother,
        }
    }
}
