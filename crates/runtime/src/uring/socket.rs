//! What a socket of the ring has under way, and how the user data of an operation names it.
//!
//! A socket has at most two operations under way: one receive, which goes on until it is stopped
//! (`multishot`), and one send. Each names its socket's place and generation, so that a completion can
//! never be taken for one of the place's next holder.
//!
//! | receiving | when | becomes |
//! |---|---|---|
//! | `Off` | it is wanted | `Lapsed` |
//! | `Lapsed` | the next wait hands it over | `On` |
//! | `Lapsed` | it is not wanted any more | `Off` |
//! | `On` | it ended for a reason that passes, such as no free buffer | `Lapsed` |
//! | `On` | it is not wanted any more: it is cancelled | `Stopping` |
//! | `Stopping` | it is wanted after all, or not | `Stopping`, with `again` or without |
//! | `Stopping` | it ended | `Lapsed` with `again`, else `Off` |
//! | `On`, `Stopping` | the peer ended, or the socket failed | `Off` |

use super::buffers::Piece;
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

/// Names a socket of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    pub(super) place: u32,
    pub(super) generation: u32,
}

/// Whether somebody waits to hear that a send has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Nothing depends on it: [`Ring::wait`](super::Ring::wait) need not return for its sake.
    Whenever,
    /// The next step depends on it: a close, or further output.
    AtOnce,
}

/// What has happened.
#[derive(Debug)]
pub enum Event {
    /// Bytes have come. Look at them with [`Ring::bytes`](super::Ring::bytes), then [`Ring::recycle`](super::Ring::recycle) them.
    Received {
        /// The socket's tag.
        tag: u32,
        /// Where they are.
        piece: Piece,
    },
    /// The peer sends no more.
    Ended {
        /// The socket's tag.
        tag: u32,
    },
    /// The socket is of no more use.
    Failed {
        /// The socket's tag.
        tag: u32,
        /// Why.
        error: io::Error,
    },
    /// Some of what was to be sent has been taken by the kernel.
    Sent {
        /// The socket's tag.
        tag: u32,
        /// How many bytes.
        bytes: usize,
        /// Nothing is left of it: more may be sent.
        done: bool,
    },
}

impl Event {
    /// The tag of the socket that it concerns.
    pub fn tag(&self) -> u32 {
        match self {
            Event::Received { tag, .. }
            | Event::Ended { tag }
            | Event::Failed { tag, .. }
            | Event::Sent { tag, .. } => *tag,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    /// None under way, and none wanted.
    Off,
    /// Under way.
    On,
    /// None under way, but wanted: it is asked for in the next wait.
    Lapsed,
    /// Being cancelled; its last completion is awaited.
    Stopping { again: bool },
}

#[derive(Debug)]
pub(super) struct Sending {
    /// Invariant: not touched while the send is under way; `sent < bytes.len()`.
    pub(super) bytes: Vec<u8>,
    pub(super) sent: usize,
}

#[derive(Debug)]
pub(super) struct Place {
    /// How many holders it had, modulo 2^29.
    pub(super) generation: u32,
    /// `None` while the place is free.
    pub(super) holder: Option<Holder>,
}

#[derive(Debug)]
pub(super) struct Holder {
    pub(super) descriptor: OwnedFd,
    pub(super) tag: u32,
    pub(super) receiving: Receiving,
    pub(super) sending: Option<Sending>,
    /// No event is reported any more; it goes once nothing is under way.
    pub(super) closing: bool,
}

/// What a completion is of: the top three bits of its user data. The generation, modulo 2^29, and the
/// place of the socket follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Receive,
    Send,
    Cancel,
    Watch,
}

const KINDS: [Kind; 4] = [Kind::Receive, Kind::Send, Kind::Cancel, Kind::Watch];
const KIND_SHIFT: u32 = 61;
const GENERATION_SHIFT: u32 = 32;
pub(super) const GENERATION_MASK: u32 = (1 << (KIND_SHIFT - GENERATION_SHIFT)) - 1;

/// In the user data of operations that belong to no socket.
pub(super) const NOBODY: Socket = Socket {
    place: 0,
    generation: 0,
};

pub(super) fn user_data(kind: Kind, socket: Socket) -> u64 {
    let generation = u64::from(socket.generation) << GENERATION_SHIFT;
    (kind as u64) << KIND_SHIFT | generation | u64::from(socket.place)
}

pub(super) fn parse_user_data(data: u64) -> (Kind, Socket) {
    let kind = KINDS[(data >> KIND_SHIFT) as usize];
    let generation = (data >> GENERATION_SHIFT) as u32 & GENERATION_MASK;
    let place = data as u32;
    (kind, Socket { place, generation })
}

/// A completion's result: a count, or the negative number of an error.
pub(super) fn outcome(result: i32) -> Result<u32, Errno> {
    u32::try_from(result).map_err(|_| Errno::from_raw_os_error(result.wrapping_neg()))
}
