//! What a server knows of its lease, and whom it asks for votes.

use super::connection::ConnectionNumber;
use crate::history::Nanos;
use evenkeel_server_core::LeaseKeeper;
use evenkeel_types::{BootId, ServerId};
use std::collections::{BTreeMap, VecDeque};

/// What a server's life has to do with leases.
#[derive(Debug)]
pub(super) struct Leases {
    pub keeper: LeaseKeeper,
    pub peers: BTreeMap<ServerId, Peer>,
    /// It will be stopped in its next turn, for this long.
    pub stop_in_turn: Option<Nanos>,
    /// When the turn began that goes on now, if it was stopped in it.
    pub read: Option<Nanos>,
}

/// A connection to another server, over which it is asked for its votes.
#[derive(Debug)]
pub(super) struct Peer {
    pub connection: ConnectionNumber,
    pub stands: bool,
    /// Waits for the connection to stand.
    pub out: Vec<u8>,
    /// Rounds in which it was asked and has not answered.
    pub asked: VecDeque<u64>,
}

impl Leases {
    pub fn new(boot: BootId) -> Self {
        Leases {
            keeper: LeaseKeeper::new(boot),
            peers: BTreeMap::new(),
            stop_in_turn: None,
            read: None,
        }
    }

    /// When the clock was read by which the present turn goes.
    pub fn read(&self, now: Nanos) -> Nanos {
        self.read.unwrap_or(now)
    }
}
