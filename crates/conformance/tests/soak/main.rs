//! Random clients of every manner at once, for a long time: nothing may panic, leak or grow, and
//! everything is counted.
//!
//! `SOAK_SECONDS` says how long (`make soak`: ten minutes; here a quarter of one). Each thread goes
//! from one connection to the next and behaves as its random stream says: polite in the classic, meta
//! and binary dialects, in pipelines, with values of all sizes; slow to read, slow to write, idle,
//! talking nonsense; and it goes in any of the ways a client can go. Values tell which key they belong
//! to, so a polite client knows a wrong answer when it sees one. Crowds ask for much and read nothing, or send halves of
//! stores.
//!
//! The server's watchdog must have seen no turn that took 50 ms for what it did. Where the length is said, that fails the run; in
//! the tests, on a machine that does much else, it is printed alone.

mod client;
mod manners;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use client::{Tally, Visitor};
use evenkeel_conformance::exchange::seed;
use evenkeel_testkit::{Client, EXIT_DEADLINE, Process, Signal, evenkeel, poll_until};

/// Clients at a time.
const THREADS: u64 = 24;

/// Length of a run where nothing else is said.
const SECONDS_DEFAULT: u64 = 15;

/// Memory limit of the server, in megabytes: so little that it evicts throughout.
const LIMIT_MB: u64 = 64;

/// Most resident memory, at any time: the limit, 5 % and 64 MiB for everything that is no item.
const RESIDENT_BYTES_MAX: u64 = (LIMIT_MB << 20) / 100 * 105 + (64 << 20);

/// How long the server may take to close what the last clients left: longer than it tolerates clients that stall, half a minute.
const QUIET_DEADLINE: Duration = Duration::from_secs(120);

#[test]
fn random_clients_do_no_harm() {
    let said = std::env::var("SOAK_SECONDS");
    let is_short = said.is_err();
    let seconds = match said {
        Ok(text) => text.parse().expect("SOAK_SECONDS is a number of seconds"),
        Err(_) => SECONDS_DEFAULT,
    };
    let seed = seed();
    let limit = LIMIT_MB.to_string();
    let mut flags = vec!["-t", "2", "-m", &limit];
    // In a long run a line for each connection would leave no room for those about slow turns.
    flags.extend(is_short.then_some("-vv"));
    let mut server = evenkeel::server(&flags);
    let address = server.address();
    let binary = client::speaks_binary(address);
    println!("{seconds} s, {THREADS} threads, binary protocol: {binary}");

    let mut witness = Client::connect(address);
    // The connection of the question before may still be on its way out.
    let before = poll_until(QUIET_DEADLINE, "the witness is alone", || {
        let stats = witness.stats("");
        (stats["curr_connections"] == "1").then_some(stats)
    });
    let descriptors_before = descriptors(&server);
    let end = Instant::now() + Duration::from_secs(seconds);
    let tally = run(address, seed, binary, end);
    println!("{tally:#?}");

    // Whatever the clients left behind goes, soon or after the time for those who stall.
    poll_until(
        QUIET_DEADLINE,
        "connections that are gone are closed",
        || {
            let stats = witness.stats("");
            (stats["curr_connections"] == before["curr_connections"]).then_some(())
        },
    );
    poll_until(QUIET_DEADLINE, "descriptors are as many as before", || {
        (descriptors(&server) <= descriptors_before).then_some(())
    });
    assert!(server.is_running(), "the server lives on");
    // The allocator gives memory back some time after it was freed, when it is next asked for some.
    let resident_now = poll_until(QUIET_DEADLINE, "memory is given back", || {
        witness.stats("");
        let resident = memory(&server, "VmRSS:");
        (resident <= RESIDENT_BYTES_MAX).then_some(resident)
    });
    println!("resident now: {} MiB", resident_now >> 20);
    let most = memory(&server, "VmHWM:");
    println!("resident at most: {} MiB", most >> 20);
    assert!(
        most <= RESIDENT_BYTES_MAX,
        "{most} B were resident at most, more than {RESIDENT_BYTES_MAX}"
    );
    let evenkeel = witness.stats("evenkeel");
    let (slow, starved) = (&evenkeel["turns_slow"], &evenkeel["turns_starved"]);
    println!("turns of 50 ms or longer: {slow} slow, {starved} starved");
    let after = witness.stats("");
    println!(
        "closed for want of memory: {} sending, {} not reading; commands that waited for it: {}",
        after["read_buf_oom"], after["response_obj_oom"], evenkeel["read_buf_waits"]
    );
    let grown = |name: &str| number(&after[name]) - number(&before[name]);
    let closed = grown("read_buf_oom") + grown("response_obj_oom");
    assert!(
        tally.sent_away <= closed,
        "{} were sent away, {closed} closed",
        tally.sent_away
    );
    assert_eq!(grown("total_connections"), tally.connections);
    assert_eq!(number(&after["rejected_connections"]), 0);
    assert_eq!(
        grown("get_hits") + grown("get_misses"),
        grown("cmd_get"),
        "each read hits or misses"
    );
    // Clients that went without waiting asked for more than they saw answered.
    for (name, seen) in [("cmd_get", tally.gets), ("cmd_set", tally.sets)] {
        let counted = grown(name);
        assert!(counted >= seen, "{name}: {counted} counted, {seen} seen");
    }
    assert!(tally.gets > 0 && tally.sets > 0, "the clients were served");
    assert_eq!(witness.set("witness", b"seen"), "STORED");
    assert_eq!(
        witness.get("witness").map(|value| value.data),
        Some(b"seen".to_vec())
    );
    drop(witness);

    server.signal(Signal::Terminate);
    let status = server.wait(EXIT_DEADLINE);
    assert!(status.success(), "{status}");
    let words = server.stderr_text();
    assert!(!words.contains("panicked"), "{words}");
    let told: Vec<&str> = words
        .lines()
        .filter(|line| line.contains(" has been in one turn for "))
        .collect();
    println!("{}", told.join("\n"));
    assert!(is_short || number(slow) == 0, "{slow} slow turns");
}

/// All clients, until the end.
fn run(address: SocketAddr, seed: u64, binary: bool, end: Instant) -> Tally {
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            std::thread::spawn(move || {
                let mut visitor = Visitor::new(address, seed, thread, binary);
                while Instant::now() < end {
                    manners::visit(&mut visitor);
                }
                visitor.tally
            })
        })
        .collect();
    let mut sum = Tally::default();
    for thread in threads {
        match thread.join() {
            Ok(tally) => sum.add(&tally),
            // Its message is on standard error already; this is for the test.
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    sum
}

fn descriptors(process: &Process) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", process.pid()))
        .expect("a running process has descriptors")
        .count()
}

/// A line of `/proc/PID/status`, in bytes.
fn memory(process: &Process, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid()))
        .expect("a running process has a status");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number(kib.expect("with its memory")) * 1024
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}
