//! What happens when a server is not there, not in time, or not in its right mind.
//!
//! What becomes of its requests is in `under_way/again.rs`.

use crate::composed::parse_own;
use crate::failure::Failure;
use crate::ids::BackendId;
use crate::limits::RETRIES_MAX;
use crate::outage::Cause;
use crate::output::Output;
use crate::pipe::backend::Link;
use crate::pipe::health::Sign;
use crate::pipe::in_flight::{Ask, Asker, Progress, Question, Tag};
use crate::pool::sent::wants_of;
use crate::under_way::again::{ask_again, fail_unasked};
use crate::under_way::apart::key_by_key;
use crate::under_way::by_stage::ask_by_stage;
use crate::under_way::catch_up::catch_up_if_idle;
use crate::under_way::era::health_changed;
use crate::under_way::fail::{fail, forget_ticket};
use crate::under_way::flush::end_round;
use crate::under_way::lines::{draft_again, send_drafts};
use crate::under_way::park::{has_stragglers, park};
use crate::under_way::reach::meet;
use crate::under_way::release::release;
use crate::under_way::say::close_client;
use crate::under_way::second_round::ask_elsewhere as ask_copies_elsewhere;
use crate::worker::ProxyCore;
use evenkeel_protocol::{KeyScratch, Request};
use evenkeel_types::Instant;

/// Asks a read elsewhere whose server has just gone out of use. Gives it back if there is nowhere
/// to go, or no need to.
fn ask_elsewhere(
    core: &mut ProxyCore,
    now: Instant,
    question: Question,
    unasked: &Failure,
) -> Option<Question> {
    let pool = question.tag.pool;
    match parse_own(&question.bytes) {
        Some(Request::MetaGet(meta)) => {
            let mut scratch = KeyScratch::default();
            let elsewhere = core.find_elsewhere(now, pool, meta.key.decode(&mut scratch));
            let Some(place) = elsewhere.and_then(|elsewhere| elsewhere.place) else {
                return Some(question);
            };
            core.counts.stats.requests_failed_over += 1;
            ask_again(core, now, question, Ok(place));
            None
        }
        Some(Request::Get { keys, with_cas }) => {
            let tag = question.tag;
            let with_cas = match tag.ask {
                Ask::Hot => shows_cas(core, &tag),
                _ => with_cas,
            };
            abandon_hot_read(core, now, &tag);
            let slots = match &question.progress {
                // Only a line of which nothing is answered is asked elsewhere.
                Progress::Group(group) => group.slots_left().collect(),
                _ => vec![tag.slot],
            };
            for (key, slot) in keys.iter().zip(slots) {
                let elsewhere = core.find_elsewhere(now, pool, key);
                match elsewhere.and_then(|elsewhere| elsewhere.place) {
                    Some(place) => {
                        core.counts.stats.requests_failed_over += 1;
                        draft_again(core, now, place, &tag, with_cas, key, slot);
                    }
                    None => fail_key(core, &tag, slot, unasked),
                }
            }
            send_drafts(core, now, tag.client);
            None
        }
        _ => Some(question),
    }
}

/// A key of a multi-get has nowhere to go.
fn fail_key(core: &mut ProxyCore, tag: &Tag, slot: u64, failure: &Failure) {
    let question = Question {
        tag: Tag { slot, ..*tag },
        bytes: Vec::new(),
        progress: Progress::Nothing,
    };
    fail(core, question, failure);
}

/// The server of a value that was passed on in part is lost: so is the connection of its application.
fn break_stream(core: &mut ProxyCore, id: BackendId) {
    let Some(backend) = core.backends.get_mut(id) else {
        return;
    };
    if let Some(stream) = backend.streaming.take()
        && core.clients.get(stream.client).is_some()
    {
        core.counts.stats.clients_closed_cut += 1;
        close_client(core, stream.client);
    }
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The peer closed it, or it could not be made.
    Gone(Cause),
    /// Something did not come in time.
    Late,
    /// The peer does not answer what it was asked.
    Confused,
}

/// Gives up a connection.
pub(crate) fn give_up(core: &mut ProxyCore, now: Instant, id: BackendId, loss: Loss) {
    if core.backends.get(id).is_some() {
        core.outbox.push(Output::CloseBackend(id));
    }
    lose(core, now, id, loss);
}

/// A deadline of the backend has passed.
pub(crate) fn backend_due(core: &mut ProxyCore, now: Instant, id: BackendId) {
    let Some(backend) = core.backends.get_mut(id) else {
        return;
    };
    match backend.link {
        Link::Down { .. } => core.backends.connect(&mut core.outbox, now, id),
        Link::Unready { .. } if backend.answer_due().is_none_or(|due| due > now) => {
            let until = now + backend.connect_timeout;
            core.greet(id, until);
        }
        Link::Unready { .. }
        | Link::Idle
        | Link::Connecting { .. }
        | Link::Greeting { .. }
        | Link::Ready => {
            backend.counters.timeouts += 1;
            give_up(core, now, id, Loss::Late);
        }
    }
}

pub(crate) fn lose(core: &mut ProxyCore, now: Instant, id: BackendId, loss: Loss) {
    break_stream(core, id);
    let jitter = core.random.jitter();
    let Some(backend) = core.backends.get_mut(id) else {
        return;
    };
    if matches!(backend.link, Link::Idle | Link::Down { .. }) {
        return;
    }
    let name = backend.name.clone();
    let cause = match &loss {
        Loss::Gone(cause) => cause.clone(),
        Loss::Late => backend.cause_of_lateness(),
        Loss::Confused => backend.cause_of_nonsense(),
    };
    let unasked = Failure::Unavailable(name.clone(), Some(cause.clone()));
    let failure = match loss {
        Loss::Gone(_) if backend.link == Link::Ready => Failure::Lost(name),
        Loss::Gone(_) => unasked.clone(),
        Loss::Late => Failure::Late(name),
        Loss::Confused => Failure::Confused(name),
    };
    let mut questions = Vec::new();
    while let Some((question, is_written)) = backend.pop_question() {
        questions.extend(question.split().map(|question| (question, is_written)));
    }
    backend.reset_queue();
    let sign = match (&loss, backend.link) {
        (Loss::Late, Link::Ready) => Sign::Late,
        _ => Sign::Broken,
    };
    let pool = backend.pool;
    core.pools.forget_truths_of(pool);
    if let Some(cluster) = core.pools.cluster_mut(pool) {
        cluster.forget_marks(id);
    }
    core.clients.handle_waiting(&mut core.outbox);
    let Some(backend) = core.backends.get_mut(id) else {
        return;
    };
    let has_changed = match loss {
        Loss::Gone(_) => backend.closed_by_peer(now, jitter, cause),
        Loss::Late | Loss::Confused => backend.failed(now, jitter, sign, cause),
    };
    if let Some(due) = backend.deadline() {
        core.outbox.due_at(due);
    }
    core.close_if_retired(id);
    if has_changed {
        health_changed(core, id);
    }
    // Its coordinator asks whether it is reached, also if nothing is asked of it.
    if core.pools.is_adaptive(pool) {
        meet(core, now, id);
    }
    let takes_again = core.backends.takes_requests(id);
    let may_repeat = |(question, is_written): &(Question, bool)| {
        may_repeat(question, *is_written, now) && (takes_again || question.tag.is_read)
    };
    // What a step may have left behind is a mark, or the item that is the present one.
    let is_step =
        |lost: &(Question, bool)| matches!(lost.0.tag.asker, Asker::Step | Asker::Crossing);
    for lost in questions
        .iter()
        .filter(|lost| !may_repeat(lost) && !is_step(lost))
    {
        core.backends.note_missed_request(id, &lost.0);
    }
    catch_up_if_idle(core, now, id);
    for (question, is_written) in questions {
        let tag = question.tag;
        if tag.ask == Ask::Copies {
            ask_copies_elsewhere(core, now, &question);
            release(core, now, tag.client);
            continue;
        }
        let lost = (question, is_written);
        let may_repeat = may_repeat(&lost);
        let (mut question, is_written) = lost;
        if may_repeat && has_stragglers(core, &tag) {
            // What is parked goes to the home of its key in the end.
            if tag.has_key() {
                park(core, now, question);
            } else {
                fail(core, question, &unasked);
            }
        } else if may_repeat && takes_again && may_have_moved(core, &tag) {
            core.counts.stats.requests_resent += 1;
            question.tag.retries += 1;
            for question in key_by_key(question) {
                ask_by_stage(core, now, question);
            }
        } else if may_repeat && takes_again {
            core.counts.stats.requests_resent += 1;
            ask_again(core, now, question, Ok(id));
        } else if may_repeat {
            // A read that was not answered is one that was never asked.
            if let Some(question) = ask_elsewhere(core, now, question, &unasked) {
                fail_unasked(core, now, question, &unasked, Some(id));
            }
        } else if is_written {
            fail(core, question, &failure);
        } else {
            fail_unasked(core, now, question, &unasked, Some(id));
        }
        if tag.ask == Ask::Flush {
            end_round(core, now, (tag.client, tag.slot));
        }
        release(core, now, tag.client);
    }
}

/// Whether a request's key may be elsewhere by now, in a pool without a map: then it must not be put to the same server again.
fn may_have_moved(core: &ProxyCore, tag: &Tag) -> bool {
    core.pools.is_adaptive(tag.pool) && tag.asker == Asker::Client && tag.has_key()
}

/// Whether a request whose connection was lost may be put to the server again.
fn may_repeat(question: &Question, is_written: bool, now: Instant) -> bool {
    let Question { tag, progress, .. } = question;
    let untouched = match progress {
        Progress::Nothing | Progress::Shared(_) => true,
        Progress::Group(group) => group.done == 0,
        Progress::Answered | Progress::Moved(_) => false,
    };
    let harmless = tag.is_read || !is_written;
    let is_ours = tag.asker == Asker::CatchUp;
    harmless
        && untouched
        && !is_ours
        && !tag.is_replica
        && !tag.is_bound
        && tag.retries < RETRIES_MAX
        && now < tag.give_up
}

/// Whether the application sees the CAS unique of what a question for hot keys is about. The home is
/// asked for it in any case.
fn shows_cas(core: &mut ProxyCore, tag: &Tag) -> bool {
    let client = core.clients.get_mut(tag.client);
    let slot = client.and_then(|client| client.slot(tag.slot));
    slot.is_some_and(|slot| wants_of(slot.show).cas)
}

/// A read of a hot key is asked elsewhere, where its answer is compared with nothing.
fn abandon_hot_read(core: &mut ProxyCore, now: Instant, tag: &Tag) {
    if tag.ask == Ask::Hot {
        forget_ticket(core, now, tag);
    }
}
