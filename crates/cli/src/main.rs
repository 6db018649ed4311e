//! The `evenkeel` command: one binary, a subcommand for each part.
//!
//! `server`, `proxy`, `coordinator`, `bench`, `experiment` and `sim` are crates of their own; here they only get
//! their place on the command line. [`up`] is the whole cluster on one machine, made of processes of this
//! same binary; [`top`] shows what servers do, [`cachelets`] where their load is, [`plans`] how it is
//! evened out, [`drain`] empties one, [`servers`] removes one that is gone, [`settings`] changes what holds for all,
//! [`proxies`] shows who speaks for applications, [`changes`] how pools pass from former servers to their own, [`ring`] moves parts
//! of pools whose hash space follows the load, [`scale`] lets their servers come and go, [`bundle`] switches copies of pools' items on and off, [`locality`] has one architecture take the place of another and says how keys stand, [`profile`] says how
//! applications use a cache, and [`advise`] where their keys should live.

#![forbid(unsafe_code)]

mod advise;
mod ask;
mod bundle;
mod cachelets;
mod changes;
#[cfg(test)]
mod documented;
mod drain;
mod environment;
mod locality;
mod plans;
mod profile;
mod proxies;
mod ring;
mod scale;
mod servers;
mod settings;
mod top;
mod up;
mod usage;
mod watch;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use evenkeel_runtime::{ExitCode, UsageError, die_with_parent, print_line, report};
use mimalloc::MiMalloc;
use std::ffi::OsString;

/// Servers and proxies allocate small buffers at a high rate on many threads.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// A memcached-compatible cache cluster that keeps its own load even.
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version, propagate_version = true)]
struct Cli {
    /// End with the process of this id, which started this one
    #[arg(long, hide = true, value_name = "PID")]
    die_with: Option<u32>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A cache server: memcached's protocol, flags and statistics
    Server(Box<evenkeel_server::Args>),
    /// Lets unmodified memcached clients use the cluster
    Proxy(Box<evenkeel_proxy::Args>),
    /// Membership and the map of who holds what; never on the path of a request
    Coordinator(Box<evenkeel_coordinator::Args>),
    /// A whole cluster on this machine, on free ports
    Up(Box<up::Args>),
    /// Shows servers, their load and their hot keys, live
    Top(Box<top::Args>),
    /// Shows how loaded servers, workers and cachelets are, as the coordinator was told
    Cachelets(Box<cachelets::Args>),
    /// Shows and steers how load is evened out between servers
    Plans(Box<plans::Args>),
    /// Empties a server before it is taken away
    Drain(Box<drain::Args>),
    /// Removes servers that are gone
    Servers {
        #[command(subcommand)]
        command: servers::Command,
    },
    /// Shows proxies, and removes such as are gone
    Proxies(Box<proxies::Args>),
    /// Shows and steers how pools pass from former servers to their own
    Changes(Box<changes::Args>),
    /// Shows rings of pools whose hash space follows the load, and moves parts of them
    Ring(Box<ring::Args>),
    /// Shows and steers how servers of rings come and go by themselves
    Scale(Box<scale::Args>),
    /// Shows pools that keep copies for wide multi-gets, and switches these on and off
    Bundle(Box<bundle::Args>),
    /// Shows and switches architectures of pools over racks, and checks how keys stand
    Locality(Box<locality::Args>),
    /// Shows how applications use a cache, as proxies have recorded it
    Profile(Box<profile::Args>),
    /// Says which architecture an application should have, by its profile
    Advise(Box<advise::Args>),
    /// Shows and changes the settings of a cluster
    Settings(Box<settings::Args>),
    /// Says where keys go through a proxy, and why
    Explain(Box<evenkeel_proxy::ExplainArgs>),
    /// Measures memcached-speaking servers
    Bench {
        #[command(subcommand)]
        command: Bench,
    },
    /// Repeats the papers' experiments and our own, one command each
    Experiment {
        #[command(subcommand)]
        command: evenkeel_experiments::ExperimentCommand,
    },
    /// Simulates whole clusters in virtual time, with faults
    Sim {
        #[command(subcommand)]
        command: Sim,
    },
    /// Prints the version
    Version,
}

#[derive(Debug, Subcommand)]
enum Sim {
    /// Runs clusters from seeds, with faults, and checks what their clients see
    Run(Box<evenkeel_sim::command::RunArgs>),
    /// Tells the story of one run, line by line
    Replay(Box<evenkeel_sim::command::ReplayArgs>),
    /// Simulates load and latency, on whole servers or on queues and decisions alone
    Load(Box<evenkeel_sim::command::LoadArgs>),
    /// Writes a model of what servers take, from reports of `evenkeel bench run --format json`
    Calibrate(Box<evenkeel_sim::command::CalibrateArgs>),
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Puts load on servers and reports throughput and latency
    Run(Box<evenkeel_bench::RunArgs>),
    /// Searches the highest rate at which a server keeps its latency within an objective
    Find(Box<evenkeel_bench::FindArgs>),
    /// Measures peers that are installed here (memcached, redis, nutcracker) beside Evenkeel
    Compare(Box<evenkeel_bench::CompareArgs>),
    /// Measures the server beside memcached and an echo server, with the goals beside the figures
    Suite(evenkeel_bench::SuiteArgs),
    /// Measures the proxy beside memcached's own and twemproxy, with the goals beside the figures
    SuiteProxy(evenkeel_bench::ProxySuiteArgs),
    /// Measures the load generator beside a loop that does next to nothing
    SuiteGenerator(evenkeel_bench::GeneratorSuiteArgs),
    /// Puts a network path in front of a server: delay, losses, resets, a bound on bytes a second
    Relay(evenkeel_bench::RelayArgs),
    /// Answers with bytes made beforehand: the ceiling that the sockets set for a server
    #[command(hide = true)]
    Echo(evenkeel_bench::EchoArgs),
}

fn main() -> std::process::ExitCode {
    let cli = match parse(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(Refusal::Flags(error)) => return usage::explain(&error).into(),
        Err(Refusal::File(error)) => return outcome(Err(error.into())).into(),
    };
    if let Some(Err(error)) = cli.die_with.map(die_with_parent) {
        eprintln!("evenkeel: failed to start: {error}");
        return ExitCode::Failed.into();
    }
    if matches!(
        cli.command,
        Command::Server(_) | Command::Proxy(_) | Command::Coordinator(_)
    ) {
        warn_of_unknown_variables();
    }
    match cli.command {
        Command::Server(args) => outcome(evenkeel_server::run(&args)).into(),
        Command::Proxy(args) => outcome(evenkeel_proxy::run(*args)).into(),
        Command::Coordinator(args) => match evenkeel_coordinator::run(&args) {
            Ok(()) => ExitCode::Fine.into(),
            Err(error) => {
                eprintln!("evenkeel: {error}");
                error.exit_code().into()
            }
        },
        Command::Up(args) => outcome(up::run(&args)).into(),
        Command::Top(args) => outcome(top::run(&args)).into(),
        Command::Cachelets(args) => outcome(cachelets::run(&args)).into(),
        Command::Plans(args) => outcome(plans::run(&args)).into(),
        Command::Drain(args) => outcome(drain::run(&args)).into(),
        Command::Servers { command } => outcome(servers::run(&command)).into(),
        Command::Proxies(args) => outcome(proxies::run(&args)).into(),
        Command::Changes(args) => outcome(changes::run(&args)).into(),
        Command::Ring(args) => outcome(ring::run(&args)).into(),
        Command::Scale(args) => outcome(scale::run(&args)).into(),
        Command::Bundle(args) => outcome(bundle::run(&args)).into(),
        Command::Locality(args) => outcome(locality::run(&args)).into(),
        Command::Profile(args) => outcome(profile::run(&args)).into(),
        Command::Advise(args) => outcome(advise::run(&args)).into(),
        Command::Settings(args) => outcome(settings::run(&args)).into(),
        Command::Explain(args) => outcome(evenkeel_proxy::explain(&args)).into(),
        Command::Bench { command } => match command {
            Bench::Run(args) => evenkeel_bench::execute(&args),
            Bench::Find(args) => evenkeel_bench::execute_find(&args),
            Bench::Compare(args) => evenkeel_bench::execute_compare(&args),
            Bench::Suite(args) => evenkeel_bench::execute_suite(&args),
            Bench::SuiteProxy(args) => evenkeel_bench::execute_proxy_suite(&args),
            Bench::SuiteGenerator(args) => evenkeel_bench::execute_generator_suite(&args),
            Bench::Relay(args) => evenkeel_bench::execute_relay(&args),
            Bench::Echo(args) => evenkeel_bench::execute_echo(&args),
        }
        .into(),
        Command::Experiment { command } => evenkeel_experiments::execute(&command).into(),
        Command::Sim { command } => match command {
            Sim::Run(args) => evenkeel_sim::command::execute_run(&args),
            Sim::Replay(args) => evenkeel_sim::command::execute_replay(&args),
            Sim::Load(args) => evenkeel_sim::command::execute_load(&args),
            Sim::Calibrate(args) => evenkeel_sim::command::execute_calibrate(&args),
        }
        .into(),
        Command::Version => outcome(version()).into(),
    }
}

fn version() -> anyhow::Result<()> {
    Ok(print_line(Cli::command().render_version().trim_end())?)
}

/// A setting that is misspelled in a service's environment would otherwise never be noticed.
fn warn_of_unknown_variables() {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in environment::unknown(names, &Cli::command()) {
        eprintln!("evenkeel: {name}: there is no setting of this name");
    }
}

/// Why a command line cannot be used.
#[derive(Debug)]
enum Refusal {
    /// It is wrong itself, or asks for help.
    Flags(clap::Error),
    /// A file that it names is.
    File(UsageError),
}

/// Reads the command line, and what the files that it names put before a subcommand's own flags.
fn parse(mut arguments: Vec<OsString>) -> Result<Cli, Refusal> {
    let mut matches = Cli::command()
        .try_get_matches_from(&arguments)
        .map_err(Refusal::Flags)?;
    if let Some(("server", given)) = matches.subcommand() {
        let (more, warnings) = evenkeel_server::file_arguments(given).map_err(Refusal::File)?;
        for warning in warnings {
            eprintln!("evenkeel server: {warning}");
        }
        let name = arguments.iter().position(|word| word == "server");
        if let Some(name) = name.filter(|_| !more.is_empty()) {
            arguments.splice(name + 1..name + 1, more);
            matches = Cli::command()
                .try_get_matches_from(&arguments)
                .map_err(Refusal::Flags)?;
        }
    }
    Cli::from_arg_matches(&matches).map_err(Refusal::Flags)
}

/// Reports an error in one line, and says how the process ends.
fn outcome(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::Fine,
        Err(error) => report(error.chain()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
