//! What a load has seen: counters and latencies, for a moment or for a whole run.

use hdrhistogram::Histogram;
use std::ops::AddAssign;

/// Latencies are kept with this resolution at least, in nanoseconds.
const LATENCY_NS_MIN: u64 = 64;
/// The longest latency kept, 100 s; longer ones count as this.
const LATENCY_NS_MAX: u64 = 100_000_000_000;
/// Decimal digits of a latency.
const LATENCY_DIGITS: u8 = 3;

/// Counts of what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Requests answered, however: a get of many keys is one; sets after misses count too.
    pub requests: u64,
    /// Keys asked for by answered gets.
    pub gets: u64,
    /// Keys found.
    pub hits: u64,
    /// Keys not found.
    pub misses: u64,
    /// Sets that were stored.
    pub sets: u64,
    /// Sets that followed a miss; part of `sets` where they were stored.
    pub refills: u64,
    /// Deletes, touches, counts, and conditional writes whose condition did not hold, that were answered.
    pub others: u64,
    /// Requests answered with an error, or not at all.
    pub errors: u64,
    /// Requests whose connection broke or fell silent; part of `errors`.
    pub unanswered: u64,
    /// Values that nobody wrote for the key they came with.
    pub wrong_values: u64,
    /// Connections opened anew.
    pub reconnects: u64,
    /// Requests of the schedule that were due but never sent when the load ended.
    pub unsent: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

impl Counters {
    /// Share of the keys asked for that were found; 0 where none was asked for.
    pub fn hit_ratio(&self) -> f64 {
        if self.gets == 0 {
            0.0
        } else {
            self.hits as f64 / self.gets as f64
        }
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.gets += other.gets;
        self.hits += other.hits;
        self.misses += other.misses;
        self.sets += other.sets;
        self.refills += other.refills;
        self.others += other.others;
        self.errors += other.errors;
        self.unanswered += other.unanswered;
        self.wrong_values += other.wrong_values;
        self.reconnects += other.reconnects;
        self.unsent += other.unsent;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
    }
}

/// Counters and latencies together. Latencies are in nanoseconds.
#[derive(Clone, Debug)]
pub struct LoadStats {
    /// What happened how often.
    pub counters: Counters,
    /// Latency of gets.
    pub get_latency: Histogram<u64>,
    /// Latency of sets.
    pub set_latency: Histogram<u64>,
    /// How late requests of a schedule were sent: the generator's own part of their latency, and
    /// waiting for room in the pipelines.
    pub send_lag: Histogram<u64>,
    /// The first error of any kind, in words, of a load that has ended.
    pub first_error: Option<String>,
}

impl Default for LoadStats {
    fn default() -> Self {
        let histogram = || {
            Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, LATENCY_DIGITS)
                .expect("the bounds are constants in order")
        };
        LoadStats {
            counters: Counters::default(),
            get_latency: histogram(),
            set_latency: histogram(),
            send_lag: histogram(),
            first_error: None,
        }
    }
}

impl LoadStats {
    /// Adds another's figures.
    pub fn add(&mut self, other: &LoadStats) {
        self.counters += other.counters;
        for (mine, theirs) in [
            (&mut self.get_latency, &other.get_latency),
            (&mut self.set_latency, &other.set_latency),
            (&mut self.send_lag, &other.send_lag),
        ] {
            if !theirs.is_empty() {
                mine.add(theirs)
                    .expect("all histograms have the same bounds");
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counters = Counters::default();
        for histogram in [
            &mut self.get_latency,
            &mut self.set_latency,
            &mut self.send_lag,
        ] {
            if !histogram.is_empty() {
                histogram.reset();
            }
        }
    }

    /// Latency of gets and sets together, in nanoseconds.
    pub fn latency(&self) -> Histogram<u64> {
        let mut all = self.get_latency.clone();
        all.add(&self.set_latency)
            .expect("all histograms have the same bounds");
        all
    }
}

/// Where a thread leaves figures for its owner. Whole boxes change hands, so that a thread pays for
/// two pointers and not for adding up histograms, which would show in what it measures.
#[derive(Debug)]
pub(crate) struct Mailbox {
    /// Figures to be taken.
    full: Option<Box<LoadStats>>,
    /// Empty ones for the thread to go on with.
    spare: Option<Box<LoadStats>>,
}

impl Default for Mailbox {
    fn default() -> Self {
        Mailbox {
            full: None,
            spare: Some(Box::default()),
        }
    }
}

impl Mailbox {
    /// Leaves `stats` and empties it, unless the last ones have not been taken yet.
    pub(crate) fn offer(&mut self, stats: &mut Box<LoadStats>) {
        if self.full.is_none()
            && let Some(spare) = self.spare.take()
        {
            self.full = Some(std::mem::replace(stats, spare));
        }
    }

    /// Leaves the last of a thread's figures.
    pub(crate) fn leave(&mut self, stats: Box<LoadStats>) {
        match &mut self.full {
            Some(full) => full.add(&stats),
            None => self.full = Some(stats),
        }
    }

    /// Adds what was left to `sum`.
    pub(crate) fn take_into(&mut self, sum: &mut LoadStats) {
        if let Some(mut full) = self.full.take() {
            sum.add(&full);
            full.clear();
            self.spare = Some(full);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_add_up_and_clear() {
        let (mut one, mut two) = (LoadStats::default(), LoadStats::default());
        one.counters = Counters {
            requests: 2,
            gets: 2,
            hits: 1,
            misses: 1,
            ..Counters::default()
        };
        one.get_latency.saturating_record(50_000);
        two.counters.requests = 3;
        two.set_latency.saturating_record(u64::MAX);
        one.add(&two);
        assert_eq!(one.counters.requests, 5);
        assert_eq!(one.counters.hit_ratio(), 0.5);
        assert_eq!(one.latency().len(), 2);
        let max = one.latency().max();
        assert!(
            (LATENCY_NS_MAX..LATENCY_NS_MAX * 101 / 100).contains(&max),
            "{max}"
        );
        let p50 = one.latency().value_at_quantile(0.5);
        assert!((50_000..50_064).contains(&p50), "{p50}");
        one.clear();
        assert_eq!(one.counters, Counters::default());
        assert!(one.latency().is_empty());
        assert_eq!(one.counters.hit_ratio(), 0.0);
    }

    #[test]
    fn a_mailbox_loses_and_doubles_nothing() {
        let (mut mailbox, mut sum) = (Mailbox::default(), LoadStats::default());
        let mut stats: Box<LoadStats> = Box::default();
        for round in 1..=100 {
            stats.counters.requests += 1;
            stats.get_latency.saturating_record(round * 1000);
            mailbox.offer(&mut stats);
            if round % 3 == 0 {
                mailbox.take_into(&mut sum);
            }
        }
        assert!(sum.counters.requests < 100, "some are still on their way");
        mailbox.leave(stats);
        mailbox.take_into(&mut sum);
        assert_eq!((sum.counters.requests, sum.get_latency.len()), (100, 100));
        mailbox.take_into(&mut sum);
        assert_eq!(sum.counters.requests, 100);
    }
}
