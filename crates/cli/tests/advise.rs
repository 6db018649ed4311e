//! A new user's way over real processes: profile a plain pool, read the report, ask for advice.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use evenkeel_bench::{Path as Way, Relay, Route, Target};
use evenkeel_testkit::{Client, EXIT_DEADLINE, Memcached, Process, Signal, evenkeel};
use serde_json::Value;

const RACKS: usize = 3;
const SESSIONS: usize = 6;
const PAGES: usize = 4;

/// Keys of a page: this many of its own session, and this many that all sessions use.
const OWN: usize = 3;
const SHARED: usize = 1;

/// Round trips within the proxy's rack and to another.
const NEAR: Duration = Duration::from_millis(1);
const FAR: Duration = Duration::from_millis(3);

/// A proxy in the first rack, whose memcacheds stand in all racks.
struct Site {
    proxy: Process,
    _relay: Relay,
    _memcacheds: Vec<Memcached>,
}

fn start(folder: &Path) -> Site {
    let memcacheds: Vec<Memcached> = (0..RACKS).map(|_| Memcached::spawn(&[])).collect();
    let route = |(rack, memcached): (usize, &Memcached)| Route {
        listen: ([127, 0, 0, 1], 0).into(),
        to: Target::from(memcached.address()),
        path: Way {
            delay: if rack == 0 { NEAR } else { FAR } / 2,
            ..Way::default()
        },
    };
    let relay =
        Relay::start(memcacheds.iter().enumerate().map(route).collect(), 0).expect("a relay");
    let servers = relay.addresses.iter().enumerate();
    let servers = servers.map(|(rack, at)| format!("{{ address = \"{at}\", rack = \"r{rack}\" }}"));
    let servers: Vec<String> = servers.collect();
    let racks: String = (0..RACKS)
        .map(|rack| format!("[topology.racks.r{rack}]\n"))
        .collect();
    let text = format!(
        "{racks}[proxy]\nrack = \"r0\"\nprofile = \"main.profile\"\nprofile_full = true\nprofile_key = \"page\"\n\
         [pools.main]\nservers = [{}]\nrequest_timeout = \"50s\"\nconnect_timeout = \"30s\"\n",
        servers.join(", ")
    );
    let path = folder.join("proxy.toml");
    fs::write(&path, text).expect("room");
    Site {
        proxy: evenkeel::proxy(&["--config", path.to_str().expect("UTF-8")]),
        _relay: relay,
        _memcacheds: memcacheds,
    }
}

/// Each page reads its keys, and stores those that are not there.
fn browse(client: &mut Client) {
    for page in 0..PAGES {
        for session in 0..SESSIONS {
            assert!(
                client.get(&format!("page:{page}:s{session}")).is_none(),
                "a mark is a miss"
            );
            let own = (0..OWN).map(|n| format!("cart:{session}:{n}"));
            let shared = (0..SHARED).map(|n| format!("news:{n}"));
            for key in own.chain(shared) {
                if client.get(&key).is_none() {
                    assert_eq!(client.set(&key, &[b'v'; 800]), "STORED");
                }
            }
        }
    }
}

fn run(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(arguments)
        .output()
        .expect("the program was built for this test");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_pool_is_profiled_and_advice_comes_of_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut site = start(folder.path());
    browse(&mut Client::connect(site.proxy.address()));
    // What is recorded is written when it ends.
    site.proxy.signal(Signal::Terminate);
    assert!(site.proxy.wait(EXIT_DEADLINE).success());

    let profile = folder.path().join("main.profile").display().to_string();
    let report: Value =
        serde_json::from_str(&run(&["profile", "report", "--format", "json", &profile]))
            .expect("JSON");
    let whole = &report["sections"][0];
    let stores = SESSIONS * OWN + SHARED;
    let gets = PAGES * SESSIONS * (OWN + SHARED);
    assert_eq!(whole["commands"], stores + gets, "marks are not recorded");
    assert_eq!(
        (&whole["pages"], &whole["sessions"]),
        (&(PAGES * SESSIONS).into(), &SESSIONS.into())
    );
    let figure = |name: &str| whole[name]["value"].as_f64().expect(name);
    // Of the keys of sessions all commands, of those of all none.
    let own = SESSIONS * OWN + PAGES * SESSIONS * OWN;
    let ps = own as f64 / (stores + gets) as f64;
    assert!(
        (figure("ps") - ps).abs() < 1e-9,
        "{} and not {ps}",
        figure("ps")
    );
    assert!((figure("rw_cmd") - gets as f64 / (stores + gets) as f64).abs() < 1e-9);
    // A path may only be slower than it is.
    let distances = whole["distances"].as_array().expect("distances");
    let medians = distances
        .iter()
        .map(|at| (at["switches"].as_u64(), at["median_ms"].as_f64()));
    for ((switches, median), (expected, least)) in medians.zip([(1, NEAR), (3, FAR)]) {
        assert_eq!(switches, Some(expected));
        assert!(
            median.expect("a number") >= least.as_secs_f64() * 1e3,
            "{switches:?}"
        );
    }

    let plots = folder.path().join("plots").display().to_string();
    let text = run(&["advise", "--profile", &profile, "--plots", &plots]);
    let given = [
        "--distances",
        "1,2,3",
        "--objective",
        "mixed",
        "--format",
        "json",
    ];
    let words = ["advise", "--profile", &profile]
        .iter()
        .chain(&given)
        .copied()
        .collect::<Vec<_>>();
    let advised: Value = serde_json::from_str(&run(&words)).expect("JSON");
    for name in ["sdc", "sds", "sdr", "snoop", "dir", "no change"] {
        assert!(text.contains(name), "{name} in {text}");
    }
    let made = fs::read_dir(&plots).expect("they were made").count();
    assert_eq!(made, 4, "{text}");
    assert_eq!(advised["today"]["architecture"], "sds");
    assert_eq!(advised["inputs"]["distances"]["central"], 2.0);
    let rows = advised["advice"]["rows"].as_array().expect("rows");
    // Three racks: two thirds of what is sent leaves its rack.
    let bytes = |row: usize| {
        rows[row]["central_bytes"]["value"]
            .as_f64()
            .expect("a number")
    };
    assert!((bytes(1) / bytes(0) - 2.0 / 3.0).abs() < 1e-9, "{rows:?}");
}

#[test]
fn what_advice_cannot_go_by_is_told_with_exit_code_2() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("no.profile");
    fs::write(&path, "{\"time\":1}\n").expect("room");
    let path = path.display().to_string();
    let fails = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .args(arguments)
            .output()
            .expect("the program was built for this test");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    let error = fails(&["advise", "--profile", &path]);
    assert!(error.contains("no profile"), "{error}");
    let error = fails(&["advise", "--profile", "/no/such/file"]);
    assert!(error.contains("/no/such/file"), "{error}");
    let error = fails(&["advise", "--profile", &path, "--distances", "1,2"]);
    assert!(error.contains("OWN,CENTRAL,OTHER"), "{error}");
}
