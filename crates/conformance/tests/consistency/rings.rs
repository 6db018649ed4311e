//! Parts of a ring change hands among memcacheds, ordered one after the other, under proxies and applications that never stop, while items
//! are evicted, and servers, proxies and the coordinator are killed and stopped.

use super::application::{KEYS, Shared};
use super::changes::{Fleet, THINKING};
use super::warm::{
    DEADLINE, SERVERS, STOPPED_MS_MAX, addresses, counts, evict, judge, list, memcacheds, pause_of,
    restart, rounds, work,
};
use super::{IMPATIENT, PROXIES};
use evenkeel_placement::config::{PlacementConfig, Server};
use evenkeel_placement::pool::Placement;
use evenkeel_testkit::{Client, Memcached, http, poll_until};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// Keys that are to move at once.
const KEYS_MOVED: usize = 3;

/// Plans that come to their end before anything fails. Each takes the seconds of `closing`.
const PLANS: u64 = 1;

/// How long a plan warms: some of what is asked for is brought, some is not.
const WARMING_MS: u64 = 200;

fn lines(servers: &[Memcached], coordinator: SocketAddr) -> String {
    format!(
        "[pools.main]\n{}request_timeout = \"{IMPATIENT}\"\nconnect_timeout = \"{IMPATIENT}\"\n\
         distribution = \"adaptive\"\npool_coordinator = \"http://{coordinator}\"\n",
        list(servers)
    )
}

fn ring(fleet: &Fleet) -> Option<Value> {
    let (_, body) = http::get(fleet.coordinator.address(), "/api/v1/rings").ok()?;
    let body: Value = serde_json::from_str(&body).ok()?;
    body["rings"].as_array()?.first().cloned()
}

/// Orders that some keys move, again and again, until so many plans have come to their end.
fn move_keys(fleet: &Fleet, shared: &Shared, random: &mut Xoshiro256PlusPlus, plans: u64) {
    let at = fleet.coordinator.address();
    let list = Placement::new(&PlacementConfig {
        servers: vec![Server::new("any", 1)],
        ..PlacementConfig::default()
    });
    let list = list.expect("a server");
    let mut done = 0;
    let mut last = Value::Null;
    poll_until(DEADLINE, "parts of the ring to move", || {
        let change = ring(fleet)?["change"].clone();
        let number = &change["ring"]["number"];
        if change["stage"] == "done" && *number != last {
            last = number.clone();
            done += 1;
        }
        if done > plans {
            return Some(());
        }
        let mut number = |below: usize| random.next_u64() as usize % below;
        let parts: Vec<Value> = (0..KEYS_MOVED)
            .map(|_| {
                let key = shared.key(number(KEYS.len()));
                let hash = list.hashed(key.as_bytes()).1 as u32;
                json!({"first": hash, "last": hash, "to": number(SERVERS)})
            })
            .collect();
        let order = json!({"parts": parts, "proxies": PROXIES}).to_string();
        // It is refused where a key is there already, while another plan is under way, and before all proxies are there.
        let _ = http::post_json(at, "/api/v1/rings/main/moves", &order);
        None
    });
}

/// A server dies, another one comes, and a third goes.
fn come_and_go(fleet: &Fleet, servers: &mut Vec<Memcached>, dies: usize) {
    let at = fleet.coordinator.address();
    let name = |server: &Memcached| server.address().to_string();
    let wait = |what: &str, server: &str, has_part: bool| {
        poll_until(DEADLINE, what, || {
            let ring = ring(fleet)?;
            let known = ring["servers"].as_array()?.iter();
            let part = known.filter(|known| known["name"] == *server);
            let part: f64 = part.filter_map(|known| known["share"].as_f64()).sum();
            (ring["change"]["stage"] == "done" && (part > 0.0) == has_part).then_some(())
        });
    };
    let order = |what: &str, server: &str| {
        let order = json!({"what": what, "server": server, "proxies": PROXIES}).to_string();
        poll_until(DEADLINE, what, || {
            let told = http::post_json(at, "/api/v1/rings/main/servers", &order);
            (told.ok()?.0 == 200).then_some(())
        });
    };
    set(
        at,
        &json!({"mode": "automatic", "proxies": PROXIES, "dead_after_ms": 1000}),
    );
    servers[dies].process().kill();
    wait("a dead server to be lost", &name(&servers[dies]), false);
    set(at, &json!({"mode": "off"}));
    let newcomer = Memcached::spawn(&["-t", "1"]);
    order("add", &name(&newcomer));
    wait("a server to come", &name(&newcomer), true);
    let goes = &servers[(dies + 1) % SERVERS];
    order("drain", &name(goes));
    wait("a server to go", &name(goes), false);
    servers.push(newcomer);
}

fn one_round(random: &mut Xoshiro256PlusPlus, shared: &Shared) {
    let mut servers = memcacheds();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut fleet = Fleet::start(folder.path(), |coordinator| lines(&servers, coordinator));
    let mut number = |below: usize| random.next_u64() as usize % below;
    let (stopped, killed, of_proxies) = (number(SERVERS), number(SERVERS), number(PROXIES));
    let pause = Duration::from_millis(number(STOPPED_MS_MAX as usize) as u64);
    let places = addresses(&fleet.proxies);
    let of_servers: Vec<SocketAddr> = servers.iter().map(Memcached::address).collect();
    let told = work(shared, &places, || {
        let go_on = |what: &str| {
            let before = shared.values();
            poll_until(DEADLINE, what, || {
                (shared.values() > before + 100).then_some(())
            });
        };
        go_on("the pool to be used");
        set(
            fleet.coordinator.address(),
            &json!({"warming_ms": WARMING_MS}),
        );
        move_keys(&fleet, shared, random, PLANS);
        for _ in 0..20 {
            evict(&of_servers, random, shared);
        }
        pause_of(servers[stopped].process(), pause);
        restart(&mut servers[killed]);
        fleet.kill_coordinator();
        pause_of(&mut fleet.proxies[of_proxies], pause);
        move_keys(&fleet, shared, random, 1);
        fleet.kill_proxy(1 - of_proxies);
        go_on("a new proxy to be used");
        move_keys(&fleet, shared, random, 1);
        go_on("the pool to be used again");
        come_and_go(&fleet, &mut servers, killed);
        go_on("the pool to be used with other servers");
    });
    judge(told);
    let counts = counts(&fleet.proxies);
    assert!(
        counts["fills_stored"] + counts["former_deletes"] > 0,
        "{counts:?}"
    );
}

#[test]
fn chaos_of_rings_whose_parts_change_hands() {
    rounds(|random, shared| one_round(random, &shared.thinking(THINKING)));
}

/// All that is asked for is at first in one server's part of the ring.
#[test]
fn a_ring_follows_its_load_and_nothing_is_lost() {
    let servers = memcacheds();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fleet = Fleet::start(folder.path(), |coordinator| lines(&servers, coordinator));
    let at = fleet.coordinator.address();
    let mut clients: Vec<Client> = fleet
        .proxies
        .iter()
        .map(|proxy| Client::connect(proxy.address()))
        .collect();
    poll_until(DEADLINE, "proxies that follow", || {
        let proxies = ring(&fleet)?["change"]["proxies"].as_array()?.len();
        (proxies == PROXIES).then_some(())
    });
    let keys = keys_of_first(&servers);
    for key in &keys {
        assert_eq!(clients[0].set(key, b"x"), "STORED");
    }
    set(
        at,
        &json!({"mode": "automatic", "proxies": PROXIES, "slot_ms": 1000}),
    );
    let mut most: f64 = 0.0;
    poll_until(DEADLINE, "servers that carry about the same", || {
        for client in &mut clients {
            for key in &keys {
                assert!(client.get(key).is_some(), "{key} is lost");
            }
        }
        let max = ring(&fleet)?["slot"]["max_by_mean"].as_f64()?;
        most = most.max(max);
        (most > 3.0 && max < 1.5).then_some(())
    });
}

fn set(coordinator: SocketAddr, settings: &Value) {
    let set = http::put_json(
        coordinator,
        "/api/v1/rings/main/settings",
        &settings.to_string(),
    );
    assert_eq!(set.expect("an answer").0, 200);
}

/// Keys that the first server has before anything moves: so few that one plan has room for what is to move.
fn keys_of_first(servers: &[Memcached]) -> Vec<String> {
    let list = Placement::new(&PlacementConfig {
        servers: servers
            .iter()
            .map(|server| server.address().to_string().parse().expect("an address"))
            .collect(),
        ..PlacementConfig::default()
    });
    let list = list.expect("servers");
    let keys = (0..).map(|i| format!("key{i}"));
    let of_first = keys.filter(|key| list.server(key.as_bytes()) == 0);
    of_first.take(40).collect()
}
