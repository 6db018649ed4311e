//! Actuators of autoscaling: what starts servers and stops them, when a coordinator asks.
//!
//! An actuator knows a server by its name, which the coordinator gives. To add a name that runs already, or to remove one that does not, is
//! done at once: a coordinator that is started anew asks again for what may have been done.
//!
//! There are three, and a file says which. `process` starts memcacheds on this machine, or servers of Evenkeel; `command` runs a program of the operator's;
//! `kubernetes` adds pods to a StatefulSet. Calls block for a bounded time.

#![forbid(unsafe_code)]

mod command;
mod file;
mod kubernetes;
mod process;
mod run;
#[cfg(test)]
mod scripts;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

pub use command::{COMMAND_WITHIN, CommandActuator};
pub use file::{FileError, open};
pub use kubernetes::{ApiServer, KUBERNETES_WITHIN, KubernetesActuator};
pub use process::{NAME, ProcessActuator, START_WITHIN, STOP_WITHIN};
pub use run::OUTPUT_LEN_MAX;

/// Starts and stops servers by name.
pub trait Actuator: Debug + Send {
    /// Starts a server, unless one of this name runs. Gives its address, `HOST:PORT`.
    ///
    /// # Errors
    /// It did not start, or it is not known whether it did.
    fn add(&mut self, name: &str) -> Result<String, Failed>;

    /// Stops the server of this name, if there is one. When this returns it is gone.
    ///
    /// # Errors
    /// It may still run.
    fn remove(&mut self, name: &str) -> Result<(), Failed>;

    /// The addresses of all that run, by name.
    ///
    /// # Errors
    /// It is not known which do.
    fn list(&mut self) -> Result<BTreeMap<String, String>, Failed>;
}

/// Why an actuator has not done what it was asked. What has come of it is not known.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The name could be taken for something else.
    #[error("a server cannot be named {name:?}")]
    BadName {
        /// The name.
        name: String,
    },
    /// The system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A program took too long, and was killed; or pods did.
    #[error("{program} took longer than {within:?}")]
    TooSlow {
        /// The program, or the API server's URL.
        program: PathBuf,
        /// What it had.
        within: Duration,
    },
    /// A program said too much, and was killed.
    #[error("{program} said more than {OUTPUT_LEN_MAX} bytes")]
    TooLong {
        /// The program.
        program: PathBuf,
    },
    /// A program ended otherwise than well.
    #[error("{program} ended with {status}: {told}")]
    Ended {
        /// The program.
        program: PathBuf,
        /// How.
        status: ExitStatus,
        /// What it said on standard error.
        told: String,
    },
    /// A server has ended before it could be used.
    #[error("{program} has ended before it listened: {told}")]
    Gone {
        /// The program.
        program: PathBuf,
        /// What it said on standard error.
        told: String,
    },
    /// What a program or an API server said makes no sense.
    #[error("{program} said what makes no sense: {what}")]
    Nonsense {
        /// The program, or the API server's URL.
        program: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// An API server did not answer.
    #[error("cannot ask {server}: {why}")]
    Unheard {
        /// Its URL.
        server: String,
        /// Why not.
        why: String,
    },
    /// An API server said no.
    #[error("{server} answered {status}: {told}")]
    Refused {
        /// Its URL.
        server: String,
        /// The HTTP status.
        status: u16,
        /// Its words.
        told: String,
    },
    /// A StatefulSet gives up its last pod alone.
    #[error("{name} is pod {pod}, and the last one is {last}, which has to go first")]
    NotLast {
        /// The server.
        name: String,
        /// Its pod.
        pod: String,
        /// The last one.
        last: String,
    },
}

/// Longest name of a server: names are parts of files' names.
const NAME_LEN_MAX: usize = 200;

/// Names are arguments and parts of files' names.
fn check_name(name: &str) -> Result<(), Failed> {
    let is_sign = |sign: char| sign.is_ascii_alphanumeric() || "-_.:".contains(sign);
    let begins_well = name.starts_with(|sign: char| sign.is_ascii_alphanumeric());
    match begins_well && name.len() <= NAME_LEN_MAX && name.chars().all(is_sign) {
        true => Ok(()),
        false => Err(Failed::BadName { name: name.into() }),
    }
}

/// Whether this is `HOST:PORT`.
fn is_address(address: &str) -> bool {
    let parts = address.rsplit_once(':');
    parts.is_some_and(|(host, port)| {
        let is_sign = |sign: char| sign.is_ascii_graphic();
        let has_port = port.parse::<u16>().is_ok_and(|port| port > 0);
        !host.is_empty() && host.chars().all(is_sign) && has_port
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_neither_options_nor_paths() {
        for good in ["main-1", "a", "A.b_c:d-7"] {
            check_name(good).unwrap();
        }
        let long = "n".repeat(201);
        for bad in ["", "-x", "../x", "a/b", ".", "a b", "a\n", "é", "$x", &long] {
            let said = check_name(bad).unwrap_err().to_string();
            assert_eq!(said, format!("a server cannot be named {bad:?}"));
        }
    }
}
