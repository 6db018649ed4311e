//! What came of looking at input.

use crate::ids::ClientId;
use crate::under_way::say::close_after_answers;
use crate::worker::ProxyCore;
use core::mem;

/// What came of looking at a client's input.
pub(crate) enum Step {
    /// This many bytes are done with.
    Consumed(usize),
    /// Nothing more for now.
    Wait,
}

pub(crate) fn drop_all(input: &[u8]) -> Step {
    match input.len() {
        0 => Step::Wait,
        count => Step::Consumed(count),
    }
}

/// What comes next waits for answers, or for room.
pub(crate) fn stall(core: &mut ProxyCore, id: ClientId) -> Step {
    if let Some(client) = core.clients.get_mut(id)
        && !mem::replace(&mut client.stalled, true)
    {
        core.counts.stats.client_pauses += 1;
    }
    Step::Wait
}

/// Half a request has come.
pub(crate) fn wait_for(core: &mut ProxyCore, id: ClientId, total: usize) -> Step {
    if let Some(client) = core.clients.get_mut(id) {
        client.need = total;
        if client.ended {
            close_after_answers(core, id);
        }
    }
    Step::Wait
}
