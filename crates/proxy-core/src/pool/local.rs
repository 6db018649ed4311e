//! What the own rack of a pool copies of what other racks hold, as far as this worker knows.

use crate::config::LocalCopying;
use evenkeel_schemes::locality::local_copies::LocalCopies;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct LocalPool {
    /// How it was configured.
    by: LocalCopying,
    pub copies: LocalCopies,
}

impl LocalPool {
    /// By a configuration; what is known stays where nothing has changed.
    pub fn new(by: LocalCopying, before: Option<Self>) -> Self {
        let before = before.filter(|before| before.by == by);
        before.unwrap_or_else(|| LocalPool {
            by,
            copies: LocalCopies::new(by.ttl),
        })
    }

    /// Whether copies are kept and shown, and not only counted.
    #[inline]
    pub fn keeps(&self) -> bool {
        self.by.keeps
    }
}
