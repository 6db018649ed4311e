//! Programs in Go, of the module in `clients/go`.

use evenkeel_testkit::require_program;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds a package of the module.
///
/// # Panics
/// Without Go, or without the module's dependencies, which `make deps` fetches.
pub fn build(package: &str, binary: PathBuf) -> PathBuf {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/go");
    let output = Command::new(require_program("go"))
        .current_dir(module)
        .args(["build", "-mod=readonly", "-o"])
        .arg(&binary)
        .arg(package)
        .output()
        .expect("go is installed");
    assert!(
        output.status.success(),
        "go could not build {package} (make deps fetches what it needs):\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    binary
}
