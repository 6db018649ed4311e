//! The clients' programs, and how each is started.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use evenkeel_conformance::go;
use evenkeel_testkit::require_program;

/// The user that servers with authentication know.
pub const USER: &str = "user";

/// The user's password.
pub const PASSWORD: &str = "a secret";

/// What a client is asked to do, besides using everything that it offers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Classic or meta commands.
    Text,
    /// The binary protocol.
    Binary,
    /// The binary protocol, after authentication by SASL PLAIN.
    Sasl,
    /// Over TLS, in whichever protocol the client prefers. pylibmc, php-memcached, spymemcached, memjs,
    /// npm memcached and meta-memcache have no TLS.
    Tls,
}

/// One client's program in one way.
pub struct Program {
    /// The client, for messages.
    pub name: &'static str,
    pub way: Way,
    command: fn(SocketAddr) -> Command,
}

/// Programs that need nothing but Python and Go, which `make test` installs.
pub const SHORT: &[Program] = &[
    Program {
        name: "pymemcache",
        way: Way::Text,
        command: |address| python("check_pymemcache.py", &host_and_port(address)),
    },
    Program {
        name: "meta-memcache",
        way: Way::Text,
        command: |address| python("check_meta_memcache.py", &host_and_port(address)),
    },
    Program {
        name: "pylibmc",
        way: Way::Text,
        command: |address| python("check_pylibmc.py", &host_and_port(address)),
    },
    Program {
        name: "pylibmc, binary",
        way: Way::Binary,
        command: |address| python("check_pylibmc.py", &and(address, &["--binary"])),
    },
    Program {
        name: "python-binary-memcached",
        way: Way::Binary,
        command: |address| python("check_bmemcached.py", &host_and_port(address)),
    },
    Program {
        name: "python-binary-memcached, SASL",
        way: Way::Sasl,
        command: |address| {
            python(
                "check_bmemcached.py",
                &and(address, &["--sasl", USER, PASSWORD]),
            )
        },
    },
    Program {
        name: "pymemcache, TLS",
        way: Way::Tls,
        command: |address| python("check_pymemcache.py", &host_and_port(address)),
    },
    Program {
        name: "python-binary-memcached, TLS",
        way: Way::Tls,
        command: |address| python("check_bmemcached.py", &host_and_port(address)),
    },
    Program {
        name: "gomemcache, TLS",
        way: Way::Tls,
        command: gomemcache,
    },
    Program {
        name: "gomemcache",
        way: Way::Text,
        command: gomemcache,
    },
];

/// Programs whose languages and libraries only `make conformance` installs.
pub const LONG: &[Program] = &[
    Program {
        name: "pylibmc, SASL",
        way: Way::Sasl,
        command: |address| {
            let arguments = and(address, &["--binary", "--sasl", USER, PASSWORD]);
            let mut command = python("check_pylibmc.py", &arguments);
            command.env("SASL_PATH", sasl_plugins());
            command
        },
    },
    Program {
        name: "memjs",
        way: Way::Binary,
        command: |address| node("check_memjs.js", &[&address.to_string()]),
    },
    Program {
        name: "memjs, SASL",
        way: Way::Sasl,
        command: |address| node("check_memjs.js", &[&address.to_string(), USER, PASSWORD]),
    },
    Program {
        name: "npm memcached",
        way: Way::Text,
        command: |address| node("check_memcached.js", &[&address.to_string()]),
    },
    Program {
        name: "memcache-client",
        way: Way::Text,
        command: |address| node("check_memcache_client.js", &[&address.to_string()]),
    },
    Program {
        name: "memcache-client, TLS",
        way: Way::Tls,
        command: |address| node("check_memcache_client.js", &[&address.to_string()]),
    },
    Program {
        name: "dalli, TLS",
        way: Way::Tls,
        command: |address| ruby(&[&address.to_string()]),
    },
    Program {
        name: "dalli",
        way: Way::Binary,
        command: |address| ruby(&[&address.to_string()]),
    },
    Program {
        name: "dalli, SASL",
        way: Way::Sasl,
        command: |address| ruby(&[&address.to_string(), USER, PASSWORD]),
    },
    Program {
        name: "php-memcached",
        way: Way::Text,
        command: |address| php(&and(address, &["text"])),
    },
    Program {
        name: "php-memcached, binary",
        way: Way::Binary,
        command: |address| php(&and(address, &["binary"])),
    },
    Program {
        name: "php-memcached, SASL",
        way: Way::Sasl,
        command: |address| php(&and(address, &["binary", USER, PASSWORD])),
    },
    Program {
        name: "spymemcached",
        way: Way::Text,
        command: |address| java("CheckSpymemcached", &and(address, &["text"])),
    },
    Program {
        name: "spymemcached, binary",
        way: Way::Binary,
        command: |address| java("CheckSpymemcached", &and(address, &["binary"])),
    },
    Program {
        name: "spymemcached, SASL",
        way: Way::Sasl,
        command: |address| {
            java(
                "CheckSpymemcached",
                &and(address, &["binary", USER, PASSWORD]),
            )
        },
    },
    Program {
        name: "xmemcached",
        way: Way::Text,
        command: |address| java("CheckXmemcached", &and(address, &["text"])),
    },
    Program {
        name: "xmemcached, binary",
        way: Way::Binary,
        command: |address| java("CheckXmemcached", &and(address, &["binary"])),
    },
];

impl Program {
    /// Runs the program against a server.
    ///
    /// # Panics
    /// When it does not end with a line `ok`; the message holds what it said.
    pub fn check(&self, address: SocketAddr) {
        println!("{} against {address}", self.name);
        check((self.command)(address));
    }

    /// Runs the program against a proxy that differs from memcached in what these environment variables say: a program that
    /// would meet it checks the difference instead.
    ///
    /// # Panics
    /// As [`Self::check`].
    pub fn check_where(&self, differs: &[(&str, &str)], address: SocketAddr) {
        println!("{} against {address}, {differs:?}", self.name);
        let mut command = (self.command)(address);
        command.envs(differs.iter().copied());
        check(command);
    }

    /// Runs the program against a server whose certificate is signed by `authority`, a PEM file.
    ///
    /// # Panics
    /// As [`Self::check`].
    pub fn check_over_tls(&self, address: SocketAddr, authority: &Path) {
        println!("{} against {address}", self.name);
        let mut command = (self.command)(address);
        command.arg("--tls").arg(authority);
        check(command);
    }
}

/// Runs a check, which ends with a line `ok`.
fn check(mut command: Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && stdout.lines().last() == Some("ok"),
        "{command:?}: {}\n{stdout}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs a program in Python.
pub fn check_python(script: &str, arguments: &[String]) {
    check(python(script, arguments));
}

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

fn host_and_port(address: SocketAddr) -> Vec<String> {
    vec![address.ip().to_string(), address.port().to_string()]
}

/// Host and port, and more arguments.
fn and(address: SocketAddr, more: &[&str]) -> Vec<String> {
    let more = more.iter().map(|argument| (*argument).to_owned());
    host_and_port(address).into_iter().chain(more).collect()
}

fn python(script: &str, arguments: &[String]) -> Command {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/python");
    assert!(
        python.exists(),
        "the Python clients are missing: run `make deps`"
    );
    let mut command = Command::new(python);
    command
        .arg("-B")
        .arg(clients().join("python").join(script))
        .args(arguments);
    command
}

/// Where Debian's libsasl2-modules puts its plugins: the libsasl2 inside pylibmc's wheel has none.
fn sasl_plugins() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").expect("there are libraries");
    folders
        .filter_map(|folder| Some(folder.ok()?.path().join("sasl2")))
        .find(|folder| folder.is_dir())
        .expect("this test needs SASL's plugins: apt-get install libsasl2-modules (make conformance does it)")
}

fn gomemcache(address: SocketAddr) -> Command {
    let mut command = Command::new(go_program());
    command.arg(address.to_string());
    command
}

/// The Go program, built once.
fn go_program() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        go::build(".", folder.join("gomemcache-check"))
    })
}

/// A folder that `scripts/test-deps.sh --all` fills.
fn installed(dir: &str) -> PathBuf {
    let path = clients().join(dir);
    assert!(
        path.is_dir(),
        "clients/{dir} is missing: run `make conformance`"
    );
    path
}

fn node(script: &str, arguments: &[&str]) -> Command {
    installed("node/node_modules");
    let mut command = Command::new(require_program("node"));
    command
        .arg(clients().join("node").join(script))
        .args(arguments);
    command
}

fn ruby(arguments: &[&str]) -> Command {
    let mut command = Command::new(require_program("ruby"));
    command
        .arg(clients().join("ruby/check_dalli.rb"))
        .args(arguments);
    command
}

fn php(arguments: &[String]) -> Command {
    let mut command = Command::new(require_program("php"));
    command
        .arg(clients().join("php/check_memcached.php"))
        .args(arguments);
    command
}

fn java(class: &str, arguments: &[String]) -> Command {
    let target = installed("java/target");
    let path = format!("{0}/classes:{0}/libraries/*", target.display());
    let mut command = Command::new(require_program("java"));
    command.args(["-cp", &path, class]).args(arguments);
    command
}
