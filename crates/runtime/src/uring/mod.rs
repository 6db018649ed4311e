//! Sockets by io_uring: the kernel is told what is wanted, and reports what has happened.
//!
//! With epoll a worker is told that a socket is ready and then asks for the bytes: a request costs a
//! `read` and a `write`, and each turn of the loop an `epoll_wait`. With a ring, receiving is asked for
//! once for each connection; from then on bytes come as completions. Whatever a turn wants to send is
//! handed over in the same system call that waits for the next completions. So a turn costs one system
//! call, however many requests it carried.
//!
//! ```text
//!   worker                      Ring                          kernel
//!   add, receive, send ──> entries of this turn ──┐
//!   wait ────────────────────────────────────────>├─ one io_uring_enter ──> sends, receives
//!   next <── Received, Sent, Ended, Failed <──────┴─ completions <────────┘     │
//!   bytes(piece) ──── reads where the kernel wrote ───────── receive buffers <──┘
//!   recycle(piece) ── gives the buffer back ───────────────────────^
//! ```
//!
//! **Who owns what.** While an operation is under way the kernel may touch its memory, so the ring owns
//! that memory: received bytes lie in the ring's own buffers (`ReceiveBuffers`) and are lent
//! out as [`Piece`]s until they are recycled; bytes to be sent are moved into the ring and stay there
//! until their completion. A socket, too, belongs to the ring and is closed only when none of its
//! operations is under way. All `unsafe` is in `buffers` and in one function of `ring`.
//!
//! **Rejected.** Receives without provided buffers need a buffer for each idle connection. Zero-copy
//! sends cost a second completion each, which pays from some tens of KiB on. A kernel thread that polls
//! the submissions (`SQPOLL`) burns a core. An asynchronous runtime over io_uring would bring a second
//! model of execution; the ones that exist are hardly maintained.

mod buffers;
mod ring;
mod setup;
mod socket;
#[cfg(test)]
mod tests;

pub use buffers::Piece;
pub use ring::{Ring, RingStats};
pub use setup::{Refused, RingConfig};
pub use socket::{Event, Socket, Urgency};
