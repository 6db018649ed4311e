//! What a worker counts. Plain fields: a worker's counters are its own, and are only added up when
//! somebody asks.

use evenkeel_hotkeys::ages::Ages;
use evenkeel_types::counters;

counters! {
    /// Counts of one worker since its start (or the last `stats reset`), or the sum over several.
    pub struct Counters {
        /// Those that memcached has, which stand in `stats`.
        MEMCACHED {
            cmd_get, "Keys asked for by any read command.";
            cmd_set, "Storage commands.";
            cmd_flush, "`flush_all` commands.";
            cmd_touch, "`touch` and get-and-touch keys.";
            cmd_meta, "Meta commands.";
            get_hits, "Keys found.";
            get_misses, "Keys not found.";
            get_expired, "Keys not found because they had expired.";
            delete_misses, "Deletes of keys that were not there.";
            delete_hits, "Deletes of keys that were there.";
            incr_misses, "Increments of keys that were not there.";
            incr_hits, "Increments done.";
            decr_misses, "Decrements of keys that were not there.";
            decr_hits, "Decrements done.";
            cas_misses, "Compare-and-swaps of keys that were not there.";
            cas_hits, "Compare-and-swaps done.";
            cas_badval, "Compare-and-swaps refused for an old version.";
            touch_hits, "Touches of keys that were there.";
            touch_misses, "Touches of keys that were not there.";
            store_too_large => counter "memcached_item_too_large_total", "Values refused for their size.";
            store_no_memory => counter "memcached_item_no_memory_total", "Values refused for want of memory.";
            auth_cmds, "Attempts to authenticate.";
            auth_errors => counter, "Credentials refused.";
            bytes_read => counter "memcached_read_bytes_total", "Bytes read from clients.";
            bytes_written => counter "memcached_written_bytes_total", "Bytes written to clients.";
            conn_yields => counter "memcached_connections_yielded_total", "Times a connection had to let others go first (-R).";
            total_items => counter "memcached_items_total", "Items ever stored.";
            curr_items => gauge "memcached_current_items", "Items held now.";
            bytes => gauge "memcached_current_bytes", "Bytes of the items held now.";
            evictions => counter "memcached_items_evicted_total", "Live items removed for want of memory.";
            evicted_unfetched, "Evicted items that nobody had ever read.";
            evicted_active, "Evicted items that had been read lately.";
            expired_unfetched, "Expired items that nobody had ever read.";
            reclaimed => counter "memcached_items_reclaimed_total", "Expired items removed.";
            read_buf_oom => counter "evenkeel_read_buffers_refused_total", "Connections closed for want of memory for what they send.";
            response_obj_oom => counter "evenkeel_responses_refused_total", "Connections closed for want of memory for answers that they do not read.";
            idle_kicks => counter, "Connections closed for being idle.";
            ssl_handshake_errors, "TLS connections that did not come about.";
            ssl_proto_errors, "TLS connections whose client broke the protocol later.";
            log_worker_written, "Lines written for watchers.";
            log_worker_dropped => counter "evenkeel_log_dropped_total", "Lines for watchers that found no room.";
            log_watcher_sent, "Lines that watchers got, each counted.";
            log_watcher_skipped => counter "evenkeel_log_skipped_total", "Lines that watchers were too slow for.";
            log_watchers => gauge, "Connections that watch.";
            response_obj_count, "Connections with answers that were not read yet.";
            response_obj_bytes => gauge "evenkeel_response_bytes", "Bytes of answers that clients have not read.";
            read_buf_count, "Connections that hold input which was not executed.";
            read_buf_bytes => gauge "evenkeel_read_buffer_bytes", "Bytes held of commands whose end has not come.";
        }
        /// The others, which stand in `stats evenkeel`.
        EVENKEEL {
            segments => gauge, "Segments held now.";
            segment_bytes => gauge "memcached_malloced_bytes", "Bytes of segments held now.";
            index_bytes => gauge, "Bytes of indexes.";
            bundle_copies => gauge, "Of the items, copies that proxies keep of items of other servers.";
            bundle_copies_bytes => gauge, "Their bytes.";
            bundle_copies_evicted => counter, "Live copies removed for want of memory, none of which counts in `evictions`.";
            bundle_copies_refused => counter, "Copies refused because other items need the memory.";
            forwarded_in => counter, "Commands that came from another worker.";
            forwarded_out => counter, "Commands passed to another worker.";
            passed_on => counter, "Commands of other workers' connections passed on to the new host of their key.";
            cachelets_given => counter, "Cachelets given to other workers of this server.";
            cachelets_taken => counter, "Cachelets taken from other workers of this server.";
            cachelets_kept => counter, "Orders to give a cachelet away that were not possible in time.";
            cachelets_refused => counter, "Cachelets from other workers that the map had taken from this server.";
            cachelet_waits => counter, "Times that a worker's connections had to wait for a cachelet that moved.";
            cachelet_waits_short => counter, "Waits for cachelets that moved of 100 microseconds at most.";
            cachelet_waits_us => counter, "Microseconds that a worker's connections had to wait for cachelets that moved.";
            commands_waited => counter, "Commands that waited for a cachelet that moved.";
            migrations_ordered => counter, "Migrations to another server that a worker was ordered to execute.";
            migrations_passed => counter, "Cachelets that have passed to another server with their contents.";
            migrations_aborted => counter, "Migrations that this server gave up as their source.";
            migrations_outrun => counter, "Migrations given up because the cachelet was written faster than it could be copied.";
            migrations_staged => counter, "Migrations from another server that began.";
            migrations_came => counter, "Cachelets that have come from another server with their contents.";
            migrations_dropped => counter, "Contents that had come from another server and were forgotten, because nothing came of the migration.";
            migration_items_sent => counter, "Items sent to other servers by migrations; those written meanwhile count again.";
            migration_bytes_sent => counter, "Bytes sent to other servers by migrations.";
            migration_items_taken => counter, "Items taken from other servers by migrations.";
            migration_bytes_taken => counter, "Bytes of keys and values taken from other servers by migrations.";
            migration_items_unstored => counter, "Items of migrations for which there was no room; their keys are misses.";
            migration_items_unsendable => counter, "Keys that no line can hold, which do not migrate; they are misses.";
            migration_pauses => counter, "Times that copying paused because clients of the worker had to wait for too long.";
            migration_pass_us => counter, "Microseconds in which cachelets were served by nobody because they passed to another server.";
            moved => counter, "Requests answered with another owner.";
            leases_granted => counter, "Answers that granted a lease.";
            leases_shortened => counter, "Leases granted that were not whole, because a copy may have lacked a write.";
            propagations => counter, "Replica messages sent.";
            links_lost => counter, "Links to shadow workers lost.";
            answers_held => counter, "Answers held back because copies of their keys could still be read.";
            holds_confirmed => counter, "Times of holding that ended because every copy was blocked.";
            holds_by_lease => counter, "Times of holding that ended with the last lease.";
            holds_us => counter "evenkeel_holds_microseconds_total", "How long answers were held back, in all times of holding.";
            holds_under_1ms, "Times of holding answers back shorter than a millisecond.";
            holds_under_10ms, "Times of holding answers back of 1 to 10 ms.";
            holds_under_100ms, "Times of holding answers back of 10 to 100 ms.";
            holds_longer, "Times of holding answers back of 100 ms and more.";
            hot_keys_tracked => gauge, "Keys that are tracked as possibly hot.";
            hot_keys_replicated => gauge, "Keys that have replicas at other servers.";
            hot_keys_observed => gauge, "Keys that would have replicas if they were not only observed.";
            hot_keys_promoted => counter, "Times that a key got replicas.";
            hot_keys_widened => counter, "Times that a key got more replicas.";
            hot_keys_retired => counter, "Times that a key was to lose its replicas.";
            hot_keys_would_promote => counter, "Times that a key would have got replicas if it had not only been observed.";
            hot_reads_sampled => counter, "Reads looked at by chance.";
            hot_keys_untracked_full => counter, "Sampled keys not tracked because every tracked one had replicas.";
            hot_keys_unpromoted_full => counter, "Hot keys without replicas because too many others had some.";
            hot_keys_unpromoted_alone => counter, "Hot keys without replicas because no other server could hold them.";
            hot_log_overwritten => counter, "Entries of the log of hot keys that were overwritten.";
            copies_unconfirmed => counter, "Writes of which it never was known whether every replica had them.";
            replica_items => gauge, "Replicas held for other servers.";
            replica_bytes => gauge, "Bytes of replicas held for other servers.";
            replica_hits => counter, "Reads of replicas: found.";
            replica_misses => counter, "Reads of replicas: not found.";
            replica_stores => counter, "Replicas stored or renewed.";
            replica_deletes => counter, "Replicas removed.";
            replica_refused_old => counter, "Replica stores refused for a newer version.";
            replica_orders_early => counter, "Orders about replicas that waited for the map they were sent by.";
            strangers_refused => counter, "What only servers say, refused on ordinary ports.";
            stalled_closed => counter, "Connections closed for want of progress.";
            read_buf_waits => counter "evenkeel_read_buffers_waited_total", "Commands that had to wait for memory for what the client sends.";
            response_obj_waits => counter "evenkeel_responses_waited_total", "Times that a large answer had to wait for memory.";
            receives_starved, "Receives that found all of io_uring's receive buffers taken and had to be asked for again.";
            maps_refused => counter, "Maps that could not be used.";
            leases_lost => counter, "Times that a worker's serving lease ended without another.";
            leases_unusable => counter, "Serving leases that came too late or before their map.";
            leases_by_votes => counter, "Serving leases by the votes of other servers.";
            requests_without_lease => counter, "Requests not executed for lack of a serving lease.";
            keys_of_others => counter, "Keys of other servers that clients without a map asked for; each was refused.";
            answers_too_late => counter, "Connections closed because answers may have outlived a serving lease.";
            votes_given => counter, "Votes given to other servers.";
            votes_refused => counter, "Votes refused to other servers.";
            protocol_errors => counter, "Commands that the parser refused.";
            prefixes_overflowed => counter, "Commands whose prefix was not counted.";
        }
        .. /// How long writes to replicated keys took until every replica was known to have them.
        copies_behind: Ages
    }
}

impl Counters {
    /// A counter that memcached has, by its name.
    ///
    /// # Panics
    /// If none has that name.
    pub(crate) fn named(&self, name: &str) -> u64 {
        let shown = Counters::MEMCACHED.iter().find(|it| it.name == name);
        (shown.expect("a counter of this name is declared").value)(self)
    }

    /// Keys read or written, replicas and the writes that were passed on to them included.
    pub fn keys_served(&self) -> u64 {
        let deleted = self.delete_hits + self.delete_misses;
        let counted = self.incr_hits + self.incr_misses + self.decr_hits + self.decr_misses;
        let replicas = self.replica_hits + self.replica_misses;
        let passed_on = self.replica_stores + self.replica_deletes + self.replica_refused_old;
        let own = self.cmd_get + self.cmd_set + self.cmd_touch + deleted + counted;
        own + replicas + passed_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up() {
        let mut sum = Counters {
            cmd_get: 3,
            protocol_errors: 1,
            ..Counters::default()
        };
        let mut other = Counters {
            cmd_get: 4,
            bytes: u64::MAX,
            ..Counters::default()
        };
        let behind = |counters: &mut Counters, millis| {
            let age = core::time::Duration::from_millis(millis);
            counters.copies_behind.record(age);
        };
        behind(&mut sum, 2);
        behind(&mut other, 2_000);
        sum.add(&other);
        sum.add(&other);
        assert_eq!(
            (sum.cmd_get, sum.protocol_errors, sum.bytes),
            (11, 1, u64::MAX)
        );
        let ages = sum.copies_behind;
        assert_eq!((ages.count(), ages.max_us()), (3, 2_000_000));
    }
}
