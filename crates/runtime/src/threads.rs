//! Threads.

use crate::UsageError;
use std::io;
use std::thread::JoinHandle;

/// Starts a thread with a name that `top -H` shows.
pub fn spawn_named<T: Send + 'static>(
    name: String,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name).spawn(body)
}

/// Pins the calling thread to a core.
pub fn pin_to_core(core: usize) -> Result<(), UsageError> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    match cores.iter().find(|id| id.id == core) {
        Some(id) if core_affinity::set_for_current(*id) => Ok(()),
        Some(_) => Err(UsageError(format!("failed to pin a thread to core {core}"))),
        None => Err(UsageError(format!(
            "there is no core {core} for this process (it may use {} cores)",
            cores.len()
        ))),
    }
}
