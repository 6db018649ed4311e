//! The coordinator's web page: where it is, and a browser that shows it.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use evenkeel_runtime::spawn_named;

use super::processes::Processes;

/// What opens an address in the browser that a person has chosen.
const OPENER: &str = "xdg-open";

/// Where the page is.
///
/// # Errors
/// When the coordinator has never started.
pub fn url(processes: &Processes) -> anyhow::Result<String> {
    Ok(format!("http://{}/", processes.coordinator_address()?))
}

/// Opens a browser, which outlives this program, and says on standard error where that is not possible: the cluster is good without one.
pub fn open(url: &str) {
    let browser = Command::new(OPENER)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match browser {
        Ok(mut child) => {
            // Some openers stay for as long as the browser does.
            let waiting = spawn_named("browser".into(), move || drop(child.wait()));
            if let Err(error) = waiting {
                eprintln!("evenkeel up: nobody waits for {OPENER}: {error}");
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => eprintln!(
            "evenkeel up: there is no {OPENER} on this machine (Debian's package xdg-utils); open {url} in a browser yourself"
        ),
        Err(error) => eprintln!(
            "evenkeel up: {OPENER} cannot be started: {error}; open {url} in a browser yourself"
        ),
    }
}
