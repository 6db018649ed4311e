//! What operators may do, what they ask of the process, and the clock that tests may move.

use crate::session::address::ReturnAddress;
use evenkeel_protocol::admin::DebugTime;
use evenkeel_types::{Instant, Now};
use std::collections::VecDeque;
use std::time::Duration;

/// Most bytes that a watcher may leave unread before lines are skipped for it (memcached's
/// `watcher_logbuf_size`).
const WATCHER_LOG_BYTES_DEFAULT: usize = 256 << 10;

/// Most bytes of lines that a worker keeps for the watchers of another (memcached's
/// `worker_logbuf_size`).
const WORKER_LOG_BYTES_DEFAULT: usize = 64 << 10;

/// What operators may do and see.
#[derive(Clone, Debug)]
pub struct AdminConfig {
    /// Whether keys may be listed (`-X` forbids it).
    pub dump: bool,
    /// Whether clients may watch others (`-W` forbids it).
    pub watch: bool,
    /// Whether a client may end the process (`-A` allows it).
    pub shutdown: bool,
    /// Whether a client may move the clock (`--test-commands`).
    pub test_commands: bool,
    /// A command that names this key calls that, which ends the process on the spot (`--test-abort-on`).
    pub test_abort_on: Option<(String, fn() -> !)>,
    /// Whether certificates can be read again: there are some.
    pub refresh_certs: bool,
    /// Whether `config get cluster` is answered; memcached does not know it.
    pub cluster_config: bool,
    /// Whether `stats sizes` is answered (`-o track_sizes`).
    pub track_sizes: bool,
    /// Count commands by prefix from the start (`-D`).
    pub detail: bool,
    /// What ends a prefix (`-D`).
    pub prefix_delimiter: u8,
    /// Most bytes that a watcher may leave unread.
    pub watcher_log_bytes: usize,
    /// Most bytes of lines that a worker keeps for the watchers of another.
    pub worker_log_bytes: usize,
}

impl Default for AdminConfig {
    fn default() -> Self {
        AdminConfig {
            dump: true,
            watch: true,
            shutdown: false,
            test_commands: false,
            test_abort_on: None,
            refresh_certs: false,
            cluster_config: true,
            track_sizes: false,
            detail: false,
            prefix_delimiter: b':',
            watcher_log_bytes: WATCHER_LOG_BYTES_DEFAULT,
            worker_log_bytes: WORKER_LOG_BYTES_DEFAULT,
        }
    }
}

/// What a client asks of the process that this worker is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessRequest {
    /// End at once.
    Stop,
    /// Finish what clients have asked, then end.
    Drain,
    /// Read the certificates again, and answer by
    /// [`answer_process_request`](crate::WorkerCore::answer_process_request).
    RefreshCertificates(ReturnAddress),
    /// Ask the coordinator for a newer map now: another server works by one.
    AskForMap,
}

/// A clock that tests may stop and move on.
#[derive(Clone, Copy, Debug, Default)]
pub struct DebugClock {
    /// How far it is ahead of the machine's, in nanoseconds: less than zero after a stop.
    ahead_ns: i64,
    /// Where it stands while it is stopped.
    stopped: Option<Now>,
    /// The machine's clock when it was last looked at.
    read: Now,
}

impl DebugClock {
    /// What it shows. Never goes backwards.
    #[inline]
    pub(crate) fn show(&mut self, read: Now) -> Now {
        self.read = read;
        match self.stopped {
            None if self.ahead_ns == 0 => read,
            None => ahead(read, self.ahead_ns),
            Some(now) => now,
        }
    }

    /// Executes `debugtime`.
    pub fn change(&mut self, change: DebugTime) {
        let now = self.show(self.read);
        match change {
            DebugTime::Pause => self.stopped = Some(now),
            DebugTime::Resume => {
                if let Some(now) = self.stopped.take() {
                    let shown = i64::try_from(now.monotonic.0).unwrap_or(i64::MAX);
                    let read = i64::try_from(self.read.monotonic.0).unwrap_or(i64::MAX);
                    self.ahead_ns = shown - read;
                }
            }
            DebugTime::Advance(seconds) => {
                let by = Duration::from_secs(seconds.into()).as_nanos() as i64;
                match &mut self.stopped {
                    Some(now) => *now = ahead(*now, by),
                    None => self.ahead_ns = self.ahead_ns.saturating_add(by),
                }
            }
        }
    }
}

fn ahead(now: Now, by_ns: i64) -> Now {
    let seconds = i64::from(now.unix) + by_ns.div_euclid(1_000_000_000);
    Now {
        monotonic: Instant(now.monotonic.0.saturating_add_signed(by_ns)),
        unix: u32::try_from(seconds).unwrap_or(u32::MAX),
    }
}

/// What waits to be asked of the process.
pub(crate) type ProcessRequests = VecDeque<ProcessRequest>;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        Now {
            monotonic: Instant::from_millis(seconds * 1000),
            unix: 1000 + seconds as u32,
        }
    }

    #[test]
    fn a_debug_clock_stops_moves_on_and_never_goes_back() {
        let mut clock = DebugClock::default();
        assert_eq!(clock.show(at(10)), at(10));
        clock.change(DebugTime::Advance(100));
        assert_eq!(clock.show(at(11)), at(111));
        clock.change(DebugTime::Pause);
        assert_eq!(clock.show(at(15)), at(111));
        clock.change(DebugTime::Advance(9));
        assert_eq!(clock.show(at(16)), at(120));
        clock.change(DebugTime::Resume);
        assert_eq!(clock.show(at(17)), at(121));
        // A long stop puts it behind the machine's clock.
        clock.change(DebugTime::Pause);
        assert_eq!(clock.show(at(500)), at(121));
        clock.change(DebugTime::Resume);
        clock.change(DebugTime::Resume);
        assert_eq!(clock.show(at(501)), at(122));
    }
}
