//! Files that only their owner should be able to read.

use crate::UsageError;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Permission bit by which everybody on the machine may read a file.
const OTHERS_MAY_READ: u32 = 0o004;

/// Reads a file of at most `len_max` bytes; and a warning when everybody on the machine can do the
/// same.
///
/// # Errors
/// Names the file and what is wrong with it, and nothing that stands in it.
pub fn read_secret(path: &Path, len_max: u64) -> Result<(Vec<u8>, Option<String>), UsageError> {
    let fail = |what: String| UsageError(format!("{}: {what}", path.display()));
    let file = File::open(path).map_err(|error| fail(error.to_string()))?;
    let mode = file
        .metadata()
        .map_err(|error| fail(error.to_string()))?
        .mode();
    let mut text = Vec::new();
    file.take(len_max + 1)
        .read_to_end(&mut text)
        .map_err(|error| fail(error.to_string()))?;
    if text.len() as u64 > len_max {
        return Err(fail("too large for a file of secrets".into()));
    }
    let warning = (mode & OTHERS_MAY_READ != 0).then(|| {
        format!(
            "{}: everybody on this machine can read the secrets in it; chmod 600",
            path.display()
        )
    });
    Ok((text, warning))
}
