//! Items with copies in two of three racks, over real processes: what is read near, and what a write in another rack does to it.

use crate::patience::{LINES, PATIENCE};
use evenkeel_testkit::copies::switch;
use evenkeel_testkit::{Client, Memcached, Process, evenkeel, poll_until};

const RACKS: [&str; 3] = ["a", "b", "c"];

const KEYS: usize = 30;

/// Requests that a proxy has put to each rack.
fn requests(proxy: &Process) -> [u64; 3] {
    let stats = Client::connect(proxy.address()).stats("locality");
    RACKS.map(|rack| {
        let requests = &stats[&format!("{rack}:requests")];
        requests.parse().expect("a number")
    })
}

#[test]
fn reads_stay_in_a_rack_that_has_a_copy_and_see_what_is_written_elsewhere_at_once() {
    let servers = RACKS.map(|_| Memcached::spawn(&["-t", "1"]));
    let coordinator = evenkeel::coordinator(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("proxy.toml");
    // By names of their own, so that keys have the same places whatever the ports are.
    let named = servers.iter().zip(RACKS).map(|(server, rack)| {
        let address = server.address();
        format!("{{ address = \"{address}\", name = \"server-{rack}\", rack = \"{rack}\" }}")
    });
    let named = named.collect::<Vec<_>>().join(", ");
    let racks = RACKS
        .map(|rack| format!("[topology.racks.{rack}]\n"))
        .concat();
    let text = format!(
        "{racks}[proxy]\nthreads = 1\n[pools.main]\nservers = [{named}]\n{LINES}architecture = \"sdr\"\nrack_copies = 2\n\
         copies_ttl = 3600\npool_coordinator = \"http://{}\"\n",
        coordinator.address()
    );
    std::fs::write(&path, text).expect("room");
    let path = path.display().to_string();
    let proxies =
        RACKS.map(|rack| evenkeel::proxy(&["--config", &path, "--name", rack, "--rack", rack]));
    switch(coordinator.address(), "on", RACKS.len());
    let mut clients = proxies.each_ref().map(|it| Client::connect(it.address()));
    let keys: Vec<String> = (0..KEYS).map(|n| format!("key-{n}")).collect();
    for key in &keys {
        assert_eq!(clients[0].set(key, b"old"), "STORED");
    }
    // Two of three racks have each key: once these are filled, a third of the reads leave their rack.
    poll_until(PATIENCE, "copies to be filled", || {
        let mut went = [0, 0];
        for (own, (proxy, client)) in proxies.iter().zip(&mut clients).enumerate() {
            let before = requests(proxy);
            for key in &keys {
                assert_eq!(client.get(key).expect("it is there").data, b"old");
            }
            let after = requests(proxy);
            for rack in 0..RACKS.len() {
                went[usize::from(rack != own)] += after[rack] - before[rack];
            }
        }
        (went == [2 * KEYS as u64, KEYS as u64]).then_some(())
    });
    for (n, key) in keys.iter().enumerate() {
        let writer = n % RACKS.len();
        assert_eq!(clients[writer].set(key, b"new"), "STORED");
        for client in &mut clients {
            assert_eq!(client.get(key).expect("it is there").data, b"new", "{key}");
        }
        if n % 2 == 0 {
            assert_eq!(clients[writer].delete(key), "DELETED");
            for client in &mut clients {
                assert!(client.get(key).is_none(), "{key} is back");
            }
        }
    }
}
