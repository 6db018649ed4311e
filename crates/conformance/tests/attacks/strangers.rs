//! What only servers say is refused on a server's ordinary port: nobody there plants replicas, names maps that do not exist, takes
//! a home's link away or begins a migration.

use evenkeel_conformance::migrations::server;
use evenkeel_testkit::{Client, Cluster, ClusterOptions, poll_until};
use std::net::SocketAddr;
use std::time::Duration;

/// Reached only by a failure.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn words_of_servers_are_refused_on_ordinary_ports() {
    let cluster = Cluster::start(ClusterOptions {
        servers: 1,
        ..ClusterOptions::nobody_dies()
    });
    let mut stranger = cluster.server_client(0);
    let hello = stranger.command("evenkeel 1 epoch=1");
    assert!(
        hello.starts_with("EVENKEEL 1 "),
        "a proxy says that: {hello}"
    );
    let words = [
        "ms zz 1 G Y9000000000000000000 E1\r\nx",
        "ms hot 4 G Y1 E4611686018427387904\r\nEVIL",
        "md hot G Y1 E4611686018427387904",
        "md hot G I Y1 E4611686018427387904",
        "evenkeel 1 epoch=1 from=0/0",
        "evenkeel 1 epoch=1 vote=0/1",
        "migrate begin 0 1 1",
    ];
    for word in words {
        let said = stranger.command(word);
        assert!(
            said.starts_with("SERVER_ERROR only servers"),
            "{word}: {said}"
        );
    }
    let counter = |name: &str| {
        let stats = Client::connect(cluster.servers[0].address()).stats("evenkeel");
        stats[name].parse::<usize>().expect("a number")
    };
    assert_eq!(counter("strangers_refused"), words.len());
    assert_eq!(
        counter("replica_stores") + counter("replica_refused_old"),
        0
    );
    // What a proxy asks is answered.
    assert_eq!(stranger.command("mg hot v G"), "EN");
}

/// As an order of a home, at the port where homes give them: an epoch of the far future is not believed.
#[test]
fn an_epoch_of_the_future_does_not_switch_replicas_off() {
    let cluster = Cluster::start(ClusterOptions {
        servers: 1,
        ..ClusterOptions::nobody_dies()
    });
    let entry = server(&cluster, "s1");
    let port = entry["worker_ports"][0].as_u64().expect("a port");
    let port = u16::try_from(port).expect("a port");
    let at = SocketAddr::new(cluster.servers[0].address().ip(), port);
    let peer = || {
        let mut peer = Client::connect(at);
        let hello = peer.command("evenkeel 1 epoch=1");
        let epoch = hello.split_once(" epoch=").expect("an epoch").1;
        let epoch = epoch.split(' ').next().expect("a number").to_owned();
        (peer, epoch)
    };
    let (mut stranger, _) = peer();
    stranger.send(b"ms zz 1 G Y9000000000000000000 E1\r\nx\r\n");
    let counter = |name: &str| {
        let stats = Client::connect(cluster.servers[0].address()).stats("evenkeel");
        stats[name].parse::<usize>().expect("a number")
    };
    poll_until(PATIENCE, "the order to wait", || {
        (counter("replica_orders_early") == 1).then_some(())
    });
    let (mut home, epoch) = peer();
    let said = home.command(&format!("ms key 1 G Y{epoch} E1\r\nx"));
    assert_eq!(
        said, "HD",
        "a home that works by the map of epoch {epoch} is heard"
    );
    assert_eq!(counter("replica_refused_old"), 0);
}
