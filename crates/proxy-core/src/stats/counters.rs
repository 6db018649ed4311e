//! What a worker counts of all requests, and what each answer adds to that.

use evenkeel_hotkeys::plain::PlainStats;
use evenkeel_types::counters;

counters! {
    /// Counts since the start, of one proxy worker or of several together.
    pub struct ProxyStats {
        /// Those that memcached has, which stand in `stats`.
        MEMCACHED {
            cmd_get => counter, "Keys asked for by any read command.";
            cmd_set => counter, "Storage commands, `ms` included.";
            cmd_flush => counter, "`flush_all` commands.";
            cmd_touch => counter, "`touch` commands, and keys of `gat` and `gats`.";
            cmd_meta => counter, "Meta commands.";
            get_hits => counter, "Keys found.";
            get_misses => counter, "Keys not found, or not available where that counts as a miss.";
            delete_misses => counter, "Deletes of keys that were not there.";
            delete_hits => counter, "Deletes done.";
            incr_misses => counter, "Increments of keys that were not there.";
            incr_hits => counter, "Increments done.";
            decr_misses => counter, "Decrements of keys that were not there.";
            decr_hits => counter, "Decrements done.";
            cas_misses => counter, "Compare-and-swaps of keys that were not there.";
            cas_hits => counter, "Compare-and-swaps done.";
            cas_badval => counter, "Compare-and-swaps of items that had changed.";
            touch_hits => counter, "Touches done.";
            touch_misses => counter, "Touches of keys that were not there.";
            bytes_read => counter, "Bytes received from applications.";
            bytes_written => counter, "Bytes sent to applications.";
            ssl_handshake_errors => counter, "Connections whose TLS did not come about.";
            ssl_proto_errors => counter, "Connections whose client broke the protocol of TLS later.";
            auth_cmds => counter, "Attempts to authenticate.";
            auth_errors => counter, "Attempts to authenticate that failed.";
            conn_yields => counter, "Times that a connection's requests had to wait for others' (`-R`).";
        }
        /// The others, which stand in `stats proxy`.
        PROXY {
            request_errors => counter, "Requests answered with an error because a backend was down, lost, late or unsure.";
            reads_unavailable => counter, "Gets answered as misses because a backend was down, lost, late or unsure.";
            limited_gets => counter, "Multi-gets with a limit.";
            limits_reached => counter, "Multi-gets with a limit that were answered because enough of their keys were found, not all.";
            limits_late => counter, "Multi-gets with a limit that were answered because their time was over.";
            limited_keys_left => counter, "Keys of multi-gets with a limit that no server was asked for, because enough others were found.";
            limited_keys_late => counter, "Keys of multi-gets with a limit whose answer had not come.";
            limits_refused => counter, "Multi-gets refused because their limit was none, or for more keys than a limit may be for.";
            requests_moved => counter, "Requests put to another worker because their key had moved.";
            hosts_learnt => counter, "Cachelets that were found at another worker of their server.";
            gets_collapsed => counter, "Gets that joined an identical one that waited to be sent or, of a hot key before plain servers, was under way.";
            requests_resent => counter, "Requests sent again because a connection was lost that had not answered them.";
            requests_parked => counter, "Requests that waited for a newer map.";
            flushes_repeated => counter, "Rounds of `flush_all` beyond the first: servers went by a newer map.";
            requests_shed => counter, "Requests refused because they had waited too long for a backend that could not keep up.";
            backend_queue_full => counter, "Requests refused because a backend's queue was full.";
            client_pauses => counter, "Times that an application's requests had to wait because its answers were unread or many.";
            clients_closed_unread => counter, "Applications' connections closed for unread answers.";
            clients_closed_stalled => counter, "Applications' connections closed in the middle of a request, or with unread answers, because nothing moved for too long.";
            clients_closed_memory => counter, "Applications' connections closed because they held memory that others needed, and hardly moved.";
            copies_refused => counter, "Copies of large answers to identical gets that were refused for want of memory.";
            clients_closed_cut => counter, "Applications' connections closed because the server of a value was lost that had been passed on in part.";
            replica_reads => counter, "Reads sent to a replica.";
            replica_hits => counter, "Replica reads that found it there.";
            leases => counter, "Leases granted.";
            leases_dropped => counter, "Leases given up or not taken because too many were held.";
            reads_kept => counter, "Reads of hot keys that were shown a kept value, because the answer was older than one already shown.";
            reads_asked_again => counter, "Reads asked again at the home, because a replica was gone, or an answer was older than one already shown, which was not kept.";
            reads_asked_again_older => counter, "Reads asked again because the answer was older.";
            reads_asked_again_missing => counter, "Reads asked again because the replica was not there.";
            reads_behind_writes => counter, "Reads of leased keys that went home because their connection had written the key, and nobody knows what.";
            writes_behind_reads => counter, "Writes that waited until reads of the key that their connection had asked for before were shown.";
            maps => counter, "Maps taken over.";
            requests_denied => counter, "Requests that a route refused.";
            keys_refused => counter, "Requests refused because a route made their key or their line too long, or left no key.";
            keys_reserved => counter, "Requests refused because their key begins with byte 0x01, in a pool that has items under such names of the proxy's.";
            keys_unnamed => counter, "Requests refused because the name of their key's item, in a pool that has names of its own, a part of a ring that has moved, or a directory, would be longer than 250 bytes: keys of 235 bytes fit everywhere.";
            flags_reserved => counter, "Stores refused because their client flags say that an item is the proxy's, in a pool that is warmed from another.";
            former_hits => counter, "Reads answered with what the former pool had, in a pool that is warmed from it.";
            former_deletes => counter, "Deletes at a former pool, each before a write here.";
            fills_stored => counter, "Items brought from a former pool.";
            fills_lost => counter, "Items not brought because the key was written meanwhile, or the placeholder was gone.";
            fills_absent => counter, "Keys that a former pool did not have.";
            fills_given_up => counter, "Items not brought because a server could not be asked.";
            placeholders_met => counter, "Reads and writes that met a placeholder of another fill.";
            operations_refused => counter, "Requests refused because too many that take several steps were under way.";
            crossings => counter, "Requests that took steps between racks, in pools with the architecture `snoop` or `dir`: all writes, and reads of what the own rack does not hold.";
            crossing_hits => counter, "Reads answered by another rack.";
            crossing_notes_stored => counter, "Notes stored, in other racks and in directories.";
            crossing_notes_dangling => counter, "Reads of another rack, named by a note, that had no item.";
            crossing_locks_met => counter, "Locks of other commands that were met.";
            crossings_busy => counter, "Requests answered with an error because others changed their key all the time.";
            crossings_refused => counter, "Requests refused because their flags cannot be executed between racks.";
            local_copies_shown => counter, "Reads answered by a copy, in the own rack, of what another rack holds.";
            local_copies_stored => counter, "Copies stored in the own rack of what another rack holds.";
            local_copies_saved => counter, "Reads of other racks that copies would have answered, in pools with `local_copies = \"observe\"`.";
            local_copies_too_long => counter, "Reads of other racks whose values are too long to be copied.";
            ttls_changed => counter, "Exptimes that a route changed, or that are short because the item is stored elsewhere.";
            requests_failed_over => counter, "Requests that went to another server because their key's own was out of use.";
            failovers_unsettled => counter, "Requests that did not go to another server, because their key's own, or the next one, was back for too short a time before.";
            cas_refused => counter, "Compare-and-swaps refused because their key's server was out of use.";
            catch_ups_refused => counter, "Deletes and `flush_all`s, of what a server had missed, that it did not execute.";
            binary_clients => counter, "Applications' connections that spoke the binary protocol.";
            requests_unsupported => counter, "Binary requests refused because their server knows no meta commands.";
            hot_reads_sampled => counter, "Reads that were looked at by chance to find hot keys of plain servers.";
            hot_keys_promoted => counter, "Keys that became hot.";
            hot_keys_cooled => counter, "Hot keys that cooled.";
            hot_keys_unpromoted_full => counter, "Hot keys that were not replicated because there were too many, counted four times a second.";
            hot_keys_unpromoted_long => counter, "Hot keys that were not replicated because they are too long, counted four times a second.";
            hot_values_too_long => counter, "Values of hot keys that were too long to be replicated.";
            replica_fills => counter, "Replicas of hot keys stored on plain servers.";
            replica_fills_refused => counter, "Replicas that a server would not store.";
            request_log_slow_dropped => counter, "Slow requests that were not logged because too many others were in the same second.";
        }
    }
}

counters! {
    /// What copies of its items save a pool, or would save it.
    pub struct BundleCounts {
        /// All of them.
        SHOWN {
            requests => counter, "Multi-gets of two keys or more.";
            keys => counter, "Their keys, each once.";
            transactions => counter, "Servers that they asked, or would have asked without copies, each once a multi-get.";
            transactions_covered => counter, "Servers that they asked with copies, or would have asked, were all copies there.";
            second_round_transactions => counter, "Servers that were asked once more, at home, for what was not at a copy.";
            copies_asked => counter, "Copies that were asked.";
            copies_hit => counter, "Those of them that were there.";
            copies_absent => counter, "Those of them that were asked at home after that.";
            fills => counter, "Copies that were stored where none was.";
            fills_left_out => counter, "Copies that were not stored, since too many were on their way already, their home was out of use, or all that may be filled of the server was.";
            refreshes => counter, "Copies that were stored again, before their end.";
            deletes => counter, "Copies that writes deleted, or would have deleted.";
            deletes_unconfirmed => counter, "Those of them that were not confirmed in time.";
        }
    }
}

impl ProxyStats {
    /// Adds what a pool's hot keys have counted.
    pub(crate) fn add_hot_keys(&mut self, counted: &PlainStats) {
        self.hot_reads_sampled += counted.reads_sampled;
        self.hot_keys_promoted += counted.promoted;
        self.hot_keys_cooled += counted.cooled;
        self.hot_keys_unpromoted_full += counted.unpromoted_full;
        self.hot_keys_unpromoted_long += counted.unpromoted_long;
        self.hot_values_too_long += counted.values_too_long;
        self.replica_fills += counted.fills;
    }
}

/// What an answer adds to the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tally {
    Nothing,
    GetHit,
    GetMiss,
    GetUnavailable,
    DeleteHit,
    DeleteMiss,
    IncrHit,
    IncrMiss,
    DecrHit,
    DecrMiss,
    CasHit,
    CasMiss,
    CasBad,
    TouchHit,
    TouchMiss,
    /// A store that was no compare-and-swap, and what else can become of one.
    Stored,
    NotStored,
    Exists,
    NotFound,
    /// An error of the proxy: the request could not be asked, or its outcome is unknown.
    Failed,
    /// An error that the server has said.
    Refused,
}

impl Tally {
    /// In a word, for the log of requests.
    pub fn word(self) -> &'static str {
        match self {
            Tally::Nothing => "done",
            Tally::GetHit => "hit",
            Tally::GetMiss => "miss",
            Tally::GetUnavailable => "unavailable",
            Tally::DeleteHit => "deleted",
            Tally::IncrHit | Tally::DecrHit => "counted",
            Tally::TouchHit => "touched",
            Tally::CasHit | Tally::Stored => "stored",
            Tally::NotStored => "not_stored",
            Tally::CasBad | Tally::Exists => "exists",
            Tally::DeleteMiss
            | Tally::IncrMiss
            | Tally::DecrMiss
            | Tally::CasMiss
            | Tally::TouchMiss
            | Tally::NotFound => "not_found",
            Tally::Failed => "error",
            Tally::Refused => "server_error",
        }
    }

    #[inline]
    pub fn count(self, stats: &mut ProxyStats) {
        match self {
            Tally::Nothing
            | Tally::Stored
            | Tally::NotStored
            | Tally::Exists
            | Tally::NotFound
            | Tally::Refused => {}
            Tally::GetHit => stats.get_hits += 1,
            Tally::GetMiss => stats.get_misses += 1,
            Tally::GetUnavailable => {
                stats.get_misses += 1;
                stats.reads_unavailable += 1;
            }
            Tally::DeleteHit => stats.delete_hits += 1,
            Tally::DeleteMiss => stats.delete_misses += 1,
            Tally::IncrHit => stats.incr_hits += 1,
            Tally::IncrMiss => stats.incr_misses += 1,
            Tally::DecrHit => stats.decr_hits += 1,
            Tally::DecrMiss => stats.decr_misses += 1,
            Tally::CasHit => stats.cas_hits += 1,
            Tally::CasMiss => stats.cas_misses += 1,
            Tally::CasBad => stats.cas_badval += 1,
            Tally::TouchHit => stats.touch_hits += 1,
            Tally::TouchMiss => stats.touch_misses += 1,
            Tally::Failed => stats.request_errors += 1,
        }
    }
}

counters! {
    /// What one connection to a server counts, or those of all workers together.
    pub struct BackendCounters {
        /// What stands in `/metrics` alone.
        METRICS {
            connections_up => gauge, "Connections that take requests, of all workers.";
        }
        /// What stands in `stats servers`.
        SERVERS {
            queued_requests => gauge, "Requests queued or awaited.";
            queued_bytes => gauge, "Bytes of requests queued or awaited.";
            requests => counter, "Requests put into the queue.";
            answers => counter, "Answers received.";
            sends => counter, "Writes to its socket.";
            sent_bytes => counter, "Bytes sent.";
            received_bytes => counter, "Bytes received.";
            connects => counter, "Connections agreed.";
            failures => counter, "Connections and attempts that ended for any reason but a change of the map.";
            timeouts => counter, "Connections and attempts that ended because an answer, a connection or a greeting was late.";
            logins_refused => counter, "Times that the server did not accept our password.";
            marks_refused => counter, "Connections given up because the server does not tell the CAS unique of what it stores, which `warm_from` and adaptive pools need.";
            refused_full => counter, "Requests refused by a full queue.";
            window, "Most requests that may be under way at once, where the server makes them wait.";
            window_shrunk => counter, "Times that fewer requests were let through because it made them wait.";
            shed => counter, "Requests refused because they had waited too long for a server that could not keep up.";
            outages => counter, "Times taken out of use.";
            failed_over => counter, "Requests that went to another server because this one was out of use.";
            missed => counter, "Writes that it missed, or perhaps missed, and whose keys were noted.";
            missed_unnoted => counter, "Writes that it missed and whose keys there was no room for.";
            caught_up => counter, "Keys deleted because it had missed their writes.";
            flushed => counter, "Times emptied because it had missed too much, or a `flush_all`.";
            unfenced => counter, "Times used again although it had missed writes that were not noted.";
        }
    }
}
