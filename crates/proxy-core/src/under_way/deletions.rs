//! Behind a write its copies are deleted, and then it is answered.

use crate::client::{Answered, State};
use crate::deletions::{Deletion, DeletionId};
use crate::failure::Failure;
use crate::ids::{BackendId, PoolId};
use crate::limits::DELETION_PER_REQUEST_TIMEOUT;
use crate::pipe::in_flight::{Asker, Progress, Tag};
use crate::pipe::invalidation_log::delete;
use crate::show;
use crate::show::Unfit;
use crate::show::kinds::Show;
use crate::under_way::put::put;
use crate::under_way::release::release;
use crate::worker::ProxyCore;
use evenkeel_control::bundles::COPIES_MAX;
use evenkeel_protocol::{LINE_LEN_MAX, MetaStatus, Reply};
use evenkeel_schemes::copies::Deleting;
use evenkeel_types::Instant;

/// A write has been executed at home, and this is its answer: its copies are deleted, and then the application gets it.
pub(crate) fn delete_copies(
    core: &mut ProxyCore,
    now: Instant,
    tag: &Tag,
    key: &[u8],
    answered: Answered,
) {
    let Some((name, servers, give_up)) = copies_of(core, now, tag.pool, key) else {
        return show_answer(core, now, tag, answered);
    };
    let copies = u8::try_from(servers.len()).unwrap_or(COPIES_MAX);
    let id = core.deletions.insert(Deletion {
        pool: tag.pool,
        client: tag.client,
        slot: tag.slot,
        answered,
        machine: Deleting::new(copies),
        name: name.clone().into_boxed_slice(),
        left: servers.clone(),
        give_up,
    });
    core.outbox.due_at(give_up);
    for server in servers {
        match core.admit(server, LINE_LEN_MAX) {
            Ok(to) => {
                let tag = Tag::ours(Asker::Deletion, tag.pool, id.slot(), now);
                put(core, now, to, tag, Progress::Nothing, |out| {
                    delete(out, &name);
                    (0, 0)
                });
            }
            Err(_) => handle(core, now, id, None),
        }
    }
}

/// What the copies of a key are called, at which servers they are, and until when their deletes are waited for. `None` where nobody reads any.
fn copies_of(
    core: &mut ProxyCore,
    now: Instant,
    pool: PoolId,
    key: &[u8],
) -> Option<(Vec<u8>, Vec<BackendId>, Instant)> {
    let patience = core.pools.get(pool)?.settings.request_timeout / DELETION_PER_REQUEST_TIMEOUT;
    let (bundled, servers) = core.pools.bundled(pool)?;
    let name = [&bundled.write_prefix()?[..], key].concat();
    let mut places = [0; COPIES_MAX as usize];
    let places = bundled.by.places(servers.list(), key, &mut places);
    let copies = places.iter().skip(1);
    let copies: Vec<_> = copies
        .map(|place| servers.backends()[*place as usize])
        .collect();
    bundled.counts.deletes += copies.len() as u64;
    (!copies.is_empty()).then_some((name, copies, now + patience))
}

/// A server has answered to a delete.
pub(crate) fn deleted(
    core: &mut ProxyCore,
    now: Instant,
    (server, tag): (BackendId, &Tag),
    reply: &Reply<'_>,
) -> Result<(), Unfit> {
    let is_done = match reply {
        Reply::Deleted | Reply::NotFound => true,
        Reply::Meta(meta) => matches!(meta.status, MetaStatus::Done | MetaStatus::NotFound),
        reply if show::is_error(reply) => false,
        _ => return Err(Unfit),
    };
    if let Some(id) = DeletionId::of(tag) {
        handle(core, now, id, is_done.then_some(server));
    }
    Ok(())
}

/// Goes on with those of which a delete has failed, or that are waited for no longer.
#[inline(never)]
pub(crate) fn go_on_with_deletions(core: &mut ProxyCore, now: Instant) {
    while let Some(id) = core.deletions.pop_failed() {
        handle(core, now, id, None);
    }
    while let Some(deletion) = core.deletions.pop_due(now) {
        end(core, now, deletion, false);
    }
}

/// One more is heard of: this server has confirmed it, or nobody knows.
fn handle(core: &mut ProxyCore, now: Instant, id: DeletionId, confirmed: Option<BackendId>) {
    let Some(deletion) = core.deletions.get_mut(id) else {
        return;
    };
    deletion.left.retain(|server| Some(*server) != confirmed);
    let heard = deletion.machine.handle(confirmed.is_some());
    if let Some(are_confirmed) = heard
        && let Some(deletion) = core.deletions.remove(id)
    {
        end(core, now, deletion, are_confirmed);
    }
}

/// The application gets the answer to its write, or is told that a copy may be left.
fn end(core: &mut ProxyCore, now: Instant, deletion: Deletion, are_confirmed: bool) {
    let mut failure = None;
    for &server in &deletion.left {
        core.backends.note_missed(server, &deletion.name);
        let backend = core.backends.get(server);
        failure = backend.map(|backend| Failure::CopyLeft(backend.name.clone()));
    }
    let bundled = core.pools.bundled(deletion.pool);
    let is_strict = bundled.is_none_or(|(bundled, _)| {
        bundled.counts.deletes_unconfirmed += deletion.left.len() as u64;
        bundled.by.keeping().is_none_or(|keeping| keeping.strict)
    });
    let tag = Tag {
        client: deletion.client,
        slot: deletion.slot,
        ..Tag::ours(Asker::Client, deletion.pool, 0, now)
    };
    match failure.filter(|_| !are_confirmed && is_strict) {
        None => show_answer(core, now, &tag, deletion.answered),
        Some(failure) => {
            let client = core.clients.get_mut(deletion.client);
            let slot = client.and_then(|client| client.slot(deletion.slot));
            let show = slot.map_or(Show::Nothing, |slot| slot.show);
            let answered = match show {
                Show::Nothing => Answered::miss(),
                show => Answered::error(show::refusal(show, failure.line())),
            };
            show_answer(core, now, &tag, answered);
        }
    }
}

fn show_answer(core: &mut ProxyCore, now: Instant, tag: &Tag, answered: Answered) {
    if let Some(client) = core.clients.get_mut(tag.client) {
        client.set_state(tag.slot, State::Done(answered));
        release(core, now, tag.client);
    }
}
