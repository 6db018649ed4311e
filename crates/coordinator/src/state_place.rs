//! Where a coordinator keeps its state when nobody says where.

use std::ffi::OsString;
use std::path::PathBuf;

/// The default place, or `None` where the environment names no directory.
///
/// systemd's `StateDirectory=` comes first, then what the file system hierarchy has for root and the XDG base
/// directories for others.
pub(crate) fn default_place(
    cluster: &str,
    is_root: bool,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Option<PathBuf> {
    let set = |name| {
        environment(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let home = |home: PathBuf| home.join(".local/state");
    let directory = set("STATE_DIRECTORY").or_else(|| match is_root {
        true => Some(PathBuf::from("/var/lib/evenkeel")),
        false => {
            let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(home));
            state.map(|state| state.join("evenkeel"))
        }
    })?;
    // A name has no spaces and quotes, but may have slashes.
    let cluster = cluster.replace('/', "_");
    Some(directory.join(format!("coordinator-{cluster}.state")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(cluster: &str, is_root: bool, set: &[(&str, &str)]) -> Option<String> {
        let environment = |name: &str| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let place = default_place(cluster, is_root, environment);
        place.map(|place| place.display().to_string())
    }

    #[test]
    fn each_user_has_a_place() {
        let home = ("HOME", "/home/a");
        let expected = "/var/lib/evenkeel/coordinator-c.state";
        assert_eq!(place("c", true, &[home]).as_deref(), Some(expected));
        let expected = "/home/a/.local/state/evenkeel/coordinator-c.state";
        assert_eq!(place("c", false, &[home]).as_deref(), Some(expected));
        let state = ("XDG_STATE_HOME", "/state");
        let expected = "/state/evenkeel/coordinator-c_d.state";
        assert_eq!(
            place("c/d", false, &[home, state]).as_deref(),
            Some(expected)
        );
        let systemd = ("STATE_DIRECTORY", "/var/lib/cache");
        let expected = "/var/lib/cache/coordinator-c.state";
        assert_eq!(
            place("c", true, &[home, systemd]).as_deref(),
            Some(expected)
        );
        assert_eq!(place("c", false, &[("HOME", "")]), None);
    }
}
