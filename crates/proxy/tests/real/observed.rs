//! What copies would save a pool of real memcacheds is counted by all workers.

use crate::patience::{LINES, PATIENCE};
use crate::two_pools::list;
use evenkeel_testkit::{Client, Memcached, evenkeel, poll_until};

const REQUESTS: u64 = 20;

const KEYS: u64 = 30;

#[test]
fn what_copies_would_save_is_counted_by_all_workers() {
    let servers: Vec<Memcached> = (0..4).map(|_| Memcached::spawn(&["-t", "1"])).collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("proxy.toml");
    let of = list(&servers.iter().collect::<Vec<_>>());
    let text = format!(
        "[proxy]\nthreads = 2\n[pools.main]\nservers = {of}\n{LINES}bundle = \"observe\"\ncopies = 3\n"
    );
    std::fs::write(&path, text).expect("room");
    let proxy = evenkeel::proxy(&["--config", &path.display().to_string()]);
    for request in 0..REQUESTS {
        let mut client = Client::connect(proxy.address());
        let keys: Vec<String> = (0..KEYS).map(|n| format!("k{request}-{n}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        assert!(client.get_many(&keys).is_empty());
    }
    let mut client = Client::connect(proxy.address());
    assert_eq!(client.set("k", b"x"), "STORED");
    poll_until(PATIENCE, "the counts of both workers", || {
        let stats = client.stats("proxy");
        let count = |of: &str| -> u64 {
            let told = &stats[&format!("main:bundle_{of}")];
            told.parse().expect("a number")
        };
        let is_all = count("requests") == REQUESTS && count("keys") == REQUESTS * KEYS;
        let (plain, covered) = (count("transactions"), count("transactions_covered"));
        let saves = covered < plain && plain <= REQUESTS * servers.len() as u64;
        (is_all && saves && count("deletes") == 2).then_some(())
    });
}
