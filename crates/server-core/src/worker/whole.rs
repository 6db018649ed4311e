//! Commands about the whole server: every worker does its share, and the one whose connection asked adds the
//! shares up.

use crate::mesh::handed_over::{FlushGiven, FlushHop};
use crate::mesh::message::Task;
use crate::session::Session;
use crate::session::address::ReturnAddress;
use crate::session::listing::list_share;
use crate::shard::share::Share;
use crate::shard::time::TimeBase;
use crate::stats::{self, lists};
use crate::worker::core::WorkerCore;
use crate::worker::migration::flush_ends_migrations;
use evenkeel_protocol::text;
use evenkeel_types::Now;

/// Starts a command to which every worker contributes, this one at once.
pub(crate) fn whole(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    task: Task,
    noreply: bool,
) {
    let to = (!noreply).then(|| session.expect(core.config.workers));
    core.outbox.ask_shares(&mut core.engine.counters, to, task);
    let (to, task, share) = do_share(core, now, core.config.index, to, task);
    if let Some(to) = to {
        stats::add_share(&core.process.facts, now, session, to, task, share);
    }
}

/// Does this worker's share of a command about the whole server, of a connection at worker `asker`. Gives
/// back whom to answer, unless that must wait, the task as it is to go on (a list says where it has come to), and the share.
pub(crate) fn do_share(
    core: &mut WorkerCore,
    now: Now,
    asker: u16,
    to: Option<ReturnAddress>,
    task: Task,
) -> (Option<ReturnAddress>, Task, Share) {
    let mut lines = Vec::new();
    let share = match task {
        Task::List(step) => {
            let task = Task::List(list_share(&core.engine, step, now, &mut lines));
            return (to, task, Share::Lines(lines));
        }
        Task::Flush { at_s: None } => {
            flush(core, now);
            return (finish_flush(core, now, asker, to), task, Share::Done);
        }
        Task::Stats(_) => Share::Counters(Box::new(core.counts())),
        Task::Classes(_) => {
            Share::Classes(Box::new((core.engine.classes(now), core.engine.counts())))
        }
        Task::Prefixes => Share::Prefixes(core.observers.prefixes().clone()),
        Task::Connections => {
            (core.process).connection_lines(&core.connections, now, &mut lines);
            Share::Lines(lines)
        }
        Task::Lines(view) => {
            lists::lines(&core.engine, &core.hosting, view, now, &mut lines);
            Share::Lines(lines)
        }
        _ => {
            execute_task(core, now, task);
            Share::Done
        }
    };
    (to, task, share)
}

/// Executes a task of which nothing is told but that it was done.
pub(crate) fn execute_task(core: &mut WorkerCore, now: Now, task: Task) {
    match task {
        Task::Detail(on) => core.observers.set_detail(on),
        Task::Watch {
            worker: of,
            streams,
            watchers,
        } => (core.observers).take_watched(&mut core.engine.store, of, streams, watchers),
        Task::Verbosity(level) => core.process.verbosity = Some(level),
        Task::DebugTime(change) => core.debug_clock.change(change),
        Task::Flush { at_s } => core.flush_at = at_s,
        Task::ResetStats => {
            core.engine.reset_counts(now);
            core.observers.reset();
            core.process.reset();
        }
        Task::List(_)
        | Task::Stats(_)
        | Task::Classes(_)
        | Task::Prefixes
        | Task::Connections
        | Task::Lines(_) => {}
    }
}

/// Executes `flush_all`, at once or later.
pub(crate) fn flush_all(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    delay: Option<i64>,
    noreply: bool,
) {
    if !core.config.allow_flush {
        return reply(session, text::FLUSH_NOT_ALLOWED, noreply);
    }
    core.engine.counters.cmd_flush += 1;
    let at_s = delay
        .filter(|delay| *delay > 0)
        .map(|delay| core.engine.time.expiry(now, delay))
        .filter(|at| *at > TimeBase::seconds(now));
    let task = Task::Flush { at_s };
    if session.agreed {
        // An agreed client says it to every worker itself. A worker that passed it on would flush
        // the others a second time, and with that what the client stored there meanwhile.
        let flush_hops = (core.hosting.handovers).flush_hops(now.monotonic, core.config.index);
        let is_far = at_s.is_none() && !flush_hops.is_empty();
        let to = (is_far && !noreply).then(|| session.expect(1));
        do_share(core, now, core.config.index, to, task);
        if to.is_some() {
            return;
        }
        let before = session.sink().len();
        reply(session, text::OK, noreply);
        if at_s.is_none() && core.engine.hot.is_careful() {
            core.held.hold_for_all(&mut core.engine, session, before);
        }
        return;
    }
    whole(core, now, session, task, noreply);
}

/// Deletes what is here.
pub(crate) fn flush(core: &mut WorkerCore, now: Now) {
    core.engine.flush(now);
    flush_ends_migrations(core, now);
}

/// This worker has done its share in a `flush_all`. Gives the address back if that can be answered at once;
/// otherwise it is answered later, by anyone who is the last to be done. `asker` is the worker at which
/// somebody waits.
pub(crate) fn finish_flush(
    core: &mut WorkerCore,
    now: Now,
    asker: u16,
    to: Option<ReturnAddress>,
) -> Option<ReturnAddress> {
    let flush_hops = (core.hosting.handovers).flush_hops(now.monotonic, core.config.index);
    let flush = FlushGiven {
        cachelets: Vec::new(),
        flush_hops,
        asker,
        to,
    };
    let flush = core.held.hold_flush(&mut core.engine, flush)?;
    if flush.flush_hops.is_empty() {
        return flush.to;
    }
    core.outbox.pass_flush_on(&mut core.connections, flush);
    None
}

/// Another worker has flushed what it holds, and gave these away before.
pub(crate) fn take_flush_given(core: &mut WorkerCore, now: Now, mut flush: FlushGiven) {
    let me = core.config.index;
    for cachelet in core::mem::take(&mut flush.cachelets) {
        match core.hosting.handovers.host_elsewhere(cachelet, me) {
            Some(host) => flush.flush_hops.push(FlushHop {
                by: me,
                host,
                cachelets: vec![cachelet],
            }),
            None => {
                core.engine.store.flush_cachelet(cachelet);
            }
        }
    }
    core.engine.flushed(now);
    flush_ends_migrations(core, now);
    if let Some(flush) = core.held.hold_flush(&mut core.engine, flush) {
        core.outbox.pass_flush_on(&mut core.connections, flush);
    }
}

fn reply(session: &mut Session, bytes: &[u8], noreply: bool) {
    if !noreply {
        session.say(bytes);
    }
}
