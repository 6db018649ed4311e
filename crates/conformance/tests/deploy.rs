//! What is shipped for Prometheus and Grafana: its expressions are PromQL and name metrics that there are, and alerts come when they should.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use evenkeel_testkit::require_program;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Runs Prometheus' own tool, which has its parser and its engine.
fn promtool(folder: &Path, arguments: &[&str]) {
    let output = Command::new(require_program("promtool"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .expect("promtool runs");
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "promtool {arguments:?}: {}",
        String::from_utf8_lossy(&said)
    );
}

/// The expressions of the dashboard's panels.
fn expressions() -> Vec<String> {
    let dashboard: serde_json::Value =
        serde_json::from_str(&read("deploy/grafana/evenkeel.json")).expect("it is JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    let expressions = targets
        .flatten()
        .map(|target| target["expr"].as_str().expect("PromQL"));
    expressions.map(str::to_owned).collect()
}

/// Words that look like names of our metrics.
fn names(text: &str) -> BTreeSet<&str> {
    let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c| !is_of_name(c));
    let ours = |word: &&str| word.starts_with("evenkeel_") || word.starts_with("memcached_");
    words.filter(ours).collect()
}

#[test]
fn alerts_come_when_they_should() {
    let folder = root().join("deploy/prometheus");
    promtool(&folder, &["check", "rules", "evenkeel.rules.yml"]);
    promtool(&folder, &["test", "rules", "evenkeel.test.yml"]);
}

#[test]
fn the_dashboard_asks_in_promql() {
    let expressions = expressions();
    assert!(expressions.len() > 20, "{}", expressions.len());
    let folder = tempfile::tempdir().expect("a temporary folder");
    // JSON is YAML.
    let rules: Vec<_> = (expressions.iter().enumerate())
        .map(
            |(number, expr)| serde_json::json!({"record": format!("panel:{number}"), "expr": expr}),
        )
        .collect();
    let groups = serde_json::json!({"groups": [{"name": "dashboard", "rules": rules}]});
    fs::write(folder.path().join("rules.yml"), groups.to_string()).expect("written");
    promtool(folder.path(), &["check", "rules", "rules.yml"]);
}

/// The page of statistics is made from what is declared.
#[test]
fn each_metric_that_is_asked_for_is_declared() {
    let page = read("docs/statistics.md");
    let declared = names(&page);
    let is_declared = |name: &str| {
        declared.contains(name) || {
            let of_server = name.strip_prefix("evenkeel_proxy_server_");
            let times = of_server.or_else(|| name.strip_prefix("evenkeel_proxy_route_"));
            let times = times.and_then(|times| times.strip_suffix("_bucket"));
            times.is_some_and(|times| page.contains(&format!("`…_{times}`")))
        }
    };
    let asked = expressions().join("\n") + &read("deploy/prometheus/evenkeel.rules.yml");
    let undeclared: Vec<_> = names(&asked)
        .into_iter()
        .filter(|name| !is_declared(name))
        .collect();
    assert_eq!(
        undeclared, [""; 0],
        "docs/statistics.md has no such metrics"
    );
    assert!(!is_declared("evenkeel_proxy_server_nothing_seconds_bucket"));
}
