//! Who may speak to the proxy, and through what: credentials and TLS, over real sockets.

use crate::in_process::parsed;
use crate::patience::{FLAGS, LINES, PATIENCE};
use evenkeel_proxy::Proxy;
use evenkeel_testkit::{Client, IO_TIMEOUT, Memcached, Signal, evenkeel, poll_until};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

/// A proxy in front of a memcached, with these arguments besides.
fn start(memcached: &Memcached, more: &[&str]) -> Proxy {
    let servers = memcached.address().to_string();
    let line = ["proxy", "-s", &servers];
    let args = parsed(line.iter().chain(&FLAGS).chain(more));
    Proxy::start(&args).expect("the proxy starts")
}

fn address(proxy: &Proxy) -> SocketAddr {
    proxy.address().parse().expect("an address")
}

/// An authority, and a folder with what it signed.
struct Authority {
    dir: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = Authority {
            dir: tempfile::tempdir().expect("a temporary folder"),
            issuer: CertifiedIssuer::self_signed(params, key).expect("an authority"),
        };
        std::fs::write(authority.file("ca.pem"), authority.issuer.pem()).expect("written");
        authority.sign("proxy");
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
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        let write = |end: &str, text: String| {
            std::fs::write(self.file(&format!("{name}.{end}")), text).expect("written");
        };
        write("key", key.serialize_pem());
        write("pem", certificate.pem());
    }

    fn options(&self) -> String {
        let file = |name| self.file(name).display().to_string();
        let (chain, key, ca) = (file("proxy.pem"), file("proxy.key"), file("ca.pem"));
        format!("ssl_chain_cert={chain},ssl_key={key},ssl_ca_cert={ca}")
    }

    /// A proxy with a listener written so.
    fn proxy(&self, memcached: &Memcached, listen: &str) -> Proxy {
        start(memcached, &["-l", listen, "-Z", "-o", &self.options()])
    }

    /// Says hello to the proxy, with or without a certificate.
    fn connect(&self, proxy: &Proxy, with_certificate: bool) -> Encrypted {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let config = if with_certificate {
            let chain = CertificateDer::from_pem_file(self.file("client.pem")).expect("ours");
            let key = PrivateKeyDer::from_pem_file(self.file("client.key")).expect("ours");
            builder
                .with_client_auth_cert(vec![chain], key)
                .expect("a pair")
        } else {
            builder.with_no_client_auth()
        };
        let socket = TcpStream::connect(address(proxy)).expect("the proxy listens");
        socket.set_read_timeout(Some(IO_TIMEOUT)).expect("a socket");
        let name = ServerName::try_from("localhost").expect("a name");
        let session = ClientConnection::new(Arc::new(config), name).expect("a client");
        StreamOwned::new(session, socket)
    }
}

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// Sends and reads until the answer ends so.
fn ask(stream: &mut (impl Read + Write), question: &[u8], end: &str) -> std::io::Result<Vec<u8>> {
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

fn serial(stream: &Encrypted) -> CertificateDer<'static> {
    let chain = stream.conn.peer_certificates().expect("a certificate");
    chain[0].clone().into_owned()
}

#[test]
fn values_of_any_size_travel_over_tls_and_certificates_are_read_again() {
    let (authority, memcached) = (Authority::new(), Memcached::spawn(&[]));
    let mut proxy = authority.proxy(&memcached, "127.0.0.1:0");
    let mut old = authority.connect(&proxy, false);
    for size in [0, 1, 20_000, 900_000] {
        let value = "v".repeat(size);
        let set = format!("set k{size} 0 0 {size}\r\n{value}\r\n");
        let stored = ask(&mut old, set.as_bytes(), "\r\n").expect("an answer");
        assert_eq!(stored, b"STORED\r\n");
        // Several at a time are more than a socket takes at once.
        let gets = format!("get k{size}\r\n").repeat(8) + "mn\r\n";
        let found = ask(&mut old, gets.as_bytes(), "MN\r\n").expect("an answer");
        let expected = format!("VALUE k{size} 0 {size}\r\n{value}\r\nEND\r\n").repeat(8) + "MN\r\n";
        assert!(found == expected.as_bytes(), "{size}");
    }
    authority.sign("proxy");
    proxy.reload().expect("sound files");
    let mut new = authority.connect(&proxy, false);
    ask(&mut new, b"mn\r\n", "MN\r\n").expect("an answer");
    ask(&mut old, b"mn\r\n", "MN\r\n").expect("what stands goes on");
    assert_ne!(serial(&old), serial(&new));
    std::fs::write(authority.file("proxy.pem"), "nonsense").expect("written");
    let error = proxy.reload().expect_err("no certificate");
    assert!(
        error.contains("proxy.pem: there is no certificate"),
        "{error}"
    );
    let mut kept = authority.connect(&proxy, false);
    ask(&mut kept, b"mn\r\n", "MN\r\n").expect("an answer");
    assert_eq!(serial(&new), serial(&kept));
    // Text on a port of TLS is turned away and counted.
    let mut plain = TcpStream::connect(address(&proxy)).expect("it listens");
    plain.set_read_timeout(Some(IO_TIMEOUT)).expect("a socket");
    assert!(ask(&mut plain, b"version\r\nversion\r\n", "\r\n").is_err());
    poll_until(PATIENCE, "it is counted", || {
        let stats = ask(&mut new, b"stats\r\n", "END\r\n").expect("an answer");
        String::from_utf8_lossy(&stats)
            .contains("STAT ssl_handshake_errors 1\r\n")
            .then_some(())
    });
    proxy.stop().expect("it stops");
}

#[test]
fn each_listener_asks_for_what_its_prefix_says() {
    let (authority, memcached) = (Authority::new(), Memcached::spawn(&[]));
    let mutual = authority.proxy(&memcached, "mtls:127.0.0.1:0");
    let basic = authority.proxy(&memcached, "btls:127.0.0.1:0");
    let plain = authority.proxy(&memcached, "notls:127.0.0.1:0");
    for (proxy, with_certificate, works) in [
        (&mutual, true, true),
        (&mutual, false, false),
        (&basic, true, true),
        (&basic, false, true),
        (&plain, false, false),
    ] {
        let mut client = authority.connect(proxy, with_certificate);
        let answer = ask(&mut client, b"mn\r\n", "MN\r\n");
        assert_eq!(answer.is_ok(), works);
    }
    assert_eq!(Client::connect(address(&plain)).set("k", b"v"), "STORED");
    for proxy in [mutual, basic, plain] {
        proxy.stop().expect("it stops");
    }
}

#[test]
fn what_a_file_says_of_tls_and_users_is_taken_over_by_a_reload() {
    let (authority, memcached) = (Authority::new(), Memcached::spawn(&[]));
    authority.sign("other");
    let write = |name: &str, text: &str| std::fs::write(authority.file(name), text).expect("room");
    write("users", "me:secret\n");
    let rest = format!(
        "[pools.a]\nservers = [\"{}\"]\n{LINES}",
        memcached.address()
    );
    let tls = "[proxy]\nlisten = \"127.0.0.1:0\"\nenable_ssl = true\nssl_chain_cert = \"proxy.pem\"\n\
               ssl_key = \"proxy.key\"\n";
    write("proxy.toml", &format!("{tls}{rest}"));
    let path = authority.file("proxy.toml");
    let line = ["proxy", "--config", path.to_str().expect("UTF-8")];
    let mut proxy = Proxy::start(&parsed(line)).expect("it starts");
    let mut old = authority.connect(&proxy, false);
    ask(&mut old, b"mn\r\n", "MN\r\n").expect("nobody has to say who he is");
    // Another certificate, and anyone who comes from now on has to say who he is.
    let tls = tls.replace("proxy.", "other.");
    write("proxy.toml", &format!("{tls}auth_file = \"users\"\n{rest}"));
    assert!(
        proxy
            .reload()
            .expect("a sound file")
            .need_restart
            .is_empty()
    );
    ask(&mut old, b"mn\r\n", "MN\r\n").expect("what stands goes on");
    let mut new = authority.connect(&proxy, false);
    let refused = ask(&mut new, b"get k\r\n", "\r\n").expect("an answer");
    assert!(refused.starts_with(b"CLIENT_ERROR"), "{refused:?}");
    let stored = ask(&mut new, b"set x 0 0 9\r\nme secret\r\n", "\r\n").expect("an answer");
    assert_eq!(stored, b"STORED\r\n");
    assert_ne!(serial(&old), serial(&new));
    // A key that is not the certificate's: all stays, the users too.
    write("users", "me:changed\n");
    let mixed = tls.replace("other.key", "proxy.key");
    write(
        "proxy.toml",
        &format!("{mixed}auth_file = \"users\"\n{rest}"),
    );
    proxy.reload().expect_err("they do not belong together");
    let mut kept = authority.connect(&proxy, false);
    let stored = ask(&mut kept, b"set x 0 0 9\r\nme secret\r\n", "\r\n").expect("an answer");
    assert_eq!(stored, b"STORED\r\n");
    assert_eq!(serial(&new), serial(&kept));
    write(
        "proxy.toml",
        &format!("[proxy]\nadmin = \"127.0.0.1:0\"\n{rest}"),
    );
    let reloaded = proxy.reload().expect("a sound file");
    assert_eq!(reloaded.need_restart, ["listen", "enable_ssl", "admin"]);
    proxy.stop().expect("it stops");
}

#[test]
fn users_are_read_again_on_a_signal_and_a_file_that_is_wrong_changes_nothing() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("users");
    std::fs::write(&file, "me:secret\n").expect("written");
    let memcached = Memcached::spawn(&[]);
    let servers = memcached.address().to_string();
    let users = file.to_str().expect("UTF-8");
    let mut proxy = evenkeel::proxy(&[&["-s", &servers, "-Y", users], &FLAGS[..]].concat());
    let address = proxy.address();
    let mut client = Client::connect(address);
    assert_eq!(
        client.set("k", b"me wrong"),
        "CLIENT_ERROR authentication failure"
    );
    assert_eq!(client.set("k", b"me secret"), "STORED");
    assert_eq!(client.set("k", b"v"), "STORED");
    assert_eq!(
        memcached.client().get("k").map(|value| value.data),
        Some(b"v".to_vec())
    );
    let lets_in = |password: &str| {
        let credentials = format!("me {password}");
        Client::connect(address).set("k", credentials.as_bytes()) == "STORED"
    };
    std::fs::write(&file, "me:changed\n").expect("written");
    proxy.signal(Signal::Hangup);
    poll_until(PATIENCE, "the new password lets in", || {
        lets_in("changed").then_some(())
    });
    assert!(!lets_in("secret"));
    std::fs::write(&file, "nonsense\n").expect("written");
    proxy.signal(Signal::Hangup);
    poll_until(PATIENCE, "the file is refused", || {
        let failures = &client.stats("")["proxy_config_reload_failures"];
        (failures == "1").then_some(())
    });
    assert!(lets_in("changed"));
    assert_eq!(
        client.set("k", b"w"),
        "STORED",
        "anyone who is known stays so"
    );
}
