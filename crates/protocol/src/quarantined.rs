//! How servers and proxies word that a key's cachelet is in quarantine.

use core::fmt;
use evenkeel_types::CacheletId;

/// See [`MapDocument::quarantined`](evenkeel_types::map::MapDocument::quarantined).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quarantined(pub CacheletId);

impl fmt::Display for Quarantined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cachelet = self.0;
        write!(
            f,
            "cachelet {cachelet} is quarantined: its owners died one after the other"
        )
    }
}
