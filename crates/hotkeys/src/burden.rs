//! Which of several copies to read: the one on the server that is burdened least, as far as a proxy can tell.
//!
//! A proxy knows what it has asked of each server and what is not answered yet, and no more. That suffices
//! where proxies are alike: what each spreads evenly is even in all. What they differ in shows in what is not
//! answered.

use evenkeel_types::Instant;

/// Requests that somebody has lately sent to one server: a sum in which each counts less with time.
///
/// It is half forgotten after about a third of a second. That is short enough to follow a load that moves,
/// and long enough that chance does not matter much: a server with a hundredth more to do than the others is
/// seen at some thousands of requests a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecentRequests {
    /// In units of [`RECENT_UNIT`].
    sum: u32,
    slot: u32,
}

/// One request in [`RecentRequests`].
pub const RECENT_UNIT: u32 = 64;

/// Slots of [`RecentRequests`] are 2 to the power of this many nanoseconds, 67 ms.
const RECENT_SLOT_BITS: u32 = 26;

/// With each slot this part of what was counted is forgotten.
const RECENT_FORGOTTEN_DIVISOR: u32 = 8;

/// After this many slots nothing is left.
const RECENT_SLOTS: u32 = 256;

impl RecentRequests {
    /// One more.
    #[inline]
    pub fn add(&mut self, now: Instant) {
        let slot = (now.0 >> RECENT_SLOT_BITS) as u32;
        if slot != self.slot {
            self.sum = self.sum_at(slot);
            self.slot = slot;
        }
        self.sum = self.sum.saturating_add(RECENT_UNIT);
    }

    /// What is left of them, in units of [`RECENT_UNIT`].
    #[inline]
    pub fn sum(&self, now: Instant) -> u32 {
        self.sum_at((now.0 >> RECENT_SLOT_BITS) as u32)
    }

    fn sum_at(&self, slot: u32) -> u32 {
        let slots = slot.wrapping_sub(self.slot);
        if slots > RECENT_SLOTS {
            return 0;
        }
        (0..slots).fold(self.sum, |sum, _| {
            sum - sum.div_ceil(RECENT_FORGOTTEN_DIVISOR)
        })
    }
}

/// How bad a place a server is to send one more request to, compared with another: by what it was lately
/// sent, and by what it has not answered yet.
///
/// Of servers with equally much to wait for, the one that was sent less is better, so that over time all are
/// sent the same. Of servers that were sent the same, the one that has answered more is better: it is quicker,
/// or others ask less of it. A product, so that neither depends on how many requests there are.
#[inline]
pub fn burden(recent: u32, unanswered: usize) -> usize {
    let recent = recent.saturating_add(RECENT_UNIT) as usize;
    recent.saturating_mul(unanswered.saturating_add(UNANSWERED_FREE))
}

/// This many unanswered requests are as good as none. One more than that weighs as much as this much more sent
/// lately, in relation.
const UNANSWERED_FREE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn at(ms: u64) -> Instant {
        Instant(0) + Duration::from_millis(ms)
    }

    #[test]
    fn requests_are_forgotten_little_by_little() {
        let mut recent = RecentRequests::default();
        (0..1000).for_each(|_| recent.add(at(1000)));
        assert_eq!(recent.sum(at(1000)), 1000 * RECENT_UNIT);
        let half = recent.sum(at(1340));
        assert!((450..560).contains(&(half / RECENT_UNIT)), "{half}");
        assert_eq!(recent.sum(at(20_000)), 0);
        recent.add(at(1340));
        assert_eq!(recent.sum(at(1340)), half + RECENT_UNIT);
        recent.add(at(1_000_000));
        assert_eq!(recent.sum(at(1_000_000)), RECENT_UNIT);
    }

    #[test]
    fn a_steady_rate_is_a_steady_sum() {
        let mut recent = RecentRequests::default();
        let mut sums = Vec::new();
        for ms in 0..20_000 {
            recent.add(at(ms));
            if ms >= 10_000 {
                sums.push(recent.sum(at(ms)) / RECENT_UNIT);
            }
        }
        let (least, most) = (sums.iter().min(), sums.iter().max());
        assert!(
            least > Some(&400) && most < Some(&600),
            "{least:?} {most:?}"
        );
    }

    #[test]
    fn the_less_asked_is_better_and_so_is_the_quicker() {
        assert!(burden(900, 3) < burden(1000, 3));
        assert!(burden(1000, 2) < burden(1000, 3));
        assert!(burden(1000, 0) < burden(2000, 4), "twice as much is much");
        assert!(
            burden(1000, 40) > burden(2000, 4),
            "unless one stands still"
        );
        assert!(
            burden(0, 0) < burden(0, 1),
            "also where nothing was sent lately"
        );
        assert!(
            burden(u32::MAX, usize::MAX) > burden(1, 1),
            "and whatever is counted"
        );
    }
}
