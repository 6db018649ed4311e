//! The answer to a step between racks.

use crate::answer::done::done;
use crate::ids::BackendId;
use crate::pipe::in_flight::{Ask, Progress};
use crate::show::Unfit;
use crate::under_way::crossing::{quiet_answered, step_answered};
use crate::worker::ProxyCore;
use evenkeel_protocol::Reply;
use evenkeel_types::Instant;

/// A step is answered, or a part of the answer to a quiet one has come: nothing or a reply, and then `MN`.
#[inline(never)]
pub(crate) fn take_step(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<(), Unfit> {
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    let (_, request) = backend.awaited().ok_or(Unfit)?;
    let tag = request.tag;
    match (tag.ask, &request.progress, reply) {
        (Ask::Quiet, Progress::Answered, Reply::MetaNoop) => {}
        (Ask::Quiet, Progress::Nothing, Reply::MetaNoop) => quiet_answered(core, now, id, &tag)?,
        (Ask::Quiet, Progress::Nothing, reply) => {
            request.progress = Progress::Answered;
            return step_answered(core, now, Some(id), &tag, (reply, raw));
        }
        (Ask::Single, _, reply) => step_answered(core, now, Some(id), &tag, (reply, raw))?,
        _ => return Err(Unfit),
    }
    done(core, id);
    Ok(())
}
