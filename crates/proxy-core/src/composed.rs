//! Requests that the proxy composes itself, and reading them.

use evenkeel_protocol::compose::MetaLine;
use evenkeel_protocol::{
    LINE_LEN_MAX, Limits, Request, RequestOutcome, SentKey, parse_request, text,
};

/// A request that the proxy has composed.
pub(crate) fn parse_own(bytes: &[u8]) -> Option<Request<'_>> {
    let limits = Limits {
        // Whatever fits the request, and what an item has besides.
        item_size_max: bytes.len() + LINE_LEN_MAX,
        ..Limits::default()
    };
    match parse_request(bytes, &limits) {
        RequestOutcome::Request { request, .. } => Some(request),
        _ => None,
    }
}

/// The key of a command about one, as it is sent.
pub(crate) fn sent_key(bytes: &[u8]) -> Option<SentKey<'_>> {
    match parse_own(bytes)? {
        Request::Store(store) => Some(SentKey::plain(store.key)),
        Request::Delete { key, .. }
        | Request::Arithmetic { key, .. }
        | Request::Touch { key, .. } => Some(SentKey::plain(key)),
        Request::MetaDebug { key } => Some(key),
        Request::MetaGet(meta)
        | Request::MetaSet(meta)
        | Request::MetaDelete(meta)
        | Request::MetaArithmetic(meta) => Some(meta.key),
        _ => None,
    }
}

/// A key in base64 is announced first, so that it is found again (`show/binary.rs`).
pub(crate) fn announced<'o>(line: MetaLine<'o>, key: SentKey<'_>) -> MetaLine<'o> {
    match key.base64 {
        true => line.flag(b'b'),
        false => line,
    }
}

/// Where the line of a command of ours ends.
pub(crate) fn line_end(bytes: &[u8]) -> usize {
    let mut ends = bytes.windows(text::CRLF.len());
    ends.position(|end| end == text::CRLF).unwrap_or(0)
}

/// A line without its newline.
pub(crate) fn without_newline(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The key of a `get` or `gets` of one, as such a line is composed here.
#[inline]
pub(crate) fn key_of_get(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(text::CRLF)?;
    line.strip_prefix(b"get ")
        .or_else(|| line.strip_prefix(b"gets "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_protocol::next_word;

    #[test]
    fn keys_are_what_stands_between_spaces() {
        let line = b"  a\tb  c ";
        let mut keys = Vec::new();
        let mut at = 0;
        while let Some(key) = next_word(line, at) {
            at = key.end;
            keys.push(&line[key]);
        }
        assert_eq!(keys, [b"a\tb".as_slice(), b"c"]);
        assert_eq!(next_word(b"", 0), None);
        assert_eq!(next_word(b"ab", 2), None);
        assert_eq!(without_newline(b"a\r\n"), b"a");
        assert_eq!(without_newline(b"a\n"), b"a");
    }
}
