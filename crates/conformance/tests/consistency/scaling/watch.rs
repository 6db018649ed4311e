//! What may not be seen of a pool whose servers come and go, whatever is killed.
//!
//! - It never has more servers than there may be, and only fewer than there have to be where one was killed that it has lost since.
//! - A server that ends owns nothing, unless it was killed.
//! - No name is started twice, and no server while another runs that owns nothing yet: one decision starts one server.

use super::actuated::Actuated;
use super::pool::Pool;
use super::{Killed, MAX, MIN};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Distance of looks: short beside the time after which a dead server is lost.
const LOOK: Duration = Duration::from_millis(50);

/// Looks at a pool, its coordinator and its processes.
pub struct Watch<'a> {
    pool: Pool,
    actuated: &'a Actuated,
    killed: &'a Mutex<Killed>,
    /// Servers of the actuator's that ran at the last look.
    known: BTreeMap<String, SocketAddr>,
    /// How many starts were judged.
    starts: usize,
    events: BTreeSet<(u64, String)>,
    seen: Watched,
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Watched {
    pub looks: u64,
    /// The numbers of servers that the pool had.
    pub owners: BTreeSet<usize>,
    /// How many changes have ended, by how; but for those that were told in the moment before a coordinator was killed.
    pub ended: BTreeMap<String, u64>,
    /// What may not be seen.
    pub wrong: Vec<String>,
}

impl<'a> Watch<'a> {
    pub fn new(pool: Pool, actuated: &'a Actuated, killed: &'a Mutex<Killed>) -> Self {
        Watch {
            pool,
            actuated,
            killed,
            known: BTreeMap::new(),
            starts: 0,
            events: BTreeSet::new(),
            seen: Watched::default(),
        }
    }

    pub fn run(mut self, stop: &AtomicBool) -> Watched {
        while !stop.load(Ordering::Relaxed) {
            self.look();
            std::thread::sleep(LOOK);
        }
        self.seen
    }

    /// Processes first, then the pool: what a change needs has happened before it. While no coordinator answers nothing is known, and no pool
    /// changes.
    fn look(&mut self) {
        let starts = self.actuated.starts();
        let running = self.actuated.running();
        let Some(owners) = self.pool.owners() else {
            return;
        };
        self.seen.looks += 1;
        self.seen.owners.insert(owners.len());
        self.look_at_ends(&running, &owners);
        self.look_at_starts(&starts, &running, &owners);
        self.look_at_count(&owners);
        self.handle_events();
    }

    fn look_at_ends(&mut self, running: &Running, owners: &Owners) {
        let before = std::mem::take(&mut self.known);
        let with_address = running
            .iter()
            .filter_map(|(name, at)| Some((name.clone(), (*at)?)));
        self.known = with_address.collect();
        for (name, at) in before {
            let is_taken = running.values().any(|it| *it == Some(at));
            let was_killed = || {
                self.killed
                    .lock()
                    .expect("nobody panics with it")
                    .names
                    .contains(&name)
            };
            if !running.contains_key(&name) && owners.contains(&at) && !is_taken && !was_killed() {
                self.is_wrong(format!(
                    "{name} at {at} was stopped, and owned a part of the pool"
                ));
            }
        }
    }

    fn look_at_starts(&mut self, starts: &[String], running: &Running, owners: &Owners) {
        for (at, name) in starts.iter().enumerate().skip(self.starts) {
            let before = &starts[..at];
            if before.contains(name) {
                self.is_wrong(format!("{name} was started twice"));
            }
            for other in before {
                let owns = |at: &Option<SocketAddr>| at.is_some_and(|at| owners.contains(&at));
                if running.get(other).is_some_and(|at| !owns(at)) {
                    self.is_wrong(format!("{name} was started while {other} owned nothing"));
                }
            }
        }
        self.starts = starts.len();
    }

    fn look_at_count(&mut self, owners: &Owners) {
        let count = owners.len();
        let mut killed = self.killed.lock().expect("nobody panics with it");
        let lost = killed
            .lost
            .iter()
            .filter(|at| !owners.contains(*at))
            .count();
        if count >= MIN {
            killed.lost.retain(|at| owners.contains(at));
        }
        drop(killed);
        if count > MAX || count + lost < MIN {
            self.is_wrong(format!(
                "the pool has {count} servers, of which {lost} were killed: {owners:?}"
            ));
        }
    }

    fn handle_events(&mut self) {
        let Some(told) = self.pool.leader().get("/api/v1/scale/events") else {
            return;
        };
        for event in told["events"].as_array().into_iter().flatten() {
            let phase = &event["phase"];
            let is_new = self
                .events
                .insert((event["unix_s"].as_u64().unwrap_or(0), phase.to_string()));
            if let Some(after) = phase["after"].as_str().filter(|_| is_new) {
                *self.seen.ended.entry(after.to_owned()).or_default() += 1;
            }
        }
    }

    /// It is said at once, as what comes of it may end the test before anybody asks, and once.
    fn is_wrong(&mut self, what: String) {
        if !self.seen.wrong.contains(&what) {
            println!("wrong: {what}");
            self.seen.wrong.push(what);
        }
    }
}

type Running = BTreeMap<String, Option<SocketAddr>>;
type Owners = BTreeSet<SocketAddr>;
