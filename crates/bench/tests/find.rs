//! `evenkeel bench find` over real sockets. What it decides at which figures is told by the tests of its parts;
//! here nothing depends on how fast the machine is, so objectives are ones that always hold or never.

use evenkeel_bench::{FindOptions, FindReport, Limit, LoadPlan, Source, StoppedBy, Target, find};
use evenkeel_testkit::{evenkeel, undisturbed};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

/// Longest wait for a search of a second or two.
const PATIENCE: Duration = Duration::from_secs(120);

/// Searches an echo server's limit; the exit code, the report and what was said besides.
fn find_limit_of_echo(
    arguments: &[&str],
    plots: &Path,
) -> (Option<i32>, serde_json::Value, String) {
    let echo = evenkeel::command("bench")
        .args(["echo", "--key-size", "24"])
        .ready_prefix("evenkeel bench echo listening on ")
        .spawn();
    let mut search = evenkeel::command("bench")
        .args(["find", "--target", &echo.address().to_string()])
        .args(["--get-share", "1", "--no-preload", "--no-check"])
        .args(["--keys", "1000", "--format", "json"])
        .args(arguments)
        .arg("--plots")
        .arg(plots)
        .spawn();
    let status = search.wait(PATIENCE);
    let (json, told) = (search.stdout_text(), search.stderr_text());
    let report =
        serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json} {told}"));
    (status.code(), report, told)
}

#[test]
fn where_everything_holds_the_highest_rate_is_what_stops() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "--slo p99=60s --start-rate 200 --max-rate 300 --step-seconds 0.6";
    let arguments: Vec<_> = arguments.split(' ').collect();
    let (code, report, told) = find_limit_of_echo(&arguments, folder.path());
    assert_eq!(code, Some(0), "{report} {told}");
    assert_eq!(report["requests_per_second"], 300.0, "{report}");
    assert_eq!(report["failed_per_second"], serde_json::Value::Null);
    assert_eq!(report["stopped_by"], "max_rate");
    assert!(report["summary"].as_str().unwrap().contains("the max rate"));
    let steps = report["steps"].as_array().unwrap();
    let rates: Vec<_> = steps.iter().map(|step| &step["asked_per_second"]).collect();
    assert_eq!(rates, [200.0, 300.0], "{report}");
    for step in steps {
        assert!(step["requests"].as_u64().unwrap() > 0, "{step}");
        assert!(!step["series"].as_array().unwrap().is_empty(), "{step}");
        let line = format!(
            "{} requests/s asked",
            step["asked_per_second"].as_f64().unwrap()
        );
        assert!(told.contains(&line), "{line}: {told}");
    }
    for plot in [
        "latency-by-rate",
        "throughput-over-time",
        "latency-over-time",
    ] {
        let svg = std::fs::read_to_string(folder.path().join(format!("{plot}.svg"))).unwrap();
        assert!(svg.contains("</svg>"), "{plot}");
    }
}

#[test]
fn where_nothing_holds_the_command_fails_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "--slo p50=0.001us --start-rate 500 --step-seconds 0.2";
    let arguments: Vec<_> = arguments.split(' ').collect();
    let (code, report, told) = find_limit_of_echo(&arguments, folder.path());
    assert_eq!(code, Some(1), "{report} {told}");
    assert_eq!(report["requests_per_second"], serde_json::Value::Null);
    assert_eq!(report["failed_per_second"], 500.0);
    assert_eq!(report["stopped_by"]["broken"][0], "latency", "{report}");
    assert!(
        report["summary"]
            .as_str()
            .unwrap()
            .starts_with("no rate held")
    );
    assert_eq!(report["steps"].as_array().unwrap().len(), 2, "once more");
}

/// Searches the limit of a server whose first connection, which is the first step's, misses every key; the others have no luck at
/// all. The rates that were tried, and the report.
fn find_limit_of_the_unlucky() -> (Vec<f64>, FindReport) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = Target::from(listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let streams = listener.incoming().flatten();
        let answers =
            std::iter::once("END\r\n").chain(std::iter::repeat("SERVER_ERROR too much to do\r\n"));
        for (stream, answer) in streams.zip(answers) {
            std::thread::spawn(move || {
                let mut out = stream.try_clone().unwrap();
                for _ in BufReader::new(stream).lines().map_while(Result::ok) {
                    if out.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let gets = Source::Generated("keys=10 mix=mix(get=1)".parse().unwrap());
    let options = FindOptions {
        step: Duration::from_millis(200),
        precision: 0.5,
        ..FindOptions::new(LoadPlan::new(target, gets), "p99=60s".parse().unwrap())
    };
    let mut told = Vec::new();
    let report = find(&options, &mut |step| {
        told.push(step.asked_per_second.round())
    });
    (told, report.unwrap())
}

#[test]
fn errors_stop_a_search_and_are_told() {
    // A machine that stands still in the first step lets that fail, for want of answers.
    let report = undisturbed(|| {
        let (told, report) = find_limit_of_the_unlucky();
        match told == [1000.0, 2000.0, 2000.0, 1414.0, 1414.0, 1414.0] {
            true => Ok(report),
            false => Err(format!("{told:?}: {report:?}")),
        }
    });
    assert_eq!(report.requests_per_second, Some(1000.0));
    assert_eq!(report.failed_per_second.map(f64::round), Some(1414.0));
    let broken = StoppedBy::Broken(vec![Limit::Answers, Limit::Errors]);
    assert_eq!(report.stopped_by, broken, "{report:?}");
    for words in [
        "p99 <= 60s held up to 1000 requests/s; at 1414 requests/s",
        "100.00 % failed (first error: too much to do)",
    ] {
        assert!(report.summary.contains(words), "{}", report.summary);
        assert!(report.to_table().contains(words));
    }
    assert_eq!(report.exit_code(), 0);
}
