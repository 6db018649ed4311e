//! What workers are busy with: turns, and what each kind of request takes of them.

use crate::history::Nanos;
use crate::load::{KEY_LEN, KeyPlacement, LoadPlan};

/// Bytes of a request and its answer besides key and value.
struct Overhead {
    get_hit: u64,
    get_miss: u64,
    set: u64,
}

/// Between a proxy and a server that have agreed on more than memcached's protocol: `mg … v f c A Y1` and
/// `VA 100 f0 c1234567890`; `EN`; `ms … S100 F0 …` and `HD`.
const AGREED: Overhead = Overhead {
    get_hit: 17 + 26,
    get_miss: 17 + 4,
    set: 17 + 6,
};

/// As applications say it: `get …` and `VALUE … 0 100`, `END`; `set … 0 0 100` and `STORED`. The answer
/// to a get names the key again.
const CLASSIC: Overhead = Overhead {
    get_hit: 6 + 15 + 7 + KEY_LEN as u64,
    get_miss: 6 + 5,
    set: 16 + 8,
};

/// Proxies whose batches are told apart at a worker.
const PROXIES_TOLD_APART: u16 = 64;

/// A worker's turns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    /// When the present turn ends.
    pub ends: Nanos,
    /// What waits for the next one takes this long.
    pub next: Nanos,
    /// Whose requests are among it.
    of: u64,
    /// Keys served in the time that is measured.
    pub served: u64,
    /// What it has taken so far, since the last look.
    pub worked: Nanos,
}

impl Turns {
    /// A request of a proxy arrives; gives when it is done.
    #[inline]
    pub fn take(&mut self, now: Nanos, proxy: u16, cost: Nanos, batch: Nanos) -> Nanos {
        if now >= self.ends && self.next > 0 {
            self.ends += self.next;
            (self.next, self.of) = (0, 0);
        }
        if now >= self.ends {
            self.worked += cost + batch;
            self.ends = now + cost + batch;
            return self.ends;
        }
        let bit = 1 << (proxy % PROXIES_TOLD_APART);
        if self.of & bit == 0 {
            self.of |= bit;
            self.next += batch;
            self.worked += batch;
        }
        self.worked += cost;
        self.next += cost;
        self.ends + self.next
    }
}

/// What each kind of request takes.
pub(super) struct Costs {
    pub hit: Nanos,
    pub miss: Nanos,
    pub set: Nanos,
    pub batch: Nanos,
}

impl Costs {
    pub fn of(plan: &LoadPlan) -> Self {
        let (key, value) = (KEY_LEN as u64, plan.value_bytes as u64);
        let overhead = match plan.placement {
            KeyPlacement::Map => AGREED,
            KeyPlacement::Plain(_) => CLASSIC,
        };
        let model = plan.service;
        Costs {
            hit: model.cost(1, overhead.get_hit + key + value, 0),
            miss: model.cost(1, overhead.get_miss + key, 0),
            set: model.cost(1, overhead.set + key + value, 0),
            batch: model.cost(0, 0, 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_while_a_worker_is_busy_shares_its_next_turn() {
        let mut turns = Turns::default();
        assert_eq!(turns.take(100, 0, 10, 50), 160, "idle: at once");
        assert_eq!(turns.take(110, 0, 10, 50), 220);
        assert_eq!(turns.take(120, 0, 10, 50), 230, "the same batch");
        assert_eq!(turns.take(130, 1, 10, 50), 290, "another proxy's");
        // The second turn, from 160 to 290, is under way.
        assert_eq!(turns.take(200, 0, 10, 50), 350);
        assert_eq!(turns.take(1000, 0, 10, 50), 1060);
    }
}
