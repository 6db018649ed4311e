//! Migrations of cachelets over real processes: ordered at a coordinator, watched there and at the servers.

use evenkeel_coordinator_core::MigrationsView;
use evenkeel_testkit::{Client, Cluster, http, poll_until};
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{CacheletId, KeyHash};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;

/// A server that says nothing for this long hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// A migration that was ordered.
pub struct Ordered {
    /// What moves.
    pub cachelet: CacheletId,
    /// Name of the source.
    pub from: String,
    /// Name of the target.
    pub to: String,
}

/// What a coordinator says of migrations.
pub fn view(coordinator: SocketAddr) -> Option<MigrationsView> {
    let (_, body) = http::get(coordinator, "/api/v1/migrations").ok()?;
    serde_json::from_str(&body).ok()
}

/// A coordinator's map.
pub fn map(coordinator: SocketAddr) -> Option<ClusterMap> {
    let (_, body) = http::get(coordinator, "/api/v1/map").ok()?;
    serde_json::from_str(&body).ok()
}

/// Releases what is quarantined: anyone who kills servers knows that they die of no key. None when the coordinator does not answer.
pub fn release_quarantined(coordinator: SocketAddr) -> Option<()> {
    let (_, body) = http::get(coordinator, "/api/v1/cachelets?limit=0").ok()?;
    let cachelets: Value = serde_json::from_str(&body).ok()?;
    for one in cachelets["quarantined"].as_array()? {
        let path = format!("/api/v1/cachelets/{}/release", one["cachelet"]);
        let (status, body) = http::post_json(coordinator, &path, "null").ok()?;
        // A life that is heard of again may have ended it.
        assert!([200, 409].contains(&status), "{status} {body}");
    }
    Some(())
}

/// What the coordinator of a cluster says of a server that it knows.
pub fn server(cluster: &Cluster, name: &str) -> Value {
    let (_, body) = cluster.http_get("/api/v1/servers").expect("an answer");
    let view: Value = serde_json::from_str(&body).expect("JSON");
    let servers = view["servers"].as_array().expect("a list");
    let found = servers.iter().find(|server| server["name"] == name);
    found.expect("a known server").clone()
}

/// Orders a migration of the cachelet of a key to another server, the next in a round, that copies at most this many
/// bytes in a second (0: no limit). None when it is refused, or when nobody knows what became of it: then the same order may be
/// given again, and is answered by the migration if it stands.
pub fn order(coordinator: SocketAddr, key: &str, bytes_per_second: u64) -> Option<Ordered> {
    let map = map(coordinator)?;
    let place = map.locate(KeyHash::of(key.as_bytes()));
    let source = map.server(place.worker?.server)?;
    let others: Vec<_> = map
        .servers_up()
        .filter(|server| server.id != source.id)
        .collect();
    let after = others.iter().find(|server| server.id > source.id);
    let target = after.or(others.first())?;
    let request = format!(
        "{{\"cachelet\":{},\"to\":{{\"server\":\"{}\",\"worker\":1}},\
         \"bytes_per_second\":{bytes_per_second}}}",
        place.cachelet, target.name
    );
    let (status, body) = http::post_json(coordinator, "/api/v1/migrations", &request).ok()?;
    if status != 200 {
        println!("{body}");
        return None;
    }
    Some(Ordered {
        cachelet: place.cachelet,
        from: source.name.clone(),
        to: target.name.clone(),
    })
}

/// The sum of a count over the servers of a cluster.
pub fn count_all(cluster: &Cluster, name: &str) -> u64 {
    let servers = cluster.servers.iter();
    servers.map(|server| count(server.address(), name)).sum()
}

/// One of a server's counts, by its name in `stats evenkeel`. It closes connections where its serving lease has ended; then
/// it is asked again.
pub fn count(server: SocketAddr, name: &str) -> u64 {
    let stats = poll_until(DEADLINE, "a server that says what it has counted", || {
        Client::try_connect(server).ok()?.try_stats("evenkeel").ok()
    });
    stats[name].parse().expect("a number")
}
