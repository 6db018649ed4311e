//! Parts of a ring change hands among memcacheds, ordered one after the other, under proxies and applications that never stop, while items
//! are evicted, and servers, proxies and the coordinator are killed and stopped.

use super::application::{KEYS, Shared};
use super::changes::{Fleet, Leader, THINKING};
use super::warm::{
    DEADLINE, STOPPED_MS_MAX, addresses, counts, go_on, judge, list, memcacheds, pause_of, restart,
    rounds, work,
};
use super::{PROXIES, SHORT_TIMEOUT};
use evenkeel_placement::config::{PlacementConfig, Server};
use evenkeel_placement::pool::Placement;
use evenkeel_testkit::{Client, Memcached, poll_until};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Servers of a ring that is in chaos, and its proxies.
const SERVERS: usize = 8;
const RING_PROXIES: usize = 3;

/// Keys that are to move at once.
const KEYS_MOVED: usize = 3;

/// How long a plan warms: some of what is asked for is brought, some is not.
const WARMING_MS: u64 = 200;

/// Keys that are copied in a second when a server comes or goes.
pub const COPIED: u32 = 1_000;

/// A round that takes longer hangs.
const ROUND_MAX: Duration = Duration::from_secs(300);

/// Items that are evicted at a time.
const EVICTED: usize = 20;

fn lines(servers: &[Memcached], coordinators: &str) -> String {
    format!(
        "[pools.main]\n{}request_timeout = \"{SHORT_TIMEOUT}\"\nconnect_timeout = \"{SHORT_TIMEOUT}\"\n\
         distribution = \"adaptive\"\npool_coordinator = {coordinators}\n",
        list(servers)
    )
}

pub fn ring(leader: &Leader) -> Option<Value> {
    let view = leader.get("/api/v1/rings")?;
    view["rings"].as_array()?.first().cloned()
}

/// Orders that some keys move, as often as that is taken, until it is told to stop. Counts plans that have come to their end.
fn move_keys(
    leader: &Leader,
    shared: &Shared,
    mut random: Xoshiro256PlusPlus,
    (plans, stop): (&AtomicU64, &AtomicBool),
) {
    let list = Placement::new(&PlacementConfig {
        servers: vec![Server::new("any", 1)],
        ..PlacementConfig::default()
    });
    let list = list.expect("a server");
    let mut last = Value::Null;
    poll_until(ROUND_MAX, "the end of a test", || {
        if stop.load(Ordering::Relaxed) {
            return Some(());
        }
        let change = ring(leader)?["change"].clone();
        let number = &change["ring"]["number"];
        if change["stage"] == "done" && *number != last {
            last = number.clone();
            plans.fetch_add(1, Ordering::Relaxed);
        }
        let mut number = |below: usize| random.next_u64() as usize % below;
        let parts: Vec<Value> = (0..KEYS_MOVED)
            .map(|_| {
                let key = shared.key(number(KEYS.len()));
                let hash = list.hashed(key.as_bytes()).1 as u32;
                json!({"first": hash, "last": hash, "to": number(SERVERS)})
            })
            .collect();
        let order = json!({"parts": parts, "proxies": RING_PROXIES});
        // It is refused where a key is there already, while another plan is under way, and before all proxies are there.
        let _ = leader.post("/api/v1/rings/main/moves", &order);
        None
    });
}

/// Some items are not there any more, by whatever name a server has them.
fn evict(servers: &[Memcached], random: &mut Xoshiro256PlusPlus) {
    for _ in 0..EVICTED {
        let at = servers[random.next_u64() as usize % servers.len()].address();
        // A server that is stopped, or is just asked by somebody else what it has, is no matter.
        let _ = evict_one(at, random);
    }
}

fn evict_one(at: SocketAddr, random: &mut Xoshiro256PlusPlus) -> std::io::Result<()> {
    let mut client = Client::try_connect(at)?;
    client.try_send(b"lru_crawler metadump all\r\n")?;
    let mut keys = Vec::new();
    loop {
        let line = client.try_line()?;
        let Some(key) = line.strip_prefix("key=") else {
            break;
        };
        keys.extend(key.split(' ').next().map(unescaped));
    }
    if keys.is_empty() {
        return Ok(());
    }
    let key = &keys[random.next_u64() as usize % keys.len()];
    client.try_send(&[b"delete ", &key[..], b"\r\n"].concat())?;
    client.try_line().map(drop)
}

/// A key as memcached lists it: other bytes than ordinary ones stand as in URLs.
fn unescaped(listed: &str) -> Vec<u8> {
    let mut parts = listed.split('%');
    let mut key = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (byte, rest) = part.split_at(2);
        key.push(u8::from_str_radix(byte, 16).expect("two digits"));
        key.extend(rest.as_bytes());
    }
    key
}

/// A server dies, another one comes, and a third goes.
fn come_and_go(leader: &Leader, servers: &mut Vec<Memcached>, dies: usize) {
    let name = |server: &Memcached| server.address().to_string();
    // An order is taken back where a busy machine keeps requests waiting: then once more.
    let wait = |what: &str, server: &str, has_part: bool, order: Option<&str>| {
        poll_until(DEADLINE, what, || {
            let ring = ring(leader)?;
            let known = ring["servers"].as_array()?.iter();
            let part = known.filter(|known| known["name"] == *server);
            let part: f64 = part.filter_map(|known| known["share"].as_f64()).sum();
            if ring["change"]["stage"] == "done" && (part > 0.0) == has_part {
                return Some(());
            }
            let order = json!({"what": order?, "server": server, "proxies": RING_PROXIES});
            // It is refused while a plan is under way.
            let _ = leader.post("/api/v1/rings/main/servers", &order);
            None
        });
    };
    set(
        leader,
        &json!({"mode": "automatic", "proxies": RING_PROXIES, "dead_after_ms": 1000}),
    );
    servers[dies].process().kill();
    let dead = name(&servers[dies]);
    wait("a dead server to be lost", &dead, false, None);
    set(
        leader,
        &json!({"mode": "off", "copy_keys_per_second": COPIED}),
    );
    let newcomer = Memcached::spawn(&["-t", "1"]);
    let comes = name(&newcomer);
    wait("a server to come", &comes, true, Some("add"));
    let goes = name(&servers[(dies + 1) % SERVERS]);
    wait("a server to go", &goes, false, Some("drain"));
    servers.push(newcomer);
}

/// What goes wrong in a round, one after the other, while keys move.
#[derive(Clone, Copy, Debug)]
enum Fault {
    ServerStopped,
    ServerRestarted,
    CoordinatorKilled,
    CoordinatorStopped,
    ProxyStopped,
    ProxyKilled,
}

const FAULTS: [Fault; 6] = [
    Fault::ServerStopped,
    Fault::CoordinatorKilled,
    Fault::ProxyStopped,
    Fault::ServerRestarted,
    Fault::CoordinatorStopped,
    Fault::ProxyKilled,
];

fn inject(
    fault: Fault,
    fleet: &mut Fleet,
    servers: &mut [Memcached],
    random: &mut Xoshiro256PlusPlus,
) {
    let mut number = |below: usize| random.next_u64() as usize % below;
    let (server, proxy) = (number(SERVERS), number(RING_PROXIES));
    let pause = Duration::from_millis(number(STOPPED_MS_MAX as usize) as u64);
    match fault {
        Fault::ServerStopped => pause_of(servers[server].process(), pause),
        Fault::ServerRestarted => restart(&mut servers[server]),
        Fault::CoordinatorKilled => fleet.kill_coordinator(),
        Fault::CoordinatorStopped => pause_of(fleet.leading(), pause),
        Fault::ProxyStopped => pause_of(&mut fleet.proxies[proxy], pause),
        Fault::ProxyKilled => fleet.kill_proxy(proxy),
    }
}

fn one_round(random: &mut Xoshiro256PlusPlus, shared: &Shared) {
    let mut servers = memcacheds(SERVERS);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut fleet = Fleet::on_etcd(folder.path(), RING_PROXIES, |coordinators| {
        lines(&servers, coordinators)
    });
    let places = addresses(&fleet.proxies);
    let leader = fleet.leader();
    let (plans, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let of_mover = Xoshiro256PlusPlus::seed_from_u64(random.next_u64());
    let told = work(shared, &places, || {
        let go_on = |what: &str| go_on(shared, 100, what);
        go_on("the pool to be used");
        set(&leader, &json!({"warming_ms": WARMING_MS}));
        std::thread::scope(|scope| {
            scope.spawn(|| move_keys(&leader, shared, of_mover, (&plans, &stop)));
            // Also when something fails: the test must end for that to be told.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                for faults in FAULTS.chunks(2) {
                    for fault in faults {
                        inject(*fault, &mut fleet, &mut servers, random);
                        evict(&servers, random);
                    }
                    let before = plans.load(Ordering::Relaxed);
                    poll_until(DEADLINE, "parts of the ring to move", || {
                        (plans.load(Ordering::Relaxed) > before).then_some(())
                    });
                }
            }));
            stop.store(true, Ordering::Relaxed);
            if let Err(panic) = done {
                std::panic::resume_unwind(panic);
            }
        });
        go_on("the pool to be used after all that");
        let dies = random.next_u64() as usize % SERVERS;
        come_and_go(&leader, &mut servers, dies);
        go_on("the pool to be used with other servers");
    });
    judge(told);
    println!("{} plans", plans.load(Ordering::Relaxed));
    let counts = counts(&fleet.proxies);
    assert!(
        counts["fills_stored"] + counts["former_deletes"] > 0,
        "{counts:?}"
    );
}

#[test]
fn chaos_of_rings_whose_parts_change_hands() {
    rounds(1, |random, shared| {
        one_round(random, &shared.thinking(THINKING))
    });
}

/// All that is asked for is at first in one server's part of the ring.
#[test]
fn a_ring_follows_its_load_and_nothing_is_lost() {
    let servers = memcacheds(4);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fleet = Fleet::start(folder.path(), PROXIES, |coordinator| {
        lines(&servers, coordinator)
    });
    let leader = fleet.leader();
    let mut clients: Vec<Client> = fleet
        .proxies
        .iter()
        .map(|proxy| Client::connect(proxy.address()))
        .collect();
    poll_until(DEADLINE, "proxies that follow", || {
        let proxies = ring(&leader)?["change"]["proxies"].as_array()?.len();
        (proxies == PROXIES).then_some(())
    });
    let keys = keys_of_first(&servers);
    for key in &keys {
        assert_eq!(clients[0].set(key, b"x"), "STORED");
    }
    let mut ask = || {
        for client in &mut clients {
            for key in &keys {
                assert!(client.get(key).is_some(), "{key} is lost");
            }
        }
    };
    set(&leader, &json!({"mode": "observe", "slot_ms": 1000}));
    poll_until(DEADLINE, "a plan to be approved", || {
        ask();
        let planned = json!({"planned": true, "proxies": PROXIES});
        leader.post("/api/v1/rings/main/moves", &planned)
    });
    set(&leader, &json!({"mode": "automatic", "proxies": PROXIES}));
    let mut most: f64 = 0.0;
    poll_until(DEADLINE, "servers that carry about the same", || {
        ask();
        let max = ring(&leader)?["slot"]["max_by_mean"].as_f64()?;
        most = most.max(max);
        (most > 3.0 && max < 1.5).then_some(())
    });
}

pub fn set(leader: &Leader, settings: &Value) {
    poll_until(DEADLINE, "settings to be taken", || {
        leader.put("/api/v1/rings/main/settings", settings)
    });
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
