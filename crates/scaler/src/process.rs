//! Memcacheds on this machine, or servers of Evenkeel, each on a free port.
//!
//! A server's standard error is a file with its name, and by that it is found among the processes of the machine: so a coordinator that was
//! killed finds what it has started, whatever it had written down, and a process id that another program has got since is never mistaken.
//! (The environment would say a name, too, but reads as empty while a process becomes another program.) The port is in a file that
//! memcached writes when it listens.
//!
//! Nothing is started again that has ended.

use crate::run::{await_end, one_line};
use crate::{Actuator, Failed, check_name};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time for a server to listen: most of it would go into preallocated memory.
pub const START_WITHIN: Duration = Duration::from_secs(30);

/// Time for a server to end when it is asked to. Then it is killed.
pub const STOP_WITHIN: Duration = Duration::from_secs(5);

/// What stands for a server's name in the arguments by which it is started.
pub const NAME: &str = "{name}";

/// Distance of looks at the file with the port.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Starts memcacheds on this machine.
#[derive(Debug)]
pub struct ProcessActuator {
    program: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
    host: IpAddr,
    keep: bool,
    start_within: Duration,
    stop_within: Duration,
    /// Those that this process has started, to be reaped.
    children: Vec<Child>,
}

impl ProcessActuator {
    /// Starts `program`, a memcached, with these arguments, in which [`NAME`] is the server's name, and behind them those for its address `host`
    /// and its port. Ports and what servers say are kept in `folder`, which is made. With `keep`, servers outlive this value.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new(
        program: PathBuf,
        arguments: Vec<String>,
        folder: &Path,
        host: IpAddr,
        keep: bool,
    ) -> Result<Self, Failed> {
        let made = fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
        Ok(ProcessActuator {
            program,
            arguments,
            folder: made.map_err(|source| Failed::Io {
                action: "use folder",
                path: folder.to_owned(),
                source,
            })?,
            host,
            keep,
            start_within: START_WITHIN,
            stop_within: STOP_WITHIN,
            children: Vec::new(),
        })
    }

    fn file(&self, name: &str, kind: &str) -> PathBuf {
        self.folder.join(format!("{name}.{kind}"))
    }

    fn address(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.file(name, "port")).ok()?;
        let mut lines = text.lines();
        let port = lines.find_map(|line| {
            line.strip_prefix("TCP INET: ")
                .or(line.strip_prefix("TCP INET6: "))
        })?;
        let port: u16 = port.trim().parse().ok()?;
        Some(SocketAddr::from((self.host, port)).to_string())
    }

    /// What runs of the folder: processes by name. O(processes of the machine).
    fn running(&mut self) -> Result<BTreeMap<String, Vec<OwnedFd>>, Failed> {
        self.reap();
        let proc = Path::new("/proc");
        let entries = fs::read_dir(proc).map_err(|source| Failed::Io {
            action: "list",
            path: proc.to_owned(),
            source,
        })?;
        let mut running: BTreeMap<String, Vec<OwnedFd>> = BTreeMap::new();
        for entry in entries.flatten() {
            if let Some((name, process)) = self.server_at(&entry.path()) {
                running.entry(name).or_default().push(process);
            }
        }
        Ok(running)
    }

    /// The name of a process, if it is a server of the folder. Others may end meanwhile, or not be ours to look at.
    fn server_at(&self, proc: &Path) -> Option<(String, OwnedFd)> {
        let pid = proc.file_name()?.to_str()?.parse().ok()?;
        self.name_at(proc)?;
        let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        // The number may have passed to another process before it was held.
        Some((self.name_at(proc)?, process))
    }

    fn name_at(&self, proc: &Path) -> Option<String> {
        let said = fs::read_link(proc.join("fd/2")).ok()?;
        let file = said.strip_prefix(&self.folder).ok()?.to_str()?;
        let name = file.strip_suffix(".log")?;
        check_name(name).ok().map(|()| name.to_owned())
    }

    /// Nobody else hears of the ends of those that this process has started.
    fn reap(&mut self) {
        self.children
            .retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }

    fn start(&mut self, name: &str) -> Result<(), Failed> {
        let (port, log) = (self.file(name, "port"), self.file(name, "log"));
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| Failed::Io {
                action,
                path,
                source,
            }
        };
        match fs::remove_file(&port) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("remove", &port)(error));
            }
            _ => {}
        }
        let said = File::create(&log).map_err(failed("write", &log))?;
        let mut command = Command::new(&self.program);
        command
            .args(self.arguments.iter().map(|it| it.replace(NAME, name)))
            // Where an argument says something else, the last one holds.
            .args(["-l", &self.host.to_string(), "-p", "-1", "-U", "0"])
            .env("MEMCACHED_PORT_FILENAME", &port)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            // A key that ends a coordinator in a terminal does not end what is to outlive it.
            .process_group(0);
        let started = command.spawn();
        self.children
            .push(started.map_err(failed("start", &self.program))?);
        Ok(())
    }

    /// Waits until a server listens that runs.
    fn await_address(&mut self, name: &str) -> Result<String, Failed> {
        let end = Instant::now() + self.start_within;
        while let Some(processes) = self.running()?.remove(name) {
            loop {
                if let Some(address) = self.address(name) {
                    return Ok(address);
                }
                if Instant::now() >= end {
                    return Err(Failed::TooSlow {
                        program: self.program.clone(),
                        within: self.start_within,
                    });
                }
                let waited = await_end(processes[0].as_fd(), LOOK_INTERVAL);
                if waited.map_err(self.unheard(name))? {
                    break;
                }
            }
        }
        let said = fs::read(self.file(name, "log")).unwrap_or_default();
        Err(Failed::Gone {
            program: self.program.clone(),
            told: one_line(&said),
        })
    }

    fn unheard(&self, name: &str) -> impl FnOnce(io::Error) -> Failed + use<> {
        let path = self.folder.join(name);
        move |source| Failed::Io {
            action: "wait for",
            path,
            source,
        }
    }

    fn stop(&self, processes: &[OwnedFd]) -> io::Result<()> {
        for (signal, within) in [
            (Signal::TERM, self.stop_within),
            (Signal::KILL, Duration::MAX),
        ] {
            let end = Instant::now().checked_add(within);
            for process in processes {
                // It may have ended.
                let _ = pidfd_send_signal(process, signal);
            }
            let mut left = 0;
            for process in processes {
                let within =
                    end.map_or(within, |end| end.saturating_duration_since(Instant::now()));
                left += usize::from(!await_end(process.as_fd(), within)?);
            }
            if left == 0 {
                break;
            }
        }
        Ok(())
    }
}

impl Actuator for ProcessActuator {
    fn add(&mut self, name: &str) -> Result<String, Failed> {
        check_name(name)?;
        if !self.running()?.contains_key(name) {
            self.start(name)?;
        }
        self.await_address(name)
    }

    fn remove(&mut self, name: &str) -> Result<(), Failed> {
        check_name(name)?;
        if let Some(processes) = self.running()?.remove(name) {
            self.stop(&processes).map_err(self.unheard(name))?;
            self.reap();
        }
        for kind in ["port", "log"] {
            // They are written anew where a server has this name again.
            let _ = fs::remove_file(self.file(name, kind));
        }
        Ok(())
    }

    fn list(&mut self) -> Result<BTreeMap<String, String>, Failed> {
        let running = self.running()?;
        let listed = running.into_keys().filter_map(|name| {
            let address = self.address(&name)?;
            Some((name, address))
        });
        Ok(listed.collect())
    }
}

impl Drop for ProcessActuator {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        let processes = self.running().unwrap_or_default();
        let processes: Vec<OwnedFd> = processes.into_values().flatten().collect();
        // Nobody is left who could be told.
        let _ = self.stop(&processes);
        self.reap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts::{DEADLINE, ends, script};
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpStream};
    use tempfile::{TempDir, tempdir};

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// Says that it listens, and does nothing.
    const LISTENS: &str = r#"
d=${MEMCACHED_PORT_FILENAME%/*}
echo "$@" >> "$d/starts"
echo $$ > "$d/pid"
echo 'TCP INET: 4711' > "$MEMCACHED_PORT_FILENAME.new"
mv "$MEMCACHED_PORT_FILENAME.new" "$MEMCACHED_PORT_FILENAME"
exec sleep 600
"#;

    fn actuator(folder: &TempDir, program: &Path, keep: bool) -> ProcessActuator {
        let arguments = ["--name={name}", "-m", "64"].map(str::to_owned).into();
        let folder = folder.path().join("servers");
        let mut actuator =
            ProcessActuator::new(program.to_owned(), arguments, &folder, LOOPBACK, keep).unwrap();
        (actuator.start_within, actuator.stop_within) = (DEADLINE, DEADLINE);
        actuator
    }

    fn starts(folder: &TempDir) -> String {
        fs::read_to_string(folder.path().join("servers/starts")).unwrap()
    }

    fn pid(folder: &TempDir) -> i32 {
        let text = fs::read_to_string(folder.path().join("servers/pid")).unwrap();
        text.trim().parse().unwrap()
    }

    #[test]
    fn a_server_is_started_once_listed_and_stopped() {
        let folder = tempdir().unwrap();
        let mut actuator = actuator(&folder, &script(folder.path(), "m", LISTENS), false);
        assert_eq!(actuator.list().unwrap(), BTreeMap::new());
        for _ in 0..2 {
            assert_eq!(actuator.add("main-1").unwrap(), "127.0.0.1:4711");
        }
        assert_eq!(
            starts(&folder),
            "--name=main-1 -m 64 -l 127.0.0.1 -p -1 -U 0\n"
        );
        let listed = BTreeMap::from([("main-1".to_owned(), "127.0.0.1:4711".to_owned())]);
        assert_eq!(actuator.list().unwrap(), listed);
        for _ in 0..2 {
            actuator.remove("main-1").unwrap();
            assert_eq!(actuator.list().unwrap(), BTreeMap::new());
        }
        ends(pid(&folder));
        assert_eq!(
            actuator.remove("../x").unwrap_err().to_string(),
            "a server cannot be named \"../x\""
        );
    }

    #[test]
    fn servers_end_with_their_actuator_and_outlive_it_if_they_are_to() {
        let folder = tempdir().unwrap();
        let program = script(folder.path(), "m", LISTENS);
        let mut first = actuator(&folder, &program, true);
        first.add("main-1").unwrap();
        drop(first);
        let mut second = actuator(&folder, &program, false);
        assert_eq!(second.list().unwrap().len(), 1);
        second.add("main-1").unwrap();
        assert_eq!(starts(&folder).lines().count(), 1);
        drop(second);
        ends(pid(&folder));
        let mut third = actuator(&folder, &program, false);
        assert_eq!(third.list().unwrap(), BTreeMap::new());
    }

    #[test]
    fn a_server_that_has_ended_is_neither_listed_nor_started_again() {
        let folder = tempdir().unwrap();
        let mut actuator = actuator(&folder, &script(folder.path(), "m", LISTENS), false);
        actuator.add("main-1").unwrap();
        let pid = pid(&folder);
        rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        ends(pid);
        for _ in 0..2 {
            assert_eq!(actuator.list().unwrap(), BTreeMap::new());
        }
        assert_eq!(starts(&folder).lines().count(), 1);
    }

    #[test]
    fn a_server_that_does_not_heed_its_end_is_killed_with_its_children() {
        let folder = tempdir().unwrap();
        let stubborn = LISTENS.replace("exec sleep 600", "trap '' TERM; sleep 600 & sleep 600");
        let program = script(folder.path(), "m", &format!("trap '' TERM\n{stubborn}"));
        let mut actuator = actuator(&folder, &program, false);
        actuator.stop_within = Duration::ZERO;
        actuator.add("main-1").unwrap();
        actuator.remove("main-1").unwrap();
        assert_eq!(actuator.list().unwrap(), BTreeMap::new());
        ends(pid(&folder));
    }

    #[test]
    fn a_server_that_ends_at_once_is_told_with_its_words() {
        let folder = tempdir().unwrap();
        let program = script(folder.path(), "m", "echo no memory >&2; exit 71");
        let mut actuator = actuator(&folder, &program, false);
        let said = actuator.add("main-1").unwrap_err().to_string();
        assert!(
            said.ends_with("has ended before it listened: no memory"),
            "{said}"
        );
        actuator.program = "/nowhere/memcached".into();
        let said = actuator.add("main-1").unwrap_err().to_string();
        assert!(
            said.starts_with("cannot start /nowhere/memcached: "),
            "{said}"
        );
    }

    #[test]
    fn a_server_that_never_listens_is_not_waited_for_and_can_be_removed() {
        let folder = tempdir().unwrap();
        let program = script(folder.path(), "m", "exec sleep 600");
        let mut actuator = actuator(&folder, &program, false);
        actuator.start_within = Duration::ZERO;
        let failed = actuator.add("main-1").unwrap_err();
        assert!(matches!(failed, Failed::TooSlow { .. }), "{failed}");
        assert_eq!(actuator.list().unwrap(), BTreeMap::new());
        assert_eq!(actuator.running().unwrap().len(), 1);
        actuator.remove("main-1").unwrap();
        assert_eq!(actuator.running().unwrap().len(), 0);
    }

    #[test]
    fn a_memcached_is_started_on_a_free_port_and_answers() {
        let folder = tempdir().unwrap();
        let mut actuator = actuator(&folder, Path::new("memcached"), false);
        // As root it wants to be told whom to run as; of others it asks nothing.
        actuator.arguments = vec!["-u".into(), "root".into()];
        let address = actuator
            .add("main-1")
            .expect("memcached is there: apt-get install memcached");
        let mut server = TcpStream::connect(&address).unwrap();
        server.write_all(b"version\r\nquit\r\n").unwrap();
        let mut said = String::new();
        server.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("VERSION "), "{said}");
        actuator.remove("main-1").unwrap();
        assert_eq!(actuator.list().unwrap(), BTreeMap::new());
    }
}
