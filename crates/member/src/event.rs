//! What a program is told that is a member.

use evenkeel_control::{ClusterLoad, PoolStep};
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_coordinator_core::Settings;
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{Epoch, ServerId};

/// What the program is told, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum MemberEvent {
    /// A server has its id. Again only if the id changes.
    Registered {
        /// The id.
        server_id: ServerId,
    },
    /// A map newer than all before.
    Map(Arc<ClusterMap>),
    /// What the cluster's workers carry, when it has changed.
    ClusterLoad(ClusterLoad),
    /// The operator's choices: at first, and when they have changed.
    Settings(Settings),
    /// Whether the coordinator moves cachelets between servers by itself: at first, and when that has changed.
    Balances(bool),
    /// A newer step of the change of a pool that a proxy follows: told before the next heartbeat is reported.
    Step(PoolStep),
    /// A heartbeat was answered, whatever is new. A server is told so after what is new, by which it may serve. A proxy is told so before, since it
    /// must not work by a step without knowing when it was heard.
    Answered {
        /// When the heartbeat was sent.
        sent: Instant,
        /// Epoch of the coordinator's map.
        epoch: Epoch,
        /// How long the server may serve from then on. Absent where the coordinator knows nothing of leases.
        lease: Option<Duration>,
    },
    /// A server that is ending need not wait any more. Told once.
    MayEnd,
    /// No coordinator has answered for a while. Go on with what you have.
    Lost {
        /// Each that was asked, and what came of it.
        why: String,
        /// Whether any has answered before.
        has_answered: bool,
    },
    /// A coordinator has answered: the first time, and after [`Lost`](Self::Lost).
    Found,
    /// The name belongs to another process, or was forgotten: this process can do nothing here any more. Told once.
    NameLost {
        /// One line for people.
        message: String,
    },
    /// The coordinator refuses this member, or its answers make no sense. Told once for each reason
    /// in a row; the thread keeps trying.
    Refused {
        /// One of the API's words.
        reason: String,
        /// One line for people.
        message: String,
    },
}
