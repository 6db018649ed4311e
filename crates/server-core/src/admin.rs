//! What operators say over the protocol, besides `stats`.

use super::listing::ListForm;
use super::message::{ReturnAddress, Task};
use super::session::{ConnectionId, Session};
use super::worker::WorkerCore;
use core::net::IpAddr;
use evenkeel_protocol::admin::{self, Crawler, DebugTime, DumpForm};
use evenkeel_protocol::{Admin, ShutdownMode, text};
use evenkeel_types::{Instant, Now};
use std::collections::VecDeque;
use std::io::Write;
use std::time::Duration;

/// The key under which old clients of ElastiCache look for the list of servers. It is found where
/// nobody has stored anything under it.
pub const CLUSTER_KEY: &[u8] = b"AmazonElastiCache:cluster";

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
            watcher_log_bytes: super::observe::WATCHER_LOG_BYTES_DEFAULT,
            worker_log_bytes: super::observe::WORKER_LOG_BYTES_DEFAULT,
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
    /// [`answer_process_request`](WorkerCore::answer_process_request).
    RefreshCertificates(ReturnAddress),
    /// Ask the coordinator for a newer map now: another server works by one.
    AskForMap,
}

impl WorkerCore {
    /// Carries out a word for the operator. False when it must be shown again later.
    pub(super) fn admin(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        admin: &Admin<'_>,
    ) -> bool {
        let reply: &[u8] = match admin {
            Admin::LruCrawler(words) => match admin::crawler(words) {
                Crawler::Dump(form, _) if !self.config.admin.dump => match form {
                    DumpForm::Meta => text::METADUMP_NOT_ALLOWED,
                    DumpForm::MetaGet => text::MGDUMP_NOT_ALLOWED,
                },
                Crawler::Dump(_, None) => text::BAD_CLASS,
                Crawler::Dump(form, Some(classes)) => {
                    let form = ListForm::Dump(form);
                    return self.list(now, id, session, form, classes, u64::MAX);
                }
                Crawler::Knob(answer) => answer,
            },
            Admin::Slabs(words) => admin::slabs(words),
            Admin::Lru(words) => admin::lru(words),
            Admin::Watch(words) => {
                self.watch(now, id, session, words);
                return true;
            }
            Admin::Shutdown(mode) => match mode {
                _ if !self.config.admin.shutdown => text::SHUTDOWN_NOT_ENABLED,
                ShutdownMode::Unknown => text::BAD_SHUTDOWN_MODE,
                ShutdownMode::Immediate => {
                    self.process_requests.push_back(ProcessRequest::Stop);
                    b""
                }
                ShutdownMode::Graceful => {
                    self.process_requests.push_back(ProcessRequest::Drain);
                    b""
                }
            },
            Admin::CacheMemlimit { mebibytes, noreply } => {
                self.set_memory_limit(*mebibytes);
                if *noreply { b"" } else { text::OK }
            }
            Admin::RefreshCerts => {
                if self.config.admin.refresh_certs {
                    let to = self.expect(id, session, 1);
                    self.process_requests
                        .push_back(ProcessRequest::RefreshCertificates(to));
                    b""
                } else {
                    text::TLS_NOT_ENABLED
                }
            }
            Admin::ConfigGet(name) => {
                if *name == b"cluster" && !self.engine.cluster_config.is_empty() {
                    write_cluster_config(session.sink(), &self.engine.cluster_config);
                    b""
                } else {
                    text::ERROR
                }
            }
            Admin::DebugTime(words) => match admin::debug_time(words) {
                _ if !self.config.admin.test_commands => text::ERROR,
                None => text::BAD_FORMAT,
                Some(change) => {
                    self.whole(now, id, session, Task::DebugTime(change), false);
                    b""
                }
            },
        };
        session.sink().extend_from_slice(reply);
        true
    }

    /// What a client asks of the process.
    pub fn poll_process_request(&mut self) -> Option<ProcessRequest> {
        self.process_requests.pop_front()
    }

    /// The process has done what it was asked for; `reply` is a whole line of the protocol.
    pub fn answer_process_request(&mut self, to: ReturnAddress, reply: &[u8]) {
        self.deliver(to.connection, |session| session.answered(to.ticket, reply));
    }

    /// The memory that a limit of `cache_memlimit` leaves is given back step by step.
    fn set_memory_limit(&mut self, mebibytes: u32) {
        let bytes = u64::from(mebibytes) << 20;
        self.pool
            .set_limit_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    /// What the server's clock shows when the machine's shows `read`: the same, unless `debugtime`
    /// has moved it. A driver shows each reading of the clock here first and goes on with what it
    /// gets.
    #[inline]
    pub fn now(&mut self, read: Now) -> Now {
        self.now = self.debug_clock.show(read);
        self.engine.hot.handle_turn(self.now.monotonic);
        self.now
    }

    /// Whether what was received is to come with a reading of the clock that is not from before; see
    /// [`HotKeys::wants_clock`](evenkeel_hotkeys::server::HotKeys::wants_clock).
    #[inline]
    pub fn wants_clock(&self) -> bool {
        self.engine.hot.wants_clock()
    }

    /// Makes the list of servers anew: this one where it is alone. In a cluster there is none to give: who knows servers
    /// and not the map is refused for the keys of all but one of them.
    pub(super) fn update_cluster_config(&mut self) {
        let config = &mut self.engine.cluster_config;
        config.clear();
        if !self.config.admin.cluster_config {
            return;
        }
        if let (None, Some((host, port))) = (&self.map, &self.facts.address) {
            config.extend_from_slice(b"1\n");
            server(config, host, *port);
            config.push(b'\n');
        }
    }
}

/// Writes `host|ip|port`, with as much of it as is known: a host that is an address stands for both.
fn server(out: &mut Vec<u8>, host: &str, port: u16) {
    let ip = if host.parse::<IpAddr>().is_ok() {
        host
    } else {
        ""
    };
    // Writing into memory cannot fail.
    let _ = write!(out, "{host}|{ip}|{port}");
}

fn write_cluster_config(out: &mut Vec<u8>, config: &[u8]) {
    let _ = write!(out, "CONFIG cluster 0 {}\r\n", config.len());
    out.extend_from_slice(config);
    out.extend_from_slice(text::CRLF);
    out.extend_from_slice(text::END);
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
    fn show(&mut self, read: Now) -> Now {
        self.read = read;
        match self.stopped {
            None if self.ahead_ns == 0 => read,
            None => ahead(read, self.ahead_ns),
            Some(now) => now,
        }
    }

    /// Carries out `debugtime`.
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
pub(super) type ProcessRequests = VecDeque<ProcessRequest>;

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

    #[test]
    fn a_list_of_servers_is_what_elasticache_says() {
        let mut config = b"1\n".to_vec();
        server(&mut config, "cache.example.com", 11211);
        config.push(b'\n');
        let mut out = Vec::new();
        write_cluster_config(&mut out, &config);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "CONFIG cluster 0 27\r\n1\ncache.example.com||11211\n\r\nEND\r\n"
        );
    }
}
