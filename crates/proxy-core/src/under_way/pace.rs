//! Applications that write more than a server takes are slowed down to what it takes.
//!
//! A write that is refused leaves an old value, or a cache that is filled in part. So anyone who fills a cache at full speed is not read from,
//! once a write of its waits behind more than its server does in a part of the request timeout ([`PACE_DIVISOR`]): what it sends meanwhile stays in
//! its socket. It is read from again when less waits, at the latest when that write is answered.
//!
//! By the first of both, because connections would else all wait for the slowest server, one queue long, and the others would have nothing to do.
//! What waits for a server is at most what it does in that time, and a write of each connection.

use crate::ids::{BackendId, ClientId};
use crate::under_way::say::resume;
use crate::worker::ProxyCore;
use evenkeel_types::Instant;

/// An application has asked a server for a write.
pub(crate) fn pace(core: &mut ProxyCore, now: Instant, to: BackendId, id: ClientId, slot: u64) {
    let backend = core.backends.get_mut(to);
    let Some(backend) = backend.filter(|backend| backend.is_far_behind(now)) else {
        return;
    };
    let Some(client) = core.clients.get_mut(id) else {
        return;
    };
    client.paced_by = Some(slot);
    let clients = &core.clients;
    let waits = |id, slot| {
        let client = clients.get(id);
        client.is_some_and(|client| client.is_paced_by(slot))
    };
    backend.paced.push((id, slot), waits);
}

/// A server has answered: applications are read from again if less waits.
pub(crate) fn unpace(core: &mut ProxyCore, now: Instant, of: BackendId) {
    let Some(backend) = core.backends.get_mut(of) else {
        return;
    };
    if backend.paced.is_empty() || backend.is_far_behind(now) {
        return;
    }
    for (id, slot) in backend.paced.take() {
        if let Some(client) = core.clients.get_mut(id)
            && client.is_paced_by(slot)
        {
            client.paced_by = None;
            resume(core, id);
        }
    }
}
