//! The file of names and passwords.

use evenkeel_roles::server::{CREDENTIAL_LEN_MAX, CREDENTIALS_MAX, Credentials};
use evenkeel_runtime::UsageError;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Largest file, in bytes: every entry at its longest, and as many empty lines.
const FILE_BYTES_MAX: u64 = (CREDENTIALS_MAX * (2 * CREDENTIAL_LEN_MAX + 6)) as u64;

/// Permission bit by which everybody on the machine may read a file.
const OTHERS_MAY_READ: u32 = 0o004;

/// Reads a credentials file; and a warning when everybody on the machine can do the same.
///
/// # Errors
/// Names the file and what is wrong with it, and nothing that stands in it.
pub fn load(path: &Path) -> Result<(Arc<Credentials>, Option<String>), UsageError> {
    let fail = |what: String| UsageError(format!("{}: {what}", path.display()));
    let file = File::open(path).map_err(|error| fail(error.to_string()))?;
    let mode = file
        .metadata()
        .map_err(|error| fail(error.to_string()))?
        .mode();
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut text)
        .map_err(|error| fail(error.to_string()))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(fail("too large for a file of users".into()));
    }
    let credentials = Credentials::parse(&text).map_err(|error| fail(error.to_string()))?;
    let warning = (mode & OTHERS_MAY_READ != 0).then(|| {
        format!(
            "{}: everybody on this machine can read the passwords; chmod 600",
            path.display()
        )
    });
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
