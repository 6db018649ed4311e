//! A program of the operator's that starts servers and stops them, wherever they are.
//!
//! It is run as `PROGRAM add NAME`, `PROGRAM remove NAME` and `PROGRAM list`, without a shell. It ends with 0 when what was asked is done.
//! `add` prints `{"name": NAME, "address": "HOST:PORT"}`, `list` an array of such objects; what `remove` prints is not looked at.
//!
//! Nothing that it says is believed which contradicts itself: a name or an address that stands there twice, another name than was asked.

use crate::run::run;
use crate::{Actuator, Failed, check_name, is_address};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// Time for one run of the program: a container is scheduled and started in it.
pub const COMMAND_WITHIN: Duration = Duration::from_secs(60);

/// Starts and stops servers by a program.
#[derive(Debug)]
pub struct CommandActuator {
    program: PathBuf,
    within: Duration,
}

/// A server, as the program says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    name: String,
    address: String,
}

impl CommandActuator {
    /// By this program, which is looked for in `PATH` where it is a mere name.
    pub fn new(program: PathBuf) -> Self {
        CommandActuator {
            program,
            within: COMMAND_WITHIN,
        }
    }

    fn ask(&self, arguments: &[&str]) -> Result<Vec<u8>, Failed> {
        run(&self.program, arguments, self.within)
    }

    fn read<T: DeserializeOwned>(&self, said: &[u8]) -> Result<T, Failed> {
        serde_json::from_slice(said).map_err(|error| self.nonsense(error.to_string()))
    }

    fn check(&self, server: &Server) -> Result<(), Failed> {
        check_name(&server.name).map_err(|bad| self.nonsense(bad.to_string()))?;
        match is_address(&server.address) {
            true => Ok(()),
            false => Err(self.nonsense(format!("{:?} is no address", server.address))),
        }
    }

    fn nonsense(&self, what: String) -> Failed {
        Failed::Nonsense {
            program: self.program.clone(),
            what,
        }
    }
}

impl Actuator for CommandActuator {
    fn add(&mut self, name: &str) -> Result<String, Failed> {
        check_name(name)?;
        let server: Server = self.read(&self.ask(&["add", name])?)?;
        self.check(&server)?;
        match server.name == name {
            true => Ok(server.address),
            false => Err(self.nonsense(format!(
                "it was to add {name} and has added {}",
                server.name
            ))),
        }
    }

    fn remove(&mut self, name: &str) -> Result<(), Failed> {
        check_name(name)?;
        self.ask(&["remove", name]).map(drop)
    }

    fn list(&mut self) -> Result<BTreeMap<String, String>, Failed> {
        let servers: Vec<Server> = self.read(&self.ask(&["list"])?)?;
        let mut listed = BTreeMap::new();
        let mut addresses = BTreeSet::new();
        for server in servers {
            self.check(&server)?;
            if !addresses.insert(server.address.clone()) {
                return Err(self.nonsense(format!("{} is there twice", server.address)));
            }
            let name = server.name.clone();
            if listed.insert(server.name, server.address).is_some() {
                return Err(self.nonsense(format!("{name} is there twice")));
            }
        }
        Ok(listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts::{ends, script};
    use std::fs;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use tempfile::{TempDir, tempdir};

    /// An actuator whose program is this script. The folder is the script's first word, `$d`.
    fn actuator(body: &str) -> (TempDir, CommandActuator) {
        let folder = tempdir().unwrap();
        let body = format!("d='{}'\n{body}", folder.path().display());
        let program = script(folder.path(), "scaler", &body);
        (folder, CommandActuator::new(program))
    }

    fn says(text: &str) -> (TempDir, CommandActuator) {
        actuator(&format!("printf '%s' '{text}'"))
    }

    /// Keeps servers as files.
    const KEEPER: &str = r#"
entry() { printf '{"name": "%s", "address": "%s"}' "$1" "$(cat "$d/$1.server")"; }
case $1 in
add) [ -e "$d/$2.server" ] || { echo started >> "$d/starts"; echo "10.0.0.7:11211" > "$d/$2.server"; }
    entry "$2" ;;
remove) rm -f "$d/$2.server"; echo bye ;;
list) comma=; printf '['
    for file in "$d"/*.server; do
        [ -e "$file" ] || continue
        name=${file##*/}; printf '%s' "$comma"; entry "${name%.server}"; comma=,
    done; printf ']' ;;
esac
"#;

    #[test]
    fn a_server_is_added_once_listed_and_removed() {
        let (folder, mut actuator) = actuator(KEEPER);
        assert_eq!(actuator.list().unwrap(), BTreeMap::new());
        for _ in 0..2 {
            assert_eq!(actuator.add("main-1").unwrap(), "10.0.0.7:11211");
        }
        let starts = fs::read_to_string(folder.path().join("starts")).unwrap();
        assert_eq!(starts, "started\n");
        let listed = BTreeMap::from([("main-1".to_owned(), "10.0.0.7:11211".to_owned())]);
        assert_eq!(actuator.list().unwrap(), listed);
        for _ in 0..2 {
            actuator.remove("main-1").unwrap();
        }
        assert_eq!(actuator.list().unwrap(), BTreeMap::new());
    }

    #[test]
    fn the_program_that_the_page_shows_runs_memcacheds() {
        let page = include_str!("../../../docs/scaling.md");
        let (_, shown) = page.split_once("```sh\n#!/bin/sh\n").expect("a program");
        let (body, _) = shown.split_once("```").expect("it ends");
        let folder = tempdir().unwrap();
        let mut actuator = CommandActuator::new(script(folder.path(), "our-scaler", body));
        assert_eq!(actuator.list().unwrap(), BTreeMap::new());
        let address = actuator.add("main-1").unwrap();
        assert_eq!(actuator.add("main-1").unwrap(), address);
        let mut server = TcpStream::connect(&address).unwrap();
        server.write_all(b"version\r\nquit\r\n").unwrap();
        let mut said = String::new();
        server.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("VERSION "), "{said}");
        let other = actuator.add("main-2").unwrap();
        let listed = [("main-1", address), ("main-2", other)];
        let listed = listed.map(|(name, at)| (name.to_owned(), at));
        assert_eq!(actuator.list().unwrap(), BTreeMap::from(listed));
        for name in ["main-1", "main-2", "main-2"] {
            actuator.remove(name).unwrap();
        }
        assert_eq!(actuator.list().unwrap(), BTreeMap::new());
    }

    #[test]
    fn what_a_program_adds_otherwise_than_asked_is_refused() {
        for (said, what) in [
            ("", "EOF while parsing"),
            ("added", "expected value"),
            ("[]", "invalid length 0"),
            (r#"{"name": "a-1"}"#, "missing field `address`"),
            (
                r#"{"name": "a-1", "address": "h:1", "port": 1}"#,
                "unknown field `port`",
            ),
            (
                r#"{"name": "a-2", "address": "h:1"}"#,
                "it was to add a-1 and has added a-2",
            ),
            (r#"{"name": "a-1", "address": "h"}"#, "is no address"),
            (r#"{"name": "a-1", "address": ":1"}"#, "is no address"),
            (r#"{"name": "a-1", "address": "h:0"}"#, "is no address"),
            (r#"{"name": "a-1", "address": "h:65536"}"#, "is no address"),
            (r#"{"name": "a-1", "address": "h i:1"}"#, "is no address"),
            (
                r#"{"name": "a-1", "address": "h:1"}{"name": "a-1", "address": "h:1"}"#,
                "trailing characters",
            ),
        ] {
            let (_folder, mut actuator) = says(said);
            let error = actuator.add("a-1").unwrap_err().to_string();
            assert!(
                error.contains("makes no sense") && error.contains(what),
                "{said}: {error}"
            );
        }
    }

    #[test]
    fn lists_that_contradict_themselves_are_refused() {
        for (said, what) in [
            ("{}", "invalid type"),
            (
                r#"[{"name": "a", "address": "h:1"}, {"name": "a", "address": "h:2"}]"#,
                "a is there twice",
            ),
            (
                r#"[{"name": "a", "address": "h:1"}, {"name": "b", "address": "h:1"}]"#,
                "h:1 is there twice",
            ),
            (r#"[{"name": "../a", "address": "h:1"}]"#, "cannot be named"),
        ] {
            let (_folder, mut actuator) = says(said);
            let error = actuator.list().unwrap_err().to_string();
            assert!(error.contains(what), "{said}: {error}");
        }
    }

    #[test]
    fn a_program_that_fails_is_told_with_its_words() {
        let (_folder, mut actuator) = actuator("echo no quota >&2; echo left >&2; exit 3");
        for failed in [
            actuator.add("a").unwrap_err(),
            actuator.remove("a").unwrap_err(),
            actuator.list().unwrap_err(),
        ] {
            let said = failed.to_string();
            assert!(
                said.ends_with("ended with exit status: 3: no quota; left"),
                "{said}"
            );
        }
        let mut absent = CommandActuator::new("/nowhere/scaler".into());
        let said = absent.list().unwrap_err().to_string();
        assert!(said.starts_with("cannot start /nowhere/scaler: "), "{said}");
        let said = absent.add("-rf").unwrap_err().to_string();
        assert_eq!(said, "a server cannot be named \"-rf\"");
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_what_it_has_started() {
        let body = "sleep 600 & echo $! > $d/pid; mv $d/pid $d/child; wait";
        let (folder, mut actuator) = actuator(body);
        let child = folder.path().join("child");
        // Until it had the time to start something.
        for doubling in 0..10 {
            actuator.within = Duration::from_millis(100 << doubling);
            let failed = actuator.add("a").unwrap_err();
            assert!(matches!(failed, Failed::TooSlow { .. }), "{failed}");
            if child.exists() {
                break;
            }
        }
        ends(fs::read_to_string(child).unwrap().trim().parse().unwrap());
    }

    #[test]
    fn a_program_that_says_a_hundred_megabytes_is_killed() {
        for body in [
            "exec head -c 100000000 /dev/zero",
            "exec head -c 100000000 /dev/zero >&2",
        ] {
            let (_folder, mut actuator) = actuator(body);
            let failed = actuator.list().unwrap_err();
            assert!(matches!(failed, Failed::TooLong { .. }), "{failed}");
        }
    }

    #[test]
    fn what_a_program_has_started_and_holds_its_streams_is_not_waited_for() {
        let body = r#"sleep 600 & echo $! > $d/child; echo '{"name": "a", "address": "h:1"}'"#;
        let (folder, mut actuator) = actuator(body);
        assert_eq!(actuator.add("a").unwrap(), "h:1");
        let child = fs::read_to_string(folder.path().join("child")).unwrap();
        let child = rustix::process::Pid::from_raw(child.trim().parse().unwrap()).unwrap();
        // It was left alone: it could be the server.
        rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
    }
}
