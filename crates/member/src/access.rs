//! What callers show to coordinators, and by what they know them.
//!
//! A token goes with every call to the coordinators that a program was given, and to the leader that one of
//! them names. That one is no stranger: over TLS it needs a certificate of the same authority, and anyone who could
//! answer in a coordinator's place without TLS has heard the token already. From `https://` nobody is sent on to
//! `http://`.
//!
//! Files are read again when a coordinator does not let the program in, so that tokens and certificates can be
//! replaced without a word to members.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_control::access::{TOKENS_FILE_BYTES_MAX, Tokens};
use evenkeel_runtime::read_secret;
use ureq::http::HeaderValue;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use crate::endpoint::{BadEndpoint, Endpoint};

/// The token to show, for who has no file for it.
const TOKEN_VARIABLE: &str = "EVENKEEL_COORDINATOR_TOKEN";

/// Largest file of certificates or of a key.
const PEM_LEN_MAX: u64 = 1 << 20;

/// How to be let in by coordinators.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct AccessArgs {
    /// File whose first line is the token that coordinators want; it can also be in EVENKEEL_COORDINATOR_TOKEN
    #[arg(
        long,
        value_name = "FILE",
        env = "EVENKEEL_COORDINATOR_TOKEN_FILE",
        global = true
    )]
    pub coordinator_token_file: Option<PathBuf>,
    /// Certificates by which coordinators are known, in PEM; their addresses have to begin with https://
    #[arg(
        long,
        value_name = "FILE",
        env = "EVENKEEL_COORDINATOR_CA",
        global = true
    )]
    pub coordinator_ca: Option<PathBuf>,
    /// Certificate to show to coordinators, in PEM
    #[arg(
        long,
        value_name = "FILE",
        env = "EVENKEEL_COORDINATOR_CERT",
        global = true
    )]
    pub coordinator_cert: Option<PathBuf>,
    /// Its private key, in PEM
    #[arg(
        long,
        value_name = "FILE",
        env = "EVENKEEL_COORDINATOR_KEY",
        global = true
    )]
    pub coordinator_key: Option<PathBuf>,
}

/// What a program shows to coordinators. Cheap to share; equal when the same was asked for. By default nothing.
#[derive(Clone, Default)]
pub struct Access(Arc<Source>);

#[derive(Default)]
struct Source {
    args: AccessArgs,
    shown: Mutex<Shown>,
}

/// What stood in the files when they were read last.
#[derive(Clone, Default)]
pub(crate) struct Shown {
    /// Differs after each change.
    pub(crate) generation: u64,
    pub(crate) authorization: Option<HeaderValue>,
    pub(crate) tls: Option<TlsConfig>,
    /// The files' contents, to tell a change by.
    read: Vec<Vec<u8>>,
}

impl Access {
    /// Reads the files. With a warning where others on this machine can read a secret.
    ///
    /// # Errors
    /// One line that names the flag and what is wrong.
    pub fn load(args: &AccessArgs) -> Result<(Access, Option<String>), String> {
        // A process in the background has another directory when it reads them again.
        let absolute = |path: &Option<PathBuf>| match path {
            None => Ok(None),
            Some(path) => std::path::absolute(path)
                .map(Some)
                .map_err(|error| format!("{}: {error}", path.display())),
        };
        let args = AccessArgs {
            coordinator_token_file: absolute(&args.coordinator_token_file)?,
            coordinator_ca: absolute(&args.coordinator_ca)?,
            coordinator_cert: absolute(&args.coordinator_cert)?,
            coordinator_key: absolute(&args.coordinator_key)?,
        };
        let (shown, warning) = Shown::read(&args)?;
        let access = Access(Arc::new(Source {
            args,
            shown: Mutex::new(shown),
        }));
        Ok((access, warning))
    }

    /// Reads the files again. Returns whether they say something else; what cannot be used changes nothing.
    pub(crate) fn read_again(&self) -> bool {
        let args = &self.0.args;
        if *args == AccessArgs::default() {
            return false;
        }
        let Ok((read, _)) = Shown::read(args) else {
            return false;
        };
        let mut shown = self.shown();
        if shown.read == read.read {
            return false;
        }
        let generation = shown.generation + 1;
        *shown = Shown { generation, ..read };
        true
    }

    /// The coordinator at an address, if it can be spoken to with what there is.
    ///
    /// # Errors
    /// The text is no address, or its scheme does not go with the certificates.
    pub(crate) fn endpoint(&self, address: &str) -> Result<Endpoint, BadEndpoint> {
        let endpoint = Endpoint::parse(address)?;
        match (endpoint.is_secure(), self.shown().tls.is_some()) {
            (true, false) => Err(BadEndpoint::NoAuthority(address.to_owned())),
            (false, true) => Err(BadEndpoint::Plain(address.to_owned())),
            _ => Ok(endpoint),
        }
    }

    /// What is shown now.
    pub(crate) fn shown(&self) -> MutexGuard<'_, Shown> {
        self.0.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Access {
    fn eq(&self, other: &Self) -> bool {
        self.0.args == other.0.args
    }
}

impl Eq for Access {}

impl fmt::Debug for Access {
    // Tokens and keys are nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Access").field(&self.0.args).finish()
    }
}

impl Shown {
    /// What the files say, and a warning.
    fn read(args: &AccessArgs) -> Result<(Shown, Option<String>), String> {
        let (token, warning) = read_token(args.coordinator_token_file.as_deref())?;
        let mut read = Vec::new();
        let mut file = |path: &Path, flag: &str| {
            let (bytes, _) =
                read_secret(path, PEM_LEN_MAX).map_err(|error| format!("{flag} {error}"))?;
            read.push(bytes.clone());
            Ok::<_, String>(bytes)
        };
        let identity = match (&args.coordinator_cert, &args.coordinator_key) {
            (Some(chain), Some(key)) => {
                let chain = certificates(&file(chain, "--coordinator-cert")?);
                let chain = chain.map_err(|error| format!("--coordinator-cert: {error}"))?;
                let key = PrivateKey::from_pem(&file(key, "--coordinator-key")?)
                    .map_err(|error| format!("--coordinator-key: {error}"))?;
                Some(ClientCert::new_with_certs(&chain, key))
            }
            (None, None) => None,
            _ => return Err("--coordinator-cert and --coordinator-key go together".to_owned()),
        };
        let tls = match &args.coordinator_ca {
            Some(path) => {
                let known = certificates(&file(path, "--coordinator-ca")?);
                let known = known.map_err(|error| format!("--coordinator-ca: {error}"))?;
                let provider = Arc::new(rustls::crypto::ring::default_provider());
                let config = TlsConfig::builder()
                    .root_certs(RootCerts::new_with_certs(&known))
                    .client_cert(identity)
                    .unversioned_rustls_crypto_provider(provider);
                Some(config.build())
            }
            None if identity.is_some() => {
                let what = "--coordinator-cert goes with --coordinator-ca, the certificates by which coordinators are known";
                return Err(what.to_owned());
            }
            None => None,
        };
        let authorization = match token {
            None => None,
            Some(token) => {
                read.push(token.clone().into_bytes());
                let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                    .expect("a token's signs may stand in a header");
                value.set_sensitive(true);
                Some(value)
            }
        };
        let shown = Shown {
            generation: 0,
            authorization,
            tls,
            read,
        };
        Ok((shown, warning))
    }
}

/// The token to show, and a warning.
fn read_token(path: Option<&Path>) -> Result<(Option<String>, Option<String>), String> {
    let (text, warning, place) = match (path, std::env::var(TOKEN_VARIABLE)) {
        (Some(path), _) => {
            let (text, warning) = read_secret(path, TOKENS_FILE_BYTES_MAX)
                .map_err(|error| format!("--coordinator-token-file {error}"))?;
            let place = format!("--coordinator-token-file {}", path.display());
            (text, warning, place)
        }
        (None, Ok(token)) => (token.into_bytes(), None, TOKEN_VARIABLE.to_owned()),
        (None, Err(_)) => return Ok((None, None)),
    };
    let token = Tokens::first(&text).map_err(|error| format!("{place}: {error}"))?;
    Ok((Some(token.to_owned()), warning))
}

/// All certificates in a text, of which there is at least one.
fn certificates(pem: &[u8]) -> Result<Vec<Certificate<'static>>, String> {
    let mut found = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| error.to_string())? {
            found.push(certificate);
        }
    }
    match found.is_empty() {
        true => Err("there is no certificate in it".to_owned()),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(dir: &Path, token: &str) -> AccessArgs {
        let path = dir.join("token");
        std::fs::write(&path, token).unwrap();
        AccessArgs {
            coordinator_token_file: Some(path),
            ..AccessArgs::default()
        }
    }

    #[test]
    fn flags_that_cannot_be_meant_say_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |args: &AccessArgs| Access::load(args).unwrap_err();
        let short = refused(&args(dir.path(), "short"));
        assert!(
            short.contains("line 1: a token has 16 to 255 bytes"),
            "{short}"
        );
        let path = dir.path().join("none.pem");
        std::fs::write(&path, "no certificate").unwrap();
        let some = Some(path);
        let half = AccessArgs {
            coordinator_cert: some.clone(),
            ..AccessArgs::default()
        };
        assert!(refused(&half).contains("go together"));
        let empty = AccessArgs {
            coordinator_ca: some,
            ..AccessArgs::default()
        };
        assert_eq!(
            refused(&empty),
            "--coordinator-ca: there is no certificate in it"
        );
        let absent = AccessArgs {
            coordinator_token_file: Some("/no/such/file".into()),
            ..AccessArgs::default()
        };
        assert!(refused(&absent).contains("--coordinator-token-file /no/such/file"));
    }

    #[test]
    fn schemes_go_with_certificates() {
        let open = Access::default();
        assert!(open.endpoint("h:1").is_ok() && open.endpoint("http://h:1").is_ok());
        let error = open.endpoint("https://h:1").unwrap_err().to_string();
        assert!(error.contains("--coordinator-ca"), "{error}");
    }
}
