//! Who gets into a coordinator's API: tokens and certificates, with real processes at both ends.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use evenkeel_testkit::{Client, Process, Signal, evenkeel, http, poll_until, require_program};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
};

/// Longest wait for anything; reached only by a failure.
const DEADLINE: Duration = Duration::from_secs(60);

const OPERATOR: &str = "operators-0123456789";
const OPERATOR_NEW: &str = "operators-new-0123456789";
const MEMBER: &str = "members-0123456789";
const MEMBER_NEW: &str = "members-new-0123456789";
const STRANGER: &str = "strangers-0123456789";

/// A folder of secrets.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).expect("written");
        self.path(name)
    }
}

fn call(coordinator: &Process, method: &str, path: &str, header: &str) -> (u16, String) {
    let address = coordinator.address();
    let text = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\n{header}\r\n");
    http::request(address, &text).expect("an answer")
}

fn get_with(coordinator: &Process, path: &str, token: &str) -> (u16, String) {
    call(
        coordinator,
        "GET",
        path,
        &format!("Authorization: Bearer {token}\r\n"),
    )
}

/// A counter of the coordinator's.
fn metric(coordinator: &Process, name: &str) -> u64 {
    let (status, text) = http::get(coordinator.address(), "/metrics").expect("an answer");
    assert_eq!(status, 200);
    let line = text.lines().find_map(|line| {
        line.strip_prefix("evenkeel_coordinator_")?
            .strip_prefix(name)?
            .strip_prefix(' ')
    });
    let value = line.unwrap_or_else(|| panic!("no {name} in {text}"));
    value.parse().expect("a number")
}

/// Standard error of a process, once it says this.
fn says(process: &Process, what: &str) -> String {
    poll_until(DEADLINE, what, || {
        let text = process.stderr_text();
        text.contains(what).then_some(text)
    })
}

/// What a command says. On a busy machine a coordinator may not answer within the second that commands wait.
fn answered(arguments: &[&str]) -> Output {
    poll_until(DEADLINE, "an answer within a second", || {
        let output = evenkeel::run(arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        (!text.contains("timeout")).then_some(output)
    })
}

fn server(coordinator: &str, name: &str, more: &[&str]) -> Process {
    let mut arguments = vec!["-t", "1", "--coordinator", coordinator, "--name", name];
    arguments.extend(more);
    evenkeel::server(&arguments)
}

/// A cluster of one server that is let in as a member.
fn guarded(folder: &Folder) -> (Process, Process) {
    let operators = folder.write("operators", &format!("# first\n{OPERATOR}\n"));
    let members = folder.write("members", &format!("{MEMBER} server s1\n"));
    let shown = folder.write("shown", MEMBER);
    let coordinator = evenkeel::coordinator(&[
        "--api-token-file",
        &operators,
        "--member-token-file",
        &members,
    ]);
    let url = format!("http://{}", coordinator.address());
    let server = server(&url, "s1", &["--coordinator-token-file", &shown]);
    poll_until(DEADLINE, "a map", || {
        matches!(http::get(coordinator.address(), "/readyz"), Ok((200, _))).then_some(())
    });
    (coordinator, server)
}

#[test]
fn each_call_needs_its_token() {
    let folder = Folder::new();
    let (coordinator, _server) = guarded(&folder);
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(
            http::get(coordinator.address(), path).expect("an answer").0,
            200,
            "{path}"
        );
    }
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let (operators, members) = ("/api/v1/servers", "/api/v1/map");
    for (path, token, status, words) in [
        (
            operators,
            None,
            401,
            ["no_token", "--coordinator-token-file"],
        ),
        (members, None, 401, ["no_token", "--coordinator-token-file"]),
        (operators, Some(STRANGER), 401, ["wrong_token", "error"]),
        (
            operators,
            Some(MEMBER),
            403,
            ["members_token", "--api-token-file"],
        ),
        (members, Some(MEMBER), 200, ["cachelets", "epoch"]),
        (operators, Some(OPERATOR), 200, ["cachelets", "epoch"]),
        ("/nowhere", None, 401, ["no_token", "error"]),
    ] {
        let header = token.map(bearer).unwrap_or_default();
        let (found, body) = call(&coordinator, "GET", path, &header);
        assert_eq!(found, status, "{path} {token:?}: {body}");
        assert!(words.iter().all(|word| body.contains(word)), "{body}");
        assert!(token.is_none_or(|token| !body.contains(token)), "{body}");
    }
    let denied = |reason: &str| {
        metric(
            &coordinator,
            &format!("denials_total{{reason=\"{reason}\"}}"),
        )
    };
    let reasons = ["no_token", "wrong_token", "members_token"];
    assert_eq!(reasons.map(denied), [3, 1, 1]);
}

#[test]
fn commands_show_a_token_from_a_file_or_the_environment() {
    let folder = Folder::new();
    let (coordinator, _server) = guarded(&folder);
    let url = format!("http://{}", coordinator.address());
    let file = folder.write("mine", OPERATOR);
    let commands: [&[&str]; 4] = [
        &["cachelets"],
        &["plans"],
        &["plans", "mode", "approve"],
        &["top", "--once"],
    ];
    for words in commands {
        let asking = [words, &["--coordinator", &url]].concat();
        let refused = answered(&asking);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            !refused.status.success() && text.contains("no_token"),
            "{words:?}: {text}"
        );
        let shown = [&asking[..], &["--coordinator-token-file", &file]].concat();
        let done = answered(&shown);
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{words:?}: {text}");
    }
    let command = poll_until(DEADLINE, "an answer within a second", || {
        let mut command = evenkeel::command("plans")
            .args(["--coordinator", &url])
            .env("EVENKEEL_COORDINATOR_TOKEN", OPERATOR)
            .spawn();
        let done = command.wait(DEADLINE).success();
        (done || !command.stderr_text().contains("timeout")).then_some(command)
    });
    assert!(
        command.stdout_text().contains("approve"),
        "{}",
        command.stdout_text()
    );
}

#[test]
fn tokens_are_replaced_while_everybody_works() {
    let folder = Folder::new();
    let (mut coordinator, server) = guarded(&folder);
    let judged =
        |coordinator: &Process, token: &str| get_with(coordinator, "/api/v1/servers", token).0;
    // Operators: the new one beside the old one, and then alone.
    folder.write("operators", &format!("{OPERATOR}\n{OPERATOR_NEW}\n"));
    assert_eq!(judged(&coordinator, OPERATOR_NEW), 401);
    reload(&mut coordinator, 1);
    assert_eq!(
        (
            judged(&coordinator, OPERATOR),
            judged(&coordinator, OPERATOR_NEW)
        ),
        (200, 200)
    );
    folder.write("operators", OPERATOR_NEW);
    // Members: at the coordinator first; the server reads its file again when it is refused.
    folder.write("members", &format!("{MEMBER_NEW} server\n"));
    reload(&mut coordinator, 2);
    assert_eq!(
        (
            judged(&coordinator, OPERATOR),
            judged(&coordinator, OPERATOR_NEW)
        ),
        (401, 200)
    );
    says(&server, "wrong_token");
    folder.write("shown", MEMBER_NEW);
    let heartbeats = || metric(&coordinator, "heartbeats_total{kind=\"server\"}");
    let before = heartbeats();
    poll_until(DEADLINE, "heartbeats with the new token", || {
        (heartbeats() >= before + 3).then_some(())
    });
    // What cannot be used opens no door and closes none.
    for broken in ["", "# nothing\n", "short"] {
        folder.write("operators", broken);
        coordinator.signal(Signal::Hangup);
        says(&coordinator, "what was read before stays in use");
    }
    assert_eq!(
        (judged(&coordinator, ""), judged(&coordinator, OPERATOR_NEW)),
        (401, 200)
    );
}

/// Has the files read again, for the `count`th time.
fn reload(coordinator: &mut Process, count: usize) {
    coordinator.signal(Signal::Hangup);
    poll_until(DEADLINE, "files that are read again", || {
        let text = coordinator.stderr_text();
        (text.matches("were read again").count() >= count).then_some(())
    });
}

#[test]
fn flags_that_would_leave_a_door_open_are_refused() {
    let folder = Folder::new();
    let token = folder.write("token", OPERATOR);
    let empty = folder.write("empty", "\n");
    let run = |arguments: &[&str]| {
        let started = [&["coordinator", "--listen", "127.0.0.1:0"], arguments].concat();
        let output = evenkeel::run(&started);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        text
    };
    let members = folder.write("members", &format!("{MEMBER} proxy\n"));
    let alone = run(&["--member-token-file", &members]);
    assert!(alone.contains("goes with --api-token-file"), "{alone}");
    // A file of before tokens had roles.
    let both = ["--api-token-file", &token, "--member-token-file", &token];
    let whose = run(&both);
    assert!(
        whose.contains("line 1: say whose the token is: write TOKEN proxy, "),
        "{whose}"
    );
    assert!(run(&["--api-token-file", &empty]).contains("there is no token in it"));
    assert!(run(&["--api-token-file", "/no/such/file"]).contains("/no/such/file"));
    assert!(run(&["--tls-client-ca", &token]).contains("--tls-cert"));
    assert!(run(&["--tls-cert", &token]).contains("TLS"));
}

/// Writes an authority's certificate, and one with its key for each name; all are for 127.0.0.1.
fn certificates(folder: &Folder, names: &[&str]) -> PathBuf {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"))
        .expect("an authority");
    for name in names {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("an address");
        // Another than the authority's, or OpenSSL takes it to be its own issuer.
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, *name);
        let certificate = params.signed_by(&key, &issuer).expect("signed");
        folder.write(&format!("{name}.pem"), &certificate.pem());
        folder.write(&format!("{name}.key"), &key.serialize_pem());
    }
    PathBuf::from(folder.write("ca.pem", &issuer.pem()))
}

/// What `curl` prints, which is its exit code where there is no answer.
fn curl(url: &str, authority: &Path, more: &[&str]) -> String {
    let output = Command::new(require_program("curl"))
        .args(["-sS", "--max-time", "10", "--cacert"])
        .arg(authority)
        .args(more)
        .arg(url)
        .output()
        .expect("curl runs");
    match output.status.code() {
        Some(0) => String::from_utf8_lossy(&output.stdout).into_owned(),
        code => format!("curl: {code:?}"),
    }
}

#[test]
fn over_tls_the_house_knows_its_own() {
    let folder = Folder::new();
    let authority = certificates(&folder, &["coordinator", "member", "operator"]);
    let authority_text = authority.to_str().expect("UTF-8").to_owned();
    let operators = folder.write("operators", OPERATOR);
    let path = |name: &str| folder.path(name);
    let coordinator = evenkeel::coordinator(&[
        "--tls-cert",
        &path("coordinator.pem"),
        "--tls-key",
        &path("coordinator.key"),
        "--tls-client-ca",
        &authority_text,
        "--api-token-file",
        &operators,
    ]);
    let address = coordinator.address();
    let url = format!("https://{address}");
    let certificate = |name: &str| {
        vec![
            "--coordinator-ca".to_owned(),
            authority_text.clone(),
            "--coordinator-cert".to_owned(),
            path(&format!("{name}.pem")),
            "--coordinator-key".to_owned(),
            path(&format!("{name}.key")),
            "--coordinator-token-file".to_owned(),
            operators.clone(),
        ]
    };
    let member = certificate("member");
    let member: Vec<&str> = member.iter().map(String::as_str).collect();
    let _server = server(&url, "s1", &member);
    // Probes have no certificate.
    let ready = format!("{url}/readyz");
    poll_until(DEADLINE, "a map", || {
        (curl(&ready, &authority, &[]) == "ok\n").then_some(())
    });
    let proxied = [
        &["--coordinator", &url],
        &member[..],
        &evenkeel::LONG_TIMEOUTS,
    ]
    .concat();
    let proxy = evenkeel::proxy(&proxied);
    let mut client = Client::connect(proxy.address());
    client.set("key", b"value");
    assert_eq!(
        client.get("key").map(|value| value.data),
        Some(b"value".to_vec())
    );

    let operator = certificate("operator");
    let operator: Vec<&str> = operator.iter().map(String::as_str).collect();
    let run = |arguments: &[&str]| {
        let output = answered(&[&["cachelets", "--coordinator"], arguments].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), text)
    };
    let (done, text) = run(&[&[url.as_str()], &operator[..]].concat());
    assert!(done, "{text}");
    // The token alone does not do, nor does a certificate without it.
    let token_alone = [
        url.as_str(),
        "--coordinator-ca",
        &authority_text,
        "--coordinator-token-file",
        &operators,
    ];
    let (done, text) = run(&token_alone);
    assert!(!done && text.contains("no_certificate"), "{text}");
    let (done, text) = run(&[&[url.as_str()], &operator[..6]].concat());
    assert!(!done && text.contains("no_token"), "{text}");
    // Neither end trusts a stranger.
    let elsewhere = Folder::new();
    let strangers = certificates(&elsewhere, &["stranger"]);
    let (done, text) = run(&[
        url.as_str(),
        "--coordinator-ca",
        strangers.to_str().expect("UTF-8"),
    ]);
    assert!(!done && text.contains("TLS failed"), "{text}");
    let stranger = [
        "--cert",
        &elsewhere.path("stranger.pem"),
        "--key",
        &elsewhere.path("stranger.key"),
    ];
    let answer = curl(&ready, &authority, &stranger);
    assert!(
        answer.starts_with("curl: "),
        "a stranger's certificate was taken: {answer}"
    );
    // Who forgets the scheme is told.
    let (done, text) = run(&[&address.to_string(), "--coordinator-token-file", &operators]);
    assert!(!done && text.contains("https://"), "{text}");
    let (done, text) = run(&[url.as_str()]);
    assert!(!done && text.contains("--coordinator-ca"), "{text}");
    assert!(failures(&url, &authority) >= 2);
}

/// Connections on which TLS did not come about.
fn failures(url: &str, authority: &Path) -> u64 {
    let text = curl(&format!("{url}/metrics"), authority, &[]);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("evenkeel_coordinator_tls_failures_total "));
    line.expect("the metric").parse().expect("a number")
}

/// Speaks no TLS, says nothing, or says half of it: everybody else is served.
#[test]
fn who_does_not_come_to_the_point_holds_up_nobody() {
    let folder = Folder::new();
    let authority = certificates(&folder, &["coordinator"]);
    let coordinator = evenkeel::coordinator(&[
        "--tls-cert",
        &folder.path("coordinator.pem"),
        "--tls-key",
        &folder.path("coordinator.key"),
    ]);
    let address: SocketAddr = coordinator.address();
    let silent: Vec<TcpStream> = (0..50)
        .map(|_| TcpStream::connect(address).expect("it listens"))
        .collect();
    let mut half = TcpStream::connect(address).expect("it listens");
    half.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01")
        .expect("sent");
    let url = format!("https://{address}");
    for _ in 0..5 {
        assert_eq!(curl(&format!("{url}/healthz"), &authority, &[]), "ok\n");
    }
    let before = failures(&url, &authority);
    drop((silent, half));
    poll_until(DEADLINE, "those who left to be counted", || {
        (failures(&url, &authority) >= before + 51).then_some(())
    });
}
