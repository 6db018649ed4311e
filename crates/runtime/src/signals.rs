//! Signals, taken in place of dying from them.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::io;

/// What a signal asks of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessSignal {
    /// SIGTERM or SIGINT: end now, with the answers that are ready.
    Stop,
    /// SIGUSR1: take no more connections, finish what was asked, end.
    Drain,
    /// SIGHUP: read certificates and passwords again.
    Reload,
}

impl ProcessSignal {
    /// Sends this process the signal, as a client may ask for.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn raise(self) -> io::Result<()> {
        self.numbers()
            .first()
            .map_or(Ok(()), |number| signal_hook::low_level::raise(*number))
    }

    fn numbers(self) -> &'static [i32] {
        match self {
            ProcessSignal::Stop => &[SIGTERM, SIGINT],
            ProcessSignal::Drain => &[SIGUSR1],
            ProcessSignal::Reload => &[SIGHUP],
        }
    }
}

/// The signals that a process takes; the others keep their effect.
#[derive(Debug)]
pub struct ProcessSignals(Signals);

impl ProcessSignals {
    /// From here on the signals are kept for [`ProcessSignals::wait`]. Comes before the line that
    /// tells others that the process is ready: they may want it to stop the moment they read it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn take(signals: &[ProcessSignal]) -> io::Result<Self> {
        Signals::new(signals.iter().flat_map(|signal| signal.numbers())).map(ProcessSignals)
    }

    /// Sleeps until one of the signals has arrived.
    pub fn wait(&mut self) -> ProcessSignal {
        match self.0.forever().next() {
            Some(SIGUSR1) => ProcessSignal::Drain,
            Some(SIGHUP) => ProcessSignal::Reload,
            Some(_) | None => ProcessSignal::Stop,
        }
    }
}
