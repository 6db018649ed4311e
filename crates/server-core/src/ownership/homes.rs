//! The connections over which homes of other servers send replicas, and orders by a map that this server has not been
//! told yet.
//!
//! # Idea
//!
//! A shadow refuses what was sent by an older map than anything it has heard (`replicas.rs`). So an epoch that is taken from
//! anyone who names it would be a switch: one order by a map of the far future, and no home's replicas are taken any more. And an
//! order that is executed without its epoch being taken would let an older home's come after it.
//!
//! So an epoch above that of the server's own map is a hint, and no more. Its order waits in its connection, with all behind it,
//! as if it were still on its way, and the server asks its coordinator for the map. Once that map is here, the order is
//! executed. Of a map that never comes, nothing else has been changed; the connection is closed as one that
//! makes no progress.
//!
//! To refuse the order at once was rejected: each map reaches some homes before their shadows, and each of their hot keys would
//! lose its replicas for it.

use crate::session::ConnectionId;
use crate::session::connections::Connections;
use core::time::Duration;
use evenkeel_types::{Instant, WorkerRef};
use std::collections::{BTreeMap, BTreeSet};

/// The coordinator is asked again after this long at the earliest, no matter who names whatever epoch: ten times a second, where heartbeats come
/// twice, and so seldom that strangers cannot make a burden of it.
const ASK_PAUSE: Duration = Duration::from_millis(100);

/// The homes that send replicas here.
#[derive(Debug, Default)]
pub(crate) struct Homes {
    /// The newest connection of each.
    links: BTreeMap<WorkerRef, ConnectionId>,
    /// Connections whose next order waits for a newer map.
    waiting: BTreeSet<ConnectionId>,
    /// When the coordinator was last asked for that.
    asked: Option<Instant>,
}

impl Homes {
    /// A connection says hello, as the link of `home` if it is one. A home's newest link ends its older ones: what they
    /// still hold unread must not arrive after what the newer one brings. A connection is the link of one home, the
    /// last that it says, so that there are no more of them than connections.
    pub(crate) fn hello(
        &mut self,
        connections: &mut Connections,
        id: ConnectionId,
        home: Option<WorkerRef>,
    ) {
        self.links.retain(|_, link| *link != id);
        let older = home.and_then(|home| self.links.insert(home, id));
        if let Some(older) = older {
            connections.deliver(older, |session| session.closing = true);
        }
    }

    /// The connection's next order waits. False if it did already.
    pub(crate) fn wait(&mut self, id: ConnectionId) -> bool {
        self.waiting.insert(id)
    }

    /// Whether the coordinator is to be asked for a newer map now, which counts as asked.
    pub(crate) fn may_ask(&mut self, now: Instant) -> bool {
        let may = self.asked.is_none_or(|at| now.since(at) >= ASK_PAUSE);
        if may {
            self.asked = Some(now);
        }
        may
    }

    /// There is another map: what waited for one is shown again.
    pub(crate) fn wake(&mut self, connections: &mut Connections) {
        for id in core::mem::take(&mut self.waiting) {
            connections.touch(id);
        }
    }

    /// Whether the connection's next order waits.
    pub(crate) fn has_waiting(&self, id: ConnectionId) -> bool {
        self.waiting.contains(&id)
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.links.retain(|_, link| *link != id);
        self.waiting.remove(&id);
    }
}
