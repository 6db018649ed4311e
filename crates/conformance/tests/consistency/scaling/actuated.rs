//! Servers that a coordinator's actuator starts: what it has started, and what runs.

use super::pool::Kind;
use evenkeel_testkit::binary;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What starts servers, and stops them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actuator {
    /// The coordinator by itself.
    Process,
    /// A program of an operator's. What it has started outlives the coordinator.
    Command,
}

/// A server that writes down that it is started, and does not listen while a file is there.
const SERVER: &str = r#"#!/bin/sh
echo "${MEMCACHED_PORT_FILENAME##*/}" >> "$FOLDER/starts"
while [ -e "$FOLDER/hold" ]; do sleep 0.02; done
exec $COMMAND "$@"
"#;

/// An operator's program that writes down what it starts, and starts nothing while a file is there. One that a killed coordinator has asked goes
/// on, so two may be asked for the same server at once: they wait for each other.
const PROGRAM: &str = r#"#!/bin/sh
set -e
cd "$FOLDER/servers"
runs() { [ "$(readlink "/proc/$(cat "$1.pid" 2> /dev/null)/fd/2")" = "$PWD/$1.log" ]; }
entry() { printf '{"name": "%s", "address": "127.0.0.1:%s"}' "$1" "$(sed -n 's/^TCP INET: //p' "$1.port")"; }
case $1 in
add)
    echo "$2 $$" > ../asked
    while [ -e ../hold ]; do sleep 0.02; done
    exec 9> ../lock
    flock 9
    if ! runs "$2"; then
        echo "$2.port" >> ../starts
        rm -f "$2.port"
        MEMCACHED_PORT_FILENAME="$PWD/$2.port" memcached -u root -t 1 -l 127.0.0.1 -p -1 -U 0 \
            < /dev/null > /dev/null 2> "$2.log" 9>&- &
        echo $! > "$2.pid"
    fi
    until runs "$2" && [ -s "$2.port" ]; do sleep 0.02; done
    entry "$2" ;;
remove)
    exec 9> ../lock
    flock 9
    if runs "$2"; then kill "$(cat "$2.pid")"; fi
    while runs "$2"; do sleep 0.02; done
    rm -f "$2.port" "$2.pid" ;;
list)
    printf '['
    comma=
    for file in *.pid; do
        name=${file%.pid}
        if runs "$name" && [ -s "$name.port" ]; then printf '%s' "$comma"; entry "$name"; comma=,; fi
    done
    printf ']' ;;
esac
"#;

/// A folder for a coordinator with an actuator. What runs of it is killed when this is dropped.
pub struct Actuated {
    folder: tempfile::TempDir,
    kind: Kind,
    by: Actuator,
}

/// What the actuator starts comes to its end when this is dropped.
pub struct Hold(PathBuf);

impl Actuated {
    pub fn new(kind: Kind, by: Actuator) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let actuated = Actuated { folder, kind, by };
        fs::create_dir(actuated.servers()).expect("room");
        let program = actuated.folder().join("program");
        let text = match by {
            Actuator::Process => SERVER,
            Actuator::Command => PROGRAM,
        };
        let text = text.replace("$COMMAND", &actuated.command());
        let text = text.replace("$FOLDER", &actuated.folder().display().to_string());
        // Another process writes it, as what is open for writing anywhere cannot be started.
        let written = Command::new("sh")
            .args(["-c", "printf '%s' \"$1\" > \"$0\" && chmod 755 \"$0\""])
            .arg(&program)
            .arg(text)
            .status();
        assert!(written.expect("a shell is there").success());
        let program = format!("program = '{}'\n", program.display());
        let file = match by {
            Actuator::Process => format!(
                "[process]\n{program}arguments = ['-u', 'root', '-t', '1'{}]\nfolder = '{}'\n",
                match kind {
                    Kind::Ring => "",
                    Kind::Cluster => ", '--name', '{name}', '-m', '64'",
                },
                actuated.servers().display()
            ),
            Actuator::Command => format!("[command]\n{program}"),
        };
        fs::write(actuated.file(), file).expect("room");
        actuated
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What a server is, for a shell.
    fn command(&self) -> String {
        match self.kind {
            Kind::Ring => "memcached".to_owned(),
            Kind::Cluster => {
                let program = binary::evenkeel().display();
                format!("{program} server --coordinator \"$(cat \"$FOLDER/url\")\"")
            }
        }
    }

    /// Members find their coordinator here.
    pub fn begin_at(&self, coordinator: &str) {
        fs::write(self.folder().join("url"), coordinator).expect("room");
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file that says which actuator there is.
    pub fn file(&self) -> PathBuf {
        self.folder().join("scaler.toml")
    }

    fn servers(&self) -> PathBuf {
        self.folder().join("servers")
    }

    /// Whether all ends with the coordinator.
    pub fn ends_with_coordinator(&self) -> bool {
        self.by == Actuator::Process
    }

    /// From now on no start comes to its end.
    pub fn hold(&self) -> Hold {
        let path = self.folder().join("hold");
        fs::write(&path, "").expect("room");
        Hold(path)
    }

    /// The names of all servers that were started, oldest first.
    pub fn starts(&self) -> Vec<String> {
        let starts = fs::read_to_string(self.folder().join("starts")).unwrap_or_default();
        let names = starts.lines().filter_map(|it| it.strip_suffix(".port"));
        names.map(str::to_owned).collect()
    }

    /// What runs: the address of each name, once it is known.
    pub fn running(&self) -> BTreeMap<String, Option<SocketAddr>> {
        let running = self.processes().into_iter();
        running
            .map(|(_, name)| (name.clone(), self.address(&name)))
            .collect()
    }

    /// Whether a start is under way that was held.
    pub fn is_starting(&self, name: &str) -> bool {
        match self.by {
            Actuator::Process => self.running().contains_key(name),
            Actuator::Command => self.asked(name).is_some(),
        }
    }

    /// A start that was held comes to nothing: what hangs is killed.
    pub fn kill_start(&self, name: &str) {
        match self.by {
            Actuator::Process => self.kill(name),
            Actuator::Command => {
                if let Some(program) = self.asked(name) {
                    // It may have ended by itself.
                    let _ = kill_process_group(program, Signal::KILL);
                }
            }
        }
    }

    /// The operator's program that was asked last to start a server, if that is this one and it runs.
    fn asked(&self, name: &str) -> Option<Pid> {
        let asked = fs::read_to_string(self.folder().join("asked")).ok()?;
        let pid = asked.strip_prefix(name)?.trim();
        let runs = Path::new("/proc").join(pid).exists();
        Pid::from_raw(pid.parse().ok()?).filter(|_| runs)
    }

    /// A server is killed, with what it may have started.
    pub fn kill(&self, name: &str) {
        for (process, of) in self.processes() {
            if of == name {
                // It may have ended by itself.
                let _ = kill_process(process, Signal::KILL);
            }
        }
    }

    fn address(&self, name: &str) -> Option<SocketAddr> {
        let text = fs::read_to_string(self.servers().join(format!("{name}.port"))).ok()?;
        let port = text.lines().find_map(|it| it.strip_prefix("TCP INET: "))?;
        Some(([127, 0, 0, 1], port.trim().parse().ok()?).into())
    }

    /// All that have the standard error of a server, with its name. What has ended has none.
    fn processes(&self) -> Vec<(Pid, String)> {
        let entries = fs::read_dir("/proc").expect("processes can be listed");
        let servers = self.servers();
        let processes = entries.flatten().filter_map(|entry| {
            let said = fs::read_link(entry.path().join("fd/2")).ok()?;
            let file = said.strip_prefix(&servers).ok()?.to_str()?;
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((Pid::from_raw(pid)?, file.strip_suffix(".log")?.to_owned()))
        });
        processes.collect()
    }
}

impl Drop for Actuated {
    fn drop(&mut self) {
        for (process, _) in self.processes() {
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Without it all would hang, and that is told.
        let _ = fs::remove_file(&self.0);
    }
}
