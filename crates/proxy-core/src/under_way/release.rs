//! Answers whose turn has come, on their way to applications.

use crate::answer::settle::lease_era;
use crate::client::{Answered, HeldRead, Show, Slot, State};
use crate::show::Tally;
use crate::{ClientId, ProxyCore, bytes, kept};
use core::mem;
use evenkeel_hotkeys::client::Verdict;
use evenkeel_types::Instant;

impl ProxyCore {
    /// Shows the application what its turn has come for.
    pub(crate) fn release(&mut self, now: Instant, id: ClientId) {
        let mut has_shown = false;
        loop {
            let Some(client) = self.clients.get_mut(id.0) else {
                return;
            };
            let Some(mut slot) = client.pop_answered() else {
                break;
            };
            let state = mem::replace(&mut slot.state, State::Waiting);
            let answered = match state {
                State::Text(words) => {
                    client.out().extend_from_slice(words);
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
                    let pool = self.pools.get_mut(id.0);
                    let era = lease_era(pool.as_deref(), self.era);
                    let verdict = match (slot.ticket.take(), pool) {
                        (Some((_, ticket)), Some(pool)) => {
                            pool.leases.release(now, era, ticket, answer)
                        }
                        _ => Verdict::Show,
                    };
                    match verdict {
                        Verdict::Show => answered,
                        Verdict::ShowKept(of, value) => {
                            self.stats.proxy_reads_kept += 1;
                            let shown_as = (slot.show, self.renames.get(slot.rename));
                            let kept = (of, value.as_deref());
                            let instead = kept::answered(shown_as, &question.bytes, kept);
                            bytes::keep_buffer(&mut self.spare, answered.bytes);
                            instead
                        }
                        Verdict::AskHome(ticket) => {
                            slot.ticket = Some((id, ticket));
                            client.unpop(slot);
                            self.keep_buffer(answered.bytes);
                            self.ask_home(now, question, answer);
                            continue;
                        }
                    }
                }
                State::Waiting | State::Flushing => {
                    unreachable!("only answered slots are popped")
                }
            };
            self.per_route.count(
                &mut self.stats,
                slot.route,
                answered.tally,
                answered.bytes.len(),
            );
            let bytes = client.show(slot.show, answered);
            self.keep_buffer(bytes);
            has_shown = true;
        }
        if has_shown && self.has_parked(id) {
            self.hurry_parked(now, id);
        }
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        if client.unread() > self.config.unread_max() {
            self.stats.proxy_clients_closed_unread += 1;
            return self.close_client(id);
        }
        if !client.output().is_empty() {
            self.write_client(id);
        }
        self.resume(id);
    }

    /// A fixed answer in its turn.
    pub(crate) fn say(&mut self, id: ClientId, words: &'static [u8]) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        if client.is_idle() {
            client.out().extend_from_slice(words);
            self.write_client(id);
        } else if !words.is_empty() {
            client.push(Slot::new(Show::Nothing, State::Text(words)));
        }
    }

    /// A composed answer in its turn.
    pub(crate) fn say_bytes(&mut self, id: ClientId, bytes: Vec<u8>) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        if client.is_idle() {
            client.out().extend_from_slice(&bytes);
            self.write_client(id);
            self.keep_buffer(bytes);
        } else {
            let answered = Answered {
                bytes,
                is_error: false,
                tally: Tally::Nothing,
            };
            client.push(Slot::new(Show::Nothing, State::Done(answered)));
        }
    }

    /// Closes the connection once everything asked for before is answered and written.
    pub(crate) fn close_after_answers(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        if client.is_idle() {
            client.closing = true;
        } else {
            client.push(Slot::new(Show::Nothing, State::Close));
        }
        // Nothing behind this is looked at.
        client.refuses_input = true;
        self.resume(id);
    }
}
