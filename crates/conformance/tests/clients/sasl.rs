//! Servers that want SASL PLAIN: ours with a file of users, memcached with what Cyrus SASL reads.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use evenkeel_testkit::{Memcached, Process, evenkeel, require_program};
use tempfile::TempDir;

use crate::programs::{PASSWORD, USER};

/// A server and the folder that it has its users in.
pub struct Authenticating<T> {
    address: SocketAddr,
    // Both end with the value.
    _server: T,
    _dir: TempDir,
}

impl<T> Authenticating<T> {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// `evenkeel proxy -S` in front of a memcached.
pub fn sasl_proxy() -> Authenticating<(Process, Memcached)> {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let memcached = Memcached::spawn(&[]);
    let behind = memcached.address().to_string();
    let users = write_users(&dir);
    let flags = ["-s", &behind, "--allow-flush", "-S", "--sasl-pwdb", &users];
    let proxy = evenkeel::proxy(&[&flags, &evenkeel::LONG_TIMEOUTS[..]].concat());
    Authenticating {
        address: proxy.address(),
        _server: (proxy, memcached),
        _dir: dir,
    }
}

/// A file of users in the folder.
fn write_users(dir: &TempDir) -> String {
    let users = dir.path().join("users");
    fs::write(&users, format!("{USER}:{PASSWORD}\n")).expect("a file can be written");
    users.to_str().expect("a temporary path is text").to_owned()
}

/// `evenkeel server -S`.
pub fn sasl_server() -> Authenticating<Process> {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let users = write_users(&dir);
    let server = evenkeel::server(&["-t", "2", "-S", "--sasl-pwdb", &users]);
    Authenticating {
        address: server.address(),
        _server: server,
        _dir: dir,
    }
}

/// `memcached -S` with a database of its own.
pub fn sasl_memcached() -> Authenticating<Memcached> {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let database = dir.path().join("users");
    fs::write(
        dir.path().join("memcached.conf"),
        format!("mech_list: plain\nsasldb_path: {}\n", database.display()),
    )
    .expect("a file can be written");
    add_user(&database);
    let folder = dir.path().to_str().expect("a temporary path is text");
    let memcached = Memcached::spawn_with(&["-S"], &[("SASL_CONF_PATH", folder)]);
    Authenticating {
        address: memcached.address(),
        _server: memcached,
        _dir: dir,
    }
}

/// Cyrus SASL looks a user without a realm up in that of the host's name.
fn add_user(database: &Path) {
    let realm = fs::read_to_string("/proc/sys/kernel/hostname").expect("a host has a name");
    let mut child = Command::new(require_program("saslpasswd2"))
        .args(["-p", "-c", "-a", "memcached", "-u", realm.trim(), "-f"])
        .arg(database)
        .arg(USER)
        .stdin(Stdio::piped())
        .spawn()
        .expect("saslpasswd2 is installed");
    let mut stdin = child.stdin.take().expect("its input was piped");
    std::io::Write::write_all(&mut stdin, PASSWORD.as_bytes()).expect("it reads a password");
    drop(stdin);
    let status = child.wait().expect("it ends");
    assert!(status.success(), "saslpasswd2: {status}");
}
