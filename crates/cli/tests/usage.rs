//! The command line: bad usage is one line and exit code 2, before anything is started.

use std::process::{Command, Output};

/// Runs the program to its end, which must come at once: nothing here is allowed to start.
fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(arguments)
        .output()
        .expect("the program was built for this test")
}

fn refused(arguments: &[&str], words: &[&str]) {
    let output = run(arguments);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
    assert_eq!(told.lines().count(), 1, "{arguments:?}: {told}");
    for word in words {
        assert!(told.contains(word), "{arguments:?}, {word}: {told}");
    }
    assert!(output.stdout.is_empty(), "{arguments:?}");
}

#[test]
fn bad_flags_are_named() {
    refused(&["up", "--sevrers", "3"], &["--sevrers", "--servers"]);
    refused(&["up", "--servers", "0"], &["--servers 0"]);
    refused(&["up", "--servers", "many"], &["many"]);
    refused(&["up", "--listen", "here"], &["here"]);
    refused(&["up", "--on-seconds", "9"], &["--demo"]);
    refused(&["up", "--demo", "--on-seconds", "0"], &["--on-seconds"]);
    refused(&["up", "--demo", "--zipf", "9"], &["9"]);
    refused(&["up", "--demo", "--format", "xml"], &["xml"]);
    refused(&["serve"], &["serve", "server"]);
    refused(&["bench", "run"], &["--target"]);
    refused(&["bench", "find"], &["--target", "--slo"]);
    refused(
        &["changes", "begin", "main", "--to", "warming"],
        &["--proxies"],
    );
    refused(
        &["changes", "begin", "main", "--to", "closing"],
        &["closing", "warming"],
    );
    refused(&["proxies", "remove"], &["NAME"]);
    refused(
        &["ring", "move", "main", "--from", "a", "--to", "b"],
        &["--grains", "--proxies"],
    );
    refused(&["ring", "withdraw"], &["POOL"]);
    refused(&["bundle", "on", "main"], &["--proxies"]);
    refused(&["bundle", "off", "--proxies", "1"], &["POOL"]);
}

/// The environment names several, of which the first is asked; nobody is there.
#[test]
fn commands_find_the_coordinator_by_the_environment() {
    for command in [
        "changes",
        "ring",
        "bundle",
        "cachelets",
        "plans",
        "settings",
        "top",
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .args(
                [command]
                    .iter()
                    .chain(&["--once"][..usize::from(command == "top")]),
            )
            .env(
                "EVENKEEL_COORDINATOR",
                "http://127.0.0.1:1,http://127.0.0.1:2",
            )
            .output()
            .expect("the program was built for this test");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command}: {told}");
        assert!(
            told.contains("http://127.0.0.1:1 cannot be reached"),
            "{command}: {told}"
        );
    }
}

#[test]
fn the_version_is_told_everywhere() {
    let version = format!(" {}\n", env!("CARGO_PKG_VERSION"));
    for arguments in [&["--version"][..], &["-V"], &["up", "-V"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(told.ends_with(&version), "{arguments:?}: {told}");
    }
}

#[test]
fn the_server_says_which_memcached_it_stands_in_for() {
    let told = |arguments: &[&str]| {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let ours = told(&["server", "-V"]);
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!("evenkeel server {version} (memcached 1.6.");
    assert!(ours.starts_with(&expected), "{ours}");
    let theirs = told(&["server", "--compat", "--version"]);
    let number = theirs
        .strip_prefix("memcached 1.6.")
        .expect("memcached's words");
    assert!(number.trim_end().parse::<u32>().is_ok(), "{theirs}");
    assert!(told(&["server", "-i"]).contains("Apache License"));
}

#[test]
fn nothing_at_all_gets_the_list_of_commands() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr);
    for command in ["server", "proxy", "coordinator", "up", "bench"] {
        assert!(told.contains(command), "{command}: {told}");
    }
    assert_eq!(run(&["--help"]).status.code(), Some(0));
}

#[test]
fn addresses_are_written_in_one_way() {
    let own = "127.0.0.1:9150 for this machine";
    for admin in ["9150", ":9150"] {
        refused(&["server", "-u", "root", "--admin", admin], &[own]);
        refused(&["proxy", "-s", "h:1", "--admin", admin], &[own]);
    }
    for (command, words) in [
        (&["proxy", "-s", "h:1", "-l", "22121"][..], "HOST:22121"),
        (
            &["coordinator", "--listen", "127.0.0.1"],
            "such as 127.0.0.1:11210",
        ),
        (&["top", "22121", "--once"], "HOST:22121"),
        (&["bench", "run", "--target", ":1"], "HOST or HOST:PORT"),
        (
            &["server", "-u", "root", "-m", "1gb"],
            "megabytes, as in 1024",
        ),
    ] {
        refused(command, &[words]);
    }
}

#[test]
fn the_version_is_a_command_too() {
    let of = |argument| String::from_utf8_lossy(&run(&[argument]).stdout).into_owned();
    assert_eq!(of("version"), of("--version"));
    assert!(of("version").starts_with("evenkeel "), "{}", of("version"));
}

/// As `| head` does that has seen enough.
#[test]
fn a_closed_pipe_ends_quietly() {
    for arguments in [&["--help"][..], &["experiment", "list"], &["version"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .args(arguments)
            .stdout(writer)
            .output()
            .expect("the program was built for this test");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {told}");
        assert_eq!(told, "", "{arguments:?}");
    }
}
