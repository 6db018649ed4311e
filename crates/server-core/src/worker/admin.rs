//! What operators say over the protocol, besides `stats`.

use crate::admin::ProcessRequest;
use crate::mesh::message::Task;
use crate::session::address::ReturnAddress;
use crate::session::listing::ListForm;
use crate::session::{ConnectionId, Session};
use crate::worker::core::WorkerCore;
use core::net::IpAddr;
use evenkeel_protocol::admin::{self, Crawler, DumpForm};
use evenkeel_protocol::{Admin, ShutdownMode, text};
use evenkeel_types::Now;
use std::io::Write;

impl WorkerCore {
    /// Carries out a word for the operator. False when it must be shown again later.
    pub(crate) fn admin(
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
    pub(crate) fn update_cluster_config(&mut self) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
