//! `evenkeel proxy check FILE`.

use crate::args::Format;
use crate::config::{check_file, check_text};
use evenkeel_runtime::UsageError;
use serde_json::json;
use std::path::Path;

/// Says on standard output what is wrong in a configuration file, or that nothing is.
///
/// # Errors
/// [`UsageError`] when the file cannot be used.
pub fn check(path: &Path, format: Format) -> Result<(), UsageError> {
    let file = path.display();
    match (check_file(path), format) {
        (Ok(checked), Format::Text) => {
            println!(
                "{file}: fine: {} pools, {} routes, md5 {}",
                checked.pools, checked.routes, checked.digest
            );
            Ok(())
        }
        (Ok(checked), Format::Json) => {
            let found = json!({
                "file": file.to_string(),
                "ok": true,
                "pools": checked.pools,
                "routes": checked.routes,
                "md5": checked.digest,
                "problems": [],
            });
            println!("{found}");
            Ok(())
        }
        (Err(rejection), format) => {
            match format {
                Format::Text => print!("{}", rejection.report()),
                Format::Json => println!("{}", rejection.json()),
            }
            let count = rejection.count();
            Err(UsageError(format!(
                "{file} cannot be used: number of mistakes: {count}"
            )))
        }
    }
}

/// The fingerprint that a configuration file will have, in which this text is to stand: `config_hash` of the proxies that work by it.
///
/// # Errors
/// [`UsageError`] with everything that is wrong in it.
pub fn check_new(path: &Path, text: &str) -> Result<String, UsageError> {
    match check_text(path, text) {
        Ok(checked) => Ok(checked.digest),
        Err(rejection) => Err(UsageError(format!(
            "what would stand in the file cannot be used, and is not written:\n{}",
            rejection.report().trim_end()
        ))),
    }
}
