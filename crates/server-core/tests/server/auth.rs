//! Authentication: nothing that a client says is executed before it is known.

use crate::harness::{Client, Server, at, config, frame, statuses};
use crate::workers::runner;
use evenkeel_protocol::StoreMode;
use evenkeel_protocol::binary::Command;
use evenkeel_server_core::{AuthMode, Credentials, Peer, Protocols, WorkerConfig};
use proptest::prelude::*;
use std::sync::Arc;

const FILE: &[u8] = b"me:secret\nyou:other secret\n";

/// A server that knows the two of the file.
fn server(auth: AuthMode, workers: u16) -> Server {
    let mut server = Server::new(WorkerConfig {
        auth,
        ..config(workers, false)
    });
    let credentials = Arc::new(Credentials::parse(FILE).expect("sound"));
    for worker in &mut server.workers {
        worker.set_credentials(credentials.clone());
    }
    server
}

fn sasl(is_step: bool, mechanism: &[u8], token: &[u8]) -> Vec<u8> {
    frame(Command::Sasl {
        is_step,
        mechanism,
        token,
    })
}

#[test]
fn a_text_client_says_who_it_is_first() {
    let mut server = server(AuthMode::Text, 1);
    let mut client = Client::open(&mut server, 0);
    let mut said = |bytes: &str| client.ask(&mut server, at(0), bytes);
    let unknown = "CLIENT_ERROR unauthenticated\r\n";
    assert_eq!(said("get a\r\nversion\r\nmg a v\r\n"), unknown.repeat(3));
    assert_eq!(
        said("set a 0 0 8\r\nme wrong\r\n"),
        "CLIENT_ERROR authentication failure\r\n"
    );
    assert_eq!(said("set a 0 0 3\r\nab"), "");
    assert_eq!(
        said("c\r\n"),
        "CLIENT_ERROR bad authentication token format\r\n"
    );
    // Known from here on, within the same input.
    assert_eq!(
        said("set a 0 0 9\r\nme secret\r\nset a 0 0 1\r\nx\r\nget a\r\n"),
        "STORED\r\nSTORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"
    );
    let stats = said("stats\r\n");
    assert!(stats.contains("STAT auth_cmds 2\r\n"), "{stats}");
    assert!(stats.contains("STAT auth_errors 1\r\n"), "{stats}");
}

#[test]
fn credentials_that_are_read_anew_count_for_who_comes_then() {
    let mut server = server(AuthMode::Text, 1);
    let mut before = Client::open(&mut server, 0);
    let me = "set a 0 0 9\r\nme secret\r\n";
    assert_eq!(before.ask(&mut server, at(0), me), "STORED\r\n");
    let credentials = Credentials::parse(b"me:changed").expect("sound");
    server.workers[0].set_credentials(Arc::new(credentials));
    assert_eq!(before.ask(&mut server, at(0), "get b\r\n"), "END\r\n");
    let mut after = Client::open(&mut server, 0);
    assert_eq!(
        after.ask(&mut server, at(0), me),
        "CLIENT_ERROR authentication failure\r\n"
    );
    let changed = "set a 0 0 10\r\nme changed\r\n";
    assert_eq!(after.ask(&mut server, at(0), changed), "STORED\r\n");
}

#[test]
fn without_credentials_nobody_comes_in() {
    let mut server = Server::new(WorkerConfig {
        auth: AuthMode::Text,
        ..config(1, false)
    });
    let mut client = Client::open(&mut server, 0);
    assert_eq!(
        client.ask(&mut server, at(0), "set a 0 0 9\r\nme secret\r\n"),
        "CLIENT_ERROR authentication failure\r\n"
    );
}

#[test]
fn sasl_plain_in_one_step_or_two() {
    let mut server = server(AuthMode::Sasl, 1);
    for steps in [
        vec![sasl(false, b"PLAIN", b"\0me\0secret")],
        vec![
            sasl(false, b"PLAIN", b""),
            sasl(true, b"PLAIN", b"you\0you\0other secret"),
        ],
    ] {
        let mut client = Client::open(&mut server, 0);
        let mut said = |bytes: &[u8]| client.ask_bytes(&mut server, at(0), bytes);
        let mechanisms = said(&frame(Command::SaslMechanisms));
        assert!(mechanisms.ends_with(b"PLAIN"));
        let version = said(&frame(Command::Version));
        assert_eq!(statuses(&version), [0]);
        let mut expected = vec![0x21; steps.len() - 1];
        expected.push(0);
        let answer = said(&steps.concat());
        assert_eq!(statuses(&answer), expected);
        assert!(answer.ends_with(b"Authenticated"));
        let get = frame(Command::Get {
            key: b"k",
            with_key: false,
        });
        assert_eq!(statuses(&said(&get)), [1]);
        // A later attempt that fails takes the permission back.
        let again = [sasl(false, b"PLAIN", b"\0me\0wrong"), get].concat();
        assert_eq!(statuses(&said(&again)), [0x20, 0x20]);
        assert!(client.is_closing(&mut server));
    }
}

#[test]
fn an_unknown_client_cannot_make_the_server_wait_for_its_values() {
    let mut server = server(AuthMode::Sasl, 1);
    let mut client = Client::open(&mut server, 0);
    let set = frame(Command::Store {
        mode: StoreMode::Set,
        key: b"k",
        flags: 0,
        exptime: 0,
        value: &[b'x'; 1000],
    });
    // The header is enough to be turned away.
    let answer = client.ask_bytes(&mut server, at(0), &set[..24]);
    assert_eq!(statuses(&answer), [0x20]);
    assert!(client.is_closing(&mut server));
}

#[test]
fn without_sasl_its_commands_are_unknown() {
    let mut server = Server::standalone(1);
    let mut client = Client::open(&mut server, 0);
    let input = [
        frame(Command::SaslMechanisms),
        sasl(false, b"PLAIN", b"\0me\0secret"),
        sasl(true, b"PLAIN", b"\0me\0secret"),
    ]
    .concat();
    let answer = client.ask_bytes(&mut server, at(0), &input);
    assert_eq!(statuses(&answer), [0x81; 3]);
}

/// Something a client may say without valid credentials, and every command that would show.
fn anything() -> impl Strategy<Value = Vec<u8>> {
    let stored = |key: &[u8]| {
        frame(Command::Store {
            mode: StoreMode::Set,
            key,
            flags: 0,
            exptime: 0,
            value: b"intruder",
        })
    };
    let fixed: Vec<Vec<u8>> = vec![
        b"set k 0 0 8\r\nintruder\r\n".to_vec(),
        b"set k 0 0 8 noreply\r\nintruder\r\n".to_vec(),
        b"set k 0 0 8\r\nme wrong\r\n".to_vec(),
        b"set k 0 0 10\r\nyou secret\r\n".to_vec(),
        b"set k 0 0 9\r\nnobody x \r\n".to_vec(),
        b"set k 0 0 9\r\nme\tsecret\r\n".to_vec(),
        b"set k 0 0 9\r\nme:secret\r\n".to_vec(),
        b"set k 0 0 4294967295\r\n".to_vec(),
        b"add k 0 0 1\r\nx\r\n".to_vec(),
        b"ms k 8 T0\r\nintruder\r\n".to_vec(),
        b"get known\r\n".to_vec(),
        b"mg known v\r\n".to_vec(),
        b"mn\r\n".to_vec(),
        b"md known\r\n".to_vec(),
        b"delete known\r\n".to_vec(),
        b"incr known 1\r\n".to_vec(),
        b"touch known -1\r\n".to_vec(),
        b"flush_all\r\n".to_vec(),
        b"stats\r\n".to_vec(),
        b"evenkeel 1 epoch=0\r\n".to_vec(),
        b"\r\n".to_vec(),
        b"\n".to_vec(),
        stored(b"k"),
        stored(b"known"),
        frame(Command::Get {
            key: b"known",
            with_key: true,
        }),
        frame(Command::Delete { key: b"known" }),
        frame(Command::Flush { delay: None }),
        frame(Command::Stat { arguments: b"" }),
        frame(Command::Noop),
        frame(Command::Version),
        frame(Command::SaslMechanisms),
        frame(Command::Hello(evenkeel_protocol::Hello::default())),
        sasl(false, b"PLAIN", b""),
        sasl(false, b"PLAIN", b"\0me\0wrong"),
        sasl(true, b"PLAIN", b"\0me\0wrong"),
        sasl(false, b"SCRAM-SHA-1", b"\0me\0secret"),
        sasl(false, b"PLAIN", b"you\0me\0secret"),
        sasl(false, b"PLAIN", b"\0me\0"),
    ];
    prop_oneof![
        8 => proptest::sample::select(fixed),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

#[test]
fn nothing_that_is_said_without_valid_credentials_is_carried_out() {
    let cases = (
        proptest::collection::vec(anything(), 1..20),
        0..3u8,
        any::<bool>(),
        1..3u16,
    );
    runner(1500)
        .run(&cases, |(said, listener, is_text, workers)| {
            let auth = if is_text {
                AuthMode::Text
            } else {
                AuthMode::Sasl
            };
            let mut server = server(auth, workers);
            // Somebody who is known has stored something.
            let mut owner = Client::open(&mut server, 0);
            let (credentials, set, get): (Vec<u8>, Vec<u8>, Vec<u8>) = if is_text {
                (
                    b"set a 0 0 9\r\nme secret\r\n".to_vec(),
                    b"set known 0 0 1\r\n7\r\n".to_vec(),
                    b"get known\r\nget k\r\n".to_vec(),
                )
            } else {
                let get = |key| {
                    frame(Command::Get {
                        key,
                        with_key: false,
                    })
                };
                let set = Command::Store {
                    mode: StoreMode::Set,
                    key: b"known",
                    flags: 0,
                    exptime: 0,
                    value: b"7",
                };
                (
                    sasl(false, b"PLAIN", b"\0me\0secret"),
                    frame(set),
                    [get(b"known"), get(b"k")].concat(),
                )
            };
            owner.ask_bytes(&mut server, at(0), &[credentials, set].concat());
            let before = owner.ask_bytes(&mut server, at(0), &get);
            prop_assert!(!before.is_empty());

            let peer = Peer {
                protocols: [Protocols::Any, Protocols::Text, Protocols::Binary]
                    [usize::from(listener)],
                ..Peer::default()
            };
            let mut intruder = Client::open_as(&mut server, 0, peer);
            let answer = intruder.ask_bytes(&mut server, at(0), &said.concat());
            for told in [
                &b"intruder"[..],
                b"VALUE",
                b"STAT ",
                b"EVENKEEL",
                b"curr_items",
            ] {
                let leaks = answer.windows(told.len()).any(|window| window == told);
                prop_assert!(!leaks, "told {:?}", String::from_utf8_lossy(&answer));
            }
            prop_assert_eq!(owner.ask_bytes(&mut server, at(0), &get), before);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}
