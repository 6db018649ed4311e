//! Which programs the tests start.
//!
//! Cargo tells a test where the binaries of its *own* package are and of no other, and
//! `cargo test -p x` does not build the binary of package `y`. So a test could silently run a stale
//! `evenkeel`. Two ways avoid that:
//!
//! * `EVENKEEL_BIN` names a binary that the caller has just built; `make test` does this.
//! * Otherwise the first test of a process that asks has cargo build the binary, in the profile and
//!   the target directory of the running test. When it is fresh this takes a fraction of a second.
//!   Cargo has released its build lock by the time it runs tests, so the inner call cannot deadlock.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Debian packages of the programs that tests start, for the message when one is missing.
const PACKAGES: &[(&str, &str)] = &[
    ("memcached", "memcached"),
    ("promtool", "prometheus"),
    ("memccapable", "libmemcached-tools"),
    ("go", "golang-go"),
    ("openssl", "openssl"),
    ("python3", "python3-venv"),
    ("node", "nodejs"),
    ("java", "default-jdk-headless"),
    ("php", "php-cli"),
    ("ruby", "ruby"),
    ("saslpasswd2", "sasl2-bin"),
    ("nutcracker", "nutcracker"),
    ("redis-server", "redis-server"),
    ("etcd", "etcd-server"),
    ("curl", "curl"),
];

/// The `evenkeel` binary under test. Built at most once in a test process.
///
/// # Panics
/// When `EVENKEEL_BIN` names no file, or cargo cannot build the binary.
pub fn evenkeel() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| named("EVENKEEL_BIN").unwrap_or_else(build))
}

/// The binary of the next server, proxy or coordinator: [`evenkeel`], or in turn with it the one of another version that
/// `OTHER_EVENKEEL` names, so that versions are mixed and follow each other in both directions.
///
/// # Panics
/// As [`evenkeel`], and when `OTHER_EVENKEEL` names no file.
pub fn next() -> &'static Path {
    static OTHER: OnceLock<Option<PathBuf>> = OnceLock::new();
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    match OTHER.get_or_init(|| named("OTHER_EVENKEEL")) {
        Some(other) if STARTED.fetch_add(1, Ordering::Relaxed) % 2 == 1 => other,
        _ => evenkeel(),
    }
}

fn named(variable: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(variable)?);
    assert!(
        path.is_file(),
        "{variable}={} is not a file",
        path.display()
    );
    let path = path.canonicalize();
    Some(path.expect("a file that exists has a canonical path"))
}

/// Builds `evenkeel` beside the running test and returns its path.
fn build() -> PathBuf {
    // target/<profile>/deps/<test>-<hash>
    let test = std::env::current_exe().expect("a process knows its own path on Linux");
    let profile_dir = test
        .ancestors()
        .find(|dir| dir.file_name().is_some_and(|name| name == "deps"))
        .and_then(Path::parent)
        .expect("cargo puts test programs under target/<profile>/deps")
        .to_path_buf();
    let target_dir = profile_dir
        .parent()
        .expect("a profile folder lies in the target folder");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");

    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(workspace)
        .args(["build", "-q", "-p", "evenkeel-cli", "--bin", "evenkeel"]);
    cargo.arg("--target-dir").arg(target_dir);
    match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(profile) => {
            cargo.args(["--profile", profile]);
        }
    }
    let output = cargo
        .output()
        .expect("cargo started this test, so it can be started");
    assert!(
        output.status.success(),
        "failed to build evenkeel for this test:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    profile_dir.join("evenkeel")
}

/// The path of `program` as found on `PATH` or in `/usr/sbin`.
///
/// # Panics
/// When it is missing, naming the Debian package that has it. A test whose reference is missing must
/// fail: a skipped comparison would look like a passed one.
pub fn require_program(program: &str) -> PathBuf {
    find_program(program).unwrap_or_else(|| panic!("{}", missing_message(program)))
}

fn missing_message(program: &str) -> String {
    match PACKAGES.iter().find(|(name, _)| *name == program) {
        Some((_, package)) => {
            format!(
                "this test needs `{program}`: apt-get install {package} (make test, or make conformance, does it)"
            )
        }
        None => format!("this test needs the program `{program}` on PATH"),
    }
}

fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    // Debian keeps daemons, such as nutcracker, where a user's PATH does not lead.
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_on_the_path_is_found() {
        assert!(require_program("sh").is_absolute());
    }

    #[test]
    fn a_missing_program_names_its_package() {
        assert!(find_program("memccapable-that-does-not-exist").is_none());
        assert!(missing_message("memccapable").contains("apt-get install libmemcached-tools"));
    }
}
