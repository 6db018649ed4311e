//! Who gets in: the coordinator's own side of tokens and TLS.
//!
//! What it asks for is read from files at the start and again on SIGHUP. What cannot be used then changes nothing
//! and is said; connections that stand keep the certificates they began with, while each call is judged by the
//! tokens of its moment. A file that does not exist any more never opens a door.

use std::io::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use evenkeel_control::access::{
    AccessLevel, AccessRules, Denial, MemberTokens, TOKENS_FILE_BYTES_MAX, Tokens, TokensError,
};
use evenkeel_control::http::without_port;
use evenkeel_runtime::{
    ClientCertificates, TlsConfig, TlsContext, TlsContexts, TlsFiles, TlsVersion, read_secret,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::answer::error;
use crate::shared_core::SharedCore;
use tracing::{field, info, warn};

/// Operators' tokens, for who has no file for them.
const API_TOKEN_VARIABLE: &str = "EVENKEEL_COORDINATOR_API_TOKEN";

/// Members' tokens, for who has no file for them.
const MEMBER_TOKEN_VARIABLE: &str = "EVENKEEL_COORDINATOR_MEMBER_TOKEN";

/// Flags that say what is asked of callers.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct GuardArgs {
    /// File of tokens, one a line, for operators: with it each call needs one, but for /healthz, /readyz and /metrics.
    /// They can also be in EVENKEEL_COORDINATOR_API_TOKEN. Read again on SIGHUP, as all files of tokens and certificates
    #[arg(long, value_name = "FILE", env = "EVENKEEL_COORDINATOR_API_TOKEN_FILE")]
    pub api_token_file: Option<PathBuf>,
    /// File of tokens for servers and proxies, which may do with them what they need and no more, with whose each is:
    /// lines TOKEN proxy, TOKEN server NAME, or TOKEN server for servers of any name. They can also be in
    /// EVENKEEL_COORDINATOR_MEMBER_TOKEN. Without it members need a token for operators
    #[arg(
        long,
        value_name = "FILE",
        env = "EVENKEEL_COORDINATOR_MEMBER_TOKEN_FILE"
    )]
    pub member_token_file: Option<PathBuf>,
    /// Speak TLS alone, with this certificate and those between it and its authority, in PEM
    #[arg(long, value_name = "FILE", env = "EVENKEEL_COORDINATOR_TLS_CERT")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key, in PEM [default: it stands in the file of --tls-cert]
    #[arg(
        long,
        value_name = "FILE",
        env = "EVENKEEL_COORDINATOR_TLS_KEY",
        requires = "tls_cert"
    )]
    pub tls_key: Option<PathBuf>,
    /// Authorities of client certificates, in PEM: with it each call needs one, but for /healthz, /readyz and /metrics
    #[arg(
        long,
        value_name = "FILE",
        env = "EVENKEEL_COORDINATOR_TLS_CLIENT_CA",
        requires = "tls_cert"
    )]
    pub tls_client_ca: Option<PathBuf>,
}

/// What is asked of callers at the moment.
pub(crate) struct Guard {
    args: GuardArgs,
    /// By which the coordinator was told that it is reached.
    names: Vec<String>,
    asked: Mutex<Arc<Asked>>,
}

/// What the files said when they were read last.
struct Asked {
    rules: AccessRules,
    tls: Option<Arc<TlsContext>>,
}

/// What is known of anyone who is at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    /// Where it is.
    pub(crate) from: Option<SocketAddr>,
    /// Whether it has shown a certificate of a known authority.
    pub(crate) has_certificate: bool,
}

impl Guard {
    /// Reads the files. `addresses` are those, with a port or without, by which the coordinator was told that it is reached.
    ///
    /// # Errors
    /// One line that names the flag and what is wrong.
    pub(crate) fn load<'a>(
        args: &GuardArgs,
        addresses: impl Iterator<Item = &'a str>,
    ) -> Result<Guard, String> {
        let asked = Asked::read(args)?;
        Ok(Guard {
            args: args.clone(),
            names: addresses.map(|at| without_port(at).to_owned()).collect(),
            asked: Mutex::new(Arc::new(asked)),
        })
    }

    /// Reads the files again, and says on standard error what came of it.
    pub(crate) fn reload(&self) {
        match Asked::read(&self.args) {
            Ok(asked) => {
                *self.lock() = Arc::new(asked);
                info!("tokens and certificates were read again");
            }
            Err(error) => {
                warn!("{error}; what was read before stays in use");
            }
        }
    }

    /// Whether callers have to show a token or a certificate.
    pub(crate) fn asks(&self) -> bool {
        let rules = &self.now().rules;
        rules.operators.is_some() || rules.wants_certificate
    }

    /// Names by which the coordinator was told that it is reached.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether others than this machine can connect there and change the cluster without showing anything.
    pub(crate) fn is_open(&self, listening: SocketAddr) -> bool {
        !self.asks() && !listening.ip().is_loopback()
    }

    /// What an operator should know who lets others than this machine connect.
    pub(crate) fn warning(&self, listening: SocketAddr) -> Option<&'static str> {
        let asked = self.now();
        match (&asked.rules.operators, &asked.tls) {
            _ if listening.ip().is_loopback() => None,
            (Some(_), None) => Some("without --tls-cert tokens can be read on the network"),
            _ if self.is_open(listening) => {
                Some("--insecure: anyone who can connect can change the cluster")
            }
            _ => None,
        }
    }

    /// Whether calls come over TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.now().tls.is_some()
    }

    /// Makes TLS of a connection, if that is asked for.
    ///
    /// # Errors
    /// The other end does not speak it, is not trusted, or hangs up.
    pub(crate) async fn secure(&self, stream: TcpStream) -> Result<Secured, Error> {
        let Some(config) = self.now().tls.clone() else {
            return Ok(Secured::Plain(stream));
        };
        let stream = TlsAcceptor::from(config).accept(stream).await?;
        Ok(Secured::Tls(Box::new(stream)))
    }

    fn now(&self) -> Arc<Asked> {
        Arc::clone(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard")
            .field("args", &self.args)
            .finish_non_exhaustive()
    }
}

/// A connection whose bytes can be read.
pub(crate) enum Secured {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Secured {
    /// Who is at the other end.
    pub(crate) fn caller(&self) -> Caller {
        let (socket, has_certificate) = match self {
            Secured::Plain(socket) => (socket, false),
            Secured::Tls(stream) => {
                let (socket, session) = stream.get_ref();
                (socket, session.peer_certificates().is_some())
            }
        };
        Caller {
            from: socket.peer_addr().ok(),
            has_certificate,
        }
    }
}

impl Asked {
    fn read(args: &GuardArgs) -> Result<Asked, String> {
        let operators = tokens(
            &args.api_token_file,
            "--api-token-file",
            API_TOKEN_VARIABLE,
            Tokens::parse,
        )?;
        let members = tokens(
            &args.member_token_file,
            "--member-token-file",
            MEMBER_TOKEN_VARIABLE,
            MemberTokens::parse,
        )?;
        if operators.is_none() && members.is_some() {
            let what = "--member-token-file goes with --api-token-file: without it everybody could do what operators do";
            return Err(what.to_owned());
        }
        let rules = AccessRules {
            wants_certificate: args.tls_client_ca.is_some(),
            operators,
            members,
        };
        let tls = match &args.tls_cert {
            None => None,
            Some(chain) => Some(context(args, chain).map_err(|error| format!("TLS: {error}"))?),
        };
        Ok(Asked { rules, tls })
    }
}

/// Anyone who shows no certificate is let in as far as to calls that need none: probes have none to show.
fn context(args: &GuardArgs, chain: &Path) -> Result<Arc<TlsContext>, String> {
    let config = TlsConfig {
        files: TlsFiles {
            chain: chain.to_owned(),
            key: args.tls_key.clone(),
            authorities: args.tls_client_ca.clone(),
        },
        clients: match args.tls_client_ca {
            None => ClientCertificates::Unasked,
            Some(_) => ClientCertificates::Requested,
        },
        version: TlsVersion::V12,
        ciphers: None,
        session_cache: false,
    };
    Ok(TlsContexts::load(&config)?.default)
}

/// The tokens of a file, or of the environment.
fn tokens<T>(
    path: &Option<PathBuf>,
    flag: &str,
    variable: &str,
    parse: fn(&[u8]) -> Result<T, TokensError>,
) -> Result<Option<T>, String> {
    let (text, place) = match (path, std::env::var(variable)) {
        (Some(path), _) => {
            let (text, warning) = read_secret(path, TOKENS_FILE_BYTES_MAX)
                .map_err(|error| format!("{flag} {error}"))?;
            if let Some(warning) = warning {
                warn!("{warning}");
            }
            (text, format!("{flag} {}", path.display()))
        }
        (None, Ok(text)) => (text.into_bytes(), variable.to_owned()),
        (None, Err(_)) => return Ok(None),
    };
    let tokens = parse(&text).map_err(|error| format!("{place}: {error}"))?;
    Ok(Some(tokens))
}

/// Lets only those calls on that may be made, each with the [`Holder`](evenkeel_control::access::Holder) in
/// whose name it may speak.
pub(crate) async fn let_in(
    State((guard, shared)): State<(Arc<Guard>, Arc<SharedCore>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let (method, path) = (request.method().as_str(), request.uri().path());
    let needed = AccessLevel::needed(method, path);
    let caller = request.extensions().get::<Caller>();
    let has_certificate = caller.is_some_and(|caller| caller.has_certificate);
    let from = caller.and_then(|caller| caller.from);
    let from = from.map(|from| field::display(from.ip()));
    let mut shown = request.headers().get_all(header::AUTHORIZATION).iter();
    let shown = match (shown.next(), shown.next()) {
        (Some(one), None) => Some(one.as_bytes()),
        _ => None,
    };
    let judged = guard.now().rules.judge(needed, has_certificate, shown);
    match judged {
        Ok(holder) => {
            if needed == AccessLevel::Operator && !matches!(method, "GET" | "HEAD") {
                info!(from, method, path, "an operator asks");
            }
            request.extensions_mut().insert(holder);
            next.run(request).await
        }
        Err(denial) => {
            warn!(from, %denial, "a call is refused");
            denied(&shared, denial)
        }
    }
}

/// The answer to a call that is not executed, which is counted.
pub(crate) fn denied(shared: &SharedCore, denial: Denial) -> Response {
    shared.count_denial(denial);
    let status = match denial {
        Denial::NoToken | Denial::WrongToken => StatusCode::UNAUTHORIZED,
        Denial::NoCertificate | Denial::MembersToken | Denial::WrongRole | Denial::WrongName => {
            StatusCode::FORBIDDEN
        }
    };
    let mut response = error(status, denial.as_str(), denial.to_string());
    if status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, scheme);
    }
    response
}
