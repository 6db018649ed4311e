//! A new user's way: a plain pool is profiled, advice is asked for, and the architecture that is advised takes the pool's place while it serves.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_testkit::{
    Client, EXIT_DEADLINE, Memcached, Process, Signal, evenkeel, http, poll_until,
};
use serde_json::Value;

const DEADLINE: Duration = Duration::from_secs(120);

const RACKS: usize = 2;
const SESSIONS: usize = 4;
const PAGES: usize = 50;

/// So few that bringing them is less than 0.1 % of the reads of a window.
const KEYS: usize = 2 * SESSIONS;

/// A pool whose memcacheds stand in all racks, with a proxy in each.
struct Site {
    folder: tempfile::TempDir,
    coordinator: Process,
    proxies: Vec<Process>,
    _memcacheds: Vec<Memcached>,
}

impl Site {
    fn start() -> Site {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let memcacheds: Vec<Memcached> =
            (0..RACKS).map(|_| Memcached::spawn(&["-t", "1"])).collect();
        let servers = memcacheds.iter().enumerate();
        let servers = servers
            .map(|(rack, it)| format!("{{ address = \"{}\", rack = \"r{rack}\" }}", it.address()));
        let servers: Vec<String> = servers.collect();
        let racks: String = (0..RACKS)
            .map(|rack| format!("[topology.racks.r{rack}]\n"))
            .collect();
        let text = format!(
            "{racks}[proxy]\n# One in each rack.\nthreads = 1\nprofile_key = \"page\"\n[pools.main]\nservers = [{}]\n\
             architecture = \"sds\"\nrequest_timeout = \"50s\"\nconnect_timeout = \"30s\"\n",
            servers.join(", ")
        );
        fs::write(folder.path().join("proxy.toml"), text).expect("room");
        // It keeps its state in memory: where a disk takes long, requests would wait for too long, and the switch would begin again and again.
        let coordinator = evenkeel::coordinator(&[]);
        Site {
            folder,
            coordinator,
            proxies: Vec::new(),
            _memcacheds: memcacheds,
        }
    }

    /// A proxy in each rack, with these options and a profile where one is wanted.
    fn start_proxies(&mut self, is_profiled: bool) {
        let config = self.path("proxy.toml").display().to_string();
        let proxies = (0..RACKS).map(|rack| {
            let name = format!("r{rack}");
            let profile = self.profile(rack);
            let mut arguments = vec!["--config", &config, "--name", &name, "--rack", &name];
            if is_profiled {
                arguments.extend(["--profile", &profile, "--profile-full"]);
            }
            evenkeel::proxy(&arguments)
        });
        self.proxies = proxies.collect();
    }

    fn profile(&self, rack: usize) -> String {
        self.path(&format!("r{rack}.profile")).display().to_string()
    }

    /// The proxies end in good order, by which they write what they have recorded.
    fn end_proxies(&mut self) {
        for proxy in &mut self.proxies {
            proxy.signal(Signal::Terminate);
            assert!(proxy.wait(EXIT_DEADLINE).success());
        }
    }

    /// What the proxies say of requests to racks: of their own, and of all.
    fn requests(&self) -> (u64, u64) {
        let mut sums = (0, 0);
        for (rack, proxy) in self.proxies.iter().enumerate() {
            let stats = Client::connect(proxy.address()).stats("locality");
            for (name, value) in stats.iter().filter(|(name, _)| name.ends_with(":requests")) {
                let requests: u64 = value.parse().expect("a number");
                sums.1 += requests;
                let is_own = name.contains(&format!("r{rack}:"));
                sums.0 += if is_own { requests } else { 0 };
            }
        }
        sums
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        let coordinator = format!("http://{}", self.coordinator.address());
        let arguments = ["locality"].iter().chain(arguments);
        command
            .args(arguments)
            .arg("--config")
            .arg(self.path("proxy.toml"));
        command.args(["--coordinator", &coordinator]);
        command
    }

    /// What the command prints. It has to succeed.
    fn locality(&self, arguments: &[&str]) -> String {
        run(&mut self.command(arguments))
    }

    fn stage(&self, pool: &str) -> Option<String> {
        let (_, body) = http::get(self.coordinator.address(), "/api/v1/changes").ok()?;
        let changes: Value = serde_json::from_str(&body).ok()?;
        let mut changes = changes["changes"].as_array()?.iter();
        let change = changes.find(|it| it["pool"] == *pool)?;
        Some(change["stage"].as_str()?.to_owned())
    }
}

/// Sessions of a rack read what is theirs, and store what is not there.
fn browse(client: &mut Client, rack: usize) {
    for session in 0..SESSIONS / RACKS {
        let page = format!("page:cart:s{rack}x{session}");
        assert!(client.get(&page).is_none(), "a mark is a miss");
        for n in 0..KEYS / SESSIONS {
            let key = format!("cart:{rack}:{session}:{n}");
            if client.get(&key).is_none() {
                assert_eq!(client.set(&key, &[b'v'; 500]), "STORED");
            }
        }
    }
}

/// A command that runs until the test is over at the latest.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .expect("the program was built for this test");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// A plain pool is profiled. Gives the advice.
fn advice(site: &mut Site) -> Value {
    site.start_proxies(true);
    for rack in 0..RACKS {
        let mut client = Client::connect(site.proxies[rack].address());
        (0..PAGES).for_each(|_| browse(&mut client, rack));
    }
    site.end_proxies();
    let profiles: Vec<String> = (0..RACKS).map(|rack| site.profile(rack)).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    let network = ["--objective", "network", "--distances", "0.5,-,3"];
    command
        .arg("advise")
        .args(network)
        .args(["--format", "json"]);
    let said = run(command.arg("--profile").args(&profiles));
    serde_json::from_str(&said).expect("JSON")
}

#[test]
fn what_is_advised_takes_the_place_of_a_plain_pool() {
    let mut site = Site::start();
    let advised = advice(&mut site);
    assert_eq!(advised["advice"]["choice"], "snoop", "{advised}");
    let command = advised["command"].as_str().expect("a command");
    assert!(
        command.starts_with("evenkeel locality switch main --to snoop"),
        "{command}"
    );
    site.start_proxies(false);
    let site = site;
    let config = site.path("proxy.toml");
    let file = || fs::read_to_string(&config).expect("it is there");
    let plain = file();

    // Nothing is done where something is not right.
    let switch = ["switch", "main", "--to", "snoop", "--proxies", "2"];
    let said = site.locality(&[&switch[..], &["--dry-run"]].concat());
    assert!(
        said.contains("[pools.main-g1]") && said.contains("Nothing has been done"),
        "{said}"
    );
    let same = site.locality(&["switch", "main", "--to", "sds", "--proxies", "2"]);
    assert_eq!(same, "pool main serves alone: sds\n");
    for (arguments, words) in [
        (&["switch", "main", "--to", "dir"][..], "needs a directory"),
        (
            &["switch", "other", "--to", "dir"],
            "the file has no pool \"other\"",
        ),
        (&["withdraw", "main"], "pool main is not being switched"),
    ] {
        let output = site
            .command(&[arguments, &["--proxies", "2"]].concat())
            .output();
        let output = output.expect("the program was built for this test");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    assert_eq!(file(), plain);

    // A third proxy is awaited in vain, and the switch taken back.
    let mut waits = site.command(&["switch", "main", "--to", "snoop", "--proxies", "3"]);
    let waits = Running(waits.stderr(Stdio::null()).spawn().expect("it was built"));
    poll_until(DEADLINE, "both proxies to follow", || {
        (site.stage("main-g1")? == "former").then_some(())
    });
    drop(waits);
    let said = site.locality(&["withdraw", "main", "--proxies", "2"]);
    assert_eq!(said, "pool main serves alone: sds\n");
    assert!(!file().contains("main-g1"), "{}", file());
    assert_eq!(site.stage("main-g1"), None);

    // Copies come to items that stay where they are.
    let copied = site.locality(&["switch", "main", "--to", "sdr", "--proxies", "2"]);
    assert_eq!(copied, "pool main serves alone: sdr\n");
    assert!(file().contains("pool_coordinator"), "{}", file());
    let again = site.locality(&["switch", "main", "--to", "sdr", "--proxies", "2"]);
    assert_eq!(again, copied);

    // All sessions go on while the pool is switched.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for rack in 0..RACKS {
            let (site, is_over) = (&site, &is_over);
            scope.spawn(move || {
                let mut client = Client::connect(site.proxies[rack].address());
                while !is_over.load(Ordering::Relaxed) {
                    browse(&mut client, rack);
                }
            });
        }
        let ends = Ends(&is_over);
        let said = site.locality(&switch);
        assert_eq!(said, "pool main-g1 serves alone: snoop\n");
        drop(ends);
    });
    let text = file();
    assert!(text.contains("# One in each rack.\n"), "{text}");
    assert!(
        !text.contains("[pools.main]") && !text.contains("warm_from"),
        "{text}"
    );
    assert_eq!(site.stage("main-g1"), None);
    let shown = site.locality(&["show", "--format", "json"]);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(
        (&shown[0]["pool"], &shown[0]["generation"]),
        (&"main-g1".into(), &1.into())
    );

    // What a session has is in its rack now: nothing is sent to another one, as was predicted.
    let before = site.requests();
    for rack in 0..RACKS {
        let mut client = Client::connect(site.proxies[rack].address());
        (0..PAGES).for_each(|_| browse(&mut client, rack));
    }
    let after = site.requests();
    let (own, all) = (after.0 - before.0, after.1 - before.1);
    let expected = (PAGES * KEYS) as u64;
    assert_eq!((own, all), (expected, expected));
}

/// Others end, also where something has failed.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
