//! All who asked for one answer.

use crate::answer::shared::{NO_MEMORY, has_room_for_copy};
use crate::ids::BackendId;
use crate::pipe::in_flight::{Others, Progress, Tag};
use crate::show::Unfit;
use crate::under_way::release::release;
use crate::worker::ProxyCore;
use core::mem;
use evenkeel_protocol::{Reply, text};
use evenkeel_types::Instant;

/// Does something with the answer to the awaited request for anyone who asked it first, and then for each of those who joined, for
/// whom there may be no memory. If one cannot be done, those who are left share the request as before.
pub(crate) fn for_each_asker<'r>(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    said: (&'r Reply<'r>, &'r [u8]),
    deliver: impl Fn(&mut ProxyCore, Tag, (&Reply<'_>, &[u8])) -> Result<(), Unfit>,
) -> Result<(), Unfit> {
    let backend = core.backends.get_mut(id).ok_or(Unfit)?;
    let (_, request) = backend.awaited().ok_or(Unfit)?;
    let tag = request.tag;
    // Who asks because of what is shown now cannot join it any more.
    let mut others = match mem::replace(&mut request.progress, Progress::Answered) {
        Progress::Shared(others) => *others,
        _ => Others::new(),
    };
    let mut delivered = deliver(core, tag, said);
    while let (Ok(()), Some(&(client, slot))) = (delivered, others.last()) {
        let tag = Tag {
            client,
            slot,
            ..tag
        };
        delivered = match has_room_for_copy(core, said.1.len()) {
            true => deliver(core, tag, said),
            false => deliver(core, tag, (&NO_MEMORY, text::OUT_OF_MEMORY_WRITING)),
        };
        if delivered.is_ok() {
            others.pop();
            release(core, now, client);
        }
    }
    if delivered.is_err() {
        // The connection is given up, and with it what is left.
        let backend = core.backends.get_mut(id);
        let request = backend.and_then(|backend| Some(backend.awaited()?.1));
        if let Some(request) = request {
            request.progress = match others.is_empty() {
                true => Progress::Nothing,
                false => Progress::Shared(Box::new(others)),
            };
        }
    }
    delivered
}
