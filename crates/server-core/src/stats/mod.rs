//! The answers to `stats`, under memcached's names.
//!
//! Tools read these by name and some by position, so the general list keeps memcached's names and
//! order. Names that mean nothing here show 0; items and slabs are shown by size, see `shard/classes.rs`.

pub mod metrics;

use crate::mesh::message::{ClassesView, CountersView};
use crate::shard::classes::{self, ClassStats, numbers};
use crate::shard::counters::Counters;
use evenkeel_protocol::compose::answer::{stat, stat_number};
use evenkeel_protocol::text;
use evenkeel_types::Now;

/// What the process knows and a worker does not; the driver keeps it up to date.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessFacts {
    /// Process id.
    pub pid: u32,
    /// CPU time in user mode, in microseconds.
    pub user_us: u64,
    /// CPU time in the kernel, in microseconds.
    pub system_us: u64,
    /// Most connections at a time (`-c`).
    pub connections_max: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// Connections admitted since the start.
    pub connections_total: u64,
    /// Connections refused since the start.
    pub connections_refused: u64,
    /// Connections wait in the backlog: descriptors ran out, or the limit shall not refuse them.
    pub accepting_paused: bool,
    /// How often that began.
    pub accepting_pauses: u64,
    /// For how long it lasted in all, in microseconds.
    pub accepting_paused_us: u64,
    /// When TLS certificates were last read, in seconds since the start; `None` without TLS.
    pub tls_read_at_s: Option<u64>,
    /// `-o idle_timeout` is on.
    pub idle_timeout: bool,
    /// Memory limit for items and indexes, in bytes.
    pub limit_bytes: u64,
    /// What is used of it, in bytes.
    pub used_bytes: u64,
    /// Workers.
    pub threads: u64,
    /// Host name or address and port that clients reach this server by.
    pub address: Option<(String, u16)>,
    /// The ports and sockets that the server listens on for anyone.
    pub listeners: Vec<String>,
    /// `stats settings`, in order.
    pub settings: Vec<(&'static str, String)>,
    /// Turns of workers that took 50 ms or longer.
    pub turns_slow: u64,
    /// Turns that took so long because the machine did not run the worker.
    pub turns_starved: u64,
    /// Questions to the name service.
    pub names_asked: u64,
    /// Those that brought no address.
    pub names_failed: u64,
}

/// Composes the answer to a `stats` command from the workers' summed counts.
pub fn compose(view: CountersView, sum: &Counters, facts: &ProcessFacts, now: Now) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    match view {
        CountersView::General => general(&mut out, sum, facts, now),
        CountersView::Evenkeel => evenkeel(&mut out, sum, facts),
    }
    out.extend_from_slice(text::END);
    out
}

/// Adds one worker's share of `stats items` or `stats slabs` to those that came before.
pub fn merge_classes(parts: &mut Vec<u8>, share: &[u8]) {
    let split = |bytes: &[u8]| {
        let at = ClassStats::ENCODED_BYTES.min(bytes.len());
        (bytes[..at].to_vec(), bytes[at..].to_vec())
    };
    let (mut classes, mut counters) = split(parts);
    let (more_classes, more_counters) = split(share);
    ClassStats::merge(&mut classes, &more_classes);
    Counters::merge(&mut counters, &more_counters);
    *parts = [classes, counters].concat();
}

/// Composes `stats items` or `stats slabs` from the workers' merged shares.
pub fn compose_classes(view: ClassesView, parts: &[u8]) -> Vec<u8> {
    let at = ClassStats::ENCODED_BYTES.min(parts.len());
    let classes = ClassStats::decode(&parts[..at]);
    let sum = Counters::decode(&parts[at..]);
    let mut out = Vec::with_capacity(4096);
    match view {
        ClassesView::Items => classes::items(&mut out, &classes),
        ClassesView::Slabs => classes::slabs(&mut out, &classes, sum.segment_bytes),
    }
    out.extend_from_slice(text::END);
    out
}

/// Composes the answer to `stats settings`. What `changed` names has another value by now than the
/// process knows; `chosen` are those of its cluster.
pub fn settings(
    facts: &ProcessFacts,
    changed: &[(&str, String)],
    chosen: &[(&str, String)],
) -> Vec<u8> {
    let mut out = Vec::with_capacity(2048);
    for (name, value) in &facts.settings {
        let now = changed.iter().find(|(other, _)| other == name);
        let value = now.map_or(value, |(_, value)| value);
        stat(&mut out, name.as_bytes(), value.as_bytes());
    }
    for (name, value) in chosen {
        stat(&mut out, name.as_bytes(), value.as_bytes());
    }
    out.extend_from_slice(text::END);
    out
}

fn cpu_time(out: &mut Vec<u8>, name: &str, us: u64) {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    stat(out, name.as_bytes(), text.as_bytes());
}

fn general(out: &mut Vec<u8>, sum: &Counters, facts: &ProcessFacts, now: Now) {
    numbers(
        out,
        &[
            ("pid", facts.pid.into()),
            ("uptime", now.monotonic.as_secs()),
            ("time", now.unix.into()),
        ],
    );
    stat(out, b"version", evenkeel_types::VERSION.as_bytes());
    stat(out, b"libevent", b"none");
    numbers(out, &[("pointer_size", u64::from(usize::BITS))]);
    cpu_time(out, "rusage_user", facts.user_us);
    cpu_time(out, "rusage_system", facts.system_us);
    numbers(
        out,
        &[
            ("max_connections", facts.connections_max),
            ("curr_connections", facts.connections_open),
            ("total_connections", facts.connections_total),
            ("rejected_connections", facts.connections_refused),
            ("connection_structures", facts.connections_open),
            ("response_obj_oom", sum.response_obj_oom),
            ("response_obj_count", sum.response_count),
            ("response_obj_bytes", sum.response_bytes),
            ("read_buf_count", sum.read_buf_count),
            ("read_buf_bytes", sum.read_buf_bytes),
            ("read_buf_bytes_free", 0),
            ("read_buf_oom", sum.read_buf_oom),
            ("reserved_fds", 0),
            ("cmd_get", sum.cmd_get),
            ("cmd_set", sum.cmd_set),
            ("cmd_flush", sum.cmd_flush),
            ("cmd_touch", sum.cmd_touch),
            ("cmd_meta", sum.cmd_meta),
            ("get_hits", sum.get_hits),
            ("get_misses", sum.get_misses),
            ("get_expired", sum.get_expired),
            ("get_flushed", 0),
            ("delete_misses", sum.delete_misses),
            ("delete_hits", sum.delete_hits),
            ("incr_misses", sum.incr_misses),
            ("incr_hits", sum.incr_hits),
            ("decr_misses", sum.decr_misses),
            ("decr_hits", sum.decr_hits),
            ("cas_misses", sum.cas_misses),
            ("cas_hits", sum.cas_hits),
            ("cas_badval", sum.cas_badval),
            ("touch_hits", sum.touch_hits),
            ("touch_misses", sum.touch_misses),
            ("store_too_large", sum.store_too_large),
            ("store_no_memory", sum.store_no_memory),
            ("auth_cmds", sum.auth_cmds),
            ("auth_errors", sum.auth_errors),
        ],
    );
    if facts.idle_timeout {
        numbers(out, &[("idle_kicks", sum.idle_kicks)]);
    }
    numbers(
        out,
        &[
            ("bytes_read", sum.bytes_read),
            ("bytes_written", sum.bytes_written),
            ("limit_maxbytes", facts.limit_bytes),
            ("accepting_conns", u64::from(!facts.accepting_paused)),
            ("listen_disabled_num", facts.accepting_pauses),
            ("time_in_listen_disabled_us", facts.accepting_paused_us),
            ("threads", facts.threads),
            ("conn_yields", sum.conn_yields),
            ("hash_power_level", hash_power(sum.index_bytes)),
            ("hash_bytes", sum.index_bytes),
            ("hash_is_expanding", 0),
            ("slab_reassign_rescues", 0),
            ("slab_reassign_chunk_rescues", 0),
            ("slab_reassign_inline_reclaim", 0),
            ("slab_reassign_busy_items", 0),
            ("slab_reassign_busy_deletes", 0),
            ("slab_reassign_busy_nomem", 0),
        ],
    );
    stat(out, b"slab_reassign_last_busy_status", b"none");
    numbers(
        out,
        &[
            ("slab_reassign_running", 0),
            ("slabs_moved", 0),
            ("lru_crawler_running", 0),
            ("lru_crawler_starts", 0),
            ("lru_maintainer_juggles", 0),
            ("malloc_fails", sum.store_no_memory),
            ("log_worker_dropped", sum.log_worker_dropped),
            ("log_worker_written", sum.log_worker_written),
            ("log_watcher_skipped", sum.log_watcher_skipped),
            ("log_watcher_sent", sum.log_watcher_sent),
            ("log_watchers", sum.log_watchers),
        ],
    );
    if let Some(read_at_s) = facts.tls_read_at_s {
        let since_s = now.monotonic.as_secs().saturating_sub(read_at_s);
        numbers(
            out,
            &[
                ("ssl_handshake_errors", sum.ssl_handshake_errors),
                ("ssl_proto_errors", sum.ssl_proto_errors),
                ("time_since_server_cert_refresh", since_s),
            ],
        );
    }
    numbers(
        out,
        &[
            ("unexpected_napi_ids", 0),
            ("round_robin_fallback", 0),
            ("bytes", sum.bytes),
            ("curr_items", sum.curr_items),
            ("total_items", sum.total_items),
            ("slab_global_page_pool", 0),
            ("expired_unfetched", sum.expired_unfetched),
            ("evicted_unfetched", sum.evicted_unfetched),
            ("evicted_active", sum.evicted_active),
            ("evictions", sum.evictions),
            ("reclaimed", sum.reclaimed),
            ("crawler_reclaimed", 0),
            ("crawler_items_checked", 0),
            ("lrutail_reflocked", 0),
            ("moves_to_cold", 0),
            ("moves_to_warm", 0),
            ("moves_within_lru", 0),
            ("direct_reclaims", 0),
            ("lru_bumps_dropped", 0),
        ],
    );
}

/// memcached's hash table has 2^n pointers of 8 bytes; the n that fits ours best.
fn hash_power(index_bytes: u64) -> u64 {
    u64::from((index_bytes / 8).max(1).ilog2())
}

fn evenkeel(out: &mut Vec<u8>, sum: &Counters, facts: &ProcessFacts) {
    numbers(
        out,
        &[
            ("memory_used_bytes", facts.used_bytes),
            ("turns_slow", facts.turns_slow),
            ("turns_starved", facts.turns_starved),
            ("names_asked", facts.names_asked),
            ("names_failed", facts.names_failed),
            ("segments", sum.segments),
            ("segment_bytes", sum.segment_bytes),
            ("index_bytes", sum.index_bytes),
            ("forwarded_in", sum.forwarded_in),
            ("forwarded_out", sum.forwarded_out),
            ("passed_on", sum.passed_on),
            ("cachelets_given", sum.cachelets_given),
            ("cachelets_taken", sum.cachelets_taken),
            ("cachelets_kept", sum.cachelets_kept),
            ("cachelets_refused", sum.cachelets_refused),
            ("cachelet_waits", sum.cachelet_waits),
            ("cachelet_waits_short", sum.cachelet_waits_short),
            ("cachelet_waits_us", sum.cachelet_waits_us),
            ("commands_waited", sum.commands_waited),
            ("migrations_ordered", sum.migrations_ordered),
            ("migrations_passed", sum.migrations_passed),
            ("migrations_aborted", sum.migrations_aborted),
            ("migrations_outrun", sum.migrations_outrun),
            ("migrations_staged", sum.migrations_staged),
            ("migrations_came", sum.migrations_came),
            ("migrations_dropped", sum.migrations_dropped),
            ("migration_items_sent", sum.migration_items_sent),
            ("migration_bytes_sent", sum.migration_bytes_sent),
            ("migration_items_taken", sum.migration_items_taken),
            ("migration_bytes_taken", sum.migration_bytes_taken),
            ("migration_items_unstored", sum.migration_items_unstored),
            ("migration_items_unsendable", sum.migration_items_unsendable),
            ("migration_pauses", sum.migration_pauses),
            ("migration_pass_us", sum.migration_pass_us),
            ("moved", sum.moved),
            ("leases_granted", sum.leases_granted),
            ("leases_shortened", sum.leases_shortened),
            ("propagations", sum.propagations),
            ("links_lost", sum.links_lost),
            ("answers_held", sum.answers_held),
            ("holds_confirmed", sum.holds_confirmed),
            ("holds_by_lease", sum.holds_by_lease),
            ("holds_us", sum.holds_us),
            ("holds_under_1ms", sum.holds_under_1ms),
            ("holds_under_10ms", sum.holds_under_10ms),
            ("holds_under_100ms", sum.holds_under_100ms),
            ("holds_longer", sum.holds_longer),
            ("hot_keys_tracked", sum.hot_keys_tracked),
            ("hot_keys_replicated", sum.hot_keys_replicated),
            ("hot_keys_observed", sum.hot_keys_observed),
            ("hot_keys_promoted", sum.hot_keys_promoted),
            ("hot_keys_widened", sum.hot_keys_widened),
            ("hot_keys_retired", sum.hot_keys_retired),
            ("hot_keys_would_promote", sum.hot_keys_would_promote),
            ("hot_reads_sampled", sum.hot_reads_sampled),
            ("hot_keys_untracked_full", sum.hot_keys_untracked_full),
            ("hot_keys_unpromoted_full", sum.hot_keys_unpromoted_full),
            ("hot_keys_unpromoted_alone", sum.hot_keys_unpromoted_alone),
            ("hot_log_overwritten", sum.hot_log_overwritten),
            ("copies_unconfirmed", sum.copies_unconfirmed),
            ("copies_behind", sum.copies_behind.count()),
            ("copies_behind_us_sum", sum.copies_behind.sum_us()),
            ("copies_behind_us_max", sum.copies_behind.max_us()),
            ("replica_items", sum.replica_items),
            ("replica_bytes", sum.replica_bytes),
            ("replica_hits", sum.replica_hits),
            ("replica_misses", sum.replica_misses),
            ("replica_stores", sum.replica_stores),
            ("replica_deletes", sum.replica_deletes),
            ("replica_refused_old", sum.replica_refused_old),
            ("replica_orders_early", sum.replica_orders_early),
            ("strangers_refused", sum.strangers_refused),
            ("stalled_closed", sum.stalled_closed),
            ("read_buf_waits", sum.read_buf_waits),
            ("response_obj_waits", sum.response_obj_waits),
            ("receives_starved", sum.receives_starved),
            ("maps_refused", sum.maps_refused),
            ("leases_lost", sum.leases_lost),
            ("leases_unusable", sum.leases_unusable),
            ("leases_by_votes", sum.leases_by_votes),
            ("requests_without_lease", sum.requests_without_lease),
            ("keys_of_others", sum.keys_of_others),
            ("answers_too_late", sum.answers_too_late),
            ("votes_given", sum.votes_given),
            ("votes_refused", sum.votes_refused),
            ("protocol_errors", sum.protocol_errors),
            ("prefixes_overflowed", sum.prefixes_overflowed),
        ],
    );
    for (bound, count) in sum.copies_behind.within() {
        stat_number(
            out,
            format!("copies_behind_within_us:{bound}").as_bytes(),
            count,
        );
    }
}
