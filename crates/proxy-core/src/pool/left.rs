//! Servers that a pool has had and has no longer. One of them that comes back holds what it held when
//! it left, and has missed all that was written since.

use crate::limits::LEFT_SERVERS_MAX;
use std::collections::BTreeSet;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct LeftServers {
    places: BTreeSet<(String, u16)>,
    /// More have left than are remembered: any may have.
    is_incomplete: bool,
}

impl LeftServers {
    /// A server is not in the list any more.
    pub fn note(&mut self, host: &str, port: u16) {
        if self.places.len() < LEFT_SERVERS_MAX {
            self.places.insert((host.to_owned(), port));
        } else {
            self.is_incomplete = true;
        }
    }

    /// A server is new in the list. True if it may have been there before.
    pub fn is_return(&mut self, host: &str, port: u16) -> bool {
        self.places.remove(&(host.to_owned(), port)) || self.is_incomplete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_is_known_and_with_too_many_to_remember_any_may_be_one() {
        let mut left = LeftServers::default();
        left.note("a", 1);
        assert!(!left.is_return("a", 2) && !left.is_return("b", 1));
        assert!(left.is_return("a", 1));
        assert!(!left.is_return("a", 1), "it is there now");
        for port in 0..LEFT_SERVERS_MAX {
            left.note("h", port as u16);
        }
        assert!(!left.is_return("b", 1));
        left.note("c", 1);
        assert!(left.is_return("b", 1) && left.is_return("c", 1));
    }
}
