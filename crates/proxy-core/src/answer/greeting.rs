//! A server says who it is.

use crate::ids::BackendId;
use crate::limits::{LEASE_MAX, MOVE_PAUSE};
use crate::pipe::backend::{Link, Peer};
use crate::pipe::capability::Capability;
use crate::pipe::health::{Sign, TRIAL_PAUSE};
use crate::pipe::room::{NoAnswer, Room};
use crate::show::Unfit;
use crate::under_way::catch_up::catch_up;
use crate::under_way::era::health_changed;
use crate::worker::ProxyCore;
use core::mem;
use core::time::Duration;
use evenkeel_protocol::{Hello, Reply};
use evenkeel_schemes::mark;
use evenkeel_types::{Epoch, Instant};

/// The peer said who it is.
pub(crate) fn greeted(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    reply: &Reply<'_>,
) -> Result<(), Unfit> {
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    match (backend.peer, reply) {
        // A server that has just been started: it knows neither its id nor what it owns.
        (Peer::Worker(_), Reply::Hello(hello)) if hello.epoch == Epoch(0) => {
            let until = now + MOVE_PAUSE;
            backend.link = Link::Unready { until };
            core.outbox.due_at(until);
            return Ok(());
        }
        (Peer::Worker(worker), Reply::Hello(hello))
            if hello.version == Hello::VERSION && hello.worker == worker =>
        {
            backend.lease = Duration::from_millis(hello.lease_ms).min(LEASE_MAX);
            let pool = backend.pool;
            core.pools.want_map(&mut core.outbox, pool, hello.epoch);
        }
        (Peer::Memcached, reply) if backend.awaits_login() => {
            if *reply == Reply::Stored {
                backend.is_known();
                return Ok(());
            }
            backend.counters.logins_refused += 1;
            return Err(Unfit);
        }
        (Peer::Memcached, reply) if backend.awaits_trial() => {
            if mark::passes_trial(reply) {
                backend.holds_marks();
                return Ok(());
            }
            backend.counters.marks_refused += 1;
            return Err(Unfit);
        }
        (Peer::Memcached, reply) if backend.room.as_ref().is_some_and(Room::is_asked) => {
            let room = backend.room.as_mut().ok_or(Unfit)?;
            return room.handle(reply).map_err(|NoAnswer| Unfit);
        }
        // What does not know `version` has at least answered in the protocol.
        (Peer::Memcached, Reply::Version(_) | Reply::Error) => {
            learn_capability(core, id, reply)?;
        }
        _ => return Err(Unfit),
    }
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    let has_changed = backend.health.see(now, Sign::Greeted);
    if !backend.health.is_in_use() {
        let until = now + TRIAL_PAUSE;
        backend.link = Link::Unready { until };
        core.outbox.due_at(until);
        return Ok(());
    }
    backend.agreed();
    if has_changed {
        health_changed(core, id);
    }
    // Before anything else is asked.
    catch_up(core, now, id);
    core.backends.write(&mut core.outbox, id);
    Ok(())
}

/// A server has answered the greeting.
fn learn_capability(core: &mut ProxyCore, id: BackendId, reply: &Reply<'_>) -> Result<(), Unfit> {
    let capability = match reply {
        Reply::Version(words) => Capability::of_version(words),
        _ => Capability::Classic,
    };
    let Some(backend) = core.backends.get_mut(id) else {
        return Ok(());
    };
    let before = mem::replace(&mut backend.capability, capability);
    // It would not understand what is queued for its predecessor.
    let is_lost =
        before == Capability::Meta && capability != before && backend.queued_requests() > 0;
    core.clients.handle_waiting(&mut core.outbox);
    if is_lost { Err(Unfit) } else { Ok(()) }
}
