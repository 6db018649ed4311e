//! Environment variables named `EVENKEEL_…`: which of them are read, and which are probably misspelled.
//!
//! For each Service, Kubernetes sets variables in the containers of its namespace that begin with the Service's name, as
//! `EVENKEEL_PORT=tcp://10.0.0.7:11211`. So nothing that has such a name is a setting of ours.

use clap::Command;
use std::collections::BTreeSet;

const PREFIX: &str = "EVENKEEL_";

/// Secrets, which are read where they are needed.
const SECRETS: [&str; 4] = [
    "EVENKEEL_COORDINATOR_API_TOKEN",
    "EVENKEEL_COORDINATOR_MEMBER_TOKEN",
    "EVENKEEL_COORDINATOR_TOKEN",
    "EVENKEEL_COORDINATOR_ETCD_PASSWORD",
];

/// What the project's own tests are told.
const OF_TESTS: [&str; 6] = [
    "EVENKEEL_BIN",
    "EVENKEEL_NIGHTLY",
    "EVENKEEL_SCOPE",
    "EVENKEEL_SEED",
    "EVENKEEL_SEEDS_FROM",
    "EVENKEEL_TEST_COORDINATOR_ARGUMENTS",
];

/// Those of these names that look like settings and are read by no part of the program.
pub fn unknown(names: impl Iterator<Item = String>, program: &Command) -> Vec<String> {
    let known = settings(program);
    let is_known = |name: &String| {
        known.contains(name)
            || SECRETS.contains(&name.as_str())
            || OF_TESTS.contains(&name.as_str())
    };
    let ours = names.filter(|name| name.starts_with(PREFIX));
    ours.filter(|name| !is_known(name) && !is_of_a_service(name))
        .collect()
}

/// The variables of all flags of all subcommands: the parts of one deployment may share an environment.
fn settings(program: &Command) -> BTreeSet<String> {
    let own = program.get_arguments().filter_map(|flag| flag.get_env());
    let mut names: BTreeSet<String> = own
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    for part in program.get_subcommands() {
        names.append(&mut settings(part));
    }
    names
}

/// Whether Kubernetes sets a variable of this name for some Service: `X_SERVICE_HOST`, `X_SERVICE_PORT`, `X_SERVICE_PORT_NAME`, `X_PORT`,
/// and `X_PORT_11211_TCP` with `_PROTO`, `_PORT` or `_ADDR` behind it.
fn is_of_a_service(name: &str) -> bool {
    let mut numbered = name.split("_PORT_").skip(1);
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_PORT")
        || name.contains("_SERVICE_PORT_")
        || numbered.any(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory;

    #[test]
    fn no_setting_has_a_name_that_kubernetes_gives() {
        let settings = settings(&Cli::command());
        assert!(settings.len() > 50, "{settings:?}");
        let taken: Vec<_> = settings
            .iter()
            .filter(|name| is_of_a_service(name))
            .collect();
        assert!(taken.is_empty(), "{taken:?}");
        assert!(!SECRETS.iter().any(|name| is_of_a_service(name)));
    }

    #[test]
    fn what_nobody_reads_is_found() {
        let names = [
            "PATH",
            "EVENKEEL_MEMORY_LIMIT",
            "EVENKEEL_PROXY_LISTEN",
            "EVENKEEL_COORDINATOR_API_TOKEN",
            "EVENKEEL_SEED",
            "EVENKEEL_MEMORY_LIMITS",
            "EVENKEEL_PORT",
            "EVENKEEL_PORT_11211_TCP",
            "EVENKEEL_PORT_11211_TCP_ADDR",
            "EVENKEEL_PROXY_SERVICE_HOST",
            "EVENKEEL_PROXY_SERVICE_PORT",
            "EVENKEEL_PROXY_SERVICE_PORT_CACHE",
            "EVENKEEL_THREAD",
        ];
        let unknown = unknown(names.map(str::to_owned).into_iter(), &Cli::command());
        assert_eq!(unknown, ["EVENKEEL_MEMORY_LIMITS", "EVENKEEL_THREAD"]);
    }
}
