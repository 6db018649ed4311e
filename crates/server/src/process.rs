//! `evenkeel server` as a process: who it runs as and where, what it says when it serves, and what
//! ends it.
//!
//! The order matters. Limits are raised while this may still be root; then it stops being root, for
//! good; only then are files and ports opened, so that whatever works at the start works again later
//! (certificates that are read anew). The background half splits off before any thread exists.

use crate::args::{Args, Extended};
use crate::credentials;
use crate::listeners::write_ports;
use crate::start::Server;
use anyhow::Context;
use evenkeel_runtime::{
    Daemon, ExitCode, HttpPort, MemoryRoom, PidFile, ProcessSignal, ProcessSignals, UsageError,
    allow_core_files, become_user, daemonize, give_back_at_once, is_root, keep_huge_pages_whole,
    lift_lock_limit, lock_memory, raise_descriptor_limit, why_no_huge_pages,
};
use evenkeel_types::VERSION;
use sd_notify::NotifyState;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use tracing::{info, warn};

/// Where memcached's users let it write the ports that it listens on.
const PORT_FILE_VARIABLE: &str = "MEMCACHED_PORT_FILENAME";

/// What a server takes besides its limit at most (docs/server.md): this part of it, and this many MiB.
const LIMIT_BY_MORE: u64 = 20;
const MORE_MB: u64 = 64;

const LICENSE: &str = include_str!("../../../LICENSE");

/// Runs a server until a signal ends it.
///
/// # Errors
/// [`UsageError`] when a flag, a file or an address cannot be used; others when the machine refuses.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.version || args.license {
        return print(&if args.version {
            version_line(args.compat)
        } else {
            LICENSE.to_owned()
        });
    }
    args.log.start("evenkeel server");
    let (extended, warnings) = args.check()?;
    for warning in warnings {
        warn!("{warning}");
    }
    if let Some(room) = MemoryRoom::of_this_process()
        && let Some(warning) = beyond(room, args.memory_limit)
    {
        warn!("{warning}");
    }
    choose_pages(args.huge_pages);
    let daemon = prepare(args)?;
    let started = Running::start(args, &extended);
    match (started, daemon) {
        (Ok(running), daemon) => running.serve(args, daemon),
        (Err(error), Some(daemon)) => {
            daemon.failed(ExitCode::of(error.chain()));
            Err(error)
        }
        (Err(error), None) => Err(error),
    }
}

/// What is to be said where a server with this limit (`-m`), once it is full, takes more memory than it may.
fn beyond(room: MemoryRoom, megabytes: usize) -> Option<String> {
    let [room_mb, limit_mb] = [room.bytes >> 20, megabytes as u64];
    let most_mb = limit_mb.saturating_add(limit_mb / LIMIT_BY_MORE + MORE_MB);
    if most_mb <= room_mb {
        return None;
    }
    let fits = room_mb.saturating_sub(MORE_MB) * LIMIT_BY_MORE / (LIMIT_BY_MORE + 1);
    let advice = match fits {
        0 => "give it more".to_owned(),
        _ => format!("-m {fits} fits"),
    };
    let whose = match room.is_limit {
        true => "the control group (container) may take",
        false => "this machine has",
    };
    Some(format!(
        "-m {limit_mb}: a full server takes up to {most_mb} MiB with its connections, and {whose} {room_mb} MiB: the \
         kernel ends it then; {advice}"
    ))
}

/// Says how memory goes back to the machine, and what comes of `-L`.
fn choose_pages(huge: bool) {
    if !huge {
        return give_back_at_once();
    }
    match why_no_huge_pages() {
        None => {
            keep_huge_pages_whole();
            warn!(
                "-L: transparent huge pages as far as the kernel finds room for them, see AnonHugePages in \
                 /proc/PID/smaps_rollup"
            );
        }
        Some(why) => {
            give_back_at_once();
            warn!("-L: no huge pages, because {why}");
        }
    }
}

/// `evenkeel server 0.1.0 (memcached 1.6.45 compatible)`, or for programs that look for memcached's
/// words, those.
fn version_line(compat: bool) -> String {
    let memcached = VERSION.split('-').next().unwrap_or(VERSION);
    if compat {
        format!("memcached {memcached}\n")
    } else {
        format!(
            "evenkeel server {} (memcached {memcached} compatible)\n",
            env!("CARGO_PKG_VERSION")
        )
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("failed to write")
}

/// Makes the process what the command line wants it to be.
fn prepare(args: &Args) -> anyhow::Result<Option<Daemon>> {
    if args.enable_coredumps {
        allow_core_files()?;
    }
    raise_descriptor_limit(args.conn_limit)?;
    if args.lock_memory {
        lift_lock_limit();
    }
    if is_root() {
        match &args.user {
            Some(user) => become_user(user)?,
            None => {
                return Err(UsageError(
                    "root has to say whom to run as: -u USER (-u root stays root)".into(),
                )
                .into());
            }
        }
    }
    let daemon = if args.daemon {
        Some(daemonize().context("-d: failed to go into the background")?)
    } else {
        None
    };
    if args.lock_memory {
        // Locked by the process that will serve: a copy of a process inherits no locks.
        if let Err(error) = lock_memory() {
            warn!("-k: memory is not locked: {error}");
        }
    }
    Ok(daemon)
}

/// A server with the files that tell others of it.
struct Running {
    server: Server,
    signals: ProcessSignals,
    pid_file: Option<PidFile>,
    admin: Option<HttpPort>,
}

impl Running {
    fn start(args: &Args, extended: &Extended) -> anyhow::Result<Running> {
        let server = Server::start(args, extended)?;
        let signals = ProcessSignals::take(&[
            ProcessSignal::Stop,
            ProcessSignal::Drain,
            ProcessSignal::Reload,
        ])
        .context("failed to take signals")?;
        if let Some(path) = std::env::var_os(PORT_FILE_VARIABLE) {
            write_ports(Path::new(&path), server.addresses()).with_context(|| {
                format!("{PORT_FILE_VARIABLE}: failed to write {}", path.display())
            })?;
        }
        let pid_file = args.pidfile.as_ref().and_then(|path| {
            let told = PidFile::write(path);
            if let Ok((_, Some(pid))) = &told {
                warn!(
                    "-P {}: held the id of process {pid}, which runs",
                    path.display()
                );
            }
            // As memcached, which serves without the file rather than not at all.
            told.inspect_err(|error| {
                warn!("-P {}: {error}", path.display());
            })
            .ok()
            .map(|(file, _)| file)
        });
        let admin = match args.admin {
            Some(address) => Some(HttpPort::start(address, server.pages().into_answers())?),
            None => None,
        };
        if let Some(admin) = &admin {
            info!("probes are answered on {}", admin.address());
        }
        Ok(Running {
            server,
            signals,
            pid_file,
            admin,
        })
    }

    /// Says that it is ready, and serves until a signal ends it.
    fn serve(mut self, args: &Args, daemon: Option<Daemon>) -> anyhow::Result<()> {
        println!("evenkeel server listening on {}", self.server.name());
        std::io::stdout()
            .flush()
            .context("failed to write the ready line")?;
        if let Some(daemon) = daemon {
            daemon
                .ready(args.log.verbose > 0, args.enable_coredumps)
                .context("-d: failed to go into the background")?;
        }
        tell_supervisor(NotifyState::Ready);
        let drain = loop {
            match self.signals.wait() {
                ProcessSignal::Stop
                    if self
                        .server
                        .hand_over(Duration::from_secs(args.drain_timeout.into())) =>
                {
                    info!("hands over what it has; a second signal ends it at once");
                }
                ProcessSignal::Stop => break false,
                ProcessSignal::Drain => break true,
                ProcessSignal::Reload => self.reload(args),
            }
        };
        tell_supervisor(NotifyState::Stopping);
        if let Some(admin) = self.admin {
            admin.stop();
        }
        let ended = if drain {
            self.server.drain()
        } else {
            self.server.stop()
        };
        drop(self.pid_file);
        ended
    }
}

impl Running {
    /// Reads anew what may have changed in files. What cannot be read stays as it was.
    fn reload(&self, args: &Args) {
        match self.server.reload_certificates() {
            Ok(false) => {}
            Ok(true) => info!("read the certificates"),
            Err(error) => warn!("kept the certificates there were: {error}"),
        }
        let Some(file) = args.credentials_file() else {
            return;
        };
        match credentials::load(file) {
            Ok((credentials, warning)) => {
                self.server.set_credentials(&credentials);
                let warning = warning.map_or_else(String::new, |warning| format!("; {warning}"));
                info!("read {}{warning}", file.display());
            }
            Err(error) => warn!("kept the users there were: {error}"),
        }
    }
}

/// Tells systemd, where it started this process as a service of `Type=notify`.
fn tell_supervisor(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        warn!("failed to tell the service manager: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_does_not_fit_is_told_with_one_that_does() {
        let room = |megabytes: u64, is_limit| MemoryRoom {
            bytes: megabytes << 20,
            is_limit,
        };
        assert_eq!(beyond(room(1024, true), 914), None);
        let told = beyond(room(1024, true), 1024).expect("it does not fit");
        for part in ["1139 MiB", "(container) may take 1024 MiB", "-m 914 fits"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let told = beyond(room(8192, false), usize::MAX).expect("it does not fit");
        assert!(told.contains("this machine has 8192 MiB"), "{told}");
        assert!(beyond(room(32, true), 1).is_some_and(|it| it.ends_with("give it more")));
    }
}
