//! A proxy beside a real twemproxy, in front of the same real memcached servers: what one stores the
//! other finds, for each of twemproxy's distributions and hashes. So one can take the other's place
//! while the servers are warm.

use crate::in_process::parsed;
use crate::patience::{FLAGS, PATIENCE};
use evenkeel_proxy::Proxy;
use evenkeel_testkit::{Memcached, Process, poll_until, require_program};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// Keys that each side stores for the other.
const KEYS: usize = 150;

const HASHES: [&str; 12] = [
    "one_at_a_time",
    "md5",
    "crc16",
    "crc32",
    "crc32a",
    "fnv1_64",
    "fnv1a_64",
    "fnv1_32",
    "fnv1a_32",
    "hsieh",
    "murmur",
    "jenkins",
];

/// One pool of twemproxy's.
struct Pool {
    distribution: &'static str,
    hash: &'static str,
    /// As both write them: HOST:PORT:WEIGHT, and perhaps a name.
    servers: Vec<String>,
    tag: Option<&'static str>,
    socket: PathBuf,
}

/// A twemproxy that listens on a unix socket for each pool.
struct Twemproxy {
    _process: Process,
    _folder: tempfile::TempDir,
    pools: Vec<Pool>,
}

impl Twemproxy {
    fn spawn(servers: &[SocketAddr]) -> Twemproxy {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut pools: Vec<Pool> = Vec::new();
        for distribution in ["ketama", "modula"] {
            let mut add = |hash, servers, tag| {
                let socket = folder.path().join(format!("{}.sock", pools.len()));
                pools.push(Pool {
                    distribution,
                    hash,
                    servers,
                    tag,
                    socket,
                });
            };
            let plain = servers.iter().map(|server| format!("{server}:1"));
            for hash in HASHES {
                add(hash, plain.clone().collect(), None);
            }
            add("fnv1a_64", plain.collect(), Some("{}"));
            let weights = servers.iter().zip([3, 1, 2, 4]);
            let weighted = weights.clone().map(|(server, w)| format!("{server}:{w}"));
            add("murmur", weighted.collect(), None);
            let names = ["zulu", "yankee", "x", "whiskey"].into_iter();
            let named = weights
                .zip(names)
                .map(|((s, w), name)| format!("{s}:{w} {name}"));
            add("fnv1a_64", named.collect(), None);
        }
        let mut text = String::new();
        for (i, pool) in pools.iter().enumerate() {
            let Pool {
                distribution, hash, ..
            } = pool;
            let socket = pool.socket.display();
            write!(
                text,
                "pool{i}:\n  listen: {socket} 0600\n  distribution: {distribution}\n  hash: {hash}\n"
            )
            .expect("strings take all");
            if let Some(tag) = pool.tag {
                writeln!(text, "  hash_tag: \"{tag}\"").expect("strings take all");
            }
            let servers = pool.servers.iter().map(|server| format!("   - {server}\n"));
            text.push_str("  servers:\n");
            text.extend(servers);
        }
        let file = folder.path().join("nutcracker.yml");
        std::fs::write(&file, text).expect("the folder is ours");
        // It serves statistics on a port that it has to be told, here of an address that no other process uses.
        let [_, a, b, c] = std::process::id().to_be_bytes();
        let host = Ipv4Addr::new(127, a | 0x80, b, c);
        let port = TcpListener::bind((host, 0)).and_then(|free| free.local_addr());
        let (host, port) = (
            host.to_string(),
            port.expect("a free port").port().to_string(),
        );
        let process = Process::command("twemproxy", require_program("nutcracker"))
            .args(["-a", &host, "-s", &port, "-c"])
            .arg(&file)
            .spawn();
        let last = pools.last().expect("there are pools").socket.clone();
        poll_until(PATIENCE, "twemproxy to listen", || {
            UnixStream::connect(&last).ok()
        });
        Twemproxy {
            _process: process,
            _folder: folder,
            pools,
        }
    }
}

/// Sends requests and compares all of what is answered.
fn exchange(stream: &mut (impl Read + Write), requests: &str, expected: &str) {
    stream.write_all(requests.as_bytes()).expect("it reads");
    let mut answers = vec![0; expected.len()];
    stream.read_exact(&mut answers).expect("it answers");
    assert_eq!(String::from_utf8_lossy(&answers), expected);
}

/// Stores every key through one, and reads it through the other.
fn store_and_find(
    keys: &[String],
    value: &str,
    writer: &mut (impl Read + Write),
    reader: &mut (impl Read + Write),
) {
    let len = value.len();
    let sets = keys
        .iter()
        .map(|key| format!("set {key} 0 0 {len}\r\n{value}\r\n"));
    exchange(
        writer,
        &sets.collect::<String>(),
        &"STORED\r\n".repeat(keys.len()),
    );
    let gets: String = keys.iter().map(|key| format!("get {key}\r\n")).collect();
    let found = keys
        .iter()
        .map(|key| format!("VALUE {key} 0 {len}\r\n{value}\r\nEND\r\n"));
    exchange(reader, &gets, &found.collect::<String>());
}

#[test]
fn keys_are_where_twemproxy_puts_them_and_looks_for_them() {
    let memcached: Vec<Memcached> = (0..4).map(|_| Memcached::spawn(&[])).collect();
    let servers: Vec<SocketAddr> = memcached.iter().map(Memcached::address).collect();
    let twemproxy = Twemproxy::spawn(&servers);
    for (i, pool) in twemproxy.pools.iter().enumerate() {
        let what = format!("{} {} {:?}", pool.distribution, pool.hash, pool.tag);
        println!("{what}");
        let distribution = format!("twemproxy_{}", pool.distribution);
        let listed = pool.servers.join(",");
        let mut line = vec!["proxy", "-l", "127.0.0.1:0", "-t", "1", "-s", &listed];
        line.extend(FLAGS);
        line.extend(["--distribution", &distribution, "--hash", pool.hash]);
        line.extend(pool.tag.into_iter().flat_map(|tag| ["--hash-tag", tag]));
        let proxy = Proxy::start(&parsed(line)).expect("the proxy starts");

        let mut ours = TcpStream::connect(proxy.address()).expect("it listens");
        let mut theirs = UnixStream::connect(&pool.socket).expect("it listens");
        ours.set_read_timeout(Some(PATIENCE))
            .expect("a socket has timeouts");
        theirs
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket has timeouts");
        // The whole key, part of a key, and bytes beyond ASCII, which C's `char` makes negative.
        let keys: Vec<String> = (0..KEYS)
            .map(|n| match n % 3 {
                0 => format!("p{i}:{n}"),
                1 => format!("p{i}:{{u{n}}}:name"),
                _ => format!("p{i}:köln:{n}:€"),
            })
            .collect();
        store_and_find(&keys, "theirs", &mut theirs, &mut ours);
        store_and_find(&keys, "ours", &mut ours, &mut theirs);
        proxy.stop().expect("it stops");
    }
    for server in &memcached {
        let stats = server.client().stats("");
        let items: usize = stats["curr_items"].parse().expect("a number");
        // In crc16 and the like shares are uneven, but over all pools each server has many keys.
        let even = KEYS * twemproxy.pools.len() / memcached.len();
        assert!(items > even / 3, "{items} of {even}");
    }
}
