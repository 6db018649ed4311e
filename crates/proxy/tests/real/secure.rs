//! TLS and authentication towards servers: Evenkeel with `-Z` and `-Y`, and memcached with `-Y`.

use crate::in_process::{connect, parsed};
use crate::patience::PATIENCE;
use evenkeel_proxy::{KeyCheckArgs, Proxy, Stands, look_at_keys};
use evenkeel_testkit::{Memcached, Process, evenkeel, poll_until};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, Issuer, KeyPair};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Certificates, passwords and the proxy's file.
struct Files(TempDir);

impl Files {
    fn new() -> Files {
        let files = Files(tempfile::tempdir().expect("a temporary folder"));
        let authority = authority();
        files.write("ca.pem", &authority.pem());
        files.write("other-ca.pem", &self::authority().pem());
        files.certify("server", &["127.0.0.1", "cache.test"], &authority);
        files.certify("client", &["proxy.test"], &authority);
        files.write("auth", "ann:opens\nbob:other\n");
        files.write("wrong-auth", "ann:guess\n");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("room");
    }

    fn certify(&self, name: &str, hosts: &[&str], authority: &Issuer<'_, KeyPair>) {
        let key = KeyPair::generate().expect("a key");
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).expect("good names");
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, authority).expect("it is signed");
        self.write(&format!("{name}.pem"), &certificate.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    /// The proxy's file: one pool with this server and these lines.
    fn configure(&self, server: SocketAddr, lines: &[(&str, &str)]) {
        self.configure_with(server, "30s", lines);
    }

    /// The same with another time for connecting.
    fn configure_with(&self, server: SocketAddr, connect: &str, lines: &[(&str, &str)]) {
        let mut text = format!("[pools.default]\nservers = [\"{server}\"]\n");
        text += &format!("connect_timeout = {connect:?}\n");
        text += "request_timeout = \"50s\"\non_down = \"error\"\n";
        for (key, value) in lines {
            text += &match *key {
                "tls" => "tls = true\n".to_owned(),
                "tls_server_name" => format!("{key} = {value:?}\n"),
                _ => format!("{key} = {:?}\n", self.path(value)),
            };
        }
        self.write("proxy.toml", &text);
    }

    /// A pool over two racks with a server each, and this file of passwords.
    fn configure_racks(&self, servers: [SocketAddr; 2], auth: &str) {
        let [a, b] = servers;
        let text = format!(
            "[topology.racks.a]\n[topology.racks.b]\n[proxy]\nrack = \"a\"\n[pools.main]\narchitecture = \"snoop\"\n\
             servers = [{{ address = \"{a}\", rack = \"a\" }}, {{ address = \"{b}\", rack = \"b\" }}]\n\
             connect_timeout = \"30s\"\nrequest_timeout = \"50s\"\ntls = true\ntls_ca = {:?}\nauth_file = {:?}\n\
             [[routes]]\npool = \"main\"\n",
            self.path("ca.pem"),
            self.path(auth)
        );
        self.write("proxy.toml", &text);
    }

    fn start(&self) -> Proxy {
        let config = self.path("proxy.toml");
        let config = config.to_str().expect("UTF-8");
        let line = ["proxy", "--config", config, "-l", "127.0.0.1:0", "-t", "1"];
        Proxy::start(&parsed(line)).expect("the proxy starts")
    }

    /// An Evenkeel server that speaks TLS and wants a password.
    fn server(&self, more: &str) -> Process {
        let options = format!(
            "ssl_chain_cert={},ssl_key={}{more}",
            self.path("server.pem").display(),
            self.path("server.key").display(),
        );
        let auth = self.path("auth");
        let auth = auth.to_str().expect("UTF-8");
        evenkeel::server(&["-t", "2", "-Z", "-o", &options, "-Y", auth])
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
}

/// Writes and reads are refused, with a cause that begins so.
fn assert_refused(proxy: &Proxy, server: SocketAddr, cause: &str) {
    let mut client = connect(proxy);
    let unavailable = format!("SERVER_ERROR backend {server} unavailable: {cause}");
    for answer in [client.set("a", b"1"), client.command("get a")] {
        assert!(answer.starts_with(&unavailable), "{answer}");
    }
}

const RIGHT: [(&str, &str); 3] = [("tls", ""), ("tls_ca", "ca.pem"), ("auth_file", "auth")];

#[test]
fn an_evenkeel_server_with_tls_and_a_password_is_a_server_like_any() {
    let files = Files::new();
    let server = files.server("");
    files.configure(server.address(), &RIGHT);
    let proxy = files.start();
    let mut client = connect(&proxy);
    assert_eq!(client.set("small", b"1"), "STORED");
    // More than what sockets and records hold at a time, in both directions and in a pipeline.
    let large: Vec<u8> = (0..900_000u32).map(|i| (i * 31 % 251) as u8).collect();
    for key in ["a", "b", "c"] {
        assert_eq!(client.set(key, &large), "STORED");
    }
    let found = client.get_many(&["a", "none", "b", "small", "c"]);
    let keys: Vec<&str> = found.iter().map(|value| value.key.as_str()).collect();
    assert_eq!(keys, ["a", "b", "small", "c"]);
    assert!(
        found
            .iter()
            .all(|value| value.data == large || value.key == "small")
    );
    client.send("set n 0 0 1\r\n0\r\n".as_bytes());
    assert_eq!(client.line(), "STORED");
    client.send("incr n 1\r\n".repeat(500).as_bytes());
    let last = (0..500).map(|_| client.line()).last();
    assert_eq!(last.as_deref(), Some("500"));
    proxy.stop().expect("it stops");
}

#[test]
fn a_certificate_of_nobody_we_know_or_for_somebody_else_is_refused_until_a_reload_says_better() {
    let files = Files::new();
    let server = files.server("");
    let address = server.address();
    files.configure(
        address,
        &[
            ("tls", ""),
            ("tls_ca", "other-ca.pem"),
            ("auth_file", "auth"),
        ],
    );
    let mut proxy = files.start();
    assert_refused(&proxy, address, "TLS failed: ");
    let wrong_name = [RIGHT.as_slice(), &[("tls_server_name", "other.test")]].concat();
    files.configure(address, &wrong_name);
    proxy.reload().expect("a sound file");
    assert_refused(&proxy, address, "TLS failed: ");
    let right_name = [RIGHT.as_slice(), &[("tls_server_name", "cache.test")]].concat();
    files.configure(address, &right_name);
    proxy.reload().expect("a sound file");
    assert_eq!(
        connect(&proxy).set("a", b"1"),
        "STORED",
        "at the first attempt"
    );
    // Files that say something new are read again under their old names.
    std::fs::copy(files.path("other-ca.pem"), files.path("ca.pem")).expect("room");
    proxy.reload().expect("a sound file");
    assert_refused(&proxy, address, "TLS failed: ");
    proxy.stop().expect("it stops");
}

#[test]
fn the_places_of_a_key_over_racks_are_asked_as_the_proxy_asks() {
    let files = Files::new();
    let servers = [files.server(""), files.server("")];
    let servers = servers.each_ref().map(|server| server.address());
    files.configure_racks(servers, "auth");
    let proxy = files.start();
    // Some records of TLS.
    let large = vec![b'x'; 200_000];
    assert_eq!(connect(&proxy).set("k", &large), "STORED");
    let seen = || {
        let found = look_at_keys(&KeyCheckArgs {
            pool: "main".to_owned(),
            keys: vec!["k".to_owned()],
            config: files.path("proxy.toml"),
            rack: None,
        });
        let places = found.expect("a sound file").remove(0).places;
        let places: Vec<Stands> = places.into_iter().map(|place| place.stands).collect();
        <[Stands; 2]>::try_from(places).expect("two racks")
    };
    let item = Stands::Item {
        value_bytes: large.len(),
        flags: 0,
        ttl_s: None,
    };
    let note = Stands::Note {
        leads_to: Some("a".to_owned()),
    };
    assert_eq!(seen(), [item, note]);
    files.configure_racks(servers, "wrong-auth");
    let unasked = Stands::Unasked {
        why: "it does not accept the name and password of auth_file".to_owned(),
    };
    assert_eq!(seen(), [unasked.clone(), unasked]);
    proxy.stop().expect("it stops");
}

#[test]
fn a_server_that_wants_a_certificate_gets_ours() {
    let files = Files::new();
    let ca = files.path("ca.pem");
    let server = files.server(&format!(",ssl_ca_cert={},ssl_verify_mode=2", ca.display()));
    files.configure(server.address(), &RIGHT);
    let mut proxy = files.start();
    assert_ne!(connect(&proxy).set("a", b"1"), "STORED");
    let ours = [("tls_cert", "client.pem"), ("tls_key", "client.key")];
    files.configure(server.address(), &[RIGHT.as_slice(), &ours].concat());
    proxy.reload().expect("a sound file");
    assert_eq!(connect(&proxy).set("a", b"1"), "STORED");
    proxy.stop().expect("it stops");
}

#[test]
fn a_handshake_that_does_not_end_takes_no_longer_than_connecting_may() {
    let files = Files::new();
    // Accepts by its queue, and says nothing.
    let mute = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = mute.local_addr().expect("it is bound");
    files.configure_with(address, "2s", &[("tls", ""), ("tls_ca", "ca.pem")]);
    let proxy = files.start();
    let asked = Instant::now();
    assert_refused(&proxy, address, "no answer to the health check");
    // Refused by the time for connecting: for the answer itself it would wait for longer.
    let took = asked.elapsed();
    let connecting = Duration::from_secs(2)..Duration::from_secs(45);
    assert!(connecting.contains(&took), "{took:?}");
    proxy.stop().expect("it stops");
}

#[test]
fn memcached_with_a_password_is_told_it_and_one_without_does_not_keep_it() {
    let files = Files::new();
    let auth = files.path("auth");
    let asking = Memcached::spawn(&["-t", "1", "-Y", auth.to_str().expect("UTF-8")]);
    files.configure(asking.address(), &[("auth_file", "wrong-auth")]);
    let mut proxy = files.start();
    assert_refused(&proxy, asking.address(), "login refused");
    let row = format!("{}:logins_refused", asking.address());
    let stats = connect(&proxy).stats("servers");
    assert_ne!(stats[&row], "0");
    files.configure(asking.address(), &[("auth_file", "auth")]);
    proxy.reload().expect("a sound file");
    let mut client = connect(&proxy);
    assert_eq!(client.set("a", b"1"), "STORED");
    assert_eq!(client.get("a").expect("it was stored").data, b"1");
    assert_eq!(client.get("auth"), None);

    let open = Memcached::spawn(&["-t", "1"]);
    files.configure(open.address(), &[("auth_file", "auth")]);
    proxy.reload().expect("a sound file");
    poll_until(PATIENCE, "the other server to be used", || {
        (client.set("b", b"2") == "STORED").then_some(())
    });
    assert!(open.client().get("b").is_some());
    assert_eq!(
        open.client().get("auth"),
        None,
        "a password that anybody could read"
    );
    assert_eq!(client.get("auth"), None);
    proxy.stop().expect("it stops");
}
