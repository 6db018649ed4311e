//! What only servers say is refused on a server's ordinary port: nobody there plants replicas, names maps that do not exist, takes
//! a home's link away or begins a migration.

use evenkeel_testkit::{Client, Cluster, ClusterOptions};

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
