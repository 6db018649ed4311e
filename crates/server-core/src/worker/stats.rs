//! The `stats` command: what follows it, and who answers.

use crate::mesh::message::{ClassesView, CountersView, LinesView, Task};
use crate::session::Session;
use crate::session::listing::ListForm;
use crate::worker::core::WorkerCore;
use crate::worker::listing::list;
use crate::worker::whole::whole;
use evenkeel_protocol::admin::Classes;
use evenkeel_protocol::auth::Dialect;
use evenkeel_protocol::compose::answer::stat;
use evenkeel_protocol::{stored_number, text};
use evenkeel_types::Now;

/// Numbers that `stats cachedump` does not refuse, as in memcached: 0 to 63.
const CACHEDUMP_CLASS_MAX: u64 = 63;

/// Executes `stats`. False when it must be shown again later.
pub(crate) fn stats(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    arguments: &[u8],
) -> bool {
    core.process.look_at_memory();
    let mut words = arguments
        .split(|&byte| byte == b' ')
        .filter(|w| !w.is_empty());
    let task = match words.next().unwrap_or_default() {
        b"" => Task::Stats(CountersView::General),
        b"evenkeel" => Task::Stats(CountersView::Evenkeel),
        b"items" => Task::Classes(ClassesView::Items),
        b"slabs" => Task::Classes(ClassesView::Slabs),
        b"hotkeys" => Task::Lines(LinesView::HotKeys),
        b"hotlog" => Task::Lines(LinesView::HotLog),
        b"replicas" => Task::Lines(LinesView::Replicas),
        b"cachelets" => Task::Lines(LinesView::Cachelets),
        b"conns" => {
            core.process.note_asking(now, session);
            Task::Connections
        }
        b"reset" => Task::ResetStats,
        b"settings" => {
            let promise = core.config.clustered.then(|| core.engine.hot.promise());
            let counts_prefixes = core.observers.counts_prefixes();
            let settings = core.process.settings(counts_prefixes, promise);
            session.say(&settings);
            return true;
        }
        b"detail" => match words.next() {
            Some(b"on") => Task::Detail(true),
            Some(b"off") => Task::Detail(false),
            Some(b"dump") => Task::Prefixes,
            _ => return say(session, text::DETAIL_USAGE),
        },
        b"sizes" if !core.config.admin.track_sizes => {
            stat(session.sink(), b"sizes_status", b"disabled");
            return say(session, text::END);
        }
        // A list is made in steps, which the binary protocol's answers have no place for.
        b"sizes" | b"cachedump" if session.dialect == Dialect::Binary => {
            return say(session, text::ERROR);
        }
        b"sizes" => {
            return list(core, now, session, ListForm::Sizes, Classes::ALL, u64::MAX);
        }
        b"cachedump" => return cachedump(core, now, session, words.next(), words.next()),
        // External storage, which is not here, has nothing to say.
        b"extstore" => return say(session, text::END),
        _ => return say(session, text::ERROR),
    };
    whole(core, now, session, task, false);
    true
}

fn cachedump(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    class: Option<&[u8]>,
    limit: Option<&[u8]>,
) -> bool {
    if !core.config.admin.dump {
        return say(session, text::CACHEDUMP_NOT_ALLOWED);
    }
    let (Some(class), Some(limit)) = (class, limit) else {
        return say(session, text::BAD_LINE);
    };
    let (Some(class), Some(limit)) = (stored_number(class), stored_number(limit)) else {
        return say(session, text::BAD_FORMAT);
    };
    if class > CACHEDUMP_CLASS_MAX {
        return say(session, text::BAD_SLAB_ID);
    }
    let Some(classes) = Classes::one(class) else {
        return say(session, text::END);
    };
    let limit = if limit == 0 { u64::MAX } else { limit };
    list(core, now, session, ListForm::Cachedump, classes, limit)
}

fn say(session: &mut Session, reply: &[u8]) -> bool {
    session.say(reply);
    true
}
