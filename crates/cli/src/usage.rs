//! Bad usage in one line.
//!
//! clap explains a mistake over several lines, with a summary of the usage. Logs and scripts want
//! the one line that says what is wrong, and where to read more.

use clap::error::ErrorKind;
use evenkeel_runtime::ExitCode;
use std::io;

/// Prints what clap has to say, and says how the process ends.
pub fn explain(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match error.print() {
            Ok(()) => ExitCode::Fine,
            // `| head` has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::Fine,
            Err(_) => ExitCode::Failed,
        },
        // Asked for nothing at all: the list of commands is the answer.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // If even standard error is gone, the exit code is what is left to say.
            let _ = error.print();
            ExitCode::Usage
        }
        _ => {
            eprintln!("evenkeel: {}", one_line(&error.render().to_string()));
            ExitCode::Usage
        }
    }
}

/// The lines of clap's explanation before its summary of the usage, joined.
fn one_line(explanation: &str) -> String {
    let lines = explanation
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let lines = lines.map(|line| line.strip_prefix("error: ").unwrap_or(line));
    let joined = lines.collect::<Vec<_>>().join("; ").replace(":; ", ": ");
    format!("{joined} (--help lists the flags)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::Parser;

    fn explained(line: &str) -> String {
        let error = Cli::try_parse_from(line.split_whitespace()).expect_err(line);
        one_line(&error.render().to_string())
    }

    #[test]
    fn mistakes_are_told_in_one_line_that_names_them() {
        for (line, words) in [
            ("evenkeel sevrer", &["sevrer", "server"][..]),
            ("evenkeel up --sevrers 3", &["--sevrers", "--servers"]),
            ("evenkeel up --servers x", &["--servers", "'x'"]),
            ("evenkeel bench run", &["--target"]),
            ("evenkeel up --keys 5", &["--demo"]),
        ] {
            let told = explained(line);
            assert!(!told.contains('\n'), "{told}");
            assert!(!told.contains("Usage"), "{told}");
            for word in words {
                assert!(told.contains(word), "{line}: {told}");
            }
        }
    }
}
