//! One line of the answer to `stats`.

use std::io::Write;

pub(crate) fn stat(
    out: &mut Vec<u8>,
    name: impl core::fmt::Display,
    value: impl core::fmt::Display,
) {
    write!(out, "STAT {name} {value}\r\n").expect("a vector takes all bytes");
}
