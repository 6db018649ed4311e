//! Lines of the answer to `stats`.

use evenkeel_types::shown::Shown;
use std::io::Write;

pub(crate) fn stat(
    out: &mut Vec<u8>,
    name: impl core::fmt::Display,
    value: impl core::fmt::Display,
) {
    write!(out, "STAT {name} {value}\r\n").expect("a vector takes all bytes");
}

/// Declared numbers; their names begin with `prefix`.
pub(crate) fn shown<T>(out: &mut Vec<u8>, prefix: &str, list: &[Shown<T>], of: &T) {
    for shown in list {
        stat(
            out,
            format_args!("{prefix}{}", shown.name),
            (shown.value)(of),
        );
    }
}
