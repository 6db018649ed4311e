//! The process's limit of open files.

use crate::UsageError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a process needs besides those of its clients: listeners, event queues, links to
/// other processes, a state file.
pub const RESERVED_DESCRIPTORS: u64 = 256;

/// Raises the limit of open descriptors to what this many clients (`-c`) need, as memcached does.
///
/// # Errors
/// When the limit is lower and may not be raised.
pub fn raise_descriptor_limit(connections: usize) -> Result<(), UsageError> {
    let wanted = connections as u64 + RESERVED_DESCRIPTORS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum: maximum.map(|maximum| maximum.max(wanted)),
    };
    setrlimit(Resource::Nofile, raised).map_err(|_| {
        UsageError(format!(
            "-c {connections}: the limit of open files is too low; raise it with `ulimit -n {wanted}`"
        ))
    })
}

/// The same as far as the hard limit lets it, for a process that can do with fewer.
pub fn raise_descriptor_limit_if_allowed(connections: usize) {
    let wanted = connections as u64 + RESERVED_DESCRIPTORS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let allowed = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if current.is_some_and(|current| current < allowed) {
        let raised = Rlimit {
            current: Some(allowed),
            maximum,
        };
        // Up to the hard limit it is always allowed.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}
