//! Requests that are refused because their server cannot keep up.
//!
//! What a server's window keeps back waits in the proxy. A burst is waited out. But where the first of those that wait has
//! waited for longer than a goal all through a time of patience, more comes than the server can do, and a longer queue would only
//! make every answer late, until none is in time. Both are parts of the request timeout ([`WAIT_GOAL_DIVISOR`], [`PATIENCE_DIVISOR`]):
//! anyone who can wait longer for an answer can wait longer before it is refused. Then reads that have waited for longer than the goal are refused at once, and go on
//! being refused until the queue is short again. (Nichols and Jacobson, "Controlling queue delay", 2012, in the form of Maurer,
//! "Fail at scale", 2015.) The answer is `SERVER_ERROR overloaded`: not a miss, for what a cache cannot
//! serve its database can serve even less; and the server is not taken for a dead one.
//!
//! A queue of up to [`WAITING_MIN`] requests is not shortened, and writes wait for three quarters of the request timeout before they
//! are refused, as any request does in the end: a delete that is not executed leaves an old value. Anyone who writes that much is
//! slowed down before (`under_way/pace.rs`).
//!
//! One server's queue refuses its own requests only. Requests that were sent are never refused, so that each that is refused was certainly not
//! executed, and what is left keeps its order.

use crate::failure::Failure;
use crate::ids::BackendId;
use crate::pipe::backlog::{WAIT_GOAL_DIVISOR, WAITING_MIN};
use crate::pipe::in_flight::{Asker, Tag};
use crate::under_way::fail::{fail, forget_ticket};
use crate::under_way::release::release;
use crate::worker::ProxyCore;
use core::time::Duration;
use evenkeel_types::Instant;

/// Refuses what has waited too long for a server that cannot keep up.
pub(crate) fn shed(core: &mut ProxyCore, now: Instant, id: BackendId) {
    let Some(backend) = core.backends.get_mut(id) else {
        return;
    };
    let (waiting, since) = backend.waiting();
    let waited = since.map(|since| now.since(since));
    let timeout = backend.request_timeout;
    let (goal, longest) = (timeout / WAIT_GOAL_DIVISOR, timeout * 3 / 4);
    let mut spare = waiting.saturating_sub(WAITING_MIN);
    let is_too_long = backend
        .backlog
        .is_too_long(now, waited.filter(|_| spare > 0), timeout);
    if !is_too_long && waited.is_none_or(|waited| waited <= longest) {
        return;
    }
    let operations = &core.operations;
    let may_go = |tag: &Tag, waited: Duration| {
        // What has taken steps already goes on.
        let is_begun = operations.of_slot(tag.client, tag.slot).is_some();
        let is_ours = tag.asker != Asker::Client;
        let of_application = !is_ours && !is_begun && tag.has_key();
        let is_spare = is_too_long && tag.is_read && waited > goal && spare > 0;
        let goes = of_application && (is_spare || waited > longest);
        spare = spare.saturating_sub(goes.into());
        goes
    };
    for question in backend.take_waiting(now, may_go) {
        for question in question.split() {
            let tag = question.tag;
            core.counts.stats.requests_shed += 1;
            forget_ticket(core, now, &tag);
            fail(core, question, &Failure::Overloaded);
            release(core, now, tag.client);
        }
    }
}
