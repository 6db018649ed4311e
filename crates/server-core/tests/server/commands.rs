//! Commands at a server with one worker: exact bytes, time, limits.

use crate::harness::{Client, Server, at, config};
use evenkeel_server_core::Peer;

fn session(script: &[(&str, &str)]) {
    let mut server = Server::standalone(1);
    let mut client = Client::open(&mut server, 0);
    for (request, answer) in script {
        assert_eq!(
            client.ask(&mut server, at(0), request),
            *answer,
            "{request:?}"
        );
    }
}

#[test]
fn classic_storage_commands_keep_memcacheds_table_of_modes() {
    session(&[
        ("get a\r\n", "END\r\n"),
        ("replace a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("append a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("cas a 0 0 1 5\r\nx\r\n", "NOT_FOUND\r\n"),
        ("add a 3 0 1\r\nx\r\n", "STORED\r\n"),
        ("add a 0 0 1\r\ny\r\n", "NOT_STORED\r\n"),
        ("append a 9 0 2\r\nyz\r\n", "STORED\r\n"),
        ("prepend a 9 0 1\r\nw\r\n", "STORED\r\n"),
        ("get a\r\n", "VALUE a 3 4\r\nwxyz\r\nEND\r\n"),
        ("cas a 0 0 1 5\r\nx\r\n", "EXISTS\r\n"),
        ("set a 0 0 1 noreply\r\nq\r\n", ""),
        (
            "get a a b\r\n",
            "VALUE a 0 1\r\nq\r\nVALUE a 0 1\r\nq\r\nEND\r\n",
        ),
        ("delete a\r\n", "DELETED\r\n"),
        ("delete a\r\n", "NOT_FOUND\r\n"),
    ]);
}

#[test]
fn cas_succeeds_once_per_version() {
    let mut server = Server::standalone(1);
    let mut client = Client::open(&mut server, 0);
    client.ask(&mut server, at(0), "set a 0 0 1\r\nx\r\n");
    let answer = client.ask(&mut server, at(0), "gets a\r\n");
    let version = answer
        .split_whitespace()
        .nth(4)
        .expect("a version")
        .to_owned();
    let cas = format!("cas a 0 0 1 {version}\r\ny\r\n");
    assert_eq!(client.ask(&mut server, at(0), &cas), "STORED\r\n");
    assert_eq!(client.ask(&mut server, at(0), &cas), "EXISTS\r\n");
}

#[test]
fn numbers_count_as_in_memcached() {
    session(&[
        ("set n 7 0 2\r\n10\r\n", "STORED\r\n"),
        ("decr n 1\r\n", "9\r\n"),
        // The shorter number is padded where it stands.
        ("get n\r\n", "VALUE n 7 2\r\n9 \r\nEND\r\n"),
        ("incr n 18446744073709551615\r\n", "8\r\n"),
        ("incr n 100\r\n", "108\r\n"),
        ("get n\r\n", "VALUE n 7 3\r\n108\r\nEND\r\n"),
        ("decr n 1000\r\n", "0\r\n"),
        ("set s 0 0 1\r\nx\r\n", "STORED\r\n"),
        (
            "incr s 1\r\n",
            "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        ),
        (
            "ma s\r\n",
            "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
        ),
        ("incr none 1\r\n", "NOT_FOUND\r\n"),
        ("ma none\r\n", "NF\r\n"),
        ("ma none N0 J5 v t\r\n", "VA 1 t-1\r\n5\r\n"),
        ("ma none D3 v\r\n", "VA 1\r\n8\r\n"),
        ("ma none MD D100 q\r\n", ""),
        ("mg none v\r\n", "VA 1\r\n0\r\n"),
    ]);
}

#[test]
fn meta_leases_tell_one_client_to_recache() {
    session(&[
        ("mg k v\r\n", "EN\r\n"),
        ("mg k N30 v t s\r\n", "VA 0 t30 s0 W\r\n\r\n"),
        ("mg k N30 v\r\n", "VA 0 Z\r\n\r\n"),
        ("ms k 3\r\nnew\r\n", "HD\r\n"),
        ("mg k v h f\r\n", "VA 3 h0 f0\r\nnew\r\n"),
        ("mg k h k Oab\r\n", "HD h1 kk Oab\r\n"),
        ("md k I T30\r\n", "HD\r\n"),
        ("mg k v\r\n", "VA 3 X W\r\nnew\r\n"),
        ("mg k v\r\n", "VA 3 Z X\r\nnew\r\n"),
        ("ms k 3 C1 I\r\nold\r\n", "HD\r\n"),
        ("mg k v t\r\n", "VA 3 t30 Z X\r\nold\r\n"),
        ("md k q\r\n", ""),
        ("md k\r\n", "NF\r\n"),
        ("md k q\r\nmn\r\n", "NF\r\nMN\r\n"),
        ("ms j 1 MS\r\na\r\n", "HD\r\n"),
        ("ms j 1 ME\r\nx\r\n", "NS\r\n"),
        ("ms j 1 MA\r\nb\r\n", "HD\r\n"),
        ("mg j v\r\n", "VA 2\r\nab\r\n"),
    ]);
}

#[test]
fn items_expire_when_their_time_has_come() {
    let mut server = Server::standalone(1);
    let mut client = Client::open(&mut server, 0);
    client.ask(
        &mut server,
        at(0),
        "set a 0 10 1\r\nx\r\nset b 0 -1 1\r\nx\r\n",
    );
    assert_eq!(
        client.ask(&mut server, at(9_999), "get a\r\n"),
        "VALUE a 0 1\r\nx\r\nEND\r\n"
    );
    assert_eq!(client.ask(&mut server, at(9_999), "get b\r\n"), "END\r\n");
    assert_eq!(
        client.ask(&mut server, at(9_999), "touch a 20\r\n"),
        "TOUCHED\r\n"
    );
    assert_eq!(
        client.ask(&mut server, at(28_000), "get a\r\n"),
        "VALUE a 0 1\r\nx\r\nEND\r\n"
    );
    assert_eq!(client.ask(&mut server, at(30_000), "get a\r\n"), "END\r\n");
    assert_eq!(
        client.ask(&mut server, at(30_000), "gat 5 a\r\n"),
        "END\r\n"
    );
}

#[test]
fn a_delayed_flush_takes_what_was_stored_before_its_time() {
    let mut server = Server::standalone(1);
    let mut client = Client::open(&mut server, 0);
    client.ask(&mut server, at(0), "set a 0 0 1\r\nx\r\n");
    assert_eq!(client.ask(&mut server, at(0), "flush_all 10\r\n"), "OK\r\n");
    client.ask(&mut server, at(5_000), "set b 0 0 1\r\nx\r\n");
    server.workers[0].handle_timeout(at(9_000));
    assert_eq!(
        client.ask(&mut server, at(9_000), "get a b\r\n"),
        "VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\nx\r\nEND\r\n"
    );
    server.workers[0].handle_timeout(at(10_000));
    assert_eq!(
        client.ask(&mut server, at(10_000), "get a b\r\n"),
        "END\r\n"
    );
    client.ask(&mut server, at(10_000), "set c 0 0 1\r\nx\r\n");
    server.workers[0].handle_timeout(at(20_000));
    assert_eq!(
        client.ask(&mut server, at(20_000), "get c\r\n"),
        "VALUE c 0 1\r\nx\r\nEND\r\n"
    );
}

#[test]
fn flush_all_can_be_forbidden() {
    let mut settings = config(1, false);
    settings.allow_flush = false;
    let mut server = Server::new(settings);
    let mut client = Client::open(&mut server, 0);
    assert_eq!(
        client.ask(&mut server, at(0), "flush_all\r\n"),
        "CLIENT_ERROR flush_all not allowed\r\n"
    );
}

#[test]
fn a_value_over_the_limit_is_swallowed_and_removes_the_old_one() {
    let mut server = Server::standalone(1);
    let mut client = Client::open(&mut server, 0);
    client.ask(&mut server, at(0), "set a 0 0 1\r\nx\r\n");
    let big = "y".repeat(1 << 20);
    let request = format!("set a 0 0 {}\r\n{big}\r\nget a\r\n", big.len());
    assert_eq!(
        client.ask(&mut server, at(0), &request),
        "SERVER_ERROR object too large for cache\r\nEND\r\n"
    );
}

#[test]
fn quit_ends_the_connection_and_nothing_behind_it_is_carried_out() {
    let mut server = Server::standalone(1);
    let mut client = Client::open(&mut server, 0);
    assert_eq!(
        client.ask(&mut server, at(0), "mn\r\nquit\r\nset a 0 0 1\r\nx\r\n"),
        "MN\r\n"
    );
    assert!(client.is_closing(&mut server));
    let mut other = Client::open(&mut server, 0);
    assert_eq!(other.ask(&mut server, at(0), "get a\r\n"), "END\r\n");
}

#[test]
fn a_client_that_does_not_read_is_paused_in_the_middle_of_a_multi_get_and_misses_nothing() {
    let mut server = Server::standalone(1);
    let mut client = Client::open(&mut server, 0);
    let value = "v".repeat(400_000);
    let mut request = String::from("get");
    for key in 0..12 {
        client.ask(
            &mut server,
            at(0),
            format!("set k{key} 0 0 {}\r\n{value}\r\n", value.len()),
        );
        request.push_str(&format!(" k{key}"));
    }
    request.push_str("\r\nmn\r\n");
    client.send(&mut server, at(0), request.as_bytes());
    let held = server.workers[0]
        .session(client.id)
        .expect("open")
        .out
        .len();
    assert!(
        held < 2_000_000,
        "{held} bytes are held for a client that reads nothing"
    );
    let answer = client.answers(&mut server, at(0));
    assert_eq!(answer.matches("VALUE k").count(), 12);
    assert!(answer.ends_with("END\r\nMN\r\n"));
}

#[test]
fn one_connection_gets_its_share_of_a_turn_and_no_more() {
    let mut server = Server::standalone(1);
    let id = server.workers[0].open(Peer::default());
    let input = "mn\r\n".repeat(50);
    let progress = server.workers[0].handle_input(at(0), id, input.as_bytes());
    assert_eq!(progress.consumed, 20 * 4);
    assert!(progress.more);
}

#[test]
fn statistics_have_memcacheds_names() {
    let mut server = Server::standalone(1);
    let mut client = Client::open(&mut server, 0);
    client.ask(
        &mut server,
        at(0),
        "set a 0 0 1\r\nx\r\nget a\r\nget b\r\nincr b 1\r\n",
    );
    let answer = client.ask(&mut server, at(2_000), "stats\r\n");
    for line in [
        "STAT uptime 2\r\n",
        "STAT cmd_get 2\r\n",
        "STAT cmd_set 1\r\n",
        "STAT get_hits 1\r\n",
        "STAT get_misses 1\r\n",
        "STAT incr_misses 1\r\n",
        "STAT curr_items 1\r\n",
        "STAT total_items 1\r\n",
        "STAT pointer_size 64\r\n",
    ] {
        assert!(answer.contains(line), "{line:?} is not in {answer}");
    }
    assert!(answer.ends_with("END\r\n"));
    assert_eq!(
        client.ask(&mut server, at(0), "stats reset\r\n"),
        "RESET\r\n"
    );
    assert!(
        client
            .ask(&mut server, at(0), "stats\r\n")
            .contains("STAT cmd_get 0\r\n")
    );
    assert!(
        client
            .ask(&mut server, at(0), "stats items\r\n")
            .contains("STAT items:1:number 1\r\n")
    );
    assert!(
        client
            .ask(&mut server, at(0), "stats slabs\r\n")
            .contains("STAT active_slabs 1\r\n")
    );
    assert_eq!(
        client.ask(&mut server, at(0), "stats bogus\r\n"),
        "ERROR\r\n"
    );
}
