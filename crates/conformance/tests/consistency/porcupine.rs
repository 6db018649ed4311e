//! Another judge of linearizability: Porcupine, which is written in another language by others.
//!
//! Both judges are given the beginning of a real history, and histories that were made wrong on purpose, and
//! must agree about each.

use super::application::{KEYS, Shared};
use super::lease::AFTERMATH;
use super::{Consistency, LONG_TIMEOUTS, cluster, record};
use evenkeel_conformance::exchange::seed;
use evenkeel_conformance::go;
use evenkeel_sim::history::{Action, Effect, Found, NEVER, Operation, WriteId, check_linearizable};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Operations at the beginning of the history that are looked at.
const OPERATIONS: usize = 20_000;

/// One read in this many is judged: Porcupine's search grows much faster than what goes on at a time, and a history
/// without some of its reads is as linearizable.
const READS_THINNED: u64 = 16;

/// Histories made wrong.
const FORGERIES: usize = 20;

/// The first operations, with few of the reads. What was not answered by then may or may not happen.
fn beginning(mut operations: Vec<Operation>, random: &mut Xoshiro256PlusPlus) -> Vec<Operation> {
    operations.sort_by_key(|operation| operation.invoked);
    operations.truncate(OPERATIONS);
    operations.retain(|operation| {
        let is_read = matches!(operation.action, Action::Read(_));
        !is_read || random.next_u64().is_multiple_of(READS_THINNED)
    });
    let end = operations.last().expect("there are some").invoked;
    for operation in &mut operations {
        if operation.completed > end {
            operation.completed = NEVER;
            operation.action = match operation.action {
                Action::Read(_) => Action::Read(Found::Unknown),
                Action::Delete(_) => Action::Delete(Effect::Unknown),
                Action::Write { id, expects, .. } => Action::Write {
                    id,
                    expects,
                    effect: Effect::Unknown,
                },
            };
        }
    }
    operations
}

/// An operation as Porcupine's program reads it; nothing for one that says nothing.
fn line_of(operation: &Operation) -> Option<String> {
    // Its zero is a miss.
    let number = |write: WriteId| write.0.wrapping_add(1);
    let (what, value, expected, is_done) = match &operation.action {
        Action::Read(Found::Value { write, .. }) => ("r", number(*write), 0, true),
        Action::Read(Found::Miss) | Action::Delete(Effect::Done { .. }) => ("r", 0, 0, true),
        Action::Read(Found::Unknown)
        | Action::Delete(Effect::None | Effect::Unknown)
        | Action::Write {
            effect: Effect::None,
            ..
        } => return None,
        Action::Write {
            id,
            expects,
            effect,
        } => {
            let is_done = matches!(effect, Effect::Done { .. });
            match expects {
                None => ("w", number(*id), 0, is_done),
                Some(expected) => ("c", number(*id), number(*expected), is_done),
            }
        }
    };
    let (key, call) = (operation.key, operation.invoked);
    let back = match is_done {
        true => operation.completed as i64,
        false => -1,
    };
    Some(format!("{key} {call} {back} {what} {value} {expected}\n"))
}

/// Whether Porcupine finds every key linearizable.
fn judged_by_porcupine(program: &Path, operations: &[Operation]) -> bool {
    let mut process = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was built");
    let text: String = operations.iter().filter_map(line_of).collect();
    let mut input = process.stdin.take().expect("it is piped");
    input
        .write_all(text.as_bytes())
        .expect("it reads all of it");
    drop(input);
    let output = process.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let verdicts = String::from_utf8(output.stdout).expect("words");
    assert_eq!(verdicts.lines().count(), KEYS.len(), "{verdicts}");
    verdicts.lines().all(|line| match line.split_once(' ') {
        Some((_, "ok")) => true,
        Some((_, "illegal")) => false,
        _ => panic!("no verdict: {line}"),
    })
}

/// Lets a read have found what an earlier one of the same key found.
fn forge(operations: &mut [Operation], random: &mut Xoshiro256PlusPlus) {
    let values = |operations: &[Operation], at: usize| match operations[at].action {
        Action::Read(found @ Found::Value { .. }) => Some((operations[at].key, found)),
        _ => None,
    };
    loop {
        let [a, b] = [0, 1].map(|_| random.next_u64() as usize % operations.len());
        let (early, late) = (a.min(b), a.max(b));
        if let (Some((key, found)), Some((other, newer))) =
            (values(operations, early), values(operations, late))
            && key == other
            && found != newer
        {
            operations[late].action = Action::Read(found);
            return;
        }
    }
}

#[test]
fn porcupine_agrees_about_real_histories_and_forged_ones() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = go::build("./porcupine", folder.join("porcupine-check"));
    let seed = seed();
    let shared = Shared::new(seed);
    let mut cluster = cluster(Consistency::Atomic, LONG_TIMEOUTS);
    let history = record(&mut cluster, &shared, AFTERMATH, &mut |_, _| Vec::new());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let operations = beginning(history.operations, &mut random);
    println!("{} operations", operations.len());
    assert!(check_linearizable(&operations).is_ok());
    assert!(judged_by_porcupine(&program, &operations));
    let mut refused = 0;
    for number in 0..FORGERIES {
        let mut forged = operations.clone();
        forge(&mut forged, &mut random);
        let ours = check_linearizable(&forged).is_ok();
        let theirs = judged_by_porcupine(&program, &forged);
        assert_eq!(ours, theirs, "forgery {number}");
        refused += usize::from(!ours);
    }
    println!("{refused} of {FORGERIES} forgeries were refused by both");
    assert!(refused > 0);
}
