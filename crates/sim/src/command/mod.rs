//! `evenkeel sim`: the simulator from the command line.

mod calibrate;
mod load;
mod replay;
mod run;

pub use calibrate::{CalibrateArgs, execute_calibrate};
pub use load::{Fidelity, LoadArgs, execute_load};
pub use replay::{ReplayArgs, execute_replay};
pub use run::{FailedRun, RunArgs, RunReport, execute_run};

use crate::world::{Fault, LedKind, Plan, SERVERS, SERVERS_MAX, SERVERS_MIN};
use clap::{Args, ValueEnum};
use std::io::{self, Write};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Exit codes, as for every command of Evenkeel.
const EXIT_FINE: u8 = 0;
const EXIT_FAILED: u8 = 1;

/// How to print a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people.
    Table,
    /// For programs: one JSON object.
    Json,
}

/// How it is found which rack holds an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InRacks {
    /// Notes in all racks.
    Snoop,
    /// A directory.
    Dir,
}

/// What `run` and `replay` simulate.
#[derive(Clone, Copy, Debug, Args)]
pub struct ClusterArgs {
    /// Virtual seconds of a run
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(21..=86_400))]
    pub seconds: u64,

    /// Servers, with those that join later
    #[arg(long, value_name = "N", default_value_t = SERVERS, value_parser = servers)]
    pub servers: usize,

    /// Nothing goes wrong but delays
    #[arg(long)]
    pub no_faults: bool,

    /// Plain memcached servers behind the proxies, whose hot keys those replicate themselves
    #[arg(long)]
    pub plain: bool,

    /// The same, with a pool in each seed that is led to other servers, whose ring changes, that keeps copies, or that is in racks
    #[arg(long, conflicts_with = "atomic")]
    pub led: bool,

    /// The same, with a pool in racks in each seed, one of which holds each item, by this architecture
    #[arg(long, value_name = "NAME", conflicts_with = "atomic")]
    pub architecture: Option<InRacks>,

    /// Atomic writes: the history of each key must be linearizable
    #[arg(long, conflicts_with = "plain")]
    pub atomic: bool,

    /// Break a rule on purpose, to see it noticed (as listed in docs/simulator.md)
    #[arg(long, value_name = "NAME", value_parser = mutant)]
    pub mutant: Option<Fault>,
}

impl ClusterArgs {
    /// The plan of a seed.
    pub fn plan(&self, seed: u64) -> Plan {
        let plan = if let Some(architecture) = self.architecture {
            Plan::led(seed).of(match architecture {
                InRacks::Snoop => LedKind::Notes,
                InRacks::Dir => LedKind::Directory,
            })
        } else if self.led {
            Plan::led(seed)
        } else if self.plain {
            Plan::plain(seed)
        } else if self.atomic {
            Plan::atomic(seed)
        } else {
            Plan::new(seed)
        };
        let plan = plan.lasting(self.seconds * SECOND);
        Plan {
            servers: self.servers,
            fault: self.mutant,
            swarm: if self.no_faults {
                plan.swarm.without_hazards()
            } else {
                plan.swarm
            },
            ..plan
        }
    }
}

fn servers(text: &str) -> Result<usize, String> {
    let allowed = SERVERS_MIN..=SERVERS_MAX;
    match text.parse() {
        Ok(count) if allowed.contains(&count) => Ok(count),
        _ => Err(format!(
            "a cluster has {SERVERS_MIN} to {SERVERS_MAX} servers"
        )),
    }
}

fn mutant(text: &str) -> Result<Fault, String> {
    let known = || {
        let all = Fault::ALL.into_iter().chain(Fault::PLAIN);
        all.chain(Fault::ATOMIC)
            .chain(Fault::LED)
            .chain(Fault::RING)
            .chain(Fault::COPIES)
            .chain(Fault::RACKS)
    };
    let names = || {
        known()
            .map(|fault| format!("{fault:?}"))
            .collect::<Vec<_>>()
    };
    known()
        .find(|fault| format!("{fault:?}") == text)
        .ok_or_else(|| format!("there are {}", names().join(", ")))
}

/// Prints a report. A reader that has read enough (`head`) is no failure.
fn print_line(text: &str) -> io::Result<()> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// Says what went wrong with `evenkeel sim COMMAND`. Gives the exit code with which it ends.
fn report_error(command: &str, error: &anyhow::Error) -> u8 {
    eprintln!("evenkeel sim {command}: {error:#}");
    EXIT_FAILED
}
