//! What servers answer to a flush.

use crate::answer::done::done;
use crate::ids::BackendId;
use crate::pipe::backend::Peer;
use crate::pipe::in_flight::Progress;
use crate::show;
use crate::show::Unfit;
use crate::under_way::flush::flush_answered;
use crate::worker::ProxyCore;
use evenkeel_protocol::Reply;
use evenkeel_types::Instant;

/// A server has answered a flush, or what it was asked behind it.
pub(crate) fn flush_reply(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<(), Unfit> {
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    let is_worker = matches!(backend.peer, Peer::Worker(_));
    let (_, request) = backend.awaited().ok_or(Unfit)?;
    let key = (request.tag.client, request.tag.slot);
    let known = match (&request.progress, reply) {
        (Progress::Nothing, reply) => {
            let is_refused = show::is_error(reply);
            if !is_refused && *reply != Reply::Ok {
                return Err(Unfit);
            }
            if is_worker {
                request.progress = Progress::Answered;
            }
            if is_refused {
                core.flushes.failed(key, raw.to_vec());
            }
            if is_worker {
                return Ok(());
            }
            None
        }
        (Progress::Answered, Reply::Hello(hello)) => Some((request.tag.pool, hello.epoch)),
        _ => return Err(Unfit),
    };
    done(core, id);
    flush_answered(core, now, key, known);
    Ok(())
}
