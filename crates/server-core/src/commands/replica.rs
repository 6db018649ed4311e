//! `mg`, `ms` and `md` with flag `G`: what a shadow does with replicas of other homes' keys.

use crate::shard::engine::{At, Engine};
use crate::shard::replicas::{NewReplica, ReplicaStored, replica_expiry};
use crate::shard::time::{NEVER, Seconds};
use evenkeel_protocol::compose::answer::{self, ItemFacts};
use evenkeel_protocol::{Meta, MetaStatus, text};
use evenkeel_types::{Epoch, Version};

/// Answers `mg` with `G` at a shadow: from the replica index, never from the keys it is home of.
pub fn replica_get(engine: &mut Engine, at: &At, key: &[u8], meta: &Meta<'_>, out: &mut Vec<u8>) {
    engine.counters.cmd_meta += 1;
    match engine.replicas.get(key, at.seconds) {
        Some(replica) => {
            engine.hot.handle_replica_read(replica.value.len());
            engine.counters.replica_hits += 1;
            let facts = ItemFacts {
                value_len: replica.value.len(),
                version: replica.version,
                flags: replica.flags,
                win_sent: replica.win_sent,
                ..ItemFacts::default()
            };
            if meta.flags.has(b'v') {
                let line = answer::meta_value(out, facts.value_len);
                answer::item_flags(line, meta, key, &facts).end_with(replica.value);
            } else {
                let line = answer::meta(out, MetaStatus::Done);
                answer::item_flags(line, meta, key, &facts).end();
            }
        }
        None => {
            engine.hot.handle_replica_read(0);
            engine.counters.replica_misses += 1;
            answer::echo_flags(answer::meta(out, MetaStatus::Miss), meta, key).end();
        }
    }
}

/// Answers `ms` with `G` at a shadow: a home sends a copy. `HD` when the replica is as new now.
pub fn replica_set(
    engine: &mut Engine,
    at: &At,
    key: &[u8],
    meta: &Meta<'_>,
    lifetime_s: Seconds,
    out: &mut Vec<u8>,
) {
    engine.hot.handle_replica_order(meta.value.len());
    let flags = &meta.flags;
    let item_expiry = flags
        .exptime(b'T')
        .map_or(NEVER, |exptime| engine.time.expiry(at.now, exptime));
    let new = NewReplica {
        key,
        value: meta.value,
        flags: flags.client_flags().unwrap_or(0),
        epoch: Epoch(flags.unsigned(b'Y').unwrap_or(0)),
        version: Version(flags.unsigned(b'E').unwrap_or(0)),
        win_sent: flags.has(b'I'),
        expires_at: replica_expiry(item_expiry, at.seconds, lifetime_s),
    };
    let status = match engine.replicas.store(&new, at.seconds) {
        ReplicaStored::Yes => {
            engine.counters.replica_stores += 1;
            MetaStatus::Done
        }
        ReplicaStored::Older => {
            engine.counters.replica_refused_old += 1;
            MetaStatus::NotStored
        }
        ReplicaStored::NoRoom => {
            engine.counters.store_no_memory += 1;
            return out.extend_from_slice(text::OUT_OF_MEMORY);
        }
    };
    answer::meta(out, status).end();
}

/// Answers `md` with `G` at a shadow: a home takes a copy back, or with `I` blocks it.
pub fn replica_delete(
    engine: &mut Engine,
    at: &At,
    key: &[u8],
    meta: &Meta<'_>,
    lifetime_s: Seconds,
    out: &mut Vec<u8>,
) {
    engine.hot.handle_replica_order(0);
    let epoch = Epoch(meta.flags.unsigned(b'Y').unwrap_or(0));
    let version = Version(meta.flags.unsigned(b'E').unwrap_or(0));
    let gone = if meta.flags.has(b'I') {
        let until = replica_expiry(NEVER, at.seconds, lifetime_s);
        (engine.replicas).block(key, epoch, version, until, at.seconds)
    } else {
        engine.replicas.remove(key, epoch, version, at.seconds)
    };
    engine.counters.replica_deletes += u64::from(gone);
    let status = if gone {
        MetaStatus::Done
    } else {
        MetaStatus::NotStored
    };
    answer::meta(out, status).end();
}
