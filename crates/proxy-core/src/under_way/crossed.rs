//! What applications are told of commands between racks, in the place of the answer to what they asked; and other commands, whose steps
//! these are.

use crate::across::{answer_without, is_hidden};
use crate::client::{Answered, State};
use crate::clients::Clients;
use crate::composed::parse_own;
use crate::crossings::CrossingId;
use crate::failure::Failure;
use crate::ids::BackendId;
use crate::made::Made;
use crate::operations::Fetched;
use crate::pipe::in_flight::{Asker, Question, Tag};
use crate::routes::Renames;
use crate::show;
use crate::show::Unfit;
use crate::stats::counters::Tally;
use crate::under_way::fail::fail;
use crate::under_way::local_copies::has_written;
use crate::under_way::release::release;
use crate::warm::{shown_as, with_masked_unique, with_status};
use crate::worker::ProxyCore;
use evenkeel_protocol::{Limits, MetaStatus, Reply, ReplyOutcome, Request, StoreMode, parse_reply};
use evenkeel_schemes::locality::holder::{Command, Shown, Site, Wish};
use evenkeel_types::Instant;

/// Tells the application what its own command was answered at a site, by a server unless it was executed between the racks of another pool. If
/// that is no answer to it, it has failed.
pub(crate) fn show_own(
    core: &mut ProxyCore,
    now: Instant,
    id: CrossingId,
    (site, from): (Site, Option<BackendId>),
    (reply, raw): (&Reply<'_>, &[u8]),
) -> Result<(), Unfit> {
    let Some(crossing) = core.crossings.get(id) else {
        return Ok(());
    };
    let is_bound = matches!(crossing.asked_at(site), Some(Command::Own(Some(_))));
    let is_add = crossing.machine.wish() == Wish::Add;
    let mask = match reply {
        Reply::Meta(meta) if meta.flags.has(b'c') => crossing.racks.unique_mask(site),
        _ => 0,
    };
    let Some(question) = told(core, id) else {
        return Ok(());
    };
    let client = question.tag.client;
    let made = match (reply, Made::of(&question.bytes)) {
        (Reply::Meta(stored), Some(mut made)) if is_add => {
            let mut answer = Vec::new();
            made.answer(&mut answer, stored);
            Some(answer)
        }
        _ => None,
    };
    let is_gone = matches!(reply, Reply::Meta(meta) if meta.status == MetaStatus::NotFound);
    let shown = match made {
        Some(raw) => with_parsed(&raw, |reply| {
            show_masked(core, &question, mask, (reply, &raw))
        }),
        // With a condition a replace is a compare-and-swap to servers.
        None if is_bound && is_gone && is_replace(&question) => {
            with_status(raw, b"NS", |reply, raw| put(core, &question, (reply, raw)))
        }
        None => show_masked(core, &question, mask, (reply, raw)),
    };
    if shown.is_err() {
        let name = from.and_then(|from| core.backends.get(from));
        let name = name.map_or_else(String::new, |from| from.name.clone());
        fail(core, question, &Failure::Confused(name));
    }
    release(core, now, client);
    shown
}

/// Whether a command stores only where something is.
fn is_replace(question: &Question) -> bool {
    matches!(parse_own(&question.bytes), Some(Request::MetaSet(meta)) if meta.flags.store_mode() != StoreMode::Set)
}

/// Puts an answer where it was to go, with its unique combined with a mask.
fn show_masked(
    core: &mut ProxyCore,
    question: &Question,
    mask: u64,
    (reply, raw): (&Reply<'_>, &[u8]),
) -> Result<(), Unfit> {
    match mask {
        0 => put(core, question, (reply, raw)),
        mask => with_masked_unique(raw, mask, |reply, raw| put(core, question, (reply, raw))),
    }
}

/// Tells the application what it is not its own command that was answered.
pub(crate) fn show_to_application(
    core: &mut ProxyCore,
    now: Instant,
    id: CrossingId,
    shown: Shown,
) {
    let Some(crossing) = core.crossings.get_mut(id) else {
        return;
    };
    let failure = match shown {
        Shown::Own | Shown::Stored(_) | Shown::Miss | Shown::NotStored => None,
        Shown::Busy => Some(Failure::Contended),
        Shown::Failed(Site::Former) => Some(Failure::Former),
        Shown::Failed(_) => Some(crossing.failure.take().unwrap_or(Failure::ManySteps)),
    };
    let is_delete = crossing.machine.wish() == Wish::Delete;
    let is_there = shown == Shown::NotStored || is_delete && crossing.was_at_former;
    let mask = crossing.racks.unique_mask(crossing.racks.own());
    let fetched = core.crossings.take_fetched(id);
    let Some(question) = told(core, id) else {
        return;
    };
    let client = question.tag.client;
    let found = match shown {
        Shown::Stored(unique) => fetched.as_ref().map(|fetched| (fetched, unique ^ mask)),
        _ => None,
    };
    match failure {
        Some(failure) => {
            let is_busy = failure == Failure::Contended;
            core.counts.stats.crossings_busy += u64::from(is_busy);
            fail(core, question, &failure);
        }
        None if found.is_some() => {
            let stats = &mut core.counts.stats;
            core.pools.count_former_hit(question.tag.pool, stats);
            let (clients, renames) = (&mut core.clients, &core.routing.renames);
            show_found(clients, renames, &question.tag, &question.bytes, found);
        }
        None => show_without(core, &question, is_there),
    }
    release(core, now, client);
}

/// Tells the application what was found for its read, or that nothing was.
pub(crate) fn show_found(
    clients: &mut Clients,
    renames: &Renames,
    tag: &Tag,
    question: &[u8],
    found: Option<(&Fetched, u64)>,
) {
    if let Some(client) = clients.get_mut(tag.client)
        && let Some(slot) = client.slot(tag.slot)
    {
        let (show, rename) = (slot.show, renames.get(slot.rename));
        let (bytes, tally) = shown_as((show, rename), question, found);
        client.saw_answer(bytes.len());
        let answered = Answered {
            bytes,
            is_error: false,
            tally,
        };
        client.set_state(tag.slot, State::Done(answered));
    }
}

/// Puts where the answer was to go what a command is answered whose key has no item, or has one where it was to have none.
pub(crate) fn show_without(core: &mut ProxyCore, question: &Question, is_there: bool) {
    let Some(raw) = answer_without(question, is_there) else {
        return;
    };
    let shown = with_parsed(&raw, |reply| put(core, question, (reply, &raw)));
    debug_assert_eq!(shown, Ok(()), "an answer of ours fits");
}

/// Puts an answer where it was to go.
fn put(
    core: &mut ProxyCore,
    question: &Question,
    (reply, raw): (&Reply<'_>, &[u8]),
) -> Result<(), Unfit> {
    let tag = &question.tag;
    if tag.asker != Asker::Client {
        core.crossings.step_done(*tag, raw);
        core.outbox.due_at(core.now);
        return Ok(());
    }
    let client = core.clients.get_mut(tag.client);
    let Some(slot) = client.and_then(|client| client.slot(tag.slot)) else {
        return Ok(());
    };
    let rename = core.routing.renames.get(slot.rename);
    let mut bytes = core.spare.take();
    let tally = show::compose(&mut bytes, slot.show, rename, &question.bytes, reply, raw)?;
    if is_hidden(question, reply) {
        bytes.clear();
    }
    let answered = Answered {
        bytes,
        is_error: show::is_error(reply),
        tally,
    };
    put_answered(core, tag, answered);
    Ok(())
}

fn put_answered(core: &mut ProxyCore, tag: &Tag, answered: Answered) {
    if let Some(client) = core.clients.get_mut(tag.client) {
        client.saw_answer(answered.bytes.len());
        client.set_state(tag.slot, State::Done(answered));
    }
}

/// Puts an error where the answer was to go.
pub(crate) fn answer(core: &mut ProxyCore, question: &Question, words: &[u8]) {
    let client = core.clients.get_mut(question.tag.client);
    let slot = client.and_then(|client| client.slot(question.tag.slot));
    if let Some(show) = slot.map(|slot| slot.show) {
        let answered = Answered {
            tally: Tally::Nothing,
            ..Answered::error(show::refusal(show, words.to_vec()))
        };
        put_answered(core, &question.tag, answered);
    }
}

/// Its application is about to have its answer: what it asked next may go on. What it has asked.
fn told(core: &mut ProxyCore, id: CrossingId) -> Option<Question> {
    has_written(core, id);
    let (question, held_back) = core.crossings.told(id)?;
    let client = core.clients.get_mut(question.tag.client);
    if let Some(client) = client.filter(|_| held_back) {
        client.parked -= 1;
    }
    Some(question)
}

/// Does something with a reply of ours.
pub(crate) fn with_parsed(
    raw: &[u8],
    take: impl FnOnce(&Reply<'_>) -> Result<(), Unfit>,
) -> Result<(), Unfit> {
    let limits = Limits {
        item_size_max: raw.len(),
        ..Limits::default()
    };
    match parse_reply(raw, &limits) {
        ReplyOutcome::Reply { reply, .. } => take(&reply),
        _ => Err(Unfit),
    }
}
