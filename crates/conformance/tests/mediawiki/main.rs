//! A MediaWiki whose caches and sessions are behind a proxy with four servers: pages load, edits show,
//! and killing one of the servers breaks neither.
//!
//! What a killed server held is gone, users' sessions too: anyone who had his there has to log in again. How
//! soon that works is where the two kinds of pool differ, and each test shows it: where `failover = "next"`
//! gives the keys of a dead server to others, at once; in a cluster, whose dead servers keep their keys,
//! when the server is back. Sessions on the other three servers are not touched.
//!
//! MediaWiki also takes locks by `add`, and its own client takes every refusal for a lock that somebody else
//! has. In a cluster it therefore needs a local copy of what it locks for each page (APCu); without one it
//! answers 500 while the server of that lock is dead.

mod browser;
mod profiled;
mod wiki;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use browser::Browser;
use evenkeel_testkit::{Client, Cluster, ClusterOptions, Memcached, Process, evenkeel, poll_until};
use wiki::{CacheClient, Wiki, messages_key, session_key};

const SERVERS: usize = 4;

/// Pages that are made before a server is killed. Each has half a dozen keys in the cache, so that every
/// server has some of them.
const PAGES: usize = 8;

/// Logins at most until some session is on the server to be killed, which one of four logins brings: the chance
/// that 64 are not enough is 1 in 10^8.
const LOGINS_MAX: usize = 64;

/// How long proxies may take to see that a server is gone or back.
const NOTICE_DEADLINE: Duration = Duration::from_secs(60);

/// A wiki and what it runs on, before and after one of the servers is killed.
struct Trial {
    wiki: Wiki,
    proxy: SocketAddr,
    servers: Vec<SocketAddr>,
    users: Vec<(Browser, usize)>,
}

impl Trial {
    fn start(client: CacheClient, proxy: SocketAddr, servers: Vec<SocketAddr>) -> Trial {
        assert_eq!(servers.len(), SERVERS);
        Trial {
            wiki: Wiki::start(client, proxy),
            proxy,
            servers,
            users: Vec::new(),
        }
    }

    /// Makes pages, reads and changes them, and returns the server that holds what every page needs.
    /// Afterwards some users are logged in with their sessions there, and some with theirs elsewhere.
    fn live(&mut self) -> usize {
        let mut admin = Browser::new(self.wiki.address());
        let main_page = admin.page("Main_Page", "");
        assert_eq!(main_page.status, 200, "{}", self.wiki.story());
        assert!(main_page.body.contains("MediaWiki has been installed"));

        assert!(admin.log_in());
        let mut reader = Browser::new(self.wiki.address());
        for n in 0..PAGES {
            admin.edit(&title(n), &text(n, "first"), "begun");
            self.reads(&mut reader, n, "first");
        }
        // From the parser cache this time: the same rendering, made at the same time.
        let before = self.hits();
        for n in 0..PAGES {
            self.reads(&mut reader, n, "first");
        }
        assert!(
            self.hits() >= before + PAGES as u64,
            "pages come from the cache"
        );
        for n in 0..PAGES {
            admin.edit(&title(n), &text(n, "second"), "changed");
            self.reads(&mut reader, n, "second");
        }
        self.history(&mut reader, 0, &["begun", "changed"]);
        for (index, &server) in self.servers.iter().enumerate() {
            for name in ["cmd_get", "cmd_set", "get_hits"] {
                let count = stat(server, name);
                assert!(count > 0, "server {index} is used: {name} {count}");
            }
        }
        assert_eq!(self.wiki.cache_errors(), Vec::<String>::new());

        let victim = self.home(&messages_key());
        self.users.push((admin, usize::MAX));
        while !(self.users.iter().any(|&(_, home)| home == victim)
            && self
                .users
                .iter()
                .filter(|&&(_, home)| home != victim)
                .count()
                >= 2)
        {
            assert!(self.users.len() < LOGINS_MAX, "sessions are spread");
            let mut user = Browser::new(self.wiki.address());
            assert!(user.log_in(), "{}", self.wiki.story());
            self.users.push((user, usize::MAX));
            for at in 0..self.users.len() {
                self.users[at].1 = self.home(&session_key(self.users[at].0.session()));
            }
        }
        victim
    }

    /// After the victim was killed: pages load as they were, and who has his session elsewhere edits them.
    fn goes_on(&mut self, victim: usize) {
        let mut reader = Browser::new(self.wiki.address());
        for n in 0..PAGES {
            self.reads(&mut reader, n, "second");
        }
        let main_page = reader.page("Main_Page", "");
        assert_eq!(main_page.status, 200);
        assert!(main_page.body.contains("MediaWiki has been installed"));
        self.history(&mut reader, 0, &["begun", "changed"]);

        for at in 0..self.users.len() {
            let (user, home) = &mut self.users[at];
            let has_kept = user.is_logged_in();
            assert_eq!(has_kept, *home != victim, "a session on server {home}");
        }
        let survivor = self.users.iter().position(|&(_, home)| home != victim);
        let survivor = survivor.expect("some sessions are elsewhere");
        for n in 0..PAGES {
            let admin = &mut self.users[survivor].0;
            admin.edit(&title(n), &text(n, "third"), "without a server");
            self.reads(&mut reader, n, "third");
            self.reads(&mut reader, n, "third");
        }
        self.history(&mut reader, 1, &["begun", "changed", "without a server"]);
    }

    /// Who lost his session logs in again.
    fn log_in_again(&mut self, victim: usize) {
        for (user, _) in self.users.iter_mut().filter(|(_, home)| *home == victim) {
            assert!(user.log_in(), "{}", self.wiki.story());
            user.edit("Signed", "Back again", "with a new session");
        }
    }

    fn reads(&self, reader: &mut Browser, n: usize, version: &str) {
        let page = reader.page(&title(n), "");
        let expected = format!("Page {n} in its {version} version");
        assert!(
            page.status == 200 && page.body.contains(&expected),
            "{} instead of \"{expected}\":\n{}\n{}",
            page.status,
            page.body,
            self.wiki.story()
        );
        // A page does not say that something went wrong while it was made.
        assert!(!page.body.contains("<b>Warning</b>"), "{}", page.body);
    }

    fn history(&self, reader: &mut Browser, n: usize, summaries: &[&str]) {
        let page = reader.page(&title(n), "&action=history");
        assert_eq!(page.status, 200, "{}", self.wiki.story());
        for summary in summaries {
            let shown = format!(">{summary}</span>");
            assert!(page.body.contains(&shown), "{shown} in {}", page.body);
        }
    }

    /// Keys found so far, as the proxy counts them.
    fn hits(&self) -> u64 {
        stat(self.proxy, "get_hits")
    }

    /// The server that the proxy asks for a key: the one that counts a read more. Nobody else asks
    /// anything meanwhile.
    fn home(&self, key: &str) -> usize {
        let counts = || self.servers.iter().map(|&server| stat(server, "cmd_get"));
        let before: Vec<u64> = counts().collect();
        Client::connect(self.proxy).get(key);
        let mut risen = counts()
            .zip(before)
            .enumerate()
            .filter(|(_, (now, before))| now > before);
        let (home, _) = risen.next().expect("some server was asked");
        assert!(risen.next().is_none(), "one server was asked for {key}");
        home
    }
}

fn title(n: usize) -> String {
    format!("Page_{n}")
}

fn text(n: usize, version: &str) -> String {
    format!(
        "Page {n} in its {version} version.\n\nSee [[{}]].",
        title(n + 1)
    )
}

fn stat(address: SocketAddr, name: &str) -> u64 {
    let stats = Client::connect(address).stats("");
    stats[name].parse().expect("a count is a number")
}

/// A pool of memcached servers whose keys go to the next server when their own is gone.
fn with_failover(client: CacheClient, servers: Vec<SocketAddr>, mut kill: impl FnMut(usize)) {
    let names: Vec<String> = servers.iter().map(ToString::to_string).collect();
    // A server that is slow on a busy machine is not a dead one.
    let pool = ["-s", &names.join(","), "--failover", "next"];
    let proxy = evenkeel::proxy(&[&pool[..], &evenkeel::LONG_TIMEOUTS].concat());
    let mut trial = Trial::start(client, proxy.address(), servers);
    let victim = trial.live();
    kill(victim);
    trial.goes_on(victim);
    wait_until_out_of_use(&proxy, &names[victim]);
    trial.log_in_again(victim);
    let failed_over = server_stats(&proxy, &names[victim], "failed_over");
    assert!(
        failed_over > 0,
        "the keys of the dead server went elsewhere"
    );
}

/// Waits until both of the proxy's workers know that a server is dead: each finds out by itself.
fn wait_until_out_of_use(proxy: &Process, name: &str) {
    poll_until(
        NOTICE_DEADLINE,
        "both workers to give up a dead server",
        || {
            let mut client = Client::connect(proxy.address());
            for n in 0..64 {
                client.get(&format!("probe:{n}"));
            }
            (server_stats(proxy, name, "outages") == 2).then_some(())
        },
    );
}

fn server_stats(proxy: &Process, name: &str, row: &str) -> u64 {
    let stats: BTreeMap<String, String> = Client::connect(proxy.address()).stats("servers");
    stats[&format!("{name}:{row}")]
        .parse()
        .expect("a count is a number")
}

fn in_front_of_memcached(client: CacheClient) {
    let mut memcached: Vec<Memcached> = (0..SERVERS).map(|_| Memcached::spawn(&[])).collect();
    let servers = memcached.iter().map(Memcached::address).collect();
    with_failover(client, servers, |victim| memcached[victim].process().kill());
}

#[test]
fn a_wiki_outlives_one_of_four_memcached_servers() {
    in_front_of_memcached(CacheClient::Own);
}

#[test]
fn a_wiki_outlives_one_of_four_evenkeel_servers() {
    let mut processes: Vec<Process> = (0..SERVERS).map(|_| evenkeel::server(&[])).collect();
    let servers = processes.iter().map(Process::address).collect();
    with_failover(CacheClient::Own, servers, |victim| processes[victim].kill());
}

#[test]
#[ignore = "needs php-memcached, which make conformance installs"]
fn a_wiki_with_libmemcached_outlives_one_of_four_memcached_servers() {
    in_front_of_memcached(CacheClient::Pecl);
}

#[test]
#[ignore = "needs php-apcu, which make conformance installs, and a minute"]
fn a_wiki_outlives_one_of_four_servers_of_a_cluster() {
    let mut cluster = Cluster::start(ClusterOptions {
        servers: SERVERS,
        ..ClusterOptions::default()
    });
    let servers = cluster.servers.iter().map(Process::address).collect();
    let proxy = cluster.proxies[0].address();
    let mut trial = Trial::start(CacheClient::OwnBesideApcu, proxy, servers);
    let victim = trial.live();
    cluster.servers[victim].kill();
    trial.goes_on(victim);
    cluster.restart_server(victim);
    cluster.wait_until_serving();
    poll_until(NOTICE_DEADLINE, "all keys to be stored again", || {
        let mut client = Client::connect(proxy);
        (0..64)
            .all(|n| client.set(&format!("probe:{n}"), b"") == "STORED")
            .then_some(())
    });
    trial.log_in_again(victim);
}
