//! Saying what no server is asked for, in its turn, and closing connections of applications.

use crate::client::{Answered, Slot, State};
use crate::ids::ClientId;
use crate::output::Output;
use crate::show;
use crate::show::kinds::Show;
use crate::stats::counters::Tally;
use crate::worker::ProxyCore;
use evenkeel_protocol::binary::Echo;

/// A packet in its turn.
pub(crate) fn say_in_binary(core: &mut ProxyCore, id: ClientId, write: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = core.spare.take();
    write(&mut bytes);
    say_bytes(core, id, bytes);
}

/// Answers a binary request with what was said of it in text.
pub(crate) fn refuse_in_binary(core: &mut ProxyCore, id: ClientId, echo: Echo, words: &[u8]) {
    say_in_binary(core, id, |out| show::binary::refuse(out, echo, words));
}

/// A fixed answer in its turn.
pub(crate) fn say(core: &mut ProxyCore, id: ClientId, words: &'static [u8]) {
    let Some(client) = core.clients.get_mut(id) else {
        return;
    };
    if client.is_idle() {
        client.out().extend_from_slice(words);
        core.clients.write(&mut core.outbox, id);
    } else if !words.is_empty() {
        client.push(Slot::new(Show::Nothing, State::Text(words)));
    }
}

/// A composed answer in its turn.
pub(crate) fn say_bytes(core: &mut ProxyCore, id: ClientId, bytes: Vec<u8>) {
    let Some(client) = core.clients.get_mut(id) else {
        return;
    };
    if client.is_idle() {
        client.out().extend_from_slice(&bytes);
        core.clients.write(&mut core.outbox, id);
        core.spare.keep(bytes);
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
pub(crate) fn close_after_answers(core: &mut ProxyCore, id: ClientId) {
    let Some(client) = core.clients.get_mut(id) else {
        return;
    };
    if client.is_idle() {
        client.closing = true;
    } else {
        client.push(Slot::new(Show::Nothing, State::Close));
    }
    // Nothing behind this is looked at.
    client.refuses_input = true;
    resume(core, id);
}

/// Answers were written or have arrived: requests that waited may go on, and a connection that
/// was only waiting for its last answers is closed.
pub(crate) fn resume(core: &mut ProxyCore, id: ClientId) {
    let era = core.era;
    let Some(client) = core.clients.get_mut(id) else {
        return;
    };
    if client.closing && client.is_idle() && client.output().is_empty() {
        return close_client(core, id);
    }
    if client.stalled && client.may_ask(era, core.out_pause) {
        client.stalled = false;
        core.clients.feed(&mut core.outbox, id);
    }
}

pub(crate) fn close_client(core: &mut ProxyCore, id: ClientId) {
    if forget_client(core, id) {
        core.outbox.push(Output::CloseClient(id));
    }
}

/// Forgets a connection of an application, and that its reads are in flight. False if it was
/// forgotten before.
pub(crate) fn forget_client(core: &mut ProxyCore, id: ClientId) -> bool {
    let Some(client) = core.clients.remove(id) else {
        return false;
    };
    let counts = &mut core.counts;
    client.slots().for_each(|slot| counts.forget(slot.note));
    for (pool, ticket) in client.into_tickets() {
        core.pools.abandon(core.now, pool, ticket);
    }
    true
}
