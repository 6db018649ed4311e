//! Servers that are looked for: in a file that changes, and at a name server that shrinks, fails and
//! comes back.

use crate::alike::start_alike;
use crate::in_process::{connect, parsed};
use crate::name_service::{Mood, NameService};
use crate::patience::{FLAGS, LINES, PATIENCE};
use evenkeel_proxy::Proxy;
use evenkeel_testkit::{Client, Memcached, evenkeel, poll_until};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

/// Keys that are asked for again and again: with three servers each has some.
const KEYS: usize = 40;

fn start(flags: &[&str]) -> Proxy {
    start_with(&[flags, &FLAGS].concat())
}

fn start_with(flags: &[&str]) -> Proxy {
    let line = ["proxy", "-l", "127.0.0.1:0", "-t", "2"];
    let args = parsed(line.iter().chain(flags));
    Proxy::start(&args).expect("the proxy starts")
}

/// The generation of the configuration in force, and its servers.
fn cluster(client: &mut Client) -> (u64, BTreeSet<String>) {
    let stats = client.stats("servers");
    // Asked after them: that of these servers, or a later one.
    let generation = client.stats("proxy")["config_generation"].parse();
    let addresses = stats
        .into_iter()
        .filter(|(name, _)| name.ends_with(":address"));
    let servers = addresses.map(|(_, address)| address).collect();
    (generation.expect("a number"), servers)
}

fn await_servers(client: &mut Client, expected: &BTreeSet<String>) -> u64 {
    poll_until(PATIENCE, "the proxy to know other servers", || {
        let (version, servers) = cluster(client);
        (servers == *expected).then_some(version)
    })
}

fn await_stat(client: &mut Client, name: &str, holds: impl Fn(&str) -> bool) {
    poll_until(PATIENCE, name, || {
        holds(client.stats("proxy").get(name)?).then_some(())
    });
}

/// Writes and reads all keys; no request may fail.
fn use_all(client: &mut Client) {
    for i in 0..KEYS {
        let key = format!("key:{i}");
        assert_eq!(client.set(&key, b"v"), "STORED");
        assert_eq!(client.get(&key).expect("it was stored").data, b"v");
    }
}

#[test]
fn addresses_of_a_name_are_the_servers_and_no_answer_takes_them_away() {
    let servers = start_alike(&["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
    let port = servers[0].port();
    let address = |i: usize| -> IpAddr { servers[i].ip() };
    let named =
        |of: &[usize]| -> BTreeSet<String> { of.iter().map(|&i| servers[i].to_string()).collect() };
    let names = NameService::start(Mood::Well);
    names.set_addresses("cache.test", &[address(1), address(0)]);
    let (name, server) = (format!("cache.test:{port}"), names.address().to_string());
    let proxy = start(&[
        "--dns",
        &name,
        "--nameserver",
        &server,
        "--refresh",
        "100ms",
    ]);
    let mut client = connect(&proxy);
    assert_eq!(cluster(&mut client).1, named(&[0, 1]));
    use_all(&mut client);

    names.set_addresses("cache.test", &[address(2), address(0), address(1)]);
    let version = await_servers(&mut client, &named(&[0, 1, 2]));
    use_all(&mut client);

    // It shrinks to nothing, is gone, and fails.
    for (mood, count) in [
        (Mood::Well, "default:lists_empty"),
        (Mood::NoSuchName, "default:lists_empty"),
        (Mood::Failing, "default:lists_failed"),
    ] {
        names.set_addresses("cache.test", &[]);
        let before: u64 = client.stats("proxy")[count].parse().expect("a number");
        names.feel(mood);
        await_stat(&mut client, count, |now| {
            now.parse::<u64>().expect("a number") > before + 2
        });
        let stats = client.stats("proxy");
        assert_eq!(stats["default:servers_list"], "kept", "{mood:?}");
        assert_ne!(stats["default:servers_trouble"], "none");
        assert_eq!(cluster(&mut client), (version, named(&[0, 1, 2])));
        use_all(&mut client);
    }
    let useless: u64 = client.stats("")["proxy_server_lists_useless"]
        .parse()
        .expect("a number");
    assert!(useless >= 9);

    // It is back with one of three: that is believed when it has been said three times.
    names.set_addresses("cache.test", &[address(2)]);
    names.feel(Mood::Well);
    assert!(await_servers(&mut client, &named(&[2])) > version);
    let stats = client.stats("proxy");
    // More than once where an answer between was late.
    assert_ne!(stats["default:lists_suspect"], "0");
    assert_eq!(stats["default:servers_list"], "current");
    assert_eq!(
        stats["default:servers_from"],
        format!("dns cache.test:{port}")
    );
    use_all(&mut client);
    names.set_addresses("cache.test", &[address(0), address(2)]);
    await_servers(&mut client, &named(&[0, 2]));
    use_all(&mut client);
    let stats = client.stats("proxy");
    assert_eq!(
        (&*stats["request_errors"], &*stats["reads_unavailable"]),
        ("0", "0")
    );
    proxy.stop().expect("it stops");
}

#[test]
fn services_bring_ports_and_weights_and_are_reached_by_the_same_name_server() {
    let servers: Vec<Memcached> = (0..3).map(|_| Memcached::spawn(&["-t", "1"])).collect();
    let port = |i: usize| servers[i].address().port();
    let names = NameService::start(Mood::Well);
    let local = ["127.0.0.1".parse().expect("an address")];
    for name in ["a.test", "b.test", "c.test"] {
        names.set_addresses(name, &local);
    }
    let service = "_memcached._tcp.test";
    names.set_services(service, &[(1, port(1), "b.test."), (1, port(0), "a.test.")]);
    let server = names.address().to_string();
    let proxy = start(&[
        "--srv",
        service,
        "--nameserver",
        &server,
        "--refresh",
        "100ms",
    ]);
    let mut client = connect(&proxy);
    let named = |of: &[(usize, &str)]| -> BTreeSet<String> {
        of.iter()
            .map(|(i, name)| format!("{name}:{}", port(*i)))
            .collect()
    };
    assert_eq!(
        cluster(&mut client).1,
        named(&[(0, "a.test"), (1, "b.test")])
    );
    use_all(&mut client);
    // The third has most of the weight, and so most of the keys.
    names.set_services(
        service,
        &[
            (1, port(0), "a.test"),
            (1, port(1), "b.test"),
            (18, port(2), "c.test"),
        ],
    );
    await_servers(
        &mut client,
        &named(&[(0, "a.test"), (1, "b.test"), (2, "c.test")]),
    );
    use_all(&mut client);
    let stored = |i: usize| -> usize {
        let mut direct = servers[i].client();
        (0..KEYS)
            .filter(|k| direct.get(&format!("key:{k}")).is_some())
            .count()
    };
    assert!(stored(2) > KEYS / 2, "{} of {KEYS}", stored(2));
    proxy.stop().expect("it stops");
}

#[test]
fn a_start_waits_for_the_name_service() {
    let memcached = Memcached::spawn(&["-t", "1"]);
    let names = NameService::start(Mood::Failing);
    names.set_addresses("cache.test", &[memcached.address().ip()]);
    let (name, server) = (
        format!("cache.test:{}", memcached.address().port()),
        names.address().to_string(),
    );
    let proxy = std::thread::spawn(move || {
        start(&[
            "--dns",
            &name,
            "--nameserver",
            &server,
            "--refresh",
            "100ms",
        ])
    });
    poll_until(PATIENCE, "several questions", || {
        (names.questions() > 6).then_some(())
    });
    assert!(!proxy.is_finished());
    names.feel(Mood::Well);
    let proxy = proxy.join().expect("it starts");
    use_all(&mut connect(&proxy));
    proxy.stop().expect("it stops");
}

fn write(path: &Path, servers: &[&Memcached]) {
    let lines = servers
        .iter()
        .map(|server| format!("{}\n", server.address()));
    let next = path.with_extension("next");
    std::fs::write(&next, lines.collect::<String>()).expect("room");
    std::fs::rename(&next, path).expect("the same folder");
}

#[test]
fn a_file_with_servers_is_taken_over_when_it_changes_and_kept_when_it_is_of_no_use() {
    let servers: Vec<Memcached> = (0..3).map(|_| Memcached::spawn(&["-t", "1"])).collect();
    let [a, b, c] = [0, 1, 2].map(|i| &servers[i]);
    let named = |of: &[&Memcached]| -> BTreeSet<String> {
        of.iter()
            .map(|server| server.address().to_string())
            .collect()
    };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let list = dir.path().join("servers");
    write(&list, &[a, b]);
    let config = dir.path().join("proxy.toml");
    let text = format!("[pools.main]\nservers_file = {list:?}\nrefresh = \"100ms\"\n{LINES}");
    std::fs::write(&config, text).expect("room");
    let config = config.to_str().expect("UTF-8");
    let mut proxy = start_with(&["--config", config]);
    let mut client = connect(&proxy);
    assert_eq!(cluster(&mut client).1, named(&[a, b]));
    use_all(&mut client);
    write(&list, &[c, a, b]);
    await_servers(&mut client, &named(&[c, a, b]));
    use_all(&mut client);
    std::fs::write(&list, "h:1\nh:1\n").expect("room");
    await_stat(&mut client, "main:lists_unusable", |now| now != "0");
    assert_eq!(client.stats("proxy")["main:servers_list"], "kept");
    assert_eq!(cluster(&mut client).1, named(&[c, a, b]));
    use_all(&mut client);
    let error = proxy.reload().expect_err("two servers are one");
    assert!(error.contains("server h:1 is listed twice"), "{error}");
    std::fs::remove_file(&list).expect("it is there");
    await_stat(&mut client, "main:servers_trouble", |now| {
        now.contains("No such file")
    });
    write(&list, &[b, c]);
    await_servers(&mut client, &named(&[b, c]));
    let reloaded = proxy.reload().expect("a sound file");
    assert!(
        reloaded.generation > 3,
        "lists count too: {}",
        reloaded.generation
    );
    use_all(&mut client);
    let stats = client.stats("proxy");
    assert_eq!(
        (&*stats["request_errors"], &*stats["reads_unavailable"]),
        ("0", "0")
    );
    proxy.stop().expect("it stops");
}

#[test]
fn checking_a_file_points_into_the_list_that_it_names() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let list = dir.path().join("servers");
    std::fs::write(&list, "h:1\n\nh:x\n").expect("room");
    let config = dir.path().join("proxy.toml");
    let text = format!("[pools.main]\nservers_file = {list:?}\n");
    std::fs::write(&config, text).expect("room");
    let output = evenkeel::run(&["proxy", "check", config.to_str().expect("UTF-8")]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let place = format!(
        "{}:2:16: {}:3: this is no server",
        config.display(),
        list.display()
    );
    assert!(said.contains(&place), "{said}");
}

/// Names of the rows of `stats proxy` about the search for servers.
#[test]
fn a_list_that_is_given_has_no_rows_about_a_search() {
    let memcached = Memcached::spawn(&["-t", "1"]);
    let proxy = start(&["-s", &memcached.address().to_string()]);
    let stats: BTreeMap<String, String> = connect(&proxy).stats("proxy");
    assert!(
        !stats
            .keys()
            .any(|name| name.contains("lists_") || name.contains("servers_from"))
    );
    proxy.stop().expect("it stops");
}
