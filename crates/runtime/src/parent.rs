//! A child process that never outlives the process that started it.

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use std::io;

/// Has the kernel kill this process when the thread that started it ends (`prctl(2)`,
/// `PR_SET_PDEATHSIG`), however that happens: a parent that is killed cannot clean up.
///
/// `parent` is the process id of the one that started us. The signal is the one that cannot be
/// delayed: a cache has nothing to save.
///
/// # Errors
/// When the parent is gone already, or the kernel refuses.
pub fn die_with_parent(parent: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // A parent that ended before the call above is not seen by the kernel any more.
    let parent = i32::try_from(parent).ok().and_then(Pid::from_raw);
    if parent.is_some() && getppid() == parent {
        Ok(())
    } else {
        Err(io::Error::other(
            "the process that started this one is gone",
        ))
    }
}
