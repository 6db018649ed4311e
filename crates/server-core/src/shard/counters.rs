//! What a worker counts. Plain fields: a worker's counters are its own, and are only added up when
//! somebody asks.

use evenkeel_hotkeys::ages::{AGE_WORDS, Ages};

macro_rules! counters {
    ($($(#[$meta:meta])* $name:ident),* $(,)?) => {
        /// Counts of one worker since its start (or the last `stats reset`), or the sum over several.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$meta])* pub $name: u64,)*
            /// How long writes to replicated keys took until every replica was known to have them.
            pub copies_behind: Ages,
        }

        impl Counters {
            /// Number of counters.
            const COUNT: usize = [$(stringify!($name)),*].len();

            fn to_array(self) -> [u64; Self::COUNT] {
                [$(self.$name),*]
            }

            fn from_array(array: [u64; Self::COUNT]) -> Self {
                let [$($name),*] = array;
                Counters { $($name,)* copies_behind: Ages::default() }
            }
        }
    };
}

counters! {
    /// Keys asked for by any read command.
    cmd_get,
    /// Storage commands.
    cmd_set,
    /// `flush_all` commands.
    cmd_flush,
    /// `touch` and get-and-touch keys.
    cmd_touch,
    /// Meta commands.
    cmd_meta,
    /// Keys found.
    get_hits,
    /// Keys not found.
    get_misses,
    /// Keys not found because they had expired.
    get_expired,
    /// Deletes of keys that were not there.
    delete_misses,
    /// Deletes of keys that were there.
    delete_hits,
    /// Increments of keys that were not there.
    incr_misses,
    /// Increments done.
    incr_hits,
    /// Decrements of keys that were not there.
    decr_misses,
    /// Decrements done.
    decr_hits,
    /// Compare-and-swaps of keys that were not there.
    cas_misses,
    /// Compare-and-swaps done.
    cas_hits,
    /// Compare-and-swaps refused for an old version.
    cas_badval,
    /// Touches of keys that were there.
    touch_hits,
    /// Touches of keys that were not there.
    touch_misses,
    /// Values refused for their size.
    store_too_large,
    /// Values refused for want of memory.
    store_no_memory,
    /// Attempts to authenticate.
    auth_cmds,
    /// Attempts to authenticate that failed.
    auth_errors,
    /// Bytes read from clients.
    bytes_read,
    /// Bytes written to clients.
    bytes_written,
    /// Times a connection with more commands waiting had to let others go first (`-R`).
    conn_yields,
    /// Items ever stored.
    total_items,
    /// Items held now.
    curr_items,
    /// Bytes of the items held now.
    bytes,
    /// Live items removed for want of memory.
    evictions,
    /// Evicted items that nobody had ever read.
    evicted_unfetched,
    /// Evicted items that had been read lately.
    evicted_active,
    /// Expired items that nobody had ever read.
    expired_unfetched,
    /// Times memory was gained from expired items.
    reclaimed,
    /// Bytes of segments held now, free space inside them included.
    segment_bytes,
    /// Bytes of indexes.
    index_bytes,
    /// Segments held now.
    segments,
    /// Commands that came in on behalf of another worker's connection.
    forwarded_in,
    /// Commands passed to another worker.
    forwarded_out,
    /// Commands of other workers' connections passed on to the new host of their key.
    passed_on,
    /// Cachelets given to other workers of this server.
    cachelets_given,
    /// Cachelets taken from other workers of this server.
    cachelets_taken,
    /// Orders to give a cachelet away that were not possible in time.
    cachelets_kept,
    /// Cachelets that came from another worker when the map had taken them from this server already.
    cachelets_refused,
    /// Times that connections of a worker had to wait, or would have had to, for a cachelet that moved.
    cachelet_waits,
    /// Those of 100 microseconds at most.
    cachelet_waits_short,
    /// How long they were, in microseconds.
    cachelet_waits_us,
    /// Commands that did wait.
    commands_waited,
    /// Migrations to another server that a worker was ordered to carry out.
    migrations_ordered,
    /// Cachelets that have passed to another server with their contents.
    migrations_passed,
    /// Migrations that this server gave up as their source.
    migrations_aborted,
    /// Those of them whose cachelet was written faster than it could be copied.
    migrations_outrun,
    /// Migrations from another server that began.
    migrations_staged,
    /// Cachelets that have come from another server with their contents.
    migrations_came,
    /// Contents that had come from another server and were forgotten, because nothing came of the migration.
    migrations_dropped,
    /// Items sent to other servers by migrations; those written meanwhile count again.
    migration_items_sent,
    /// Their bytes, as sent.
    migration_bytes_sent,
    /// Items taken from other servers by migrations.
    migration_items_taken,
    /// Bytes of their keys and values.
    migration_bytes_taken,
    /// Items of migrations for which there was no room; their keys are misses.
    migration_items_unstored,
    /// Keys that no line can hold, which do not migrate; they are misses.
    migration_items_unsendable,
    /// Times that copying paused because clients of the worker had to wait for too long.
    migration_pauses,
    /// Microseconds in which cachelets were served by nobody because they passed to another server.
    migration_pass_us,
    /// Requests for keys whose home is elsewhere, answered with the owner.
    moved,
    /// Replicas held for other servers now.
    replica_items,
    /// Bytes of the replicas held now.
    replica_bytes,
    /// Reads of replicas held for other servers: found.
    replica_hits,
    /// Reads of replicas held for other servers: not found.
    replica_misses,
    /// Replicas stored or renewed for other servers.
    replica_stores,
    /// Replicas removed for other servers.
    replica_deletes,
    /// Replica stores refused because a newer version was there.
    replica_refused_old,
    /// Orders about replicas that came before this server knew the map they were sent by, and waited for it.
    replica_orders_early,
    /// What only servers say, and came to an ordinary port: refused.
    strangers_refused,
    /// Answers that granted a lease.
    leases_granted,
    /// Those of them that were not whole, because a copy may have lacked a write.
    leases_shortened,
    /// Replica messages sent to shadow servers.
    propagations,
    /// Links to shadow workers lost.
    links_lost,
    /// Answers held back because copies of their keys could still be read.
    answers_held,
    /// Times of holding that ended because every shadow worker had blocked its replica.
    holds_confirmed,
    /// Times of holding that ended with the last lease.
    holds_by_lease,
    /// How long these were in all, in microseconds.
    holds_us,
    /// Those shorter than a millisecond.
    holds_under_1ms,
    /// Those of 1 to 10 ms.
    holds_under_10ms,
    /// Those of 10 to 100 ms.
    holds_under_100ms,
    /// Those of 100 ms and more.
    holds_longer,
    /// Keys that are tracked as possibly hot now.
    hot_keys_tracked,
    /// Keys that have replicas at other servers now.
    hot_keys_replicated,
    /// Keys that would have replicas now if they were not only observed.
    hot_keys_observed,
    /// Times that a key got replicas.
    hot_keys_promoted,
    /// Times that a key got more replicas.
    hot_keys_widened,
    /// Times that a key was to lose its replicas.
    hot_keys_retired,
    /// Times that a key would have got replicas if it had not only been observed.
    hot_keys_would_promote,
    /// Reads looked at by chance.
    hot_reads_sampled,
    /// Sampled keys not tracked because every tracked one had replicas.
    hot_keys_untracked_full,
    /// Hot keys that got no replicas because too many others had some.
    hot_keys_unpromoted_full,
    /// Hot keys that got no replicas because no other server could hold them.
    hot_keys_unpromoted_alone,
    /// Entries of the log of hot keys that were overwritten.
    hot_log_overwritten,
    /// Writes of which it never was known whether every replica had them.
    copies_unconfirmed,
    /// Connections closed because their client did not read or finish a command for too long.
    stalled_closed,
    /// Connections closed, or told `SERVER_ERROR`, because there was no memory for what they sent.
    read_buf_oom,
    /// Connections closed because there was no memory for the answers that they did not read.
    response_obj_oom,
    /// Commands that had to wait for memory for what the client sends.
    read_buf_waits,
    /// Times that a large answer had to wait for memory.
    response_obj_waits,
    /// Receives that found all of io_uring's receive buffers taken and had to be asked for again.
    receives_starved,
    /// Connections closed because they were idle for `-o idle_timeout`.
    idle_kicks,
    /// TLS connections that did not come about.
    ssl_handshake_errors,
    /// TLS connections whose client broke the protocol later.
    ssl_proto_errors,
    /// Maps of the coordinator that could not be used.
    maps_refused,
    /// Times that a worker's leave to serve ended without another.
    leases_lost,
    /// Leases that came too late, or before the map that they are for.
    leases_unusable,
    /// Leases that other servers' votes gave.
    leases_by_votes,
    /// Requests for owned keys that were not carried out for lack of a lease.
    requests_without_lease,
    /// Keys of other servers that were asked for by clients that know no map.
    keys_of_others,
    /// Connections closed because their answers may have been composed after the end of a lease.
    answers_too_late,
    /// Votes for other servers.
    votes_given,
    /// Votes refused to other servers.
    votes_refused,
    /// Commands that the parser refused.
    protocol_errors,
    /// Lines written for watchers.
    log_worker_written,
    /// Lines for watchers that found no room on the way.
    log_worker_dropped,
    /// Lines that watchers got, each counted.
    log_watcher_sent,
    /// Lines that watchers did not get because they had too many unread.
    log_watcher_skipped,
    /// Watchers now.
    log_watchers,
    /// Commands that `stats detail` did not count because there were too many prefixes.
    prefixes_overflowed,
    /// Connections with answers that were not read yet.
    response_count,
    /// Bytes of these answers.
    response_bytes,
    /// Connections that hold input which was not carried out.
    read_buf_count,
    /// Bytes of memory that it takes.
    read_buf_bytes,
}

impl Counters {
    /// Keys read or written, replicas and the writes that were passed on to them included.
    pub fn keys_served(&self) -> u64 {
        let deleted = self.delete_hits + self.delete_misses;
        let counted = self.incr_hits + self.incr_misses + self.decr_hits + self.decr_misses;
        let replicas = self.replica_hits + self.replica_misses;
        let passed_on = self.replica_stores + self.replica_deletes + self.replica_refused_old;
        let own = self.cmd_get + self.cmd_set + self.cmd_touch + deleted + counted;
        own + replicas + passed_on
    }

    /// Adds another worker's counts.
    pub fn add(&mut self, other: &Counters) {
        let mut sum = self.to_array();
        for (mine, theirs) in sum.iter_mut().zip(other.to_array()) {
            *mine = mine.saturating_add(theirs);
        }
        let mut copies_behind = self.copies_behind;
        copies_behind.add(&other.copies_behind);
        *self = Counters {
            copies_behind,
            ..Counters::from_array(sum)
        };
    }

    /// Writes the counts as bytes that [`Counters::merge`] understands.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for count in self
            .to_array()
            .into_iter()
            .chain(self.copies_behind.to_words())
        {
            out.extend_from_slice(&count.to_le_bytes());
        }
    }

    /// Adds encoded counts to the sum that `parts` holds (nothing at first).
    pub fn merge(parts: &mut Vec<u8>, encoded: &[u8]) {
        let mut sum = Counters::decode(parts);
        sum.add(&Counters::decode(encoded));
        parts.clear();
        sum.encode(parts);
    }

    /// Reads encoded counts; missing ones are zero.
    pub fn decode(bytes: &[u8]) -> Counters {
        let mut words = bytes.chunks_exact(8).map(|chunk| {
            let bytes = chunk.iter().rev();
            bytes.fold(0, |value, &byte| (value << 8) | u64::from(byte))
        });
        let mut array = [0; Counters::COUNT];
        array.fill_with(|| words.next().unwrap_or(0));
        let mut ages = [0; AGE_WORDS];
        ages.fill_with(|| words.next().unwrap_or(0));
        Counters {
            copies_behind: Ages::from_words(&ages),
            ..Counters::from_array(array)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_counts_add_up() {
        let a = Counters {
            cmd_get: 3,
            protocol_errors: 1,
            ..Counters::default()
        };
        let b = Counters {
            cmd_get: 4,
            bytes: u64::MAX,
            ..Counters::default()
        };
        let (mut a, mut b) = (a, b);
        a.copies_behind.record(core::time::Duration::from_millis(2));
        b.copies_behind.record(core::time::Duration::from_secs(2));
        let (mut parts, mut encoded) = (Vec::new(), Vec::new());
        a.encode(&mut encoded);
        Counters::merge(&mut parts, &encoded);
        encoded.clear();
        b.encode(&mut encoded);
        Counters::merge(&mut parts, &encoded);
        let sum = Counters::decode(&parts);
        assert_eq!(
            (sum.cmd_get, sum.protocol_errors, sum.bytes),
            (7, 1, u64::MAX)
        );
        let ages = sum.copies_behind;
        assert_eq!((ages.count(), ages.max_us()), (2, 2_000_000));
    }
}
