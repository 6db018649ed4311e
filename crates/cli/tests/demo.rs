//! `evenkeel up --demo` with real processes.

use std::time::{Duration, Instant};

use evenkeel_testkit::{Process, Signal, poll_until};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_evenkeel");

/// How long a demo may take: its phases, and much more than a start and a stop.
const DEMO_DEADLINE: Duration = Duration::from_secs(180);

/// The most loaded server's share counts as balanced up to here.
const BALANCED: f64 = 1.3;

/// This much more is served with balancing, at least: 3,000 instead of about 1,700 requests a second.
const MORE_SERVED: f64 = 1.2;

/// Servers of the demo.
const SERVERS: usize = 6;

/// A short demo of a few hot keys, at half of what the servers can do.
fn demo(arguments: &[&str]) -> Process {
    Process::command("evenkeel up --demo", PROGRAM)
        .args(["up", "--demo", "-m", "16"])
        .args(["--rate", "3000", "--connections", "64", "--keys", "2000"])
        .args(arguments)
        // A busy machine answers late, and that is no error of the demo's.
        .arg("--server-arg=--test-endless-lease")
        .spawn()
}

fn number(value: &Value, name: &str) -> f64 {
    value[name]
        .as_f64()
        .unwrap_or_else(|| panic!("{name} is no number in {value}"))
}

/// Popularity of the keys: more than half of the requests are for the first.
const ZIPF: &str = "1.8";

/// Part of the requests that may fail, as where a machine stands still for longer than they wait.
const LOST_MAX: f64 = 0.001;

/// Seconds with replication on of one demo after the other, until one shows what replication does. The cluster needs two
/// or three of each half to settle; a machine with much else to do may need more.
const ON_SECONDS: [&str; 3] = ["8", "20", "60"];

#[test]
fn replication_balances_a_skewed_load_and_the_report_says_so() {
    let mut shown = Err(String::new());
    for on_seconds in ON_SECONDS {
        let mut demo = demo(&[
            "--zipf",
            ZIPF,
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
        let report: Value = serde_json::from_str(&demo.stdout_text()).expect("nothing but JSON");
        assert_is_sound(&report);
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
    assert_eq!(report["settings"]["keys"], 2000);
    let phases = report["phases"].as_array().expect("a list");
    let names: Vec<&Value> = phases.iter().map(|phase| &phase["phase"]).collect();
    assert_eq!(names, ["off", "on_before_switch", "on_after_switch"]);
    for phase in phases {
        assert!(number(phase, "latency_us_p99") >= number(phase, "latency_us_p50"));
        assert_eq!(phase["servers"].as_array().map(Vec::len), Some(SERVERS));
    }
    let [off, before, after] = [&phases[0], &phases[1], &phases[2]];
    assert_eq!(number(off, "replicas"), 0.0);
    assert_eq!(number(off, "staleness_bound_ms"), 0.0);
    for on in [before, after] {
        assert_eq!(number(on, "staleness_bound_ms"), 900.0);
    }
}

/// Whether it was long enough for the load to be balanced, and for counters that are read one after the other to agree. Of the
/// phases with balancing one is enough: a machine that stands still spoils a phase.
fn shows_balance(report: &Value) -> Result<(), String> {
    let phases = report["phases"].as_array().expect("a list");
    let [off, on @ ..] = &phases[..] else {
        return Err("no phases".into());
    };
    for phase in phases {
        let servers = phase["servers"].as_array().expect("a list");
        let answered = servers
            .iter()
            .map(|server| number(server, "requests_per_second"));
        let (answered, rate) = (answered.sum::<f64>(), number(phase, "requests_per_second"));
        // But for what was on its way when the counters were read. Fewer are no wonder: the proxy answers gets of a key together, the
        // more so the longer they wait.
        if answered > 1.2 * rate {
            return Err(format!(
                "servers have answered {answered} of {rate}: {phase}"
            ));
        }
    }
    let shown: Vec<_> = on.iter().map(|on| is_balanced(off, on)).collect();
    match shown.iter().any(Result::is_ok) {
        true => Ok(()),
        false => Err(format!("{shown:?}")),
    }
}

/// Whether that is so of a phase with balancing beside one without.
fn is_balanced(off: &Value, on: &Value) -> Result<(), String> {
    let served = |phase: &Value| number(phase, "requests_per_second");
    // The hot key alone is half as much again as its server can do.
    if served(on) <= served(off) * MORE_SERVED {
        return Err(format!("no more was served than {}: {on}", served(off)));
    }
    if number(on, "errors") > LOST_MAX * served(on) * number(on, "measured_seconds") {
        return Err(format!("too much was lost: {on}"));
    }
    if number(off, "hit_ratio") < 0.9 || number(on, "hit_ratio") < 0.9 {
        return Err(format!("too few hits: {off} {on}"));
    }
    let (skew, balance) = (
        number(off, "server_load_max_over_mean"),
        number(on, "server_load_max_over_mean"),
    );
    if skew <= balance || balance > BALANCED || number(on, "replicas") < 3.0 {
        return Err(format!("it was {skew} before, and then {balance}: {on}"));
    }
    Ok(())
}

#[test]
fn progress_is_a_line_a_second_and_the_result_a_table() {
    let begun = Instant::now();
    let mut demo = demo(&["--off-seconds", "2", "--on-seconds", "4"]);
    assert_eq!(demo.wait(DEMO_DEADLINE).code(), Some(0));
    let took = begun.elapsed().as_secs() as usize;
    assert_eq!(demo.stderr_text(), "");
    let text = demo.stdout_text();
    let seconds = text.lines().filter(|line| line.contains("served/s  p50"));
    let seconds = seconds.count();
    // Of the six seconds that it plays; what comes before and after them takes as long as it takes.
    assert!((2..=took).contains(&seconds), "a line a second: {text}");
    for row in [
        "│ off, as memcached ",
        "│ on ",
        "│ on, other keys hot ",
        "errors, 0 wrong values, 0 restarts",
        "requests/s with balancing on:",
    ] {
        assert!(text.contains(row), "{row}: {text}");
    }
}

#[test]
fn ctrl_c_ends_it_with_what_there_is() {
    let mut demo = demo(&["--off-seconds", "600", "--format", "json"]);
    poll_until(DEMO_DEADLINE, "the first line of progress", || {
        demo.stderr_text().contains("served/s").then_some(())
    });
    demo.signal(Signal::Interrupt);
    assert_eq!(demo.wait(DEMO_DEADLINE).code(), Some(0));
    let report: Value = serde_json::from_str(&demo.stdout_text()).expect("nothing but JSON");
    assert_eq!(report["completed"], false);
    assert_eq!(report["settings"]["keys"], 2000);
}
