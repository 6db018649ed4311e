//! The differential fuzzer: random sessions to a real memcached and to a server and a proxy, and what they answer
//! compared. `src/differential/mod.rs` explains it.
//!
//! The test runs the same sessions every time, so that it says the same every time. To search,
//! `make differential` runs others for `DIFFERENTIAL_SECONDS`; `EVENKEEL_SEED=n` replays such a run.
//! `DIFFERENTIAL_LANES` says how many pairs of servers work at the same time, `DIFFERENTIAL_REFERENCE`
//! which memcached to compare with instead of the one on `PATH`, `DIFFERENTIAL_PROTOCOLS` whether sessions
//! are `text`, `binary` or `both`.

use std::time::{Duration, Instant};

use evenkeel_conformance::differential::differences::DIFFERENCES;
use evenkeel_conformance::differential::{Options, Protocols, Subject, run};
use evenkeel_conformance::exchange::seed;

/// The seed of the sessions that are always run.
const SEED: u64 = 1;

/// How many of its sessions the test runs.
const SESSIONS: u64 = 2000;

/// How long they may take: seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(600);

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number")),
    )
}

#[test]
fn server_answers_random_sessions_as_memcached() {
    assert_alike(Subject::Server);
}

#[test]
fn proxy_answers_random_sessions_as_memcached() {
    assert_alike(Subject::Proxy);
}

fn assert_alike(subject: Subject) {
    let seconds = setting("DIFFERENTIAL_SECONDS");
    let options = Options {
        subject,
        protocols: match std::env::var("DIFFERENTIAL_PROTOCOLS").as_deref() {
            Ok("binary") => Protocols::Binary,
            Ok("both") => Protocols::Both,
            _ => Protocols::Text,
        },
        seed: seconds.map_or(SEED, |_| seed()),
        duration: seconds.map_or(PATIENCE, Duration::from_secs),
        sessions_max: seconds.map_or(SESSIONS, |_| u64::MAX),
        lanes: setting("DIFFERENTIAL_LANES").unwrap_or(2) as usize,
        reference: std::env::var_os("DIFFERENTIAL_REFERENCE").map(Into::into),
    };
    let begin = Instant::now();
    let report = run(&options);
    let elapsed = begin.elapsed().as_secs_f64();
    println!(
        "{} sessions, {} connections, {} bytes in {elapsed:.1} s: {:.0} sessions/s",
        report.sessions,
        report.connections,
        report.bytes,
        report.sessions as f64 / elapsed
    );
    println!(
        "{} shared connections; {} differed once and agreed when run again",
        report.shared, report.unconfirmed
    );
    for difference in DIFFERENCES {
        let count = report.explained.get(difference.name).unwrap_or(&0);
        println!("{count} × {}: {}", difference.name, difference.reason);
    }
    for finding in &report.findings {
        println!(
            "\nsession {} of seed {} differs\n{}{}",
            finding.number, options.seed, finding.transcript, finding.answers
        );
    }
    assert!(
        report.findings.is_empty(),
        "answers differ from memcached's"
    );
    assert!(
        seconds.is_some() || report.sessions == SESSIONS,
        "only {} sessions in {PATIENCE:?}",
        report.sessions
    );
}
