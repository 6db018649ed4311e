//! A MediaWiki in four racks, whose use of its cache the proxies record: the profile that the paper on locality has of MediaWiki
//! (Talaga and Chapin, sections 3 and 6, Figures 2 and 7).
//!
//! Each rack has a web server, a proxy and a memcached; every proxy reaches all memcacheds, by paths of known length. A user stays in
//! his rack. Only the load is smaller than the paper's: it had 100 users with 96 pages each.

use std::path::Path;
use std::time::Duration;

use evenkeel_bench::{Path as Way, Relay, Route, Target};
use evenkeel_testkit::{EXIT_DEADLINE, Memcached, Process, Signal, evenkeel};
use serde_json::Value;

use crate::browser::Browser;
use crate::wiki::{CacheClient, Caching, PROFILE_KEY, Wiki};
use crate::{text, title};

const RACKS: usize = 4;

/// Round trips within a rack and between two: one switch, and three.
const NEAR: Duration = Duration::from_millis(1);
const FAR: Duration = Duration::from_millis(3);

/// What the users do.
#[derive(Clone, Copy)]
struct Load {
    users_of_rack: usize,
    /// Pages that each writes, and then reads of all that were written.
    writes: usize,
    reads: usize,
}

/// Four racks with a wiki in them.
struct Racks {
    wiki: Wiki,
    proxies: Vec<Process>,
    _relay: Relay,
    _memcacheds: Vec<Memcached>,
}

impl Racks {
    /// Starts all of it. The proxies write their profiles to this folder.
    fn start(caching: Caching, folder: &Path) -> Racks {
        let memcacheds: Vec<Memcached> = (0..RACKS).map(|_| Memcached::spawn(&[])).collect();
        let ends = (0..RACKS).flat_map(|from| (0..RACKS).map(move |to| (from, to)));
        let route = |(from, to): (usize, usize)| Route {
            listen: ([127, 0, 0, 1], 0).into(),
            to: Target::from(memcacheds[to].address()),
            path: Way {
                delay: if from == to { NEAR } else { FAR } / 2,
                ..Way::default()
            },
        };
        let relay = Relay::start(ends.map(route).collect(), 0).expect("a relay");
        let paths = relay.addresses.chunks(RACKS).enumerate();
        let proxies: Vec<Process> = paths
            .map(|(rack, addresses)| {
                let server = |(number, address)| {
                    format!(
                        "{{ address = \"{address}\", name = \"m{number}\", rack = \"{number}\" }}"
                    )
                };
                let servers: Vec<String> = addresses.iter().enumerate().map(server).collect();
                let racks: String = (0..RACKS)
                    .map(|n| format!("[topology.racks.{n}]\n"))
                    .collect();
                let text = format!(
                    "{racks}[proxy]\nrack = \"{rack}\"\nprofile = \"{rack}.profile\"\n\
                     profile_full = true\nprofile_key = \"{PROFILE_KEY}\"\n\
                     [pools.wiki]\nservers = [{}]\nrequest_timeout = \"50s\"\n",
                    servers.join(", ")
                );
                let path = folder.join(format!("{rack}.toml"));
                std::fs::write(&path, text).expect("room");
                evenkeel::proxy(&["--config", path.to_str().expect("UTF-8")])
            })
            .collect();
        let caches: Vec<_> = proxies.iter().map(Process::address).collect();
        Racks {
            wiki: Wiki::start_at(CacheClient::Own, caching, &caches),
            proxies,
            _relay: relay,
            _memcacheds: memcacheds,
        }
    }

    /// Users log in, write pages and read pages, all racks at once. Returns how many pages they were shown.
    fn live(&self, load: Load) -> usize {
        let racks: Vec<_> = self.wiki.addresses();
        let shown = std::thread::scope(|scope| {
            let racks = racks.iter().enumerate().map(|(rack, &address)| {
                scope.spawn(move || {
                    let users = (0..load.users_of_rack).map(|number| {
                        let mut user = Browser::new(address);
                        assert!(user.log_in());
                        let own = |n: usize| (rack * load.users_of_rack + number) * load.writes + n;
                        for n in 0..load.writes {
                            user.edit(&title(own(n)), &text(own(n), "first"), "begun");
                        }
                        for n in 0..load.reads {
                            let other = own(0).wrapping_mul(7) + 3 * n;
                            let all = RACKS * load.users_of_rack * load.writes;
                            let page = user.page(&title(other % all), "");
                            // Some are not written yet.
                            assert!([200, 404].contains(&page.status), "{}", page.body);
                        }
                        user.requests()
                    });
                    users.sum::<usize>()
                })
            });
            let racks: Vec<_> = racks.collect();
            racks
                .into_iter()
                .map(|rack| rack.join().expect("it went well"))
                .sum()
        });
        assert_eq!(self.wiki.cache_errors(), Vec::<String>::new());
        shown
    }
}

/// What the profiles of all racks say, as `evenkeel profile report` prints it, and how many pages users were shown.
fn profiled(caching: Caching, load: Load) -> (Value, String, usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut racks = Racks::start(caching, folder.path());
    let shown = racks.live(load);
    // What is recorded is written when they end.
    for proxy in &mut racks.proxies {
        proxy.signal(Signal::Terminate);
        assert!(proxy.wait(EXIT_DEADLINE).success());
    }
    let files = (0..RACKS).map(|rack| {
        folder
            .path()
            .join(format!("{rack}.profile"))
            .display()
            .to_string()
    });
    let files: Vec<String> = files.collect();
    let asked = |words: &[&str]| {
        let files = files.iter().map(String::as_str);
        let output = evenkeel::run(&words.iter().copied().chain(files).collect::<Vec<_>>());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        said
    };
    let json = asked(&["profile", "report", "--format", "json"]);
    let json = serde_json::from_str(&json).expect("JSON");
    let advice = asked(&["advise", "--profile"]);
    let text = format!("{}\n{advice}", asked(&["profile", "report"]));
    (json, text, shown)
}

#[test]
fn a_wiki_in_four_racks_is_profiled() {
    let load = Load {
        users_of_rack: 1,
        writes: 1,
        reads: 2,
    };
    let (report, text, shown) = profiled(Caching::Full, load);
    println!("{text}");
    let whole = &report["sections"][0];
    assert_eq!(whole["pages"], shown, "each page is known by its mark");
    let figure = |name: &str| {
        whole[name]["value"]
            .as_f64()
            .unwrap_or_else(|| panic!("{name} in {whole}"))
    };
    let (ps, reads) = (figure("ps"), figure("rw_cmd"));
    assert!(
        (0.0..1.0).contains(&ps) && ps > 0.0,
        "some keys are a session's own, and some are not: {ps}"
    );
    assert!((0.2..0.95).contains(&reads), "{reads}");
}

#[test]
#[ignore = "takes a minute and prints three profiles: -- --ignored the_paper --nocapture"]
fn a_wiki_in_four_racks_has_the_profiles_of_the_paper() {
    for (caching, name) in Caching::ALL {
        let load = Load {
            users_of_rack: 4,
            writes: 5,
            reads: 10,
        };
        let (_, text, shown) = profiled(caching, load);
        println!("{name} caching, {shown} pages\n{text}\n");
    }
}
