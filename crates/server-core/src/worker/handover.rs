//! Takes [handovers](crate::ownership::handovers), and looks then whether the cachelet is to go on to another server.

use crate::mesh::handed_over::{Follow, Handover};
use crate::worker::core::WorkerCore;
use crate::worker::migration::find_migrations;
use core::time::Duration;
use evenkeel_types::Now;

/// What connections of this server should wait for a move at most: see
/// [`Counters::cachelet_waits_short`](crate::Counters::cachelet_waits_short).
const SHORT_WAIT: Duration = Duration::from_micros(100);

/// A cachelet comes from another worker.
pub(crate) fn take_handover(core: &mut WorkerCore, now: Now, from: u16, handover: Box<Handover>) {
    let (engine, outbox) = (&mut core.engine, &mut core.outbox);
    if (core.hosting).take_handover(engine, outbox, now, from, handover) {
        find_migrations(core, now);
    }
}

/// Takes what came too early for the former placement.
pub(crate) fn take_early(core: &mut WorkerCore, now: Now) {
    for (from, handover) in core::mem::take(&mut core.hosting.handovers.early_handovers) {
        take_handover(core, now, from, handover);
    }
    for hosted in core::mem::take(&mut core.hosting.handovers.early) {
        (core.hosting).take_hosted(&mut core.outbox, now, hosted);
    }
    (core.hosting.handovers).wake(&mut core.connections);
}

/// Nothing of the asker's comes by a cachelet's former host any more.
pub(crate) fn take_follow(core: &mut WorkerCore, now: Now, follow: Follow) {
    if core.hosting.take_follow(&mut core.outbox, follow) {
        take_followed(core, now, follow);
    }
}

/// The commands of this worker's connections can go to a cachelet's new host.
pub(crate) fn take_followed(core: &mut WorkerCore, now: Now, follow: Follow) {
    if let Some(waited) = (core.hosting).take_followed(&mut core.outbox, now, follow) {
        let counters = &mut core.engine.counters;
        counters.cachelet_waits += 1;
        counters.cachelet_waits_short += u64::from(waited <= SHORT_WAIT);
        counters.cachelet_waits_us += u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        core.hosting.handovers.wake(&mut core.connections);
    }
}
