//! TLS, with certificates made for the test and rustls or OpenSSL at the other end.

use evenkeel_testkit::{
    Client, EXIT_DEADLINE, IO_TIMEOUT, Process, Signal, evenkeel, poll_until, require_program,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(60);

/// An authority, and a folder with what it signed.
struct Authority {
    dir: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"))
            .expect("an authority");
        let authority = Authority {
            dir: tempfile::tempdir().expect("a temporary folder"),
            issuer,
        };
        std::fs::write(authority.file("ca.pem"), authority.issuer.pem()).expect("written");
        authority.sign("server");
        authority.sign("client");
        authority
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A new certificate and key of `localhost`, as NAME.pem and NAME.key.
    fn sign(&self, name: &str) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        // The subject differs from the authority's: OpenSSL takes equal ones for self-signed.
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        let (chain, key_file) = (format!("{name}.pem"), format!("{name}.key"));
        std::fs::write(self.file(&key_file), key.serialize_pem()).expect("written");
        std::fs::write(self.file(&chain), certificate.pem()).expect("written");
    }

    /// `-o` for a server with this authority's certificate.
    fn options(&self, more: &str) -> String {
        format!(
            "ssl_chain_cert={},ssl_key={},ssl_ca_cert={}{more}",
            self.file("server.pem").display(),
            self.file("server.key").display(),
            self.file("ca.pem").display()
        )
    }

    fn client(
        &self,
        with_certificate: bool,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots);
        Arc::new(if with_certificate {
            let chain = certificates(&self.file("client.pem"));
            let key = PrivateKeyDer::from_pem_file(self.file("client.key")).expect("a key");
            builder.with_client_auth_cert(chain, key).expect("a pair")
        } else {
            builder.with_no_client_auth()
        })
    }
}

fn certificates(path: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(path)
        .expect("a file of ours")
        .map(|certificate| certificate.expect("a certificate"))
        .collect()
}

const BOTH: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> Stream {
    let socket = TcpStream::connect(address).expect("the server listens");
    socket.set_read_timeout(Some(IO_TIMEOUT)).expect("a socket");
    socket
        .set_write_timeout(Some(IO_TIMEOUT))
        .expect("a socket");
    let name = ServerName::try_from("localhost").expect("a name");
    StreamOwned::new(
        ClientConnection::new(Arc::clone(config), name).expect("a client"),
        socket,
    )
}

/// Sends and reads until the answer ends so.
fn ask(stream: &mut Stream, question: &[u8], end: &str) -> std::io::Result<Vec<u8>> {
    stream.write_all(question)?;
    stream.flush()?;
    let mut answer = Vec::new();
    let mut buffer = [0; 16 * 1024];
    while !answer.ends_with(end.as_bytes()) {
        match stream.read(&mut buffer)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => answer.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(answer)
}

fn server(options: &str, more: &[&str]) -> Process {
    let mut arguments = vec!["-t", "1", "-Z", "-o", options];
    arguments.extend(more);
    evenkeel::server(&arguments)
}

fn stat(stream: &mut Stream, name: &str) -> Option<String> {
    let answer = ask(stream, b"stats\r\n", "END\r\n").ok()?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let start = format!("STAT {name} ");
    text.lines()
        .find_map(|line| line.strip_prefix(start.as_str()))
        .map(str::to_owned)
}

#[test]
fn both_versions_carry_values_of_any_size() {
    let authority = Authority::new();
    let server = server(&authority.options(""), &[]);
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let mut client = connect(server.address(), &authority.client(false, versions));
        for size in [0, 1, 100, 16 * 1024, 300_000, 1_000_000] {
            let value: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
            let mut set = format!("set key 0 0 {size}\r\n").into_bytes();
            set.extend_from_slice(&value);
            set.extend_from_slice(b"\r\n");
            assert_eq!(
                ask(&mut client, &set, "\r\n").expect("an answer"),
                b"STORED\r\n"
            );
            let mut expected = format!("VALUE key 0 {size}\r\n").into_bytes();
            expected.extend_from_slice(&value);
            expected.extend_from_slice(b"\r\nEND\r\n");
            let got = ask(&mut client, b"get key\r\n", "\r\nEND\r\n").expect("an answer");
            assert!(got == expected, "{size} bytes");
        }
        // Everything asked is answered before the end, and the end is said.
        let mut pipeline = b"get key\r\n".repeat(20);
        pipeline.extend_from_slice(b"quit\r\n");
        client.write_all(&pipeline).expect("sent");
        let mut rest = Vec::new();
        client
            .read_to_end(&mut rest)
            .expect("a clean end: close_notify came");
        assert_eq!(
            rest.len(),
            20 * (1_000_000 + "VALUE key 0 1000000\r\n\r\nEND\r\n".len())
        );
    }
    let mut client = connect(server.address(), &authority.client(false, BOTH));
    assert_eq!(
        stat(&mut client, "ssl_handshake_errors").as_deref(),
        Some("0")
    );
    assert_eq!(stat(&mut client, "ssl_proto_errors").as_deref(), Some("0"));
    assert!(stat(&mut client, "time_since_server_cert_refresh").is_some());
}

#[test]
fn a_server_without_tls_shows_none_of_its_statistics() {
    let server = evenkeel::server(&["-t", "1"]);
    let stats = Client::connect(server.address()).stats("");
    assert!(
        !stats
            .keys()
            .any(|name| name.contains("ssl") || name.contains("cert"))
    );
}

#[test]
fn each_listener_asks_for_what_its_prefix_says() {
    let authority = Authority::new();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let port_file = dir.path().join("ports");
    let _server = evenkeel::command("server")
        .args(["-u", "root", "-t", "1", "-p", "0", "-Z", "-l"])
        .arg("notls:127.0.0.1,btls:127.0.0.1,mtls:127.0.0.1,127.0.0.1")
        .args(["-o", &authority.options(",ssl_verify_mode=1")])
        .env("MEMCACHED_PORT_FILENAME", &port_file)
        .ready_prefix("evenkeel server listening on ")
        .spawn();
    let text = std::fs::read_to_string(&port_file).expect("written before the ready line");
    let at: Vec<SocketAddr> = text
        .lines()
        .filter_map(|line| line.strip_prefix("TCP INET: ")?.parse().ok())
        .map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port)))
        .collect();
    let (plain, basic, mutual, requested) = (at[0], at[1], at[2], at[3]);
    assert!(
        Client::connect(plain)
            .command("version")
            .starts_with("VERSION ")
    );
    let heard = |address, authority: &Authority, with| {
        let config = authority.client(with, BOTH);
        ask(&mut connect(address, &config), b"version\r\n", "\r\n").is_ok()
    };
    assert!(heard(basic, &authority, false) && heard(basic, &authority, true));
    assert!(
        !heard(mutual, &authority, false),
        "mtls: wants a certificate"
    );
    assert!(heard(mutual, &authority, true));
    assert!(heard(requested, &authority, false) && heard(requested, &authority, true));
    // A client whose certificate comes from elsewhere, but who knows this server's authority.
    let stranger = Authority::new();
    std::fs::copy(stranger.file("client.pem"), authority.file("client.pem")).expect("copied");
    std::fs::copy(stranger.file("client.key"), authority.file("client.key")).expect("copied");
    assert!(!heard(mutual, &authority, true), "not of a known authority");
    assert!(
        !heard(requested, &authority, true),
        "not of a known authority"
    );
}

#[test]
fn plain_text_on_a_tls_port_is_turned_away_and_counted() {
    let authority = Authority::new();
    let server = server(&authority.options(""), &["--progress-timeout", "1"]);
    let mut plain = Client::connect(server.address());
    plain.send(b"set k 0 0 1\r\nv\r\n");
    // An alert may come first; then the end.
    let mut left = Vec::new();
    let mut socket = TcpStream::connect(server.address()).expect("it listens");
    socket.set_read_timeout(Some(IO_TIMEOUT)).expect("a socket");
    socket.write_all(b"get k\r\n").expect("sent");
    let _ = socket.read_to_end(&mut left);
    assert!(
        !left.starts_with(b"END") && !left.starts_with(b"STORED"),
        "{left:?}"
    );
    // And one that says nothing at all does not stay.
    let mut silent = Client::connect(server.address());
    assert!(silent.closed());
    // A client that is held up in its handshake for a second is turned away as well.
    let config = authority.client(false, BOTH);
    let found = poll_until(DEADLINE, "both failures", || {
        let mut client = connect(server.address(), &config);
        let count: u64 = stat(&mut client, "ssl_handshake_errors")?.parse().ok()?;
        let found = ask(&mut client, b"get k\r\n", "END\r\n").ok()?;
        (count >= 2).then_some(found)
    });
    assert_eq!(found, b"END\r\n", "nothing was stored");
}

#[test]
fn certificates_are_read_again_on_a_signal() {
    let authority = Authority::new();
    let mut server = server(&authority.options(""), &[]);
    let config = authority.client(false, BOTH);
    let served = |address| {
        let mut client = connect(address, &config);
        ask(&mut client, b"version\r\n", "\r\n").expect("an answer");
        client.conn.peer_certificates().expect("a certificate")[0].to_vec()
    };
    let on_disk = || certificates(&authority.file("server.pem"))[0].to_vec();
    let mut old_client = connect(server.address(), &config);
    ask(&mut old_client, b"version\r\n", "\r\n").expect("an answer");
    let before = served(server.address());
    assert_eq!(before, on_disk());
    authority.sign("server");
    server.signal(Signal::Hangup);
    poll_until(DEADLINE, "the new certificate", || {
        (served(server.address()) == on_disk()).then_some(())
    });
    assert_ne!(before, on_disk());
    ask(&mut old_client, b"version\r\n", "\r\n").expect("connections that stand go on");
    // A file that cannot be used leaves everything as it was, and says so.
    let good = on_disk();
    std::fs::write(authority.file("server.pem"), "no certificate").expect("written");
    server.signal(Signal::Hangup);
    poll_until(DEADLINE, "the complaint", || {
        server.stderr_text().contains("server.pem").then_some(())
    });
    assert_eq!(served(server.address()), good);
    // A client may ask for the same, and hears what came of it.
    let answer = ask(&mut old_client, b"refresh_certs\r\n", "\r\n").expect("an answer");
    let answer = String::from_utf8(answer).expect("text");
    assert!(
        answer.starts_with("SERVER_ERROR ") && answer.contains("server.pem"),
        "{answer}"
    );
    authority.sign("server");
    let answer = ask(&mut old_client, b"refresh_certs\r\n", "\r\n").expect("an answer");
    assert_eq!(answer, b"OK\r\n");
    assert_eq!(served(server.address()), on_disk());
    assert_ne!(served(server.address()), good);
    server.signal(Signal::Terminate);
    assert_eq!(server.wait(EXIT_DEADLINE).code(), Some(0));
}

#[test]
fn what_tls_cannot_start_with_is_named() {
    let authority = Authority::new();
    let refused = |options: &str, more: &[&str], named: &str| {
        let mut words = vec!["server", "-u", "root", "-p", "0", "-Z"];
        if !options.is_empty() {
            words.extend(["-o", options]);
        }
        words.extend(more);
        let output = evenkeel::run(&words);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {told}");
        assert!(told.contains(named), "{words:?}: {told}");
    };
    refused("", &[], "ssl_chain_cert");
    refused(
        "ssl_chain_cert=/nonexistent/c.pem",
        &[],
        "/nonexistent/c.pem",
    );
    refused(&authority.options(",ssl_ciphers=RC4-MD5"), &[], "RC4-MD5");
    let pair = format!(
        "ssl_chain_cert={},ssl_key={}",
        authority.file("server.pem").display(),
        authority.file("server.key").display()
    );
    refused(&format!("{pair},ssl_verify_mode=2"), &[], "ssl_ca_cert");
    refused(&pair, &["-l", "mtls:127.0.0.1"], "ssl_ca_cert");
    refused(
        &pair,
        &["--coordinator", "http://127.0.0.1:1"],
        "--coordinator",
    );
}

#[test]
fn openssl_is_understood() {
    let openssl = require_program("openssl");
    let authority = Authority::new();
    let options = authority.options(",ssl_ciphers=ECDHE-ECDSA-AES128-GCM-SHA256");
    let server = server(&options, &[]);
    for (version, suite) in [
        ("-tls1_2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("-tls1_3", "TLS_AES_256_GCM_SHA384"),
    ] {
        let script = format!(
            "(printf 'set o 0 0 2\\r\\nhi\\r\\nget o\\r\\nquit\\r\\n'; cat {fifo}) | {} s_client \
             -connect {} -servername localhost -CAfile {} -verify_return_error -ign_eof {version}",
            openssl.display(),
            server.address(),
            authority.file("ca.pem").display(),
            fifo = "/dev/null",
        );
        let mut client = Process::command("openssl", "sh")
            .args(["-c", &script])
            .spawn();
        client.wait(EXIT_DEADLINE);
        let told = client.stdout_text();
        assert!(
            told.contains("STORED"),
            "{version}: {told}{}",
            client.stderr_text()
        );
        assert!(told.contains("VALUE o 0 2"), "{version}: {told}");
        assert!(told.contains(suite), "{version}: {told}");
    }
}
