//! Writers of what servers say.

use super::{Echo, ReplyHeader, Status};
use evenkeel_types::copy;

/// Success, with nothing to say but the item's CAS unique (0 when there is none to tell).
#[inline]
pub fn done(out: &mut Vec<u8>, echo: Echo, cas: u64) {
    packet(out, echo, Status::Success, cas, b"", b"", b"");
}

/// A hit: client flags, the key if it shall be repeated (otherwise empty), the value.
#[inline]
pub fn hit(out: &mut Vec<u8>, echo: Echo, flags: u32, key: &[u8], value: &[u8], cas: u64) {
    packet(
        out,
        echo,
        Status::Success,
        cas,
        &flags.to_be_bytes(),
        key,
        value,
    );
}

/// A miss of a command that repeats the key: the key, and no message.
pub fn miss_with_key(out: &mut Vec<u8>, echo: Echo, key: &[u8]) {
    packet(out, echo, Status::NotFound, 0, b"", key, b"");
}

/// The number that arithmetic came to.
pub fn number(out: &mut Vec<u8>, echo: Echo, number: u64, cas: u64) {
    packet(
        out,
        echo,
        Status::Success,
        cas,
        b"",
        b"",
        &number.to_be_bytes(),
    );
}

/// Success with a text: a version, the SASL mechanisms, a hello.
pub fn text(out: &mut Vec<u8>, echo: Echo, text: &[u8]) {
    packet(out, echo, Status::Success, 0, b"", b"", text);
}

/// One statistic. An empty name and value end the list.
pub fn stat(out: &mut Vec<u8>, echo: Echo, name: &[u8], value: &[u8]) {
    packet(out, echo, Status::Success, 0, b"", name, value);
}

/// Anything but success, in memcached's words.
pub fn error(out: &mut Vec<u8>, echo: Echo, status: Status) {
    error_with(out, echo, status, status.message());
}

/// Anything but success, in other words than memcached's.
pub fn error_with(out: &mut Vec<u8>, echo: Echo, status: Status, message: &[u8]) {
    packet(out, echo, status, 0, b"", b"", message);
}

/// A packet of parts that fit their length fields: keys of at most 250 bytes, values below 2 GiB.
#[inline]
fn packet(
    out: &mut Vec<u8>,
    echo: Echo,
    status: Status,
    cas: u64,
    extras: &[u8],
    key: &[u8],
    value: &[u8],
) {
    let body_len = extras.len() + key.len() + value.len();
    out.reserve(super::HEADER_LEN + body_len);
    ReplyHeader {
        opcode: echo.opcode,
        key_len: key.len() as u16,
        extras_len: extras.len() as u8,
        status: status.code(),
        body_len: body_len as u32,
        opaque: echo.opaque,
        cas,
    }
    .write(out);
    out.extend_from_slice(extras);
    out.extend_from_slice(key);
    copy::append(out, value);
}
