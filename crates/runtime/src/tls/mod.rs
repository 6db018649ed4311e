//! TLS for connections that somebody else moves the bytes of.
//!
//! rustls does the cryptography and knows no socket. Two things stand around it here:
//! [`TlsContexts`] reads certificates and keys from files and says who may speak, and [`TlsStream`]
//! puts one connection's TLS between a non-blocking stream and its reader and writer, so that what
//! serves plain bytes serves TLS unchanged:
//!
//! ```text
//!  socket ── records ──> TlsStream ── read():  plain bytes ──> commands
//!         <── records ──           <─ write(): plain bytes ─── answers
//! ```
//!
//! OpenSSL was rejected: it is C, and what memcached offers of it (versions, suites, verification of
//! clients) rustls has. What rustls leaves out on purpose, TLS before 1.2 and suites without forward
//! secrecy, stays out.

mod certificates;
mod client;
mod contexts;
mod stream;
mod suites;
#[cfg(test)]
mod tests;

/// What a connection begins TLS with: certificate, key, and what is asked of the client.
pub use rustls::ServerConfig as TlsContext;

pub use certificates::{Certificates, PreparedCertificates, TlsKind};
pub use client::{TlsClient, TlsClientFiles};
pub use contexts::{ClientCertificates, TlsConfig, TlsContexts, TlsFiles, TlsVersion};
pub use stream::{TlsFailure, TlsStream};
