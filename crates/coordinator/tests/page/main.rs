//! The web page: that what is checked in is what its sources make, and what a real browser sees of a real cluster.

mod fleet;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_coordinator_core::plans::{PlanMode, PlanSettings, PlanState};
use evenkeel_member::client::ApiClient;
use evenkeel_testkit::page::is_to_be_written;
use evenkeel_testkit::{Client, Cluster, ClusterOptions, Memcached, evenkeel, http, poll_until};

/// The key that most of the load asks for.
const HOT_KEY: &str = "celebrity";

/// Until a demo has been seen for as long as the pictures show, on a busy machine.
const DEMO_DEADLINE: Duration = Duration::from_secs(600);

/// Seconds that the pictures show.
const PICTURED_COLUMNS: usize = 240;

/// Servers of a cluster that has as many cachelets as there may be, so that the one that much is asked of stands out.
const SOME_SERVERS: u16 = 64;

/// Until members have joined and a plan was made of their loads, on a busy machine.
const PLAN_DEADLINE: Duration = Duration::from_secs(120);

/// Servers of a large cluster.
const LARGE_SERVERS: u16 = 1_000;

/// Keys beside it.
const KEYS: usize = 200;

/// Memcacheds behind a proxy.
const PROXIED: usize = 5;

/// Of this many requests one is for another key than the hot one.
const COLD_ONE_OF: usize = 3;

fn web() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web")
}

/// Where npm has noted what it has installed.
fn is_installed() -> bool {
    let installed = web().join("node_modules/.package-lock.json");
    installed.is_file()
}

/// Runs Node.js in `web/` to its end, and gives what it says.
///
/// # Panics
/// When that fails, or Node.js or what it needs is missing.
fn node(arguments: &[&str]) -> String {
    assert!(
        is_installed(),
        "web/node_modules is missing: run scripts/test-deps.sh"
    );
    let ran = Command::new("node")
        .args(arguments)
        .current_dir(web())
        .output();
    let ran =
        ran.expect("node is missing: install the package nodejs, or run scripts/test-deps.sh");
    assert!(
        ran.status.success(),
        "node {arguments:?}:\n{}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// Looks with the browser, which has to be there.
fn look(arguments: &[&str]) -> String {
    assert!(
        Path::new("/usr/bin/chromium").is_file(),
        "chromium is missing: install the package chromium, or run scripts/test-deps.sh"
    );
    node(&[&["browser/look.mjs"], arguments].concat())
}

#[test]
fn what_is_checked_in_is_what_the_sources_make() {
    node(&["node_modules/typescript/bin/tsc", "--noEmit"]);
    node(&["build.mjs", "--tests"]);
    node(&["--test", "target/"]);
    let made = tempfile::tempdir().expect("a temporary folder");
    let folder = made.path().to_str().expect("UTF-8");
    node(&["build.mjs", "--out", folder]);
    let names = |folder: &Path| {
        let entries = std::fs::read_dir(folder).expect("a folder");
        let mut names: Vec<_> = entries
            .map(|it| it.expect("an entry").file_name())
            .collect();
        names.sort();
        names
    };
    let kept = web().join("dist");
    assert_eq!(names(made.path()), names(&kept));
    for name in names(&kept) {
        let read = |folder: &Path| std::fs::read(folder.join(&name)).expect("a file");
        assert!(
            read(made.path()) == read(&kept),
            "web/dist/{} is out of date: `npm run build` in web/ makes it anew",
            name.display()
        );
    }
    let lock = std::fs::read_to_string(web().join("package-lock.json")).expect("a file");
    assert!(!lock.contains("\"resolved\""), "where packages came from");
}

#[test]
fn a_browser_sees_the_hot_key_its_home_and_its_copies() {
    let cluster = Cluster::start(
        ClusterOptions {
            threads: 1,
            ..ClusterOptions::nobody_dies()
        }
        .with_settings(r#"{"hot_trigger_rps": 50, "hot_sampling": 100}"#),
    );
    while_a_key_is_hot(cluster.proxy_client(), || {
        let url = format!("{}/", cluster.coordinator_url());
        look(&[&url, HOT_KEY]);
    });
}

/// Stores keys, and does something while this client asks for one of them most of the time.
fn while_a_key_is_hot(mut client: Client, does: impl FnOnce()) {
    let keys: Vec<String> = (0..KEYS).map(|n| format!("user:{n}")).collect();
    for key in keys.iter().map(String::as_str).chain([HOT_KEY]) {
        assert_eq!(client.set(key, &[b'v'; 100]), "STORED");
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = SetOnDrop(&is_over);
        scope.spawn(|| {
            for n in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let key = match n % COLD_ONE_OF {
                    0 => &keys[n / COLD_ONE_OF % KEYS],
                    _ => HOT_KEY,
                };
                assert!(client.get(key).is_some(), "{key}");
            }
        });
        does();
    });
}

/// Two of three requests are for one key, before memcacheds behind a proxy; the page is looked at once its history has this many seconds.
fn look_at_a_proxy(seconds: usize, more: &[&str]) {
    let servers: Vec<Memcached> = (0..PROXIED).map(|_| Memcached::spawn(&[])).collect();
    let addresses = servers.iter().map(|server| server.address().to_string());
    let addresses = addresses.collect::<Vec<_>>().join(",");
    let proxy = evenkeel::proxy(&["-s", &addresses, "--admin", "127.0.0.1:0"]);
    let said = proxy.await_stderr("the page is at http://");
    let (_, url) = said.split_once("the page is at ").expect("where");
    let url = url.lines().next().expect("an address");
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let address: SocketAddr = address.parse().expect("an address");
    while_a_key_is_hot(Client::connect(proxy.address()), || {
        poll_until(DEMO_DEADLINE, "a map of some seconds", || {
            let answer = http::get(address, "/api/v1/heat?columns=300").ok()?;
            let heat: serde_json::Value = serde_json::from_str(&answer.1).ok()?;
            (heat["columns"].as_array()?.len() >= seconds).then_some(())
        });
        look(&[&["--proxy", url, HOT_KEY], more].concat());
    });
}

#[test]
fn a_browser_sees_the_servers_of_a_proxy_and_its_hottest_key() {
    look_at_a_proxy(2, &[]);
}

/// With `EVENKEEL_WRITE_DOCS=1` the picture of docs/page.md is made anew.
#[test]
#[ignore = "nightly: minutes of load"]
fn a_browser_sees_a_proxy_for_minutes() {
    let pictures = web().join("../docs/pictures").display().to_string();
    match is_to_be_written() {
        true => look_at_a_proxy(PICTURED_COLUMNS, &[&pictures]),
        false => look_at_a_proxy(PICTURED_COLUMNS, &[]),
    }
}

#[test]
fn a_plan_is_approved_in_a_browser() {
    let servers = SOME_SERVERS.to_string();
    let coordinator = evenkeel::coordinator(&["--initial-servers", &servers]);
    let address = coordinator.address();
    let client = ApiClient::new(&address.to_string()).expect("an address");
    let client = client.with_timeout(PLAN_DEADLINE);
    let settings = PlanSettings {
        mode: PlanMode::Approve,
        ..client.plan_settings().expect("it answers")
    };
    client.put_plan_settings(settings).expect("it may be set");
    let _fleet = fleet::start(address, SOME_SERVERS, |_| {});
    let proposed = poll_until(PLAN_DEADLINE, "a plan", || {
        let newest = client.plans(1).ok()?.plans.pop()?;
        (newest.state == PlanState::Proposed).then_some(newest.id)
    });
    let url = format!("http://{address}/");
    look(&["--approve", &proposed.to_string(), &url]);
    let plan = client.plan(proposed).expect("it is known");
    assert_ne!(plan.state, PlanState::Proposed);
}

/// With `EVENKEEL_WRITE_DOCS=1` the pictures of docs/page.md are made anew.
#[test]
#[ignore = "nightly: minutes of the demo"]
fn a_browser_sees_the_demo() {
    let up = evenkeel::command("up")
        .args(["--demo", "--off-seconds", "120", "--on-seconds", "600"])
        .spawn();
    let found = |text: &str| {
        let told = up.stdout_text();
        let (_, rest) = told.split_once(text)?;
        Some(rest.lines().next()?.to_owned())
    };
    let page = poll_until(DEMO_DEADLINE, "where the page is", || found("see it at "));
    let address = page.trim_start_matches("http://").trim_end_matches('/');
    let address: SocketAddr = address.parse().expect("an address");
    let columns = || {
        let answer = http::get(address, "/api/v1/heat?columns=300").ok()?;
        let heat: serde_json::Value = serde_json::from_str(&answer.1).ok()?;
        Some(heat["columns"].as_array()?.len())
    };
    poll_until(DEMO_DEADLINE, "a map of some minutes", || {
        (columns()? >= PICTURED_COLUMNS).then_some(())
    });
    let (_, keys) = http::get(address, "/api/v1/hotkeys").expect("an answer");
    let keys: serde_json::Value = serde_json::from_str(&keys).expect("JSON");
    let hottest = keys["keys"][0]["key"].as_str().expect("a hot key");
    let pictures = web().join("../docs/pictures").display().to_string();
    match is_to_be_written() {
        true => look(&[&page, hottest, &pictures]),
        false => look(&[&page, hottest]),
    };
}

/// What it costs is printed, with `--nocapture`.
#[test]
#[ignore = "nightly: a coordinator of a thousand servers"]
fn a_browser_sees_a_thousand_servers_of_sixteen_workers() {
    let servers = LARGE_SERVERS.to_string();
    // A busy machine may hold members up.
    let arguments = ["--initial-servers", &servers, "--silent-ms", "12000"];
    let coordinator = evenkeel::coordinator(&arguments);
    let address = coordinator.address();
    let servers_up = || {
        let (_, servers) = http::get(address, "/api/v1/servers").ok()?;
        let servers: serde_json::Value = serde_json::from_str(&servers).ok()?;
        Some(servers["servers"].as_array()?.len())
    };
    let _fleet = fleet::start(address, LARGE_SERVERS, |wanted| {
        poll_until(DEMO_DEADLINE, "the servers so far", || {
            (servers_up()? >= wanted).then_some(())
        });
    });
    poll_until(DEMO_DEADLINE, "a column with a worker of each", || {
        let answer = http::get(address, "/api/v1/heat?columns=1").ok()?;
        let heat: serde_json::Value = serde_json::from_str(&answer.1).ok()?;
        let told = heat["columns"][0]["workers"].as_array()?;
        (told.len() == usize::from(LARGE_SERVERS)).then_some(())
    });
    let url = format!("http://{address}/");
    let workers = (LARGE_SERVERS * fleet::WORKERS).to_string();
    println!("{}", look(&["--large", &url, &servers, &workers]));
}

/// Ends the load, also where the browser has found something wrong.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_browser_is_asked_for_a_token_before_it_is_shown_anything() {
    const TOKEN: &str = "operator-0123456789";
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("tokens");
    std::fs::write(&file, TOKEN).expect("the folder is there");
    let coordinator = evenkeel::coordinator(&["--api-token-file", file.to_str().expect("UTF-8")]);
    look(&[
        "--token",
        TOKEN,
        &format!("http://{}/", coordinator.address()),
    ]);
}
