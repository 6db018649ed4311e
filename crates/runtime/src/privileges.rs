//! The user that a process runs as, and the limits that only the super-user raises.

use crate::UsageError;
use nix::unistd::{Gid, Uid, User, initgroups, setgid, setuid};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::CString;

/// Whether this process may do everything.
pub fn is_root() -> bool {
    Uid::effective().is_root() || Uid::current().is_root()
}

/// Becomes `user`, for good: its user id, its group and its further groups.
///
/// # Errors
/// When there is no such user, or this process may not change.
pub fn become_user(user: &str) -> Result<(), UsageError> {
    let fail = |what: String| UsageError(format!("-u {user}: {what}"));
    let found = User::from_name(user)
        .map_err(|error| fail(format!("failed to look up the user: {error}")))?
        .ok_or_else(|| fail("there is no such user".into()))?;
    let name = CString::new(user).map_err(|_| fail("there is no such user".into()))?;
    let change = || -> nix::Result<()> {
        initgroups(&name, found.gid)?;
        setgid(found.gid)?;
        setuid(found.uid)
    };
    change().map_err(|error| fail(format!("failed to become this user: {error}")))?;
    if !found.uid.is_root() {
        assert!(
            setuid(Uid::from_raw(0)).is_err() && Uid::effective() == found.uid,
            "privileges that were dropped must not come back"
        );
        assert!(
            Gid::effective() == found.gid,
            "the group goes with the user"
        );
    }
    Ok(())
}

/// Lets the kernel write a core file of any size, or the largest that is allowed (`-r`).
///
/// # Errors
/// When none may be written at all.
pub fn allow_core_files() -> Result<(), UsageError> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Core);
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    let allowed = Rlimit {
        current: maximum,
        maximum,
    };
    let raised =
        setrlimit(Resource::Core, unlimited).or_else(|_| setrlimit(Resource::Core, allowed));
    if raised.is_err() || getrlimit(Resource::Core).current == Some(0) {
        return Err(UsageError(
            "-r: core files are not allowed here; raise the limit with `ulimit -c`".into(),
        ));
    }
    Ok(())
}

/// Lifts the limit of memory that may be locked, where this process may: a later [`lock_memory`], by
/// a user with less rights, can then lock everything.
pub fn lift_lock_limit() {
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    // Not allowed: then the limit stays, and `lock_memory` says so if it is too low.
    let _ = setrlimit(Resource::Memlock, unlimited);
}

/// Keeps all memory of the process, now and later, from being swapped out (`-k`).
///
/// # Errors
/// When the kernel refuses, most often for `ulimit -l`.
pub fn lock_memory() -> std::io::Result<()> {
    use rustix::mm::{MlockAllFlags, mlockall};
    Ok(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_that_does_not_exist_is_named() {
        let error = become_user("no-such-user-here").expect_err("nobody has this name");
        assert!(error.0.contains("-u no-such-user-here"), "{error}");
    }
}
