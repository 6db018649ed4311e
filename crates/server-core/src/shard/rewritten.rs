//! What clients write of a cachelet while it is copied.

use evenkeel_types::CacheletId;
use std::collections::{HashSet, VecDeque};

/// Most bytes of keys that may wait to be sent again. A migration that cannot follow what is written is given up.
pub const REWRITTEN_BYTES_MAX: usize = 16 << 20;

/// Keys of one cachelet that were written since they may have been sent, each once, the oldest first. They are sent as
/// they are by then, so that many writes of one key are one message.
#[derive(Debug, Default)]
pub struct Rewritten {
    cachelet: Option<CacheletId>,
    keys: HashSet<Box<[u8]>>,
    order: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl Rewritten {
    /// Begins to take notice of what is written of a cachelet, or ends that.
    pub fn watch(&mut self, cachelet: Option<CacheletId>) {
        *self = Rewritten {
            cachelet,
            ..Rewritten::default()
        };
    }

    /// Whether writes of this cachelet are to be added. Asked for every write.
    #[inline]
    pub fn is_about(&self, cachelet: CacheletId) -> bool {
        self.cachelet == Some(cachelet)
    }

    /// A key was written, or is gone.
    #[cold]
    pub fn add(&mut self, key: &[u8]) {
        if !self.keys.contains(key) {
            self.bytes += key.len();
            self.keys.insert(key.into());
            self.order.push_back(key.into());
        }
    }

    /// The key that has waited for longest.
    pub fn take(&mut self) -> Option<Box<[u8]>> {
        let key = self.order.pop_front()?;
        self.keys.remove(&key);
        self.bytes -= key.len();
        Some(key)
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether there are more than can be waited for.
    pub fn is_too_much(&self) -> bool {
        self.bytes > REWRITTEN_BYTES_MAX
    }
}
