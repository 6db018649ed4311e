//! What servers have done to even out their load.

use super::Fleet;
use anyhow::Context;
use evenkeel_balance::phase::PhaseCounts;
use evenkeel_coordinator_core::MigrationEnd;
use serde::Deserialize;
use std::iter::Sum;
use std::ops::Sub;
use std::time::Duration;

/// Longest wait for a server to show what it balances.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// What servers have done since their start, or in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BalancingCounts {
    /// Intervals by the phase that had to act.
    pub intervals: PhaseCounts,
    /// Keys that became replicated.
    pub promoted: u64,
    /// Cachelets that were lent to another worker.
    pub lent: u64,
    /// Those that were sent home.
    pub sent_home: u64,
    /// Cachelets that passed to another server; the coordinator remembers the last thousand.
    pub moved: u64,
}

/// The part of `/api/v1/balance` that is read.
#[derive(Debug, Deserialize)]
struct Balance {
    intervals: PhaseCounts,
    counts: Moves,
}

#[derive(Debug, Deserialize)]
struct Moves {
    moves: u64,
    moves_home: u64,
}

impl Fleet {
    /// What all servers with several workers have done since their start.
    ///
    /// # Errors
    /// When one does not answer.
    pub fn balancing(&self) -> anyhow::Result<BalancingCounts> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER_TIMEOUT))
            .build()
            .into();
        let shown = self.servers.iter().filter_map(|small| {
            let admin = small.admin?;
            Some((&small.server, format!("http://{admin}/api/v1/balance")))
        });
        let balancing = shown.map(|(server, url)| {
            let answer = agent.get(&url).call();
            let balance: Balance = answer
                .and_then(|mut answer| answer.body_mut().read_json())
                .with_context(|| format!("asking {url}"))?;
            Ok(BalancingCounts {
                intervals: balance.intervals,
                promoted: server.stats("evenkeel")?.number("hot_keys_promoted")?,
                lent: balance.counts.moves,
                sent_home: balance.counts.moves_home,
                moved: 0,
            })
        });
        let moved = self.moved_between_servers()?;
        let balancing = balancing.sum::<anyhow::Result<BalancingCounts>>()?;
        Ok(BalancingCounts { moved, ..balancing })
    }

    /// Cachelets that have passed from one server to another.
    fn moved_between_servers(&self) -> anyhow::Result<u64> {
        let Some(cluster) = &self.cluster else {
            return Ok(0);
        };
        let ended = cluster.api.migrations()?.ended;
        let moved = ended
            .iter()
            .filter(|ended| ended.end == MigrationEnd::Moved);
        Ok(moved.count() as u64)
    }
}

impl Sum for BalancingCounts {
    fn sum<I: Iterator<Item = BalancingCounts>>(all: I) -> BalancingCounts {
        all.fold(BalancingCounts::default(), |sum, balancing| {
            sum.with(balancing, |sum, more| sum + more)
        })
    }
}

/// What was done since.
impl Sub for BalancingCounts {
    type Output = BalancingCounts;

    fn sub(self, before: BalancingCounts) -> BalancingCounts {
        self.with(before, u64::saturating_sub)
    }
}

impl BalancingCounts {
    fn with(self, other: BalancingCounts, join: impl Fn(u64, u64) -> u64) -> BalancingCounts {
        let (one, two) = (self.intervals, other.intervals);
        BalancingCounts {
            intervals: PhaseCounts {
                idle: join(one.idle, two.idle),
                replicating: join(one.replicating, two.replicating),
                local: join(one.local, two.local),
                coordinated: join(one.coordinated, two.coordinated),
            },
            promoted: join(self.promoted, other.promoted),
            lent: join(self.lent, other.lent),
            sent_home: join(self.sent_home, other.sent_home),
            moved: join(self.moved, other.moved),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeds_of_servers_are_summed_and_those_before_taken_off() {
        let of = |count: u64| BalancingCounts {
            intervals: PhaseCounts {
                idle: count,
                replicating: 2 * count,
                local: 3 * count,
                coordinated: 4 * count,
            },
            promoted: 5 * count,
            lent: 6 * count,
            sent_home: 7 * count,
            moved: 8 * count,
        };
        let sum: BalancingCounts = [of(1), of(10)].into_iter().sum();
        assert_eq!(sum, of(11));
        assert_eq!(sum - of(1), of(10));
    }
}
