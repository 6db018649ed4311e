//! Finding hot keys in little memory: the server's SSM cache, sampled, beside Space-Saving, HeavyKeeper and the
//! proxy's Misra–Gries summary, at equal memory.
//!
//! One worker's reads, 10,000 a virtual second. A key is *hot* if it has a hundredth of the last two seconds' load, as
//! the server judges it (requests, of which one with a large value counts for several), or of their reads, or of their
//! bytes, or of all reads so far. Each second the detectors are asked which keys are
//! hot, and their answers are held against exact counts:
//!
//! - *recall*: of the keys that are clearly hot, one and a half times as much, those that were said to be;
//! - *precision*: of the keys that were said to be, those that have at least half of what makes a key hot. Below that
//!   the server takes its replicas back.
//!
//! What is between is hot by one average and not by another; either answer is right.

mod heavy_keeper;
mod shipped;
mod space_saving;
mod streams;

use super::Experiment;
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use evenkeel_policy::load::cost_of;
use evenkeel_types::{Instant, KeyHash};
use heavy_keeper::HeavyKeeper;
use shipped::{Ssm, Summary};
use space_saving::SpaceSaving;
use std::collections::{HashMap, VecDeque};
use std::time::Instant as Clock;
use streams::{Read, Stream, streams};

pub(super) const DETECTION: Experiment = Experiment {
    name: "hot-detection",
    title: "Finding hot keys: the sampled SSM cache beside Space-Saving and HeavyKeeper",
    source: "Evenkeel; SPORE, section 3.3",
    modes: &[Mode::Sim],
    run: detection,
};

/// Reads of the worker in a virtual second.
const READS_PER_SECOND: u64 = 10_000;

/// Share from which on a key is hot, from which on it must be said to be, and below which it must not.
const HOT: f64 = 0.01;
const CLEARLY_HOT: f64 = 0.015;
const NOT_HOT: f64 = 0.005;

/// Seconds that count, and seconds before the first question.
const SECONDS: usize = 2;
const WARM_UP: usize = 4;

/// Entries of the SSM cache whose memory everybody gets; the last is what a server of one worker has.
const LADDER: [usize; 5] = [32, 64, 128, 256, 512];

/// So much of what there is to find is found: so many entries are enough.
const ENOUGH: f64 = 0.95;

/// A key as detectors are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    hash: KeyHash,
    name: Vec<u8>,
}

impl Key {
    fn new(name: &[u8]) -> Key {
        Key {
            hash: KeyHash::of(name),
            name: name.to_vec(),
        }
    }
}

/// A key that a detector knows.
#[derive(Clone, Copy, Debug)]
struct Counted {
    hash: KeyHash,
    /// Of all that was counted.
    share: f64,
}

/// What detectors are told of a read.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// What it counts, about 1. Above zero.
    weight: f64,
    /// Bytes of the value, for whoever weighs by himself.
    bytes: usize,
}

/// Something that finds hot keys in little memory.
trait Detector {
    /// Keys that it can know.
    fn entries(&self) -> usize;

    /// A read of a key.
    fn read(&mut self, now: Instant, key: &Key, told: Told);

    /// Halves all that was counted: told each second, which leaves about two seconds' worth.
    fn forget_half(&mut self);

    /// The keys that it knows.
    fn counted(&self) -> Vec<Counted>;
}

const SSM: &str = "SSM cache, as shipped";
const DETECTORS: [&str; 5] = [
    SSM,
    "SSM cache, 3 % sampled",
    "Space-Saving",
    "HeavyKeeper",
    "Misra–Gries",
];

/// The detectors, each in the memory that an SSM cache of so many entries takes.
fn detectors(entries: usize, key_len: usize, seed: u64) -> anyhow::Result<Vec<Box<dyn Detector>>> {
    let bytes = Ssm::bytes(entries, key_len)?;
    Ok(vec![
        Box::new(Ssm::new(entries, None, seed)?),
        Box::new(Ssm::new(entries, Some(0.03), seed)?),
        Box::new(SpaceSaving::of_bytes(bytes, key_len)),
        Box::new(HeavyKeeper::of_bytes(bytes, key_len, seed)),
        Box::new(Summary::of_bytes(bytes, key_len)),
    ])
}

/// By what a key is hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// Load of the last seconds, in small requests.
    Load,
    /// Reads of the last seconds.
    Rate,
    /// All reads so far.
    Requests,
    /// Bytes of the last seconds.
    Bytes,
}

const BY: [(By, &str); 4] = [
    (By::Load, "load"),
    (By::Rate, "rate"),
    (By::Requests, "requests"),
    (By::Bytes, "bytes"),
];

/// What was found of what there was.
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    hot: usize,
    found: usize,
    said: usize,
    right: usize,
}

impl Score {
    /// Holds an answer against the true shares.
    fn add(&mut self, said: &[Counted], truth: &HashMap<KeyHash, f64>, total: f64) {
        let share = |hash: &KeyHash| truth.get(hash).map_or(0.0, |count| count / total);
        let said: Vec<_> = said.iter().filter(|key| key.share >= HOT).collect();
        let hot = truth.keys().filter(|hash| share(hash) >= CLEARLY_HOT);
        for hash in hot {
            self.hot += 1;
            self.found += usize::from(said.iter().any(|key| key.hash == *hash));
        }
        self.said += said.len();
        self.right += said
            .iter()
            .filter(|key| share(&key.hash) >= NOT_HOT)
            .count();
    }

    fn recall(&self) -> Option<f64> {
        (self.hot > 0).then(|| self.found as f64 / self.hot as f64)
    }

    fn precision(&self) -> Option<f64> {
        (self.said > 0).then(|| self.right as f64 / self.said as f64)
    }
}

/// Exact counts of a key in a second.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    load: f64,
    reads: f64,
    bytes: f64,
}

/// Exact counts: of each of the last seconds, and of all time.
#[derive(Default)]
struct Truth {
    seconds: VecDeque<HashMap<KeyHash, Counts>>,
    all: HashMap<KeyHash, f64>,
}

impl Truth {
    fn begin_second(&mut self) {
        self.seconds.push_back(HashMap::new());
        while self.seconds.len() > SECONDS {
            self.seconds.pop_front();
        }
    }

    fn read(&mut self, hash: KeyHash, bytes: u32) {
        if let Some(second) = self.seconds.back_mut() {
            let counts = second.entry(hash).or_default();
            counts.load += cost_of(bytes as usize);
            counts.reads += 1.0;
            counts.bytes += f64::from(bytes);
        }
        *self.all.entry(hash).or_default() += 1.0;
    }

    fn of(&self, by: By) -> HashMap<KeyHash, f64> {
        if by == By::Requests {
            return self.all.clone();
        }
        let mut sum = HashMap::new();
        for (&hash, counts) in self.seconds.iter().flatten() {
            *sum.entry(hash).or_default() += match by {
                By::Load => counts.load,
                By::Bytes => counts.bytes,
                By::Rate | By::Requests => counts.reads,
            };
        }
        sum
    }
}

/// What came of one detector on one stream with one memory.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    entries: usize,
    scores: [Score; BY.len()],
    /// Time of a read, in nanoseconds.
    nanos: f64,
}

fn detection(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let seconds = run.by_scale([6, 20, 60, 200]);
    let rungs = run.by_scale([&LADDER[4..], &LADDER, &LADDER, &LADDER]);
    let mut report = run.report(experiment);
    let (streams, notes) = streams(run, (seconds * READS_PER_SECOND) as usize)?;
    report.notes = notes;
    let mut needed = Table::new(
        &format!(
            "Entries of the SSM cache whose memory is enough to find {:.0} % of what is hot by load",
            ENOUGH * 100.0
        ),
        &[&["stream"][..], &DETECTORS].concat(),
    );
    let mut last = Vec::new();
    for stream in &streams {
        let mut of_rungs = Vec::new();
        for &rung in rungs {
            run.progress
                .say(format!("{}, memory of {rung} entries", stream.name));
            of_rungs.push((rung, outcomes(stream, rung, run.seed)?));
        }
        let enough = |detector: usize| {
            let enough = of_rungs.iter().find(|(_, outcomes)| {
                let recall = outcomes[detector].scores[0].recall();
                recall.is_none_or(|recall| recall >= ENOUGH)
            });
            enough.map_or("more".to_owned(), |(rung, _)| rung.to_string())
        };
        let row = std::iter::once(stream.name.clone());
        needed.row(row.chain((0..DETECTORS.len()).map(enough)));
        if let Some((_, outcomes)) = of_rungs.pop() {
            report.tables.push(table(stream, &outcomes));
            last.push((stream.name.clone(), outcomes));
        }
    }
    report.tables.push(needed);
    report.claims = last
        .iter()
        .map(|(name, outcomes)| claim(name, outcomes))
        .collect();
    report.settings = vec![
        (
            "reads".into(),
            format!(
                "{READS_PER_SECOND} a virtual second, {seconds} s (a trace: as long as it is, at most)"
            ),
        ),
        (
            "hot".into(),
            format!("from {:.1} % on, of the last {SECONDS} s", HOT * 100.0),
        ),
        (
            "memory".into(),
            format!("of an SSM cache of {} entries", LADDER[LADDER.len() - 1]),
        ),
    ];
    report.notes.push(
        "The SSM cache counts load, also where it is judged by bytes; the others count what they are judged by. All forget by \
         halves each second, the SSM cache by its four slots: by all requests so far that is a handicap for each."
            .into(),
    );
    report
        .notes
        .push("Times are of this machine; all else follows from the seed.".into());
    Ok(report)
}

/// What detectors count, and by what their answers are judged: instances of each for each of these.
type Counting = (fn(&Read, f64) -> Told, &'static [By]);

const COUNTING: [Counting; 3] = [
    (
        |_, _| Told {
            weight: 1.0,
            bytes: 0,
        },
        &[By::Rate, By::Requests],
    ),
    (
        |read, _| Told {
            weight: cost_of(read.bytes as usize),
            bytes: read.bytes as usize,
        },
        &[By::Load],
    ),
    (
        |read, mean_bytes| Told {
            weight: f64::from(read.bytes) / mean_bytes,
            bytes: read.bytes as usize,
        },
        &[By::Bytes],
    ),
];

/// All detectors on one stream.
fn outcomes(stream: &Stream, entries: usize, seed: u64) -> anyhow::Result<Vec<Outcome>> {
    let mut outcomes = vec![Outcome::default(); DETECTORS.len()];
    for counting in COUNTING {
        let mut detectors = detectors(entries, stream.key_len(), seed)?;
        show(stream, counting, &mut detectors, &mut outcomes);
        for (outcome, detector) in outcomes.iter_mut().zip(&detectors) {
            outcome.entries = detector.entries();
        }
    }
    for outcome in &mut outcomes {
        outcome.nanos /= (COUNTING.len() * stream.reads.len().max(1)) as f64;
    }
    Ok(outcomes)
}

/// Shows detectors a stream, and asks them each second.
fn show(
    stream: &Stream,
    (told, judged_by): Counting,
    detectors: &mut [Box<dyn Detector>],
    outcomes: &mut [Outcome],
) {
    let a_second = READS_PER_SECOND as usize;
    let mean_bytes = stream.mean_bytes();
    let mut truth = Truth::default();
    for (second, reads) in stream.reads.chunks(a_second).enumerate() {
        truth.begin_second();
        for read in reads {
            truth.read(stream.keys[read.key].hash, read.bytes);
        }
        for (detector, outcome) in detectors.iter_mut().zip(&mut *outcomes) {
            let begun = Clock::now();
            for (index, read) in (second * a_second..).zip(reads) {
                let at = Instant(index as u64 * (1_000_000_000 / READS_PER_SECOND));
                detector.read(at, &stream.keys[read.key], told(read, mean_bytes));
            }
            outcome.nanos += begun.elapsed().as_nanos() as f64;
        }
        if second >= WARM_UP && reads.len() == a_second {
            for (place, (by, _)) in BY.iter().enumerate() {
                if !judged_by.contains(by) {
                    continue;
                }
                let truth = truth.of(*by);
                let total = truth.values().sum();
                for (detector, outcome) in detectors.iter().zip(&mut *outcomes) {
                    outcome.scores[place].add(&detector.counted(), &truth, total);
                }
            }
        }
        for detector in &mut *detectors {
            detector.forget_half();
        }
    }
}

fn table(stream: &Stream, outcomes: &[Outcome]) -> Table {
    let named: Vec<[String; 2]> = BY
        .iter()
        .map(|(_, by)| [format!("recall by {by}"), format!("precision by {by}")])
        .collect();
    let columns: Vec<&str> = ["", "entries"]
        .into_iter()
        .chain(named.iter().flatten().map(String::as_str))
        .chain(["ns a read"])
        .collect();
    let title = format!(
        "{}: {} reads of {} keys",
        stream.name,
        stream.reads.len(),
        stream.keys.len()
    );
    let mut table = Table::new(&title, &columns);
    let part = |part: Option<f64>| part.map_or("-".to_owned(), |part| format!("{part:.3}"));
    for (name, outcome) in DETECTORS.iter().zip(outcomes) {
        let mut row = vec![(*name).to_owned(), outcome.entries.to_string()];
        for score in &outcome.scores {
            row.extend([part(score.recall()), part(score.precision())]);
        }
        row.push(format!("{:.0}", outcome.nanos));
        table.row(row);
    }
    table
}

/// Whether what ships finds what is hot by its load.
fn claim(stream: &str, outcomes: &[Outcome]) -> Claim {
    let of = |detector: &str| {
        let place = DETECTORS.iter().position(|name| *name == detector);
        outcomes[place.expect("a detector of the list")].scores[0].recall()
    };
    let recall = of(SSM);
    Claim::new(
        &format!("{stream}: the SSM cache as shipped finds what is hot by load"),
        &format!("ours: at least {ENOUGH}"),
        recall.map_or("nothing is hot".to_owned(), |recall| format!("{recall:.3}")),
        recall.map(|recall| recall >= ENOUGH),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Scale;
    use evenkeel_workload::rng::{below, stream, unit};

    /// Counts everything.
    #[derive(Default)]
    pub(super) struct Exact(HashMap<KeyHash, f64>);

    impl Exact {
        pub fn read(&mut self, key: &Key, weight: f64) {
            *self.0.entry(key.hash).or_default() += weight;
        }

        pub fn forget_half(&mut self) {
            self.0.values_mut().for_each(|count| *count /= 2.0);
        }

        pub fn total(&self) -> f64 {
            self.0.values().sum()
        }

        pub fn count(&self, hash: KeyHash) -> f64 {
            self.0.get(&hash).copied().unwrap_or(0.0)
        }

        pub fn hashes(&self) -> Vec<KeyHash> {
            self.0.keys().copied().collect()
        }
    }

    /// Reads of different weights, of keys by Zipf's law of exponent one, near enough.
    pub(super) fn reads(count: usize) -> Vec<(Key, f64)> {
        let seed = 7;
        println!("seed {seed}");
        let mut random = stream(seed, 0);
        let mut read = || {
            let rank = 3_000f64.powf(unit(&mut random)) as u64;
            let weight = [0.5, 1.0, 3.0][below(&mut random, 3) as usize];
            (Key::new(format!("key{rank}").as_bytes()), weight)
        };
        (0..count).map(|_| read()).collect()
    }

    #[test]
    fn answers_are_held_against_the_truth() {
        let hash = KeyHash;
        let truth = HashMap::from([
            (hash(1), 50.0),
            (hash(2), 2.0),
            (hash(3), 0.6),
            (hash(4), 0.1),
        ]);
        let said = [(1, 0.5), (3, 0.02), (4, 0.02), (2, 0.001)].map(|(key, share)| Counted {
            hash: hash(key),
            share,
        });
        let mut score = Score::default();
        score.add(&said, &truth, 100.0);
        // Of 1 and 2 the first was found; of 1, 3 and 4 the last is far from hot.
        assert_eq!(score.recall(), Some(0.5));
        assert_eq!(score.precision(), Some(2.0 / 3.0));
        assert_eq!(Score::default().recall(), None);
    }

    #[test]
    fn what_ships_finds_the_hot_keys_of_zipf() {
        let report = detection(&DETECTION, &Run::silent(Scale::Quick, Mode::Sim)).expect("it runs");
        println!("{}", report.to_text());
        // Where other keys become hot it is a matter of when one asks.
        for name in ["Zipf 0.99:", "Zipf 1.2:"] {
            let of_name = |claim: &&Claim| claim.what.starts_with(name);
            let claim = report.claims.iter().find(of_name).expect("a claim");
            assert_eq!(claim.holds, Some(true), "{}: {}", claim.what, claim.ours);
        }
    }
}
