//! The file that says which actuator there is.

use crate::{Actuator, ApiServer, CommandActuator, Failed, KubernetesActuator, ProcessActuator};
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// Longest file that is read.
const FILE_LEN_MAX: u64 = 1 << 16;

/// Why an actuator's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It does not say what it should.
    #[error("{path}: {what}")]
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The actuator cannot be used.
    #[error(transparent)]
    Failed(#[from] Failed),
}

/// One table, of one actuator.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Chosen {
    Process(ProcessTable),
    Command(CommandTable),
    Kubernetes(KubernetesTable),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProcessTable {
    #[serde(default = "memcached")]
    program: PathBuf,
    #[serde(default)]
    arguments: Vec<String>,
    folder: PathBuf,
    #[serde(default = "loopback")]
    host: IpAddr,
    #[serde(default)]
    keep: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandTable {
    program: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KubernetesTable {
    stateful_set: String,
    address: Option<String>,
    namespace: Option<String>,
    api: Option<String>,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
}

fn memcached() -> PathBuf {
    "memcached".into()
}

fn loopback() -> IpAddr {
    Ipv4Addr::LOCALHOST.into()
}

/// The actuator of which a file says. Its format is TOML: see `docs/scaling.md`.
///
/// # Errors
/// The file cannot be read, does not say what it should, or the actuator's folder cannot be made.
pub fn open(path: &Path) -> Result<Box<dyn Actuator>, FileError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(FILE_LEN_MAX).read_to_string(&mut text));
    read.map_err(|source| FileError::Io {
        path: path.to_owned(),
        source,
    })?;
    let chosen = toml::from_str(&text).map_err(|error| FileError::Bad {
        path: path.to_owned(),
        what: error.to_string(),
    })?;
    Ok(match chosen {
        Chosen::Process(it) => Box::new(ProcessActuator::new(
            it.program,
            it.arguments,
            &it.folder,
            it.host,
            it.keep,
        )?),
        Chosen::Command(it) => Box::new(CommandActuator::new(it.program)),
        Chosen::Kubernetes(it) => {
            let server = ApiServer::new(it.api, it.namespace, it.token_file, it.ca_file)?;
            Box::new(KubernetesActuator::new(
                server,
                &it.stateful_set,
                it.address,
            )?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn opened(text: &str) -> Result<Box<dyn Actuator>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scaler.toml");
        fs::write(
            &path,
            text.replace("FOLDER", &folder.path().display().to_string()),
        )
        .unwrap();
        open(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_says_which_actuator_there_is() {
        for text in [
            "[process]\nfolder = 'FOLDER/servers'",
            "[process]\nprogram = 'm'\narguments = ['-m', '64']\nfolder = 'FOLDER'\nhost = '::1'\nkeep = true",
            "[command]\nprogram = '/usr/local/bin/scaler'",
            "[kubernetes]\nstateful_set = 'cache'\nnamespace = 'caches'",
            "[kubernetes]\nstateful_set = 'cache'\nnamespace = 'caches'\naddress = '{pod}.cache:11211'\n\
                api = 'http://127.0.0.1:8001'\ntoken_file = 't'\nca_file = 'c'",
        ] {
            assert!(opened(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn the_files_that_the_page_shows_are_some() {
        let page = include_str!("../../../docs/scaling.md");
        let shown = page.split("```toml\n").skip(1);
        let shown = shown.map(|rest| rest.split_once("```").expect("it ends").0);
        let mut read = 0;
        for text in shown {
            let chosen: Result<Chosen, _> = toml::from_str(text);
            assert!(chosen.is_ok(), "{text}: {chosen:?}");
            read += 1;
        }
        assert_eq!(read, 4);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        for (text, what) in [
            ("", "wanted"),
            ("[nomad]", "unknown variant `nomad`"),
            ("[kubernetes]", "missing field `stateful_set`"),
            (
                "[kubernetes]\nstateful_set = 'cache'",
                "cannot read /var/run/secrets/kubernetes.io/serviceaccount/namespace",
            ),
            (
                "[kubernetes]\nstateful_set = 'a/b'\nnamespace = 'caches'",
                "a server cannot be named \"a/b\"",
            ),
            (
                "[kubernetes]\nstateful_set = 'cache'\nnamespace = 'caches'\napi = 'here'",
                "cannot ask here: its URL begins with https:// or http://",
            ),
            (
                "[kubernetes]\nstateful_set = 'cache'\nnamespace = 'caches'\naddress = 'cache:11211'",
                "all pods would have the address cache:11211",
            ),
            (
                "[kubernetes]\nstateful_set = 'cache'\nnamespace = 'caches'\naddress = '{pod}.cache'",
                "\"cache-0.cache\" is no address",
            ),
            ("[process]", "missing field `folder`"),
            (
                "[command]\nprogram = 'p'\nshell = true",
                "unknown field `shell`",
            ),
            (
                "[process]\nfolder = 'FOLDER'\nhost = 'here'",
                "invalid IP address",
            ),
            (
                "[command]\nprogram = 'p'\n[process]\nfolder = 'FOLDER'",
                "wanted",
            ),
            ("process", "scaler.toml: "),
            (
                "[process]\nfolder = 'FOLDER/scaler.toml/x'",
                "cannot use folder",
            ),
        ] {
            let said = opened(text).expect_err(text);
            assert!(said.contains(what), "{text}: {said}");
        }
        let said = open(Path::new("/nowhere/scaler.toml"))
            .err()
            .unwrap()
            .to_string();
        assert!(
            said.starts_with("cannot read /nowhere/scaler.toml: "),
            "{said}"
        );
    }
}
