//! A key that crashes whichever server owns it, and a client that asks for it again and again: two servers die of it, the others go on,
//! and its cachelet is nobody's until an operator says otherwise.

use evenkeel_testkit::{Client, Cluster, ClusterOptions, evenkeel, poll_until};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(60);

const SERVERS: usize = 8;

const OTHER_KEYS: usize = 200;

#[test]
fn a_key_that_kills_ends_two_servers_and_no_more() {
    let options = ClusterOptions {
        servers: SERVERS,
        threads: 1,
        server_args: ["--test-abort-on", "killer"].map(String::from).to_vec(),
        coordinator_args: ["--silent-ms", "2000"].map(String::from).to_vec(),
        ..ClusterOptions::default()
    }
    .with_proxy_args(&evenkeel::LONG_TIMEOUTS);
    let mut cluster = Cluster::start(options);
    let mut client = cluster.proxy_client();
    for n in 0..OTHER_KEYS {
        assert_eq!(client.set(&format!("other:{n}"), b"v"), "STORED");
    }
    let mut asked = 0;
    let said = poll_until(DEADLINE, "the key to be nobody's", || {
        asked += 1;
        let said = client.command("get killer");
        assert!(said == "END" || said.starts_with("SERVER_ERROR "), "{said}");
        said.contains("is quarantined: ").then_some(said)
    });
    let dead = cluster.servers.iter_mut().map(|it| !it.is_running());
    let dead = dead.filter(|is_dead| *is_dead).count();
    println!("asked {asked} times, {dead} are dead: {said}");
    assert!((1..=2).contains(&dead), "{dead} are dead");
    let cachelet = quarantined_by(&said).expect("it is named");

    // Anyone who speaks to a server itself gets an error, too, and what stores is not kept waiting.
    assert_eq!(client.set("killer", b"v"), said);
    for server in &mut cluster.servers {
        if server.is_running() {
            let said = Client::connect(server.address()).command("get killer");
            assert!(said.starts_with("SERVER_ERROR "), "{said}");
        }
    }
    let refused = (0..OTHER_KEYS).filter(|n| {
        let said = client.set(&format!("other:{n}"), b"v");
        assert!(
            said == "STORED" || quarantined_by(&said).is_some(),
            "{said}"
        );
        said != "STORED"
    });
    let refused = refused.count();
    println!("{refused} of {OTHER_KEYS} others are quarantined with it");
    assert!(refused * 4 <= OTHER_KEYS, "{refused}");

    // Operators are told.
    let number = serde_json::Value::from(cachelet);
    let has = |list: &serde_json::Value| list.as_array().is_some_and(|list| list.contains(&number));
    let (_, events) = cluster.http_get("/api/v1/events").expect("an answer");
    let events: serde_json::Value = serde_json::from_str(&events).expect("JSON");
    let mut events = events["events"].as_array().expect("a list").iter();
    let names = |event: &&serde_json::Value| {
        event["cause"] == "cachelets_quarantined" && has(&event["named"])
    };
    let event = events.find(names).expect("an event that names it");
    assert_eq!(event["servers"].as_array().map(Vec::len), Some(2));
    let url = cluster.coordinator_url();
    let shown = evenkeel::run(&["cachelets", "--coordinator", &url]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("owners that died"), "{shown}");

    // A harmless key beside it is served once the cachelet is released.
    let beside = (0..1_000_000).map(|n| format!("beside:{n}")).find(|key| {
        let said = client.command(&format!("get {key}"));
        quarantined_by(&said) == Some(cachelet)
    });
    let beside = beside.expect("a key of the same cachelet");
    let number = cachelet.to_string();
    let released = evenkeel::run(&["cachelets", "release", &number, "--coordinator", &url]);
    assert!(released.status.success(), "{released:?}");
    poll_until(DEADLINE, "its keys to be served", || {
        (client.set(&beside, b"v") == "STORED").then_some(())
    });
    let again = evenkeel::run(&["cachelets", "release", &number, "--coordinator", &url]);
    assert!(!again.status.success(), "{again:?}");
}

/// The cachelet that an error names.
fn quarantined_by(said: &str) -> Option<u16> {
    let rest = said.strip_prefix("SERVER_ERROR cachelet ")?;
    let (number, _) = rest.split_once(" is quarantined: ")?;
    number.parse().ok()
}
