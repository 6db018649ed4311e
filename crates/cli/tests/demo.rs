//! `evenkeel up --demo` with real processes.

use std::io::Write;
use std::time::{Duration, Instant};

use evenkeel_testkit::{Process, Signal, poll_until, undisturbed};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_evenkeel");

/// How long a demo may take: its phases, and much more than a start and a stop.
const DEMO_DEADLINE: Duration = Duration::from_secs(180);

/// The most loaded server's share counts as balanced up to here. Chance deals out the leases, and in
/// a few seconds 64 clients take a few hundred of them: about 5 % either way on each server.
const BALANCED: f64 = 1.3;

/// A short demo of a few hot keys on small servers. Each client reads the hot keys several times in
/// a lease: leases divert nothing from the home where clients read only once.
fn demo(arguments: &[&str]) -> Process {
    Process::command("evenkeel up --demo", PROGRAM)
        .args(["up", "--demo", "--threads", "1", "-m", "16"])
        .args(["--rate", "6000", "--connections", "64", "--keys", "2000"])
        .args(arguments)
        // A busy machine answers late, and that is no error of the demo's.
        .arg("--server-arg=--test-endless-lease")
        .with_patient_proxies()
        .spawn()
}

fn number(value: &Value, name: &str) -> f64 {
    value[name]
        .as_f64()
        .unwrap_or_else(|| panic!("{name} is no number in {value}"))
}

/// A trace in which every other request is for one key, and the others for many.
fn trace_of_one_hot_key() -> tempfile::NamedTempFile {
    let mut trace = tempfile::Builder::new()
        .suffix(".txt")
        .tempfile()
        .expect("a temporary file");
    for number in 0..5000 {
        writeln!(trace, "popular\nkey{}", number % 700).expect("written");
    }
    trace
}

/// Seconds with replication on of one demo after the other, until one shows what replication does. The cluster needs two
/// or three of each half to settle; a machine with much else to do may need more.
const ON_SECONDS: [&str; 3] = ["8", "20", "60"];

#[test]
fn replication_balances_a_skewed_load_and_the_report_says_so() {
    let trace = trace_of_one_hot_key();
    let path = trace.path().to_str().expect("a path of ours is text");
    let mut shown = Err(String::new());
    for on_seconds in ON_SECONDS {
        let report = undisturbed(|| {
            let mut demo = demo(&[
                "--trace",
                path,
                "--off-seconds",
                "3",
                "--on-seconds",
                on_seconds,
                "--lease-ms",
                "900",
                "--format",
                "json",
            ]);
            assert_eq!(demo.wait(DEMO_DEADLINE).code(), Some(0));
            let report: Value =
                serde_json::from_str(&demo.stdout_text()).expect("nothing but JSON");
            assert_eq!(report["settings"]["trace"], path);
            assert_is_sound(&report);
            all_served(&report).map(|()| report)
        });
        shown = shows_balance(&report);
        match &shown {
            Ok(()) => break,
            Err(why) => println!("{on_seconds} s were not enough: {why}"),
        }
    }
    shown.expect("a demo that shows what replication does");
}

/// What is true of every demo, however long it takes.
fn assert_is_sound(report: &Value) {
    assert_eq!(report["completed"], true);
    assert_eq!(report["wrong_values"], 0);
    assert_eq!(report["restarts"], 0);
    assert_eq!(report["settings"]["keys"], Value::Null);
    let phases = report["phases"].as_array().expect("a list");
    let names: Vec<&Value> = phases.iter().map(|phase| &phase["phase"]).collect();
    assert_eq!(names, ["off", "on_before_switch", "on_after_switch"]);
    for phase in phases {
        assert!(number(phase, "latency_us_p99") >= number(phase, "latency_us_p50"));
        assert_eq!(phase["servers"].as_array().map(Vec::len), Some(4));
    }
    let [off, before, after] = [&phases[0], &phases[1], &phases[2]];
    assert_eq!(number(off, "replicas"), 0.0);
    assert_eq!(number(off, "staleness_bound_ms"), 0.0);
    for on in [before, after] {
        assert_eq!(number(on, "staleness_bound_ms"), 900.0);
    }
}

/// What is true of every demo of a machine that did not stand still.
fn all_served(report: &Value) -> Result<(), String> {
    let phases = report["phases"].as_array().expect("a list");
    let is_served = |phase: &Value| {
        number(phase, "requests_per_second") > 0.0 && number(phase, "hit_ratio") > 0.9
    };
    match report["errors"] == 0 && phases.iter().all(is_served) {
        true => Ok(()),
        false => Err(format!("errors, or too few requests or hits: {report}")),
    }
}

/// Whether it was long enough for the load to be balanced, and for counters that are read one after the other to agree.
fn shows_balance(report: &Value) -> Result<(), String> {
    let phases = report["phases"].as_array().expect("a list");
    for phase in phases {
        let rate = number(phase, "requests_per_second");
        let servers = phase["servers"].as_array().expect("a list");
        let sum: f64 = servers
            .iter()
            .map(|server| number(server, "requests_per_second"))
            .sum();
        // What the clients were answered is what the servers have answered, but for what was on its
        // way when the counters were read.
        if (sum / rate - 1.0).abs() >= 0.2 {
            return Err(format!("{sum} of {rate} are the servers': {phase}"));
        }
    }
    // Where servers cannot keep up, the proxy makes one of identical gets, which takes skew away, too.
    let skew = number(&phases[0], "server_load_max_over_mean");
    for on in &phases[1..] {
        let balance = number(on, "server_load_max_over_mean");
        if skew <= balance {
            return Err(format!("it was {skew} before, and then {balance}: {on}"));
        }
        if balance > BALANCED || number(on, "replicas") < 3.0 {
            return Err(format!("it became {balance}: {on}"));
        }
    }
    Ok(())
}

#[test]
fn progress_is_a_line_a_second_and_the_result_a_table() {
    let (text, took) = undisturbed(|| {
        let begun = Instant::now();
        let mut demo = demo(&["--off-seconds", "2", "--on-seconds", "4"]);
        assert_eq!(demo.wait(DEMO_DEADLINE).code(), Some(0));
        assert_eq!(demo.stderr_text(), "");
        let text = demo.stdout_text();
        match text.contains("\n0 errors, 0 wrong values") {
            true => Ok((text, begun.elapsed().as_secs() as usize)),
            false => Err(text),
        }
    });
    let seconds = text
        .lines()
        .filter(|line| line.contains("req/s of each server:"));
    let seconds = seconds.count();
    // Of the six seconds that it plays; what comes before and after them takes as long as it takes.
    assert!((2..=took).contains(&seconds), "a line a second: {text}");
    for row in [
        "│ off ",
        "│ on (before switch, settled)",
        "│ on (after switch, settled)",
    ] {
        assert!(text.contains(row), "{row}: {text}");
    }
}

#[test]
fn ctrl_c_ends_it_with_what_there_is() {
    let mut demo = demo(&["--off-seconds", "600", "--format", "json"]);
    poll_until(DEMO_DEADLINE, "the first line of progress", || {
        demo.stderr_text().contains("req/s").then_some(())
    });
    demo.signal(Signal::Interrupt);
    assert_eq!(demo.wait(DEMO_DEADLINE).code(), Some(0));
    let report: Value = serde_json::from_str(&demo.stdout_text()).expect("nothing but JSON");
    assert_eq!(report["completed"], false);
    assert_eq!(report["settings"]["keys"], 2000);
}
