//! Random commands through a proxy and several real server cores, against one server core that is
//! asked directly: an application cannot tell the difference.

use super::world::{World, map};
use crate::{ClientId, ProxyConfig, RequestLogConfig};
use evenkeel_hotkeys::config::HotKeysConfig;
use evenkeel_protocol::Limits;
use evenkeel_server_core::{
    AdminConfig, AuthMode, ConnectionId, Peer, WorkerConfig, WorkerCore, first_version,
};
use evenkeel_storage::{PoolConfig, SegmentPool};
use evenkeel_types::{BootId, Now, ServerId};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

pub const SERVERS: u16 = 3;
const NOW: Now = Now {
    monotonic: super::world::T0,
    unix: 1_800_000_000,
};

/// A server of one worker with one connection.
pub struct Server {
    core: WorkerCore,
    connection: ConnectionId,
    input: Vec<u8>,
    /// Answered and not delivered.
    pub output: Vec<u8>,
}

impl Server {
    pub fn new(number: u16, clustered: bool) -> Self {
        let pool = SegmentPool::new(PoolConfig {
            limit_bytes: 32 << 20,
            item_size_max: Limits::default().item_size_max,
            cachelets_expected: 16,
        });
        let config = WorkerConfig {
            index: 0,
            workers: 1,
            limits: Limits::default(),
            requests_per_turn: 20,
            allow_flush: true,
            cas_shown: true,
            auth: AuthMode::Open,
            admin: AdminConfig::default(),
            evict: true,
            clustered,
            hot_keys: HotKeysConfig::default(),
            seed: 3,
            boot: BootId(1),
            start: NOW,
            first_version: first_version(u64::from(NOW.unix) * 1000),
        };
        let mut core = WorkerCore::new(config, &pool).expect("sound settings");
        if clustered {
            core.handle_map(
                NOW,
                &map(1, SERVERS, |cachelet| cachelet % SERVERS + 1),
                ServerId(number),
            );
        }
        let connection = core.open(Peer::default());
        let mut server = Server {
            core,
            connection,
            input: Vec::new(),
            output: Vec::new(),
        };
        if clustered {
            server.ask(b"evenkeel 1 epoch=1\r\n");
            assert!(server.output.starts_with(b"EVENKEEL 1 "));
            server.output.clear();
        }
        server
    }

    pub fn ask(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        loop {
            let progress = self.core.handle_input(NOW, self.connection, &self.input);
            self.input.drain(..progress.consumed);
            let session = self.core.session(self.connection).expect("it stays open");
            self.output.append(&mut session.out);
            if !progress.more {
                return;
            }
        }
    }
}

/// Commands whose answers do not depend on CAS uniques, which each server counts for itself. Stale
/// items are left to `mg`: a classic `get` through the proxy takes part in the race to recache.
pub fn command(below: &mut impl FnMut(usize) -> usize) -> String {
    let key = format!("k{}", below(12));
    let number = format!("n{}", below(4));
    let meta = format!("m{}", below(8));
    let quiet = ["", " q"][below(2)];
    let noreply = ["", " noreply"][below(2)];
    let value = "v".repeat(below(50));
    let size = value.len();
    let exptime = ["0", "0", "100", "-1"][below(4)];
    match below(24) {
        0..3 => format!("set {key} {size} {exptime} {size}{noreply}\r\n{value}\r\n"),
        3 => format!("add {key} 1 {exptime} {size}{noreply}\r\n{value}\r\n"),
        4 => format!("replace {key} 1 {exptime} {size}{noreply}\r\n{value}\r\n"),
        5 => format!("append {key} 1 0 {size}{noreply}\r\n{value}\r\n"),
        6 => format!("prepend {key} 1 0 {size}{noreply}\r\n{value}\r\n"),
        7 => format!("cas {key} 1 0 {size} 1{noreply}\r\n{value}\r\n"),
        8 => format!("delete {key}{noreply}\r\n"),
        9 => format!("touch {key} {exptime}{noreply}\r\n"),
        10 => format!("set {number} 0 0 2{noreply}\r\n{}\r\n", 10 + below(90)),
        11 => format!("incr {number} {}{noreply}\r\n", below(1000)),
        12 => format!("decr {number} {}{noreply}\r\n", below(1000)),
        13 => format!("incr {key} 1{noreply}\r\n"),
        14 => format!("gat {exptime} {key} {number}\r\n"),
        15 => {
            let keys: Vec<String> = (0..1 + below(12))
                .map(|_| format!("k{}", below(12)))
                .collect();
            format!("get {number} {}\r\n", keys.join(" "))
        }
        16 => format!(
            "ms {meta} {size} T{exptime} F7 M{}{quiet}\r\n{value}\r\n",
            ["S", "E", "R", "A", "P"][below(5)]
        ),
        17 => format!(
            "mg {meta} {}{quiet}\r\n",
            [
                "v", "v k f s", "t h l", "v Oab k", "k v T30", "v N30 t", "s R10"
            ][below(7)]
        ),
        18 => format!(
            "md {meta} {}{quiet}\r\n",
            ["", "I T30", "Oxyz k", "x"][below(4)]
        ),
        19 => format!(
            "ma {number} {}{quiet}\r\n",
            ["", "v", "MD D3 v", "N0 J5 v t", "O1 k"][below(5)]
        ),
        20 => "mn\r\n".into(),
        21 => ["flush_all\r\n", "flush_all noreply\r\n"][below(2)].into(),
        22 => [
            "get\r\n",
            "bogus\r\n",
            "set k1 a b c\r\n",
            "incr k1 x\r\n",
            "mg k1 !\r\n",
        ][below(5)]
        .into(),
        _ => format!("set {key} 0 0 2\r\nlong\r\n"),
    }
}

/// Numbers below a bound, from a seed that is printed.
pub fn numbers(seed: u64) -> impl FnMut(usize) -> usize {
    println!("seed {seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    move |bound: usize| (random.next_u64() % bound as u64) as usize
}

/// The application sends `left`, and everything is asked and answered, in pieces and in any order.
pub fn exchange(
    world: &mut World,
    servers: &mut [Server],
    client: ClientId,
    mut left: &[u8],
    below: &mut impl FnMut(usize) -> usize,
) {
    loop {
        if !left.is_empty() && below(3) == 0 {
            let (piece, rest) = left.split_at(1 + below(left.len()));
            world.send(client, piece);
            left = rest;
        }
        answer_in_part(world, servers, below);
        let quiet = servers.iter().all(|server| server.output.is_empty())
            && (101..101 + SERVERS).all(|port| !world.has_asked(port));
        if left.is_empty() && quiet {
            return;
        }
    }
}

/// A server answers a part of what it was asked.
pub fn answer_in_part(
    world: &mut World,
    servers: &mut [Server],
    below: &mut impl FnMut(usize) -> usize,
) {
    let at = below(servers.len());
    let (server, port) = (&mut servers[at], 101 + at as u16);
    server.ask(&world.asked_bytes(port));
    if !server.output.is_empty() {
        let count = 1 + below(server.output.len());
        let piece: Vec<u8> = server.output.drain(..count).collect();
        world.reply(port, piece);
    }
}

/// Lines without CAS uniques, which each server counts for itself.
pub fn lines_without_uniques(text: &str) -> Vec<String> {
    let without = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        ["VALUE", key, flags, len, _] => format!("VALUE {key} {flags} {len}"),
        _ => line.to_owned(),
    };
    text.split("\r\n").map(without).collect()
}

fn run(mut world: World, mut servers: Vec<Server>, seed: u64) {
    let mut below = numbers(seed);
    let mut twin = Server::new(1, false);
    let client = world.client();
    for _ in 0..60 {
        let pipeline: String = (0..1 + below(30)).map(|_| command(&mut below)).collect();
        twin.ask(pipeline.as_bytes());
        let sent = pipeline.as_bytes();
        exchange(&mut world, &mut servers, client, sent, &mut below);
        let expected = String::from_utf8(std::mem::take(&mut twin.output)).unwrap();
        assert_eq!(world.received(client), expected, "{pipeline}");
    }
}

/// As many servers as a map has, or those of a pool without one.
pub fn servers(clustered: bool) -> Vec<Server> {
    let numbers = 1..=SERVERS;
    numbers
        .map(|number| Server::new(number, clustered))
        .collect()
}

pub fn flushing(config: &mut ProxyConfig) {
    config.pools[0].settings.allow_flush = true;
}

#[test]
fn a_proxy_before_evenkeel_servers_is_one_memcached() {
    for seed in 0..40 {
        let servers = servers(true);
        run(World::evenkeel_with(SERVERS, flushing), servers, seed);
    }
}

#[test]
fn a_proxy_before_other_servers_is_one_memcached() {
    for seed in 0..40 {
        let servers = servers(false);
        run(World::memcached_with(SERVERS, flushing), servers, seed);
    }
}

/// One of two requests is logged, by which some answers take another way than without a log.
fn logging(config: &mut ProxyConfig) {
    flushing(config);
    config.request_log = Some(RequestLogConfig {
        sample: 2,
        slow: None,
        hash_keys: false,
    });
}

#[test]
fn a_proxy_that_logs_its_requests_is_one_memcached() {
    for seed in 0..20 {
        let of_cluster = seed % 2 == 0;
        let servers = (1..=SERVERS).map(|number| Server::new(number, of_cluster));
        let world = match of_cluster {
            true => World::evenkeel_with(SERVERS, logging),
            false => World::memcached_with(SERVERS, logging),
        };
        run(world, servers.collect(), seed);
    }
}
