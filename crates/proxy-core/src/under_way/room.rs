//! Whether copies may be stored at a server: as much of its memory as this worker may fill.

use crate::ids::{BackendId, PoolId};
use crate::operations::OperationId;
use crate::pipe::room::{FillBound, Room};
use crate::worker::ProxyCore;
use evenkeel_schemes::copies::HEADER_LEN;
use evenkeel_types::Instant;

/// Whether a server has room for a copy with this name. What is copied is not known yet: it may be the smallest value.
pub(crate) fn has_room(
    core: &mut ProxyCore,
    now: Instant,
    (pool, at): (PoolId, BackendId),
    name: &[u8],
) -> bool {
    let len = name.len() + HEADER_LEN;
    room_at(core, pool, at).is_some_and(|(room, bound)| room.fits(now, bound, len))
}

/// Whether there is room for the copy that an operation is about to store, whose value with its header has this many bytes. If so, it is taken.
pub(crate) fn take_room(core: &mut ProxyCore, now: Instant, id: OperationId, len: usize) -> bool {
    let Some(operation) = core.operations.get(id) else {
        return false;
    };
    let (pool, len) = (operation.former, operation.key.len() + len);
    let Some((_, at)) = operation.homes[0] else {
        return false;
    };
    let takes = room_at(core, pool, at).is_some_and(|(room, bound)| room.take(now, bound, len));
    if let (false, Some((bundled, _))) = (takes, core.pools.bundled(pool)) {
        bundled.counts.fills_left_out += 1;
    }
    takes
}

/// What is stored of a pool's copies at a server, and how much may be.
fn room_at(core: &mut ProxyCore, pool: PoolId, at: BackendId) -> Option<(&mut Room, FillBound)> {
    let (bundled, _) = core.pools.bundled(pool)?;
    let bound = bundled.fill_bound()?;
    Some((core.backends.get_mut(at)?.room.as_mut()?, bound))
}
