//! Settings from flags, the environment and files.

use evenkeel_testkit::{Client, evenkeel};

#[test]
fn flags_win_over_the_environment_which_wins_over_files() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (toml, conf) = (dir.path().join("e.toml"), dir.path().join("memcached.conf"));
    std::fs::write(
        &toml,
        "memory_limit = 71\nconn_limit = 72\nthreads = 3\nextended = [\"idle_timeout=73\"]\n",
    )
    .expect("written");
    std::fs::write(
        &conf,
        "# Debian's form\n-d\nlogfile /var/log/memcached.log\n-m 81\n-c 82\n-t 4\n-I 2m\n-R 84\n\
         -o no_maxconns_fast,idle_timeout=83\n",
    )
    .expect("written");
    let server = evenkeel::command("server")
        .args([
            "-u",
            "root",
            "-p",
            "0",
            "-l",
            "127.0.0.1",
            "-m",
            "61",
            "--config",
        ])
        .arg(&toml)
        .arg("--from-memcached-conf")
        .arg(&conf)
        .env("EVENKEEL_THREADS", "2")
        .ready_prefix("evenkeel server listening on ")
        .spawn();
    let settings = Client::connect(server.address()).stats("settings");
    for (name, value) in [
        ("maxbytes", (61 << 20).to_string()),     // flag
        ("num_threads", "2".to_owned()),          // environment
        ("maxconns", "72".to_owned()),            // --config
        ("idle_timeout", "73".to_owned()),        // --config
        ("item_size_max", (2 << 20).to_string()), // memcached's file
        ("reqs_per_event", "84".to_owned()),      // memcached's file
        ("maxconns_fast", "no".to_owned()),       // memcached's file, beside --config's -o
    ] {
        assert_eq!(settings[name], value, "{name}");
    }
    server.await_stderr("memcached.conf:2: -d");
}

#[test]
fn a_file_that_cannot_be_used_stops_the_start_and_is_named() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let toml = dir.path().join("e.toml");
    std::fs::write(&toml, "port = 0\nmemory_limt = 5\n").expect("written");
    let path = toml.to_str().expect("text");
    let output = evenkeel::run(&["server", "-u", "root", "--config", path]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr);
    for word in ["e.toml:2: ", "memory_limt", "did you mean memory_limit?"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    let missing = evenkeel::run(&["server", "--from-memcached-conf", "/nonexistent/m.conf"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/nonexistent/m.conf"));
}

/// memcached 1.6.45's flags, with a value where they take one.
const MEMCACHED_FLAGS: &[&[&str]] = &[
    &["-p", "1"],
    &["--port", "1"],
    &["-U", "0"],
    &["--udp-port", "0"],
    &["-s", "x"],
    &["--unix-socket", "x"],
    &["-a", "700"],
    &["--unix-mask", "700"],
    &["-A"],
    &["--enable-shutdown"],
    &["-l", "127.0.0.1"],
    &["--listen", "127.0.0.1"],
    &["-d"],
    &["--daemon"],
    &["-u", "x"],
    &["--user", "x"],
    &["-m", "64"],
    &["--memory-limit", "64"],
    &["-M"],
    &["--disable-evictions"],
    &["-c", "5"],
    &["--conn-limit", "5"],
    &["-k"],
    &["--lock-memory"],
    &["-v"],
    &["--verbose"],
    &["-vv"],
    &["-vvv"],
    &["-P", "x"],
    &["--pidfile", "x"],
    &["-t", "4"],
    &["--threads", "4"],
    &["-R", "20"],
    &["--max-reqs-per-event", "20"],
    &["-C"],
    &["--disable-cas"],
    &["-b", "1024"],
    &["--listen-backlog", "1024"],
    &["-B", "auto"],
    &["--protocol", "auto"],
    &["-I", "1m"],
    &["--max-item-size", "1m"],
    &["-S"],
    &["--enable-sasl"],
    &["-F"],
    &["--disable-flush-all"],
    &["-X"],
    &["--disable-dumping"],
    &["-W"],
    &["--disable-watch"],
    &["-Y", "x"],
    &["--auth-file", "x"],
    &["-Z"],
    &["--enable-ssl"],
    &["-D", ":"],
    &["-L"],
    &["--enable-largepages"],
    &["-f", "1.25"],
    &["--slab-growth-factor", "1.25"],
    &["-n", "48"],
    &["--slab-min-size", "48"],
    &["-N", "1"],
    &["--napi-ids", "1"],
    &["-r"],
    &["--enable-coredumps"],
    &["-e", "x"],
    &["--memory-file", "x"],
    &["-o", "modern"],
    &["--extended", "modern"],
    &["-i"],
    &["--license"],
];

#[test]
fn every_flag_of_memcached_is_taken() {
    for flag in MEMCACHED_FLAGS {
        // The version is told before anything is done, once the command line is understood.
        let words: Vec<&str> = ["server", "-V"].iter().chain(*flag).copied().collect();
        let output = evenkeel::run(&words);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{flag:?}: {told}");
    }
}
