//! `watch`: connections that read what happens, at whichever worker it does.

use crate::mesh::message::{Message, Task};
use crate::observe::{Lines, Observers};
use crate::session::{ConnectionId, Session};
use crate::worker::core::WorkerCore;
use crate::worker::whole::{execute_task, whole};
use evenkeel_protocol::{admin, text};
use evenkeel_types::Now;

/// Executes `watch`. From then on the connection is told what happens, and what it says is
/// not listened to.
pub(crate) fn watch(core: &mut WorkerCore, now: Now, session: &mut Session, arguments: &[u8]) {
    if !core.config.admin.watch {
        return session.say(text::WATCH_NOT_ALLOWED);
    }
    let Some(streams) = admin::watch(arguments) else {
        return session.say(text::ERROR);
    };
    if !core.observers.have_room() {
        return session.say(text::TOO_MANY_WATCHERS);
    }
    core.observers.add_watcher(session.id, streams);
    session.swallow = usize::MAX;
    session.watching = true;
    let task = watch_task(&core.observers, core.config.index);
    whole(core, now, session, task, false);
}

/// A connection is over; if it watched, all workers are told.
pub(crate) fn forget_watcher(core: &mut WorkerCore, id: ConnectionId) {
    if !core.observers.forget_watcher(id) {
        return;
    }
    let task = watch_task(&core.observers, core.config.index);
    (core.outbox).ask_shares(&mut core.engine.counters, None, task);
    execute_task(core, core.now, task);
}

/// Sends lines that have gathered to the watchers of all workers.
pub(crate) fn send_lines(core: &mut WorkerCore) {
    let me = core.config.index;
    (core.observers).gather_evictions(&mut core.engine.store, core.now);
    for to in 0..core.config.workers {
        let Some(lines) = core.observers.take_lines(to) else {
            continue;
        };
        if to == me {
            core.observers.lines_taken(me);
            write_to_watchers(core, &lines);
        } else {
            core.outbox.push(to, Message::Log(lines));
        }
    }
}

/// Writes lines to the watchers of this worker, as far as they read.
pub(crate) fn write_to_watchers(core: &mut WorkerCore, lines: &Lines) {
    let counters = &mut core.engine.counters;
    (core.observers).write_to_watchers(&mut core.connections, counters, lines);
}

/// What the watchers of worker `me` want now.
fn watch_task(observers: &Observers, me: u16) -> Task {
    Task::Watch {
        worker: me,
        streams: observers.wanted_here(),
        // At most `WATCHERS_MAX`.
        watchers: observers.watchers_here() as u16,
    }
}
