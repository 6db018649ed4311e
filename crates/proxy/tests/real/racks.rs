//! Where servers stand, over real processes: what goes to each rack is counted, and told.

use crate::in_process::{connect, parsed};
use crate::patience::LINES;
use evenkeel_proxy::Proxy;
use evenkeel_testkit::{Memcached, http};

/// Bytes that a memcached has read and written, without those of this question.
struct Wire {
    read: u64,
    written: u64,
}

impl Wire {
    /// Asks a memcached of one thread, which counts what it has sent before it reads anything else.
    fn of(memcached: &Memcached) -> (Wire, Wire) {
        let stats = memcached.client().stats("");
        let number = |name: &str| -> u64 { stats[name].parse().expect("a number") };
        let lines = stats
            .iter()
            .map(|(name, value)| format!("STAT {name} {value}\r\n").len());
        let answer = (lines.sum::<usize>() + "END\r\n".len()) as u64;
        let question = "stats\r\n".len() as u64;
        let before = Wire {
            read: number("bytes_read") - question,
            written: number("bytes_written"),
        };
        let behind = Wire {
            read: before.read + question,
            written: before.written + answer,
        };
        (before, behind)
    }
}

#[test]
fn what_goes_to_each_rack_is_what_its_memcacheds_have_read_and_written() {
    let spawn = || Memcached::spawn(&["-t", "1"]);
    let memcacheds = [("a", spawn()), ("core", spawn())];
    let before = memcacheds
        .each_ref()
        .map(|(_, memcached)| Wire::of(memcached).1);
    let [(_, own), (_, far)] = &memcacheds;
    let text = format!(
        "[topology.racks.a]\ncidr = [\"127.0.0.0/8\"]\n[topology.racks.core]\ncentral = true\n\
         [proxy]\nadmin = \"127.0.0.1:0\"\nlisten = \"127.0.0.1:0\"\nrack = \"a\"\n\
         [pools.main]\nservers = [\"{}\", {{ address = \"{}\", rack = \"core\" }}]\n{LINES}",
        own.address(),
        far.address()
    );
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("proxy.toml");
    std::fs::write(&path, text).expect("room");
    let line = ["proxy", "--config", path.to_str().expect("UTF-8")];
    let proxy = Proxy::start(&parsed(line)).expect("the proxy starts");
    let mut client = connect(&proxy);
    for n in 0..200 {
        assert_eq!(
            client.set(&format!("key-{n}"), b"a value of some length"),
            "STORED"
        );
        assert!(client.get(&format!("key-{n}")).is_some());
    }
    let stats = client.stats("locality");
    assert_eq!(stats["own_rack"], "a");
    assert_eq!((&*stats["a:central"], &*stats["core:central"]), ("0", "1"));
    let number = |name: String| -> u64 { stats[&name].parse().expect("a number") };
    let requests = |rack: &str| number(format!("{rack}:requests"));
    assert_eq!(requests("a") + requests("core"), 400);
    for ((rack, memcached), before) in memcacheds.iter().zip(&before) {
        let now = Wire::of(memcached).0;
        assert_eq!(number(format!("{rack}:servers")), 1);
        assert_eq!(
            number(format!("{rack}:sent_bytes")),
            now.read - before.read,
            "{rack}"
        );
        assert_eq!(
            number(format!("{rack}:received_bytes")),
            now.written - before.written,
            "{rack}"
        );
        assert!(number(format!("{rack}:sends")) >= requests(rack));
        assert!(number(format!("{rack}:distance_us")) > 0);
    }
    let admin = proxy.admin_address().expect("it was asked for");
    let (_, metrics) = http::get(admin, "/metrics").expect("an answer");
    let sent = number("core:sent_bytes".into());
    let sample =
        format!("evenkeel_proxy_rack_sent_bytes_total{{own=\"a\",rack=\"core\"}} {sent}\n");
    assert!(metrics.contains(&sample), "{sample}");
    proxy.stop().expect("it ends");
}
