//! What is stored of hot keys at plain servers: copies of what their homes answer.

use crate::ids::{BackendId, PoolId};
use crate::pipe::in_flight::{Asker, Progress, Tag};
use crate::pool::MemcachedPool;
use crate::show;
use crate::show::Unfit;
use crate::under_way::put::put;
use crate::warm::{flags_of, is_stale};
use crate::worker::ProxyCore;
use evenkeel_hotkeys::plain::{Fill, Found, REPLICA_EXPTIME_SECS, Recaching};
use evenkeel_protocol::compose::request as ask;
use evenkeel_protocol::{LINE_LEN_MAX, MetaStatus, Reply, Store, StoreVerb, text};
use evenkeel_types::{Instant, KeyHash, Version};

/// Stores the copies that lack what the home has just answered.
pub(crate) fn fill_copies(
    core: &mut ProxyCore,
    now: Instant,
    pool_id: PoolId,
    key: &[u8],
    flags: u32,
    value: &[u8],
) {
    let hash = KeyHash::of(key);
    loop {
        let Some(pool) = core.pools.get_mut(pool_id) else {
            return;
        };
        let Some(fill) = (pool.hot.as_mut()).and_then(|hot| hot.poll_fill(now, hash)) else {
            return;
        };
        let servers = pool.list().map(MemcachedPool::backends);
        let Some(&to) = servers.and_then(|servers| servers.get(fill.server)) else {
            return;
        };
        let len_max = LINE_LEN_MAX + value.len() + text::CRLF.len();
        match core.admit(to, len_max) {
            Ok(to) => fill_copy(core, now, pool_id, to, &fill, key, (flags, value)),
            Err(_) => core.pools.copy_failed(now, pool_id, hash, fill.suffix),
        }
    }
}

fn fill_copy(
    core: &mut ProxyCore,
    now: Instant,
    pool: PoolId,
    to: BackendId,
    fill: &Fill,
    key: &[u8],
    (flags, value): (u32, &[u8]),
) {
    let tag = Tag {
        hash: KeyHash::of(key),
        is_replica: true,
        ..Tag::ours(Asker::Copy, pool, fill.suffix.into(), now)
    };
    let name = [fill.name.as_bytes(), key].concat();
    let store = Store {
        verb: StoreVerb::Set,
        key: &name,
        flags,
        exptime: REPLICA_EXPTIME_SECS.into(),
        value,
        noreply: false,
    };
    put(core, now, to, tag, Progress::Nothing, |out| {
        ask::store(out, &store);
        (0, 0)
    });
}

/// A server has answered to a replica that it was to store.
pub(crate) fn filled(
    core: &mut ProxyCore,
    now: Instant,
    tag: &Tag,
    reply: &Reply<'_>,
) -> Result<(), Unfit> {
    match reply {
        Reply::Stored => Ok(()),
        reply if show::is_error(reply) || matches!(reply, Reply::NotStored) => {
            core.counts.stats.replica_fills_refused += 1;
            core.pools
                .copy_failed(now, tag.pool, tag.hash, tag.slot as u8);
            Ok(())
        }
        _ => Err(Unfit),
    }
}

/// What an answer of the home says about the item.
pub(crate) fn found<'a>(reply: &Reply<'a>) -> Found<'a> {
    let meta = match reply {
        Reply::Value(value) => {
            return Found::Value {
                flags: value.flags,
                value: value.data,
                cas: value.cas,
                recaching: Recaching::Untold,
            };
        }
        Reply::End => return Found::Absent,
        Reply::Meta(meta) if meta.status == MetaStatus::Miss => return Found::Absent,
        Reply::Meta(meta) => meta,
        _ => return Found::Unknown,
    };
    let recaching = match is_stale(meta) {
        true => Recaching::Yes,
        false => Recaching::No,
    };
    let flags = flags_of(meta);
    let cas = meta.flags.unsigned(b'c').map(Version);
    match (meta.value, flags, cas) {
        (Some(value), Some(flags), cas) => Found::Value {
            flags,
            value,
            cas,
            recaching,
        },
        (_, _, Some(cas)) => Found::Unique { cas, recaching },
        _ => Found::Unknown,
    }
}
