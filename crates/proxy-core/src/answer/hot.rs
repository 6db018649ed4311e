//! Answers about hot keys, and what is stored of them.

use crate::answer::askers::for_each_asker;
use crate::answer::copies::{fill_copies, found};
use crate::answer::done::done;
use crate::client::{Answered, HeldRead, State};
use crate::composed::key_of_get;
use crate::ids::BackendId;
use crate::pipe::in_flight::{Progress, Question, Tag};
use crate::pool::Pool;
use crate::pool::sent::wants_of;
use crate::routes::Rename;
use crate::show;
use crate::show::Unfit;
use crate::show::kinds::Show;
use crate::stats::counters::Tally;
use crate::under_way::again::ask_home;
use crate::worker::ProxyCore;
use evenkeel_hotkeys::client::{Answer, ClientLeases, ReadTicket, Verdict};
use evenkeel_hotkeys::plain::NAME_PREFIX_LEN;
use evenkeel_protocol::{Reply, Value};
use evenkeel_types::{Epoch, Instant, Version};

/// A part of the answer to a read of one hot key.
pub(crate) fn hot_reply(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<(), Unfit> {
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    let (question, request) = backend.awaited().ok_or(Unfit)?;
    let key = key_of_get(question).ok_or(Unfit)?;
    let is_end = matches!(reply, Reply::End) || show::is_error(reply);
    let outcome = match (reply, &request.progress) {
        (Reply::Value(_), _) | (Reply::End, Progress::Answered) => Tally::GetHit,
        (Reply::End, _) => Tally::GetMiss,
        _ => Tally::Refused,
    };
    request.saw(raw.len(), outcome);
    match (&request.progress, reply) {
        (Progress::Nothing | Progress::Shared(_), Reply::Value(value)) if *value.key == *key => {
            deliver_hot(core, now, id, reply, raw)?;
        }
        (Progress::Nothing | Progress::Shared(_), _) if is_end => {
            deliver_hot(core, now, id, reply, raw)?;
            done(core, id);
        }
        (Progress::Answered, _) if is_end => done(core, id),
        _ => return Err(Unfit),
    }
    Ok(())
}

fn deliver_hot(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<(), Unfit> {
    for_each_asker(core, now, id, (reply, raw), |core, tag, (reply, raw)| {
        deliver_hot_for(core, now, id, tag, reply, raw)
    })
}

/// The value, or that there is none, or why there is no answer, for one of those who asked: shows it,
/// keeps it for its turn, or asks the home.
fn deliver_hot_for(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    tag: Tag,
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<(), Unfit> {
    let era = core.plain_era();
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    let asked = backend.asked();
    let (question, _) = backend.awaited().ok_or(Unfit)?;
    let key = key_of_get(question).ok_or(Unfit)?;
    let (name, key) = if tag.is_replica {
        key.split_at_checked(NAME_PREFIX_LEN).ok_or(Unfit)?
    } else {
        (&b""[..], key)
    };
    let Some(client) = core.clients.get_mut(tag.client) else {
        return Ok(());
    };
    // An application that wanted what was there in time has been answered, and the ticket was given back.
    let Some(slot) = client.slot(tag.slot) else {
        return Ok(());
    };
    let (shown_as, rename) = (slot.show, core.routing.renames.get(slot.rename));
    let (route, note) = (slot.route, slot.note);
    let Some((_, mut ticket)) = slot.ticket.take() else {
        return Ok(());
    };
    // The answer counts from when the first was asked, also for those who joined later. That is unknown if the request timeout has changed since.
    if let Some(asked) = asked {
        ticket.shares(asked);
    }
    let pool = core.pools.get_mut(tag.pool).ok_or(Unfit)?;
    let Pool { hot, leases, .. } = pool;
    let mut hot = hot.as_deref_mut();
    let own_cas = match reply {
        Reply::Value(value) => value.cas,
        _ => None,
    };
    let (answer, cas) = match (hot.as_deref_mut(), reply) {
        (_, reply) if show::is_error(reply) => (Answer::Failed, None),
        (Some(hot), _) if tag.is_replica => {
            let is_found = matches!(reply, Reply::Value(_));
            hot.answer_of_copy(&ticket, name, is_found, wants_of(shown_as))
        }
        (Some(hot), reply) => {
            let is_current = leases.is_of(era, &ticket) && asked.is_some();
            let answer = hot.answer_of_home(is_current, &ticket, key, found(reply));
            (answer, own_cas)
        }
        // Not looked for any more, so that an era has begun, by which the answer does not count.
        (None, _) if tag.is_replica => (Answer::Failed, None),
        (None, _) => (Answer::Hit(Version(0)), own_cas),
    };
    let has_fill = hot.is_some_and(|hot| hot.has_fill(now, tag.hash));
    let fill = (has_fill && !tag.is_replica).then(|| key.to_vec());
    core.counts.stats.replica_hits += u64::from(tag.is_replica && matches!(answer, Answer::Hit(_)));
    client.saw_answer(raw.len());
    if tag.is_replica && answer == Answer::Failed {
        let again = at_home(leases, now, era, &tag, ticket);
        if let Some(slot) = client.slot(tag.slot) {
            slot.ticket = Some((tag.pool, again));
        }
        let question = Question {
            tag,
            bytes: question.to_vec(),
            progress: Progress::Nothing,
        };
        ask_home(core, now, question, answer);
        return Ok(());
    }
    let is_front = client.is_front(tag.slot);
    let mut may_show = is_front && !show::is_error(reply);
    let mut ticket = Some(ticket);
    if may_show
        && let Some(released) = ticket.take()
        && let Verdict::AskHome(again) = leases.release(now, era, released, answer)
    {
        may_show = false;
        ticket = Some(again);
    }
    let shown = Shown {
        shown_as,
        rename,
        key,
        cas,
    };
    if may_show {
        let out = client.out();
        let before = out.len();
        let tally = shown.compose(out, question, reply, raw)?;
        let bytes = out.len() - before;
        core.counts.shown(route, note, tally, bytes);
        client.pop();
        client.end_key(shown_as);
        core.clients.write(&mut core.outbox, tag.client);
        if let (Some(key), Reply::Value(value)) = (fill, reply) {
            fill_copies(core, now, tag.pool, &key, value.flags, value.data);
        }
        return Ok(());
    }
    let asks_home = is_front && !show::is_error(reply);
    let mut bytes = core.spare.take();
    let tally = match asks_home {
        true => Tally::Nothing,
        false => shown.compose(&mut bytes, question, reply, raw)?,
    };
    let question = Question {
        tag,
        bytes: question.to_vec(),
        progress: Progress::Nothing,
    };
    if let Some(slot) = client.slot(tag.slot) {
        slot.ticket = ticket.map(|ticket| (tag.pool, ticket));
    }
    if asks_home {
        core.spare.keep(bytes);
        ask_home(core, now, question, answer);
    } else {
        let answered = Answered {
            bytes,
            is_error: show::is_error(reply),
            tally,
        };
        let held = HeldRead {
            answered,
            answer,
            question,
        };
        client.set_state(tag.slot, State::Read(Box::new(held)));
    }
    if let (Some(key), Reply::Value(value)) = (fill, reply) {
        fill_copies(core, now, tag.pool, &key, value.flags, value.data);
    }
    Ok(())
}

/// What a copy says that does not count is shown to nobody. The home is asked at once, as by a read that begins now: reads that waited for their
/// turn with that would ask it one after the other.
pub(crate) fn at_home(
    leases: &mut ClientLeases,
    now: Instant,
    era: Epoch,
    tag: &Tag,
    ticket: ReadTicket,
) -> ReadTicket {
    let again = leases.home_read(now, era, (tag.hash, tag.client.connection()));
    leases.abandon(now, ticket);
    again
}

/// What the application gets to see of a key.
struct Shown<'a> {
    shown_as: Show,
    rename: Option<&'a Rename>,
    /// The servers' name of the key, whatever the copy is called.
    key: &'a [u8],
    /// The home's CAS unique.
    cas: Option<Version>,
}

impl Shown<'_> {
    fn compose(
        &self,
        out: &mut Vec<u8>,
        question: &[u8],
        reply: &Reply<'_>,
        raw: &[u8],
    ) -> Result<Tally, Unfit> {
        let Shown {
            shown_as,
            rename,
            key,
            cas,
        } = *self;
        match (reply, shown_as) {
            (Reply::Value(value), Show::Value { with_cas, .. }) => {
                let cas = match with_cas {
                    true => Some(cas.ok_or(Unfit)?),
                    false => None,
                };
                show::named_value(out, rename, &Value { key, cas, ..*value });
                Ok(Tally::GetHit)
            }
            (Reply::Value(value), _) => {
                let reply = Reply::Value(Value { key, cas, ..*value });
                show::compose(out, shown_as, rename, question, &reply, raw)
            }
            (Reply::End, Show::Binary(echo)) => {
                show::binary::miss(out, echo, rename, question);
                Ok(Tally::GetMiss)
            }
            (Reply::End, _) => Ok(Tally::GetMiss),
            _ => {
                out.extend_from_slice(&show::refusal(shown_as, raw.to_vec()));
                Ok(Tally::Refused)
            }
        }
    }
}
