//! Where a key goes whose server is out of use, in pools of any memcached servers.
//!
//! # Where a key goes
//!
//! To the first server in use among those that the pool allows: the rest of the pool in the order that
//! the distribution gives the key, or the servers of another pool, the *gutter*. Reads and writes of a
//! key go to the same place, which depends on nothing but the key and which servers are in use. What is
//! stored there is given [`failover_ttl`](crate::PoolSettings::failover_ttl) to live at most.
//!
//! # Why nothing old is read
//!
//! An item can be out of date in two kinds of places.
//!
//! *At a server that was passed over.* Each write that passes over a server notes its key for it
//! (`pipe/invalidation_log.rs`), and so does each write whose outcome there is unknown. When the server comes back, the
//! noted keys are deleted there first, on the same connection and so in this order (`under_way/catch_up.rs`).
//!
//! *At the other place, once the server is back.* Nothing is deleted there. But nothing is read there
//! either before the server fails again, and if it does so before all that was stored there has expired
//! ([`is_expired`]), its keys are unavailable until then.
//!
//! Requests of one application connection keep their order: when a server comes into use or goes out of
//! it, a new era begins, in which a connection waits for what it has under way.
//!
//! All this is what one worker knows. Workers and proxies do not see a server fail at the same moment;
//! what one of them has stored elsewhere is not seen by another that still reaches the server.
//!
//! A compare-and-swap is refused elsewhere: two servers may give the same unique to different items.

use crate::config::Failover;
use crate::ids::{BackendId, PoolId};
use crate::pipe::backends::Backends;
use crate::pool::Servers;
use crate::pool::pools::Pools;
use core::time::Duration;
use evenkeel_types::Instant;

/// Where a key goes whose server is out of use.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    /// `None` if there is nowhere to go.
    pub place: Option<BackendId>,
    /// The servers that come before it: at least its own.
    pub passed_over: Vec<BackendId>,
    /// False if there is nowhere to go because a server was back for too short a time.
    pub is_expired: bool,
}

impl Pools {
    /// Where a key goes; `None` if its server is in use.
    pub fn elsewhere(
        &self,
        backends: &Backends,
        now: Instant,
        pool: PoolId,
        key: &[u8],
    ) -> Option<Elsewhere> {
        let found = self.get(pool)?;
        let Servers::Memcached(servers) = &found.servers else {
            return None;
        };
        let home = servers.home(key);
        if backends.is_in_use(home) {
            return None;
        }
        let mut elsewhere = Elsewhere {
            place: None,
            passed_over: vec![home],
            is_expired: true,
        };
        let stand_in = match found.settings.failover {
            Failover::None => None,
            Failover::Next => Some(found),
            Failover::Gutter(_) => found.gutter.and_then(|gutter| self.get(gutter)),
        };
        let Some(stand_in) = stand_in else {
            return Some(elsewhere);
        };
        let Servers::Memcached(servers) = &stand_in.servers else {
            return Some(elsewhere);
        };
        // What was on its way when a server came back arrived within the request timeout, or its
        // connection was given up and its place has missed it.
        let settings = &found.settings;
        let late = settings
            .request_timeout
            .max(stand_in.settings.request_timeout);
        let expiry = settings.failover_ttl + late;
        elsewhere.is_expired = is_expired(backends, now, home, expiry);
        for id in servers.candidates(key).filter(|&id| id != home) {
            if !elsewhere.is_expired {
                break;
            }
            if backends.is_in_use(id) {
                elsewhere.place = Some(id);
                break;
            }
            elsewhere.is_expired = is_expired(backends, now, id, expiry);
            elsewhere.passed_over.push(id);
        }
        Some(elsewhere)
    }
}

/// Whether all has expired that was stored in other places before a server came back, so that its
/// keys may go there again.
fn is_expired(backends: &Backends, now: Instant, id: BackendId, expiry: Duration) -> bool {
    let back_at = backends.get(id).and_then(|b| b.health.back_at());
    back_at.is_none_or(|at| now >= at + expiry)
}
