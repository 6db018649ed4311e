//! Copies in the own rack of what other racks hold: showing them, and keeping what was read there.
//!
//! What is shown and what is kept is decided in [`LocalCopies`](evenkeel_schemes::locality::local_copies). They are shown to `get` alone, which asks for no
//! unique: that of a copy is nobody's.

use crate::crossings::{Crossing, CrossingId, MayCopy, Met};
use crate::ids::PoolId;
use crate::pool::pools::Pools;
use crate::show::kinds::Show;
use crate::stats::counters::ProxyStats;
use crate::warm::{fetched, flags_of, is_stale};
use crate::worker::ProxyCore;
use evenkeel_protocol::compose::answer;
use evenkeel_protocol::{Reply, Value};
use evenkeel_schemes::locality::holder::{Machine, Next, Site, Wish};
use evenkeel_schemes::locality::local_copies::{FarRead, VALUE_MAX, tag};
use evenkeel_schemes::mark::Copied;
use evenkeel_types::{Instant, KeyHash};

/// Room for what else is in a `VALUE`: the word, two numbers, spaces and line ends.
const LINES_MAX: usize = 32;

/// What a mark that stands at the own place of a key is shown as: the item that it is a copy of, under the same name, and as a server would
/// send it. `None` where it is not to be shown.
pub(crate) fn shown_copy<'v>(
    (pools, stats): (&mut Pools, &mut ProxyStats),
    now: Instant,
    pool: PoolId,
    show: Show,
    mark: &Value<'v>,
) -> Option<(Value<'v>, Vec<u8>)> {
    let local = pools.local(pool).filter(|it| it.keeps())?;
    let copied = Copied::read(mark.data).filter(|_| may_show(show))?;
    let name = mark.key;
    if !local.copies.shows(hash_of(name), Some(copied.tag), now) {
        return None;
    }
    stats.local_copies_shown += 1;
    let mut raw = Vec::with_capacity(name.len() + copied.value.len() + LINES_MAX);
    answer::value(&mut raw, name, copied.flags, copied.value, None);
    let value = Value {
        key: name,
        flags: copied.flags,
        data: copied.value,
        cas: None,
    };
    Some((value, raw))
}

/// The tag of the copy that this mark is, if it is one.
pub(crate) fn copy_found(mark: &[u8]) -> Option<u64> {
    Copied::read(mark).map(|copied| copied.tag)
}

/// Whether an application that is shown a value so may be shown a copy.
fn may_show(show: Show) -> bool {
    matches!(
        show,
        Show::Value {
            with_cas: false,
            ..
        }
    )
}

/// Whether the answer to a read that goes on may be copied, and what is known for that.
pub(crate) fn may_copy(
    core: &mut ProxyCore,
    now: Instant,
    met: &Met,
    show: Show,
) -> Option<MayCopy> {
    let local = core.pools.local(met.pool).filter(|_| may_show(show))?;
    if !local.keeps() && local.copies.shows(hash_of(&met.key), None, now) {
        core.counts.stats.local_copies_saved += 1;
        return None;
    }
    Some(MayCopy {
        asked: now,
        met: met.copy,
    })
}

/// A read has been answered by a site: what is to be copied of that is kept until the read is over.
pub(crate) fn has_read(core: &mut ProxyCore, id: CrossingId, site: Site, reply: &Reply<'_>) {
    let Some(crossing) = core.crossings.get_mut(id) else {
        return;
    };
    let (Some(may), Site::Rack(holder), Reply::Meta(meta)) = (crossing.may_copy, site, reply)
    else {
        return;
    };
    let Some(value) = meta
        .value
        .filter(|_| site != crossing.racks.own() && !is_stale(meta))
    else {
        return;
    };
    if value.len() > VALUE_MAX {
        core.counts.stats.local_copies_too_long += 1;
        return;
    }
    let read = FarRead {
        tag: tag(flags_of(meta).unwrap_or(0), value),
        asked: may.asked,
        met: may.met,
    };
    let Some(local) = core.pools.local(crossing.question.tag.pool) else {
        return;
    };
    if local.copies.has_read(hash_of(&crossing.key), read) && local.keeps() {
        crossing.copy_of = Some(holder);
        core.crossings.keep(id, fetched(meta));
    }
}

/// A read is over: what is to be copied of its answer goes to the own place. `None` where nothing is.
pub(crate) fn begin_copy(crossing: &mut Crossing) -> Option<Next> {
    let holder = crossing.copy_of.take()?;
    let racks = &crossing.racks;
    let (machine, next) = Machine::of_copy(racks.kind, racks.racks, holder);
    crossing.machine = machine;
    Some(next)
}

/// A command between racks is about to be answered: copies of what a write has replaced are shown no more.
pub(crate) fn has_written(core: &mut ProxyCore, id: CrossingId) {
    let Some(crossing) = core.crossings.get(id) else {
        return;
    };
    if crossing.machine.wish() != Wish::Read
        && let Some(local) = core.pools.local(crossing.question.tag.pool)
    {
        local.copies.has_written(hash_of(&crossing.key), core.now);
    }
}

fn hash_of(name: &[u8]) -> u64 {
    KeyHash::of(name).0
}
