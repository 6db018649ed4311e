//! What the server counts, in Prometheus's text format.
//!
//! Names that begin with `memcached_` are those of prometheus/memcached_exporter, with its labels, so
//! that dashboards and alerts for memcached work without an exporter; their values are those of
//! `stats`, `stats items` and `stats slabs`. What memcached does not have begins with `evenkeel_`.

use super::counters::Counters;
use super::stats::{ClassStats, ProcessFacts, VERSION};
use crate::exposition::{Text, seconds};
use evenkeel_types::Now;

/// The kind of text that [`render`] writes.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// Writes everything. `sum` and `classes` are the sums over all workers.
pub fn render(sum: &Counters, classes: &ClassStats, facts: &ProcessFacts, now: Now) -> String {
    let mut text = Text(String::with_capacity(16 << 10));
    process(&mut text, sum, facts, now);
    commands(&mut text, sum);
    items(&mut text, sum);
    slabs(&mut text, classes);
    own(&mut text, sum, facts);
    text.0
}

fn process(text: &mut Text, sum: &Counters, facts: &ProcessFacts, now: Now) {
    text.gauge("memcached_up", "Whether the server answers.", 1);
    text.counter(
        "memcached_uptime_seconds",
        "Seconds since the server started.",
        now.monotonic.as_secs(),
    );
    text.gauge("memcached_time_seconds", "The server's clock.", now.unix);
    let name = "memcached_version";
    text.kind(name, "gauge", "The version, as a label.");
    text.sample(name, &[("version", VERSION)], 1);
    text.counter(
        "memcached_process_user_cpu_seconds_total",
        "CPU time in user mode.",
        seconds(facts.user_us),
    );
    text.counter(
        "memcached_process_system_cpu_seconds_total",
        "CPU time in the kernel.",
        seconds(facts.system_us),
    );
    for (name, help, value) in [
        (
            "read_bytes_total",
            "Bytes read from clients.",
            sum.bytes_read,
        ),
        (
            "written_bytes_total",
            "Bytes written to clients.",
            sum.bytes_written,
        ),
        (
            "connections_total",
            "Connections admitted.",
            facts.connections_total,
        ),
        (
            "connections_rejected_total",
            "Connections refused.",
            facts.connections_refused,
        ),
        (
            "connections_yielded_total",
            "Times a connection had to let others go first (-R).",
            sum.conn_yields,
        ),
        (
            "connections_listener_disabled_total",
            "Times that new connections had to wait.",
            facts.accepting_pauses,
        ),
    ] {
        text.counter(&format!("memcached_{name}"), help, value);
    }
    for (name, help, value) in [
        (
            "current_connections",
            "Connections open now.",
            facts.connections_open,
        ),
        (
            "max_connections",
            "Most connections at a time (-c).",
            facts.connections_max,
        ),
        (
            "accepting_connections",
            "Whether connections are accepted now.",
            u64::from(!facts.accepting_paused),
        ),
        ("current_bytes", "Bytes of the items held now.", sum.bytes),
        (
            "limit_bytes",
            "Most bytes of items and indexes.",
            facts.limit_bytes,
        ),
        (
            "malloced_bytes",
            "Bytes of segments held now.",
            sum.segment_bytes,
        ),
        ("current_items", "Items held now.", sum.curr_items),
    ] {
        text.gauge(&format!("memcached_{name}"), help, value);
    }
}

fn commands(text: &mut Text, sum: &Counters) {
    let name = "memcached_commands_total";
    text.kind(name, "counter", "Commands by their outcome.");
    // memcached's cmd_set counts cas as well, and the exporter takes it out again.
    let cas = sum.cas_hits + sum.cas_misses + sum.cas_badval;
    for (command, status, value) in [
        ("get", "hit", sum.get_hits),
        ("get", "miss", sum.get_misses),
        ("delete", "hit", sum.delete_hits),
        ("delete", "miss", sum.delete_misses),
        ("incr", "hit", sum.incr_hits),
        ("incr", "miss", sum.incr_misses),
        ("decr", "hit", sum.decr_hits),
        ("decr", "miss", sum.decr_misses),
        ("cas", "hit", sum.cas_hits),
        ("cas", "miss", sum.cas_misses),
        ("cas", "badval", sum.cas_badval),
        ("touch", "hit", sum.touch_hits),
        ("touch", "miss", sum.touch_misses),
        ("flush", "hit", sum.cmd_flush),
        ("set", "hit", sum.cmd_set.saturating_sub(cas)),
    ] {
        text.sample(name, &[("command", command), ("status", status)], value);
    }
}

fn items(text: &mut Text, sum: &Counters) {
    for (name, help, value) in [
        ("items_total", "Items ever stored.", sum.total_items),
        (
            "items_evicted_total",
            "Live items removed for want of memory.",
            sum.evictions,
        ),
        (
            "items_reclaimed_total",
            "Expired items removed.",
            sum.reclaimed,
        ),
        (
            "item_too_large_total",
            "Values refused for their size.",
            sum.store_too_large,
        ),
        (
            "item_no_memory_total",
            "Values refused for want of memory.",
            sum.store_no_memory,
        ),
        (
            "direct_reclaims_total",
            "Always 0: memory is not reclaimed by worker threads' hand.",
            0,
        ),
        (
            "lru_crawler_starts_total",
            "Always 0: items expire with their segments.",
            0,
        ),
        ("lru_crawler_reclaimed_total", "Always 0.", 0),
        ("lru_crawler_items_checked_total", "Always 0.", 0),
        ("lru_crawler_moves_to_cold_total", "Always 0.", 0),
        ("lru_crawler_moves_to_warm_total", "Always 0.", 0),
        ("lru_crawler_moves_within_lru_total", "Always 0.", 0),
    ] {
        text.counter(&format!("memcached_{name}"), help, value);
    }
    text.gauge(
        "memcached_lru_crawler_enabled",
        "Always 0: there is none.",
        0,
    );
}

fn slabs(text: &mut Text, classes: &ClassStats) {
    type Value = fn(usize, &evenkeel_storage::BandStats) -> u64;
    let gauges: [(&str, &str, Value); 8] = [
        (
            "chunk_size_bytes",
            "Most bytes of an item of the class.",
            |class, band| ClassStats::pages(class, band).chunk_bytes,
        ),
        ("chunks_per_page", "Chunks of a page.", |class, band| {
            ClassStats::pages(class, band).chunks_per_page
        }),
        (
            "current_pages",
            "Pages that the items would fill.",
            |class, band| ClassStats::pages(class, band).pages,
        ),
        ("current_chunks", "Chunks of these pages.", |class, band| {
            ClassStats::pages(class, band).chunks
        }),
        ("chunks_used", "Chunks that hold an item.", |class, band| {
            ClassStats::pages(class, band).used
        }),
        ("mem_requested_bytes", "Bytes of the items.", |_, band| {
            band.held.bytes
        }),
        ("current_items", "Items.", |_, band| band.held.items),
        (
            "items_age_seconds",
            "Seconds since the last use of the oldest item seen.",
            |_, band| band.oldest_age_s,
        ),
    ];
    let counters: [(&str, &str, Value); 7] = [
        (
            "items_evicted_total",
            "Live items removed for want of memory.",
            |_, band| band.counters.evicted,
        ),
        (
            "items_evicted_nonzero_total",
            "Of them, with an expiry.",
            |_, band| band.counters.evicted_nonzero,
        ),
        (
            "items_evicted_unfetched_total",
            "Of them, never read.",
            |_, band| band.counters.evicted_unfetched,
        ),
        (
            "items_evicted_time_seconds",
            "Seconds since the last use of the item evicted last.",
            |_, band| band.counters.evicted_age_s,
        ),
        (
            "items_outofmemory_total",
            "Values refused for want of memory.",
            |_, band| band.counters.out_of_memory,
        ),
        (
            "items_reclaimed_total",
            "Expired items removed.",
            |_, band| band.counters.reclaimed,
        ),
        (
            "items_expired_unfetched_total",
            "Of them, never read.",
            |_, band| band.counters.expired_unfetched,
        ),
    ];
    let kinds = [
        ("gauge", gauges.as_slice()),
        ("counter", counters.as_slice()),
    ];
    for (kind, metrics) in kinds {
        for (name, help, value) in metrics {
            let name = format!("memcached_slab_{name}");
            text.kind(&name, kind, help);
            for (class, band) in classes.used() {
                let slab = class.to_string();
                text.sample(&name, &[("slab", &slab)], value(class, band));
            }
        }
    }
}

fn own(text: &mut Text, sum: &Counters, facts: &ProcessFacts) {
    for (name, help, value) in [
        (
            "memory_used_bytes",
            "Bytes lent to workers.",
            facts.used_bytes,
        ),
        (
            "mapped_bytes",
            "Bytes mapped for items at the start, as huge pages or on memory nodes.",
            facts.memory.mapped_bytes,
        ),
        (
            "memory_nodes",
            "Memory nodes of the machine that have cores.",
            facts.memory.nodes,
        ),
        (
            "memory_unbound_bytes",
            "Bytes for pinned workers that could not be bound to their memory node.",
            facts.memory.unbound_bytes,
        ),
        ("index_bytes", "Bytes of indexes.", sum.index_bytes),
        ("segments", "Segments held now.", sum.segments),
        (
            "replica_items",
            "Replicas held for other servers.",
            sum.replica_items,
        ),
        ("replica_bytes", "Their bytes.", sum.replica_bytes),
        (
            "response_bytes",
            "Bytes of answers that clients have not read.",
            sum.response_bytes,
        ),
        (
            "read_buffer_bytes",
            "Bytes held of commands whose end has not come.",
            sum.read_buf_bytes,
        ),
        ("log_watchers", "Connections that watch.", sum.log_watchers),
        (
            "hot_keys_tracked",
            "Keys that are tracked as possibly hot.",
            sum.hot_keys_tracked,
        ),
        (
            "hot_keys_replicated",
            "Keys that have replicas at other servers.",
            sum.hot_keys_replicated,
        ),
        (
            "hot_keys_observed",
            "Keys that would have replicas if they were not only observed.",
            sum.hot_keys_observed,
        ),
    ] {
        text.gauge(&format!("evenkeel_{name}"), help, value);
    }
    let name = "evenkeel_huge_pages";
    text.kind(name, "gauge", "What -L got, as a label.");
    text.sample(name, &[("pages", facts.memory.huge_pages)], 1);
    for (name, help, value) in [
        (
            "mapped_refused_total",
            "Blocks of items that found no room in the bytes mapped for them.",
            facts.memory.mapped_refused,
        ),
        (
            "forwarded_in_total",
            "Commands that came from another worker.",
            sum.forwarded_in,
        ),
        (
            "forwarded_out_total",
            "Commands passed to another worker.",
            sum.forwarded_out,
        ),
        (
            "passed_on_total",
            "Commands of other workers' connections passed on to the new host of their key.",
            sum.passed_on,
        ),
        (
            "cachelets_given_total",
            "Cachelets given to other workers of this server.",
            sum.cachelets_given,
        ),
        (
            "cachelets_taken_total",
            "Cachelets taken from other workers of this server.",
            sum.cachelets_taken,
        ),
        (
            "cachelets_kept_total",
            "Orders to give a cachelet away that were not possible in time.",
            sum.cachelets_kept,
        ),
        (
            "cachelets_refused_total",
            "Cachelets from other workers that the map had taken from this server.",
            sum.cachelets_refused,
        ),
        (
            "cachelets_split_total",
            "Cachelets that this server has split, as the map did.",
            sum.cachelets_split,
        ),
        (
            "cachelets_merged_total",
            "Cachelets that got another one's contents, as the map merged them.",
            sum.cachelets_merged,
        ),
        (
            "cachelets_broken_total",
            "Cachelets that were emptied because a map took a part of them away.",
            sum.cachelets_broken,
        ),
        (
            "cachelet_waits_total",
            "Times that a worker's connections had to wait for a cachelet that moved.",
            sum.cachelet_waits,
        ),
        (
            "cachelet_waits_short_total",
            "Those of 100 microseconds at most.",
            sum.cachelet_waits_short,
        ),
        (
            "cachelet_waits_us_total",
            "How long they were, in microseconds.",
            sum.cachelet_waits_us,
        ),
        (
            "commands_waited_total",
            "Commands that waited for a cachelet that moved.",
            sum.commands_waited,
        ),
        (
            "migrations_ordered_total",
            "Migrations to another server that a worker was ordered to carry out.",
            sum.migrations_ordered,
        ),
        (
            "migrations_passed_total",
            "Cachelets that have passed to another server with their contents.",
            sum.migrations_passed,
        ),
        (
            "migrations_aborted_total",
            "Migrations that this server gave up as their source.",
            sum.migrations_aborted,
        ),
        (
            "migrations_outrun_total",
            "Those of them whose cachelet was written faster than it could be copied.",
            sum.migrations_outrun,
        ),
        (
            "migrations_staged_total",
            "Migrations from another server that began.",
            sum.migrations_staged,
        ),
        (
            "migrations_came_total",
            "Cachelets that have come from another server with their contents.",
            sum.migrations_came,
        ),
        (
            "migrations_dropped_total",
            "Contents that had come from another server and were forgotten, because nothing came of the migration.",
            sum.migrations_dropped,
        ),
        (
            "migration_items_sent_total",
            "Items sent to other servers by migrations; those written meanwhile count again.",
            sum.migration_items_sent,
        ),
        (
            "migration_bytes_sent_total",
            "Their bytes, as sent.",
            sum.migration_bytes_sent,
        ),
        (
            "migration_items_taken_total",
            "Items taken from other servers by migrations.",
            sum.migration_items_taken,
        ),
        (
            "migration_bytes_taken_total",
            "Bytes of their keys and values.",
            sum.migration_bytes_taken,
        ),
        (
            "migration_items_unstored_total",
            "Items of migrations for which there was no room; their keys are misses.",
            sum.migration_items_unstored,
        ),
        (
            "migration_items_unsendable_total",
            "Keys that no line can hold, which do not migrate; they are misses.",
            sum.migration_items_unsendable,
        ),
        (
            "migration_pauses_total",
            "Times that copying paused because clients of the worker had to wait for too long.",
            sum.migration_pauses,
        ),
        (
            "migration_pass_us_total",
            "Microseconds in which cachelets were served by nobody because they passed to another server.",
            sum.migration_pass_us,
        ),
        (
            "moved_total",
            "Requests answered with another owner.",
            sum.moved,
        ),
        (
            "leases_granted_total",
            "Answers that granted a lease.",
            sum.leases_granted,
        ),
        (
            "propagations_total",
            "Replica messages sent.",
            sum.propagations,
        ),
        (
            "links_lost_total",
            "Links to shadow workers lost.",
            sum.links_lost,
        ),
        (
            "answers_held_total",
            "Answers held back because copies of their keys could still be read.",
            sum.answers_held,
        ),
        (
            "holds_confirmed_total",
            "Times of holding that ended because every copy was blocked.",
            sum.holds_confirmed,
        ),
        (
            "holds_by_lease_total",
            "Times of holding that ended with the last lease.",
            sum.holds_by_lease,
        ),
        (
            "holds_microseconds_total",
            "How long answers were held back, in all times of holding.",
            sum.holds_us,
        ),
        (
            "hot_keys_promoted_total",
            "Times that a key got replicas.",
            sum.hot_keys_promoted,
        ),
        (
            "hot_keys_widened_total",
            "Times that a key got more replicas.",
            sum.hot_keys_widened,
        ),
        (
            "hot_keys_retired_total",
            "Times that a key was to lose its replicas.",
            sum.hot_keys_retired,
        ),
        (
            "hot_keys_would_promote_total",
            "Times that a key would have got replicas if it had not only been observed.",
            sum.hot_keys_would_promote,
        ),
        (
            "hot_reads_sampled_total",
            "Reads looked at by chance.",
            sum.hot_reads_sampled,
        ),
        (
            "hot_keys_untracked_full_total",
            "Sampled keys not tracked because every tracked one had replicas.",
            sum.hot_keys_untracked_full,
        ),
        (
            "hot_keys_unpromoted_full_total",
            "Hot keys without replicas because too many others had some.",
            sum.hot_keys_unpromoted_full,
        ),
        (
            "hot_keys_unpromoted_alone_total",
            "Hot keys without replicas because no other server could hold them.",
            sum.hot_keys_unpromoted_alone,
        ),
        (
            "hot_log_overwritten_total",
            "Entries of the log of hot keys that were overwritten.",
            sum.hot_log_overwritten,
        ),
        (
            "copies_unconfirmed_total",
            "Writes of which it never was known whether every replica had them.",
            sum.copies_unconfirmed,
        ),
        (
            "replica_hits_total",
            "Reads of replicas: found.",
            sum.replica_hits,
        ),
        (
            "replica_misses_total",
            "Reads of replicas: not found.",
            sum.replica_misses,
        ),
        (
            "replica_stores_total",
            "Replicas stored or renewed.",
            sum.replica_stores,
        ),
        (
            "replica_deletes_total",
            "Replicas removed.",
            sum.replica_deletes,
        ),
        (
            "replica_refused_old_total",
            "Replica stores refused for a newer version.",
            sum.replica_refused_old,
        ),
        (
            "stalled_closed_total",
            "Connections closed for want of progress.",
            sum.stalled_closed,
        ),
        (
            "read_buffers_refused_total",
            "Connections closed for want of memory for what they send.",
            sum.read_buf_oom,
        ),
        (
            "read_buffers_waited_total",
            "Commands that had to wait for memory for what the client sends.",
            sum.read_buf_waits,
        ),
        (
            "responses_refused_total",
            "Connections closed for want of memory for answers that they do not read.",
            sum.response_obj_oom,
        ),
        (
            "idle_kicks_total",
            "Connections closed for being idle.",
            sum.idle_kicks,
        ),
        (
            "leases_lost_total",
            "Times that a worker's leave to serve ended without another.",
            sum.leases_lost,
        ),
        (
            "leases_unusable_total",
            "Serving leases that came too late or before their map.",
            sum.leases_unusable,
        ),
        (
            "leases_by_votes_total",
            "Serving leases by the votes of other servers.",
            sum.leases_by_votes,
        ),
        (
            "requests_without_lease_total",
            "Requests not carried out for lack of a serving lease.",
            sum.requests_without_lease,
        ),
        (
            "answers_too_late_total",
            "Connections closed because answers may have outlived a serving lease.",
            sum.answers_too_late,
        ),
        (
            "votes_given_total",
            "Votes given to other servers.",
            sum.votes_given,
        ),
        (
            "votes_refused_total",
            "Votes refused to other servers.",
            sum.votes_refused,
        ),
        (
            "maps_refused_total",
            "Maps that could not be used.",
            sum.maps_refused,
        ),
        (
            "protocol_errors_total",
            "Commands that the parser refused.",
            sum.protocol_errors,
        ),
        ("auth_errors_total", "Credentials refused.", sum.auth_errors),
        (
            "log_dropped_total",
            "Lines for watchers that found no room.",
            sum.log_worker_dropped,
        ),
        (
            "log_skipped_total",
            "Lines that watchers were too slow for.",
            sum.log_watcher_skipped,
        ),
        (
            "prefixes_overflowed_total",
            "Commands whose prefix was not counted.",
            sum.prefixes_overflowed,
        ),
    ] {
        text.counter(&format!("evenkeel_{name}"), help, value);
    }
    text.ages(
        "evenkeel_copies_behind_seconds",
        "How long writes to replicated keys took until every replica was known to have them.",
        &sum.copies_behind,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_storage::{NEVER, NewItem, PoolConfig, SegmentPool, Store};
    use evenkeel_types::{CacheletId, Version};

    /// The exporter's names that dashboards and alerts read.
    const NAMES: &[&str] = &[
        "memcached_up 1",
        "memcached_uptime_seconds ",
        "memcached_time_seconds ",
        "memcached_version{version=\"1.6.45",
        "memcached_process_user_cpu_seconds_total 1.500000",
        "memcached_process_system_cpu_seconds_total 0.000002",
        "memcached_read_bytes_total 11",
        "memcached_written_bytes_total 12",
        "memcached_current_connections 3",
        "memcached_max_connections 1024",
        "memcached_connections_total 9",
        "memcached_connections_rejected_total 2",
        "memcached_connections_yielded_total 0",
        "memcached_connections_listener_disabled_total 0",
        "memcached_current_bytes ",
        "memcached_limit_bytes 67108864",
        "memcached_commands_total{command=\"get\",status=\"hit\"} 5",
        "memcached_commands_total{command=\"set\",status=\"hit\"} 6",
        "memcached_current_items 1",
        "memcached_items_total 0",
        "memcached_items_evicted_total 0",
        "memcached_items_reclaimed_total 0",
        "memcached_item_too_large_total 0",
        "memcached_item_no_memory_total 0",
        "memcached_direct_reclaims_total 0",
        "memcached_malloced_bytes ",
        "memcached_accepting_connections 1",
        "memcached_lru_crawler_enabled 0",
        "memcached_slab_chunk_size_bytes{slab=\"1\"} 64",
        "memcached_slab_current_items{slab=\"1\"} 1",
        "memcached_slab_items_evicted_total{slab=\"1\"} 0",
        "evenkeel_protocol_errors_total 0",
        "evenkeel_huge_pages{pages=\"off\"} 1",
        "evenkeel_memory_nodes 1",
    ];

    #[test]
    fn each_name_of_the_exporter_is_there_with_the_value_of_stats() {
        let pool = SegmentPool::new(PoolConfig {
            limit_bytes: 1 << 20,
            item_size_max: 1 << 10,
            cachelets_expected: 1,
        });
        let mut store = Store::new(pool, 1);
        store.create_cachelet(CacheletId(0));
        let item = NewItem {
            key: b"k",
            value: [b"v", b""],
            flags: 0,
            expires_at: NEVER,
            version: Version(1),
        };
        store.insert(CacheletId(0), item, 1).expect("room");
        let sum = Counters {
            bytes_read: 11,
            bytes_written: 12,
            get_hits: 5,
            cmd_set: 8,
            cas_hits: 2,
            curr_items: 1,
            ..Counters::default()
        };
        let facts = ProcessFacts {
            user_us: 1_500_000,
            system_us: 2,
            connections_open: 3,
            connections_max: 1024,
            connections_total: 9,
            connections_refused: 2,
            limit_bytes: 64 << 20,
            ..ProcessFacts::default()
        };
        let now = Now::default();
        let text = render(&sum, &ClassStats::of(&store, now), &facts, now);
        for name in NAMES {
            assert!(
                text.lines().any(|line| line.starts_with(name)),
                "{name} is missing:\n{text}"
            );
        }
        // Each metric is declared once, before its samples.
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().expect("a name");
            let name = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|part| name.strip_suffix(part))
                .unwrap_or(name);
            let declared = format!("# TYPE {name} ");
            assert_eq!(text.matches(&declared).count(), 1, "{name}");
        }
    }
}
