//! Steps of commands that were carried out between the racks of another pool: whose steps they are hears what they have come to.

use crate::crossings::CrossingId;
use crate::failure::Failure;
use crate::pipe::in_flight::{Progress, Question};
use crate::under_way::crossed::with_parsed;
use crate::under_way::fail::fail;
use crate::under_way::{crossing, operation};
use crate::worker::ProxyCore;
use evenkeel_types::Instant;

/// Tells what such steps have come to.
pub(crate) fn go_on_with_inner(core: &mut ProxyCore, now: Instant) {
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
