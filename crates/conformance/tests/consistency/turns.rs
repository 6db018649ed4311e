//! What the watchdogs of a cluster's processes have seen: turns of event loops of 50 ms and longer.
//!
//! A process that was never stopped must have none but those for which the kernel gave it no processor.

use super::Cluster;
use evenkeel_testkit::{Client, Process, poll_until};
use std::collections::BTreeSet;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(60);

/// Counts of all processes that were asked.
#[derive(Debug, Default)]
pub struct Turns {
    /// Processes that were stopped at some time, by their ids.
    stopped: BTreeSet<u32>,
    /// Slow and starved turns of those that were not.
    pub of_others: Count,
    /// And of those that were.
    pub of_stopped: Count,
    /// What the others have said of slow turns.
    pub told: Vec<String>,
}

/// Turns of 50 ms and longer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Because of what they did.
    pub slow: u64,
    /// Because they were not run.
    pub starved: u64,
}

impl Turns {
    /// A process is about to be stopped for a while.
    pub fn stops(&mut self, process: &Process) {
        self.stopped.insert(process.pid());
    }

    /// Asks a server that is about to end.
    pub fn ask_server(&mut self, process: &Process) {
        self.ask(process, "evenkeel");
    }

    /// Asks a proxy that is about to end.
    pub fn ask_proxy(&mut self, process: &Process) {
        self.ask(process, "proxy");
    }

    /// Asks all servers and proxies.
    pub fn ask_all(&mut self, cluster: &Cluster) {
        cluster.servers.iter().for_each(|it| self.ask_server(it));
        cluster.proxies.iter().for_each(|it| self.ask_proxy(it));
    }

    fn ask(&mut self, process: &Process, statistics: &str) {
        // A server closes the connection whose answer may come after the end of its lease.
        let stats = poll_until(DEADLINE, "a process to say its turns", || {
            let mut client = Client::try_connect(process.address()).ok()?;
            client.try_stats(statistics).ok()
        });
        let number = |name: &str| stats[name].parse::<u64>().expect("a count");
        let was_stopped = self.stopped.contains(&process.pid());
        let count = match was_stopped {
            true => &mut self.of_stopped,
            false => &mut self.of_others,
        };
        count.slow += number("turns_slow");
        count.starved += number("turns_starved");
        if !was_stopped {
            let said = process.stderr_text();
            let lines = said
                .lines()
                .filter(|line| line.contains(" has been in one turn for "));
            self.told.extend(lines.map(str::to_owned));
        }
    }
}
