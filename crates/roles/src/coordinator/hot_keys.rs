//! Where proxies in front of plain memcached servers put together what they count, so that a key is
//! found that is hot only in the sum of them. Nothing here is saved, and nothing depends on it but how
//! well load is spread: a proxy that hears nothing goes by what it sees itself.

use core::time::Duration;
use std::collections::BTreeMap;

use evenkeel_policy::hot_keys::plain::COUNTERS;
use evenkeel_policy::hot_keys::shared::SharedCounts;
use evenkeel_policy::hot_keys::sketch::TopKeys;
use evenkeel_policy::placement::map::NAME_LEN_MAX;
use evenkeel_types::Instant;
use serde::{Deserialize, Serialize};

use super::limits::{HOT_KEYS_FORGET, HOT_KEYS_SUM_AGE_MAX, PROXIES_MAX};

/// What a proxy tells of the hot keys of a pool. It is answered with the sum of all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotKeysReport {
    /// The pool's name in the proxies' files: those of equal name are added up.
    pub pool: String,
    /// The proxy's name.
    pub proxy: String,
    /// What it has counted.
    pub counts: SharedCounts,
}

/// Why a report is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HotKeysRefusal {
    /// A name is empty or too long.
    #[error("pool and proxy must have names of 1 to {NAME_LEN_MAX} bytes")]
    BadName,
    /// The counts are none.
    #[error("the counts are not numbers from zero up, or tell of too many or too long keys")]
    BadCounts,
    /// There are too many proxies.
    #[error("there are {PROXIES_MAX} proxies and pools already that report hot keys")]
    Full,
}

/// What proxies have told of hot keys lately, by pool.
#[derive(Debug, Default)]
pub struct HotKeysBoard {
    pools: BTreeMap<String, PoolBoard>,
}

#[derive(Debug, Default)]
struct PoolBoard {
    proxies: BTreeMap<String, (Instant, TopKeys)>,
    /// The sum, and when it was made.
    sum: Option<(Instant, SharedCounts)>,
}

impl HotKeysBoard {
    /// Takes a report and answers with the sum, which is at most [`HOT_KEYS_SUM_AGE_MAX`] old.
    ///
    /// # Errors
    /// When the report cannot be used.
    pub fn handle_report(
        &mut self,
        now: Instant,
        report: &HotKeysReport,
    ) -> Result<SharedCounts, HotKeysRefusal> {
        let is_name = |name: &str| (1..=NAME_LEN_MAX).contains(&name.len());
        if !is_name(&report.pool) || !is_name(&report.proxy) {
            return Err(HotKeysRefusal::BadName);
        }
        let counts = report.counts.to_counts(COUNTERS);
        let counts = counts.ok_or(HotKeysRefusal::BadCounts)?;
        let mut pools = self.pools.values();
        let is_known = |pool: &PoolBoard| pool.proxies.contains_key(&report.proxy);
        if !self.pools.get(&report.pool).is_some_and(is_known)
            && pools.by_ref().map(|pool| pool.proxies.len()).sum::<usize>() >= PROXIES_MAX
        {
            self.forget_silent(now);
            let left = self.pools.values().map(|pool| pool.proxies.len());
            if left.sum::<usize>() >= PROXIES_MAX {
                return Err(HotKeysRefusal::Full);
            }
        }
        let pool = self.pools.entry(report.pool.clone()).or_default();
        pool.proxies.insert(report.proxy.clone(), (now, counts));
        Ok(pool.sum(now))
    }

    /// Forgets who has not reported for a while.
    fn forget_silent(&mut self, now: Instant) {
        for pool in self.pools.values_mut() {
            pool.forget_silent(now);
        }
        self.pools.retain(|_, pool| !pool.proxies.is_empty());
    }
}

impl PoolBoard {
    fn forget_silent(&mut self, now: Instant) {
        self.proxies
            .retain(|_, (at, _)| now < *at + HOT_KEYS_FORGET);
    }

    fn sum(&mut self, now: Instant) -> SharedCounts {
        if let Some((at, sum)) = &self.sum
            && now < *at + HOT_KEYS_SUM_AGE_MAX
        {
            return sum.clone();
        }
        self.forget_silent(now);
        let mut all = TopKeys::new(COUNTERS);
        for (_, counts) in self.proxies.values() {
            all.merge(counts);
        }
        let sum = SharedCounts::of(&all, 1.0);
        self.sum = Some((now, sum.clone()));
        sum
    }
}

const _: () = assert!(HOT_KEYS_SUM_AGE_MAX.as_nanos() < Duration::from_secs(1).as_nanos());

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_policy::hot_keys::shared::SharedKey;

    fn report(pool: &str, proxy: &str, key: &str, reads: f64) -> HotKeysReport {
        HotKeysReport {
            pool: pool.into(),
            proxy: proxy.into(),
            counts: SharedCounts {
                total: 100.0,
                slack: 0.0,
                keys: vec![SharedKey {
                    key: key.into(),
                    reads,
                    writes: 1.0,
                }],
            },
        }
    }

    const T0: Instant = Instant::from_millis(1000);

    #[test]
    fn reports_of_a_pool_add_up_until_their_proxies_fall_silent() {
        let mut board = HotKeysBoard::default();
        let at = |ms: u64| T0 + Duration::from_millis(ms);
        board
            .handle_report(at(0), &report("a", "p1", "k", 10.0))
            .unwrap();
        board
            .handle_report(at(1), &report("b", "p1", "k", 99.0))
            .unwrap();
        let sum = board
            .handle_report(at(600), &report("a", "p2", "k", 5.0))
            .unwrap();
        assert_eq!(
            (sum.total, sum.keys[0].reads, sum.keys[0].writes),
            (200.0, 15.0, 2.0)
        );
        // A newer report takes the place of the one before; the sum is made twice a second at most.
        let old = board
            .handle_report(at(700), &report("a", "p1", "k", 20.0))
            .unwrap();
        assert_eq!(old, sum);
        let sum = board
            .handle_report(at(1200), &report("a", "p2", "k", 5.0))
            .unwrap();
        assert_eq!(sum.keys[0].reads, 25.0);
        let forget = HOT_KEYS_FORGET.as_millis() as u64;
        let sum = board
            .handle_report(at(1100 + forget), &report("a", "p2", "k", 5.0))
            .unwrap();
        assert_eq!(sum.keys[0].reads, 5.0);
    }

    #[test]
    fn reports_that_make_no_sense_are_refused_and_their_number_is_bounded() {
        let mut board = HotKeysBoard::default();
        let refused = board.handle_report(T0, &report("", "p", "k", 1.0));
        assert_eq!(refused, Err(HotKeysRefusal::BadName));
        let refused = board.handle_report(T0, &report("a", "p", "k", f64::NAN));
        assert_eq!(refused, Err(HotKeysRefusal::BadCounts));
        let mut tell = |now, i: usize| {
            let (pool, proxy) = (format!("pool{}", i % 7), format!("p{i}"));
            board.handle_report(now, &report(&pool, &proxy, "k", 1.0))
        };
        for i in 0..PROXIES_MAX {
            tell(T0, i).unwrap();
        }
        assert_eq!(tell(T0, PROXIES_MAX), Err(HotKeysRefusal::Full));
        assert!(tell(T0, 0).is_ok(), "who is known is heard");
        assert!(tell(T0 + HOT_KEYS_FORGET, PROXIES_MAX).is_ok());
    }
}
