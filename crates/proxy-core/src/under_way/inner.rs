//! Commands that take several steps go on; among them those whose steps are commands between the racks of another pool.

use crate::crossings::CrossingId;
use crate::failure::Failure;
use crate::pipe::in_flight::{Progress, Question};
use crate::under_way::crossed::with_parsed;
use crate::under_way::crossing::go_on_with_crossings;
use crate::under_way::fail::fail;
use crate::under_way::operation::go_on_with_failed;
use crate::under_way::{crossing, operation};
use crate::worker::ProxyCore;
use evenkeel_types::Instant;

/// Tells commands what their steps have come to that no server has answered, until none has anything to hear: what one comes to may be another's step.
pub(crate) fn go_on_with_steps(core: &mut ProxyCore, now: Instant) {
    loop {
        go_on_with_failed(core, now);
        go_on_with_crossings(core, now);
        go_on_with_inner(core, now);
        if !core.operations.has_failed() && !core.crossings.has_more_to_hear() {
            return;
        }
    }
}

/// Tells commands what those of their steps have come to that were executed between racks.
fn go_on_with_inner(core: &mut ProxyCore, now: Instant) {
    while let Some((tag, raw)) = core.crossings.pop_step() {
        let heard = with_parsed(&raw, |reply| match CrossingId::of_step(&tag) {
            Some(_) => crossing::step_answered(core, now, None, &tag, (reply, &raw)),
            None => operation::step_answered(core, now, None, &tag, reply),
        });
        if heard.is_err() {
            let question = Question {
                tag,
                bytes: Vec::new(),
                progress: Progress::Nothing,
            };
            fail(core, question, &Failure::Former);
        }
    }
}
