//! Threads and signals.

use crate::UsageError;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
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

/// SIGTERM and SIGINT, taken in place of dying from them.
#[derive(Debug)]
pub struct StopSignals(Signals);

impl StopSignals {
    /// From here on the signals are kept for [`StopSignals::wait`]. Comes before the line that tells
    /// others that the process is ready: they may want it to stop the moment they read it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn take() -> io::Result<Self> {
        Signals::new([SIGTERM, SIGINT]).map(StopSignals)
    }

    /// Sleeps until one of the signals has arrived.
    pub fn wait(mut self) {
        let _ = self.0.forever().next();
    }
}
