//! An operator changes what holds for the cluster while applications are at work.

use super::application::Shared;
use super::lease::judge;
use super::{ClusterOptions, Consistency, HOT_DEADLINE, LEASE, LONG_TIMEOUTS};
use super::{list, options, record, servers};
use evenkeel_conformance::exchange::seed;
use evenkeel_testkit::{Cluster, binary, poll_until};
use serde_json::{Value, json};
use std::process::{Command, Output};

/// Runs `evenkeel settings` with these arguments.
fn settings(cluster: &Cluster, arguments: &[&str]) -> Output {
    Command::new(binary::evenkeel())
        .args(["settings", "--coordinator", &cluster.coordinator_url()])
        .args(["--format", "json"])
        .args(arguments)
        .output()
        .expect("it runs")
}

/// What the coordinator answers. The command waits a second for it, which on a busy machine is not always enough; saying again
/// what is wanted changes nothing.
fn settings_of(cluster: &Cluster, arguments: &[&str]) -> Value {
    poll_until(HOT_DEADLINE, "the coordinator to answer in time", || {
        let output = settings(cluster, arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("cannot be reached: timeout") {
            return None;
        }
        assert!(output.status.success(), "{arguments:?}: {said}");
        Some(serde_json::from_slice(&output.stdout).expect("nothing but JSON"))
    })
}

/// Waits until all servers say that they work by it.
fn wait_until_all_work_by(cluster: &Cluster, name: &str, value: &str) {
    poll_until(HOT_DEADLINE, "servers to work by a setting", || {
        let mut answering = servers(cluster);
        let are_all = answering.len() == cluster.servers.len();
        let mut said = answering
            .iter_mut()
            .map(|(_, client)| list(client, "settings"));
        let work_by_it = said.all(|said| said.is_some_and(|said| said[name] == value));
        (are_all && work_by_it).then_some(())
    });
}

#[test]
fn settings_change_under_load_outlive_the_coordinator_and_are_checked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state = folder.path().join("state").display().to_string();
    let mut cluster = Cluster::start(ClusterOptions {
        coordinator_args: vec!["--state".into(), state],
        ..options(Consistency::Lease, LONG_TIMEOUTS)
    });
    let shared = Shared::new(seed());
    let history = record(&mut cluster, &shared, 2 * LEASE, &mut |cluster, _| {
        let shorter = (LEASE / 4).as_millis().to_string();
        for lease in [&shorter, &LEASE.as_millis().to_string(), &shorter] {
            let change = ["set", &format!("lease_ms={lease}"), "gamma_max=2"];
            assert_eq!(settings_of(cluster, &change)["gamma_max"], json!(2));
            wait_until_all_work_by(cluster, "lease_ms", lease);
            wait_until_all_work_by(cluster, "gamma_max", "2");
        }
        cluster.restart_coordinator();
        Vec::new()
    });
    judge(&shared.comparable(history));
    let kept = settings_of(&cluster, &[]);
    assert_eq!(kept["lease_ms"], json!((LEASE / 4).as_millis() as u64));
    assert_eq!(kept["hot_trigger_rps"], json!(50.0));
    let refused = settings(&cluster, &["set", "gamma_max=3", "lease=5"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.contains("lease") && said.contains("lease_ms"),
        "{said}"
    );
    assert_eq!(settings_of(&cluster, &[]), kept, "nothing of it was taken");
}
