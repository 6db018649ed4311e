//! The figures of a proxy over HTTP, with real servers behind it: one that answers at once and one that is
//! stopped for a while.

use crate::in_process::parsed;
use crate::patience::{FLAGS, PATIENCE};
use evenkeel_proxy::Proxy;
use evenkeel_testkit::{Client, Memcached, Signal, http, poll_until};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long a server is stopped.
const STALL: Duration = Duration::from_secs(1);

/// How often it is stopped again when the machine has held up somebody else for nearly as long meanwhile.
const STALLS_MAX: usize = 10;

fn metrics(address: SocketAddr) -> String {
    let (status, text) = http::get(address, "/metrics").expect("an answer");
    assert_eq!(status, 200, "{text}");
    text
}

/// The value of a sample.
fn value(text: &str, sample: &str) -> f64 {
    let found = text
        .lines()
        .find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    let found = found.unwrap_or_else(|| panic!("{sample} in\n{text}"));
    found.parse().expect("a number")
}

/// How long a get took whose server was stopped meanwhile.
fn stalled(server: &mut Memcached, client: &mut Client, key: &str) -> Duration {
    server.process().signal(Signal::Stop);
    let asked = Instant::now();
    client.send(format!("get {key}\r\n").as_bytes());
    poll_until(PATIENCE, "the request to wait as long as it should", || {
        (asked.elapsed() >= STALL).then_some(())
    });
    server.process().signal(Signal::Continue);
    assert!(client.line().starts_with("VALUE "));
    let waited = asked.elapsed();
    assert_eq!(
        (client.line(), client.line()),
        ("value".into(), "END".into())
    );
    waited
}

#[test]
fn a_stalled_server_shows_in_its_own_times_alone() {
    let mut memcached = [Memcached::spawn(&[]), Memcached::spawn(&[])];
    let names = memcached
        .each_ref()
        .map(|server| server.address().to_string());
    let servers = names.join(",");
    let line = ["proxy", "-l", "127.0.0.1:0", "-s", &servers];
    let more = ["--admin", "127.0.0.1:0"];
    let args = parsed(line.iter().chain(&more).chain(&FLAGS));
    let proxy = Proxy::start(&args).expect("the proxy starts");
    let admin = proxy.admin_address().expect("it was asked for");
    for path in ["/healthz", "/readyz"] {
        let answer = http::get(admin, path).expect("an answer");
        assert_eq!(answer, (200, "ok\n".to_owned()), "{path}");
    }
    assert_eq!(http::get(admin, "/nowhere").expect("an answer").0, 404);

    // Over two connections, so that both workers count.
    let address = proxy.address().parse().expect("an address");
    let mut clients = [Client::connect(address), Client::connect(address)];
    let keys: Vec<String> = (0..40).map(|n| format!("key:{n}")).collect();
    for client in &mut clients {
        for key in &keys {
            assert_eq!(client.set(key, b"value"), "STORED");
            assert!(client.get(key).is_some());
        }
    }
    let before = metrics(admin);
    assert_eq!(value(&before, "evenkeel_proxy_up"), 1.0);
    assert_eq!(value(&before, "evenkeel_proxy_threads"), 2.0);
    assert_eq!(value(&before, "evenkeel_proxy_connections"), 2.0);
    assert_eq!(value(&before, "evenkeel_proxy_get_hits_total"), 80.0);
    let of = |text: &str, server: usize, name: &str| {
        let labels = format!("{{pool=\"default\",server=\"{}\"}}", names[server]);
        value(text, &format!("evenkeel_proxy_server_{name}{labels}"))
    };
    let both = |name: &str| of(&before, 0, name) + of(&before, 1, name);
    assert_eq!(both("requests_total"), 160.0);
    assert_eq!(both("queue_seconds_count"), 160.0);
    assert_eq!(both("answer_seconds_count"), 160.0);
    let route = "{route=\"1\",prefix=\"\",pool=\"default\"}";
    assert_eq!((of(&before, 0, "up"), of(&before, 1, "up")), (1.0, 1.0));
    assert!(value(&before, "process_open_fds") > 4.0);
    let of_route = |name: &str| value(&before, &format!("evenkeel_proxy_route_{name}{route}"));
    assert_eq!(of_route("get_hits_total"), 80.0);
    assert_eq!(of_route("requests_total"), 160.0);
    assert_eq!(of_route("answer_seconds_count"), 160.0);

    let is_of_first = |key: &&String| memcached[0].client().get(key).is_some();
    let key = keys.iter().find(is_of_first).expect("half of them are");
    // What the machine adds to other times is never the same for long; what the proxy puts into the wrong one is.
    let mut before = before;
    let stalls = (1..=STALLS_MAX).find(|_| {
        let waited = stalled(&mut memcached[0], &mut clients[0], key);
        let after = metrics(admin);
        let rise = |server, name| of(&after, server, name) - of(&before, server, name);
        assert_eq!(rise(0, "answer_seconds_count"), 1.0);
        assert_eq!(rise(1, "answer_seconds_count"), 0.0);
        for at in [&before, &after] {
            let parts = of(at, 0, "network_seconds_sum") + of(at, 0, "server_seconds_sum");
            assert!(
                (parts - of(at, 0, "answer_seconds_sum")).abs() < 1e-6,
                "{at}"
            );
        }
        // The way to it is as short as before: the kernel of a stopped process acknowledges all the same. What is told
        // is the shortest of both workers' connections; the one that waited may have a longer one of its own.
        let round_trip = of(&after, 0, "round_trip_seconds");
        assert!(round_trip > 0.0, "{after}");
        let elsewhere = round_trip + rise(0, "queue_seconds_sum") + rise(0, "network_seconds_sum");
        let server = rise(0, "server_seconds_sum");
        println!("{server} s of {waited:?} at the server, {elsewhere} s elsewhere");
        before = after;
        server <= waited.as_secs_f64()
            && server > waited.as_secs_f64() / 2.0
            && elsewhere < server / 2.0
    });
    let stalls = stalls.expect("the server's own time has most of the stall");

    // The same figures by stats.
    assert_eq!(clients[1].get("key:none"), None);
    let stats = clients[1].stats("servers");
    let number = |row: &str| -> u64 {
        stats[&format!("{}:{row}", names[0])]
            .parse()
            .expect("a number")
    };
    assert!(
        number("answer_us_p999") >= STALL.as_micros() as u64 / 2,
        "{stats:?}"
    );
    assert!(
        number("answer_us_p50") < number("answer_us_p999"),
        "{stats:?}"
    );
    let stats = clients[1].stats("routes");
    let hits = (80 + stalls).to_string();
    assert_eq!((&*stats["1:keys"], &stats["1:get_hits"]), ("*", &hits));
    proxy.stop().expect("it stops");
}
