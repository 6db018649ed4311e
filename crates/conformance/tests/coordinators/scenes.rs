//! What happens, and what must hold after it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use evenkeel_testkit::{Signal, http, poll_until};

use crate::cluster::{Cluster, DEADLINE, assert_same_owners};
use crate::etcd::NODES;
use crate::load::Load;

/// From the death of a leader until its successor has heard from all servers.
const SUCCESSION_MAX: Duration = Duration::from_secs(3);

/// One of three may take longer: the machine of a test has other things to do, and etcd's disk with it.
const SUCCESSION_BUSY_MAX: Duration = Duration::from_secs(8);

/// The same after a stop: who asks a stopped process waits for it before asking another.
const SUCCESSION_STOPPED_MAX: Duration = Duration::from_secs(6);

#[test]
fn a_killed_leader_has_a_successor_within_three_seconds() {
    let mut cluster = Cluster::start();
    let load = Load::start(cluster.proxy.address());
    let (mut leader, mut token) = cluster.wait_until_settled();
    let before = cluster.map(leader);
    let mut successions = Vec::new();
    for _ in 0..3 {
        let killed = Instant::now();
        cluster.coordinators[leader].kill();
        let (next, next_token, took) = cluster.wait_for_leader(token, killed);
        println!(
            "coordinator {leader} killed; {next} leads with token {next_token} after {took:?}"
        );
        assert!(took < SUCCESSION_BUSY_MAX, "{took:?}");
        successions.push(took);
        assert_same_owners(&before, &cluster.map(next));
        cluster.restart_coordinator(leader);
        (leader, token) = (next, next_token);
    }
    successions.sort();
    assert!(successions[1] < SUCCESSION_MAX, "{successions:?}");
    println!("{} rounds of load", load.end());
}

#[test]
fn a_leader_that_is_told_to_stop_hands_over_at_once() {
    let mut cluster = Cluster::start();
    let load = Load::start(cluster.proxy.address());
    let (leader, token) = cluster.wait_until_settled();
    let before = cluster.map(leader);
    let told = Instant::now();
    cluster.signal(leader, Signal::Terminate);
    let (next, _, took) = cluster.wait_for_leader(token, told);
    println!("{next} leads after {took:?}");
    assert!(cluster.coordinators[leader].wait(DEADLINE).success());
    assert!(took < SUCCESSION_MAX, "{took:?}");
    assert_same_owners(&before, &cluster.map(next));
    load.end();
}

/// What a stopped leader was asked before it was stopped is not answered by it when it goes on, and neither is
/// anything that is asked then.
#[test]
fn a_stopped_leader_that_comes_back_tells_nothing() {
    let mut cluster = Cluster::start();
    let load = Load::start(cluster.proxy.address());
    let (former, token) = cluster.wait_until_settled();
    let before = cluster.map(former);
    cluster.signal(former, Signal::Stop);
    let stopped = Instant::now();
    let address = cluster.coordinators[former].address();
    let mut questions: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = TcpStream::connect(address).expect("the kernel takes connections");
            let ask = b"GET /api/v1/settings HTTP/1.0\r\n\r\n";
            stream.write_all(ask).expect("and requests");
            stream
        })
        .collect();
    let (next, next_token, took) = cluster.wait_for_leader(token, stopped);
    println!("coordinator {former} stopped; {next} leads with token {next_token} after {took:?}");
    assert!(took < SUCCESSION_STOPPED_MAX, "{took:?}");
    let next_address = cluster.coordinators[next].address();
    let put = http::put_json(next_address, "/api/v1/settings", "{\"hot_keys\":\"off\"}");
    assert_eq!(put.expect("the leader answers").0, 200);

    cluster.signal(former, Signal::Continue);
    for stream in &mut questions {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(
            !answer.starts_with("HTTP/1.0 200"),
            "a former leader answered: {answer}"
        );
    }
    poll_until(
        DEADLINE,
        "the former leader to send others to the new one",
        || {
            let (status, body) = cluster.get(former, "/api/v1/settings").ok()?;
            assert_ne!(status, 200, "a former leader answered: {body}");
            (status == 307 && body.contains(&next_address.to_string())).then_some(())
        },
    );
    let view = cluster
        .json(former, "/api/v1/election")
        .expect("it tells of the election");
    assert_eq!(view["given_up"]["lease_over"], 1, "{view}");
    let now = cluster.leader().map(|(index, _)| index);
    assert_eq!(now, Some(next), "the new leader goes on");
    assert_same_owners(&before, &cluster.map(next));
    load.end();
}

#[test]
fn the_death_of_etcds_leader_is_survived() {
    let mut cluster = Cluster::start();
    let load = Load::start(cluster.proxy.address());
    let (leader, _) = cluster.wait_until_settled();
    let before = cluster.map(leader);
    let node = cluster.etcd.leader();
    let killed = Instant::now();
    cluster.etcd.kill_node(node);
    // Whoever leads now has to be able to save.
    let took = poll_until(DEADLINE, "a change that is saved", || {
        let (leader, _) = cluster.leader()?;
        let address = cluster.coordinators[leader].address();
        let put = http::put_json(address, "/api/v1/settings", "{\"hot_keys\":\"off\"}");
        (put.ok()?.0 == 200).then(|| killed.elapsed())
    });
    println!("saved again {took:?} after the death of etcd's leader");
    cluster.etcd.start_node(node);
    cluster.etcd.wait_until_healthy();
    let (leader, _) = cluster.wait_until_settled();
    assert_same_owners(&before, &cluster.map(leader));
    load.end();
}

/// Two of three nodes of etcd are away: nobody leads, everybody serves; when they are back, all is as it was.
#[test]
fn without_etcds_majority_serving_goes_on() {
    let mut cluster = Cluster::start();
    let load = Load::start(cluster.proxy.address());
    let (leader, token) = cluster.wait_until_settled();
    let before = cluster.map(leader);
    let first = cluster.etcd.leader();
    let away = [first, (first + 1) % NODES];
    for node in away {
        cluster.etcd.kill_node(node);
    }
    let count = cluster.coordinators.len();
    poll_until(
        DEADLINE,
        "all coordinators to say that they are not ready",
        || {
            let unready = |index| matches!(cluster.get(index, "/readyz"), Ok((503, _)));
            (0..count).all(unready).then_some(())
        },
    );
    for index in 0..count {
        let (status, body) = cluster.get(index, "/api/v1/settings").expect("it answers");
        assert_eq!(status, 503, "{body}");
        assert!(
            body.contains("not_leader") && body.contains("etcd"),
            "{body}"
        );
        assert!(matches!(cluster.get(index, "/healthz"), Ok((200, _))));
        let (_, metrics) = cluster.get(index, "/metrics").expect("it answers");
        assert!(
            metrics.contains("\nevenkeel_coordinator_leader_known 0\n"),
            "{metrics}"
        );
    }
    for node in away {
        cluster.etcd.start_node(node);
    }
    let back = Instant::now();
    let (next, next_token, took) = cluster.wait_for_leader(token, back);
    println!("{next} leads with token {next_token} {took:?} after etcd's nodes were started");
    assert_same_owners(&before, &cluster.map(next));
    load.end();
}

/// A megabyte of configuration, of which etcd takes no more than a third in one value here, and everything older
/// than the present revision forgotten: the successor has all of it.
#[test]
fn a_successor_has_the_whole_state_after_a_compaction() {
    let mut cluster = Cluster::start();
    let (leader, token) = cluster.wait_until_settled();
    let mut text = "[pools.main]\nservers = [\"127.0.0.1:11211\"]\n".to_owned();
    text += &"# and so on\n".repeat(((1 << 20) - text.len()) / 12);
    let address = cluster.coordinators[leader].address();
    for name in ["first", "second", "second"] {
        let path = format!("/api/v1/proxy-config?name={name}");
        text = text.replacen("so on", "so ON", 1);
        let (status, body) = put_text(address, &path, &text);
        assert_eq!(status, 200, "{body}");
        cluster.etcd.compact();
    }
    cluster.coordinators[leader].kill();
    let (next, ..) = cluster.wait_for_leader(token, Instant::now());
    let (status, kept) = cluster
        .get(next, "/api/v1/proxy-config?name=second")
        .expect("it answers");
    assert_eq!(status, 200);
    assert!(
        kept == text,
        "the text has changed on its way: {} bytes",
        kept.len()
    );
}

/// An etcd that has lost everything is not taken for a new cluster.
#[test]
fn a_lost_state_is_told_and_nobody_begins_anew() {
    let cluster = Cluster::start();
    let load = Load::start(cluster.proxy.address());
    cluster.wait_until_settled();
    cluster.etcd.wipe();
    poll_until(DEADLINE, "all coordinators to say what is wrong", || {
        let count = cluster.coordinators.len();
        let says = |index| {
            let view = cluster.json(index, "/api/v1/election");
            let error = view.as_ref().and_then(|view| view["state_error"].as_str());
            error.is_some_and(|error| error.contains("gone, although there was one"))
        };
        (0..count).all(says).then_some(())
    });
    assert_eq!(cluster.leader(), None);
    load.end();
}

fn put_text(address: std::net::SocketAddr, path: &str, text: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let len = text.len();
    let head = format!("PUT {path} HTTP/1.0\r\nContent-Length: {len}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it reads");
    stream.write_all(text.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    (status.expect("a status"), answer)
}
