//! Requests that have no answer of a server.

use crate::client::{Answered, HeldRead, State};
use crate::config::OnDown;
use crate::crossings::CrossingId;
use crate::deletions::DeletionId;
use crate::failure::Failure;
use crate::operations::OperationId;
use crate::pipe::in_flight::{Ask, Progress, Question, Tag};
use crate::routes::Rename;
use crate::show;
use crate::show::kinds::{Show, Verb};
use crate::stats::counters::Tally;
use crate::under_way::log::log_failed;
use crate::worker::ProxyCore;
use evenkeel_hotkeys::client::Answer;
use evenkeel_types::Instant;

/// The answer to a read, if any comes, is compared with nothing.
pub(crate) fn forget_ticket(core: &mut ProxyCore, now: Instant, tag: &Tag) {
    if let Some(client) = core.clients.get_mut(tag.client)
        && let Some(slot) = client.slot(tag.slot)
        && let Some((pool, ticket)) = slot.ticket.take()
    {
        core.pools.abandon(now, pool, ticket);
    }
}

/// Puts a failure where the answer was to go. The caller releases the client's answers, and goes on with the
/// round of a flush ([`end_round`](crate::under_way::flush::end_round)).
pub(crate) fn fail(core: &mut ProxyCore, question: Question, failure: &Failure) {
    if let Some(step) = OperationId::of_step(&question.tag) {
        core.operations.step_failed(step, failure.clone());
        // It hears of it when nothing else is being done.
        return core.outbox.due_at(core.now);
    }
    if let Some(step) = CrossingId::of_step(&question.tag) {
        if let Progress::Answered = question.progress {
            // All but the end of it has come, and was heard.
            return;
        }
        let pool = question.tag.pool;
        core.crossings.step_failed(step, pool, failure.clone());
        return core.outbox.due_at(core.now);
    }
    if let Some(deletion) = DeletionId::of(&question.tag) {
        core.deletions.one_failed(deletion);
        return core.outbox.due_at(core.now);
    }
    let on_down = core.pools.get(question.tag.pool);
    let on_down = on_down.map(|pool| pool.settings.on_down);
    let as_miss = on_down != Some(OnDown::Error) && failure.is_absence();
    if core.log.is_some() {
        log_failed(core, &question, failure, as_miss);
    }
    let Question {
        tag,
        bytes,
        progress,
    } = question;
    if tag.ask == Ask::Flush {
        let id = (tag.client, tag.slot);
        core.flushes.failed(id, failure.line());
        return core.flushes.answered(id, None);
    }
    core.pools.write_ended(&tag);
    if core.takes_steps() {
        end_operation(core, &tag);
    }
    let Some(client) = core.clients.get_mut(tag.client) else {
        return;
    };
    let slots = match progress {
        // A shared question is split before it fails.
        Progress::Nothing | Progress::Moved(_) | Progress::Shared(_) => vec![tag.slot],
        Progress::Answered => Vec::new(),
        Progress::Group(group) => group.slots_left().collect(),
    };
    let mut question = Some(Question {
        tag,
        bytes,
        progress: Progress::Nothing,
    });
    for sequence in slots {
        let Some(slot) = client.slot(sequence) else {
            continue;
        };
        let bytes = question
            .as_ref()
            .map_or(&[][..], |question| &question.bytes);
        let rename = core.routing.renames.get(slot.rename);
        let shown_as = (slot.show, rename);
        let answered = answer_for_want(shown_as, bytes, failure, as_miss, tag.is_read);
        let state = match question.take_if(|_| slot.ticket.is_some()) {
            None => State::Done(answered),
            Some(question) => {
                let answer = Answer::Failed;
                State::Read(Box::new(HeldRead {
                    answered,
                    answer,
                    question,
                }))
            }
        };
        client.set_state(sequence, state);
    }
}

/// The application of an operation has its answer: what it asked next may go on.
pub(crate) fn told(core: &mut ProxyCore, id: OperationId) {
    let held_back = core.operations.told(id);
    if let Some(client) = held_back.and_then(|client| core.clients.get_mut(client)) {
        client.parked -= 1;
    }
}

/// Whatever an operation was about to do for a request, it is over: the application gets a failure, or another one begins for it. What it
/// asked next goes on.
pub(crate) fn end_operation(core: &mut ProxyCore, tag: &Tag) {
    let Some(id) = core.operations.of_slot(tag.client, tag.slot) else {
        return;
    };
    told(core, id);
    let operation = core.operations.get(id);
    if operation.is_some_and(|operation| operation.machine.asks_own()) {
        core.operations.remove(id);
    }
}

/// What the application gets instead of an answer.
fn answer_for_want(
    (shown_as, rename): (Show, Option<&Rename>),
    question: &[u8],
    failure: &Failure,
    as_miss: bool,
    is_read: bool,
) -> Answered {
    let is_get = match shown_as {
        Show::Value { .. } => true,
        Show::Meta {
            verb: Verb::Get, ..
        } => is_read,
        Show::Binary(echo) => show::binary::is_get(echo),
        _ => false,
    };
    if shown_as == Show::Nothing {
        return Answered {
            tally: Tally::Failed,
            ..Answered::miss()
        };
    }
    if !(is_get && as_miss) {
        return Answered::error(show::refusal(shown_as, failure.line()));
    }
    let mut bytes = Vec::new();
    show::compose_miss(&mut bytes, shown_as, rename, question);
    Answered {
        bytes,
        is_error: false,
        tally: Tally::GetUnavailable,
    }
}
