//! An etcd that asks for certificates, and one that asks for a user and a password.

use std::path::{Path, PathBuf};

use evenkeel_testkit::{Process, evenkeel, http, poll_until, require_program};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
};

use evenkeel_conformance::coordinators::DEADLINE;
use evenkeel_conformance::etcd::{Etcd, free_addresses, own_host};

/// Writes an authority's certificate, and one with its key for each name; all are for 127.0.0.1 and for where etcd is.
fn certificates(folder: &Path, names: &[&str]) -> PathBuf {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"))
        .expect("an authority");
    let write =
        |name: &str, text: String| std::fs::write(folder.join(name), text).expect("written");
    write("ca.pem", issuer.pem());
    for name in names {
        let key = KeyPair::generate().expect("a key");
        let mut params =
            CertificateParams::new(vec!["127.0.0.1".to_owned(), own_host().to_string()])
                .expect("addresses");
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, *name);
        let certificate = params.signed_by(&key, &issuer).expect("signed");
        write(&format!("{name}.pem"), certificate.pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
    folder.join("ca.pem")
}

/// The coordinator leads.
fn leads(coordinator: &Process) -> Option<()> {
    let (_, body) = http::get(coordinator.address(), "/api/v1/election").ok()?;
    body.contains("\"leads\":true").then_some(())
}

/// Why it does not know of a leader.
fn readiness(coordinator: &Process, awaited: &str) -> String {
    poll_until(DEADLINE, awaited, || {
        let (status, body) = http::get(coordinator.address(), "/readyz").ok()?;
        (status == 503 && body.contains(awaited)).then_some(body)
    })
}

#[test]
fn etcd_is_known_by_its_certificate_and_knows_ours() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let authority = certificates(folder.path(), &["etcd", "coordinator"]);
    let authority = authority.to_str().expect("UTF-8");
    let [client, peer] = free_addresses(2)[..] else {
        unreachable!("two were asked for");
    };
    let (url, peer) = (format!("https://{client}"), format!("http://{peer}"));
    let _etcd = Process::command("etcd", require_program("etcd"))
        .args(["--data-dir", &path("data"), "--client-cert-auth"])
        .args([
            "--cert-file",
            &path("etcd.pem"),
            "--key-file",
            &path("etcd.key"),
        ])
        .args(["--trusted-ca-file", authority])
        .args([
            "--listen-client-urls",
            &url,
            "--advertise-client-urls",
            &url,
        ])
        .args([
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
        ])
        .args(["--initial-cluster", &format!("default={peer}")])
        .spawn();
    let (certificate, key) = (path("coordinator.pem"), path("coordinator.key"));
    let shown = [
        "--etcd",
        &url,
        "--etcd-ca",
        authority,
        "--etcd-cert",
        &certificate,
        "--etcd-key",
        &key,
    ];
    let coordinator = evenkeel::coordinator(&shown);
    poll_until(DEADLINE, "a coordinator with a certificate to lead", || {
        leads(&coordinator)
    });

    // Another cluster, so that the first leader is no answer.
    let unshown = ["--cluster", "other", "--etcd", &url, "--etcd-ca", authority];
    readiness(&evenkeel::coordinator(&unshown), "last trouble");
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let stranger = certificates(elsewhere.path(), &[]);
    let stranger = stranger.to_str().expect("UTF-8");
    let strange = ["--cluster", "other", "--etcd", &url, "--etcd-ca", stranger];
    readiness(&evenkeel::coordinator(&strange), "last trouble");
}

#[test]
fn etcd_is_told_user_and_password() {
    let etcd = Etcd::start();
    for (path, json) in [
        ("user/add", r#"{"name":"root","password":"p q"}"#),
        ("role/add", r#"{"name":"root"}"#),
        ("user/grant", r#"{"user":"root","role":"root"}"#),
        ("enable", "{}"),
    ] {
        etcd.ask(&format!("/v3/auth/{path}"), json);
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let (good, bad) = (file("good", "p q\n"), file("bad", "p\n"));
    let urls = etcd.urls();
    let with = |password: &str| {
        let user = [
            "--etcd",
            &urls,
            "--etcd-user",
            "root",
            "--etcd-password-file",
            password,
        ];
        evenkeel::coordinator(&user)
    };
    let coordinator = with(&good);
    poll_until(DEADLINE, "a coordinator with a password to lead", || {
        leads(&coordinator)
    });
    readiness(&with(&bad), "--etcd-user and its password");
    readiness(
        &evenkeel::coordinator(&["--etcd", &urls]),
        "give --etcd-user",
    );
}

/// Two coordinators that ask for tokens and speak TLS: anyone who asks the one that does not lead is sent on, shows
/// the token there, too, and a stranger does not even learn who leads.
#[test]
fn who_is_sent_on_to_the_leader_shows_a_token_there_too() {
    let etcd = Etcd::start();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let authority = certificates(folder.path(), &["coordinator"]);
    let authority = authority.to_str().expect("UTF-8");
    let token = "operators-0123456789";
    std::fs::write(path("token"), token).expect("written");
    let urls = etcd.urls();
    let start = || {
        evenkeel::coordinator(&[
            "--etcd",
            &urls,
            "--api-token-file",
            &path("token"),
            "--tls-cert",
            &path("coordinator.pem"),
            "--tls-key",
            &path("coordinator.key"),
        ])
    };
    let coordinators = [start(), start()];
    let ask = |at: &Process, path: &str, more: &[&str]| {
        let output = std::process::Command::new(require_program("curl"))
            .args(["-sS", "--max-time", "60", "--cacert", authority])
            .args(["-w", "%{http_code} %{num_redirects}"])
            .args(more)
            .arg(format!("https://{}{path}", at.address()))
            .output()
            .expect("curl runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let shown = format!("Authorization: Bearer {token}");
    let shown = ["-H", shown.as_str()];
    let leads = |at: &&Process| ask(at, "/api/v1/election", &shown).contains("\"leads\":true");
    // To another host curl sends a header of its own only if it is told to.
    let trusted = ["-L", "--location-trusted", shown[0], shown[1]];
    // On a busy machine one leads for a moment only: then anyone who was asked may lead by now.
    let (follows, sent_on) = poll_until(DEADLINE, "one that is sent on by a follower", || {
        coordinators.iter().find(leads)?;
        let follower = coordinators.iter().find(|at| !leads(at))?;
        if !ask(follower, "/readyz", &[]).starts_with("ok") {
            return None;
        }
        let sent_on = ask(follower, "/api/v1/servers", &trusted);
        sent_on.ends_with("200 1").then_some((follower, sent_on))
    });
    assert!(sent_on.contains("\"servers\":[]"), "{sent_on}");
    let stranger = ask(follows, "/api/v1/servers", &[]);
    assert!(
        stranger.ends_with("401 0") && !stranger.contains("\"leader\""),
        "{stranger}"
    );
    let url = format!("https://{}", follows.address());
    let asked = [
        "cachelets",
        "--coordinator",
        &url,
        "--coordinator-ca",
        authority,
        "--coordinator-token-file",
        &path("token"),
    ];
    let output = evenkeel::run(&asked);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    let output = evenkeel::run(&asked[..5]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && text.contains("no_token"),
        "{text}"
    );
}
