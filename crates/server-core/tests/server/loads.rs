//! What a worker tells of the loads of its cachelets.

use crate::harness::{Client, Server, at, config, map};
use evenkeel_balance::cachelet_load::{INTERVAL, WorkerLoad};
use evenkeel_balance::load::BYTES_PER_REQUEST;
use evenkeel_types::ServerId;

fn interval_ms() -> u64 {
    INTERVAL.as_millis() as u64
}

/// Ends the interval of this number at every worker.
fn end_interval(server: &mut Server, number: u64) {
    for worker in &mut server.workers {
        worker.handle_timeout(at(number * interval_ms()));
    }
}

/// One number of each worker, added up.
fn sum(server: &Server, number: impl Fn(&WorkerLoad) -> f64) -> f64 {
    let loads = server.workers.iter().map(|worker| worker.cachelet_loads());
    loads.map(|load| number(&load)).sum()
}

#[test]
fn each_command_is_a_read_or_a_write_of_its_cachelet_once() {
    let mut server = Server::standalone(3);
    let mut client = Client::open(&mut server, 0);
    let value = "x".repeat(400);
    let writes = [
        format!("set a 0 0 400\r\n{value}\r\n"),
        "set n 0 0 1\r\n5\r\n".into(),
        "incr n 7\r\n".into(),
        "incr none 7\r\n".into(),
        "touch a 100\r\n".into(),
        "touch none 100\r\n".into(),
        "delete b\r\n".into(),
        "md a I\r\n".into(),
        "md none\r\n".into(),
    ];
    let reads = ["get a\r\n", "get none\r\n", "gets a a\r\n", "mg a v\r\n"];
    for command in &writes {
        client.ask(&mut server, at(100), command);
    }
    for command in reads {
        client.ask(&mut server, at(200), command);
    }
    assert_eq!(
        sum(&server, |worker| worker.load),
        0.0,
        "no interval is over"
    );
    end_interval(&mut server, 1);
    let cachelets = |number: fn(&evenkeel_balance::cachelet_load::CacheletLoad) -> f64| {
        sum(&server, |worker| worker.cachelets.iter().map(number).sum())
    };
    // An interval is half a second.
    assert_eq!(cachelets(|load| load.writes_per_s), 2.0 * 9.0);
    assert_eq!(cachelets(|load| load.reads_per_s), 2.0 * 5.0);
    assert_eq!(cachelets(|load| load.hits_per_s), 2.0 * 4.0);
    assert_eq!(cachelets(|load| load.bytes_out_per_s), 2.0 * 4.0 * 400.0);
    // The number is written as two digits.
    let bytes_in = 400.0 + 1.0 + 2.0;
    assert_eq!(cachelets(|load| load.bytes_in_per_s), 2.0 * bytes_in);
    let bytes = 2.0 * (1600.0 + bytes_in) / BYTES_PER_REQUEST as f64;
    let load = sum(&server, |worker| worker.load);
    assert!((load - 28.0 - bytes).abs() < 1e-9, "{load}");
    // Nobody slept, so cachelets take all the time of their workers.
    let busy = cachelets(|load| load.busy);
    let loaded = server.workers.iter().map(|worker| worker.cachelet_loads());
    let loaded = loaded.filter(|load| load.load > 0.0).count();
    assert!((busy - loaded as f64).abs() < 1e-9, "{busy} of {loaded}");
    let items = cachelets(|load| load.items as f64);
    assert_eq!(items, 2.0);
    assert!(cachelets(|load| load.memory_bytes as f64) > 400.0);
}

#[test]
fn keys_of_other_servers_are_no_load() {
    let mut server = Server::new(config(1, true));
    let mut client = Client::open(&mut server, 0);
    assert!(server.workers[0].handle_map(at(0), &map(1, 2), ServerId(1)));
    for key in 0..100 {
        client.ask(&mut server, at(10), format!("get k{key}\r\n"));
    }
    end_interval(&mut server, 1);
    let load = server.workers[0].cachelet_loads();
    assert_eq!(load.cachelets.len(), 4, "half of the map's eight");
    let refused = server.workers[0].counts().keys_of_others;
    assert!((1..100).contains(&refused), "{refused}");
    assert_eq!(load.served_load(), 2.0 * (100 - refused) as f64);
    let of_cachelets: f64 = load.cachelets.iter().map(|load| load.load).sum();
    assert_eq!(of_cachelets, load.load);
    // What another map takes away is not told of any more.
    assert!(server.workers[0].handle_map(at(600), &map(2, 3), ServerId(1)));
    end_interval(&mut server, 2);
    let ids = server.workers[0].cachelet_loads().cachelets.len();
    assert_eq!(ids, 4, "a third of twelve");
}

#[test]
fn a_cachelet_that_moves_to_another_worker_takes_its_load_along() {
    let mut server = Server::standalone(2);
    let mut client = Client::open(&mut server, 0);
    let mut read = |server: &mut Server, number: u64| {
        let now = at((number - 1) * interval_ms() + 100);
        for _ in 0..100 {
            client.ask(server, now, "get k\r\n");
        }
        end_interval(server, number);
    };
    let place = |server: &Server| {
        let mut found = Vec::new();
        for worker in &server.workers {
            let loads = worker.cachelet_loads();
            let loaded = loads.cachelets.iter().filter(|load| load.load > 0.0);
            found.extend(loaded.map(|load| (loads.worker, load.cachelet, load.load)));
        }
        found
    };
    read(&mut server, 1);
    let (home, cachelet, load) = place(&server)[0];
    assert_eq!(load, 200.0);
    let other = 1 - home;
    let now = at(interval_ms() + 50);
    server.workers[usize::from(home)].order_move(now, cachelet, other);
    server.pump(now);
    assert_eq!(
        place(&server),
        [(other, cachelet, 200.0)],
        "before anything is measured"
    );
    read(&mut server, 2);
    assert_eq!(place(&server), [(other, cachelet, 200.0)]);
}
