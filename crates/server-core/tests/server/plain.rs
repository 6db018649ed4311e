//! Runs of plain reads and sets against their simple twin: the same requests one by one on the ordinary
//! path, which a second space behind the first word leads to.

use crate::harness::{Client, Server, at};
use crate::workers::runner;
use evenkeel_server_core::Counters;
use proptest::prelude::*;

/// Milliseconds between two batches: enough for items to expire after a few.
const STEP_MS: u64 = 400;

#[derive(Clone, Debug)]
enum Command {
    /// The keys of a `get`.
    Read(Vec<u8>),
    /// What stands behind the first space of a `set`.
    Set(String),
    Other(String),
}

fn command() -> impl Strategy<Value = Command> {
    let key = || 0..60_u8;
    let set = (key(), 0..3_u8, 0..400_usize, 0..20_u8).prop_map(|(key, exptime, len, odd)| {
        let noreply = if odd == 0 { " noreply" } else { "" };
        let value = "v".repeat(len);
        Command::Set(format!(
            "k{key} {odd} {exptime} {len}{noreply}\r\n{value}\r\n"
        ))
    });
    let other = prop_oneof![
        1 => key().prop_map(|key| format!("delete k{key}\r\n")),
        1 => key().prop_map(|key| format!("mg k{key} h l t s\r\n")),
        1 => key().prop_map(|key| format!("gets k{key}\r\n")),
    ];
    prop_oneof![
        6 => key().prop_map(|key| Command::Read(vec![key])),
        1 => proptest::collection::vec(key(), 2..70).prop_map(Command::Read),
        5 => set,
        2 => other.prop_map(Command::Other),
    ]
}

fn text(command: &Command, space: &str) -> String {
    match command {
        Command::Other(text) => text.clone(),
        Command::Set(text) => format!("set{space}{text}"),
        Command::Read(keys) => {
            let keys: Vec<String> = keys.iter().map(|key| format!("k{key}")).collect();
            format!("get{space}{}\r\n", keys.join(" "))
        }
    }
}

fn counts(server: &mut Server) -> Vec<Counters> {
    let workers = server.workers.iter_mut();
    workers
        .map(|worker| Counters {
            conn_yields: 0,
            ..*worker.counters()
        })
        .collect()
}

#[test]
fn runs_answer_and_count_as_the_same_requests_one_by_one() {
    let batches = proptest::collection::vec(proptest::collection::vec(command(), 1..80), 1..8);
    runner(96)
        .run(&(batches, 0..2_u8), |(batches, several)| {
            let workers = if several == 0 { 1 } else { 3 };
            let (mut quick, mut plain) = (Server::standalone(workers), Server::standalone(workers));
            let mut in_runs = Client::open(&mut quick, 0);
            let mut one_by_one = Client::open(&mut plain, 0);
            for (batch, commands) in batches.iter().enumerate() {
                let now = at(batch as u64 * STEP_MS);
                let whole: String = commands.iter().map(|command| text(command, " ")).collect();
                let answers = in_runs.ask(&mut quick, now, &whole);
                let mut expected = String::new();
                for command in commands {
                    expected += &one_by_one.ask(&mut plain, now, text(command, "  "));
                }
                prop_assert_eq!(answers, expected);
            }
            prop_assert_eq!(counts(&mut quick), counts(&mut plain));
            Ok(())
        })
        .expect("the same answers and counts");
}

#[test]
fn a_long_run_stops_for_a_client_that_does_not_read_and_goes_on_in_the_middle() {
    let mut server = Server::standalone(1);
    let mut client = Client::open(&mut server, 0);
    let value = "x".repeat(100_000);
    client.ask(
        &mut server,
        at(0),
        format!("set k 0 0 100000\r\n{value}\r\n"),
    );
    let run = format!("get k\r\nget {}\r\nget k\r\n", ["k"; 40].join(" "));
    client.send(&mut server, at(0), run.as_bytes());
    let held = server.workers[0]
        .session(client.id)
        .expect("open")
        .out
        .len();
    assert!(
        held < 1_300_000,
        "{held} bytes are held for a client that reads nothing"
    );
    let answers = client.answers(&mut server, at(0));
    let block = format!("VALUE k 0 100000\r\n{value}\r\n");
    let expected = [
        block.clone(),
        "END\r\n".into(),
        block.repeat(40),
        "END\r\n".into(),
        block,
        "END\r\n".into(),
    ];
    assert!(answers == expected.concat(), "{} bytes", answers.len());
}
