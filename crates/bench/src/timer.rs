//! A timer of the kernel that wakes an event loop to the microsecond: the poll's own timeout counts
//! milliseconds.

use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const NS_PER_S: u64 = 1_000_000_000;

/// A kernel timer.
#[derive(Debug)]
pub(crate) struct Timer {
    fd: OwnedFd,
    armed_ns: u64,
}

impl Timer {
    /// Its expiry is an event of `token`.
    pub(crate) fn new(poll: &Poll, token: Token) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Edge-triggered, and setting it again forgets an expiry: it need not be read.
        poll.registry()
            .register(&mut SourceFd(&fd.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Timer { fd, armed_ns: 0 })
    }

    /// Wakes the loop at `due_ns`, which is after `now_ns`.
    pub(crate) fn arm(&mut self, due_ns: u64, now_ns: u64) -> io::Result<()> {
        if due_ns != self.armed_ns {
            let gap = due_ns - now_ns;
            let it_value = Timespec {
                tv_sec: (gap / NS_PER_S) as i64,
                tv_nsec: (gap % NS_PER_S) as _,
            };
            let never = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let spec = Itimerspec {
                it_interval: never,
                it_value,
            };
            timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &spec)?;
            self.armed_ns = due_ns;
        }
        Ok(())
    }
}
