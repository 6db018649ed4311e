//! What is particular to the words in which servers are asked.

use crate::failure::MARK_FLAGS;
use crate::ids::ClientId;
use crate::request::way::refuse;
use crate::routes::way::WayTo;
use crate::show::kinds::Show;
use crate::worker::ProxyCore;
use evenkeel_protocol::compose::MetaLine;
use evenkeel_schemes::mark;
use evenkeel_types::Instant;

/// Commands other than meta ones take no part in recaching. Servers without the extension have no word for that.
pub(crate) fn unaware_of_recaching<'o>(line: MetaLine<'o>, way: &WayTo) -> MetaLine<'o> {
    match way.is_extended() {
        true => line.flag(b'A'),
        false => line,
    }
}

/// Refuses a store with client flags that say that an item is ours, in a pool that has such. True if it did.
pub(crate) fn refuses_mark(
    core: &mut ProxyCore,
    now: Instant,
    id: ClientId,
    way: &WayTo,
    show: Show,
    flags: u32,
) -> bool {
    if !way.has_marks() || !mark::is_mark(flags) {
        return false;
    }
    core.counts.stats.flags_reserved += 1;
    core.counts.routes.count_error(way.route);
    refuse(core, now, id, show, MARK_FLAGS);
    true
}
