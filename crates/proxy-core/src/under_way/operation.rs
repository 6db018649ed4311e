//! Operations: asking what their machines say, and telling them what came of it.
//!
//! An application's command that needs several requests is kept aside ([`Operations`](crate::operations::Operations)). Its steps are requests
//! of nobody's connection; its own request, when its turn comes, is asked as any other, and its answer heard before it is shown.
//!
//! All that rests on a unique goes over the connection on which it was learnt. If that is another one by now, the condition is taken not to
//! hold: a server that was started anew counts its uniques anew.

use crate::composed::{line_end, parse_own};
use crate::copied::copy_of;
use crate::failure::Failure;
use crate::ids::{BackendId, PoolId};
use crate::operations::{Operation, OperationId};
use crate::pipe::backend::Backend;
use crate::pipe::in_flight::{Asker, Progress, Question, Tag};
use crate::pool::Pool;
use crate::route_flags::RouteFlags;
use crate::show;
use crate::show::Unfit;
use crate::stats::counters::ProxyStats;
use crate::under_way::again::{ask_at, renew_ticket};
use crate::under_way::crossed::show_found;
use crate::under_way::crossing::begin_asked;
use crate::under_way::fail::{fail, forget_ticket, told};
use crate::under_way::release::release;
use crate::under_way::room::take_room;
use crate::warm::{
    Words, condition_on, fetched, heard_of_own, heard_of_step, is_marked, wish_of, wish_of_read,
};
use crate::worker::ProxyCore;
use core::time::Duration;
use evenkeel_protocol::{KeyScratch, MetaStatus, Reply, Request, StoreMode};
use evenkeel_schemes::warm::{Command, Heard, NO_UNIQUE, Next, Shown, Warming, Wish};
use evenkeel_types::{Instant, KeyHash};

/// What becomes of an answer to an application's own request in a pool that is warmed.
pub(crate) enum Own {
    /// It is shown.
    Show,
    /// It is shown with this status instead of the server's.
    ShowAs(&'static [u8; 2]),
    /// It is not: an operation goes on.
    Taken,
}

/// Statuses of meta replies.
const NOT_STORED: &[u8; 2] = b"NS";
const DONE: &[u8; 2] = b"HD";

/// A request that may change something is asked in a pool that is warmed. It is answered here.
#[inline(never)]
pub(crate) fn begin_write(core: &mut ProxyCore, now: Instant, question: Question) {
    let tag = question.tag;
    let Some((wish, meta)) = wish_of(&question.bytes) else {
        return fail(core, question, &Failure::Former);
    };
    let key: Box<[u8]> = meta.key.decode(&mut KeyScratch::default()).into();
    let fills = core.pools.fills(tag.pool, &key);
    let (machine, command) = Warming::of_write(wish, fills);
    begin(core, now, (machine, command), question, (&key, None), true);
}

/// The answer to an application's own request has come, in a pool that is warmed.
#[inline(never)]
pub(crate) fn own_answered(
    core: &mut ProxyCore,
    now: Instant,
    backend: BackendId,
    tag: &Tag,
    reply: &Reply<'_>,
) -> Own {
    let Some(id) = core.operations.of_slot(tag.client, tag.slot) else {
        return read_answered(core, now, backend, tag, reply);
    };
    let Some(operation) = core.operations.get_mut(id) else {
        return Own::Show;
    };
    let is_bound = operation.asked.is_bound();
    let heard = heard_of_own(operation.machine.wish(), is_bound, reply);
    let next = operation.machine.handle(heard);
    if next.show != Some(Shown::Own) {
        run(core, now, id, next);
        return Own::Taken;
    }
    let is_missing = matches!(reply, Reply::Meta(meta) if meta.status == MetaStatus::NotFound);
    let instead = match parse_own(&operation.question.bytes) {
        // With a condition a replace is a compare-and-swap to servers.
        Some(Request::MetaSet(meta))
            if meta.flags.store_mode() == StoreMode::Replace && is_bound =>
        {
            Some(NOT_STORED)
        }
        // It was there until now.
        Some(Request::MetaDelete(_)) if operation.was_at_former => Some(DONE),
        _ => None,
    };
    end(core, id);
    match instead.filter(|_| is_missing) {
        Some(status) => Own::ShowAs(status),
        None => Own::Show,
    }
}

/// A step is answered: by a server, unless it was executed between the racks of the former pool.
#[inline(never)]
pub(crate) fn step_answered(
    core: &mut ProxyCore,
    now: Instant,
    backend: Option<BackendId>,
    tag: &Tag,
    reply: &Reply<'_>,
) -> Result<(), Unfit> {
    let Some(id) = OperationId::of_step(tag) else {
        return Ok(());
    };
    let Some(operation) = core.operations.get_mut(id) else {
        return Ok(());
    };
    let asked = operation.asked;
    let (is_fill, pool) = (operation.is_fill, operation.former);
    let mut heard = match reply {
        Reply::Meta(meta) => heard_of_step(asked, meta).ok_or(Unfit)?,
        reply if show::is_error(reply) => Heard::Failed,
        _ => return Err(Unfit),
    };
    if !asked.is_of_former() && matches!(heard, Heard::Item(_) | Heard::Mark(_) | Heard::Done(_)) {
        let at = backend.and_then(|backend| core.backends.get(backend));
        operation.learnt_on = backend.zip(at.map(Backend::connection));
    }
    if let (Command::Fetch, Heard::Item(_), Reply::Meta(meta)) = (asked, heard, reply) {
        let fetched = match is_fill {
            false => Some(fetched(meta)),
            true => {
                let chance = core.random.u32();
                let keeping = core.pools.keeping(pool);
                let copy = keeping.and_then(|it| copy_of(meta, &it, core.unix, chance));
                copy.filter(|copy| take_room(core, now, id, copy.value.len()))
            }
        };
        match fetched {
            Some(fetched) => core.operations.keep(id, fetched),
            // What is not copied is as good as not there.
            None => heard = Heard::Nothing,
        }
    }
    handle(core, now, id, heard);
    Ok(())
}

/// A step that rests on a unique was not executed, since its key is at another server by now.
pub(crate) fn step_moved(core: &mut ProxyCore, now: Instant, tag: &Tag) {
    let id = OperationId::of_step(tag).or_else(|| core.operations.of_slot(tag.client, tag.slot));
    if let Some(id) = id {
        handle(core, now, id, Heard::Refused);
    }
}

/// Tells operations whose steps have failed.
#[inline(never)]
pub(crate) fn go_on_with_failed(core: &mut ProxyCore, now: Instant) {
    while let Some((id, failure)) = core.operations.pop_failed() {
        if let Some(operation) = core.operations.get_mut(id) {
            operation.failure = Some(failure);
            handle(core, now, id, Heard::Failed);
        }
    }
}

/// A read has found something, or nothing.
fn read_answered(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    tag: &Tag,
    reply: &Reply<'_>,
) -> Own {
    let Reply::Meta(meta) = reply else {
        return Own::Show;
    };
    let is_mark = is_marked(meta);
    let is_miss = meta.status == MetaStatus::Miss && core.pools.fills_some(tag.pool);
    // A replica that has nothing is no miss: its home is asked.
    let is_plain_answer = !is_mark && (!is_miss || tag.is_replica);
    if core.pools.stage_of_some(tag.pool).is_none() || !tag.is_read || is_plain_answer {
        return Own::Show;
    }
    let bytes = core.backends.get_mut(id).and_then(|backend| {
        let (question, _) = backend.awaited()?;
        Some(question.to_vec())
    });
    let client = core.clients.get_mut(tag.client);
    let show = client.and_then(|client| Some(client.slot(tag.slot)?.show));
    let (Some(bytes), Some(show)) = (bytes, show) else {
        return Own::Show;
    };
    if is_mark {
        forget_ticket(core, now, tag);
        core.counts.stats.placeholders_met += 1;
        let (clients, renames) = (&mut core.clients, &core.routing.renames);
        show_found(clients, renames, tag, &bytes, None);
        return Own::Taken;
    }
    let mut scratch = KeyScratch::default();
    let Some((wish, key)) = wish_of_read(show, &bytes, &mut scratch) else {
        return Own::Show;
    };
    if !core.pools.fills(tag.pool, key) {
        return Own::Show;
    }
    forget_ticket(core, now, tag);
    let key: Box<[u8]> = key.into();
    let question = Question {
        tag: *tag,
        bytes,
        progress: Progress::Nothing,
    };
    let begun = Warming::of_read(wish);
    begin(core, now, begun, question, (&key, Some(id)), false);
    Own::Taken
}

/// Begins an operation, unless there are too many: then its request has failed. Its key may have been asked for at a server.
fn begin(
    core: &mut ProxyCore,
    now: Instant,
    (machine, asked): (Warming, Command),
    question: Question,
    (key, asked_at): (&[u8], Option<BackendId>),
    holds_back: bool,
) {
    let tag = question.tag;
    let pool = core.pools.get(tag.pool);
    let former_key = pool.and_then(|pool| pool.former_name(key));
    let Some(step) = pool.and_then(|pool| pool.former) else {
        // A new configuration has no former pool any more.
        let (target, _) = core.pools.place(tag.pool, key);
        return ask_at(core, now, question, target);
    };
    if !core.operations.has_room(question.bytes.len()) {
        core.counts.stats.operations_refused += 1;
        return fail(core, question, &Failure::Overloaded);
    }
    let is_listed = core.pools.get(tag.pool).is_some_and(Pool::is_plain);
    let home = asked_at.filter(|_| is_listed).map(|at| (core.era, at));
    let give_up = deadline(core, now, tag.pool);
    let id = core.operations.insert(Operation {
        machine,
        question,
        is_fill: false,
        is_told: false,
        holds_back,
        key: key.into(),
        former_key: former_key.map(Vec::into_boxed_slice),
        former: step.pool,
        version: step.version(),
        homes: [home, None],
        asked,
        was_at_former: false,
        fetched: None,
        learnt_on: None,
        give_up,
        failure: None,
    });
    if let Some(client) = core.clients.get_mut(tag.client) {
        client.parked += usize::from(holds_back);
    }
    let next = Next {
        show: None,
        ask: Some(asked),
    };
    run(core, now, id, next);
}

fn handle(core: &mut ProxyCore, now: Instant, id: OperationId, heard: Heard) {
    let Some(operation) = core.operations.get_mut(id) else {
        return;
    };
    let asked = operation.asked;
    operation.was_at_former |= matches!((asked, heard), (Command::Clear, Heard::Done(_)));
    let next = operation.machine.handle(heard);
    note(core, id, asked, heard);
    run(core, now, id, next);
}

/// Counts what a step has come to.
fn note(core: &mut ProxyCore, id: OperationId, asked: Command, heard: Heard) {
    let fill = core.operations.get(id).filter(|it| it.is_fill);
    match fill.map(|fill| (fill.former, fill.machine.wish())) {
        None => count(&mut core.counts.stats, asked, heard),
        Some((pool, wish)) => {
            if let (Some((bundled, _)), Command::Store(_), Heard::Done(_)) =
                (core.pools.bundled(pool), asked, heard)
            {
                match wish {
                    Wish::Refresh => bundled.counts.refreshes += 1,
                    _ => bundled.counts.fills += 1,
                }
            }
        }
    }
}

fn count(stats: &mut ProxyStats, asked: Command, heard: Heard) {
    match (asked, heard) {
        (Command::Store(_), Heard::Done(_)) => stats.fills_stored += 1,
        (Command::Store(_), Heard::Refused) => stats.fills_lost += 1,
        (Command::Fetch, Heard::Nothing) => stats.fills_absent += 1,
        (Command::Store(_) | Command::Fetch, Heard::Failed) => stats.fills_given_up += 1,
        (Command::Clear, Heard::Done(_)) => stats.former_deletes += 1,
        (Command::Look, Heard::Mark(_)) => stats.placeholders_met += 1,
        _ => {}
    }
}

/// Shows, and asks, as the machine says.
pub(crate) fn run(core: &mut ProxyCore, now: Instant, id: OperationId, mut next: Next) {
    loop {
        let is_fill = core.operations.get(id).is_some_and(|it| it.is_fill);
        if let Some(shown) = next.show.filter(|_| !is_fill) {
            show_to_application(core, now, id, shown);
        }
        // A fill is over where an application would be shown what somebody else has brought.
        let Some(command) = next
            .ask
            .filter(|it| !is_fill || !matches!(it, Command::Own(_)))
        else {
            return core.operations.remove(id);
        };
        let Some(operation) = core.operations.get_mut(id) else {
            return;
        };
        operation.asked = command;
        let is_late = now >= operation.give_up && !operation.is_told;
        let heard = match is_late {
            true => Some(Heard::Failed),
            false => ask_command(core, now, id, command),
        };
        let Some(heard) = heard else { return };
        note(core, id, command, heard);
        match core.operations.get_mut(id) {
            None => return,
            Some(operation) => {
                next = operation.machine.handle(heard);
                // Its own command was not asked: there is no answer to show.
                if next.show == Some(Shown::Own) {
                    next.show = Some(Shown::Failed);
                }
            }
        }
    }
}

/// Asks a command. What came of it where that is known at once.
fn ask_command(
    core: &mut ProxyCore,
    now: Instant,
    id: OperationId,
    command: Command,
) -> Option<Heard> {
    let nonce = core.random.u64();
    let operation = core.operations.get(id)?;
    let tag = operation.question.tag;
    let (pool, key) = match command.is_of_former() {
        true => (operation.former, operation.former_key()),
        false => (tag.pool, &operation.key[..]),
    };
    let home = usize::from(command.is_of_former());
    let known = operation.homes[home].filter(|(era, _)| *era == core.era);
    let (target, flags) = match known {
        Some((_, known)) => (Ok(known), RouteFlags::default()),
        // Copies may be elsewhere by now.
        None if operation.is_fill => return Some(Heard::Failed),
        None => core.pools.place(pool, key),
    };
    if let (None, Ok(to)) = (known, &target)
        && core.pools.get(pool).is_some_and(Pool::is_plain)
    {
        let found = Some((core.era, *to));
        core.operations.get_mut(id)?.homes[home] = found;
    }
    let operation = core.operations.get(id)?;
    if command.is_bound() && command != Command::Own(Some(NO_UNIQUE)) {
        let known = target.as_ref().ok().and_then(|&to| {
            let backend = core.backends.get(to)?;
            Some((to, backend.connection()))
        });
        if known != operation.learnt_on {
            return Some(Heard::Refused);
        }
    }
    if let Command::Own(condition) = command {
        ask_own(core, now, id, condition, target);
        return None;
    }
    let key = match command.is_of_former() {
        true => operation.former_key(),
        false => &operation.key,
    };
    let words = Words {
        key,
        fetched: operation.fetched.as_ref(),
        route: flags.text(),
        nonce,
        unix: core.unix,
        is_fill: operation.is_fill,
    };
    let mut bytes = Vec::with_capacity(words.len_max());
    let behind = words.compose(command, &mut bytes);
    let give_up = deadline(core, now, pool);
    let step = Tag {
        hash: KeyHash::of(key),
        is_read: matches!(command, Command::Look | Command::Fetch),
        is_bound: command.is_bound(),
        flags: flags.place(bytes.len(), behind),
        ..Tag::ours(Asker::Step, pool, id.slot(), give_up)
    };
    let question = Question {
        tag: step,
        bytes,
        progress: Progress::Nothing,
    };
    match core.pools.racks(pool).filter(|_| command.is_of_former()) {
        Some(_) => begin_asked(core, now, question),
        None => ask_at(core, now, question, target),
    }
    None
}

/// Asks the application's own command, on condition that the item has this unique.
fn ask_own(
    core: &mut ProxyCore,
    now: Instant,
    id: OperationId,
    condition: Option<u64>,
    target: Result<BackendId, Failure>,
) {
    let Some(operation) = core.operations.get(id) else {
        return;
    };
    let mut question = Question {
        tag: operation.question.tag,
        bytes: operation.question.bytes.clone(),
        progress: Progress::Nothing,
    };
    question.tag.give_up = deadline(core, now, question.tag.pool);
    question.tag.retries = 0;
    question.tag.is_bound = condition.is_some();
    if let Some(unique) = condition {
        bind(&mut question, unique);
    }
    let tag = question.tag;
    if tag.is_read {
        renew_ticket(core, now, &tag);
    }
    ask_at(core, now, question, target);
    release(core, now, tag.client);
}

/// When a request to a pool is given up that is asked now.
fn deadline(core: &ProxyCore, now: Instant, pool: PoolId) -> Instant {
    let pool = core.pools.get(pool);
    now + pool.map_or(Duration::ZERO, |pool| pool.settings.request_timeout)
}

/// Adds the condition to a request, in front of our own flags or at the end of its line.
fn bind(question: &mut Question, unique: u64) {
    let condition = condition_on(unique);
    let (start, end) = question.tag.flags;
    let at = match start == end {
        true => line_end(&question.bytes),
        false => start,
    };
    if start != end {
        question.tag.flags = (start + condition.len(), end + condition.len());
    }
    question.bytes.splice(at..at, condition);
}

/// Tells the application.
fn show_to_application(core: &mut ProxyCore, now: Instant, id: OperationId, shown: Shown) {
    let Some(operation) = core.operations.get_mut(id) else {
        return;
    };
    let tag = operation.question.tag;
    let failure = match shown {
        Shown::Stored(_) | Shown::Miss | Shown::Own => None,
        Shown::Busy => Some(Failure::Contended),
        Shown::FormerFailed => Some(Failure::Former),
        Shown::Failed => Some(operation.failure.take().unwrap_or(Failure::ManySteps)),
    };
    if let Some(failure) = failure {
        let question = Question {
            tag,
            bytes: operation.question.bytes.clone(),
            progress: Progress::Nothing,
        };
        // It ends what is not told.
        fail(core, question, &failure);
        return release(core, now, tag.client);
    }
    let unique = match shown {
        Shown::Stored(unique) => Some(unique ^ core.pools.unique_mask(tag.pool, &operation.key)),
        _ => None,
    };
    let fetched = operation.fetched.as_ref();
    let found = fetched.and_then(|fetched| Some((fetched, unique?)));
    if found.is_some() {
        core.pools
            .count_former_hit(tag.pool, &mut core.counts.stats);
    }
    let (clients, renames) = (&mut core.clients, &core.routing.renames);
    show_found(clients, renames, &tag, &operation.question.bytes, found);
    told(core, id);
    release(core, now, tag.client);
}

/// The application has its answer, and nothing is left to do.
fn end(core: &mut ProxyCore, id: OperationId) {
    told(core, id);
    core.operations.remove(id);
}
