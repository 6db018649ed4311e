//! The quick way of plain answers to plain gets; see `request/quick.rs`.

use crate::bytes::Spare;
use crate::client::{Answered, Client, State};
use crate::composed::key_of_get;
use crate::ids::{BackendId, RouteId};
use crate::output::Output;
use crate::pipe::backend::Link;
use crate::pipe::in_flight::{Ask, Group, Progress};
use crate::routes::RenameId;
use crate::show::kinds::Show;
use crate::stats::counters::Tally;
use crate::stats::counts::Counts;
use crate::under_way::release::release;
use crate::worker::ProxyCore;
use core::mem;
use evenkeel_protocol::{Limits, scan_value_of, text};
use evenkeel_types::Instant;

/// Takes what `input` begins with as answers to awaited gets, as far as they are plain. Returns how
/// many bytes of it are done with; the rest is for the parser.
#[inline]
pub(crate) fn quick_values(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    input: &[u8],
    limits: &Limits,
) -> usize {
    let mut taken = 0;
    while let Some(count) = quick_answer(core, now, id, &input[taken..], limits) {
        taken += count;
    }
    taken
}

/// One answer, or some values of one.
#[inline]
fn quick_answer(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    input: &[u8],
    limits: &Limits,
) -> Option<usize> {
    let backend = core.backends.get_mut(id)?;
    if backend.link != Link::Ready {
        return None;
    }
    let took = match &core.log {
        Some(_) => backend.took(now),
        None => None,
    };
    let (question, request) = backend.awaited()?;
    if request.tag.ask != Ask::Values {
        return None;
    }
    let client_id = request.tag.client;
    if let Some(log) = &core.log
        && log.picks(took)
    {
        return None;
    }
    let client = core.clients.get_mut(client_id)?;
    let mut shelf = Shelf {
        client,
        counts: &mut core.counts,
        spare: &mut core.spare,
    };
    let taken = match &mut request.progress {
        Progress::Nothing => {
            let taken = shelf.one(request.tag.slot, question, input, limits)?;
            backend.answered();
            backend.measure(now, &mut shelf.counts.routes);
            backend.drop_awaited();
            if let Some(log) = &mut core.log {
                log.pass();
            }
            taken
        }
        Progress::Group(group) => {
            let taken = shelf.some(group, question, input, limits)?;
            request.saw(taken, Tally::GetHit);
            taken
        }
        Progress::Answered | Progress::Moved(_) | Progress::Shared(_) => return None,
    };
    let is_retired = backend.retired;
    let client = shelf.client;
    if client.has_more_to_do() || client.unread() > core.config.unread_max() {
        release(core, now, client_id);
    } else if !client.output().is_empty() && !mem::replace(&mut client.write_queued, true) {
        core.outbox.push(Output::WriteClient(client_id));
    }
    if is_retired {
        core.close_if_retired(id);
    }
    Some(taken)
}

/// Where the values of one client go.
struct Shelf<'c> {
    client: &'c mut Client,
    counts: &'c mut Counts,
    spare: &'c mut Spare,
}

impl Shelf<'_> {
    /// The whole answer to a `get` of one key: its length.
    fn one(&mut self, slot: u64, question: &[u8], input: &[u8], limits: &Limits) -> Option<usize> {
        let (show, route) = self.shown_as(slot)?;
        if input.starts_with(text::END) {
            self.client.saw_answer(0);
            if self.client.is_front(slot) {
                self.counts.shown(route, Tally::GetMiss, 0);
                self.client.pop_shown();
                self.client.end_key(show);
            } else {
                self.client.set_state(slot, State::Done(Answered::miss()));
            }
            return Some(text::END.len());
        }
        let key = key_of_get(question)?;
        let len = scan_value_of(input, key, limits)?;
        let (value, behind) = input.split_at(len);
        let value_len = len;
        if !behind.starts_with(text::END) {
            return None;
        }
        let len = len + text::END.len();
        let is_alone = matches!(show, Show::Value { last: true, .. });
        if is_alone && self.client.is_front(slot) && self.client.get_failure.is_none() {
            self.client.out().extend_from_slice(&input[..len]);
            self.client.pop_shown();
            self.client.saw_answer(len);
            self.counts.shown(route, Tally::GetHit, value_len);
            self.client.show_values(self.counts, self.spare);
        } else {
            self.put(slot, (show, route), value);
        }
        Some(len)
    }

    /// Values of the answer to a `get` of several keys, as far as none is missed: their length.
    fn some(
        &mut self,
        group: &mut Group,
        question: &[u8],
        input: &[u8],
        limits: &Limits,
    ) -> Option<usize> {
        let mut taken = 0;
        while let Some((slot, place)) = group.next() {
            let rest = &input[taken..];
            let Some(shown) = self.shown_as(slot) else {
                break;
            };
            let Some(len) = scan_value_of(rest, &question[place], limits) else {
                break;
            };
            self.put(slot, shown, &rest[..len]);
            group.advance();
            taken += len;
        }
        (taken > 0).then_some(taken)
    }

    /// How the application wants to see a value that it knows by the name that servers know, and its route.
    #[inline]
    fn shown_as(&mut self, slot: u64) -> Option<(Show, RouteId)> {
        let slot = self.client.slot(slot)?;
        let is_plain = slot.rename == RenameId::NONE;
        matches!(slot.show, Show::Value { .. } if is_plain).then_some((slot.show, slot.route))
    }

    /// Shows a value, or keeps it for its turn.
    #[inline]
    fn put(&mut self, slot: u64, (show, route): (Show, RouteId), value: &[u8]) {
        let client = &mut *self.client;
        client.saw_answer(value.len());
        if client.is_front(slot) {
            client.out().extend_from_slice(value);
            client.pop_shown();
            client.end_key(show);
            self.counts.shown(route, Tally::GetHit, value.len());
            client.show_values(self.counts, self.spare);
            return;
        }
        let mut bytes = self.spare.take();
        bytes.extend_from_slice(value);
        let answered = Answered {
            bytes,
            is_error: false,
            tally: Tally::GetHit,
        };
        client.hold(slot, answered);
    }
}
