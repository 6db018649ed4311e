//! From the options of `-o` to what a worker puts between socket and commands.

use super::{ClientCertificates, TlsConfig, TlsContext, TlsContexts, TlsFiles, TlsVersion};
use crate::listen_spec::ListenerTls;
use crate::options::TlsOptions;
use crate::{Clock, UsageError};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is asked of clients that speak TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsKind {
    /// What `-o ssl_verify_mode` says.
    Default,
    /// No certificate.
    Basic,
    /// A certificate.
    Mutual,
}

impl TlsKind {
    /// What a listener asks of its clients; `None` for plain bytes, as for all where TLS is not
    /// enabled.
    pub fn of(enabled: bool, asked: ListenerTls) -> Option<TlsKind> {
        match asked {
            _ if !enabled => None,
            ListenerTls::Off => None,
            ListenerTls::Default => Some(TlsKind::Default),
            ListenerTls::Basic => Some(TlsKind::Basic),
            ListenerTls::Mutual => Some(TlsKind::Mutual),
        }
    }
}

#[derive(Debug)]
struct Current {
    config: TlsConfig,
    contexts: Arc<TlsContexts>,
}

/// Certificates that were read and found usable, and are not in use yet.
#[derive(Debug)]
pub struct PreparedCertificates(Current);

/// The process's certificates, shared by its threads. They may be read anew at any time; connections
/// that stand keep those they began with.
#[derive(Debug)]
pub struct Certificates {
    clock: Clock,
    /// Whether a listener wants a certificate of each client.
    is_mutual: bool,
    /// Looked at once for each new connection.
    current: Mutex<Current>,
    /// When they were last read, in seconds since the start.
    read_at_s: AtomicU64,
}

impl Certificates {
    /// Reads the files for the first time, and sees that each listener has what it needs.
    ///
    /// # Errors
    /// When the options do not go together, or a file cannot be used; names it.
    pub fn load(
        options: &TlsOptions,
        mut listeners: impl Iterator<Item = Option<TlsKind>>,
        clock: Clock,
    ) -> Result<Self, UsageError> {
        let is_mutual = listeners.any(|kind| kind == Some(TlsKind::Mutual));
        let current = Current::load(options, is_mutual)?;
        Ok(Certificates {
            clock,
            is_mutual,
            current: Mutex::new(current),
            read_at_s: AtomicU64::new(clock.now().monotonic.as_secs()),
        })
    }

    /// Reads what these options name, for the same listeners.
    ///
    /// # Errors
    /// As [`Certificates::load`].
    pub fn prepare(&self, options: &TlsOptions) -> Result<PreparedCertificates, UsageError> {
        Current::load(options, self.is_mutual).map(PreparedCertificates)
    }

    /// Begins further connections with these.
    pub fn take_over(&self, prepared: PreparedCertificates) {
        *self.lock() = prepared.0;
        let now_s = self.clock.now().monotonic.as_secs();
        self.read_at_s.store(now_s, Ordering::Relaxed);
    }

    /// Reads the files anew. Takes as long as the disk does.
    ///
    /// # Errors
    /// Names the file that cannot be used; then all stays as it was.
    pub fn reload(&self) -> Result<(), String> {
        let config = self.lock().config.clone();
        // Whether there are authorities depends on the options alone, so that listeners still have
        // what they need.
        let contexts = Arc::new(TlsContexts::load(&config)?);
        self.take_over(PreparedCertificates(Current { config, contexts }));
        Ok(())
    }

    /// When they were last read, in seconds since the start.
    pub fn read_at_s(&self) -> u64 {
        self.read_at_s.load(Ordering::Relaxed)
    }

    /// What a connection that came by such a listener begins TLS with.
    ///
    /// # Panics
    /// When none like it is among those shown to [`Certificates::load`].
    pub fn context(&self, kind: TlsKind) -> Arc<TlsContext> {
        let contexts = Arc::clone(&self.lock().contexts);
        Arc::clone(match kind {
            TlsKind::Default => &contexts.default,
            TlsKind::Basic => &contexts.basic,
            TlsKind::Mutual => (contexts.mutual.as_ref())
                .expect("anyone who has an mtls: listener has read clients' authorities"),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    fn load(options: &TlsOptions, is_mutual: bool) -> Result<Current, UsageError> {
        let config = config(options)?;
        let contexts =
            TlsContexts::load(&config).map_err(|error| UsageError(format!("-Z: {error}")))?;
        if is_mutual && contexts.mutual.is_none() {
            return Err(UsageError(
                "-l mtls: clients' certificates need their authorities, -o ssl_ca_cert=FILE".into(),
            ));
        }
        Ok(Current {
            config,
            contexts: Arc::new(contexts),
        })
    }
}

/// What the options ask for.
///
/// # Errors
/// When they do not go together.
fn config(options: &TlsOptions) -> Result<TlsConfig, UsageError> {
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
