//! A server that speaks TLS, with an authority made for the test.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use evenkeel_testkit::{Process, evenkeel};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
};
use tempfile::TempDir;

/// `evenkeel server -Z` and the authority that its certificate is from.
pub struct Encrypting {
    server: Process,
    dir: TempDir,
}

impl Encrypting {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The authority's certificate, which clients trust.
    pub fn authority(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }
}

/// `evenkeel server -Z` with a certificate for this machine by either of its names.
pub fn tls_server() -> Encrypting {
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
    let server = evenkeel::server(&["-t", "2", "-Z", "-o", &options]);
    Encrypting { server, dir }
}
