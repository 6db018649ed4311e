//! Servers of a ring of memcacheds, and of a cluster, come and go by themselves: real processes, a proxy, and a coordinator that is killed while
//! one starts and while one leaves.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::DerefMut;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_testkit::{
    Client, ClusterOptions, Memcached, Process, Signal, evenkeel, http, poll_until,
};
use serde_json::Value;

/// Longer than two tries to add a server: a busy machine may keep requests waiting, so that the ring takes the first one back.
const DEADLINE: Duration = Duration::from_secs(180);

/// Requests per second and server that any machine passes.
const EXCEEDED: &str = "1..2";

/// Such that none comes near.
const NEVER: &str = "1e11..1e12";

/// The servers that a pool begins with, which nobody started for it.
const BY_HAND: usize = 2;

/// A server that waits for a file before it listens.
const SLOW_SERVER: &str = r#"#!/bin/sh
echo "$MEMCACHED_PORT_FILENAME" >> "$FOLDER/starts"
while [ ! -e "$FOLDER/go" ]; do sleep 0.02; done
exec $COMMAND "$@"
"#;

/// Keys that applications use.
const KEYS: usize = 500;

/// What is scaled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A pool of memcacheds, `main`.
    Ring,
    /// A cluster of servers of Evenkeel.
    Cluster,
}

struct World {
    folder: tempfile::TempDir,
    coordinator: Process,
    kind: Kind,
}

impl World {
    fn new(kind: Kind) -> World {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path();
        let url = path.join("url").display().to_string();
        let command = match kind {
            Kind::Ring => "memcached".to_owned(),
            Kind::Cluster => {
                let program = env!("CARGO_BIN_EXE_evenkeel");
                format!("{program} server --coordinator \"$(cat {url})\"")
            }
        };
        let program = script(path, &command);
        let name = match kind {
            Kind::Ring => "",
            Kind::Cluster => ", '--name', '{name}', '-m', '64', '--test-endless-lease'",
        };
        let scaler = format!(
            "[process]\nprogram = '{}'\narguments = ['-u', 'root', '-t', '1'{name}]\nfolder = '{}'\n",
            program.display(),
            path.join("servers").display()
        );
        fs::write(path.join("scaler.toml"), scaler).expect("room");
        let coordinator = coordinator(kind, path, "127.0.0.1:0");
        let world = World {
            folder,
            coordinator,
            kind,
        };
        fs::write(url, world.url()).expect("room");
        world
    }

    /// The name by which it is scaled.
    fn pool(&self) -> &'static str {
        match self.kind {
            Kind::Ring => "main",
            Kind::Cluster => "evenkeel",
        }
    }

    fn address(&self) -> SocketAddr {
        self.coordinator.address()
    }

    fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// It is killed, and another goes on from what it has saved.
    fn kill_coordinator(&mut self) {
        let address = self.address().to_string();
        self.coordinator.kill();
        self.coordinator = coordinator(self.kind, self.folder.path(), &address);
    }

    fn get(&self, path: &str) -> Option<Value> {
        let (_, body) = http::get(self.address(), path).ok()?;
        serde_json::from_str(&body).ok()
    }

    fn scale(&self) -> Option<Value> {
        self.get("/api/v1/scale")?["pools"].get(0).cloned()
    }

    fn wait_for(&self, phase: &str) {
        poll_until(DEADLINE, phase, || {
            (self.scale()?["phase"]["is"] == phase).then_some(())
        });
    }

    /// Whether nothing of the pool is at an address, or on its way there or away from there.
    fn has_left(&self, address: &str) -> bool {
        poll_until(DEADLINE, "the pool to be told", || {
            if self.kind == Kind::Cluster {
                let servers = self.get("/api/v1/servers")?;
                let at = |it: &&Value| format!("127.0.0.1:{}", it["port"]) == address;
                let server = servers["servers"].as_array()?.iter().find(at)?.clone();
                return Some(server["cachelets"] == 0 && server["released"] == 0);
            }
            let ring = self.get("/api/v1/rings")?["rings"].get(0).cloned()?;
            let change = &ring["change"];
            let mut servers = ring["servers"].as_array()?.iter();
            let share = servers.find(|it| it["name"] == address)?["share"].as_f64()?;
            Some(share == 0.0 && change["stage"] == "done" && change["goal"] == "done")
        })
    }

    /// How many servers the actuator has started. None twice.
    fn starts(&self) -> usize {
        let starts = fs::read_to_string(self.folder.path().join("starts"));
        let starts = starts.unwrap_or_default();
        let names: BTreeSet<&str> = starts.lines().collect();
        assert_eq!(names.len(), starts.lines().count(), "{starts}");
        names.len()
    }

    /// Where the one server is that the actuator runs.
    fn added(&self) -> Option<String> {
        let listed = self.get("/api/v1/scale")?["listed"].clone();
        let mut listed = listed.as_object()?.values();
        let address = listed.next()?.as_str()?.to_owned();
        listed.next().is_none().then_some(address)
    }

    fn evenkeel(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .args(arguments)
            .args(["--coordinator", &self.url()])
            .output()
            .expect("the program was built for this test");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for World {
    /// What it runs ends with a coordinator that is asked to end.
    fn drop(&mut self) {
        self.coordinator.signal(Signal::Terminate);
        let _ = self.coordinator.deref_mut().wait(DEADLINE);
    }
}

fn coordinator(kind: Kind, folder: &Path, address: &str) -> Process {
    let file = |name: &str| folder.join(name).display().to_string();
    let state = ["--state", &file("state"), "--scaler", &file("scaler.toml")];
    let servers = BY_HAND.to_string();
    let mut arguments = [&state[..], &["--initial-servers", &servers]].concat();
    // On a busy machine a server may not be heard for a while.
    let nobody_dies = ClusterOptions::nobody_dies();
    if kind == Kind::Cluster {
        let more = nobody_dies.coordinator_args.iter();
        arguments.extend(more.map(String::as_str));
    }
    evenkeel::coordinator_at(address, &arguments)
}

/// Another process writes it, as what is open for writing anywhere cannot be started.
fn script(folder: &Path, command: &str) -> PathBuf {
    let path = folder.join("slow-server");
    let text = SLOW_SERVER.replace("$FOLDER", &folder.display().to_string());
    let text = text.replace("$COMMAND", command);
    let written = Command::new("sh")
        .args(["-c", "printf '%s' \"$1\" > \"$0\" && chmod 755 \"$0\""])
        .arg(&path)
        .arg(text)
        .status();
    assert!(written.expect("a shell is there").success());
    path
}

fn is_there(address: &str) -> bool {
    TcpStream::connect(address).is_ok()
}

/// What applications saw.
#[derive(Debug, Default)]
struct Told {
    failed: usize,
    reads: usize,
    /// Reads of keys that had been stored, which found nothing.
    misses: usize,
}

/// Stores each key once, and then reads and stores them until it is told to stop.
fn load(proxy: SocketAddr, stop: &AtomicBool) -> Told {
    let mut client = Client::connect(proxy);
    let (mut told, mut n) = (Told::default(), 0);
    while !stop.load(Ordering::Relaxed) {
        let key = |n: usize| format!("key{}", n % KEYS);
        told.failed += usize::from(client.set(&key(n), b"value") != "STORED");
        n += 1;
        if n > KEYS {
            // The one that was stored the longest time ago.
            told.reads += 1;
            told.misses += usize::from(client.get(&key(n)).is_none());
        }
    }
    told
}

/// A server is added, and removed again when each could carry more than is asked. Each time the coordinator is killed in the middle.
fn come_and_go(world: &mut World) {
    let pool = world.pool();
    let mut settings = vec!["scale", "settings", pool, "--mode", "automatic"];
    settings.extend([
        "--min",
        "2",
        "--max",
        "3",
        "--requests-per-server",
        EXCEEDED,
    ]);
    let waits = [
        "--sustain-ms",
        "--cooldown-added-ms",
        "--cooldown-removed-ms",
    ];
    settings.extend(waits.iter().flat_map(|&wait| [wait, "0"]));
    world.evenkeel(&settings);
    world.wait_for("starting");
    poll_until(DEADLINE, "a server to be started", || {
        (world.starts() == 1).then_some(())
    });
    world.kill_coordinator();
    fs::write(world.folder.path().join("go"), "").expect("room");
    poll_until(DEADLINE, "three servers", || {
        (world.scale()?["servers"] == 3).then_some(())
    });
    let address = &poll_until(DEADLINE, "its address", || world.added());
    world.evenkeel(&["scale", "settings", pool, "--requests-per-server", NEVER]);
    world.wait_for("draining");
    world.kill_coordinator();
    poll_until(DEADLINE, "the server to be stopped", || {
        if is_there(address) {
            return None;
        }
        // It was not stopped before the ring had let go of it.
        assert!(world.has_left(address));
        Some(())
    });
    poll_until(DEADLINE, "the change to be over", || {
        let phase = &world.scale()?["phase"]["is"];
        (phase == "cooling" || phase == "steady").then_some(())
    });
}

/// Ends the load when it is dropped, by a failure too: nobody waits for it for ever.
struct EndsLoad<'a>(&'a AtomicBool);

impl Drop for EndsLoad<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// All that comes and goes under load, through this proxy.
fn come_and_go_under_load(world: &mut World, proxied: SocketAddr) -> Told {
    let stop = AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(proxied, &stop));
        let ends = EndsLoad(&stop);
        come_and_go(world);
        drop(ends);
        loading.join().expect("it only asks")
    });
    assert_eq!(told.failed, 0, "requests failed");
    let pool = world.pool();
    let view = world.get("/api/v1/scale").expect("it answers");
    assert_eq!(view["listed"], serde_json::json!({}), "{view}");
    assert_eq!(view["pools"][0]["servers"], BY_HAND);
    world.starts();
    let shown = world.evenkeel(&["scale", "show", pool]);
    assert!(
        shown.contains(&format!("pool {pool}: 2 servers, 2 wanted (2 to 3)")),
        "{shown}"
    );
    let events = world.evenkeel(&["scale", "events"]);
    assert!(events.contains(&format!("stopping {pool}-")), "{events}");
    told
}

#[test]
fn a_server_comes_and_goes_under_load_though_the_coordinator_is_killed_meanwhile() {
    let servers: Vec<Memcached> = (0..BY_HAND)
        .map(|_| Memcached::spawn(&["-t", "1"]))
        .collect();
    let mut world = World::new(Kind::Ring);
    let names: Vec<String> = servers.iter().map(|it| it.address().to_string()).collect();
    let file = world.folder.path().join("proxy.toml");
    let text = format!(
        "[proxy]\nname = \"p1\"\n[pools.main]\nservers = [\"{}\"]\ndistribution = \"adaptive\"\n\
         request_timeout = \"30s\"\nconnect_timeout = \"30s\"\npool_coordinator = \"{}\"\n",
        names.join("\", \""),
        world.url()
    );
    fs::write(&file, text).expect("room");
    let proxy = evenkeel::proxy(&["--config", &file.display().to_string()]);
    let one = ["ring", "settings", "main", "--proxies", "1"];
    let short = ["--slot-ms", "1000", "--warming-ms", "0"];
    world.evenkeel(&[&one[..], &short].concat());
    come_and_go_under_load(&mut world, proxy.address());
    let try_more = ["scale", "try", "main", "--requests-per-server", EXCEEDED];
    let told = world.evenkeel(&[&try_more[..], &["--min", "3"]].concat());
    assert!(told.contains("would add servers, by 1"), "{told}");
}

#[test]
fn a_server_of_a_cluster_comes_and_goes_with_what_it_has() {
    let mut world = World::new(Kind::Cluster);
    let url = world.url();
    let arguments = [
        "-t",
        "1",
        "-m",
        "64",
        "--test-endless-lease",
        "--coordinator",
        &url,
    ];
    let servers = (0..BY_HAND).map(|_| evenkeel::server(&arguments));
    let _servers: Vec<Process> = servers.collect();
    let long = evenkeel::LONG_TIMEOUTS;
    let proxy = evenkeel::proxy(&[&["--coordinator", &url][..], &long].concat());
    poll_until(DEADLINE, "a map", || {
        let mut client = Client::connect(proxy.address());
        (client.set("begun", b"") == "STORED").then_some(())
    });
    let told = come_and_go_under_load(&mut world, proxy.address());
    // Cachelets pass on with what is in them.
    assert!(told.reads > KEYS && told.misses == 0, "{told:?}");
}

/// A StatefulSet with a pod that autoscaling has added, and one more.
const STATEFUL_SET: &str = r#"{
    "metadata": {"name": "cache", "resourceVersion": "7", "annotations": {"evenkeel/servers": "{\"main-4\": 0}"}},
    "spec": {"replicas": 2, "serviceName": "memcacheds"}
}"#;

/// An API server of Kubernetes that knows one StatefulSet. It ends with the tests.
fn api_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let asked = BufReader::new(&stream).lines().map_while(Result::ok);
            let asked: Vec<String> = asked.take_while(|line| !line.is_empty()).collect();
            let path = "/apis/apps/v1/namespaces/caches/statefulsets/cache";
            let (status, said) = match asked[0] == format!("GET {path} HTTP/1.1") {
                true => (200, STATEFUL_SET),
                false => (404, "{}"),
            };
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}", said.len());
            let answer = format!("{head}\r\nconnection: close\r\n\r\n{said}");
            // A caller may be gone.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn pods_with_a_name_are_what_the_actuator_for_kubernetes_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let scaler = format!(
        "[kubernetes]\nstateful_set = 'cache'\nnamespace = 'caches'\napi = 'http://{}'\n",
        api_server()
    );
    fs::write(folder.path().join("scaler.toml"), scaler).expect("room");
    let coordinator = coordinator(Kind::Ring, folder.path(), "127.0.0.1:0");
    let listed = poll_until(DEADLINE, "what runs", || {
        let (_, body) = http::get(coordinator.address(), "/api/v1/scale").ok()?;
        let view: Value = serde_json::from_str(&body).ok()?;
        view.get("listed").cloned()
    });
    let address = "cache-0.memcacheds.caches.svc:11211";
    assert_eq!(listed, serde_json::json!({ "main-4": address }));
}
