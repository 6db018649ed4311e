//! What servers of pools of any memcached understand.
//!
//! What applications say in text is passed on in the words they chose. What they say in binary has to be
//! said in other words: the classic ones where these say it all, meta commands where they do not. The
//! answer to the greeting tells whether a server knows meta commands. A value in a meta command must
//! not be sent to one that does not: it would be read as commands. Meta commands of one line may be
//! tried, since they are answered with an error.
//!
//! Connections are made when they are needed first, and until then nothing is known. So the first
//! requests of a binary connection wait until the servers that were never asked have said who they are,
//! or could not be reached.

use crate::ids::ClientId;
use crate::pipe::capability::Capability;
use crate::routes::way::{WayKey, WayTo};
use crate::worker::ProxyCore;
use evenkeel_types::Instant;

/// What the server understands that a key goes to.
pub(crate) fn capability_of(core: &ProxyCore, way: &WayTo, key: WayKey<'_>) -> Capability {
    if way.as_meta() {
        return Capability::Meta;
    }
    let Some(pool) = core.pools.list(way.pool) else {
        return Capability::Unknown;
    };
    let to = way.place.unwrap_or_else(|| pool.home(key.stored));
    let backend = core.backends.get(to);
    backend.map_or(Capability::Unknown, |backend| backend.capability)
}

/// Greets the servers that were never asked anything, and says whether any of them is about to say
/// who it is. If so, the client is heard again when it has.
pub(crate) fn awaits_greetings(core: &mut ProxyCore, now: Instant, id: ClientId) -> bool {
    if core.backends.want_capability() {
        core.backends.greet_strangers(&mut core.outbox, now);
    }
    let awaits = core.backends.await_greetings();
    if awaits {
        core.clients.await_greetings(id);
    }
    awaits
}
