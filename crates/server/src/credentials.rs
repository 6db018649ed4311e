//! The file of names and passwords.

use evenkeel_protocol::auth::{Credentials, FILE_BYTES_MAX};
use evenkeel_runtime::{UsageError, read_secret};
use std::path::Path;
use std::sync::Arc;

/// Reads a credentials file; and a warning when everybody on the machine can do the same.
///
/// # Errors
/// Names the file and what is wrong with it, and nothing that stands in it.
pub fn load(path: &Path) -> Result<(Arc<Credentials>, Option<String>), UsageError> {
    let (text, warning) = read_secret(path, FILE_BYTES_MAX)?;
    let credentials = Credentials::parse(&text)
        .map_err(|error| UsageError(format!("{}: {error}", path.display())))?;
    Ok((Arc::new(credentials), warning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_read_and_judged() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("users");
        assert!(load(&path).is_err());
        write(&path, "me:secret\n").expect("written");
        for (mode, warned) in [(0o600, false), (0o640, false), (0o644, true)] {
            set_permissions(&path, Permissions::from_mode(mode)).expect("set");
            let (credentials, warning) = load(&path).expect("sound");
            assert!(credentials.check(b"me", b"secret"));
            assert_eq!(warning.is_some(), warned, "{mode:o}");
        }
        write(&path, "me:topsecret\nnonsense\n").expect("written");
        let error = load(&path).expect_err("malformed").to_string();
        assert!(
            error.contains("line 2") && !error.contains("secret"),
            "{error}"
        );
        write(&path, vec![b'\n'; FILE_BYTES_MAX as usize + 1]).expect("written");
        assert!(
            load(&path)
                .expect_err("large")
                .to_string()
                .contains("large")
        );
    }
}
