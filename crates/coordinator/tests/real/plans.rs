//! Migrations and plans over the API.

use evenkeel_coordinator_core::plans::{PlanMode, PlanSettings, Verdict};
use evenkeel_coordinator_core::{MigrationEnd, MigrationRequest, MigrationStage, WorkerName};
use evenkeel_member::client::{ApiClient, ClientError, ClientResult};
use evenkeel_testkit::worker_ports;
use evenkeel_types::CacheletId;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::LazyLock;

use crate::support::{Running, args, beat, call};

/// What server `n` of two with a worker each says; every cachelet of even number is of the first.
fn heartbeat(n: u16, epoch: u64, migrations: &Value) -> String {
    static PORTS: LazyLock<[Vec<u16>; 2]> = LazyLock::new(|| [1, 2].map(|n| worker_ports(n, 1)));
    json!({
        "cluster": "test", "kind": "server", "name": format!("s{n}"), "boot": n,
        "host": "127.0.0.1", "port": 11000 + 10 * n, "worker_ports": PORTS[usize::from(n) - 1],
        "epoch": epoch, "migrations": migrations,
    })
    .to_string()
}

fn say(at: SocketAddr, n: u16, epoch: u64, migrations: &Value) -> Value {
    let (status, answer) = beat(at, &heartbeat(n, epoch, migrations));
    assert_eq!(status, 200, "{answer}");
    serde_json::from_str(&answer).unwrap()
}

fn two_servers() -> (Running, ApiClient) {
    let running = Running::start(&evenkeel_coordinator::Args {
        initial_servers: 2,
        ..args()
    });
    for n in [1, 2] {
        say(running.address, n, 0, &json!([]));
    }
    let client = running.client();
    (running, client)
}

fn request(cachelet: u16, server: &str) -> MigrationRequest {
    MigrationRequest {
        cachelet: CacheletId(cachelet),
        to: WorkerName {
            server: server.into(),
            worker: 0,
        },
        bytes_per_second: 7,
    }
}

fn refusal<T>(result: ClientResult<T>) -> (u16, String) {
    match result.map(|_| ()).unwrap_err() {
        ClientError::Refused { status, reason, .. } => (status, reason),
        error => panic!("{error}"),
    }
}

#[test]
fn an_operator_moves_a_cachelet_and_sees_it_pass() {
    let (running, client) = two_servers();
    let begun = client.begin_migration(&request(4, "s2")).unwrap();
    assert_eq!((begun.stage, begun.began.0), (MigrationStage::Ordered, 2));
    let map = client.map().unwrap();
    assert_eq!(map.migration(CacheletId(4)).unwrap().bytes_per_second, 7);
    let report =
        |state| json!([{"cachelet": 4, "began": 2, "state": state, "items": 5, "bytes": 99}]);
    say(running.address, 1, 2, &report("copying"));
    let view = client.migrations().unwrap();
    assert_eq!(
        (view.migrations[0].items, view.migrations[0].bytes),
        (5, 99)
    );
    let answer = say(running.address, 1, 2, &report("moved"));
    assert_eq!(
        answer["map"]["cachelets"][4],
        json!({"server": 1, "worker": 0})
    );
    let ended = client.migrations().unwrap().ended;
    assert_eq!((ended.len(), ended[0].end), (1, MigrationEnd::Moved));
    let metrics = call(running.address, "GET", "/metrics", "").1;
    for line in [
        "migrations 0",
        "migrations_begun_total 1",
        "migrations_ended_total{end=\"moved\"} 1",
        "migrated_bytes_total 99",
        "map_changes_total{cause=\"cachelets_migrated\"} 1",
        "plan_mode{mode=\"automatic\"} 1",
        "plans_total{state=\"proposed\"} 0",
    ] {
        let line = format!("evenkeel_coordinator_{line}\n");
        assert!(metrics.contains(&line), "{line}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_its_word() {
    let (running, client) = two_servers();
    let begin = |cachelet, server| refusal(client.begin_migration(&request(cachelet, server)));
    assert_eq!(begin(4, "s9"), (404, "unknown_worker".into()));
    assert_eq!(begin(999, "s2"), (404, "unknown_cachelet".into()));
    assert_eq!(begin(4, "s1"), (409, "same_server".into()));
    let begun = client.begin_migration(&request(4, "s2")).unwrap();
    let again = client.begin_migration(&request(4, "s2")).unwrap();
    assert_eq!(again.began, begun.began);
    let slower = MigrationRequest {
        bytes_per_second: 1,
        ..request(4, "s2")
    };
    let slower = refusal(client.begin_migration(&slower));
    assert_eq!(slower, (409, "moving".into()));
    let view = client.cancel_migration(CacheletId(4)).unwrap();
    assert_eq!(view.migrations[0].stage, MigrationStage::Cancelling);
    let other = refusal(client.cancel_migration(CacheletId(5)));
    assert_eq!(other, (404, "not_moving".into()));
    assert_eq!(refusal(client.plan(1)), (404, "unknown_plan".into()));
    assert_eq!(
        refusal(client.approve_plan(1)),
        (404, "unknown_plan".into())
    );
    assert_eq!(refusal(client.cancel_plan(1)), (404, "unknown_plan".into()));
    let at = running.address;
    for (method, path, body) in [
        ("DELETE", "/api/v1/migrations/x", ""),
        ("DELETE", "/api/v1/migrations/70000", ""),
        ("GET", "/api/v1/plans/x", ""),
        ("GET", "/api/v1/plans?limit=-1", ""),
        ("POST", "/api/v1/migrations", "{\"cachelet\":1}"),
        ("PUT", "/api/v1/plan-settings", "{\"mode\":\"never\"}"),
        ("PUT", "/api/v1/plan-settings", "{\"mood\":\"observe\"}"),
        ("PUT", "/api/v1/plan-settings", "{\"intervals\":0}"),
    ] {
        let (status, answer) = call(at, method, path, body);
        assert!(status == 400, "{method} {path} {body}: {status} {answer}");
    }
}

#[test]
fn the_mode_of_plans_is_shown_changed_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let args = evenkeel_coordinator::Args {
        state: Some(folder.path().join("state.json")),
        plans: PlanMode::Approve,
        ..args()
    };
    {
        let running = Running::start(&args);
        let client = running.client();
        let view = client.plans(5).unwrap();
        assert_eq!(
            (view.settings.mode, view.verdict),
            (PlanMode::Approve, Verdict::Unknown)
        );
        let settings = PlanSettings {
            mode: PlanMode::Automatic,
            pause_ms: 5_000,
            ..view.settings
        };
        assert_eq!(client.put_plan_settings(settings).unwrap(), settings);
    }
    let running = Running::start(&args);
    let settings = running.client().plan_settings().unwrap();
    assert_eq!(
        (settings.mode, settings.pause_ms),
        (PlanMode::Automatic, 5_000)
    );
}
