//! `stats conns`: what connections there are, and what they are doing.

use super::process::ProcessState;
use crate::session::Session;
use crate::session::connections::Connections;
use evenkeel_protocol::compose::answer::stat;
use evenkeel_types::Now;

impl ProcessState {
    /// This worker's part of `stats conns`; the first worker adds what the server listens on. The
    /// connection that asks is not among the others while its command is executed: what there
    /// is to say of it was written down before.
    pub(crate) fn connection_lines(
        &mut self,
        connections: &Connections,
        now: Now,
        out: &mut Vec<u8>,
    ) {
        if self.me == 0 {
            let uptime = now.monotonic.as_secs().to_string();
            for (listener, number) in self.facts.listeners.iter().zip(1..) {
                fact(out, number, "addr", listener);
                fact(out, number, "state", "conn_listening");
                fact(out, number, "secs_since_last_cmd", &uptime);
            }
        }
        out.append(&mut self.asking_lines);
        for (_, session) in connections.iter() {
            self.connection_facts(now, session, state(session), out);
        }
    }

    fn connection_facts(&self, now: Now, session: &Session, state: &str, out: &mut Vec<u8>) {
        let number = self.number_of(session);
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

    /// A connection asks: while its command is executed it is not among the others.
    pub(crate) fn note_asking(&mut self, now: Now, session: &Session) {
        let mut lines = Vec::new();
        self.connection_facts(now, session, "conn_parse_cmd", &mut lines);
        self.asking_lines = lines;
    }
}

fn fact(out: &mut Vec<u8>, number: u32, name: &str, value: &str) {
    stat(out, format!("{number}:{name}").as_bytes(), value.as_bytes());
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
