//! The processes of `evenkeel`, started as a user starts them, on free loopback ports.

use std::process::Output;

use crate::process::{Builder, EXIT_DEADLINE};
use crate::{Process, binary};

/// Flags of a proxy whose servers are well: time-outs that a busy machine does not reach.
pub const LONG_TIMEOUTS: [&str; 4] = ["--connect-timeout", "30s", "--request-timeout", "50s"];

/// `evenkeel server` on a free port; returns when it is ready.
pub fn server(arguments: &[&str]) -> Process {
    // As root, the server insists on being told whom to run as.
    start(
        "server",
        &["-p", "0", "-l", "127.0.0.1", "-u", "root"],
        arguments,
    )
}

/// `evenkeel proxy` on a free port; returns when it is ready.
pub fn proxy(arguments: &[&str]) -> Process {
    proxy_at("127.0.0.1:0", arguments)
}

/// `evenkeel proxy` at this address; returns when it is ready.
pub fn proxy_at(address: &str, arguments: &[&str]) -> Process {
    start("proxy", &["-l", address], arguments)
}

/// `evenkeel coordinator` on a free port; returns when it is ready.
pub fn coordinator(arguments: &[&str]) -> Process {
    coordinator_at("127.0.0.1:0", arguments)
}

/// `evenkeel coordinator` at this address; returns when it is ready.
pub fn coordinator_at(address: &str, arguments: &[&str]) -> Process {
    start("coordinator", &["--listen", address], arguments)
}

/// A builder for any `evenkeel` command, without a ready line.
pub fn command(subcommand: &str) -> Builder {
    let program = match subcommand {
        "server" | "proxy" | "coordinator" => binary::next(),
        _ => binary::evenkeel(),
    };
    let version = match program == binary::evenkeel() {
        true => "",
        false => " of the other version",
    };
    Process::command(&format!("evenkeel {subcommand}{version}"), program).arg(subcommand)
}

fn start(subcommand: &str, address: &[&str], arguments: &[&str]) -> Process {
    command(subcommand)
        .args(address)
        .args(arguments)
        .ready_prefix(&format!("evenkeel {subcommand} listening on "))
        .spawn()
}

/// Runs `evenkeel` with `arguments` to its end, for exit codes and messages.
///
/// # Panics
/// When it does not end within [`EXIT_DEADLINE`].
pub fn run(arguments: &[&str]) -> Output {
    let mut process = Process::command(&format!("evenkeel {arguments:?}"), binary::evenkeel())
        .args(arguments)
        .spawn();
    let status = process.wait(EXIT_DEADLINE);
    Output {
        status,
        stdout: process.stdout_text().into_bytes(),
        stderr: process.stderr_text().into_bytes(),
    }
}
