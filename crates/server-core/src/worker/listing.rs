//! Goes on with the [lists](crate::session::listing) of connections, at whichever worker the items are.

use crate::mesh::message::Task;
use crate::session::Session;
use crate::session::listing::{ListForm, ListStep, Listing, START, list_share};
use crate::shard::share::Share;
use crate::stats;
use crate::worker::core::WorkerCore;
use evenkeel_protocol::admin::{Classes, DumpForm};
use evenkeel_protocol::compose::answer::stat_number;
use evenkeel_protocol::text;
use evenkeel_types::Now;
use std::collections::BTreeMap;

/// Steps of one connection in a turn.
const STEPS_PER_TURN: usize = 4;

/// `stats cachedump` ends here, as in memcached, in bytes.
const CACHEDUMP_BYTES_MAX: usize = 2 << 20;

/// Goes on with a connection's list, or begins it. False when there is more to come.
pub(crate) fn list(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    form: ListForm,
    classes: Classes,
    limit: u64,
) -> bool {
    if session.list.is_none() {
        if matches!(form, ListForm::Dump(_)) {
            session.say(text::OK);
        }
        let step = ListStep {
            form,
            classes,
            left: limit,
            worker: 0,
            at: START,
        };
        session.list = Some(Box::new(Listing {
            step,
            bytes: 0,
            sizes: BTreeMap::new(),
        }));
    }
    for _ in 0..STEPS_PER_TURN {
        if session.is_paused() || core.outbox.is_full() {
            return false;
        }
        let Some(listing) = session.list.as_deref_mut() else {
            return true;
        };
        let step = &mut listing.step;
        if step.at.is_none() {
            step.worker += 1;
            step.at = START;
        }
        let cut = form == ListForm::Cachedump && listing.bytes >= CACHEDUMP_BYTES_MAX;
        if step.worker >= core.config.workers || step.left == 0 || cut {
            finish(session);
            return true;
        }
        let step = *step;
        let to = session.expect(1);
        if step.worker == core.config.index {
            let mut bytes = Vec::new();
            let task = Task::List(list_share(&core.engine, step, now, &mut bytes));
            stats::add_share(
                &core.process.facts,
                now,
                session,
                to,
                task,
                Share::Lines(bytes),
            );
        } else {
            session.hold();
            let task = Task::List(step);
            (core.outbox).ask_share(&mut core.engine.counters, step.worker, Some(to), task);
            return false;
        }
    }
    false
}

fn finish(session: &mut Session) {
    let Some(listing) = session.list.take() else {
        return;
    };
    let out = session.sink();
    for (size, count) in &listing.sizes {
        stat_number(out, size.to_string().as_bytes(), *count);
    }
    out.extend_from_slice(match listing.step.form {
        ListForm::Dump(DumpForm::MetaGet) => text::META_MISS,
        _ => text::END,
    });
}
