//! Making a ring, and saying why it cannot be made.

use super::buffers::{GROUP, ReceiveBuffers};
use io_uring::IoUring;
use rustix::io::Errno;
use std::fmt;
use std::io;

/// Sizes of a ring.
#[derive(Clone, Copy, Debug)]
pub struct RingConfig {
    /// Operations that one system call may hand over, a power of two. More are handed over in several.
    pub entries: u32,
    /// Receive buffers, a power of two up to 32,768; shared by all sockets of the ring.
    pub receive_buffers: u16,
    /// Bytes of a receive buffer: the most that one [`Event::Received`](super::Event) brings.
    pub receive_bytes: u32,
}

impl Default for RingConfig {
    /// 4 MiB of receive buffers, of which only what is used becomes resident. A request rarely needs
    /// more than one buffer, and a buffer is in use only from a completion until the worker has looked
    /// at it; 256 of them cover a busy turn, and a turn that needs more asks again.
    fn default() -> Self {
        RingConfig {
            entries: 1024,
            receive_buffers: 256,
            receive_bytes: 16 * 1024,
        }
    }
}

/// Completions that the kernel keeps in the shared queue, for each submission. A multishot receive
/// completes more than once; what does not fit waits in the kernel.
const COMPLETIONS_PER_ENTRY: u32 = 4;

/// Why there is no ring.
#[derive(Debug)]
pub struct Refused(io::Error);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.errno() {
            Some(Errno::NOSYS) => "the kernel has none",
            Some(Errno::PERM | Errno::ACCESS) => {
                "this process may not use it (sysctl kernel.io_uring_disabled, or a seccomp filter, \
                 such as a container's)"
            }
            Some(Errno::INVAL) => "the kernel's is too old; it must be 6.0 or later",
            Some(Errno::NOMEM) => "not enough memory may be locked (ulimit -l)",
            Some(Errno::MFILE | Errno::NFILE) => "too many files are open (ulimit -n)",
            _ => return write!(f, "io_uring is not available: {}", self.0),
        };
        write!(f, "io_uring is not available: {why}: {}", self.0)
    }
}

impl std::error::Error for Refused {}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Refused(error)
    }
}

impl Refused {
    fn errno(&self) -> Option<Errno> {
        Errno::from_io_error(&self.0)
    }
}

/// Makes the kernel's side, disabled until the thread that will use it enables it, and the receive
/// buffers.
pub(super) fn make(config: RingConfig) -> Result<(IoUring, ReceiveBuffers), Refused> {
    let ring = build(config, true).or_else(|error| {
        // Deferred task work came with 6.1, one version after multishot receives.
        if Errno::from_io_error(&error) == Some(Errno::INVAL) {
            build(config, false)
        } else {
            Err(error)
        }
    })?;
    let buffers = ReceiveBuffers::new(config.receive_buffers, config.receive_bytes);
    buffers.register(&ring.submitter())?;
    Ok((ring, buffers))
}

/// One thread submits (`SINGLE_ISSUER`, Linux 6.0, which also brought multishot receives), and work
/// that completions need is done when that thread waits, not whenever the kernel finds an occasion
/// (`DEFER_TASKRUN`), or at least without interrupting it (`COOP_TASKRUN`).
fn build(config: RingConfig, deferred: bool) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder
        .setup_r_disabled()
        .setup_single_issuer()
        .setup_submit_all()
        .setup_taskrun_flag()
        .setup_cqsize(config.entries * COMPLETIONS_PER_ENTRY)
        .dontfork();
    if deferred {
        builder.setup_defer_taskrun();
    } else {
        builder.setup_coop_taskrun();
    }
    builder.build(config.entries)
}

/// Takes the receive buffers from the kernel, before their memory goes.
pub(super) fn unmake(ring: &IoUring) -> io::Result<()> {
    ring.submitter().unregister_buf_ring(GROUP)
}
