//! While there is no memory for answers, anyone who asks for a large value waits, and nobody else.

use crate::harness::{Client, Server, at};
use evenkeel_server_core::{ConnectionId, Deferred, LARGE_ANSWER, Message, OUT_PAUSE};

/// Gets of the large value in all forms, and what is said of it before it waits.
const FORMS: [(&str, &str); 6] = [
    ("get large\r\n", ""),
    ("gets large\r\n", ""),
    ("gat 0 large\r\n", ""),
    ("mg large v\r\n", ""),
    ("get small large small\r\n", "VALUE small 0 1\r\ns\r\n"),
    (
        "get small\r\nmg small v\r\nget large\r\nget small\r\n",
        "VALUE small 0 1\r\ns\r\nEND\r\nVA 1\r\ns\r\n",
    ),
];

fn store(server: &mut Server, key: &str, len: usize) {
    let mut client = Client::open(server, 0);
    let value = "s".repeat(len);
    let said = client.ask(server, at(0), format!("set {key} 0 0 {len}\r\n{value}\r\n"));
    assert_eq!(said, "STORED\r\n");
}

fn scarce(server: &mut Server, scarce: bool) {
    for worker in &mut server.workers {
        worker.set_scarce(scarce);
    }
}

#[test]
fn a_large_value_waits_in_every_form_and_is_then_answered_as_always() {
    let mut server = Server::standalone(1);
    store(&mut server, "large", LARGE_ANSWER + 1);
    store(&mut server, "limit", LARGE_ANSWER);
    store(&mut server, "small", 1);
    for (question, before) in FORMS {
        let expected = Client::open(&mut server, 0).ask(&mut server, at(0), question);
        let counted = server.workers[0].counts();
        scarce(&mut server, true);
        let mut waits = Client::open(&mut server, 0);
        waits.send(&mut server, at(0), question.as_bytes());
        assert_eq!(waits.answers(&mut server, at(0)), before, "{question}");
        let session = server.workers[0].session(waits.id).expect("it stands");
        assert!(session.lacks_room && session.is_paused());
        let mut other = Client::open(&mut server, 0);
        let said = other.ask(
            &mut server,
            at(0),
            "get small\r\nget limit\r\nmg none v\r\n",
        );
        assert!(said.ends_with("END\r\nEN\r\n") && said.len() > LARGE_ANSWER);
        // It may try again as often as it likes.
        waits.turn(&mut server, at(0));
        assert_eq!(waits.answers(&mut server, at(0)), "");

        scarce(&mut server, false);
        let session = server.workers[0].session(waits.id).expect("it stands");
        session.set_room(OUT_PAUSE);
        waits.turn(&mut server, at(0));
        let rest = waits.answers(&mut server, at(0));
        assert!(format!("{before}{rest}") == expected, "{question}");
        // Nothing was counted twice: twice what the question counts, and the other one's three.
        let counts = server.workers[0].counts();
        let of_question = question.matches("large").count() + question.matches("small").count();
        let gets = counts.get_hits + counts.touch_hits - counted.get_hits - counted.touch_hits;
        assert_eq!(gets, of_question as u64 + 2, "{question}");
    }
}

/// What worker 0 has for worker 1.
fn sent(server: &mut Server) -> Vec<Message> {
    let mut messages = Vec::new();
    server.workers[0].flush_outbox(|_, message| {
        messages.push(message);
        Ok(())
    });
    messages
}

/// Whose commands a message carries.
fn asker(message: &Message) -> Option<ConnectionId> {
    match message {
        Message::Commands(commands) => commands.connection(),
        _ => None,
    }
}

/// Whether anyone who asks has read large answers to their end.
fn reads_well(message: &Message) -> bool {
    matches!(message, Message::Commands(commands) if commands.asker_reads_well())
}

#[test]
fn those_who_wait_at_another_worker_take_turns_and_who_is_gone_is_forgotten() {
    let mut server = Server::standalone(2);
    let [one, other, good] = [(); 3].map(|()| Client::open(&mut server, 0).id);
    let session = server.workers[0].session(good).expect("it stands");
    session.reads_well = true;
    // Some of a hundred keys are at the other worker.
    let many: String = (0..100).map(|key| format!("get key{key}\r\n")).collect();
    let mut ask = |who: ConnectionId, question: &str| {
        server.workers[0].handle_input(at(0), who, question.as_bytes());
        let mut messages = sent(&mut server);
        assert!(!messages.is_empty() && messages.iter().all(|asked| asker(asked) == Some(who)));
        messages.remove(0)
    };
    let mut line = Deferred::default();
    for who in [one, other, good] {
        let asked = ask(who, &many);
        assert_eq!(reads_well(&asked), who == good);
        assert!(!line.is_behind(0, &asked));
        line.push(0, asked);
    }
    let later = ask(one, &many);
    assert!(line.is_behind(0, &later) && !line.is_behind(1, &later));
    line.push(0, later);

    // Who waited first is first; what is left of it lets others go first, and is before what was asked later.
    let next = |line: &mut Deferred, may_go: fn(&Message) -> bool| {
        line.take(may_go).map(|(_, message)| message)
    };
    let first = next(&mut line, |_| true).expect("it waits");
    assert_eq!(asker(&first), Some(one));
    let bytes_of_first = first.weight();
    line.put_back(0, first);
    assert!(line.has_next(reads_well) && !line.has_next(|_| false));
    let of_good = next(&mut line, reads_well).expect("it waits");
    assert_eq!(asker(&of_good), Some(good));
    assert!(!line.has_next(reads_well));
    let second = next(&mut line, |_| true).expect("it waits");
    assert_eq!(asker(&second), Some(other));
    line.push(0, second);

    // All that it asked is dropped, and of nobody else.
    server.workers[0].close(one);
    let gone = sent(&mut server);
    assert!(matches!(gone[..], [Message::Gone(id)] if id == one));
    let mut dropped = Vec::new();
    line.forget(1, one, |message| dropped.push(message.weight()));
    assert!(dropped.is_empty(), "a connection of another worker");
    line.forget(0, one, |message| dropped.push(message.weight()));
    assert_eq!((dropped.len(), dropped[0]), (2, bytes_of_first));
    assert_eq!(line.len(), 1);
    let left = next(&mut line, |_| true).expect("it waits");
    assert_eq!(asker(&left), Some(other));
    assert!(line.is_empty());
}

#[test]
fn what_another_worker_holds_waits_there_and_only_for_its_connection() {
    let mut server = Server::standalone(2);
    let far_key = |server: &mut Server, name: &str, len: usize| {
        let mut names = (0..100).map(|number| format!("{name}{number}"));
        let far = names.find(|key| {
            let before = server.workers[0].counters().forwarded_out;
            store(server, key, len);
            server.workers[0].counters().forwarded_out > before
        });
        far.expect("a hundred keys are not all at one worker")
    };
    let large = far_key(&mut server, "large", LARGE_ANSWER + 1);
    let small = far_key(&mut server, "small", 1);
    for get in ["get", "gets", "gat 0", "mg"] {
        let flags = if get == "mg" { " v" } else { "" };
        let asks = |key: &str| format!("{get} {key}{flags}\r\n");
        let question = [asks(&small), asks(&large), asks(&small)].concat();
        let expected = Client::open(&mut server, 0).ask(&mut server, at(0), &question);
        let small_answer = Client::open(&mut server, 0).ask(&mut server, at(0), asks(&small));
        let forwarded = server.workers[1].counters().forwarded_in;

        scarce(&mut server, true);
        let mut waits = Client::open(&mut server, 0);
        let mut other = Client::open(&mut server, 0);
        server.workers[0].handle_input(at(0), waits.id, question.as_bytes());
        let mut messages = sent(&mut server);
        assert_eq!(messages.len(), 1);
        let message = messages.remove(0);
        let left = server.workers[1].handle_message(at(0), 0, message);
        let left = left.expect("the large one and what is behind it");
        let again = server.workers[1].handle_message(at(0), 0, left);
        let left = again.expect("there is no more memory than before");
        // What comes of the same connection is behind it, others do not wait.
        let ask_small = asks(&small);
        server.workers[0].handle_input(at(0), waits.id, ask_small.as_bytes());
        server.workers[0].handle_input(at(0), other.id, ask_small.as_bytes());
        let mut messages = sent(&mut server);
        let behind = [&messages[0], &messages[1]].map(|message| message.goes_behind(0, &left, 0));
        assert_eq!(behind, [true, false], "{get}");
        let of_other = messages.remove(1);
        let rest_of_other = server.workers[1].handle_message(at(0), 0, of_other);
        assert!(rest_of_other.is_none());
        server.pump(at(0));
        assert_eq!(other.answers(&mut server, at(0)), small_answer);
        assert_eq!(
            waits.answers(&mut server, at(0)),
            small_answer,
            "the first one"
        );

        scarce(&mut server, false);
        for message in [left, messages.remove(0)] {
            let left = server.workers[1].handle_message(at(0), 0, message);
            assert!(left.is_none());
        }
        server.pump(at(0));
        let rest = waits.answers(&mut server, at(0));
        assert!(
            format!("{small_answer}{rest}") == expected + &small_answer,
            "{get}"
        );
        let counted = server.workers[1].counters().forwarded_in - forwarded;
        assert_eq!(counted, 5, "each is counted once");
    }
}

/// No memory is asked for and given back for each large answer: what one connection has emptied serves the next one.
#[test]
fn an_emptied_output_serves_the_next_large_answer() {
    let mut server = Server::standalone(1);
    store(&mut server, "large", OUT_PAUSE - 100);
    let mut places = Vec::new();
    for _ in 0..3 {
        let mut client = Client::open(&mut server, 0);
        client.send(&mut server, at(0), b"get large\r\n");
        let session = server.workers[0].session(client.id).expect("it stands");
        let (place, len) = (session.out.as_ptr(), session.output().len());
        assert!(len > OUT_PAUSE - 100, "{len}");
        places.push(place);
        server.workers[0].wrote(client.id, len);
        let session = server.workers[0].session(client.id).expect("it stands");
        assert_eq!(session.held_bytes(), 0, "idle connections hold none");
    }
    assert_eq!(places, [places[0]; 3]);
}
