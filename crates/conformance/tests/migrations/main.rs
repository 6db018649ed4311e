//! A cachelet on its way to another server while etcd's leader is killed, the leading coordinator, or both, at each
//! step of the way.
//!
//! A step lasts for less than a millisecond, or less than nobody can say. So somebody is stopped to make it last: the
//! target while the source waits for its word, the coordinator while it has not heard that the cachelet has passed.
//! What is asked of the servers after the fault says whether it has met the step; if not, it is injected again.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use evenkeel_conformance::migrations;
use evenkeel_conformance::users::{assert_unnoticed, is_broken, key_name, while_used};
use evenkeel_testkit::{Signal, poll_until};
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{CacheletId, Epoch, WorkerRef};

use evenkeel_conformance::coordinators::{Cluster, DEADLINE};

/// How far a migration has come when somebody is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// It is in the map, of which its source has not heard.
    Ordered,
    /// Items are sent.
    Copying,
    /// Nobody serves the cachelet: the source has asked the target to, and has no answer.
    Passing,
    /// The source has decided, and the coordinator does not know.
    Moved,
}

const STEPS: [Step; 4] = [Step::Ordered, Step::Copying, Step::Passing, Step::Moved];

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    EtcdsLeader,
    Coordinator,
    Both,
}

/// With one of them stopped, the others still serve by each other's votes.
const SERVERS: usize = 3;

/// Servers are stopped, but none dies, however long the machine takes to let one go on.
const SILENT_MS: &str = "10000";

/// Between two requests of a user: the processes under test need the processor, too.
const PACE: Duration = Duration::from_millis(1);

/// How often a fault is injected that misses its step. A busy machine is late for most of them.
const TRIES: usize = 50;

/// A source that does not answer for this long, while it answers others, has been asked for what nobody serves now. Far below
/// the time for which it waits for its target.
const UNANSWERED: Duration = Duration::from_millis(20);

/// Bytes in a second, of cachelets of about 15 kB: a second and a half on the way.
const SLOWLY: u64 = 10_000;

/// Half a second: a coordinator is stopped for that long.
const STEADILY: u64 = 30_000;

/// Less than a tenth of a second: a server is stopped for that long, and users wait for it.
const BRISKLY: u64 = 200_000;

impl Step {
    fn bytes_per_second(self) -> u64 {
        match self {
            Step::Ordered | Step::Copying => SLOWLY,
            Step::Passing => BRISKLY,
            Step::Moved => STEADILY,
        }
    }
}

/// A migration at each step, in a cluster in use.
fn inject_at_each_step(victim: Victim) {
    let mut cluster = Cluster::with(SERVERS, &["--silent-ms", SILENT_MS]);
    let proxy = cluster.proxy.address();
    let (mut faults, mut met) = (0, Vec::new());
    let tally = while_used(proxy, PACE, |users| {
        for step in STEPS {
            let is_met = (0..TRIES).any(|_| {
                faults += 1;
                !is_broken(users) && inject(&mut cluster, step, victim, &key_name(0, 11 * faults))
            });
            met.push((step, is_met));
        }
    });
    println!("{faults} faults");
    assert!(met.iter().all(|(.., is_met)| *is_met), "{met:?}");
    assert_unnoticed(&tally, &cluster.servers);
}

#[test]
fn when_etcds_leader_dies_at_whatever_step_a_migration_ends_well() {
    inject_at_each_step(Victim::EtcdsLeader);
}

#[test]
fn when_the_coordinator_dies_at_whatever_step_a_migration_ends_well() {
    inject_at_each_step(Victim::Coordinator);
}

#[test]
fn when_both_die_at_whatever_step_a_migration_ends_well() {
    inject_at_each_step(Victim::Both);
}

/// Orders a migration, kills the victim at this step, and waits until the migration has ended as its source says and
/// all is well again. True if the step was met.
fn inject(cluster: &mut Cluster, step: Step, victim: Victim, key: &str) -> bool {
    cluster.wait_until_stable();
    let node = cluster.etcd.leader();
    let counts = Counts::of(cluster);
    let before = serde_json::from_value(cluster.map()).expect("a sound map");
    // No matter who leads: on a busy machine another may by now.
    let (leader, token, ordered) = poll_until(DEADLINE, "a migration to begin", || {
        let (leader, token) = cluster.leader()?;
        let address = cluster.coordinators[leader].address();
        let ordered = migrations::order(address, key, step.bytes_per_second())?;
        Some((leader, token, ordered))
    });
    let cachelet = ordered.cachelet;
    let number = |name: &str| name[1..].parse::<usize>().expect("s0 and so on");
    let way = Way {
        source: number(&ordered.from),
        target: number(&ordered.to),
        key,
        counts,
    };
    let is_in_time = way.await_step(cluster, step, leader);
    if victim != Victim::Coordinator {
        cluster.etcd.kill_node(node);
    }
    if victim != Victim::EtcdsLeader {
        cluster.coordinators[leader].kill();
    }
    let is_met = is_in_time && way.is_at(cluster, step);
    match step {
        Step::Passing => cluster.servers[way.target].signal(Signal::Continue),
        Step::Moved if victim == Victim::EtcdsLeader => cluster.signal(leader, Signal::Continue),
        Step::Ordered | Step::Copying | Step::Moved => {}
    }

    let is_other = victim != Victim::EtcdsLeader;
    let after = poll_until(DEADLINE, "a migration to be over", || {
        let (leader, new_token) = cluster.leader()?;
        let address = cluster.coordinators[leader].address();
        let is_over = migrations::view(address)?.migrations.is_empty();
        (is_over && (!is_other || new_token > token)).then(|| migrations::map(address))?
    });
    let end = way.end(cluster);
    println!("{step:?} {victim:?}: cachelet {cachelet} {end:?}, step met: {is_met}");
    let owner = match end {
        End::Moved => &ordered.to,
        End::Aborted => &ordered.from,
    };
    assert_ended(&before, &after, cachelet, owner);
    if victim != Victim::EtcdsLeader {
        cluster.restart_coordinator(leader);
    }
    if victim != Victim::Coordinator {
        cluster.etcd.start_node(node);
        cluster.etcd.wait_until_healthy();
    }
    is_met
}

/// What a source says of a migration that is over.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Moved,
    Aborted,
}

/// This cachelet has that owner, no other has changed hands, and contents have gone on.
fn assert_ended(before: &ClusterMap, after: &ClusterMap, cachelet: CacheletId, owner: &str) {
    let owners = |map: &ClusterMap| -> Vec<(Option<String>, Epoch)> {
        let document = map.document();
        let name = |worker: &WorkerRef| Some(map.server(worker.server)?.name.clone());
        let names = document
            .cachelets
            .iter()
            .map(|it| it.as_ref().and_then(name));
        names.zip(document.since.iter().copied()).collect()
    };
    let mut expected = owners(before);
    expected[usize::from(cachelet.0)].0 = Some(owner.to_owned());
    assert_eq!(
        owners(after),
        expected,
        "owners, and since when contents go on"
    );
}

/// What the servers have counted.
struct Counts {
    ordered: Vec<u64>,
    items_sent: Vec<u64>,
    passed: Vec<u64>,
    aborted: Vec<u64>,
}

impl Counts {
    fn of(cluster: &Cluster) -> Counts {
        let count = |name: &str| {
            let servers = cluster.servers.iter();
            servers
                .map(|server| migrations::count(server.address(), name))
                .collect()
        };
        Counts {
            ordered: count("migrations_ordered"),
            items_sent: count("migration_items_sent"),
            passed: count("migrations_passed"),
            aborted: count("migrations_aborted"),
        }
    }
}

/// The way of a cachelet from one server to another.
struct Way<'a> {
    source: usize,
    target: usize,
    /// One of its keys.
    key: &'a str,
    /// Before it was ordered.
    counts: Counts,
}

impl Way<'_> {
    fn source(&self, cluster: &Cluster) -> SocketAddr {
        cluster.servers[self.source].address()
    }

    /// Whether the source has counted something since.
    fn has(&self, cluster: &Cluster, name: &str, before: &[u64]) -> bool {
        migrations::count(self.source(cluster), name) > before[self.source]
    }

    fn is_copying(&self, cluster: &Cluster) -> bool {
        self.has(cluster, "migration_items_sent", &self.counts.items_sent)
    }

    fn has_passed(&self, cluster: &Cluster) -> bool {
        self.has(cluster, "migrations_passed", &self.counts.passed)
    }

    fn is_over(&self, cluster: &Cluster) -> bool {
        self.has_passed(cluster) || self.has(cluster, "migrations_aborted", &self.counts.aborted)
    }

    /// Waits until the migration has come to a step, and stops who makes the step last. False if that was too late.
    fn await_step(&self, cluster: &mut Cluster, step: Step, leader: usize) -> bool {
        if step == Step::Ordered {
            return true;
        }
        poll_until(DEADLINE, "a source that copies", || {
            (self.is_copying(cluster) || self.is_over(cluster)).then_some(())
        });
        match step {
            Step::Ordered | Step::Copying => true,
            Step::Passing => {
                cluster.servers[self.target].signal(Signal::Stop);
                let source = self.source(cluster);
                poll_until(DEADLINE, "a source that waits for its target", || {
                    let is_over = self.is_over(cluster);
                    (is_over || !answers(source, self.key)).then_some(!is_over)
                })
            }
            Step::Moved => {
                cluster.signal(leader, Signal::Stop);
                let is_in_time = !self.is_over(cluster);
                poll_until(DEADLINE, "a source that has decided", || {
                    self.is_over(cluster).then_some(is_in_time)
                })
            }
        }
    }

    /// Whether it is at that step still, now that somebody was killed.
    fn is_at(&self, cluster: &Cluster, step: Step) -> bool {
        match step {
            Step::Ordered => !self.has(cluster, "migrations_ordered", &self.counts.ordered),
            Step::Copying => !self.is_over(cluster),
            Step::Passing => !answers(self.source(cluster), self.key) && !self.is_over(cluster),
            // The coordinator was stopped before that.
            Step::Moved => self.has_passed(cluster),
        }
    }

    /// What the source says came of it, exactly once.
    fn end(&self, cluster: &Cluster) -> End {
        let now = Counts::of(cluster);
        let passed = now.passed[self.source] - self.counts.passed[self.source];
        let aborted = now.aborted[self.source] - self.counts.aborted[self.source];
        match (passed, aborted) {
            (1, 0) => End::Moved,
            (0, 1) => End::Aborted,
            _ => panic!("passed {passed} times and aborted {aborted} times"),
        }
    }
}

/// Whether a server answers who asks for a key. If not, it has answered others meanwhile.
fn answers(server: SocketAddr, key: &str) -> bool {
    let mut stream = TcpStream::connect(server).expect("it listens");
    let question = format!("get {key}\r\n");
    stream.write_all(question.as_bytes()).expect("it reads");
    let mut has_answered = |patience: Duration| {
        let patience = Some(patience);
        stream.set_read_timeout(patience).expect("a time to wait");
        match stream.read(&mut [0; 16]) {
            Ok(count) => count > 0,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                false
            }
            Err(error) => panic!("failed to read an answer: {error}"),
        }
    };
    if has_answered(UNANSWERED) {
        return true;
    }
    // Every worker has a part in this answer.
    migrations::count(server, "migrations_ordered");
    has_answered(Duration::from_millis(1))
}
