//! The other end: connections to servers that speak TLS.

use super::TlsStream;
use super::contexts::{Identity, TlsFiles, read_certificates};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::fmt;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// The files that a client needs, all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsClientFiles {
    /// Authorities whose servers are trusted. No others are, those of the machine included.
    pub authorities: PathBuf,
    /// The client's certificate and those between it and its authority, for servers that ask for one.
    pub chain: Option<PathBuf>,
    /// The certificate's private key; `None` when it stands in the chain's file.
    pub key: Option<PathBuf>,
}

/// What connections to servers begin TLS with: 1.2 or 1.3. Cheap to share. Two are equal when what
/// their files said is equal.
#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    /// What was read: the authorities, the chain and the key.
    read: Arc<[Vec<u8>]>,
}

impl TlsClient {
    /// Reads the files.
    ///
    /// # Errors
    /// One line that names the file and what is wrong with it.
    pub fn load(files: &TlsClientFiles) -> Result<TlsClient, String> {
        let authorities = read_certificates(&files.authorities)?;
        let bytes = |certificate: &CertificateDer<'_>| certificate.as_ref().to_vec();
        let mut read: Vec<Vec<u8>> = authorities.iter().map(bytes).collect();
        let mut known = RootCertStore::empty();
        for authority in authorities {
            let added = known.add(authority);
            added.map_err(|error| format!("{}: {error}", files.authorities.display()))?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(known);
        let config = match &files.chain {
            None => builder.with_no_client_auth(),
            Some(chain) => {
                let identity = Identity::read(&TlsFiles {
                    chain: chain.clone(),
                    key: files.key.clone(),
                    authorities: None,
                })?;
                read.push(Vec::new());
                read.extend(identity.chain.iter().map(bytes));
                read.push(identity.key.secret_der().to_vec());
                builder
                    .with_client_auth_cert(identity.chain, identity.key)
                    .map_err(|error| format!("{}: {error}", chain.display()))?
            }
        };
        Ok(TlsClient {
            config: Arc::new(config),
            read: read.into(),
        })
    }
}

impl PartialEq for TlsClient {
    fn eq(&self, other: &Self) -> bool {
        self.read == other.read
    }
}

impl fmt::Debug for TlsClient {
    // The key is nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").finish_non_exhaustive()
    }
}

impl<S: Read + Write> TlsStream<S> {
    /// The client's end of a connection on which nothing was said yet. The server's certificate must be
    /// for this name, a host name or an IP address.
    ///
    /// # Errors
    /// When the name is none.
    pub fn connect(stream: S, client: &TlsClient, name: &str) -> Result<Self, String> {
        let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
        let session = ClientConnection::new(Arc::clone(&client.config), name);
        let session = session.map_err(|error| error.to_string())?;
        Ok(TlsStream::over(stream, session.into()))
    }
}
