//! The quick way of plain answers to plain gets; see `request/quick.rs`.

use crate::bytes::Spare;
use crate::client::{Answered, Client, State};
use crate::composed::key_of_get;
use crate::counts::{Counts, Noted};
use crate::ids::{BackendId, RouteId};
use crate::output::Output;
use crate::pipe::backend::Link;
use crate::pipe::in_flight::{Ask, Group, Progress, SPACE};
use crate::pool::grain_counts::GrainCounts;
use crate::profile::Heard;
use crate::routes::RenameId;
use crate::show::kinds::Show;
use crate::show::put_value;
use crate::stats::counters::Tally;
use crate::under_way::park::hurry_parked;
use crate::under_way::profile::rack_of;
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
    let rack = core.counts.profiler.as_ref().map(|_| rack_of(backend));
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
    let crosses = core.pools.crosses();
    let mut shelf = Shelf {
        client,
        counts: &mut core.counts,
        spare: &mut core.spare,
        grains: core.pools.grains_of(request.tag.pool),
        heard: rack.map(|rack| Heard::of(&request.tag, rack)),
        crosses,
    };
    let taken = match &mut request.progress {
        Progress::Nothing => {
            let taken = shelf.one(
                (request.tag.slot, request.tag.hash.0),
                question,
                input,
                limits,
            )?;
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
        if core.clients.has_parked(client_id) {
            hurry_parked(core, now, client_id);
        }
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
    /// Of the pool that was asked, where it has a ring.
    grains: Option<&'c mut GrainCounts>,
    /// What is recorded of the answer, where any are recorded.
    heard: Option<Heard>,
    /// What is not there may be in another rack.
    crosses: bool,
}

/// How the application wants to see a value, and what else its place tells.
#[derive(Clone, Copy)]
struct Place {
    show: Show,
    /// What servers call its key.
    rename: RenameId,
    route: RouteId,
    note: Noted,
}

impl Shelf<'_> {
    /// The whole answer to a `get` of one key: its length.
    fn one(
        &mut self,
        (slot, hash): (u64, u64),
        question: &[u8],
        input: &[u8],
        limits: &Limits,
    ) -> Option<usize> {
        let place = self.place(slot)?;
        let Place { show, note, .. } = place;
        if input.starts_with(text::END) {
            if self.crosses {
                return None;
            }
            self.heard(note, question.len());
            self.carried(hash, Tally::GetMiss, question.len() + text::END.len());
            self.client.saw_answer(0);
            if self.client.is_front(slot) {
                self.counts.shown(place.route, note, Tally::GetMiss, 0);
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
        if !behind.starts_with(text::END) {
            return None;
        }
        let before_key = place.rename.before_key(key)?;
        self.heard(note, question.len());
        let value_len = len - before_key;
        let len = len + text::END.len();
        self.carried(hash, Tally::GetHit, question.len() + len);
        let is_alone = matches!(show, Show::Value { last: true, .. });
        if is_alone && self.client.is_front(slot) && self.client.get_failure.is_none() {
            put_value(self.client.out(), before_key, &input[..len]);
            self.client.pop_shown();
            self.client.saw_answer(len);
            self.counts
                .shown(place.route, note, Tally::GetHit, value_len);
            self.client.show_values(self.counts, self.spare);
        } else {
            self.put(slot, &place, before_key, value);
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
        while let Some((key, at)) = group.next() {
            let (rest, name) = (&input[taken..], &question[at]);
            let Some(place) = self.place(key.slot) else {
                break;
            };
            let Some(len) = scan_value_of(rest, name, limits) else {
                break;
            };
            let Some(before_key) = place.rename.before_key(name) else {
                break;
            };
            let asked = SPACE + name.len();
            self.carried(key.hash.into(), Tally::GetHit, asked + len);
            self.heard(place.note, asked);
            self.put(key.slot, &place, before_key, &rest[..len]);
            group.advance();
            taken += len;
        }
        (taken > 0).then_some(taken)
    }

    /// The place of a value; `None` if what it shows is none.
    #[inline(always)]
    fn place(&mut self, slot: u64) -> Option<Place> {
        let slot = self.client.slot(slot)?;
        let show @ Show::Value { .. } = slot.show else {
            return None;
        };
        Some(Place {
            show,
            rename: slot.rename,
            route: slot.route,
            note: slot.note,
        })
    }

    /// The place with this note is answered, to a request of this many bytes.
    #[inline(always)]
    fn heard(&mut self, note: Noted, asked: usize) {
        if let Some(heard) = &self.heard {
            self.counts.heard(note, asked, heard);
        }
    }

    /// The grain of a key, where it has one, has carried a read of this many bytes.
    #[inline]
    fn carried(&mut self, hash: u64, outcome: Tally, bytes: usize) {
        if let Some(grains) = &mut self.grains {
            grains.count(hash, true, outcome, bytes);
        }
    }

    /// Shows a value whose key has this many bytes before it, or keeps it for its turn.
    #[inline(always)]
    fn put(&mut self, slot: u64, place: &Place, before_key: usize, value: &[u8]) {
        let client = &mut *self.client;
        client.saw_answer(value.len());
        if client.is_front(slot) {
            put_value(client.out(), before_key, value);
            client.pop_shown();
            client.end_key(place.show);
            let bytes = value.len() - before_key;
            self.counts
                .shown(place.route, place.note, Tally::GetHit, bytes);
            client.show_values(self.counts, self.spare);
            return;
        }
        let mut bytes = self.spare.take();
        put_value(&mut bytes, before_key, value);
        let answered = Answered {
            bytes,
            is_error: false,
            tally: Tally::GetHit,
        };
        client.hold(slot, answered);
    }
}
