//! The same bytes to a real memcached and to us, and the answers compared byte for byte.
//!
//! The texts lie in `transcripts/`; `src/transcript.rs` explains their format and what little is
//! normalised. `EVENKEEL_SHOW_TRANSCRIPTS=1` with `--nocapture` prints what memcached says to each
//! case. Every file gets processes of its own, and so does every way of cutting the bytes.

use std::any::Any;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use evenkeel_conformance::exchange::{Split, exchange, seed};
use evenkeel_conformance::transcript::{Case, Part, Taken, Transcript, compare, escape, parse};
use evenkeel_testkit::racks::{Architecture, Racks, RacksOptions};
use evenkeel_testkit::{Cluster, ClusterOptions, Memcached, evenkeel};

/// After so many cases that did not end, the rest is not run: each takes the whole timeout.
const UNFINISHED_MAX: usize = 5;

/// Longest text of one answer in a report.
const SHOWN_MAX: usize = 600;

/// One worker and no background threads: those hold items at times, and memcached counts in place
/// (and pads the number) only while nobody does.
const MEMCACHED_FLAGS: [&str; 4] = ["-t", "1", "-o", "no_lru_maintainer,no_lru_crawler"];

/// Cases that differ where one of several racks holds an item, and why.
const NOT_IN_RACKS: [(&str, &str); 9] = [
    ("a time of the largest size", VIVIFIES),
    ("many flags that are good", VIVIFIES),
    ("N makes an item on a miss and one client wins", VIVIFIES),
    ("N with every flag", VIVIFIES),
    ("an item made on a miss gets its time at once", VIVIFIES),
    ("an item made by a miss was fetched by it", VIVIFIES),
    ("append makes the item when N says so", VIVIFIES),
    (
        "touch and counting on a stale item",
        "anyone who looks for the item is told to replace it",
    ),
    ("cas with nought", "servers without uniques are not used"),
];

const VIVIFIES: &str = "what mg and ms make of nothing with N cannot take the place of a lock";

/// Cases that differ in a pool that is warmed, and why.
const NOT_WHILE_WARMED: [(&str, &str); 3] = [
    (
        "touch and counting on a stale item",
        "anyone who looks for the item is told to replace it",
    ),
    (
        "touching fetches, counting in place does not",
        "who looks for the item fetches it",
    ),
    ("cas with nought", "servers without uniques are not used"),
];

/// The same where notes or items have names of ours.
const NOT_WITH_NAMES: [&str; 2] = ["a key of 250 bytes", "meta keys of 250 and 251 bytes"];

/// The same where items have.
const NOT_WITH_NAMES_OF_ITEMS: &str = "base64 of 250 bytes and more";

/// The same where two keys may be at two servers, which may give both the same unique.
const NOT_WITH_SEVERAL_SERVERS: &str = "gets gives the same unique as long as nothing changes";

fn memcached(flags: &[String]) -> Memcached {
    let flags = flags.iter().map(String::as_str);
    Memcached::spawn(&MEMCACHED_FLAGS.into_iter().chain(flags).collect::<Vec<_>>())
}

fn transcripts() -> Vec<(String, Transcript)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .expect("the transcripts are there")
        .map(|entry| entry.expect("listed").path())
        .collect();
    files.sort();
    assert!(files.len() > 5, "the transcripts are there");
    files
        .into_iter()
        .map(|file| {
            let name = file
                .file_name()
                .expect("a file has a name")
                .to_string_lossy()
                .into_owned();
            let text = fs::read_to_string(&file).expect("a transcript is text");
            let transcript = parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, transcript)
        })
        .collect()
}

/// What is compared with memcached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Another memcached: shows that the transcripts themselves say the same every time.
    Memcached,
    /// `evenkeel server`.
    Server,
    /// `evenkeel proxy` with a coordinator and one `evenkeel server`.
    Proxy,
    /// `evenkeel proxy` in front of a memcached.
    ProxyToMemcached,
    /// One in front of memcacheds in three racks; while the architecture takes the place of another, where one is said.
    ProxyToRacks(Option<Architecture>, Architecture),
}

/// Processes that end with the value.
struct Running {
    address: SocketAddr,
    _processes: Box<dyn Any>,
}

impl Running {
    fn new(address: SocketAddr, processes: impl Any) -> Running {
        Running {
            address,
            _processes: Box::new(processes),
        }
    }
}

impl Target {
    fn start(self, flags: &[String]) -> Running {
        let words: Vec<&str> = flags.iter().map(String::as_str).collect();
        match self {
            Target::Memcached => {
                let memcached = memcached(flags);
                Running::new(memcached.address(), memcached)
            }
            Target::Server => {
                let server = evenkeel::server(&words);
                Running::new(server.address(), server)
            }
            Target::Proxy => {
                let cluster = Cluster::start(ClusterOptions {
                    servers: 1,
                    proxies: 1,
                    ..ClusterOptions::nobody_dies()
                        .with_server_args(&words)
                        .with_proxy_args(&["--allow-flush"])
                });
                Running::new(cluster.proxies[0].address(), cluster)
            }
            Target::ProxyToMemcached => {
                let memcached = memcached(flags);
                let address = memcached.address().to_string();
                let proxy = evenkeel::proxy(
                    &[
                        &["-s", &address, "--allow-flush"],
                        &evenkeel::LONG_TIMEOUTS[..],
                    ]
                    .concat(),
                );
                Running::new(proxy.address(), (proxy, memcached))
            }
            Target::ProxyToRacks(former, architecture) => {
                let racks = Racks::start(&RacksOptions {
                    flags: [&MEMCACHED_FLAGS[2..], &words]
                        .concat()
                        .iter()
                        .map(|it| (*it).to_owned())
                        .collect(),
                    former,
                    architecture,
                    ..RacksOptions::default()
                });
                Running::new(racks.address(0), racks)
            }
        }
    }

    /// Whether it is to answer a case as memcached does.
    fn answers(self, case: &Case) -> bool {
        let is = |architectures: &[Architecture]| match self {
            Target::ProxyToRacks(_, architecture) => architectures.contains(&architecture),
            _ => false,
        };
        let name = case.name.as_str();
        let has = |cases: &[(&str, &str)]| cases.iter().any(|(differing, _)| *differing == name);
        let is_warmed = matches!(self, Target::ProxyToRacks(Some(_), Architecture::Sds));
        let differs = is(&[Architecture::Snoop, Architecture::Dir]) && has(&NOT_IN_RACKS)
            || is_warmed && has(&NOT_WHILE_WARMED);
        let has_names = matches!(self, Target::ProxyToRacks(Some(_), _));
        let is_too_long = (has_names || is(&[Architecture::Dir])) && NOT_WITH_NAMES.contains(&name)
            || has_names && name == NOT_WITH_NAMES_OF_ITEMS;
        let is_elsewhere = is(&[Architecture::Sds]) && name == NOT_WITH_SEVERAL_SERVERS;
        (case.through_proxy || !self.is_proxy()) && !differs && !is_too_long && !is_elsewhere
    }

    fn is_proxy(self) -> bool {
        !matches!(self, Target::Memcached | Target::Server)
    }
}

/// What one server answered to a case.
struct Answers {
    requests: Vec<Vec<u8>>,
    answers: Vec<Vec<u8>>,
    taken: Taken,
    /// Why the case could not be finished.
    problem: Option<String>,
}

fn run(case: &Case, address: SocketAddr, split: Split) -> Answers {
    let mut run = Answers {
        requests: Vec::new(),
        answers: Vec::new(),
        taken: Taken::new(),
        problem: None,
    };
    for connection in &case.connections {
        let request = connection.request(&run.taken);
        let outcome = exchange(address, &request, split).and_then(|answer| {
            run.answers.push(answer);
            connection.keep(&run.answers[run.answers.len() - 1], &mut run.taken)
        });
        run.requests.push(request);
        if let Err(problem) = outcome {
            run.problem = Some(problem);
            break;
        }
    }
    run
}

/// Compares one case; `Some` tells what is wrong.
fn judge(case: &Case, target: Target, reference: &Answers, ours: &Answers) -> Option<String> {
    if let Some(problem) = &reference.problem {
        return Some(format!("memcached: {problem}"));
    }
    if let Some(problem) = &ours.problem {
        return Some(problem.clone());
    }
    let differs = match (case.differs, target) {
        (None, _) | (_, Target::Memcached) => false,
        (Some(Part::Server), Target::ProxyToMemcached | Target::ProxyToRacks(..)) => false,
        (Some(_), _) => true,
    };
    let expected: Vec<Vec<u8>> = if differs {
        let ours = case
            .connections
            .iter()
            .map(|connection| connection.ours.as_deref());
        ours.map(|answer| answer.unwrap_or_default().to_vec())
            .collect()
    } else {
        reference.answers.clone()
    };
    if let Err(i) = compare(&case.same, &expected, &ours.answers) {
        return Some(format!(
            "connection {i}\n  sent     {}\n  expected {}\n  got      {}",
            shown(&ours.requests, i),
            shown(&expected, i),
            shown(&ours.answers, i)
        ));
    }
    if differs && compare(&case.same, &reference.answers, &ours.answers).is_ok() {
        return Some("memcached answers the same by now: drop `differs`".to_owned());
    }
    None
}

fn shown(list: &[Vec<u8>], i: usize) -> String {
    let mut text = list
        .get(i)
        .map(|bytes| escape(bytes))
        .unwrap_or_else(|| "nothing".to_owned());
    if text.len() > SHOWN_MAX {
        let cut = (0..=SHOWN_MAX)
            .rev()
            .find(|i| text.is_char_boundary(*i))
            .unwrap_or(0);
        text.truncate(cut);
        text.push('…');
    }
    text
}

/// Runs every transcript against memcached and `target`, and reports all differences together.
fn compare_all(target: Target, split: Split) {
    let (mut report, mut cases, mut unfinished) = (String::new(), 0, 0);
    for (file, transcript) in transcripts() {
        let chosen: Vec<&Case> = transcript
            .cases
            .iter()
            .filter(|case| target.answers(case))
            .collect();
        if chosen.is_empty() {
            continue;
        }
        let reference = memcached(&transcript.flags);
        let running = target.start(&transcript.flags);
        for case in chosen {
            cases += 1;
            let theirs = run(case, reference.address(), Split::Whole);
            let ours = run(case, running.address, split);
            if std::env::var_os("EVENKEEL_SHOW_TRANSCRIPTS").is_some() {
                println!("{file} {}", case.name);
                for i in 0..theirs.requests.len() {
                    println!(
                        "  > {}\n  < {}",
                        shown(&theirs.requests, i),
                        shown(&theirs.answers, i)
                    );
                }
            }
            unfinished += usize::from(ours.problem.is_some());
            assert!(
                unfinished < UNFINISHED_MAX,
                "too many cases do not end:\n{report}"
            );
            if let Some(problem) = judge(case, target, &theirs, &ours) {
                let _ = writeln!(report, "{file}:{} {}: {problem}", case.line, case.name);
            }
        }
    }
    println!("{cases} cases compared, {split:?}");
    assert!(
        report.is_empty(),
        "answers differ from memcached's:\n{report}"
    );
}

#[test]
fn memcached_answers_as_another_memcached() {
    compare_all(Target::Memcached, Split::Whole);
}

#[test]
fn server_answers_as_memcached() {
    compare_all(Target::Server, Split::Whole);
}

#[test]
fn server_answers_alike_when_bytes_come_one_by_one() {
    compare_all(Target::Server, Split::SingleBytes);
}

#[test]
fn server_answers_alike_when_bytes_come_in_random_pieces() {
    compare_all(Target::Server, Split::Random(seed()));
}

#[test]
fn proxy_answers_as_memcached() {
    compare_all(Target::Proxy, Split::Whole);
}

#[test]
fn proxy_answers_alike_when_bytes_come_one_by_one() {
    compare_all(Target::Proxy, Split::SingleBytes);
}

#[test]
fn proxy_answers_alike_when_bytes_come_in_random_pieces() {
    compare_all(Target::Proxy, Split::Random(seed()));
}

#[test]
fn proxy_to_memcached_answers_as_memcached() {
    compare_all(Target::ProxyToMemcached, Split::Whole);
}

#[test]
fn proxy_to_racks_with_notes_answers_as_memcached() {
    compare_all(
        Target::ProxyToRacks(None, Architecture::Snoop),
        Split::Whole,
    );
}

#[test]
fn proxy_to_racks_with_a_directory_answers_as_memcached() {
    compare_all(Target::ProxyToRacks(None, Architecture::Dir), Split::Whole);
}

#[test]
fn proxy_to_racks_that_are_switched_answers_as_memcached() {
    for (from, to) in [
        (Architecture::Snoop, Architecture::Dir),
        (Architecture::Dir, Architecture::Sds),
    ] {
        compare_all(Target::ProxyToRacks(Some(from), to), Split::Whole);
    }
}

#[test]
fn the_cases_that_are_left_out_are_there() {
    let all = transcripts();
    let names = NOT_IN_RACKS.iter().chain(&NOT_WHILE_WARMED);
    let names = names.map(|(name, _)| name);
    for name in names
        .chain(&NOT_WITH_NAMES)
        .chain([&NOT_WITH_NAMES_OF_ITEMS, &NOT_WITH_SEVERAL_SERVERS])
    {
        let mut cases = all.iter().flat_map(|(_, transcript)| &transcript.cases);
        assert!(cases.any(|case| case.name == *name), "{name}");
    }
}
