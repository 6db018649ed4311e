//! What the server's search for hot keys misses: its sampled SSM cache as it ships, held against exact counts.
//!
//! One worker's reads, 10,000 a virtual second. A key is hot from a hundredth of the last two seconds' load on. What has
//! half as much again must be found, and what has less than half of it must not be said to be hot; what is between is
//! hot by one average and not by another. docs/experiments/hot-detection.md compares it with other detectors.

use evenkeel_balance::load::{TriggerConfig, cost_of};
use evenkeel_hotkeys::config::{HotKeysConfig, ssm_entries};
use evenkeel_hotkeys::server::{HotKeys, Reader};
use evenkeel_types::{Instant, KeyHash};
use evenkeel_workload::{Operation, Request, WorkloadSpec};
use std::collections::{HashMap, VecDeque};

const READS_PER_SECOND: u64 = 10_000;
const SECONDS: u64 = 10;
/// Seconds that count, and seconds before the first question.
const COUNTED: usize = 2;
const WARM_UP: u64 = 4;

/// Share from which on a key is hot, from which on it must be said to be, and below which it must not.
const HOT: f64 = 0.01;
const CLEARLY_HOT: f64 = 0.015;
const NOT_HOT: f64 = 0.005;

/// Recall and precision of a worker with the settings of a server of one worker, on reads of a workload in words.
fn recall_and_precision(words: &str) -> (f64, f64) {
    let seed = 1;
    println!("{words}, seed {seed}");
    let mut spec: WorkloadSpec = words.parse().expect("a workload");
    spec.seed = seed;
    let workload = spec.build().expect("it can be drawn");
    let mut requests = workload.stream(0, 1);
    let config = HotKeysConfig {
        entries_max: ssm_entries(1),
        // It looks whatever its load.
        trigger: TriggerConfig {
            absolute_rps: Some(0.0),
            ..TriggerConfig::default()
        },
        ..HotKeysConfig::default()
    };
    let mut hot = HotKeys::new(config, seed, Instant(0)).expect("settings as shipped");
    hot.handle_timeout(hot.poll_deadline());
    let mut request = Request::default();
    let mut seconds: VecDeque<HashMap<KeyHash, f64>> = VecDeque::new();
    let (mut clearly_hot, mut found, mut said, mut right) = (0, 0, 0, 0);
    let mut read = 0;
    for second in 0..SECONDS {
        seconds.push_back(HashMap::new());
        while seconds.len() > COUNTED {
            seconds.pop_front();
        }
        while read < (second + 1) * READS_PER_SECOND {
            let at = read * (1_000_000_000 / READS_PER_SECOND);
            requests.next(at, &mut request);
            if request.operation != Operation::Get {
                continue;
            }
            for key in request.keys.iter() {
                let now = Instant(at);
                if now >= hot.poll_deadline() {
                    hot.handle_timeout(now);
                }
                let hash = KeyHash::of(key);
                let bytes = request.value_len as usize + key.len();
                if !hot.pass_read(bytes) {
                    hot.handle_read(now, hash, key, Reader::Unaware, Some(bytes));
                }
                let counts = seconds.back_mut().expect("it has begun");
                *counts.entry(hash).or_default() += cost_of(bytes);
                read += 1;
            }
        }
        if second < WARM_UP {
            continue;
        }
        let mut truth: HashMap<KeyHash, f64> = HashMap::new();
        for (&hash, cost) in seconds.iter().flatten() {
            *truth.entry(hash).or_default() += cost;
        }
        let total: f64 = truth.values().sum();
        let share = |hash: &KeyHash| truth.get(hash).map_or(0.0, |cost| cost / total);
        let listed = hot.list().into_iter();
        let answer: Vec<KeyHash> = listed
            .filter(|info| info.load / hot.load() >= HOT)
            .map(|info| KeyHash::of(&info.key))
            .collect();
        for hash in truth.keys().filter(|hash| share(hash) >= CLEARLY_HOT) {
            clearly_hot += 1;
            found += u32::from(answer.contains(hash));
        }
        said += answer.len();
        right += answer.iter().filter(|hash| share(hash) >= NOT_HOT).count();
    }
    assert!(clearly_hot > 0 && said > 0, "nothing is hot");
    let (recall, precision) = (
        f64::from(found) / f64::from(clearly_hot),
        right as f64 / said as f64,
    );
    println!("recall {recall:.3}, precision {precision:.3}");
    (recall, precision)
}

const ZIPF: &str = "default keys=1M mix=mix(get=1) value-size=etc";

#[test]
fn what_stays_hot_is_found() {
    for words in [
        format!("{ZIPF} popularity=zipf(0.99)"),
        format!("{ZIPF} popularity=zipf(1.2)"),
        "twitter(4)".to_owned(),
    ] {
        let (recall, precision) = recall_and_precision(&words);
        assert!(recall >= 0.95 && precision >= 0.95);
    }
}

/// A key that becomes hot has to be sampled again before the cache has forgotten it.
#[test]
fn nearly_all_is_found_of_what_is_hot_for_five_seconds() {
    let words = format!("{ZIPF} popularity=zipf(0.99) reshuffle=5s");
    let (recall, precision) = recall_and_precision(&words);
    assert!(recall >= 0.85 && precision >= 0.95);
}
