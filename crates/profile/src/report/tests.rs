use super::*;
use crate::curve::Curves;
use crate::head::RackOfHead;
use crate::lifetime::Lifetime;
use crate::record::{NO_LATENCY, NO_RACK, RECORD_LEN};
use crate::sampling::Sampling;
use evenkeel_schemes::locality::Outcome;
use evenkeel_testkit::seed;
use evenkeel_types::random::SplitMix64;
use std::collections::{BTreeMap, BTreeSet};

/// Racks a and b, and core on the backbone; pools main and other.
pub(crate) fn head() -> Head {
    let rack = |name: &str, is_central| RackOfHead {
        name: name.to_owned(),
        is_central,
    };
    Head {
        record_len: RECORD_LEN,
        proxy: "proxy-1".to_owned(),
        sampling: Sampling::FULL,
        racks: vec![rack("a", false), rack("b", false), rack("core", true)],
        own_rack: Some("a".to_owned()),
        pools: vec!["main".to_owned(), "other".to_owned()],
    }
}

/// Any record, of a number.
pub(crate) fn record(number: u64) -> Record {
    let mut random = SplitMix64::new(number);
    Record {
        unix_us: 1_700_000_000_000_000 + number * 100 + random.below(90),
        lifetime: Lifetime::FOREVER,
        key: random.below(400),
        session: random.below(200) << 32,
        page: random.below(3) as u32,
        client: 7,
        pool: random.below(2) as u8,
        request_bytes: random.below(1000) as u32,
        answer_bytes: random.below(1000) as u32,
        latency_us: match random.below(20) {
            0 => NO_LATENCY,
            _ => 500 + random.below(3000) as u32,
        },
        own_rack: random.below(3) as u8,
        answering_rack: match random.below(10) {
            0 => NO_RACK,
            rack => (rack % 3) as u8,
        },
        outcome: Outcome::ALL[random.below(21) as usize],
        flags: Flags::OF_PAGES.and(Flags::OF_KEYS),
    }
}

fn summary_of<'a>(head: Head, records: impl IntoIterator<Item = &'a Record>) -> Summary {
    let mut report = Report::new(head);
    records.into_iter().for_each(|record| report.add(record));
    report.summary()
}

/// Twin: all records are there, each quantity is found by its definition.
fn by_definition(records: &[&Record], racks: &[RackOfHead]) -> Measured {
    let share = |is: &dyn Fn(&Record) -> bool| {
        let them = records.iter().filter(|record| is(record)).count();
        them as f64 / records.len() as f64
    };
    let mean = |of: &dyn Fn(&Record) -> Option<u32>| {
        let them: Vec<f64> = records
            .iter()
            .filter_map(|r| of(r))
            .map(f64::from)
            .collect();
        Some(them.iter().sum::<f64>() / them.len() as f64)
    };
    let is = |record: &Record, words: &[&str]| words.contains(&record.outcome.word());
    let bytes = |record: &Record| f64::from(record.request_bytes + record.answer_bytes);
    let total: f64 = records.iter().map(|record| bytes(record)).sum();
    let read = records.iter().filter(|record| record.outcome.is_read());

    let mut sessions: BTreeMap<(u8, u64), BTreeSet<u64>> = BTreeMap::new();
    let keyed: Vec<&&Record> = records.iter().filter(|r| !is(r, &["flush"])).collect();
    for record in &keyed {
        let of_key = sessions.entry((record.pool, record.key)).or_default();
        of_key.insert(record.session);
    }
    let private = |r: &&&&Record| sessions[&(r.pool, r.key)].len() == 1;
    let ps = keyed.iter().filter(private).count() as f64 / keyed.len() as f64;

    let mut last_write: BTreeMap<(u8, u64), u8> = BTreeMap::new();
    let mut here = 0;
    let writes = [
        "set hit",
        "add hit",
        "replace hit",
        "delete hit",
        "incr hit",
        "decr hit",
        "append/prepend hit",
        "cas stored",
    ];
    for record in &keyed {
        let rack = last_write.entry((record.pool, record.key));
        let rack = rack.or_insert(record.own_rack);
        here += usize::from(*rack == record.own_rack);
        if is(record, &writes) {
            *rack = record.own_rack;
        }
    }

    let mut pages: BTreeMap<(u64, u32), Vec<&Record>> = BTreeMap::new();
    for record in records {
        let page = pages.entry((record.session, record.page)).or_default();
        page.push(record);
    }
    // Times of the twin's records are all different.
    let per_page = records.len() as f64 / pages.len() as f64;

    let mut latencies: BTreeMap<(u8, u8), Vec<u32>> = BTreeMap::new();
    for record in records {
        let known = racks.len() > usize::from(record.answering_rack);
        if let Some(latency) = record.latency().filter(|_| known) {
            let n = match (record.own_rack, record.answering_rack) {
                (own, answering) if own == answering => 1,
                (2, _) | (_, 2) => 2,
                _ => 3,
            };
            let of_rack = latencies.entry((record.answering_rack, n)).or_default();
            of_rack.push(latency);
        }
    }
    // Least squares with as many equal points as there are commands.
    let mut points: Vec<(f64, f64)> = Vec::new();
    for ((_, n), mut of_rack) in latencies {
        of_rack.sort_unstable();
        let median = of_rack[of_rack.len().div_ceil(2) - 1];
        let point = (f64::from(n), f64::from(median) / 1000.0);
        points.extend(of_rack.iter().map(|_| point));
    }
    let count = points.len() as f64;
    let (n, l) = points.iter().fold((0.0, 0.0), |sum, point| {
        (sum.0 + point.0 / count, sum.1 + point.1 / count)
    });
    let product: f64 = points
        .iter()
        .map(|point| (point.0 - n) * (point.1 - l))
        .sum();
    let square: f64 = points.iter().map(|point| (point.0 - n).powi(2)).sum();
    let switch = product / square;

    let stores = [
        "set hit",
        "add hit",
        "replace hit",
        "append/prepend hit",
        "cas stored",
    ];
    Measured {
        shares: Outcome::ALL.map(|outcome| share(&|record| record.outcome == outcome)),
        ps: Some(ps),
        ps_rack: Some(here as f64 / keyed.len() as f64),
        rw_cmd: Some(share(&|record| record.outcome.is_read())),
        rw_net: Some(read.map(|record| bytes(record)).sum::<f64>() / total),
        hits: Some(share(&|r| is(r, &["get hit"])) / share(&|record| record.outcome.is_read())),
        object_bytes: mean(&|record| match record.outcome {
            Outcome::GetHit => Some(record.answer_bytes),
            _ => is(record, &stores).then_some(record.request_bytes),
        }),
        network_bytes: Some(total / records.len() as f64),
        message_bytes: mean(&|record| {
            let short = ["get hit", "get miss", "delete hit", "delete miss"];
            is(record, &short).then_some(record.request_bytes)
        }),
        commands_per_page: Some(per_page),
        requests_per_page: Some(per_page),
        latency_ms: mean(&Record::latency).map(|us| us / 1000.0),
        switch_ms: Some(switch),
        base_ms: Some(l - switch * n),
    }
}

fn assert_same(left: &Measured, right: &Measured) {
    let flat = |measured: &Measured| {
        let value = serde_json::to_value(measured).expect("it is plain");
        let fields = value.as_object().expect("it has fields").clone();
        fields.into_iter().flat_map(|(name, value)| {
            let values = value.as_array().cloned().unwrap_or(vec![value]);
            values.into_iter().map(move |value| (name.clone(), value))
        })
    };
    for ((name, left), (_, right)) in flat(left).zip(flat(right)) {
        let (left, right) = (left.as_f64(), right.as_f64());
        let same = match (left, right) {
            (Some(left), Some(right)) => (left - right).abs() < 1e-9,
            (left, right) => left == right,
        };
        assert!(same, "{name}: {left:?}, {right:?}");
    }
}

#[test]
fn sums_say_what_the_definitions_say_of_all_pools_and_of_each() {
    let from = seed(0x41) << 20;
    let records: Vec<Record> = (from..from + 6000).map(record).collect();
    let summary = summary_of(head(), &records);
    assert_eq!(summary.records, 6000);
    let names: Vec<_> = summary.sections.iter().map(|s| s.pool.as_deref()).collect();
    assert_eq!(names, [None, Some("main"), Some("other")]);
    for section in &summary.sections {
        let of_pool = |record: &&Record| {
            let pool = &head().pools[usize::from(record.pool)];
            section.pool.as_ref().is_none_or(|wanted| wanted == pool)
        };
        let them: Vec<&Record> = records.iter().filter(of_pool).collect();
        assert_eq!(section.commands, them.len() as u64);
        assert_same(&section.measured, &by_definition(&them, &head().racks));
        assert_eq!(section.resamples.len(), 100);
    }
    assert_eq!(
        summary_of(head(), &records),
        summary,
        "chance is from a fixed seed"
    );
}

/// Sessions that each have a rack and keys of their own, and share hot and cold keys with all.
struct Site {
    sessions: u64,
    pages: u64,
    /// Milliseconds.
    switch: f64,
    base: f64,
}

impl Site {
    /// Of 16 commands of a page, 9 are for one of the session's ten keys; 6 for one of 50 keys that all share, one for one of 20,000.
    fn each_record(&self, seed: u64, mut take: impl FnMut(Record)) {
        let mut random = SplitMix64::new(seed);
        let mut time = 1_700_000_000_000_000;
        for page in 0..self.pages {
            for session in 0..self.sessions {
                // Thinner sessions come more seldom.
                if session % 3 != 0 && page % 2 == 1 {
                    continue;
                }
                for command in 0..16 {
                    let key = match command {
                        0..9 => 1_000_000 + session * 10 + random.below(10),
                        9..15 => random.below(50),
                        _ => 1000 + random.below(20_000),
                    };
                    time += 20;
                    take(self.record(time, session, page, key, &mut random));
                }
            }
        }
    }

    fn record(
        &self,
        time: u64,
        session: u64,
        page: u64,
        key: u64,
        random: &mut SplitMix64,
    ) -> Record {
        let hash = |n: u64| SplitMix64::new(n).next_u64();
        let (own_rack, answering_rack) = ((session % 2) as u8, (hash(key) % 3) as u8);
        let switches = match (own_rack, answering_rack) {
            (own, answering) if own == answering => 1.0,
            (_, 2) => 2.0,
            _ => 3.0,
        };
        // Waiting that is mostly short, and one in a hundred that is lost on the way.
        let noise = 1.0 + random.unit() * 0.02;
        let lost = if random.below(100) == 0 { 200.0 } else { 0.0 };
        let latency = (switches * self.switch + self.base) * noise + lost;
        Record {
            unix_us: time,
            lifetime: Lifetime::FOREVER,
            key: hash(key),
            session: hash(session),
            page: page as u32,
            client: 1,
            pool: 0,
            request_bytes: 40,
            answer_bytes: 900,
            latency_us: (latency * 1000.0) as u32,
            own_rack,
            answering_rack,
            outcome: Outcome::GetHit,
            flags: Flags::default(),
        }
    }

    fn report(&self, seed: u64, sampling: Sampling, keys_max: usize) -> Summary {
        let head = Head {
            sampling,
            pools: vec!["main".to_owned()],
            ..head()
        };
        let mut report = Report::bounded(head, keys_max, PAGES_MAX);
        self.each_record(seed, |mut record| {
            let of_pages = sampling.picks_page(record.session, record.page);
            let of_keys = sampling.picks_key(record.key);
            if of_pages || of_keys {
                record.flags = Flags::OF_PAGES
                    .when(of_pages)
                    .and(Flags::OF_KEYS.when(of_keys));
                report.add(&record);
            }
        });
        report.summary()
    }
}

fn sampled(one_of: u32, seed: u64) -> Sampling {
    Sampling {
        seed,
        pages: one_of,
        keys: one_of,
    }
}

#[test]
fn one_in_a_hundred_pages_and_keys_says_whose_keys_are_as_all_do() {
    let seed = seed(0x42);
    let site = Site {
        sessions: 4000,
        pages: 12,
        switch: 1.0,
        base: 1.5,
    };
    let full = site.report(seed, Sampling::FULL, KEYS_MAX);
    let ps = full.sections[0].ps.expect("keys").value;
    // 9 of 16, and what is cold.
    assert!((0.56..0.60).contains(&ps), "{ps}");
    for other in 0..6 {
        let some = site.report(seed, sampled(100, seed + other), KEYS_MAX);
        let figure = some.sections[0].ps.expect("keys");
        println!("ps {ps:.4}, of the sample {figure:?}");
        assert!((figure.value - ps).abs() < 0.02, "{figure:?}, not {ps}");
    }
}

#[test]
fn more_keys_than_are_followed_say_so_and_little_else_changes() {
    let seed = seed(0x43);
    let site = Site {
        sessions: 1000,
        pages: 8,
        switch: 1.0,
        base: 1.5,
    };
    let full = site.report(seed, Sampling::FULL, KEYS_MAX);
    let some = site.report(seed, Sampling::FULL, 4000);
    let ps = |summary: &Summary| summary.sections[0].ps.expect("keys").value;
    assert!(
        (ps(&full) - ps(&some)).abs() < 0.03,
        "{}, {}",
        ps(&full),
        ps(&some)
    );
    assert_eq!(full.sections[0].mix, some.sections[0].mix);
    let words = "there are too many keys to follow: one of 4 is";
    assert!(
        some.remarks.iter().any(|remark| remark == words),
        "{:?}",
        some.remarks
    );
}

#[test]
fn known_delays_are_found_within_a_twentieth_though_some_are_lost() {
    for (switch, base) in [(1.0, 1.5), (0.11, 4.4), (10.0, 0.3)] {
        let site = Site {
            sessions: 300,
            pages: 20,
            switch,
            base,
        };
        let summary = site.report(seed(0x44), sampled(4, 9), KEYS_MAX);
        let section = &summary.sections[0];
        let found = (
            section.switch_ms.expect("distances"),
            section.base_ms.expect("distances"),
        );
        println!("{switch} + {base}: {found:?}");
        // The noise is 1 % of a latency on average.
        assert!((found.0.value / switch - 1.0).abs() < 0.05, "{found:?}");
        assert!((found.1.value / base - 1.0).abs() < 0.05, "{found:?}");
        let (low, high) = found.0.spread.expect("sessions");
        assert!(low <= found.0.value && found.0.value <= high);
        assert!(high - low < 0.1 * switch, "{found:?}");
        let of_distance = section.distances.iter().map(|it| it.switches);
        assert_eq!(of_distance.collect::<Vec<_>>(), [1, 2, 3]);
    }
}

#[test]
fn what_cannot_be_known_is_named() {
    let remarks = |records: &[Record]| summary_of(head(), records).remarks.join("\n");
    let one = |change: &dyn Fn(&mut Record)| -> Vec<Record> {
        let mut records: Vec<Record> = (0..200).map(record).collect();
        records.iter_mut().for_each(change);
        records
    };
    let empty = summary_of(head(), &[]);
    assert_eq!(empty.remarks, ["there are no records: nothing is known"]);
    assert_eq!(empty.sections[0].ps, None);

    let words = remarks(&one(&|r| r.outcome = Outcome::GetMiss));
    assert!(words.contains("no get found anything"), "{words}");
    let words = remarks(&one(&|r| r.own_rack = 0));
    assert!(words.contains("all commands come from rack a"), "{words}");
    let words = remarks(&one(&|r| {
        (r.own_rack, r.answering_rack) = (NO_RACK, NO_RACK)
    }));
    assert!(words.contains("no racks are known"), "{words}");
    let words = remarks(&one(&|r| (r.own_rack, r.answering_rack) = (1, 1)));
    assert!(
        words.contains("passed 1 switch: base and switch cannot"),
        "{words}"
    );
    let words = remarks(&one(&|r| r.session = 7));
    assert!(words.contains("no session was named"), "{words}");
    assert!(words.contains("there is one session"), "{words}");
    let words = remarks(&one(&|r| r.flags = Flags::OF_KEYS));
    assert!(words.contains("no pages were recorded"), "{words}");
    let mut backwards: Vec<Record> = (0..200).map(|n| record(n * 1000)).collect();
    assert!(!remarks(&backwards).contains("backwards"));
    backwards.reverse();
    let words = remarks(&backwards);
    assert!(
        words.contains("times run backwards by up to 19.9 s"),
        "{words}"
    );
}

#[test]
fn keys_in_one_sample_alone_say_what_that_sample_can() {
    let site = Site {
        sessions: 200,
        pages: 6,
        switch: 1.0,
        base: 1.0,
    };
    let pages = Sampling {
        keys: 0,
        ..sampled(5, 3)
    };
    let of_pages = site.report(1, pages, KEYS_MAX);
    assert_eq!(of_pages.sections[0].ps, None);
    assert!(
        of_pages
            .remarks
            .iter()
            .any(|it| it.starts_with("no keys were recorded"))
    );
    let keys = Sampling {
        pages: 0,
        ..sampled(5, 3)
    };
    let of_keys = site.report(1, keys, KEYS_MAX);
    assert!(of_keys.sections[0].ps.is_some());
    assert_eq!(of_keys.sections[0].commands_per_page, None);
    assert!(
        of_keys
            .remarks
            .iter()
            .any(|it| it.starts_with("no pages were recorded"))
    );
}

#[test]
fn gets_that_are_answered_together_are_one_request() {
    let mut records: Vec<Record> = (0..6).map(record).collect();
    for (number, one) in records.iter_mut().enumerate() {
        (one.session, one.page, one.pool) = (5, 1, 0);
        one.unix_us = 10 + number as u64 / 3;
        one.outcome = Outcome::GetHit;
    }
    let section = &summary_of(head(), &records).sections[0];
    assert_eq!(section.commands_per_page.map(|it| it.value), Some(6.0));
    assert_eq!(section.requests_per_page.map(|it| it.value), Some(2.0));
    assert_eq!((section.pages, section.sessions), (1, 1));
}

#[test]
fn whatever_a_file_holds_there_is_a_report() {
    let mut random = SplitMix64::new(seed(0x45));
    for round in 0..40 {
        let mut part = || match random.below(3) {
            0 => 0,
            1 => random.below(4) as u32,
            _ => u32::MAX,
        };
        let sampling = Sampling {
            seed: 1,
            pages: part(),
            keys: part(),
        };
        let mut head = Head { sampling, ..head() };
        head.pools.truncate(round % 3);
        let mut report = Report::bounded(head.clone(), 50, 50);
        let mut curves = Curves::bounded(&head, |_| (round % 2 == 0).then_some(u64::MAX), 50);
        for _ in 0..3000 {
            let mut bytes = [0; RECORD_LEN];
            bytes.fill_with(|| match round % 4 {
                0 => u8::MAX,
                1 => random.below(2) as u8,
                _ => random.next_u64() as u8,
            });
            bytes[46] = random.below(21) as u8;
            let record = Record::of_bytes(&bytes).expect("its outcome is one");
            report.add(&record);
            curves.add(&record);
        }
        let summary = report.summary();
        assert_eq!(summary.records, 3000);
        // JSON has no word for what is no number.
        let shares = summary
            .sections
            .iter()
            .flat_map(|section| section.measured.shares);
        assert!(shares.into_iter().all(f64::is_finite));
        let points = curves.curves().into_iter().flat_map(|curve| curve.points);
        assert!(
            points
                .into_iter()
                .all(|it| it.lru.share.is_finite() && it.lru.error.is_finite())
        );
    }
}
