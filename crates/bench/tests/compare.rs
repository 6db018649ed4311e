//! `evenkeel bench compare`: real peers beside Evenkeel, and what it says of those that are missing.

use evenkeel_testkit::{binary, require_program};
use std::process::Command;

/// The exit code, what was printed and what was said besides.
fn compare(arguments: &[&str]) -> (Option<i32>, String, String) {
    let load = ["--duration", "100ms", "--keys", "2000", "--rounds", "2"];
    // Its whole output, which is longer than what is kept of a process.
    let mut command = Command::new(binary::evenkeel());
    let command = command
        .args(["bench", "compare"])
        .args(arguments)
        .args(load);
    let output = command.output().expect("the program is there");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn targets(json: &str) -> Vec<(String, f64)> {
    let report: serde_json::Value =
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
    let targets = report["targets"].as_array().expect("targets");
    let figures = targets.iter().map(|target| {
        for round in target["rounds"].as_array().expect("rounds") {
            assert_eq!(round["errors"], 0, "{round}");
            assert_eq!(round["wrong_values"], 0, "{round}");
            assert_eq!(round["hit_ratio"], 1.0, "{round}");
        }
        let name = target["target"].as_str().expect("a name").to_owned();
        let rate = target["medians"]["requests_per_second"].as_f64();
        (name, rate.expect("a rate"))
    });
    figures.collect()
}

#[test]
fn servers_are_measured_beside_each_other() {
    require_program("memcached");
    require_program("redis-server");
    let folder = tempfile::tempdir().expect("a folder");
    let plots = folder.path().to_str().expect("a plain name");
    let (code, json, errors) = compare(&[
        "memcached",
        "redis",
        "--pipeline",
        "4",
        "--multiget",
        "3",
        "--format",
        "json",
        "--plots",
        plots,
    ]);
    assert_eq!(code, Some(0), "{errors}");
    let targets = targets(&json);
    let names: Vec<_> = targets.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["memcached", "redis", "evenkeel"]);
    assert!(targets.iter().all(|(_, rate)| *rate > 0.0), "{targets:?}");
    let plot = std::fs::read_to_string(folder.path().join("latency.svg")).expect("a plot");
    for name in names {
        assert!(plot.contains(name), "{name}");
    }
}

#[test]
fn proxies_are_measured_beside_each_other() {
    require_program("memcached");
    require_program("nutcracker");
    let (code, json, errors) = compare(&["nutcracker", "--format", "json"]);
    assert_eq!(code, Some(0), "{errors}");
    let targets = targets(&json);
    assert_eq!(targets.len(), 2);
    assert!(targets.iter().all(|(_, rate)| *rate > 0.0), "{targets:?}");
}

#[test]
fn what_cannot_be_compared_is_said() {
    let (code, _, errors) = compare(&["redis", "--redis", "/no/such/program"]);
    assert_eq!(code, Some(1));
    assert!(
        errors.contains("redis is left out") && errors.contains("nothing to compare with"),
        "{errors}"
    );
    let (code, _, errors) = compare(&["memcached", "nutcracker"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("name one kind"), "{errors}");
}
