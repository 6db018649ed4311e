//! Applications that know nothing of replicas, at a server with hot keys: they lose nothing, and through
//! a proxy they gain what it gains.

use evenkeel_conformance::exchange::seed;
use evenkeel_testkit::{Client, Cluster, ClusterOptions, evenkeel, poll_until};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KEY: &str = "page:home";

/// What is awaited has come by then, unless something hangs.
const HOT_DEADLINE: Duration = Duration::from_secs(60);

/// Commands compared at least.
const COMMANDS: u64 = 5000;

/// Commands compared at most, while none of the writes among them has been sent to a replica.
const COMMANDS_MAX: u64 = 200_000;

/// Gets whose way is counted.
const GETS: u64 = 8000;

/// Gets that the proxy sends at once while it keeps a key hot.
const BATCH: usize = 50;

fn cluster() -> Cluster {
    Cluster::start(ClusterOptions {
        servers: 4,
        threads: 1,
        // Each get is to be counted at a server.
        ..ClusterOptions::nobody_dies()
            .with_settings(r#"{"hot_trigger_rps": 50, "hot_sampling": 100}"#)
            .with_proxy_args(&["--no-collapse"])
    })
}

/// Reads the key through the proxy, many times.
fn read_batch(client: &mut Client) {
    client.send(format!("get {KEY}\r\n").repeat(BATCH).as_bytes());
    for _ in 0..BATCH {
        while client.line() != "END" {}
    }
}

/// The home of the key, once it has replicas, and how many.
fn home_of_hot_key(cluster: &Cluster, reader: &mut Client) -> (usize, u64) {
    poll_until(HOT_DEADLINE, "the key to be replicated", || {
        read_batch(reader);
        (0..4).find_map(|server| {
            let line = cluster.server_client(server).stats("hotkeys").remove(KEY)?;
            let gamma = line
                .split(' ')
                .find_map(|word| word.strip_prefix("gamma="))?;
            line.starts_with("state=HOT ")
                .then(|| (server, gamma.parse().expect("γ is a number")))
        })
    })
}

fn count(client: &mut Client, page: &str, name: &str) -> u64 {
    let stats = client.stats(page);
    let value = stats.get(name).unwrap_or_else(|| panic!("no {name}"));
    value.parse().expect("a count is a number")
}

/// One command, and all lines of its answer. Versions are not part of what is compared.
fn exchange(client: &mut Client, choice: u64, value: u64) -> Vec<String> {
    let len = value.to_string().len();
    let (command, lines) = match choice {
        0..4 => (format!("get {KEY}\r\n"), None),
        4 => (format!("mg {KEY} v f s\r\n"), None),
        5 => (
            format!("set {KEY} {} 0 {len}\r\n{value}\r\n", value % 7),
            Some(1),
        ),
        6 => (format!("delete {KEY}\r\n"), Some(1)),
        7 => (format!("incr {KEY} {}\r\n", value % 100), Some(1)),
        8 => (format!("add {KEY} 0 0 {len}\r\n{value}\r\n"), Some(1)),
        9 => (format!("append {KEY} 0 0 1\r\n7\r\n"), Some(1)),
        10 => (format!("touch {KEY} {}\r\n", 100 + value % 100), Some(1)),
        11 => (format!("md {KEY}\r\n"), Some(1)),
        _ => {
            let unique = client.gets(KEY).and_then(|old| old.cas).unwrap_or(0);
            (
                format!("cas {KEY} 0 0 {len} {unique}\r\n{value}\r\n"),
                Some(1),
            )
        }
    };
    client.send(command.as_bytes());
    let mut answer = Vec::new();
    match lines {
        Some(lines) => answer.extend((0..lines).map(|_| client.line())),
        None => loop {
            let line = client.line();
            let is_last = line == "END" || line == "EN";
            let is_value = line.starts_with("VA ");
            answer.push(line);
            if is_value {
                answer.push(client.line());
            }
            if is_last || is_value {
                break;
            }
        },
    }
    answer
}

#[test]
fn a_client_of_a_home_is_answered_as_if_there_were_no_replicas() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed());
    let cluster = cluster();
    let mut reader = cluster.proxy_client();
    reader.command(&format!("set {KEY} 0 0 1\r\n1"));
    let (home, _) = home_of_hot_key(&cluster, &mut reader);
    let alone = evenkeel::server(&["-t", "1"]);
    let mut clients = [
        cluster.server_client(home),
        Client::connect(alone.address()),
    ];
    for client in &mut clients {
        client.command(&format!("set {KEY} 0 0 1\r\n1"));
    }
    let mut witness = cluster.server_client(home);
    let before = count(&mut witness, "evenkeel", "propagations");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                read_batch(&mut reader);
            }
        });
        let compared = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for number in 0..COMMANDS_MAX {
                let is_enough = number >= COMMANDS && number.is_multiple_of(1000);
                if is_enough && count(&mut witness, "evenkeel", "propagations") > before {
                    break;
                }
                // Mostly reads: a key that is written much loses its replicas.
                let choice = match random.next_u64() % 100 {
                    0..90 => random.next_u64() % 5,
                    _ => random.next_u64() % 14,
                };
                let value = random.next_u64() % 1_000_000;
                let answers = clients
                    .each_mut()
                    .map(|client| exchange(client, choice, value));
                assert_eq!(answers[0], answers[1], "command {number}, choice {choice}");
            }
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = compared {
            std::panic::resume_unwind(panic);
        }
    });
    let propagations = count(&mut clients[0], "evenkeel", "propagations") - before;
    println!("{propagations} propagations while they were compared");
    assert!(propagations > 0, "the key had replicas meanwhile");
}

#[test]
fn gets_of_a_hot_key_spread_through_a_proxy_and_not_without_one() {
    let cluster = cluster();
    let mut reader = cluster.proxy_client();
    reader.command(&format!("set {KEY} 0 0 1\r\n1"));
    let (home, _) = home_of_hot_key(&cluster, &mut reader);
    let counts = |at: &mut dyn FnMut()| {
        let of = |page, name: &str| -> Vec<u64> {
            (0..4)
                .map(|server| count(&mut cluster.server_client(server), page, name))
                .collect()
        };
        let before = (of("", "get_hits"), of("evenkeel", "replica_hits"));
        at();
        let after = (of("", "get_hits"), of("evenkeel", "replica_hits"));
        let minus = |after: Vec<u64>, before: Vec<u64>| -> Vec<u64> {
            after.iter().zip(before).map(|(a, b)| a - b).collect()
        };
        (minus(after.0, before.0), minus(after.1, before.1))
    };

    // It may get more replicas meanwhile, and a busy machine may let its lease end for a moment, or a server do little: then
    // it is looked at again.
    let (gets, replica_gets) = poll_until(HOT_DEADLINE, "gets that spread evenly", || {
        let (gets, replica_gets) = counts(&mut || {
            for _ in 0..GETS / BATCH as u64 {
                read_batch(&mut reader);
            }
        });
        assert!(gets.iter().sum::<u64>() + replica_gets.iter().sum::<u64>() >= GETS);
        let mut others = (0..4).filter(|&server| server != home);
        let is_spread = gets[home] * 3 < GETS && others.all(|at| replica_gets[at] * 8 > GETS);
        is_spread.then_some((gets, replica_gets))
    });
    println!("through the proxy: {gets:?} at homes, {replica_gets:?} of replicas");
    let hot = poll_until(HOT_DEADLINE, "a lease that is explained", || {
        read_batch(&mut reader);
        let explained = reader.stats(&format!("explain {KEY}")).remove("explain");
        let explained: Value = serde_json::from_str(&explained?).expect("JSON");
        let hot = &explained["ways"][0]["to"]["hot"];
        (hot["leased_us"].as_u64()? > 0).then(|| hot.clone())
    });
    let servers = hot["servers"].as_array().map(Vec::len);
    assert!(
        servers > Some(0) && servers == hot["replicas"].as_u64().map(|n| n as usize),
        "{hot}"
    );

    let mut direct = cluster.server_client(home);
    let (gets, replica_gets) = counts(&mut || {
        for _ in 0..GETS / BATCH as u64 {
            read_batch(&mut direct);
        }
    });
    println!("at the home: {gets:?} at homes, {replica_gets:?} of replicas");
    assert_eq!((gets[home], replica_gets.iter().sum()), (GETS, 0));
}
