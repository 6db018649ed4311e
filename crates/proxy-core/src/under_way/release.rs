//! Answers whose turn has come, on their way to applications.

use crate::client::{Answered, HeldRead, State};
use crate::ids::ClientId;
use crate::pool::lease_era;
use crate::stats::counters::Tally;
use crate::under_way::again::ask_home;
use crate::under_way::park::hurry_parked;
use crate::under_way::say::{close_client, resume};
use crate::value_bytes;
use crate::worker::ProxyCore;
use core::mem;
use evenkeel_hotkeys::client::Verdict;
use evenkeel_types::Instant;

/// Shows the application what its turn has come for.
pub(crate) fn release(core: &mut ProxyCore, now: Instant, id: ClientId) {
    let mut has_shown = false;
    loop {
        let Some(client) = core.clients.get_mut(id) else {
            return;
        };
        let Some(mut slot) = client.pop_answered() else {
            break;
        };
        let state = mem::replace(&mut slot.state, State::Waiting);
        let answered = match state {
            State::Text(words) => {
                client.out().extend_from_slice(words);
                core.counts.end_note(slot.note, Tally::Nothing, words.len());
                continue;
            }
            State::Close => {
                client.closing = true;
                continue;
            }
            State::Done(answered) => answered,
            State::Read(held) => {
                let HeldRead {
                    answered,
                    answer,
                    question,
                } = *held;
                let id = question.tag.pool;
                let pool = core.pools.get_mut(id);
                let era = lease_era(pool.as_deref(), core.era);
                let verdict = match (slot.ticket.take(), pool) {
                    (Some((_, ticket)), Some(pool)) => {
                        pool.leases.release(now, era, ticket, answer)
                    }
                    _ => Verdict::Show,
                };
                match verdict {
                    Verdict::Show => answered,
                    Verdict::ShowKept(of, value) => {
                        core.counts.stats.reads_kept += 1;
                        let shown_as = (slot.show, core.routing.renames.get(slot.rename));
                        let kept = (of, value.as_deref());
                        let instead = value_bytes::answered(shown_as, &question.bytes, kept);
                        core.spare.keep(answered.bytes);
                        instead
                    }
                    Verdict::AskHome(ticket) => {
                        slot.ticket = Some((id, ticket));
                        client.unpop(slot);
                        core.spare.keep(answered.bytes);
                        ask_home(core, now, question, answer);
                        continue;
                    }
                }
            }
            State::Waiting | State::Flushing => {
                unreachable!("only answered slots are popped")
            }
        };
        let (tally, bytes) = (answered.tally, answered.bytes.len());
        core.counts.shown(slot.route, slot.note, tally, bytes);
        let bytes = client.show(slot.show, answered);
        core.spare.keep(bytes);
        has_shown = true;
    }
    if has_shown && core.clients.has_parked(id) {
        hurry_parked(core, now, id);
    }
    let Some(client) = core.clients.get_mut(id) else {
        return;
    };
    if mem::take(&mut client.limited_ripe) {
        // It goes on when nothing else is being done: behind the answers that have come with this one, or else when time is looked at.
        core.limited_due.ripen(id);
        core.outbox.due_at(core.now);
    }
    if client.unread() > core.config.unread_max() {
        core.counts.stats.clients_closed_unread += 1;
        return close_client(core, id);
    }
    if !client.output().is_empty() {
        core.clients.write(&mut core.outbox, id);
    }
    resume(core, id);
}

/// Puts the answer to what was asked of the process into its place.
pub(crate) fn fill(core: &mut ProxyCore, now: Instant, id: ClientId, slot: u64, bytes: Vec<u8>) {
    if let Some(client) = core.clients.get_mut(id) {
        let answered = Answered {
            bytes,
            is_error: false,
            tally: Tally::Nothing,
        };
        client.set_state(slot, State::Done(answered));
    }
    release(core, now, id);
}
