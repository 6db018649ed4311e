//! The socket of a link to a worker of another server.

use evenkeel_runtime::{InputBuffer, Stream};
use evenkeel_server_core::{LinkId, WorkerCore};
use evenkeel_types::Now;
use std::io::{self, ErrorKind, Write};

/// A link's socket.
#[derive(Debug)]
pub struct LinkSocket {
    /// Its name.
    pub id: LinkId,
    stream: Stream,
    input: InputBuffer,
    connected: bool,
}

impl LinkSocket {
    /// A connection under way. The socket is registered already.
    pub fn new(id: LinkId, stream: Stream) -> Self {
        LinkSocket {
            id,
            stream,
            input: InputBuffer::default(),
            connected: false,
        }
    }

    /// Moves what can be moved. An error means that the link is lost.
    pub fn serve(&mut self, core: &mut WorkerCore, now: Now, scratch: &mut [u8]) -> io::Result<()> {
        if !self.connected {
            match self.stream.take_error() {
                Ok(()) => {
                    self.connected = true;
                    core.link_up(now, self.id);
                }
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.read(core, now, scratch)?;
        self.write(core)
    }

    fn read(&mut self, core: &mut WorkerCore, now: Now, scratch: &mut [u8]) -> io::Result<()> {
        loop {
            match self.input.fill(&mut self.stream, scratch) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    let consumed = core.link_input(now, self.id, self.input.as_slice());
                    self.input.consume(consumed);
                    if count < scratch.len() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn write(&mut self, core: &mut WorkerCore) -> io::Result<()> {
        let Some(out) = core.link_out(self.id) else {
            return Ok(());
        };
        let mut written = 0;
        let result = loop {
            if written == out.len() {
                break Ok(());
            }
            match self.stream.write(&out[written..]) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        out.drain(..written);
        result
    }
}
