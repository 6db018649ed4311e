//! What operators say over the protocol, besides `stats`.

use crate::admin::ProcessRequest;
use crate::mesh::message::Task;
use crate::session::Session;
use crate::session::listing::ListForm;
use crate::worker::core::WorkerCore;
use crate::worker::listing::list;
use crate::worker::watch::watch;
use crate::worker::whole::whole;
use core::net::IpAddr;
use evenkeel_protocol::admin::{self, Crawler, DumpForm};
use evenkeel_protocol::{Admin, ShutdownMode, text};
use evenkeel_types::Now;
use std::io::Write;

/// Executes a word for the operator. False when it must be shown again later.
pub(crate) fn admin(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    word: &Admin<'_>,
) -> bool {
    let reply: &[u8] = match word {
        Admin::LruCrawler(words) => match admin::crawler(words) {
            Crawler::Dump(form, _) if !core.config.admin.dump => match form {
                DumpForm::Meta => text::METADUMP_NOT_ALLOWED,
                DumpForm::MetaGet => text::MGDUMP_NOT_ALLOWED,
            },
            Crawler::Dump(_, None) => text::BAD_CLASS,
            Crawler::Dump(form, Some(classes)) => {
                let form = ListForm::Dump(form);
                return list(core, now, session, form, classes, u64::MAX);
            }
            Crawler::Knob(answer) => answer,
        },
        Admin::Slabs(words) => admin::slabs(words),
        Admin::Lru(words) => admin::lru(words),
        Admin::Watch(words) => {
            watch(core, now, session, words);
            return true;
        }
        Admin::Shutdown(mode) => match mode {
            _ if !core.config.admin.shutdown => text::SHUTDOWN_NOT_ENABLED,
            ShutdownMode::Unknown => text::BAD_SHUTDOWN_MODE,
            ShutdownMode::Immediate => {
                core.process_requests.push_back(ProcessRequest::Stop);
                b""
            }
            ShutdownMode::Graceful => {
                core.process_requests.push_back(ProcessRequest::Drain);
                b""
            }
        },
        Admin::CacheMemlimit { mebibytes, noreply } => {
            core.process.set_memory_limit(*mebibytes);
            if *noreply { b"" } else { text::OK }
        }
        Admin::RefreshCerts => {
            if core.config.admin.refresh_certs {
                let to = session.expect(1);
                (core.process_requests).push_back(ProcessRequest::RefreshCertificates(to));
                b""
            } else {
                text::TLS_NOT_ENABLED
            }
        }
        Admin::ConfigGet(name) => {
            if *name == b"cluster" && !core.engine.cluster_config.is_empty() {
                write_cluster_config(session.sink(), &core.engine.cluster_config);
                b""
            } else {
                text::ERROR
            }
        }
        Admin::DebugTime(words) => match admin::debug_time(words) {
            _ if !core.config.admin.test_commands => text::ERROR,
            None => text::BAD_FORMAT,
            Some(change) => {
                whole(core, now, session, Task::DebugTime(change), false);
                b""
            }
        },
    };
    session.say(reply);
    true
}

/// Makes the list of servers anew: this one where it is alone. In a cluster there is none to give: who knows servers
/// and not the map is refused for the keys of all but one of them.
pub(crate) fn update_cluster_config(core: &mut WorkerCore) {
    let config = &mut core.engine.cluster_config;
    config.clear();
    if !core.config.admin.cluster_config {
        return;
    }
    if let (None, Some((host, port))) = (&core.hosting.map, &core.process.facts.address) {
        config.extend_from_slice(b"1\n");
        server(config, host, *port);
        config.push(b'\n');
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
