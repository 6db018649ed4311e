//! TLS of the server: from the options of `-o` to what a worker puts between socket and commands.

use crate::args::TlsOptions;
use crate::listeners::{ListenerKind, TlsKind};
use evenkeel_runtime::{
    ClientCertificates, TlsConfig, TlsContext, TlsContexts, TlsFiles, TlsVersion, UsageError,
};
use std::path::PathBuf;
use std::sync::Arc;

/// What the options ask for.
///
/// # Errors
/// When they do not go together.
pub fn config(options: &TlsOptions) -> Result<TlsConfig, UsageError> {
    // Read again later, when a process in the background has changed its directory.
    let absolute = |path: &PathBuf| {
        std::path::absolute(path)
            .map_err(|error| UsageError(format!("{}: {error}", path.display())))
    };
    let chain = (options.chain_cert.as_ref())
        .ok_or_else(|| UsageError("-Z: give the certificate by -o ssl_chain_cert=FILE".into()))?;
    let clients = match options.verify_mode {
        0 => ClientCertificates::Unasked,
        1 => ClientCertificates::Requested,
        // OpenSSL's "once" is about renegotiation, which does not exist here.
        _ => ClientCertificates::Required,
    };
    if clients != ClientCertificates::Unasked && options.ca_cert.is_none() {
        return Err(UsageError(format!(
            "-o ssl_verify_mode={}: clients' certificates need their authorities, -o ssl_ca_cert=FILE",
            options.verify_mode
        )));
    }
    Ok(TlsConfig {
        files: TlsFiles {
            chain: absolute(chain)?,
            key: options.key.as_ref().map(absolute).transpose()?,
            authorities: options.ca_cert.as_ref().map(absolute).transpose()?,
        },
        clients,
        version: match options.min_version {
            Some(3) => TlsVersion::V13,
            _ => TlsVersion::V12,
        },
        ciphers: options.ciphers.clone(),
        session_cache: options.session_cache,
    })
}

/// Reads the files for the first time, and sees that each listener has what it needs.
///
/// # Errors
/// Names the file or the listener's prefix.
pub fn load(
    config: &TlsConfig,
    listeners: &[ListenerKind],
) -> Result<Arc<TlsContexts>, UsageError> {
    let contexts = TlsContexts::load(config).map_err(|error| UsageError(format!("-Z: {error}")))?;
    let mutual = listeners
        .iter()
        .any(|kind| kind.tls == Some(TlsKind::Mutual));
    if mutual && contexts.mutual.is_none() {
        return Err(UsageError(
            "-l mtls: clients' certificates need their authorities, -o ssl_ca_cert=FILE".into(),
        ));
    }
    Ok(Arc::new(contexts))
}

/// What a connection that came by this listener begins TLS with; `None` for plain bytes.
///
/// # Panics
/// When the certificates of a TLS listener were not loaded by [`load`].
pub fn context<'c>(
    kind: &ListenerKind,
    contexts: Option<&'c TlsContexts>,
) -> Option<&'c Arc<TlsContext>> {
    let tls = kind.tls?;
    let contexts = contexts.expect("a server with a TLS listener has read its certificates");
    Some(match tls {
        TlsKind::Default => &contexts.default,
        TlsKind::Basic => &contexts.basic,
        TlsKind::Mutual => (contexts.mutual.as_ref())
            .expect("a server with an mtls: listener has read clients' authorities"),
    })
}
