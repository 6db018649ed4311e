//! `evenkeel locality check` over real memcacheds in three racks: what it says of keys that stand well, and of what was written past the proxies.

use evenkeel_testkit::racks::{Architecture, Racks, RacksOptions};
use evenkeel_testkit::{Client, Signal};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The time after which a process that was killed hangs.
const PATIENCE: Duration = Duration::from_secs(60);

struct World(Racks);

impl World {
    fn new(architecture: Architecture) -> Self {
        World(Racks::start(&RacksOptions {
            architecture,
            ..RacksOptions::default()
        }))
    }

    fn run(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .args(["locality", "check"])
            .args(arguments)
            .args(["--rack", "b", "--config"])
            .arg(&self.0.config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program was built for this test");
        let mut stdin = child.stdin.take().expect("it was piped");
        // One that refuses its command line does not read.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait_with_output().expect("it ends")
    }

    /// Checks the key `k`: the lines that are printed, with one space in place of several, and the exit code.
    fn check(&self) -> (Vec<String>, Option<i32>) {
        let output = self.run(&["main", "k"], "");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines = text(&output.stdout).lines().map(words).collect();
        (lines, output.status.code())
    }

    /// The client of a rack's proxy.
    fn proxy(&self, rack: usize) -> Client {
        Client::connect(self.0.address(rack))
    }

    /// The client of a rack's memcached.
    fn memcached(&self, rack: usize) -> Client {
        self.0.servers[rack].client()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether a line says of a place what stands there.
fn says(lines: &[String], place: &str, stands: &str) -> bool {
    let is_it = |line: &String| line.starts_with(place) && line.ends_with(stands);
    lines.iter().any(is_it)
}

fn keys_that_stand_well_and_wrong(architecture: Architecture) {
    let (noting, note) = match architecture {
        Architecture::Dir => ("directory", "the note in the directory"),
        _ => ("rack c", "the note in rack c"),
    };
    let mut world = World::new(architecture);
    assert_eq!(world.proxy(0).set_with("k", 7, 600, b"first"), "STORED");
    let (lines, code) = world.check();
    assert_eq!((lines[0].as_str(), code), ("k: fine", Some(0)), "{lines:?}");
    let item = lines.iter().find(|line| line.starts_with("rack a"));
    let item = item.expect("a place");
    assert!(
        item.contains("an item: 5 bytes, client flags 7, "),
        "{item}"
    );
    assert!(says(&lines, noting, "a note to rack a"), "{lines:?}");

    // Past the proxies.
    assert_eq!(world.memcached(1).set("k", b"other"), "STORED");
    let (lines, code) = world.check();
    let expected = "k: two racks hold it: a, b";
    assert_eq!((lines[0].as_str(), code), (expected, Some(1)), "{lines:?}");

    assert_eq!(world.memcached(0).delete("k"), "DELETED");
    let (lines, code) = world.check();
    let expected = format!("k: {note} dangles: rack a does not hold the item");
    assert_eq!((&lines[0], code), (&expected, Some(1)), "{lines:?}");

    // For programs, with keys from standard input; one of them was never stored.
    let output = world.run(&["main", "-", "--format", "json"], "k\r\nnone\n");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told[0]["faults"][0]["fault"], "dangles");
    assert_eq!(told[0]["looks"], 5);
    assert_eq!(told[0]["places"][1]["stands"], "item");
    assert_eq!(told[1]["key"], "none");
    assert_eq!(told[1]["faults"], Value::Array(Vec::new()));
    assert_eq!(told[1]["looks"], 1);
    let said = text(&output.stderr);
    assert_eq!(said, "evenkeel: 1 of 2 keys have faults\n");
    assert_eq!(output.status.code(), Some(1));

    assert_eq!(world.proxy(1).delete("k"), "DELETED");
    assert_eq!(world.proxy(2).set("k", b"again"), "STORED");
    let (lines, code) = world.check();
    assert_eq!((lines[0].as_str(), code), ("k: fine", Some(0)), "{lines:?}");

    let server = world.0.servers[1].process();
    server.signal(Signal::Kill);
    server.wait(PATIENCE);
    let (lines, code) = world.check();
    let expected = "k: incomplete, without rack b";
    assert_eq!((lines[0].as_str(), code), (expected, Some(1)), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.contains("cannot be asked: ")),
        "{lines:?}"
    );
}

#[test]
fn by_notes_in_the_racks() {
    keys_that_stand_well_and_wrong(Architecture::Snoop);
}

#[test]
fn by_notes_in_a_directory() {
    keys_that_stand_well_and_wrong(Architecture::Dir);
}

#[test]
fn what_cannot_be_used_is_said_in_one_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("proxy.toml");
    let text_of = "[topology.racks.a]\ncidr = \"10.1.0.0/16\"\n[topology.racks.b]\ncidr = \"10.2.0.0/16\"\n\
                   [pools.main]\nservers = [\"10.1.0.7\", \"10.2.0.7\"]\narchitecture = \"snoop\"\n\
                   [pools.found]\ndns = \"none.invalid:11211\"\n[[routes]]\npool = \"main\"\n";
    std::fs::write(&file, text_of).expect("written");
    let file = file.to_str().expect("a path of ours is text");
    let long = "k".repeat(251);
    for (arguments, named) in [
        (&["other", "k"][..], "pool main has one of these"),
        (&["found", "k"], "pool main has one of these"),
        (
            &["main", "two words"],
            "CLIENT_ERROR bad command line format",
        ),
        (&["main", &long], "CLIENT_ERROR bad command line format"),
        (&["main"], "KEY"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .args(["locality", "check", "--config", file, "--rack", "a"])
            .args(arguments)
            .output()
            .expect("the program was built for this test");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{arguments:?}: {told}");
        assert!(told.contains(named), "{arguments:?}: {told}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(["locality", "check", "main", "k", "--config", file])
        .output()
        .expect("the program was built for this test");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("--rack"),
        "{}",
        text(&output.stderr)
    );
}
