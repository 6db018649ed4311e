//! How warm a pool is that passes from former servers to its own: what share of what reads find comes from its former pool.
//!
//! Each proxy counts what reads of the pool have found, and how much of that its former pool has answered. Here these counts are added up over
//! all proxies, window by window.

use core::time::Duration;
use evenkeel_types::{BootId, Instant};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Shortest window.
pub const WINDOW_MIN: Duration = Duration::from_secs(10);

/// Fewest reads that found something in a window: at a share of [`WARM_SHARE`] ten of them are the former pool's.
pub const WINDOW_HITS_MIN: u64 = 10_000;

/// A pool is warm when its former pool answers less than this share of what its reads find.
pub const WARM_SHARE: f64 = 0.001;

/// Reads of a pool that have found something, since a proxy counts them. They begin anew at 0 when the proxy does, or is told to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// All of them.
    pub hits: u64,
    /// Those that the former pool answered.
    pub former: u64,
}

impl Found {
    /// What another worker has counted is added.
    #[must_use]
    pub fn plus(self, other: Found) -> Found {
        Found {
            hits: self.hits.saturating_add(other.hits),
            former: self.former.saturating_add(other.former),
        }
    }

    /// What was counted since; all of it, where counting has begun anew.
    fn since(self, before: Found) -> Found {
        match (
            self.hits.checked_sub(before.hits),
            self.former.checked_sub(before.former),
        ) {
            (Some(hits), Some(former)) => Found { hits, former },
            _ => self,
        }
    }
}

/// How warm a pool is.
#[derive(Clone, Debug, Default)]
pub struct Warmth {
    /// What each proxy has told last, by name, with its life.
    told: BTreeMap<String, (BootId, Found)>,
    window: Found,
    /// When the window began; none before a proxy has told something.
    began: Option<Instant>,
    share: Option<f64>,
}

impl Warmth {
    /// A proxy tells what its reads have found. The first time it says where it begins, and no more. O(log proxies).
    pub fn handle(&mut self, now: Instant, proxy: &str, boot: BootId, found: Found) {
        let began = *self.began.get_or_insert(now);
        let before = self.told.insert(proxy.to_owned(), (boot, found));
        let Some((_, before)) = before.filter(|(life, _)| *life == boot) else {
            return;
        };
        self.window = self.window.plus(found.since(before));
        if self.window.hits >= WINDOW_HITS_MIN && now.since(began) >= WINDOW_MIN {
            let Found { hits, former } = core::mem::take(&mut self.window);
            self.share = Some((former as f64 / hits as f64).min(1.0));
            self.began = Some(now);
        }
    }

    /// The share in the last window that is over, from 0 to 1; none before the first.
    pub fn share(&self) -> Option<f64> {
        self.share
    }

    /// Whether the former pool is as good as asked for nothing.
    pub fn is_warm(&self) -> bool {
        self.share.is_some_and(|share| share < WARM_SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: BootId = BootId(1);

    fn at(seconds: u64) -> Instant {
        Instant(0) + Duration::from_secs(seconds)
    }

    fn found(hits: u64, former: u64) -> Found {
        Found { hits, former }
    }

    #[test]
    fn the_share_is_of_all_proxies_and_of_the_last_window() {
        let mut warmth = Warmth::default();
        // Long before the change one of them found all of it at the former servers.
        warmth.handle(at(0), "p1", BOOT, found(1_000_000, 1_000_000));
        warmth.handle(at(0), "p2", BOOT, found(0, 0));
        warmth.handle(at(5), "p1", BOOT, found(1_009_000, 1_002_000));
        assert_eq!(warmth.share(), None, "too few");
        warmth.handle(at(6), "p2", BOOT, found(11_000, 1_000));
        assert_eq!(warmth.share(), None, "too short");
        warmth.handle(at(10), "p2", BOOT, found(11_000, 1_000));
        assert_eq!(warmth.share(), Some(0.15));
        assert!(!warmth.is_warm());
        warmth.handle(at(21), "p1", BOOT, found(1_029_000, 1_002_019));
        assert_eq!(warmth.share(), Some(0.00095));
        assert!(warmth.is_warm());
    }

    #[test]
    fn who_begins_anew_is_counted_from_there() {
        let mut warmth = Warmth::default();
        warmth.handle(at(0), "p1", BOOT, found(50_000, 50_000));
        // Its counts were reset.
        warmth.handle(at(20), "p1", BOOT, found(10_000, 0));
        assert_eq!(warmth.share(), Some(0.0));
        // Another process has its name.
        warmth.handle(at(40), "p1", BootId(2), found(90_000, 90_000));
        assert_eq!(warmth.share(), Some(0.0));
        warmth.handle(at(41), "p1", BootId(2), found(100_000, 90_500));
        assert_eq!(warmth.share(), Some(0.05));
    }

    #[test]
    fn no_count_is_too_great() {
        let mut warmth = Warmth::default();
        warmth.handle(at(0), "p1", BOOT, found(0, 0));
        warmth.handle(at(0), "p2", BOOT, found(0, 0));
        warmth.handle(at(1), "p1", BOOT, found(u64::MAX, 0));
        warmth.handle(at(20), "p2", BOOT, found(u64::MAX, u64::MAX));
        assert_eq!(warmth.share(), Some(1.0));
    }
}
