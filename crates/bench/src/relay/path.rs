//! When bytes arrive at the other end of a network path: pure, from a seed.

use super::keys::Asked;
use crate::BadUsage;
use evenkeel_workload::rng::{self, WorkloadRng};
use serde::Serialize;
use std::time::Duration;

/// Bytes of a segment: those of an Ethernet frame under TCP and IPv4. Losses befall segments.
pub(crate) const SEGMENT: usize = 1460;

/// A segment that is lost again and again is taken to have arrived after this many times.
const LOSSES_MAX: u32 = 6;

/// A path through a network, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Path {
    /// Time from one end to the other.
    pub delay: Duration,
    /// Up to this much more, each time is equally likely. Order is kept, as TCP keeps it.
    pub jitter: Duration,
    /// Probability with which a segment is lost, 0 to below 1. TCP sends it again: it and all behind it come
    /// later by `retransmit`, by twice that if it is lost once more, and so on.
    pub loss: f64,
    /// What a loss costs. Linux waits 200 ms at least when nothing comes back, and about a round trip when
    /// later segments show the loss.
    pub retransmit: Duration,
    /// Probability with which a segment resets the connection, 0 to 1.
    pub reset: f64,
    /// Bytes a second of each direction of all connections together; zero for no limit.
    pub bytes_per_second: u64,
    /// Time that the server takes for each key that it is asked for, one after the other; zero for none.
    pub service_time: Duration,
    /// Time that it takes for each request line that is for keys, besides.
    pub service_time_line: Duration,
}

impl Default for Path {
    /// A path that changes nothing.
    fn default() -> Self {
        Path {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            retransmit: Duration::from_millis(200),
            reset: 0.0,
            bytes_per_second: 0,
            service_time: Duration::ZERO,
            service_time_line: Duration::ZERO,
        }
    }
}

impl Path {
    /// Whether the server takes time for what it is asked for.
    pub(crate) fn has_service_time(&self) -> bool {
        !self.service_time.is_zero() || !self.service_time_line.is_zero()
    }

    /// Refuses what is no path.
    ///
    /// # Errors
    /// [`BadUsage`] with the reason.
    pub fn validate(&self) -> Result<(), BadUsage> {
        if !(0.0..1.0).contains(&self.loss) {
            let loss = self.loss;
            return Err(BadUsage(format!("loss {loss} is not within 0 and below 1")));
        }
        if !(0.0..=1.0).contains(&self.reset) {
            let reset = self.reset;
            return Err(BadUsage(format!("reset {reset} is not within 0 and 1")));
        }
        Ok(())
    }
}

/// What becomes of bytes that enter a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// They arrive at this time, in nanoseconds.
    Arrives(u64),
    /// The connection is reset.
    Resets,
}

/// One direction of one connection. Times are in nanoseconds of any clock.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    path: Path,
    random: WorkloadRng,
    /// When the last bytes arrive: none behind them do before.
    last_ns: u64,
}

impl Lane {
    /// Lanes of the same seed and number behave alike.
    pub(crate) fn new(path: Path, seed: u64, number: u64) -> Lane {
        Lane {
            path,
            random: rng::stream(seed, number),
            last_ns: 0,
        }
    }

    /// `bytes` enter at `now_ns`, in which requests end that ask for this much; `line` is the direction that all connections share.
    pub(crate) fn enter(
        &mut self,
        now_ns: u64,
        bytes: usize,
        asked: Asked,
        line: &mut Line,
    ) -> Fate {
        let mut late = Duration::ZERO;
        for _ in 0..bytes.div_ceil(SEGMENT) {
            if self.happens(self.path.reset) {
                return Fate::Resets;
            }
            let mut wait = self.path.retransmit;
            for _ in 0..LOSSES_MAX {
                if !self.happens(self.path.loss) {
                    break;
                }
                late += wait;
                wait *= 2;
            }
        }
        let jitter = match self.path.jitter.is_zero() {
            true => Duration::ZERO,
            false => self.path.jitter.mul_f64(rng::unit(&mut self.random)),
        };
        let sent_ns = line.send(now_ns, bytes);
        let travels = self.path.delay + jitter + late;
        let arrives_ns = line.serve(sent_ns + travels.as_nanos() as u64, asked);
        self.last_ns = self.last_ns.max(arrives_ns);
        Fate::Arrives(self.last_ns)
    }

    fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && rng::unit(&mut self.random) < probability
    }
}

/// A direction of the line that all connections share.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    bytes_per_second: u64,
    free_ns: u64,
    /// What the server at its end takes for a key and for a request line, and when it has done what it was asked for.
    service_time_ns: u64,
    service_time_line_ns: u64,
    served_ns: u64,
}

impl Line {
    pub(crate) fn new(path: &Path) -> Line {
        Line {
            bytes_per_second: path.bytes_per_second,
            free_ns: 0,
            service_time_ns: path.service_time.as_nanos() as u64,
            service_time_line_ns: path.service_time_line.as_nanos() as u64,
            served_ns: 0,
        }
    }

    /// When the server at its end has taken its time for what gets there at this time.
    fn serve(&mut self, now_ns: u64, asked: Asked) -> u64 {
        let for_keys = asked.keys.saturating_mul(self.service_time_ns);
        let for_lines = asked.lines.saturating_mul(self.service_time_line_ns);
        let takes = for_keys.saturating_add(for_lines);
        if takes == 0 {
            return now_ns;
        }
        self.served_ns = self.served_ns.max(now_ns).saturating_add(takes);
        self.served_ns
    }

    /// When the last of `bytes` is on the line.
    fn send(&mut self, now_ns: u64, bytes: usize) -> u64 {
        if self.bytes_per_second == 0 {
            return now_ns;
        }
        let takes = bytes as u128 * 1_000_000_000 / u128::from(self.bytes_per_second);
        self.free_ns = self.free_ns.max(now_ns) + takes as u64;
        self.free_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const NOTHING: Asked = Asked { lines: 0, keys: 0 };

    fn arrivals(path: Path, seed: u64, times: impl Iterator<Item = u64>) -> Vec<Fate> {
        let (mut lane, mut line) = (Lane::new(path, seed, 0), Line::new(&path));
        times
            .map(|at| lane.enter(at, 100, NOTHING, &mut line))
            .collect()
    }

    #[test]
    fn bytes_take_the_delay_and_keep_their_order() {
        let path = Path {
            delay: Duration::from_millis(5),
            jitter: Duration::from_millis(3),
            ..Path::default()
        };
        let times = || (0..1000).map(|n| n * MS / 10);
        let fates = arrivals(path, 1, times());
        assert_eq!(fates, arrivals(path, 1, times()), "the seed decides");
        assert_ne!(fates, arrivals(path, 2, times()));
        let mut last = 0;
        for (entered, fate) in times().zip(fates) {
            let Fate::Arrives(at) = fate else {
                panic!("nothing resets it")
            };
            assert!(at >= last.max(entered + 5 * MS), "{at}");
            assert!(at <= entered + 8 * MS, "{at}");
            last = at;
        }
    }

    #[test]
    fn a_loss_delays_what_is_behind_it() {
        let path = Path {
            loss: 0.1,
            retransmit: Duration::from_millis(200),
            ..Path::default()
        };
        let seconds = 1_000_000_000;
        // So far apart that no loss shows in the next.
        let fates = arrivals(path, 3, (0..10_000).map(|n| n * 20 * seconds));
        let late = (0u64..).zip(&fates).filter(|(n, fate)| {
            let Fate::Arrives(at) = fate else {
                return false;
            };
            at - n * 20 * seconds >= 200 * MS
        });
        let share = late.count() as f64 / 10_000.0;
        assert!((share - 0.1).abs() < 0.015, "{share}");
        let together = arrivals(Path { loss: 0.5, ..path }, 3, (0..8).map(|_| 0));
        let sorted = together.windows(2).all(|pair| match pair {
            [Fate::Arrives(first), Fate::Arrives(second)] => first <= second,
            _ => false,
        });
        assert!(sorted, "{together:?}");
    }

    #[test]
    fn a_line_carries_so_many_bytes_a_second() {
        let path = Path {
            bytes_per_second: 1_000_000,
            ..Path::default()
        };
        // Two connections share it.
        let mut lanes = [Lane::new(path, 1, 0), Lane::new(path, 1, 1)];
        let mut line = Line::new(&path);
        for n in 1..=10 {
            let lane = &mut lanes[n % 2];
            let fate = lane.enter(0, 1000, NOTHING, &mut line);
            assert_eq!(fate, Fate::Arrives(n as u64 * MS));
        }
        assert_eq!(
            lanes[0].enter(50 * MS, 1000, NOTHING, &mut line),
            Fate::Arrives(51 * MS)
        );
    }

    #[test]
    fn a_server_serves_lines_and_keys_one_after_the_other() {
        let path = Path {
            delay: Duration::from_millis(10),
            service_time: Duration::from_millis(2),
            ..Path::default()
        };
        for service_time_line in [0, 5] {
            let path = Path {
                service_time_line: Duration::from_millis(service_time_line),
                ..path
            };
            let mut lanes = [Lane::new(path, 1, 0), Lane::new(path, 1, 1)];
            let mut line = Line::new(&path);
            let two_lines = Asked { lines: 2, keys: 3 };
            let takes = 6 + 2 * service_time_line;
            for n in 1..=10 {
                let fate = lanes[n % 2].enter(0, 100, two_lines, &mut line);
                assert_eq!(fate, Fate::Arrives((10 + takes * n as u64) * MS));
            }
            // What is for no key waits for nobody but what came before it on its connection.
            let mut third = Lane::new(path, 1, 2);
            let fate = third.enter(0, 100, NOTHING, &mut line);
            assert_eq!(fate, Fate::Arrives(10 * MS));
            let one = Asked { lines: 1, keys: 1 };
            let fate = third.enter(500 * MS, 9, one, &mut line);
            assert_eq!(fate, Fate::Arrives((512 + service_time_line) * MS));
        }
    }

    #[test]
    fn resets_come_as_often_as_asked_for() {
        let path = Path {
            reset: 0.2,
            ..Path::default()
        };
        let fates = arrivals(path, 5, (0..10_000).map(|n| n * MS));
        let resets = fates.iter().filter(|&&fate| fate == Fate::Resets).count();
        assert!((1800..2200).contains(&resets), "{resets}");
        assert!(Path { loss: 1.0, ..path }.validate().is_err());
        assert!(
            Path {
                reset: -0.1,
                ..path
            }
            .validate()
            .is_err()
        );
        assert!(path.validate().is_ok());
    }
}
