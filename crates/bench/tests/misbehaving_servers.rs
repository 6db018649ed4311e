//! The generator against servers that misbehave in one way each.

mod common;

use common::{PATIENCE, args, report};
use evenkeel_bench::{BadUsage, Driver, LoadPlan, Source, Stop, Target, measure, run};
use evenkeel_testkit::{Memcached, poll_until};
use evenkeel_workload::Arrivals;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// A server of this test: `talk` has each connection to itself, on a thread.
fn fake_server(talk: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let talk = Arc::new(talk);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let talk = Arc::clone(&talk);
            std::thread::spawn(move || talk(stream));
        }
    });
    address
}

/// Answers each line with what `answer` writes, until the peer goes or `answer` says no.
fn talk_lines(stream: TcpStream, mut answer: impl FnMut(&str, &mut Vec<u8>) -> bool) {
    let mut out = stream.try_clone().unwrap();
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        let mut bytes = Vec::new();
        let go_on = answer(String::from_utf8_lossy(&line).trim_end(), &mut bytes);
        if out.write_all(&bytes).is_err() || !go_on {
            return;
        }
    }
}

/// The same for a load whose requests are drawn, and for one whose are prepared.
fn drawn_and_prepared<T: Clone>(same: T) -> [(T, &'static str); 2] {
    [(same.clone(), ""), (same, "--prepared")]
}

fn gets_of_one_key() -> Source {
    Source::Generated("keys=1 mix=mix(get=1) key-size=8".parse().unwrap())
}

#[test]
fn wrong_values_are_counted_and_fail_the_run() {
    // Keeps nothing: every value read is 20 bytes that nobody wrote.
    let classic = fake_server(|stream| {
        talk_lines(stream, |line, out| {
            if let Some(key) = line.strip_prefix("get ") {
                write!(out, "VALUE {key} 0 20\r\n01234567890123456789\r\nEND\r\n").unwrap();
            }
            true
        });
    });
    let meta = fake_server(|stream| {
        talk_lines(stream, |line, out| {
            if line.starts_with("mg ") {
                out.extend_from_slice(b"VA 20\r\n01234567890123456789\r\n");
            }
            true
        });
    });
    // Answers with a right value, of another key.
    let other_key = fake_server(|stream| {
        talk_lines(stream, |line, out| {
            if line.starts_with("get ") {
                out.extend_from_slice(b"VALUE other 0 0\r\n\r\nEND\r\n");
            }
            true
        });
    });
    let servers = [(classic, "classic"), (meta, "meta"), (other_key, "classic")];
    for ((address, protocol), kind) in servers.into_iter().flat_map(drawn_and_prepared) {
        let line = format!(
            "--target {address} --no-preload --get-share 1 --requests 100 --pipeline 4 \
             --protocol {protocol} {kind}"
        );
        let wrong = report(&line);
        assert_eq!(wrong.targets[0].rounds[0].counters.wrong_values, 100);
        assert_eq!(wrong.exit_code(), 1);
        assert!(
            wrong.to_table().contains("first error"),
            "{}",
            wrong.to_table()
        );
    }
    for (address, kind) in drawn_and_prepared(classic) {
        let unchecked = report(&format!(
            "--target {address} --no-preload --get-share 1 --requests 100 --no-check {kind}"
        ));
        assert_eq!(unchecked.targets[0].rounds[0].counters.wrong_values, 0);
        assert_eq!(unchecked.exit_code(), 0);
    }
}

#[test]
fn values_of_somebody_else_are_wrong() {
    let memcached = Memcached::spawn(&["-t", "1"]);
    let mut client = memcached.client();
    for n in 0..10 {
        assert_eq!(client.set(&format!("key:{n:020}"), b"not ours"), "STORED");
    }
    let line = format!(
        "--target {} --keys 10 --requests 50 --get-share 1",
        memcached.address()
    );
    for (line, kind) in drawn_and_prepared(line) {
        let report = report(&format!("{line} --no-preload {kind}"));
        assert_eq!(report.targets[0].rounds[0].counters.wrong_values, 50);
        assert_eq!(report.exit_code(), 1);
    }
}

/// Serves `before` gets, stands still for `stall`, serves on. The stall is the stimulus: the one
/// place in these tests where time itself is under test.
fn stalling_server(before: usize, stall: Duration) -> SocketAddr {
    fake_server(move |stream| {
        let mut served = 0;
        talk_lines(stream, |_, out| {
            served += 1;
            if served == before {
                std::thread::sleep(stall);
            }
            out.extend_from_slice(b"END\r\n");
            true
        });
    })
}

/// Requests slower than 100 ms of 1000, of which one meets a stall of 400 ms.
fn slow_requests(pace: &str) -> u64 {
    let pace: Arrivals = pace.parse().unwrap();
    let address = stalling_server(200, Duration::from_millis(400));
    let plan = LoadPlan {
        pace,
        stop: Stop {
            requests: Some(1000),
            after: None,
        },
        ..LoadPlan::new(Target::from(address), gets_of_one_key())
    };
    let handle = Driver::start(plan).unwrap();
    poll_until(PATIENCE, "the end of the load", || {
        handle.is_finished().then_some(())
    });
    let stats = handle.stop().unwrap();
    assert_eq!(stats.counters.requests, 1000);
    let slow = stats.get_latency.count_between(100_000_000, u64::MAX);
    if pace != Arrivals::Closed {
        assert!(
            stats.send_lag.value_at_quantile(0.99) > 100_000_000,
            "the lag is told, too"
        );
    }
    slow
}

#[test]
fn a_stall_is_felt_by_every_request_that_was_due() {
    // 1000 a second: 300 requests were due in the first 300 ms of the stall.
    let fixed = slow_requests("fixed(1000)");
    assert!(fixed >= 280, "{fixed}");
    let poisson = slow_requests("poisson(1000)");
    assert!(poisson >= 200, "{poisson}");
    // The closed loop waits with the server and sees one, and what else a busy machine holds up: what the open loop is
    // there to mend.
    let closed = slow_requests("closed");
    assert!((1..fixed / 2).contains(&closed), "{closed} of {fixed}");
}

#[test]
fn a_lost_connection_is_opened_anew() {
    // Closes after every 50 answers.
    let address = fake_server(|stream| {
        let mut served = 0;
        talk_lines(stream, |_, out| {
            served += 1;
            out.extend_from_slice(b"END\r\n");
            served < 50
        });
    });
    for (address, kind) in drawn_and_prepared(address) {
        let report = report(&format!(
            "--target {address} --connections 2 --pipeline 4 --no-preload --get-share 1 \
             --requests 500 {kind}"
        ));
        let counters = report.targets[0].rounds[0].counters;
        assert!(counters.reconnects >= 5, "{counters:?}");
        assert_eq!(counters.requests + counters.unanswered, 500, "{counters:?}");
        assert_eq!(counters.errors, counters.unanswered);
    }
}

#[test]
fn a_silent_server_does_not_hang_the_run() {
    let address = fake_server(|stream| talk_lines(stream, |_, _| true));
    for (address, kind) in drawn_and_prepared(address) {
        let line = format!("--target {address} --no-preload --timeout 150ms {kind}");
        let error = run(&args(&line)).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(&format!("{address} is gone")), "{message}");
        assert!(!error.is::<BadUsage>());
    }
}

#[test]
fn answers_that_do_not_come_before_the_load_has_ended_are_told() {
    let address = fake_server(|stream| talk_lines(stream, |_, _| true));
    let plan = LoadPlan {
        stop: Stop::after(Duration::from_millis(10)),
        drain: Duration::from_millis(50),
        ..LoadPlan::new(Target::from(address), gets_of_one_key())
    };
    let report = measure(plan).unwrap();
    let counters = report.counters;
    assert_eq!(
        (counters.errors, counters.unanswered),
        (1, 1),
        "{counters:?}"
    );
    assert_eq!(
        report.first_error.as_deref(),
        Some("no answer within 50ms of the end of the load")
    );
}

#[test]
fn an_answer_out_of_step_closes_the_connection() {
    let answers = ["STORED\r\n", "gibberish\r\n", "END\r\nEND\r\n", "HD\r\n"];
    for (answer, kind) in answers.into_iter().flat_map(drawn_and_prepared) {
        let address = fake_server(move |stream| {
            talk_lines(stream, |_, out| {
                out.extend_from_slice(answer.as_bytes());
                true
            });
        });
        let plan = LoadPlan {
            prepared: !kind.is_empty(),
            stop: Stop {
                requests: Some(3),
                after: None,
            },
            ..LoadPlan::new(Target::from(address), gets_of_one_key())
        };
        let handle = Driver::start(plan).unwrap();
        poll_until(PATIENCE, "the end of the load", || {
            handle.is_finished().then_some(())
        });
        let counters = handle.stop().unwrap().counters;
        assert!(counters.reconnects >= 2, "{answer:?}: {counters:?}");
        assert_eq!(
            counters.requests + counters.unanswered,
            3,
            "{answer:?}: {counters:?}"
        );
    }
}

#[test]
fn errors_of_the_server_are_told() {
    let memcached = Memcached::spawn(&["-t", "1"]);
    let line = format!(
        "--target {} --keys 10 --value-size 1048576",
        memcached.address()
    );
    let message = run(&args(&line)).unwrap_err().to_string();
    assert!(
        message.contains("0 of 10 keys were stored (object too large"),
        "{message}"
    );
    for (line, kind) in drawn_and_prepared(line) {
        let report = report(&format!(
            "{line} --no-preload --get-share 0 --requests 20 {kind}"
        ));
        let round = &report.targets[0].rounds[0];
        assert_eq!((round.counters.errors, round.counters.sets), (20, 0));
        assert_eq!(report.exit_code(), 1, "nothing but errors");
    }
}
