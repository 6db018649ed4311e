//! What clients say: the proxy to servers, servers to servers, the load generator to anyone.
//!
//! Keys and tokens are written as they are. Keys that hold spaces or control characters must be sent
//! in base64 ([`SentKey`] says which); everything that comes out of the parser is safe.

use evenkeel_types::{BootId, Epoch, ServerId, WorkerRef, copy};

use super::{MetaLine, number};
use crate::extension::{Hello, Migrate};
use crate::meta::SentKey;
use crate::mode::Direction;
use crate::request::{Store, StoreVerb};
use crate::text;

/// `get` or, with `with_cas`, `gets`. There must be a key.
pub fn get<'k>(out: &mut Vec<u8>, keys: impl IntoIterator<Item = &'k [u8]>, with_cas: bool) {
    out.extend_from_slice(if with_cas { b"gets" } else { b"get" });
    append_keys(out, keys);
}

/// `gat` or, with `with_cas`, `gats`.
pub fn get_and_touch<'k>(
    out: &mut Vec<u8>,
    exptime: i64,
    keys: impl IntoIterator<Item = &'k [u8]>,
    with_cas: bool,
) {
    out.extend_from_slice(if with_cas { b"gats " } else { b"gat " });
    number(out, exptime);
    append_keys(out, keys);
}

/// A classic storage command.
pub fn store(out: &mut Vec<u8>, store: &Store<'_>) {
    let (word, cas): (&[u8], _) = match store.verb {
        StoreVerb::Set => (b"set ", None),
        StoreVerb::Add => (b"add ", None),
        StoreVerb::Replace => (b"replace ", None),
        StoreVerb::Append => (b"append ", None),
        StoreVerb::Prepend => (b"prepend ", None),
        StoreVerb::Cas(cas) => (b"cas ", Some(cas)),
    };
    out.extend_from_slice(word);
    out.extend_from_slice(store.key);
    out.push(b' ');
    number(out, store.flags);
    out.push(b' ');
    number(out, store.exptime);
    out.push(b' ');
    number(out, store.value.len());
    if let Some(cas) = cas {
        out.push(b' ');
        number(out, cas);
    }
    end(out, store.noreply);
    copy::append(out, store.value);
    out.extend_from_slice(text::CRLF);
}

/// `delete`
pub fn delete(out: &mut Vec<u8>, key: &[u8], noreply: bool) {
    out.extend_from_slice(b"delete ");
    out.extend_from_slice(key);
    end(out, noreply);
}

/// `incr` or `decr`
pub fn arithmetic(out: &mut Vec<u8>, key: &[u8], delta: u64, direction: Direction, noreply: bool) {
    out.extend_from_slice(match direction {
        Direction::Incr => b"incr ",
        Direction::Decr => b"decr ",
    });
    out.extend_from_slice(key);
    out.push(b' ');
    number(out, delta);
    end(out, noreply);
}

/// `touch`
pub fn touch(out: &mut Vec<u8>, key: &[u8], exptime: i64, noreply: bool) {
    out.extend_from_slice(b"touch ");
    out.extend_from_slice(key);
    out.push(b' ');
    number(out, exptime);
    end(out, noreply);
}

/// `flush_all`
pub fn flush_all(out: &mut Vec<u8>, delay: Option<i64>, noreply: bool) {
    out.extend_from_slice(b"flush_all");
    if let Some(delay) = delay {
        out.push(b' ');
        number(out, delay);
    }
    end(out, noreply);
}

/// `version`
pub fn version(out: &mut Vec<u8>) {
    out.extend_from_slice(b"version\r\n");
}

/// Begins `mg`.
#[inline]
pub fn meta_get<'o>(out: &'o mut Vec<u8>, key: SentKey<'_>) -> MetaLine<'o> {
    meta(out, b"mg ", key)
}

/// Begins `ms`; end it with [`MetaLine::end_with`] and a value of `len` bytes.
#[inline]
pub fn meta_set<'o>(out: &'o mut Vec<u8>, key: SentKey<'_>, len: usize) -> MetaLine<'o> {
    out.extend_from_slice(b"ms ");
    out.extend_from_slice(key.text);
    out.push(b' ');
    number(out, len);
    MetaLine::new(out)
}

/// Begins `md`.
#[inline]
pub fn meta_delete<'o>(out: &'o mut Vec<u8>, key: SentKey<'_>) -> MetaLine<'o> {
    meta(out, b"md ", key)
}

/// Begins `ma`.
#[inline]
pub fn meta_arithmetic<'o>(out: &'o mut Vec<u8>, key: SentKey<'_>) -> MetaLine<'o> {
    meta(out, b"ma ", key)
}

/// Begins `me`.
#[inline]
pub fn meta_debug<'o>(out: &'o mut Vec<u8>, key: SentKey<'_>) -> MetaLine<'o> {
    meta(out, b"me ", key)
}

/// `mn`
pub fn meta_noop(out: &mut Vec<u8>) {
    out.extend_from_slice(b"mn\r\n");
}

/// Offers the extension.
pub fn hello(out: &mut Vec<u8>, epoch: Epoch) {
    offer(out, epoch, None, None);
}

/// Offers the extension as a home's worker that will send replicas.
pub fn hello_from(out: &mut Vec<u8>, epoch: Epoch, worker: WorkerRef) {
    offer(out, epoch, Some(worker), None);
}

/// Offers the extension as a server's life that asks whether it may serve by the map of that epoch.
pub fn ask_for_vote(out: &mut Vec<u8>, epoch: Epoch, server: ServerId, boot: BootId) {
    offer(out, epoch, None, Some((server, boot)));
}

/// `migrate`, from the source of a migration to its target.
pub fn migrate(out: &mut Vec<u8>, migrate: Migrate) {
    out.extend_from_slice(b"migrate ");
    migrate.write_words(out);
    out.extend_from_slice(text::CRLF);
}

fn offer(
    out: &mut Vec<u8>,
    epoch: Epoch,
    from: Option<WorkerRef>,
    vote: Option<(ServerId, BootId)>,
) {
    out.extend_from_slice(b"evenkeel ");
    Hello {
        version: Hello::VERSION,
        epoch,
        from,
        vote,
    }
    .write_words(out);
    out.extend_from_slice(text::CRLF);
}

fn append_keys<'k>(out: &mut Vec<u8>, keys: impl IntoIterator<Item = &'k [u8]>) {
    for key in keys {
        out.push(b' ');
        out.extend_from_slice(key);
    }
    out.extend_from_slice(text::CRLF);
}

/// Ends a classic line.
fn end(out: &mut Vec<u8>, noreply: bool) {
    out.extend_from_slice(if noreply { b" noreply\r\n" } else { text::CRLF });
}

/// Begins a meta line. Flag `b` of a base64 key is not written here: it may already be among the
/// flags that the caller forwards.
fn meta<'o>(out: &'o mut Vec<u8>, word: &[u8], key: SentKey<'_>) -> MetaLine<'o> {
    out.extend_from_slice(word);
    out.extend_from_slice(key.text);
    MetaLine::new(out)
}
