//! A client that asks servers of a cluster itself, by a ring of its own, never reads what a write or a delete through a proxy has
//! ended: it is served at each key's home, and refused elsewhere.

use evenkeel_testkit::{Cluster, ClusterOptions, poll_until};
use std::time::Duration;

const KEYS: usize = 100;
const REFUSED: &str = "SERVER_ERROR key belongs to another server: use a proxy";
const DEADLINE: Duration = Duration::from_secs(60);

fn key(number: usize) -> String {
    format!("direct:{number}")
}

#[test]
fn a_direct_client_has_no_copies_of_its_own() {
    let cluster = Cluster::start(ClusterOptions::nobody_dies());
    let mut proxy = cluster.proxy_client();
    let mut direct: Vec<_> = (0..3).map(|index| cluster.server_client(index)).collect();
    for number in 0..KEYS {
        let key = key(number);
        assert_eq!(proxy.set(&key, b"new"), "STORED");
        let mut homes = 0;
        for client in &mut direct {
            match client.command(&format!("add {key} 0 0 3\r\nold")).as_str() {
                // It is there, as at its home.
                "NOT_STORED" => {
                    homes += 1;
                    let found = client.get(&key).expect("the proxy's value");
                    assert_eq!(found.data, b"new");
                }
                said => {
                    assert_eq!(said, REFUSED);
                    assert_eq!(client.command(&format!("get {key}")), REFUSED);
                    assert_eq!(client.command(&format!("mg {key} v")), REFUSED);
                    assert_eq!(client.command(&format!("delete {key}")), REFUSED);
                }
            }
        }
        assert_eq!(homes, 1, "{key}");
        assert_eq!(proxy.delete(&key), "DELETED");
        let found = direct
            .iter_mut()
            .filter_map(|client| client.try_get(&key).ok());
        assert!(found.flatten().next().is_none(), "{key} was deleted");
    }
    let counted: u64 = (direct.iter_mut())
        .map(|client| {
            client.stats("evenkeel")["keys_of_others"]
                .parse::<u64>()
                .expect("a count")
        })
        .sum();
    // Two servers refuse each key, and each of the five commands.
    assert_eq!(counted, 2 * 5 * KEYS as u64);
    poll_until(DEADLINE, "operators to be told", || {
        let mut servers = cluster.servers.iter();
        servers
            .all(|server| server.stderr_text().contains("point them at a proxy"))
            .then_some(())
    });
}

#[test]
fn who_looks_for_servers_finds_the_proxy_alone() {
    let cluster = Cluster::start(ClusterOptions {
        servers: 1,
        ..ClusterOptions::nobody_dies()
    });
    let mut client = cluster.proxy_client();
    client.send(b"config get cluster\r\n");
    let head = client.line();
    assert!(head.starts_with("CONFIG cluster 0 "), "{head}");
    assert!(client.line().parse::<u64>().is_ok(), "a version");
    let (ip, port) = {
        let address = cluster.proxies[0].address();
        (address.ip(), address.port())
    };
    assert_eq!(client.line(), format!("{ip}|{ip}|{port}"));
    let rest = (client.line(), client.line());
    assert_eq!(rest, (String::new(), "END".to_owned()));
    // Nor does the key tell by which older clients ask, nor a server itself.
    let key = "AmazonElastiCache:cluster";
    assert_eq!(client.get(key), None);
    assert_eq!(client.get_many(&[key, "none"]), []);
    let mut direct = cluster.server_client(0);
    assert_eq!(direct.command("config get cluster"), "ERROR");
    assert_eq!(direct.get(key), None);
}
