//! The shadow's rule: which of the orders about a replica take effect.
//!
//! Orders come from a key's home, and for a while from a former home, too: what that one sent may be on its way for long.
//! The versions of two homes cannot be compared, so the epoch of the map by which a home sent decides first. An order that
//! equals what is held renews it.
//!
//! Nothing is taken of an older map than any that was heard of, though nothing may be held of the key: it must not come
//! after a replica of the present home that was evicted or removed, for it would be taken for current.

use evenkeel_types::{Epoch, Version};

/// Where an order, and what it leaves behind, stands among all about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Of the map by which the home sent it.
    pub epoch: Epoch,
    /// That the home gave it.
    pub version: Version,
}

/// What is to become of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It takes effect.
    Applies,
    /// It was sent by an older map than one that was heard of.
    FormerMap,
    /// Something newer is held.
    Outdated,
}

/// The newest map by which any home has sent anything to a shadow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NewestHeard(Epoch);

impl NewestHeard {
    /// Hears of an order where `held` is what there is of its key, a block included. Nothing of an older map takes effect
    /// from then on.
    pub fn judge(&mut self, order: Stamp, held: Option<Stamp>) -> Verdict {
        self.0 = self.0.max(order.epoch);
        if order.epoch < self.0 {
            Verdict::FormerMap
        } else if held.is_some_and(|held| held > order) {
            Verdict::Outdated
        } else {
            Verdict::Applies
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(epoch: u64, version: u64) -> Stamp {
        Stamp {
            epoch: Epoch(epoch),
            version: Version(version),
        }
    }

    #[test]
    fn the_epoch_decides_before_the_version_and_equals_renew() {
        for (order, held, verdict) in [
            (stamp(2, 5), None, Verdict::Applies),
            (stamp(2, 5), Some(stamp(2, 5)), Verdict::Applies),
            (stamp(2, 5), Some(stamp(1, 9)), Verdict::Applies),
            (stamp(2, 5), Some(stamp(2, 6)), Verdict::Outdated),
            (stamp(2, 5), Some(stamp(3, 1)), Verdict::Outdated),
        ] {
            let mut heard = NewestHeard::default();
            assert_eq!(heard.judge(order, held), verdict, "{order:?} {held:?}");
        }
    }

    #[test]
    fn nothing_of_a_former_map_is_taken_though_nothing_is_held() {
        let mut heard = NewestHeard::default();
        assert_eq!(heard.judge(stamp(3, 1), None), Verdict::Applies);
        assert_eq!(heard.judge(stamp(2, 9), None), Verdict::FormerMap);
        assert_eq!(heard.judge(stamp(3, 1), None), Verdict::Applies);
    }
}
