//! Requests as bytes.

use super::feed::KeyList;
use crate::Protocol;
use evenkeel_protocol::compose::request;
use evenkeel_protocol::{SentKey, Store, StoreVerb};

/// Appends a read of all keys. Its answer is one `END` in the classic dialect and one line or value
/// for each key in the meta dialect.
pub(crate) fn get(protocol: Protocol, keys: &KeyList, out: &mut Vec<u8>) {
    match protocol {
        Protocol::Classic => request::get(out, keys.iter(), false),
        Protocol::Meta => {
            for key in keys.iter() {
                request::meta_get(out, SentKey::plain(key)).flag(b'v').end();
            }
        }
    }
}

/// Appends a write that never expires.
pub(crate) fn set(protocol: Protocol, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
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
            request::meta_set(out, SentKey::plain(key), value.len()).end_with(value);
        }
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
            text(|out| get(Protocol::Classic, &keys, out)),
            "get a bc\r\n"
        );
        assert_eq!(
            text(|out| get(Protocol::Meta, &keys, out)),
            "mg a v\r\nmg bc v\r\n"
        );
        let classic = text(|out| set(Protocol::Classic, b"a", b"xy", out));
        assert_eq!(classic, "set a 0 0 2\r\nxy\r\n");
        let meta = text(|out| set(Protocol::Meta, b"a", b"xy", out));
        assert_eq!(meta, "ms a 2\r\nxy\r\n");
    }
}
