//! What a worker counts of all requests, and what each answer adds to that.

use evenkeel_hotkeys::plain::PlainStats;

macro_rules! proxy_stats {
    ($($(#[$meta:meta])* $name:ident),* $(,)?) => {
        /// Counts since the start, of one proxy worker or of several together.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct ProxyStats {
            $($(#[$meta])* pub $name: u64,)*
        }

        impl ProxyStats {
            /// Adds the counts of another worker.
            pub fn add(&mut self, other: &ProxyStats) {
                $(self.$name += other.$name;)*
            }

            /// Every count with its name, in the order of `stats`.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

proxy_stats! {
    /// Keys asked for by any read command.
    cmd_get,
    /// Storage commands, `ms` included.
    cmd_set,
    /// `flush_all` commands.
    cmd_flush,
    /// `touch` commands, and keys of `gat` and `gats`.
    cmd_touch,
    /// Meta commands.
    cmd_meta,
    /// Keys found.
    get_hits,
    /// Keys not found, or not available where that counts as a miss.
    get_misses,
    /// Deletes of keys that were not there.
    delete_misses,
    /// Deletes done.
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
    /// Compare-and-swaps of items that had changed.
    cas_badval,
    /// Touches done.
    touch_hits,
    /// Touches of keys that were not there.
    touch_misses,
    /// Bytes received from applications.
    bytes_read,
    /// Bytes sent to applications.
    bytes_written,
    /// Connections whose TLS did not come about.
    ssl_handshake_errors,
    /// Connections whose client broke the protocol of TLS later.
    ssl_proto_errors,
    /// Attempts to authenticate.
    auth_cmds,
    /// Those that failed.
    auth_errors,
    /// Times that a connection's requests had to wait for others' (`-R`).
    conn_yields,
    /// Requests answered with an error because a backend was down, lost, late or unsure.
    proxy_request_errors,
    /// Gets answered as misses for the same reason.
    proxy_reads_unavailable,
    /// Requests put to another worker because their key had moved.
    proxy_requests_moved,
    /// Cachelets that were found at another worker of their server.
    proxy_hosts_learnt,
    /// Gets that joined an identical one which waited to be sent.
    proxy_gets_collapsed,
    /// Requests sent again because a connection was lost that had not answered them.
    proxy_requests_resent,
    /// Requests that waited for a newer map.
    proxy_requests_parked,
    /// Rounds of `flush_all` beyond the first: servers went by a newer map.
    proxy_flushes_repeated,
    /// Requests refused because they had waited too long for a backend that could not keep up.
    proxy_requests_shed,
    /// Requests refused because a backend's queue was full.
    proxy_backend_queue_full,
    /// Times that an application's requests had to wait because its answers were unread or many.
    proxy_client_pauses,
    /// Applications' connections closed for unread answers.
    proxy_clients_closed_unread,
    /// Applications' connections closed in the middle of a request, or with unread answers, because
    /// nothing moved for too long.
    proxy_clients_closed_stalled,
    /// Applications' connections closed because they held memory that others needed, and hardly moved.
    proxy_clients_closed_memory,
    /// Copies of large answers to identical gets that were refused for want of memory.
    proxy_copies_refused,
    /// Applications' connections closed because the server of a value was lost that had been passed on in
    /// part.
    proxy_clients_closed_cut,
    /// Reads sent to a replica.
    proxy_replica_reads,
    /// Replica reads that found it there.
    proxy_replica_hits,
    /// Leases granted.
    proxy_leases,
    /// Leases given up or not taken because too many were held.
    proxy_leases_dropped,
    /// Reads of hot keys that were shown a kept value, because the answer was older than one already shown.
    proxy_reads_kept,
    /// Reads asked again at the home, because a replica was gone, or an answer was older than one
    /// already shown, which was not kept.
    proxy_reads_asked_again,
    /// Of these: the answer was older.
    proxy_reads_asked_again_older,
    /// Of these: the replica was not there.
    proxy_reads_asked_again_missing,
    /// Reads of leased keys that went home because their connection had written the key, and nobody knows what.
    proxy_reads_behind_writes,
    /// Writes that waited until reads of the key that their connection had asked for before were shown.
    proxy_writes_behind_reads,
    /// Maps taken over.
    proxy_maps,
    /// Requests that a route refused.
    proxy_requests_denied,
    /// Requests refused because a route made their key or their line too long, or left no key.
    proxy_keys_refused,
    /// Exptimes that a route changed, or that are short because the item is stored elsewhere.
    proxy_ttls_changed,
    /// Requests that went to another server because their key's own was out of use.
    proxy_requests_failed_over,
    /// Requests that did not, because their key's server, or the next one, was back for too short a
    /// time before.
    proxy_failovers_unsettled,
    /// Compare-and-swaps refused because their key's server was out of use.
    proxy_cas_refused,
    /// Deletes and `flush_all`s, of what a server had missed, that it did not carry out.
    proxy_catch_ups_refused,
    /// Applications' connections that spoke the binary protocol.
    proxy_binary_clients,
    /// Binary requests refused because their server knows no meta commands.
    proxy_requests_unsupported,
    /// Reads that were looked at by chance to find hot keys of plain servers.
    proxy_hot_reads_sampled,
    /// Keys that became hot.
    proxy_hot_keys_promoted,
    /// Hot keys that cooled.
    proxy_hot_keys_cooled,
    /// Hot keys that were not replicated because there were too many, counted twice a second.
    proxy_hot_keys_unpromoted_full,
    /// Hot keys that were not replicated because they are too long, counted twice a second.
    proxy_hot_keys_unpromoted_long,
    /// Values of hot keys that were too long to be replicated.
    proxy_hot_values_too_long,
    /// Replicas of hot keys stored on plain servers.
    proxy_replica_fills,
    /// Replicas that a server would not store.
    proxy_replica_fills_refused,
    /// Slow requests that were not logged because too many others were in the same second.
    proxy_request_log_slow_dropped,
}

impl ProxyStats {
    /// Adds what a pool's hot keys have counted.
    pub(crate) fn add_hot_keys(&mut self, counted: &PlainStats) {
        self.proxy_hot_reads_sampled += counted.reads_sampled;
        self.proxy_hot_keys_promoted += counted.promoted;
        self.proxy_hot_keys_cooled += counted.cooled;
        self.proxy_hot_keys_unpromoted_full += counted.unpromoted_full;
        self.proxy_hot_keys_unpromoted_long += counted.unpromoted_long;
        self.proxy_hot_values_too_long += counted.values_too_long;
        self.proxy_replica_fills += counted.fills;
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
                stats.proxy_reads_unavailable += 1;
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
            Tally::Failed => stats.proxy_request_errors += 1,
        }
    }
}

/// What happened at one backend, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendCounters {
    /// Requests put into its queue.
    pub requests: u64,
    /// Answers received.
    pub answers: u64,
    /// Connections that were agreed.
    pub connects: u64,
    /// Connections or attempts that ended for any reason but a change of the map.
    pub failures: u64,
    /// Of these: an answer, a connection or a greeting was late.
    pub timeouts: u64,
    /// Times that it did not accept who we say we are.
    pub logins_refused: u64,
    /// Requests refused because the queue was full.
    pub refused_full: u64,
    /// Requests refused because they had waited too long for a server that could not keep up.
    pub shed: u64,
    /// Times that fewer requests were let through to it because it made them wait.
    pub window_shrunk: u64,
    /// Times that it was taken out of use.
    pub outages: u64,
    /// Requests that went to another server because it was out of use.
    pub failed_over: u64,
    /// Writes that it missed, or perhaps missed, and whose keys were noted.
    pub missed: u64,
    /// Writes that it missed and whose keys there was no room for.
    pub missed_unnoted: u64,
    /// Keys deleted on it because it had missed their writes.
    pub caught_up: u64,
    /// Times that it was emptied because it had missed too much, or a `flush_all`.
    pub flushed: u64,
    /// Times that it was used again although it had missed writes that were not noted.
    pub unfenced: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_workers_add_up_under_their_own_names() {
        let mut sum = ProxyStats {
            cmd_get: 1,
            proxy_leases: 2,
            ..ProxyStats::default()
        };
        sum.add(&ProxyStats {
            cmd_get: 10,
            proxy_maps: 3,
            ..ProxyStats::default()
        });
        let named: Vec<_> = sum.named().filter(|(_, count)| *count > 0).collect();
        assert_eq!(
            named,
            [("cmd_get", 11), ("proxy_leases", 2), ("proxy_maps", 3)]
        );
    }
}
