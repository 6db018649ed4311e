//! What a proxy says at its control port: one line to anyone who connects, and then the end of the connection.

use evenkeel_types::BootId;

/// Longest line that is read.
pub const CONTROL_LINE_LEN_MAX: usize = 64;

const BEGINS: &str = "evenkeel proxy ";

/// The line of this process.
///
/// ```
/// use evenkeel_control::{boot_of, control_line};
/// use evenkeel_types::BootId;
///
/// let line = control_line(BootId(7));
/// assert_eq!(line, "evenkeel proxy 7\n");
/// assert_eq!(boot_of(line.as_bytes()), Some(BootId(7)));
/// assert_eq!(boot_of(b"HTTP/1.1 400 Bad Request\n"), None);
/// ```
pub fn control_line(boot: BootId) -> String {
    format!("{BEGINS}{}\n", boot.0)
}

/// Which process a line is of; `None` where it is something else, or not whole.
pub fn boot_of(line: &[u8]) -> Option<BootId> {
    let line = std::str::from_utf8(line).ok()?;
    let boot = line.strip_prefix(BEGINS)?.strip_suffix('\n')?;
    boot.parse().ok().map(BootId)
}
