//! A coordinator that is started again without its state takes the map over: nobody has to be restarted, and nothing is lost.

use evenkeel_testkit::{Cluster, ClusterOptions, poll_until};
use std::time::Duration;

const KEYS: usize = 300;
const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn a_coordinator_without_state_goes_on_from_its_servers_map() {
    let mut cluster = Cluster::start(ClusterOptions::nobody_dies());
    let mut client = cluster.proxy_client();
    for number in 0..KEYS {
        assert_eq!(client.set(&format!("forgetful:{number}"), b"v"), "STORED");
    }
    cluster.restart_coordinator();
    poll_until(DEADLINE, "the map to be taken over", || {
        matches!(cluster.http_get("/readyz"), Ok((200, _))).then_some(())
    });
    let (_, events) = cluster.http_get("/api/v1/events").expect("an answer");
    assert!(events.contains("\"map_taken_over\""), "{events}");
    poll_until(DEADLINE, "operators to be told", || {
        let said = cluster.coordinator.stderr_text();
        said.contains("the map was taken over from servers")
            .then_some(())
    });
    // Members work by the maps that it makes.
    cluster.restart_server(2);
    poll_until(DEADLINE, "all servers to work by a new map", || {
        let (_, body) = cluster.http_get("/api/v1/servers").ok()?;
        let view: serde_json::Value = serde_json::from_str(&body).ok()?;
        let epoch = view["epoch"].as_u64()?;
        let servers = view["servers"].as_array()?;
        let follows = |server: &serde_json::Value| server["up"] == true && server["epoch"] == epoch;
        (servers.len() == 3 && servers.iter().all(follows)).then_some(())
    });
    cluster.wait_until_serving();
    let kept = (0..KEYS).filter(|number| client.get(&format!("forgetful:{number}")).is_some());
    let kept = kept.count();
    assert!(
        (KEYS / 2..KEYS).contains(&kept),
        "one of three is empty, the others are not: {kept}"
    );
}
