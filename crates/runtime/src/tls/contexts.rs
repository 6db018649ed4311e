//! Certificates, keys and what is asked of clients.

use super::suites;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sessions that clients may resume, over all workers. A session takes about 200 bytes.
const SESSIONS_MAX: usize = 20_000;

/// The files that TLS needs, all in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate and those between it and its authority.
    pub chain: PathBuf,
    /// The certificate's private key; `None` when it stands in the chain's file.
    pub key: Option<PathBuf>,
    /// Authorities whose clients are known; `None` when no client is asked for a certificate.
    pub authorities: Option<PathBuf>,
}

/// What is asked of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Nothing.
    Unasked,
    /// A certificate, if they have one; one that is not of a known authority is refused.
    Requested,
    /// A certificate of a known authority.
    Required,
}

/// Oldest version of TLS that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 and 1.3.
    #[default]
    V12,
    /// TLS 1.3 alone.
    V13,
}

/// How a server speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// Certificates and keys.
    pub files: TlsFiles,
    /// What the default context asks of clients.
    pub clients: ClientCertificates,
    /// Oldest version.
    pub version: TlsVersion,
    /// OpenSSL's names of suites, separated by colons; `None` for all that are sound.
    pub ciphers: Option<String>,
    /// Whether clients may resume sessions.
    pub session_cache: bool,
}

/// Everything that listeners need to speak TLS. Cheap to share; reading the files again makes a new
/// one, and connections that stand keep the one they began with.
#[derive(Clone, Debug)]
pub struct TlsContexts {
    /// As [`TlsConfig::clients`] says.
    pub default: Arc<ServerConfig>,
    /// No client is asked for a certificate.
    pub basic: Arc<ServerConfig>,
    /// Each client needs a certificate; `None` without authorities.
    pub mutual: Option<Arc<ServerConfig>>,
}

impl TlsContexts {
    /// Reads the files.
    ///
    /// # Errors
    /// One line that names the file and what is wrong with it.
    pub fn load(config: &TlsConfig) -> Result<TlsContexts, String> {
        let provider = Arc::new(match &config.ciphers {
            None => default_provider(),
            Some(list) => CryptoProvider {
                cipher_suites: suites::parse(list)?,
                ..default_provider()
            },
        });
        let identity = Identity::read(&config.files)?;
        let known = match &config.files.authorities {
            Some(path) => Some(Arc::new(read_authorities(path)?)),
            None => None,
        };
        let make = |clients| {
            let verifier = verifier(clients, known.as_ref(), &provider)?;
            identity.server_config(config, &provider, verifier)
        };
        Ok(TlsContexts {
            default: make(config.clients)?,
            basic: make(ClientCertificates::Unasked)?,
            mutual: match &known {
                Some(_) => Some(make(ClientCertificates::Required)?),
                None => None,
            },
        })
    }
}

/// Who judges clients' certificates; `None` when they are not asked for one.
fn verifier(
    clients: ClientCertificates,
    known: Option<&Arc<RootCertStore>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    if clients == ClientCertificates::Unasked {
        return Ok(None);
    }
    let known = known.ok_or("clients' certificates cannot be judged without their authorities")?;
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(known), Arc::clone(provider));
    let builder = match clients {
        ClientCertificates::Required => builder,
        _ => builder.allow_unauthenticated(),
    };
    let verifier = builder.build().map_err(|error| error.to_string())?;
    Ok(Some(verifier))
}

/// A certificate chain with its key.
pub(super) struct Identity {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
    /// For messages.
    pub path: PathBuf,
}

impl Identity {
    pub fn read(files: &TlsFiles) -> Result<Identity, String> {
        let key = files.key.as_ref().unwrap_or(&files.chain);
        Ok(Identity {
            chain: read_certificates(&files.chain)?,
            key: PrivateKeyDer::from_pem_file(key).map_err(|error| match error {
                pem::Error::NoItemsFound => {
                    format!("{}: there is no private key in it", key.display())
                }
                error => unreadable(key, &error),
            })?,
            path: files.chain.clone(),
        })
    }

    fn server_config(
        &self,
        config: &TlsConfig,
        provider: &Arc<CryptoProvider>,
        clients: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Result<Arc<ServerConfig>, String> {
        let versions: &[&SupportedProtocolVersion] = match config.version {
            TlsVersion::V12 => &[&version::TLS13, &version::TLS12],
            TlsVersion::V13 => &[&version::TLS13],
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(versions)
            .map_err(|error| error.to_string())?;
        let builder = match clients {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut made = builder
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|error| format!("{}: {error}", self.path.display()))?;
        made.session_storage = match config.session_cache {
            true => ServerSessionMemoryCache::new(SESSIONS_MAX),
            false => Arc::new(NoServerSessionStorage {}),
        };
        Ok(Arc::new(made))
    }
}

pub(super) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, pem::Error> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match all {
        Ok(list) if list.is_empty() => {
            Err(format!("{}: there is no certificate in it", path.display()))
        }
        Ok(list) => Ok(list),
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn read_authorities(path: &Path) -> Result<RootCertStore, String> {
    let mut known = RootCertStore::empty();
    for certificate in read_certificates(path)? {
        known
            .add(certificate)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(known)
}

fn unreadable(path: &Path, error: &pem::Error) -> String {
    format!("{}: {error}", path.display())
}
