//! What each connection does with its socket.

use super::work::Work;
use crate::target::Socket;
use std::io::{self, ErrorKind, Write};

/// No request is made ready while this many bytes wait for the socket.
pub(crate) const OUTPUT_LEN_MAX: usize = 256 << 10;

/// Why a connection cannot go on.
pub(crate) type Loss = io::Error;

/// The server does not answer what it was asked.
pub(crate) fn out_of_step(what: String) -> Loss {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// What was made of bytes that came.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// Bytes of whole answers.
    pub(crate) taken: usize,
    /// Bytes that the parser wants to see of the next answer before it is asked again; 0 where none has begun.
    pub(crate) wanted: usize,
}

/// Writes as much as a socket takes; how much it was.
pub(crate) fn write(socket: &mut Socket, bytes: &[u8], work: &mut Work) -> Result<usize, Loss> {
    let mut written = 0;
    while written < bytes.len() {
        match socket.write(&bytes[written..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_not_now(&error) => break,
            Err(error) => return Err(error),
        }
    }
    work.stats.counters.sent_bytes += written as u64;
    Ok(written)
}

/// Whether a socket has no bytes, or no room for them, for now; also while its connection is being made.
pub(crate) fn is_not_now(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::NotConnected
    )
}
