//! What is to happen, and to whom.

use super::connection::ConnectionNumber;
use super::fault_coverage::Trap;
use super::leading::Turn;
use crate::history::Nanos;
use evenkeel_coordinator_core::{Heartbeat, HeartbeatAnswer};
use evenkeel_server_core::{ConnectionId, Message, ServingLease};
use evenkeel_types::map::ClusterMap;
use std::sync::Arc;

/// Something that happens at a time.
#[derive(Debug)]
pub(super) enum Event {
    /// A request to connect reaches its host.
    Reach {
        connection: ConnectionNumber,
    },
    /// Something that an end has sent arrives.
    Arrive {
        connection: ConnectionNumber,
        from: usize,
    },
    Message {
        server: usize,
        life: u32,
        from: u16,
        to: u16,
        message: Message,
    },
    Map {
        server: usize,
        life: u32,
        worker: u16,
        map: Arc<ClusterMap>,
    },
    Timer {
        host: usize,
        life: u32,
    },
    Heartbeat {
        host: usize,
        life: u32,
        extra: bool,
    },
    Report {
        host: usize,
        life: u32,
        sent: Nanos,
        heartbeat: Box<Heartbeat>,
    },
    Answer {
        host: usize,
        life: u32,
        /// When its heartbeat was sent.
        sent: Nanos,
        answer: Box<HeartbeatAnswer>,
    },
    Lease {
        server: usize,
        life: u32,
        worker: u16,
        lease: ServingLease,
    },
    /// A turn goes on that was stopped when its clock had been read.
    GoOn {
        connection: ConnectionNumber,
        server: usize,
        life: u32,
        worker: u16,
        id: ConnectionId,
        read: Nanos,
    },
    Open {
        application: usize,
    },
    Act {
        application: usize,
    },
    Mishap,
    /// Something goes wrong with a cachelet in the middle of a change.
    StepFault(Trap),
    Restart {
        server: usize,
    },
    /// Something of a pool that is led to other servers.
    Led(Turn),
    HotKeysOn,
    /// Everything that is bounded is looked at.
    Look,
    /// No fault comes any more.
    Quiet,
    /// What the coordinator said when faults were over has reached everyone; what it says now has to at the end.
    Settle,
}
