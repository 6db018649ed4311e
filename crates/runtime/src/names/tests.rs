use super::*;
use hickory_resolver::proto::op::{Message, MessageType, OpCode};
use hickory_resolver::proto::rr::rdata::A;
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use std::net::UdpSocket;
use std::sync::mpsc::{Receiver, channel};

/// Longer than any test takes; reached only by a failure.
const DEADLINE: Duration = Duration::from_secs(60);

const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 7));

/// A name server that knows names that begin with `known`, and says nothing of others. Gives what it was asked for.
fn name_server() -> (SocketAddr, Receiver<String>) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("it is bound");
    let (asked, questions) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((len, peer)) = socket.recv_from(&mut buffer) {
            let question = Message::from_vec(&buffer[..len]).expect("a question");
            let query = question.queries.first().expect("it asks for something");
            let name = query.name().to_string();
            let answers =
                name.to_lowercase().starts_with("known") && query.query_type() == RecordType::A;
            // The test may have seen enough.
            let _ = asked.send(name);
            if !answers {
                continue;
            }
            let mut answer =
                Message::new(question.metadata.id, MessageType::Response, OpCode::Query);
            answer.add_query(query.clone());
            let IpAddr::V4(ip) = ADDRESS else {
                unreachable!("it is of the old kind")
            };
            let data = RData::A(A(ip));
            answer.add_answer(Record::from_rdata(query.name().clone(), 3600, data));
            let bytes = answer.to_vec().expect("a message of ours");
            socket.send_to(&bytes, peer).expect("loopback");
        }
    });
    (address, questions)
}

fn look_up(resolver: &Resolver, host: &str) -> Receiver<Option<IpAddr>> {
    let (waiters, heard) = channel();
    resolver.look_up(host, move |address| {
        waiters.send(address).expect("the test waits");
    });
    heard
}

#[test]
fn a_name_that_nobody_answers_for_delays_no_other() {
    let (server, questions) = name_server();
    let resolver = Resolver::start(&[server]).expect("a thread");
    let silent: Vec<_> = (0..QUESTIONS_MAX - 1)
        .map(|number| look_up(&resolver, &format!("silent-{number}.test.")))
        .collect();
    // They are under way before the other is asked for.
    for _ in &silent {
        questions.recv_timeout(DEADLINE).expect("it is asked");
    }
    let known = look_up(&resolver, "known.test.");
    assert_eq!(known.recv_timeout(DEADLINE), Ok(Some(ADDRESS)));
    let still_waiting = silent.iter().filter(|one| one.try_recv().is_err()).count();
    assert_eq!(still_waiting, silent.len());
}

#[test]
fn what_was_found_is_not_asked_for_again() {
    let (server, questions) = name_server();
    let resolver = Resolver::start(&[server]).expect("a thread");
    for _ in 0..3 {
        let found = look_up(&resolver, "known.test.");
        assert_eq!(found.recv_timeout(DEADLINE), Ok(Some(ADDRESS)));
    }
    assert_eq!(questions.try_iter().count(), 1);
    let counts = resolver.counts();
    assert_eq!((counts.asked, counts.failed), (1, 0));
}

#[test]
fn names_as_containers_have_them_are_asked_for() {
    let (server, _questions) = name_server();
    let resolver = Resolver::start(&[server]).expect("a thread");
    for name in ["known_to-all.my_project.test.", "KNOWN.test."] {
        let found = look_up(&resolver, name);
        assert_eq!(found.recv_timeout(DEADLINE), Ok(Some(ADDRESS)), "{name}");
    }
    for name in ["..", "", &"x".repeat(300)] {
        let found = look_up(&resolver, name);
        assert_eq!(found.recv_timeout(DEADLINE), Ok(None), "{name}");
    }
}

#[test]
fn a_question_ends_and_is_counted() {
    let (server, _questions) = name_server();
    let resolver = Resolver::start(&[server]).expect("a thread");
    let silent = look_up(&resolver, "silent.test.");
    assert_eq!(silent.recv_timeout(DEADLINE), Ok(None));
    let counts = resolver.counts();
    assert_eq!((counts.asked, counts.failed), (1, 1));
}

#[test]
fn the_machines_table_of_hosts_is_heeded() {
    let resolver = Resolver::start(&[]).expect("a thread");
    let localhost = look_up(&resolver, "localhost");
    let found = localhost.recv_timeout(DEADLINE).expect("an answer");
    assert!(found.is_some_and(|ip| ip.is_loopback()), "{found:?}");
}

#[test]
fn numbers_are_no_names() {
    assert_eq!(literal("10.0.0.1", 7), "10.0.0.1:7".parse().ok());
    assert_eq!(literal("::1", 7), "[::1]:7".parse().ok());
    assert_eq!(literal("a.test", 7), None);
}
