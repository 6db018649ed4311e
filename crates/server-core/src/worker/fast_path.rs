//! Plain requests: `get` and `set` in the one form that every client library writes them. Nearly all
//! traffic consists of them, so they go a short way of their own; the answers, counts and side
//! effects are those of the ordinary path, and a test holds the two against each other.
//!
//! `get`s that stand one behind the other in a connection's input are taken as a run, a window of keys at a time, and so
//! are `set`s: see [`probe`](crate::commands::probe) for why.
//!
//! Whatever is not plain ([`scan_get`] and [`scan_set`] say what is) is left to the ordinary path, and
//! so is the rest of a multi-get that had to stop in the middle. Of what is plain, keys that another
//! worker holds, or that somebody watches, or while answers may be held back or have no memory, take the
//! ordinary path key by key.

use crate::commands::execute::has_short_way;
use crate::commands::key_command::{GetForm, KeyCommand};
use crate::commands::probe::{Probe, Run, WINDOW, ask_ahead, read_probed};
use crate::commands::store;
use crate::session::Session;
use crate::session::connections::Progress;
use crate::worker::core::WorkerCore;
use crate::worker::route::one_key;
use core::ops::Range;
use evenkeel_protocol::{scan_get, scan_set};
use evenkeel_types::Now;

/// Keys of a run beyond which the memory that held them is given back.
const KEYS_KEEP_MAX: usize = 4096;

/// What became of a window.
struct Answered {
    /// Keys answered.
    keys: usize,
    /// Where the last request ends that is answered whole, if one is.
    end: Option<usize>,
}

/// Executes the plain reads at the front of `input`, at most `commands` of them. Gives what was
/// consumed and how many commands that were; nothing when there are none. `more` is set when a
/// multi-get stopped in the middle and can go on as soon as others had their turn.
#[inline]
pub(crate) fn plain_reads(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    input: &[u8],
    commands: u32,
) -> Option<(Progress, u32)> {
    let keys = &mut core.run.keys;
    keys.clear();
    let (mut end, mut taken) = (0, 0);
    while taken < commands && keys.len() < WINDOW {
        let Some(next) = scan_get(input, end, &core.config.limits, keys) else {
            break;
        };
        end = next;
        taken += 1;
    }
    if taken == 0 {
        return None;
    }
    let progress = read_keys(core, now, session, input);
    if core.run.keys.capacity() > KEYS_KEEP_MAX {
        core.run.keys = Vec::new();
    }
    Some((progress, taken))
}

/// Answers the keys of the run, in order, until one has to wait.
fn read_keys(core: &mut WorkerCore, now: Now, session: &mut Session, input: &[u8]) -> Progress {
    let mut consumed = 0;
    let mut at = 0;
    while at < core.run.keys.len() {
        let window = at..core.run.keys.len().min(at + WINDOW);
        let wanted = window.len();
        let is_direct = has_short_way(&core.engine, &core.observers)
            && !core.connections.scarce
            && session.is_direct();
        let answered = if is_direct && locate_window(core, input, window.clone()) {
            read_here(core, now, session, input, window)
        } else {
            read_elsewhere(core, now, session, input, window)
        };
        consumed = answered.end.unwrap_or(consumed);
        if answered.keys < wanted {
            return Progress {
                consumed,
                more: core.outbox.is_full(),
            };
        }
        at += wanted;
    }
    Progress {
        consumed,
        more: false,
    }
}

/// Finds out where the keys of a window are. False when one of them is not here.
#[inline]
fn locate_window(core: &mut WorkerCore, input: &[u8], window: Range<usize>) -> bool {
    let (store, me) = (&core.engine.store, core.config.index);
    let Run { keys, probes, .. } = &mut core.run;
    let mut are_here = true;
    probes.clear();
    probes.extend(keys[window].iter().map(|key| {
        let located = core.hosting.placement.locate(store, key.of(input));
        are_here &= located.place.is_at(me);
        Probe::new(&located)
    }));
    are_here
}

/// Answers a window of keys that are all here, and whose answers go straight to the output.
#[inline]
fn read_here(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    input: &[u8],
    window: Range<usize>,
) -> Answered {
    let engine = &mut core.engine;
    let Run { keys, probes, .. } = &mut core.run;
    ask_ahead(engine, probes);
    let room = session.room();
    let mut answered = Answered { keys: 0, end: None };
    for (sent, probe) in keys[window].iter().zip(probes) {
        if session.out.len() >= room {
            break;
        }
        let key = sent.of(input);
        read_probed(engine, now, probe, key, &mut session.out);
        answered.keys += 1;
        if sent.is_last() {
            session.end_get();
            answered.end = Some(sent.request_end());
        } else {
            session.keys_done += 1;
        }
    }
    answered
}

/// Answers a window key by key, of which some are at other workers, must wait for those, or are
/// watched.
#[cold]
#[inline(never)]
fn read_elsewhere(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    input: &[u8],
    window: Range<usize>,
) -> Answered {
    let mut answered = Answered { keys: 0, end: None };
    for place in window {
        if session.is_paused() || core.outbox.is_full() {
            break;
        }
        let sent = core.run.keys[place];
        let key = sent.of(input);
        let command = KeyCommand::Get(GetForm::PLAIN);
        if !one_key(core, now, session, key, command) {
            break;
        }
        answered.keys += 1;
        session.keys_done += 1;
        if sent.is_last() {
            session.end_get();
            answered.end = Some(sent.request_end());
        }
    }
    answered
}

/// Executes the plain `set`s at the front of `input` whose keys are here, at most `commands` of
/// them. Gives what was consumed and how many commands that were; nothing when there are none.
#[inline]
pub(crate) fn plain_sets(
    core: &mut WorkerCore,
    now: Now,
    session: &mut Session,
    input: &[u8],
    commands: u32,
) -> Option<(usize, u32)> {
    if !has_short_way(&core.engine, &core.observers) {
        return None;
    }
    let engine = &mut core.engine;
    let Run { sets, probes, .. } = &mut core.run;
    sets.clear();
    probes.clear();
    let window = WINDOW.min(commands as usize);
    let mut end = 0;
    while sets.len() < window {
        let Some(set) = scan_set(input, end, &core.config.limits) else {
            break;
        };
        let located = (core.hosting.placement).locate(&engine.store, set.key(input));
        if !located.place.is_at(core.config.index) {
            break;
        }
        end = set.end();
        sets.push(set);
        probes.push(Probe::new(&located));
    }
    if sets.is_empty() {
        return None;
    }
    if sets.len() > 1 {
        ask_ahead(engine, probes);
    }
    for (set, probe) in sets.iter().zip(probes) {
        let said = store::plain(engine, &probe.at(now), &set.of(input), probe.hint);
        session.say(said);
    }
    Some((end, sets.len() as u32))
}
