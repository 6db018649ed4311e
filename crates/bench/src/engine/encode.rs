//! Requests as bytes.

use super::feed::KeyList;
use super::resp;
use crate::Protocol;
use evenkeel_protocol::compose::MetaLine;
use evenkeel_protocol::compose::request;
use evenkeel_protocol::{SentKey, Store, StoreVerb};
use evenkeel_types::{CacheletId, Epoch};

/// By what an aware client chose the worker that it asks. The meta dialect alone can tell it.
pub(crate) type Route = Option<(Epoch, CacheletId)>;

/// Appends a read of all keys. Its answer is one `END` in the classic dialect and one line or value
/// for each key in the meta dialect.
pub(crate) fn get(protocol: Protocol, keys: &KeyList, route: Route, out: &mut Vec<u8>) {
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

/// Appends a write that never expires.
pub(crate) fn set(protocol: Protocol, key: &[u8], value: &[u8], route: Route, out: &mut Vec<u8>) {
    match protocol {
        Protocol::Classic => {
            let verb = StoreVerb::Set;
            request::store(
                out,
                &Store {
                    verb,
                    key,
                    flags: 0,
                    exptime: 0,
                    value,
                    noreply: false,
                },
            );
        }
        Protocol::Meta => {
            let line = request::meta_set(out, SentKey::plain(key), value.len());
            routed(line, route).end_with(value);
        }
        Protocol::Resp => resp::set(out, key, value),
    }
}

fn routed(line: MetaLine<'_>, route: Route) -> MetaLine<'_> {
    match route {
        Some((epoch, cachelet)) => line.number(b'Y', epoch.0).number(b'U', cachelet.0),
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
        let classic = text(|out| set(Protocol::Classic, b"a", b"xy", None, out));
        assert_eq!(classic, "set a 0 0 2\r\nxy\r\n");
        let meta = text(|out| set(Protocol::Meta, b"a", b"xy", None, out));
        assert_eq!(meta, "ms a 2\r\nxy\r\n");
        let route = Some((Epoch(12), CacheletId(3)));
        assert_eq!(
            text(|out| get(Protocol::Meta, &keys, route, out)),
            "mg a v Y12 U3\r\nmg bc v Y12 U3\r\n"
        );
        let aware = text(|out| set(Protocol::Meta, b"a", b"xy", route, out));
        assert_eq!(aware, "ms a 2 Y12 U3\r\nxy\r\n");
    }
}
