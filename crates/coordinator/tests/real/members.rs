//! Members and their coordinator over real sockets, through its restarts and its nonsense.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use evenkeel_control::ClusterLoad;
use evenkeel_coordinator::Args;
use evenkeel_coordinator_core::limits::TAKEOVER_EPOCHS;
use evenkeel_coordinator_core::{Cause, Consistency, MemberKind, Mode, Settings};
use evenkeel_member::client::ClientError;
use evenkeel_member::{MemberEvent, MemberHandle, Report};
use evenkeel_testkit::poll_until;
use evenkeel_types::{BootId, Epoch, ServerId};
use serde_json::{Value, json};

use crate::support::{DEADLINE, Member, Running, call, config, is_even, life, lively};

const OFF: Settings = Settings {
    hot_keys: Mode::Off,
    hot_keys_consistency: Consistency::Lease,
    lease_ms: None,
    hot_sampling: None,
    hot_share: 1.0,
    hot_write_weight: None,
    hot_trigger_rps: None,
    gamma_max: 63,
};

#[test]
fn a_cluster_forms_grows_loses_a_server_and_gets_it_back() {
    let running = Running::start(&Args {
        initial_servers: 2,
        ..lively()
    });
    let at = running.address;
    let first = Member::server(at, 1);
    first.wait_event(&MemberEvent::Found);
    let proxy = Member::proxy(at, 9);
    let second = Member::server(at, 2);
    let map = proxy.wait_map("a first map", is_even);
    assert_eq!(
        (map.servers().len(), map.document().cachelets.len()),
        (2, 64)
    );
    let registered = |event: &MemberEvent| match event {
        MemberEvent::Registered { server_id } => Some(*server_id),
        _ => None,
    };
    let ids = [&first, &second].map(|member| member.wait_for("an id", registered));
    assert_eq!(ids, [ServerId(0), ServerId(1)]);
    Member::proxy(at, 8).wait_event(&MemberEvent::ClusterLoad(ClusterLoad {
        mean: 1_000.0,
        utilization: None,
    }));

    let third = Member::server(at, 3);
    let grown = proxy.wait_map("a map of three", |map| {
        map.servers().len() == 3 && is_even(map)
    });
    assert!(grown.epoch() > map.epoch());
    let moved = map
        .document()
        .cachelets
        .iter()
        .zip(&grown.document().cachelets);
    let moved = moved.filter(|(before, after)| before != after).count();
    assert_eq!(
        moved, 20,
        "six workers share 64 cachelets; the two new ones get ten each"
    );

    third.handle.stop();
    let shrunk = proxy.wait_map("a map with one down", |map| map.servers_up_count() == 2);
    assert_eq!(shrunk.document().cachelets, grown.document().cachelets);
    let reborn = Member::start(life(&[at], MemberKind::Server, 3, 77));
    let whole = proxy.wait_map("a map with all up", |map| map.servers_up_count() == 3);
    assert_eq!(whole.server(ServerId(2)).unwrap().boot, BootId(77));
    assert_eq!(whole.document().cachelets, grown.document().cachelets);
    assert_eq!(reborn.wait_for("an id", registered), ServerId(2));

    let client = running.client();
    assert_eq!(client.map().unwrap(), *whole);
    assert_eq!(client.ready(), Ok(()));
    let servers = client.servers().unwrap().servers;
    assert!(
        servers
            .iter()
            .all(|server| server.up && server.cachelets > 0)
    );
    assert_eq!(client.proxies().unwrap().proxies.len(), 2);
    let causes: Vec<_> = client.events().unwrap().iter().map(|e| e.cause).collect();
    let expected = [
        Cause::MapCreated,
        Cause::ServerJoined,
        Cause::CacheletsReleased,
        Cause::CacheletsGranted,
        Cause::ServerSilent,
        Cause::ServerRestarted,
    ];
    let mut rest = causes.iter();
    assert!(
        expected.iter().all(|cause| rest.any(|c| c == cause)),
        "{causes:?}"
    );
}

#[test]
fn settings_reach_every_member() {
    let running = Running::start(&lively());
    let members = [
        Member::server(running.address, 1),
        Member::proxy(running.address, 2),
    ];
    for member in &members {
        member.wait_event(&MemberEvent::Settings(Settings::default()));
    }
    let client = running.client();
    let off = serde_json::json!({"hot_keys": "off"});
    assert_eq!(client.change_settings(&off), Ok(OFF));
    assert_eq!(client.settings(), Ok(OFF));
    for member in &members {
        member.wait_event(&MemberEvent::Settings(OFF));
    }
}

#[test]
fn a_coordinator_that_returns_from_its_state_file_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let args = Args {
        initial_servers: 2,
        state: Some(dir.path().join("state")),
        ..lively()
    };
    let running = Running::start(&args);
    let at = running.address;
    let members = [
        Member::server(at, 1),
        Member::server(at, 2),
        Member::proxy(at, 3),
    ];
    let maps = members
        .each_ref()
        .map(|member| member.wait_map("a map", is_even));
    let off = serde_json::json!({"hot_keys": "off"});
    running.client().change_settings(&off).unwrap();
    members[2].wait_event(&MemberEvent::Settings(OFF));
    drop(running);
    members.iter().for_each(|member| member.wait_lost());
    members
        .iter()
        .for_each(|member| drop(member.events_so_far()));

    let again = Running::start(&Args {
        listen: at.to_string(),
        ..args
    });
    members
        .iter()
        .for_each(|member| member.wait_event(&MemberEvent::Found));
    let client = again.client();
    assert_eq!(client.settings(), Ok(OFF));
    assert_eq!(
        client.map().unwrap(),
        *maps[0],
        "the same map under the same epoch"
    );
    // The next change has a higher epoch.
    let newcomer = Member::server(at, 4);
    let grown = newcomer.wait_map("a map of three", |map| {
        map.servers().len() == 3 && is_even(map)
    });
    assert!(grown.epoch() > maps[0].epoch());
    members[2].wait_map("the same map", |map| *map == *grown);
    let told: Vec<_> = members[0].events_so_far();
    let news = |event: &MemberEvent| matches!(event, MemberEvent::Registered { .. });
    assert!(!told.iter().any(news), "nobody got another id: {told:?}");
}

#[test]
fn a_coordinator_that_lost_its_state_takes_the_map_over() {
    let running = Running::start(&lively());
    let at = running.address;
    let member = Member::server(at, 1);
    let map = member.wait_map("a map", is_even);
    drop(running);
    member.wait_lost();
    let folder = tempfile::tempdir().unwrap();
    let forgetful = Running::start(&Args {
        listen: at.to_string(),
        state: Some(folder.path().join("state")),
        ..lively()
    });
    let taken = member.wait_map("the map again", |map| map.epoch() > Epoch(TAKEOVER_EPOCHS));
    assert_eq!(taken.document().cachelets, map.document().cachelets);
    assert_eq!(
        taken.document().since,
        map.document().since,
        "nothing is lost"
    );
    let events = forgetful.client().events().unwrap();
    assert_eq!(events[0].cause, Cause::MapTakenOver);
    assert_eq!(events[0].servers, ["m1"]);
}

/// Another coordinator without state is not given the map: the first one may be alive.
#[test]
fn only_where_it_was_followed_a_coordinator_takes_the_map_over() {
    let running = Running::start(&lively());
    let other = Running::start(&lively());
    let list = [running.address, other.address];
    let member = Member::start(config(&list, MemberKind::Server, 1));
    member.wait_map("a map", is_even);
    drop(running);
    let reason = member.wait_for("a refusal", |event| match event {
        MemberEvent::Refused { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    assert_eq!(reason, "map_wanted");
    // It was asked twice and has not said.
    let metric = "evenkeel_coordinator_refusals_total{reason=\"map_wanted\"} ";
    poll_until(DEADLINE, "another heartbeat", || {
        let (_, text) = call(other.address, "GET", "/metrics", "");
        let count = text.lines().find_map(|line| line.strip_prefix(metric))?;
        (count.parse::<u64>().ok()? >= 2).then_some(())
    });
    let no_map = other.client().map().unwrap_err();
    assert!(
        matches!(no_map, ClientError::Refused { status: 404, .. }),
        "{no_map}"
    );
}

/// Names of servers may have characters that mean something in a path.
#[test]
fn a_server_is_removed_by_whatever_name_it_has() {
    let running = Running::start(&lively());
    let name = "rack/1?a=%2f#b";
    match running.client().remove_server(name).unwrap_err() {
        ClientError::Refused {
            reason, message, ..
        } => {
            assert_eq!(reason, "unknown_server");
            assert!(message.contains(name), "{message}");
        }
        error => panic!("{error}"),
    }
}

#[test]
fn a_name_passes_on_when_its_holder_has_fallen_silent() {
    let running = Running::start(&lively());
    let older = Member::server(running.address, 1);
    older.wait_map("a map", is_even);
    let younger = Member::start(life(&[running.address], MemberKind::Server, 1, 5));
    let refused = younger.wait_for("a refusal", |event| match event {
        MemberEvent::Refused { reason, message } => Some((reason.clone(), message.clone())),
        _ => None,
    });
    assert_eq!(refused.0, "name_taken");
    assert!(
        refused.1.contains("held by the process at"),
        "{}",
        refused.1
    );
    drop(older);
    younger.wait_map("a map", is_even);
}

#[test]
fn members_go_on_to_the_next_coordinator_in_their_list() {
    let running = Running::start(&lively());
    // A port that no ordinary program gets.
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let list = [nobody, running.address];
    let member = Member::start(config(&list, MemberKind::Server, 1));
    member.wait_map("a map", is_even);
}

/// Reads a request to its end.
fn read_request(stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut body_len = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(len) = line.strip_prefix("content-length: ") {
            body_len = len.parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; body_len];
    reader.read_exact(&mut body).ok()
}

/// A coordinator that gives each of these answers once, the last one for ever.
fn scripted(answers: Vec<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Ends with the test's process.
    std::thread::spawn(move || {
        let mut next = 0;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if read_request(&stream).is_some() {
                let _ = stream.write_all(&answers[next]);
                next = (next + 1).min(answers.len() - 1);
            }
        }
    });
    address
}

fn http_answer(status: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}").into()
}

fn good_answer(epoch: u64) -> Value {
    json!({
        "server_id": null, "epoch": epoch, "lineage": 1, "mean_worker_load": 5.0,
        "settings": {"hot_keys": "on"}, "interval_ms": 10,
        "map": {
            "epoch": epoch, "virtual_nodes": [0], "cachelets": [{"server": 0, "worker": 0}],
            "servers": [{
                "id": 0, "name": "s", "host": "h", "port": 1, "worker_ports": [2], "rack": null,
                "boot": 1, "up": true,
            }],
        },
    })
}

#[test]
fn answers_that_make_no_sense_change_nothing_and_are_told_once() {
    let with = |path: &str, value: Value| {
        let mut answer = good_answer(2);
        *answer.pointer_mut(path).unwrap() = value;
        http_answer("200 OK", &answer.to_string())
    };
    let good = good_answer(2).to_string();
    let newer = good_answer(3)
        .to_string()
        .replacen('{', "{\"invented_later\":[],", 1);
    let bad = [
        http_answer("200 OK", ""),
        http_answer("200 OK", "<html>It works!</html>"),
        http_answer("200 OK", &good[..good.len() / 2]),
        http_answer("200 OK", &" ".repeat(10 << 20)),
        http_answer("404 Not Found", "<html>no</html>"),
        http_answer("302 Found\r\nlocation: http://127.0.0.1:1/", ""),
        with("/map/epoch", json!(0)),
        with("/map/epoch", json!(9)),
        with("/map/virtual_nodes", json!([0, 0, 0])),
        with("/map/virtual_nodes", json!([7])),
        with("/map/cachelets/0/server", json!(8)),
        with("/map/servers/0/host", json!("h\r\nevil")),
        with("/mean_worker_load", json!(-1.0)),
        with("/mean_worker_load", Value::Null),
        with("/interval_ms", json!(-1)),
        with("/server_id", json!(3)),
    ];
    let mut script = bad.to_vec();
    script.push(http_answer("200 OK", &good));
    script.push(http_answer("200 OK", &good_answer(1).to_string()));
    script.push(http_answer("200 OK", &newer));
    // Each failure makes the member wait longer, so nonsense is spread over several members.
    for bad in script[..bad.len()].iter().cloned() {
        let answers = vec![
            bad,
            script[16].clone(),
            script[17].clone(),
            script[18].clone(),
        ];
        let at = scripted(answers);
        let member = Member::proxy(at, 1);
        let told = member.wait_for("a refusal", |event| match event {
            MemberEvent::Refused { message, .. } => Some(message.clone()),
            other => panic!("{other:?} of an answer that makes no sense"),
        });
        assert!(told.len() < 1_000 && !told.contains('\n'), "{told}");
        member.wait_map("the first good map", |map| map.epoch() == Epoch(2));
        let second = member.wait_map("a newer map", |_| true);
        assert_eq!(second.epoch(), Epoch(3), "a map never goes back");
    }
}

#[test]
fn a_coordinator_that_cannot_serve_is_passed_over_and_told_of() {
    let full = http_answer(
        "503 Service Unavailable",
        r#"{"error":{"reason":"too_many_members","message":"there are 4096 proxies already"}}"#,
    );
    let full = scripted(vec![full]);
    let member = Member::proxy(full, 1);
    member.wait_event(&MemberEvent::Refused {
        reason: "too_many_members".into(),
        message: "there are 4096 proxies already".into(),
    });
    let running = Running::start(&lively());
    let list = [full, running.address];
    let member = Member::start(config(&list, MemberKind::Server, 1));
    member.wait_map("a map", is_even);
}

#[test]
fn a_coordinator_that_hangs_holds_up_neither_the_program_nor_its_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let asked = std::sync::Arc::new(std::sync::Barrier::new(2));
    let meet = asked.clone();
    let mut first = true;
    let report = move || {
        if std::mem::take(&mut first) {
            meet.wait();
        }
        Report::default()
    };
    let handle = MemberHandle::start(config(&[at], MemberKind::Proxy, 1), report, |_| {}).unwrap();
    asked.wait();
    // It is connected and never answered.
    let _silent = listener.accept().unwrap();
    let start = Instant::now();
    handle.stop();
    assert!(start.elapsed() < DEADLINE / 2);
}

#[test]
fn a_program_can_end_its_membership_from_within_an_event() {
    let running = Running::start(&lively());
    let slot = std::sync::Arc::new(std::sync::Mutex::new(None::<MemberHandle>));
    let (sender, ended) = std::sync::mpsc::channel();
    let inner = slot.clone();
    let on_event = move |_| {
        let handle = inner.lock().unwrap().take();
        if handle.is_some() {
            drop(handle);
            sender.send(()).unwrap();
        }
    };
    let config = config(&[running.address], MemberKind::Proxy, 1);
    let mut guard = slot.lock().unwrap();
    *guard = Some(MemberHandle::start(config, Report::default, on_event).unwrap());
    drop(guard);
    ended.recv_timeout(DEADLINE).unwrap();
    assert!(slot.lock().unwrap().is_none());
}

#[test]
fn a_hurried_heartbeat_is_sent_at_once() {
    let running = Running::start(&Args {
        silent_ms: 600_000,
        ..lively()
    });
    let (sender, sent) = std::sync::mpsc::channel();
    let report = move || {
        let _ = sender.send(());
        Report::default()
    };
    // A server's lease would not let it wait for this long.
    let config = config(&[running.address], MemberKind::Proxy, 1);
    let (told, registered) = std::sync::mpsc::channel();
    let on_event = move |event| drop(told.send(event));
    let handle = MemberHandle::start(config, report, on_event).unwrap();
    registered.recv_timeout(DEADLINE).unwrap();
    sent.recv_timeout(DEADLINE).unwrap();
    // The next heartbeat is due in 90 s or more, unless there is something to tell.
    let start = Instant::now();
    handle.hurry();
    sent.recv_timeout(DEADLINE).unwrap();
    assert!(start.elapsed() < Duration::from_secs(60));
}
