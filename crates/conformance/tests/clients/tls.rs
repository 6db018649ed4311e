//! A server or a proxy that speaks TLS, with an authority made for the test.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use evenkeel_testkit::{Memcached, Process, evenkeel};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
};
use tempfile::TempDir;

/// Something that speaks TLS, and the authority that its certificate is from.
pub struct Encrypting {
    process: Process,
    dir: TempDir,
    // Ends with the value.
    _behind: Option<Memcached>,
}

impl Encrypting {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.process.address()
    }

    /// The authority's certificate, which clients trust.
    pub fn authority(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }
}

/// `evenkeel server -Z`.
pub fn tls_server() -> Encrypting {
    let (dir, options) = certificates();
    Encrypting {
        process: evenkeel::server(&["-t", "2", "-Z", "-o", &options]),
        dir,
        _behind: None,
    }
}

/// `evenkeel proxy -Z` in front of a memcached.
pub fn tls_proxy() -> Encrypting {
    let (dir, options) = certificates();
    let memcached = Memcached::spawn(&[]);
    let behind = memcached.address().to_string();
    let flags = ["-s", &behind, "--allow-flush", "-Z", "-o", &options];
    Encrypting {
        process: evenkeel::proxy(&[&flags, &evenkeel::LONG_TIMEOUTS[..]].concat()),
        dir,
        _behind: Some(memcached),
    }
}

/// A folder with a certificate for this machine by either of its names, and the `-o` that names it.
fn certificates() -> (TempDir, String) {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let mut authority = CertificateParams::new(Vec::new()).expect("no names");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key"))
        .expect("an authority signs itself");
    let key = KeyPair::generate().expect("a key");
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let mut params = CertificateParams::new(names).expect("good names");
    // The subject differs from the authority's: OpenSSL takes equal ones for self-signed.
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, "the server");
    let certificate = params.signed_by(&key, &authority).expect("it is signed");
    let write = |name: &str, text: String| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("a file can be written");
        path.display().to_string()
    };
    write("ca.pem", authority.pem());
    let options = format!(
        "ssl_chain_cert={},ssl_key={}",
        write("server.pem", certificate.pem()),
        write("server.key", key.serialize_pem())
    );
    (dir, options)
}
