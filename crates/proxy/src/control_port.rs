//! The port by which a coordinator finds out that the process has ended.
//!
//! It is open for as long as the process lives, beyond the last answer to an application and the goodbye to the coordinator: anyone who is refused
//! there knows that nothing of the process is left. Who connects is told which process it is, and no more.

use std::io::{self, Write};
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use evenkeel_control::control_line;
use evenkeel_runtime::{EXHAUSTED_PAUSE, spawn_named};
use evenkeel_types::BootId;

/// The port's number, once it is open.
#[derive(Clone, Debug, Default)]
pub struct ControlPort(Arc<AtomicU16>);

impl ControlPort {
    /// 0 before it is open.
    pub fn number(&self) -> u16 {
        self.0.load(Ordering::Relaxed)
    }

    /// Opens it at a free port of this address, unless it is open. It is never closed.
    ///
    /// # Errors
    /// The address cannot be listened on, or there is no thread.
    pub fn open(&self, at: IpAddr, boot: BootId) -> io::Result<()> {
        if self.number() != 0 {
            return Ok(());
        }
        let listener = TcpListener::bind((at, 0))?;
        let port = listener.local_addr()?.port();
        let line = control_line(boot);
        spawn_named("control-port".into(), move || {
            answer_forever(&listener, &line)
        })?;
        self.0.store(port, Ordering::Relaxed);
        Ok(())
    }
}

#[allow(clippy::disallowed_methods, reason = "on a thread for what waits")]
fn answer_forever(listener: &TcpListener, line: &str) {
    for stream in listener.incoming() {
        match stream {
            // The line fits into any socket's memory. Who is gone already needs no answer.
            Ok(mut stream) => drop(stream.write_all(line.as_bytes())),
            Err(_) => std::thread::park_timeout(EXHAUSTED_PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_control::boot_of;
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpStream};

    #[test]
    fn whoever_connects_is_told_which_process_it_is() {
        let port = ControlPort::default();
        assert_eq!(port.number(), 0);
        for _ in 0..2 {
            port.open(Ipv4Addr::LOCALHOST.into(), BootId(7)).unwrap();
            let number = port.number();
            assert_ne!(number, 0);
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, number)).unwrap();
            let mut line = Vec::new();
            stream.read_to_end(&mut line).unwrap();
            assert_eq!(boot_of(&line), Some(BootId(7)));
        }
    }
}
