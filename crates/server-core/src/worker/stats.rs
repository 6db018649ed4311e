//! The `stats` command: what follows it, and who answers.

use crate::mesh::message::{ClassesView, CountersView, LinesView, Task};
use crate::session::listing::ListForm;
use crate::session::{ConnectionId, Session};
use crate::stats::settings;
use crate::worker::core::WorkerCore;
use evenkeel_hotkeys::settings::{SETTINGS, Settings};
use evenkeel_protocol::admin::Classes;
use evenkeel_protocol::auth::Dialect;
use evenkeel_protocol::compose::answer::stat;
use evenkeel_protocol::{stored_number, text};
use evenkeel_types::Now;
use serde_json::Value;

/// Largest level that `verbosity` sets, as in memcached.
const VERBOSITY_MAX: u32 = 2;

/// Numbers that `stats cachedump` does not refuse, as in memcached: 0 to 63.
const CACHEDUMP_CLASS_MAX: u64 = 63;

impl WorkerCore {
    /// Carries out `stats`. False when it must be shown again later.
    pub(crate) fn stats(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        arguments: &[u8],
    ) -> bool {
        // Fresher than what the process last said.
        self.facts.limit_bytes = self.pool.limit_bytes() as u64;
        self.facts.counts.memory_used_bytes = self.pool.used_bytes() as u64;
        let mut words = arguments
            .split(|&byte| byte == b' ')
            .filter(|w| !w.is_empty());
        let task = match words.next().unwrap_or_default() {
            b"" => Task::Stats(CountersView::General),
            b"evenkeel" => Task::Stats(CountersView::Evenkeel),
            b"items" => Task::Classes(ClassesView::Items),
            b"slabs" => Task::Classes(ClassesView::Slabs),
            b"hotkeys" => Task::Lines(LinesView::HotKeys),
            b"hotlog" => Task::Lines(LinesView::HotLog),
            b"replicas" => Task::Lines(LinesView::Replicas),
            b"cachelets" => Task::Lines(LinesView::Cachelets),
            b"conns" => {
                let mut lines = Vec::new();
                self.connection_facts(now, id, session, "conn_parse_cmd", &mut lines);
                self.asking_lines = lines;
                Task::Connections
            }
            b"reset" => Task::ResetStats,
            b"settings" => {
                let (changed, chosen) = (self.changed_settings(), self.chosen_settings());
                let settings = settings(&self.facts, &changed, &chosen);
                session.sink().extend_from_slice(&settings);
                return true;
            }
            b"detail" => match words.next() {
                Some(b"on") => Task::Detail(true),
                Some(b"off") => Task::Detail(false),
                Some(b"dump") => Task::Prefixes,
                _ => return say(session, text::DETAIL_USAGE),
            },
            b"sizes" if !self.config.admin.track_sizes => {
                stat(session.sink(), b"sizes_status", b"disabled");
                return say(session, text::END);
            }
            // A list is made in steps, which the binary protocol's answers have no place for.
            b"sizes" | b"cachedump" if session.dialect == Dialect::Binary => {
                return say(session, text::ERROR);
            }
            b"sizes" => {
                return self.list(now, id, session, ListForm::Sizes, Classes::ALL, u64::MAX);
            }
            b"cachedump" => return self.cachedump(now, id, session, words.next(), words.next()),
            // External storage, which is not here, has nothing to say.
            b"extstore" => return say(session, text::END),
            _ => return say(session, text::ERROR),
        };
        self.whole(now, id, session, task, false);
        true
    }

    fn cachedump(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        class: Option<&[u8]>,
        limit: Option<&[u8]>,
    ) -> bool {
        if !self.config.admin.dump {
            return say(session, text::CACHEDUMP_NOT_ALLOWED);
        }
        let (Some(class), Some(limit)) = (class, limit) else {
            return say(session, text::BAD_LINE);
        };
        let (Some(class), Some(limit)) = (stored_number(class), stored_number(limit)) else {
            return say(session, text::BAD_FORMAT);
        };
        if class > CACHEDUMP_CLASS_MAX {
            return say(session, text::BAD_SLAB_ID);
        }
        let Some(classes) = Classes::one(class) else {
            return say(session, text::END);
        };
        let limit = if limit == 0 { u64::MAX } else { limit };
        self.list(now, id, session, ListForm::Cachedump, classes, limit)
    }

    /// Settings that commands change while the server runs.
    fn changed_settings(&self) -> Vec<(&'static str, String)> {
        let yes = |value: bool| if value { "yes" } else { "no" }.to_owned();
        let mut changed = vec![
            ("maxbytes", self.facts.limit_bytes.to_string()),
            ("detail_enabled", yes(self.observers.counts_prefixes())),
        ];
        if let Some(level) = self.verbosity {
            changed.push(("verbosity", level.min(VERBOSITY_MAX).to_string()));
        }
        changed
    }

    /// The cluster's settings that this worker works by; none where it is alone.
    fn chosen_settings(&self) -> Vec<(&'static str, String)> {
        if !self.config.clustered {
            return Vec::new();
        }
        let promise = self.engine.hot.promise();
        let chosen = serde_json::to_value(Settings {
            hot_keys_consistency: promise.consistency,
            lease_ms: Some(promise.lease_ms),
            ..self.chosen
        });
        let chosen = chosen.unwrap_or_default();
        let said = |value: &Value| match value {
            Value::Null => "default".to_owned(),
            Value::String(word) => word.clone(),
            number => number.to_string(),
        };
        let line = |(name, _): (&'static str, _)| (name, said(&chosen[name]));
        SETTINGS.map(line).to_vec()
    }

    /// This worker's part of `stats conns`; the first worker adds what the server listens on. The
    /// connection that asks is not among the others while its command is carried out: what there
    /// is to say of it was written down before.
    pub(crate) fn connection_lines(&mut self, now: Now, out: &mut Vec<u8>) {
        if self.config.index == 0 {
            let uptime = now.monotonic.as_secs().to_string();
            for (listener, number) in self.facts.listeners.iter().zip(1..) {
                fact(out, number, "addr", listener);
                fact(out, number, "state", "conn_listening");
                fact(out, number, "secs_since_last_cmd", &uptime);
            }
        }
        out.append(&mut self.asking_lines);
        for (id, session) in self.connections.iter() {
            self.connection_facts(now, id, session, state(session), out);
        }
    }

    fn connection_facts(
        &self,
        now: Now,
        id: ConnectionId,
        session: &Session,
        state: &str,
        out: &mut Vec<u8>,
    ) {
        let number = self.connection_number(id);
        let address = session
            .peer
            .address
            .map_or("unix".to_owned(), |address| format!("tcp:{address}"));
        fact(out, number, "addr", &address);
        if let Some(listener) = self.facts.listeners.get(session.peer.listener) {
            fact(out, number, "listen_addr", listener);
        }
        fact(out, number, "state", state);
        let silent = now.monotonic.since(session.heard_at).as_secs();
        fact(out, number, "secs_since_last_cmd", &silent.to_string());
    }
}

fn fact(out: &mut Vec<u8>, number: u32, name: &str, value: &str) {
    stat(out, format!("{number}:{name}").as_bytes(), value.as_bytes());
}

fn say(session: &mut Session, reply: &[u8]) -> bool {
    session.sink().extend_from_slice(reply);
    true
}

/// What a connection is doing, in memcached's words.
fn state(session: &Session) -> &'static str {
    if session.watching {
        "conn_watch"
    } else if session.closing {
        "conn_closing"
    } else if session.waiting_bytes() > 0 {
        "conn_mwrite"
    } else if session.swallow > 0 {
        "conn_swallow"
    } else if session.need > 0 {
        "conn_nread"
    } else {
        "conn_read"
    }
}
