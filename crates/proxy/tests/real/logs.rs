//! What operators grep for when a server dies.

use crate::patience::PATIENCE;
use evenkeel_testkit::{Client, Memcached, Signal, evenkeel, poll_until};
use serde_json::Value;

/// Both threads of the proxy find the server gone, and it is said once; with the cause, which the client and statistics
/// tell, too.
#[test]
fn a_server_that_goes_down_and_comes_back_is_a_line_each() {
    let mut server = Memcached::spawn(&[]);
    let address = server.address();
    let at = address.to_string();
    let proxy = evenkeel::proxy(&["-s", &at, "-t", "2", "--log-format", "json"]);
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(proxy.address())).collect();
    for client in &mut clients {
        assert_eq!(client.set("k", b"1"), "STORED");
    }
    server.process().signal(Signal::Kill);
    server.process().wait(PATIENCE);
    let refused = format!("SERVER_ERROR backend {at} unavailable: connection refused");
    for client in &mut clients {
        poll_until(PATIENCE, "a client to be refused", || {
            (client.set("k", b"2") == refused).then_some(())
        });
    }
    let cause = &clients[0].stats("servers")[&format!("{at}:cause")];
    assert_eq!(cause, "connection refused");

    let port = address.port().to_string();
    let _again = Memcached::spawn(&["-p", &port]);
    for client in &mut clients {
        poll_until(PATIENCE, "a client to be served", || {
            (client.set("k", b"3") == "STORED").then_some(())
        });
    }
    let told = proxy.await_stderr("server is up");
    let events: Vec<Value> = told
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect();
    let of = |message: &str| -> Vec<&Value> {
        let these = events.iter().filter(|event| event["message"] == message);
        these.collect()
    };
    let [down] = of("server is down")[..] else {
        panic!("{told}");
    };
    let expected = ["WARN", "evenkeel proxy", &at, "connection refused"];
    let names = ["level", "program", "server", "cause"];
    assert_eq!(names.map(|name| down[name].as_str()), expected.map(Some));
    let [up] = of("server is up")[..] else {
        panic!("{told}");
    };
    assert!(
        up["not_asked"].as_u64() > Some(0) && up["down_s"].as_f64() > Some(0.0),
        "{up}"
    );
    assert!(
        !clients[0]
            .stats("servers")
            .contains_key(&format!("{at}:cause"))
    );
}
