//! Requests as bytes.

use super::request::Request;
use super::resp;
use crate::{LoadPlan, Protocol, value};
use evenkeel_protocol::compose::MetaLine;
use evenkeel_protocol::compose::request;
use evenkeel_protocol::{Direction, ITEM_OVERHEAD, SentKey, Store, StoreVerb};
use evenkeel_types::limits::{ITEM_SIZE_DEFAULT, KEY_LEN_MAX};
use evenkeel_types::{CacheletId, Epoch, KeyHash};
use evenkeel_workload::{KeyList, Operation};
use std::sync::Arc;

/// By what an aware client chose the worker that it asks. The meta dialect alone can tell it.
pub(crate) type Route = Option<(Epoch, CacheletId)>;

/// Values of a trace are cut to what a memcached with default limits takes under the longest key.
const TRACE_VALUE_LEN_MAX: usize = ITEM_SIZE_DEFAULT - ITEM_OVERHEAD - KEY_LEN_MAX;

/// Makes requests into bytes, each write with a value of its own.
pub(crate) struct Encoder {
    plan: Arc<LoadPlan>,
    /// Of the last value.
    version: u64,
    /// The value being written.
    value: Vec<u8>,
}

impl Encoder {
    /// The first value has the version after this one.
    pub(crate) fn new(plan: &Arc<LoadPlan>, version: u64) -> Self {
        Encoder {
            plan: Arc::clone(plan),
            version,
            value: Vec::new(),
        }
    }

    /// Appends a request.
    pub(crate) fn encode(&mut self, request: &Request, route: Route, out: &mut Vec<u8>) {
        let protocol = self.plan.protocol;
        if request.is_read() {
            return get(protocol, &request.keys, route, out);
        }
        let key = request.keys.get(0);
        let ttl_s = self.ttl_s(key, request.ttl_s);
        match store_verb(request.operation) {
            Some(verb) => {
                let value = self.next_value(request);
                store(protocol, verb, key, value, ttl_s, route, out);
            }
            None => short(protocol, request.operation, key, ttl_s, route, out),
        }
    }

    /// The value of the next write, with a version that no other write has.
    fn next_value(&mut self, request: &Request) -> &[u8] {
        match request.operation {
            // Counters are apart from values, and begin here.
            _ if request.begins_counter => return b"0",
            // A value grows by nothing, so that it can still be checked and does not fill the server.
            Operation::Append | Operation::Prepend => return b"",
            _ => {}
        }
        let hash = KeyHash::of(request.keys.get(0));
        let len = match request.value_len {
            Some(len) => (len as usize).min(TRACE_VALUE_LEN_MAX),
            None => self.plan.value_sizes.of(hash.0) as usize,
        };
        self.version += 1;
        self.value.clear();
        value::write(hash, self.version, len, &mut self.value);
        &self.value
    }

    /// Time to live of the next write of this key.
    fn ttl_s(&self, key: &[u8], told: Option<u32>) -> u32 {
        match told {
            Some(ttl_s) => ttl_s,
            None if self.plan.ttls.max() == 0 => 0,
            None => self.plan.ttls.of(KeyHash::of(key).0),
        }
    }
}

/// How an operation writes the value that it comes with; `None` where it has none.
fn store_verb(operation: Operation) -> Option<StoreVerb> {
    match operation {
        Operation::Set => Some(StoreVerb::Set),
        Operation::Add => Some(StoreVerb::Add),
        Operation::Replace => Some(StoreVerb::Replace),
        Operation::Append => Some(StoreVerb::Append),
        Operation::Prepend => Some(StoreVerb::Prepend),
        _ => None,
    }
}

/// Appends a read of all keys. Its answer is one `END` in the classic dialect and one line or value
/// for each key in the meta dialect.
fn get(protocol: Protocol, keys: &KeyList, route: Route, out: &mut Vec<u8>) {
    match protocol {
        Protocol::Classic => request::get(out, keys.iter(), false),
        Protocol::Meta => {
            for key in keys.iter() {
                let line = request::meta_get(out, SentKey::plain(key)).flag(b'v');
                routed(line, route).end();
            }
        }
        Protocol::Resp => resp::get(out, keys.iter()),
    }
}

/// Appends a write of a value that lives this many seconds, 0 for ever.
fn store(
    protocol: Protocol,
    verb: StoreVerb,
    key: &[u8],
    value: &[u8],
    ttl_s: u32,
    route: Route,
    out: &mut Vec<u8>,
) {
    match protocol {
        Protocol::Classic => {
            request::store(
                out,
                &Store {
                    verb,
                    key,
                    flags: 0,
                    exptime: i64::from(ttl_s),
                    value,
                    noreply: false,
                },
            );
        }
        Protocol::Meta => {
            let mut line = request::meta_set(out, SentKey::plain(key), value.len());
            line = match verb {
                StoreVerb::Add => line.token(b'M', b"E"),
                StoreVerb::Replace => line.token(b'M', b"R"),
                StoreVerb::Append => line.token(b'M', b"A"),
                StoreVerb::Prepend => line.token(b'M', b"P"),
                _ => line,
            };
            if ttl_s > 0 {
                line = line.number(b'T', ttl_s);
            }
            routed(line, route).end_with(value);
        }
        Protocol::Resp => resp::store(out, verb, key, value, ttl_s),
    }
}

/// Appends a request without a value: delete, touch with a new time to live, or counting by 1.
fn short(
    protocol: Protocol,
    operation: Operation,
    key: &[u8],
    ttl_s: u32,
    route: Route,
    out: &mut Vec<u8>,
) {
    let sent = SentKey::plain(key);
    match (protocol, operation) {
        (Protocol::Classic, Operation::Delete) => request::delete(out, key, false),
        (Protocol::Classic, Operation::Touch) => {
            request::touch(out, key, i64::from(ttl_s), false);
        }
        (Protocol::Classic, Operation::Decr) => {
            request::arithmetic(out, key, 1, Direction::Decr, false);
        }
        (Protocol::Classic, _) => request::arithmetic(out, key, 1, Direction::Incr, false),
        (Protocol::Meta, Operation::Delete) => routed(request::meta_delete(out, sent), route).end(),
        (Protocol::Meta, Operation::Touch) => {
            routed(request::meta_get(out, sent).number(b'T', ttl_s), route).end();
        }
        (Protocol::Meta, Operation::Decr) => {
            let line = request::meta_arithmetic(out, sent).token(b'M', b"D");
            routed(line, route).end();
        }
        (Protocol::Meta, _) => routed(request::meta_arithmetic(out, sent), route).end(),
        (Protocol::Resp, _) => resp::short(out, operation, key, ttl_s),
    }
}

fn routed(line: MetaLine<'_>, route: Route) -> MetaLine<'_> {
    match route {
        Some((epoch, _)) => line.number(b'Y', epoch.0),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn requests_are_those_of_the_dialect() {
        let mut keys = KeyList::default();
        keys.push(b"a");
        keys.push(b"bc");
        assert_eq!(
            text(|out| get(Protocol::Classic, &keys, None, out)),
            "get a bc\r\n"
        );
        assert_eq!(
            text(|out| get(Protocol::Meta, &keys, None, out)),
            "mg a v\r\nmg bc v\r\n"
        );
        let classic =
            text(|out| store(Protocol::Classic, StoreVerb::Set, b"a", b"xy", 0, None, out));
        assert_eq!(classic, "set a 0 0 2\r\nxy\r\n");
        let meta = text(|out| store(Protocol::Meta, StoreVerb::Set, b"a", b"xy", 0, None, out));
        assert_eq!(meta, "ms a 2\r\nxy\r\n");
        let expiring = text(|out| {
            store(
                Protocol::Classic,
                StoreVerb::Set,
                b"a",
                b"xy",
                60,
                None,
                out,
            );
            store(Protocol::Meta, StoreVerb::Set, b"a", b"xy", 60, None, out);
        });
        assert_eq!(expiring, "set a 0 60 2\r\nxy\r\nms a 2 T60\r\nxy\r\n");
        let route = Some((Epoch(12), CacheletId(3)));
        assert_eq!(
            text(|out| get(Protocol::Meta, &keys, route, out)),
            "mg a v Y12\r\nmg bc v Y12\r\n"
        );
        let aware = text(|out| store(Protocol::Meta, StoreVerb::Set, b"a", b"xy", 0, route, out));
        assert_eq!(aware, "ms a 2 Y12\r\nxy\r\n");
    }

    #[test]
    fn other_operations_are_those_of_the_dialect() {
        let short = |operation| {
            text(|out| {
                short(Protocol::Classic, operation, b"a", 60, None, out);
                short(Protocol::Meta, operation, b"a", 60, None, out);
            })
        };
        assert_eq!(short(Operation::Delete), "delete a\r\nmd a\r\n");
        assert_eq!(short(Operation::Touch), "touch a 60\r\nmg a T60\r\n");
        assert_eq!(short(Operation::Incr), "incr a 1\r\nma a\r\n");
        assert_eq!(short(Operation::Decr), "decr a 1\r\nma a MD\r\n");
        for (verb, classic, mode) in [
            (StoreVerb::Add, "add", "E"),
            (StoreVerb::Replace, "replace", "R"),
            (StoreVerb::Append, "append", "A"),
            (StoreVerb::Prepend, "prepend", "P"),
        ] {
            let stored = text(|out| {
                store(Protocol::Classic, verb, b"a", b"", 0, None, out);
                store(Protocol::Meta, verb, b"a", b"", 0, None, out);
            });
            assert_eq!(
                stored,
                format!("{classic} a 0 0 0\r\n\r\nms a 0 M{mode}\r\n\r\n")
            );
        }
    }
}
