//! `evenkeel profile` over files that the test writes: what they are made of is what is shown.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use evenkeel_profile::{Flags, Head, Lifetime, RECORD_LEN, RackOfHead, Record, Sampling};
use evenkeel_schemes::locality::Outcome;
use evenkeel_testkit::seed;
use evenkeel_types::random::SplitMix64;
use serde_json::Value;
use tempfile::TempDir;

const SESSIONS: u64 = 120;
const PAGES: u64 = 10;
/// Of 20 commands of a page, 5 are stores, one a delete, 11 hits and 3 misses; 12 are for keys of the session.
const COMMANDS: u64 = 20;
const SWITCH_MS: f64 = 0.8;
const BASE_MS: f64 = 2.0;

fn head(proxy: &str, own_rack: &str) -> Head {
    let rack = |name: &str| RackOfHead {
        name: name.to_owned(),
        is_central: name == "core",
    };
    // The own rack comes first: numbers differ from file to file.
    let mut racks = ["a", "b", "core"].map(rack).to_vec();
    racks.sort_by_key(|rack| rack.name != own_rack);
    Head {
        record_len: RECORD_LEN,
        proxy: proxy.to_owned(),
        sampling: Sampling::FULL,
        racks,
        own_rack: Some(own_rack.to_owned()),
        pools: vec!["main".to_owned()],
    }
}

/// What sessions of a rack do: even ones are a's, odd ones b's.
fn records(head: &Head, of: u64, random: &mut SplitMix64) -> Vec<Record> {
    let hash = |n: u64| SplitMix64::new(n).next_u64();
    let number = |name: &str| {
        let rack = head.racks.iter().position(|rack| rack.name == name);
        rack.expect("one of three") as u8
    };
    let mut records = Vec::new();
    for page in 0..PAGES {
        for session in (0..SESSIONS).filter(|session| session % 2 == of) {
            for command in 0..COMMANDS {
                let key = match command % 5 {
                    0..3 => hash(1000 + session * 8 + command / 5),
                    _ => hash(random.below(40)),
                };
                let own = head.own_rack.clone().expect("it has one");
                let rack = ["a", "b", "core"][(key % 3) as usize];
                let switches = match (&own[..], rack) {
                    (own, rack) if own == rack => 1.0,
                    (_, "core") => 2.0,
                    _ => 3.0,
                };
                let lost = if random.below(200) == 0 { 200.0 } else { 0.0 };
                let noise = random.unit() * 0.05;
                let latency = switches * SWITCH_MS + BASE_MS + noise + lost;
                let (outcome, request_bytes, answer_bytes) = match command {
                    0..5 => (Outcome::SetHit, 1040, 8),
                    5 => (Outcome::DeleteHit, 22, 9),
                    6..17 => (Outcome::GetHit, 20, 1000),
                    _ => (Outcome::GetMiss, 20, 5),
                };
                let time = (page * SESSIONS + session) * 1_000_000 + command * 3000;
                records.push(Record {
                    unix_us: 1_700_000_000_000_000 + time,
                    lifetime: Lifetime::FOREVER,
                    key,
                    session: hash(session ^ 0x5e55),
                    page: page as u32,
                    client: of as u32,
                    pool: 0,
                    request_bytes,
                    answer_bytes,
                    latency_us: (latency * 1000.0) as u32,
                    own_rack: number(&own),
                    answering_rack: number(rack),
                    outcome,
                    flags: Flags::OF_PAGES.and(Flags::OF_KEYS),
                });
            }
        }
    }
    records
}

fn write(folder: &TempDir, name: &str, head: &Head, records: &[Record]) -> PathBuf {
    let mut bytes = head.to_bytes().expect("its names are short");
    bytes.extend(records.iter().flat_map(Record::to_bytes));
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    path
}

/// The profiles of two proxies, and all that a run prints.
fn site(folder: &TempDir) -> [PathBuf; 2] {
    let mut random = SplitMix64::new(seed(0x39));
    [("p1", "a", 0), ("p2", "b", 1)].map(|(proxy, rack, of)| {
        let head = head(proxy, rack);
        write(folder, proxy, &head, &records(&head, of, &mut random))
    })
}

fn run(arguments: &[&str], files: &[&Path]) -> Result<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .arg("profile")
        .args(arguments)
        .args(files)
        .output()
        .expect("the program was built for this test");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    match output.status.code() {
        Some(0) => Ok(text(output.stdout)),
        Some(2) => Err(text(output.stderr)),
        code => panic!("{code:?}: {}", text(output.stderr)),
    }
}

fn value(section: &Value, name: &str) -> f64 {
    section[name]["value"]
        .as_f64()
        .unwrap_or_else(|| panic!("{name}: {section}"))
}

#[test]
fn a_report_shows_what_the_records_were_made_of() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [first, second] = site(&folder);
    let json = run(&["report", "--format", "json"], &[&first, &second]).expect("a report");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let section = &json["sections"][0];
    assert_eq!(section["pool"], "main");
    assert_eq!(section["commands"], SESSIONS * PAGES * COMMANDS);
    assert_eq!(section["sessions"], SESSIONS);
    assert_eq!(section["pages"], SESSIONS * PAGES);
    for (name, expected) in [
        ("ps", 0.6),
        ("rw_cmd", 0.7),
        ("hits", 11.0 / 14.0),
        ("object_bytes", 16_200.0 / 16.0),
        ("commands_per_page", 20.0),
        ("requests_per_page", 20.0),
        ("message_bytes", (14.0 * 20.0 + 22.0) / 15.0),
        ("network_bytes", 16_566.0 / 20.0),
        ("rw_net", 11_295.0 / 16_566.0),
    ] {
        let found = value(section, name);
        assert!(
            (found - expected).abs() < 1e-9,
            "{name}: {found}, not {expected}"
        );
    }
    for (name, expected) in [("switch_ms", SWITCH_MS), ("base_ms", BASE_MS)] {
        let found = value(section, name);
        assert!((found / expected - 1.0).abs() < 0.05, "{name}: {found}");
    }
    // Keys of a session are always near; of shared ones the last write was in either rack.
    let ps_rack = value(section, "ps_rack");
    assert!((0.75..0.85).contains(&ps_rack), "{ps_rack}");
    let mix = section["mix"].as_array().expect("a list").iter();
    let mix: Vec<(&str, f64)> = mix
        .map(|it| (it["outcome"].as_str().expect("a word"), value(it, "share")))
        .collect();
    let expected = [
        ("set hit", 0.25),
        ("delete hit", 0.05),
        ("get hit", 0.55),
        ("get miss", 0.15),
    ];
    assert_eq!(mix, expected);

    // A tenth of what is asked for, and so the largest has two fifths.
    let memory = ["report", "--memory", "main=100k"];
    let table = run(&memory, &[&first, &second]).expect("a report");
    println!("{table}");
    for words in [
        "profile of p1, p2",
        "ps ",
        "0.600",
        "delete hit",
        "core",
        "pool main: hits by memory",
        "× 0.25",
    ] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let longest = table.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{longest:?}: {table}");
}

#[test]
fn merged_profiles_say_what_they_say_together() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [first, second] = site(&folder);
    let output = folder.path().join("both");
    let into = ["merge", "--output", output.to_str().expect("text")];
    let done = run(&into, &[&first, &second]).expect("they fit together");
    assert!(done.contains("24000 records of 2 profiles"), "{done}");
    let json = ["report", "--format", "json"];
    let (apart, merged) = (run(&json, &[&first, &second]), run(&json, &[&output]));
    assert_eq!(apart.expect("a report"), merged.expect("a report"));
    let error = run(&into, &[&first]).expect_err("it is there already");
    assert!(error.contains("both: File exists"), "{error}");
}

#[test]
fn what_is_wrong_with_a_file_is_said_and_what_is_whole_is_reported() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [first, second] = site(&folder);
    let whole = std::fs::read(&first).expect("written");
    let with = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    };
    let cut_off = with("cut-off", &whole[..whole.len() - 13]);
    let table = run(&["report"], &[&cut_off]).expect("most is whole");
    let joined = table.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = "cut-off is cut off: 35 bytes at its end are no whole record";
    assert!(joined.contains(words), "{table}");
    assert!(joined.contains("all commands come from rack a"), "{table}");

    let mut broken = whole.clone();
    let at = whole.len() - 2;
    broken[at] = 77;
    let mut later = whole.clone();
    later[7] = b'2';
    let mut head_of_other = head("p3", "a");
    head_of_other.sampling.pages = 10;
    let other = write(&folder, "other", &head_of_other, &[]);
    let missing = folder.path().join("missing");
    for (files, words) in [
        (
            vec![&with("broken", &broken)],
            "broken: record 11999, at byte ",
        ),
        (vec![&with("later", &later)], "later: a profile of format 2"),
        (vec![&with("text", b"hello")], "text: no profile"),
        (vec![&with("none", b"")], "none: no profile"),
        (
            vec![&with("head", &whole[..40])],
            "head: the file ends within its head",
        ),
        (vec![&second, &other], "other: sampled differently"),
        (vec![&missing], "missing: No such file"),
    ] {
        let files: Vec<&Path> = files.iter().map(|file| file.as_path()).collect();
        let error = run(&["report"], &files).expect_err(words);
        assert!(error.contains(words), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    for (memory, words) in [
        ("other=1m", "has no pool \"other\""),
        ("main=0", "without memory"),
        ("much", "much"),
    ] {
        let error = run(&["report", "--memory", memory], &[&first]).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
    let empty = write(&folder, "empty", &head("p", "a"), &[]);
    let table = run(&["report"], &[&empty]).expect("it is a profile");
    assert!(table.contains("nothing is known"), "{table}");
}

#[test]
fn a_log_of_requests_is_reported_as_far_as_it_goes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut log = String::new();
    for n in 0..400u64 {
        // Two connections each from two addresses; a page of four requests, 5 ms apart, each second.
        let (page, request) = (n / 4, n % 4);
        let client = format!("10.0.0.{}:{}", page % 2, 4000 + page / 2 % 2);
        let time = 1_700_000_000.0 + page as f64 + request as f64 * 0.005;
        let (command, key, outcome, more) = match request {
            0 => ("get", format!("own:{}", page % 2), "hit", ""),
            1 => ("get", "all:1".to_owned(), "some", ",\"keys\":4,\"hits\":3"),
            2 => ("set", format!("own:{}", page % 2), "stored", ""),
            _ => ("mg", "all:2".to_owned(), "miss", ""),
        };
        let why = if n == 9 { "slow" } else { "sample" };
        writeln!(
            log,
            "{{\"time\":{time:.3},\"client\":\"{client}\",\"why\":\"{why}\",\"command\":\"{command}\",\"key\":\"{key}\"{more},\
             \"route\":\"1\",\"pool\":\"main\",\"outcome\":\"{outcome}\",\"request_bytes\":40,\"answer_bytes\":120,\"took_us\":700}}"
        )
        .expect("into a string");
    }
    let file = folder.path().join("log");
    std::fs::write(&file, format!("{log}{{\"time\":17")).expect("written");
    let json = run(&["from-log", "--format", "json"], &[&file]).expect("a report");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let section = &json["sections"][0];
    assert_eq!(
        (&section["sessions"], &section["pages"]),
        (&2.into(), &100.into())
    );
    assert_eq!(value(section, "requests_per_page"), 4.0);
    assert_eq!(value(section, "commands_per_page"), 7.0);
    assert!((value(section, "ps") - 2.0 / 7.0).abs() < 1e-9, "{section}");
    assert!(
        (value(section, "hits") - 4.0 / 6.0).abs() < 1e-9,
        "{section}"
    );
    let remarks = json["remarks"].to_string();
    for words in [
        "sessions are clients' addresses",
        "no racks are known",
        "--request-log-sample 1",
        "1 lines are there because they were slow",
        "100 lines are of several keys",
        "cut off within its last line",
    ] {
        assert!(remarks.contains(words), "{words}: {remarks}");
    }

    std::fs::write(&file, format!("{log}{{\"time\":17\n")).expect("written");
    let error = run(&["from-log"], &[&file]).expect_err("the last line is broken");
    assert!(error.contains("line 401: no line of a log"), "{error}");
}
