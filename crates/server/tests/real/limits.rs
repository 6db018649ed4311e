//! How many connections there may be, and for how long.

use evenkeel_testkit::{Client, evenkeel, poll_until};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn one_connection_too_many_is_told_so() {
    let server = evenkeel::server(&["-t", "1", "-c", "2"]);
    let (mut first, second) = (
        Client::connect(server.address()),
        Client::connect(server.address()),
    );
    assert!(first.command("version").starts_with("VERSION "));
    let mut third = Client::connect(server.address());
    assert_eq!(third.line(), "ERROR Too many open connections");
    assert!(third.closed());
    let rejected = first.stats("")["rejected_connections"].clone();
    assert_eq!(rejected, "1");
    drop(second);
    poll_until(DEADLINE, "the place of the one that left", || {
        let mut client = Client::connect(server.address());
        let answer = client.try_command("version").ok()?;
        answer.starts_with("VERSION ").then_some(())
    });
}

#[test]
fn one_connection_too_many_waits_without_maxconns_fast() {
    let server = evenkeel::server(&["-t", "1", "-c", "1", "-o", "no_maxconns_fast"]);
    let mut first = Client::connect(server.address());
    assert!(first.command("version").starts_with("VERSION "));
    let mut second = Client::connect(server.address());
    second.send(b"version\r\n");
    poll_until(DEADLINE, "the pause in accepting", || {
        let stats = first.stats("");
        (stats["accepting_conns"] == "0" && stats["listen_disabled_num"] == "1").then_some(())
    });
    drop(first);
    assert!(second.line().starts_with("VERSION "));
    poll_until(DEADLINE, "the count of the pause", || {
        let stats = second.stats("");
        let us: u64 = stats["time_in_listen_disabled_us"]
            .parse()
            .expect("a number");
        // With one allowed and one open, the next look for others has paused again.
        (us > 0 && stats["rejected_connections"] == "0").then_some(())
    });
}

#[test]
fn an_idle_connection_is_closed_and_counted_when_asked_for() {
    let server = evenkeel::server(&["-t", "1", "-o", "idle_timeout=1"]);
    // Anyone who asks is closed itself if it is held up for a second before the server has heard it.
    let mut asked = 0;
    let mut ask = || {
        poll_until(DEADLINE, "an answer before the end", || {
            let mut client = Client::connect(server.address());
            asked += 1;
            let stats = client.try_stats("").ok()?;
            let kicks: u32 = stats["idle_kicks"].parse().expect("a number");
            Some((client, kicks, asked))
        })
    };
    let (mut client, kicks, asked) = ask();
    assert!(kicks < asked, "{kicks} of {asked}, not the one that asks");
    assert!(client.closed());
    let (_, more, asked) = ask();
    assert!(
        kicks < more && more < asked,
        "{kicks}, then {more} of {asked}"
    );
    let server = evenkeel::server(&["-t", "1"]);
    let mut client = Client::connect(server.address());
    assert!(
        !client.stats("").contains_key("idle_kicks"),
        "as memcached, which does not show it"
    );
}

#[test]
fn a_command_that_does_not_go_on_is_given_up() {
    let server = evenkeel::server(&["-t", "1", "--progress-timeout", "1"]);
    let mut half = Client::connect(server.address());
    half.send(b"set half 0 0 10\r\n01234");
    let mut idle = Client::connect(server.address());
    assert!(idle.command("version").starts_with("VERSION "));
    assert!(half.closed());
    assert!(
        idle.command("version").starts_with("VERSION "),
        "a connection without a command in it may rest"
    );
}
