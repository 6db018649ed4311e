//! Flags and environment of a coordinator that shares its place with others.

use std::path::{Path, PathBuf};

use evenkeel_runtime::read_secret;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use super::client::Access;
use evenkeel_member::Endpoint;

/// The password of etcd's user, for who has no file for it.
const PASSWORD_VARIABLE: &str = "EVENKEEL_COORDINATOR_ETCD_PASSWORD";

/// Under which keys the state of all clusters is kept.
const PREFIX: &str = "/evenkeel";

/// Most addresses of etcd: its clusters have three or five nodes.
const ENDPOINTS_MAX: usize = 16;

/// Largest file of certificates or of a password.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Flags that are about etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct EtcdArgs {
    /// Share the place with other coordinators: elect a leader and keep the state in etcd at these addresses,
    /// such as http://10.0.0.1:2379,http://10.0.0.2:2379
    #[arg(
        long = "etcd",
        value_name = "URL,...",
        env = "EVENKEEL_COORDINATOR_ETCD",
        value_delimiter = ',',
        conflicts_with = "state"
    )]
    pub endpoints: Vec<String>,
    /// Address at which members and the other coordinators reach this one; the one that is listened on unless given
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "EVENKEEL_COORDINATOR_ADVERTISE",
        requires = "endpoints"
    )]
    pub advertise: Option<String>,
    /// Certificates by which etcd is known, in PEM; the addresses have to begin with https://
    #[arg(
        long,
        value_name = "FILE",
        env = "EVENKEEL_COORDINATOR_ETCD_CA",
        requires = "endpoints"
    )]
    pub etcd_ca: Option<PathBuf>,
    /// Certificate to show to etcd, in PEM
    #[arg(long, value_name = "FILE", env = "EVENKEEL_COORDINATOR_ETCD_CERT", requires_all = ["endpoints", "etcd_key"])]
    pub etcd_cert: Option<PathBuf>,
    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", env = "EVENKEEL_COORDINATOR_ETCD_KEY", requires_all = ["endpoints", "etcd_cert"])]
    pub etcd_key: Option<PathBuf>,
    /// Name of etcd's user
    #[arg(
        long,
        value_name = "NAME",
        env = "EVENKEEL_COORDINATOR_ETCD_USER",
        requires = "endpoints"
    )]
    pub etcd_user: Option<String>,
    /// File with the user's password; it can also be in EVENKEEL_COORDINATOR_ETCD_PASSWORD
    #[arg(long, value_name = "FILE", env = "EVENKEEL_COORDINATOR_ETCD_PASSWORD_FILE", requires_all = ["endpoints", "etcd_user"])]
    pub etcd_password_file: Option<PathBuf>,
}

/// Name and password.
type User = (String, String);

/// How etcd is reached, checked.
pub(crate) struct EtcdConfig {
    pub(super) endpoints: Vec<String>,
    pub(super) access: Access,
    /// `/` at its end.
    pub(super) prefix: String,
    /// Something that the operator should know.
    pub(crate) warning: Option<String>,
}

impl EtcdArgs {
    /// Reads the files that are named, and checks everything that can be checked without etcd.
    ///
    /// # Errors
    /// One line that says what to do.
    pub(crate) fn config(&self, cluster: &str) -> Result<EtcdConfig, String> {
        let mut endpoints = Vec::new();
        for text in &self.endpoints {
            endpoints.push(endpoint(text)?);
        }
        if endpoints.len() > ENDPOINTS_MAX {
            let count = endpoints.len();
            return Err(format!(
                "--etcd: {count} addresses, not 1 to {ENDPOINTS_MAX}"
            ));
        }
        let secure = endpoints
            .iter()
            .filter(|url| url.starts_with("https://"))
            .count();
        if secure != 0 && secure != endpoints.len() {
            return Err("--etcd: give all addresses with http:// or all with https://".to_owned());
        }
        if secure == 0 && (self.etcd_ca.is_some() || self.etcd_cert.is_some()) {
            let what = "--etcd-ca and --etcd-cert are for addresses that begin with https://";
            return Err(what.to_owned());
        }
        let (user, warning) = self.user()?;
        let tls = if secure > 0 { Some(self.tls()?) } else { None };
        Ok(EtcdConfig {
            endpoints,
            access: Access { user, tls },
            prefix: keys_of(cluster),
            warning,
        })
    }

    /// Name and password, and a warning.
    fn user(&self) -> Result<(Option<User>, Option<String>), String> {
        let Some(name) = &self.etcd_user else {
            return Ok((None, None));
        };
        let (password, warning) = match &self.etcd_password_file {
            Some(path) => {
                let (bytes, warning) = secret(path, "--etcd-password-file")?;
                let text = String::from_utf8(bytes).map_err(|_| {
                    format!("--etcd-password-file {}: it is no UTF-8", path.display())
                })?;
                (text.trim_end_matches(['\r', '\n']).to_owned(), warning)
            }
            None => match std::env::var(PASSWORD_VARIABLE) {
                Ok(password) => (password, None),
                Err(_) => {
                    return Err(format!(
                        "--etcd-user needs a password: give --etcd-password-file FILE or set {PASSWORD_VARIABLE}"
                    ));
                }
            },
        };
        if password.is_empty() {
            return Err("--etcd-user: the password is empty".to_owned());
        }
        Ok((Some((name.clone(), password)), warning))
    }

    fn tls(&self) -> Result<ClientTlsConfig, String> {
        let mut tls = ClientTlsConfig::new();
        match &self.etcd_ca {
            Some(path) => tls = tls.ca_certificate(Certificate::from_pem(pem(path, "--etcd-ca")?)),
            None => {
                let what = "--etcd with https:// needs --etcd-ca FILE, the certificates by which etcd is known";
                return Err(what.to_owned());
            }
        }
        if let (Some(certificate), Some(key)) = (&self.etcd_cert, &self.etcd_key) {
            let certificate = pem(certificate, "--etcd-cert")?;
            let key = pem(key, "--etcd-key")?;
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        Ok(tls)
    }

    /// Where others reach this coordinator, which listens on `listening`.
    ///
    /// # Errors
    /// One line that says what to do.
    pub(crate) fn advertised(&self, listening: std::net::SocketAddr) -> Result<String, String> {
        match &self.advertise {
            None if listening.ip().is_unspecified() => Err(format!(
                "--etcd: others cannot reach this coordinator at {listening}; give --advertise HOST:PORT"
            )),
            None => Ok(listening.to_string()),
            Some(address) => match Endpoint::parse(address) {
                Ok(_) if !address.contains("://") => Ok(address.clone()),
                _ => Err(format!("--advertise {address}: give HOST:PORT")),
            },
        }
    }
}

/// An address of etcd; `http://` where no scheme is given.
fn endpoint(text: &str) -> Result<String, String> {
    let (scheme, authority) = text.split_once("://").unwrap_or(("http", text));
    let is_known = scheme == "http" || scheme == "https";
    match Endpoint::parse(&format!("http://{authority}")) {
        Ok(_) if is_known => Ok(format!("{scheme}://{}", authority.trim_end_matches('/'))),
        _ => Err(format!(
            "--etcd {text}: an address looks like http://host:2379 or https://host:2379"
        )),
    }
}

/// What all keys of a cluster begin with. No cluster's begins with another's, whatever their names.
fn keys_of(cluster: &str) -> String {
    let cluster = cluster.replace('%', "%25").replace('/', "%2F");
    format!("{PREFIX}/{cluster}/")
}

fn pem(path: &Path, flag: &str) -> Result<Vec<u8>, String> {
    let (bytes, _) = secret(path, flag)?;
    match bytes.windows(11).any(|window| window == b"-----BEGIN ") {
        true => Ok(bytes),
        false => Err(format!("{flag} {}: there is no PEM in it", path.display())),
    }
}

fn secret(path: &Path, flag: &str) -> Result<(Vec<u8>, Option<String>), String> {
    read_secret(path, FILE_LEN_MAX).map_err(|error| format!("{flag} {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(endpoints: &[&str]) -> EtcdArgs {
        EtcdArgs {
            endpoints: endpoints.iter().map(|text| (*text).to_owned()).collect(),
            ..EtcdArgs::default()
        }
    }

    #[test]
    fn addresses_are_read_with_and_without_a_scheme() {
        let config = of(&["a:1", "http://b:2/"]).config("c").ok().unwrap();
        assert_eq!(config.endpoints, ["http://a:1", "http://b:2"]);
        assert_eq!(config.prefix, "/evenkeel/c/");
    }

    #[test]
    fn no_clusters_keys_lie_among_anothers() {
        assert_eq!(keys_of("a/leader"), "/evenkeel/a%2Fleader/");
        assert_ne!(keys_of("a/b"), keys_of("a%2Fb"));
        assert!(!keys_of("a/pieces").starts_with(&keys_of("a")));
    }

    #[test]
    fn mistakes_are_told_with_the_flag_at_fault() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let missing = dir.path().join("missing");
        let secure = || of(&["https://a:1"]);
        let with = |change: &dyn Fn(&mut EtcdArgs), mut args: EtcdArgs| {
            change(&mut args);
            args
        };
        let cases = [
            (of(&["ftp://a:1"]), "--etcd ftp://a:1"),
            (of(&["a"]), "host:2379"),
            (of(&["a:1", "https://b:1"]), "all with https"),
            (secure(), "--etcd-ca"),
            (
                with(&|a| a.etcd_ca = Some(missing.clone()), secure()),
                "--etcd-ca",
            ),
            (
                with(&|a| a.etcd_ca = Some(file("ca", "text")), secure()),
                "no PEM",
            ),
            (
                with(&|a| a.etcd_ca = Some(file("ca", "text")), of(&["a:1"])),
                "https://",
            ),
            (
                with(&|a| a.etcd_user = Some("u".into()), of(&["a:1"])),
                PASSWORD_VARIABLE,
            ),
            (
                with(
                    &|a| {
                        a.etcd_user = Some("u".into());
                        a.etcd_password_file = Some(file("p", "\n"));
                    },
                    of(&["a:1"]),
                ),
                "empty",
            ),
        ];
        for (args, expected) in cases {
            let error = args.config("c").err().unwrap();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
        let anywhere = "0.0.0.0:11210".parse().unwrap();
        assert!(
            of(&["a:1"])
                .advertised(anywhere)
                .unwrap_err()
                .contains("--advertise")
        );
        let here = "127.0.0.1:7".parse().unwrap();
        assert_eq!(of(&["a:1"]).advertised(here), Ok("127.0.0.1:7".to_owned()));
        let bad = with(&|a| a.advertise = Some("pod".into()), of(&["a:1"]));
        assert!(bad.advertised(here).unwrap_err().contains("HOST:PORT"));
        let good = with(&|a| a.advertise = Some("pod.ns:1".into()), of(&["a:1"]));
        assert_eq!(good.advertised(anywhere), Ok("pod.ns:1".to_owned()));
    }
}
