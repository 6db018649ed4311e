//! What the server counts, in Prometheus's text format.
//!
//! Names that begin with `memcached_` are those of prometheus/memcached_exporter, with its labels, so
//! that dashboards and alerts for memcached work without an exporter; their values are those of
//! `stats`, `stats items` and `stats slabs`. What memcached does not have begins with `evenkeel_`.

use crate::shard::classes::ClassStats;
use crate::shard::counters::Counters;
use crate::stats::{COPIES_BEHIND, ProcessCounts, ProcessFacts};
use evenkeel_control::exposition::{Samples, Text, seconds};
use evenkeel_control::families;
use evenkeel_storage::BandStats;
use evenkeel_types::{Now, VERSION};

/// The kind of text that [`render`] writes.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// What the names of metrics begin with: of what memcached does not have, of the exporter's, of its classes'.
pub(crate) const PREFIX: &str = "evenkeel_";
pub(crate) const EXPORTERS: &str = "memcached_";
pub(crate) const OF_SLAB: &str = "memcached_slab_";

families! {
    pub(crate) TIME of Now {
        up => gauge, "Whether the server answers.", |_, to| to.one(1);
        uptime => counter "memcached_uptime_seconds", "Seconds since the server started.", |now, to| to.one(now.monotonic.as_secs());
        time_seconds => gauge, "The server's clock.", |now, to| to.one(now.unix);
        version[version] => gauge, "The version, as a label.", |_, to| to.of(&[VERSION], 1);
    }
    pub(crate) PROCESS of ProcessFacts {
        process_user_cpu_seconds => counter, "CPU time in user mode.", |facts, to| to.one(seconds(facts.user_us));
        process_system_cpu_seconds => counter, "CPU time in the kernel.", |facts, to| to.one(seconds(facts.system_us));
        connections => counter, "Connections admitted.", |facts, to| to.one(facts.connections_total);
        connections_rejected => counter, "Connections refused.", |facts, to| to.one(facts.connections_refused);
        connections_listener_disabled => counter, "Times that new connections had to wait.", |facts, to| to.one(facts.accepting_pauses);
        current_connections => gauge, "Connections open now.", |facts, to| to.one(facts.connections_open);
        max_connections => gauge, "Maximum connections at a time (-c).", |facts, to| to.one(facts.connections_max);
        accepting_connections => gauge, "Whether connections are accepted now.", |facts, to| to.one(u64::from(!facts.accepting_paused));
        limit_bytes => gauge, "Most bytes of items and indexes.", |facts, to| to.one(facts.limit_bytes);
    }
    pub(crate) COMMANDS of Counters {
        commands[command, status] => counter, "Commands by their outcome.", |sum, to| commands(to, sum);
        direct_reclaims => counter, "Always 0: memory is not reclaimed by worker threads' hand.", |_, to| to.one(0);
        lru_crawler_starts => counter, "Always 0: items expire with their segments.", |_, to| to.one(0);
        lru_crawler_reclaimed => counter, "Always 0.", |_, to| to.one(0);
        lru_crawler_items_checked => counter, "Always 0.", |_, to| to.one(0);
        lru_crawler_moves_to_cold => counter, "Always 0.", |_, to| to.one(0);
        lru_crawler_moves_to_warm => counter, "Always 0.", |_, to| to.one(0);
        lru_crawler_moves_within_lru => counter, "Always 0.", |_, to| to.one(0);
        lru_crawler_enabled => gauge, "Always 0: there is none.", |_, to| to.one(0);
    }
    pub(crate) SLABS of ClassStats {
        chunk_size_bytes[slab] => gauge, "Most bytes of an item of the class.",
            |all, to| of_each(to, all, |class, band| ClassStats::pages(class, band).chunk_bytes);
        chunks_per_page[slab] => gauge, "Chunks of a page.",
            |all, to| of_each(to, all, |class, band| ClassStats::pages(class, band).chunks_per_page);
        current_pages[slab] => gauge, "Pages that the items would fill.",
            |all, to| of_each(to, all, |class, band| ClassStats::pages(class, band).pages);
        current_chunks[slab] => gauge, "Chunks of these pages.",
            |all, to| of_each(to, all, |class, band| ClassStats::pages(class, band).chunks);
        chunks_used[slab] => gauge, "Chunks that hold an item.",
            |all, to| of_each(to, all, |class, band| ClassStats::pages(class, band).used);
        mem_requested_bytes[slab] => gauge, "Bytes of the items.", |all, to| of_each(to, all, |_, band| band.bytes);
        current_items[slab] => gauge, "Items.", |all, to| of_each(to, all, |_, band| band.items);
        items_age_seconds[slab] => gauge, "Seconds since the last use of the oldest item seen.",
            |all, to| of_each(to, all, |_, band| band.oldest_age_s);
        items_evicted[slab] => counter, "Live items removed for want of memory.", |all, to| of_each(to, all, |_, band| band.evicted);
        items_evicted_nonzero[slab] => counter, "Always 0: not counted by size.", |all, to| of_each(to, all, |_, _| 0);
        items_evicted_unfetched[slab] => counter, "Always 0: not counted by size.", |all, to| of_each(to, all, |_, _| 0);
        items_evicted_time[slab] => counter "memcached_slab_items_evicted_time_seconds",
            "Seconds since the last use of the item evicted last.", |all, to| of_each(to, all, |_, band| band.evicted_age_s);
        items_outofmemory[slab] => counter, "Values refused for want of memory.", |all, to| of_each(to, all, |_, band| band.out_of_memory);
        items_reclaimed[slab] => counter, "Always 0: not counted by size.", |all, to| of_each(to, all, |_, _| 0);
        items_expired_unfetched[slab] => counter, "Always 0: not counted by size.", |all, to| of_each(to, all, |_, _| 0);
    }
}

/// Writes everything. `sum` and `classes` are the sums over all workers.
pub fn render(sum: &Counters, classes: &ClassStats, facts: &ProcessFacts, now: Now) -> String {
    let mut text = Text(String::with_capacity(16 << 10));
    text.families(EXPORTERS, TIME, &now);
    text.families(EXPORTERS, PROCESS, facts);
    text.families(EXPORTERS, COMMANDS, sum);
    text.families(OF_SLAB, SLABS, classes);
    text.shown(PREFIX, ProcessCounts::EVENKEEL, [(vec![], &facts.counts)]);
    text.shown(PREFIX, Counters::MEMCACHED, [(vec![], sum)]);
    text.shown(PREFIX, Counters::EVENKEEL, [(vec![], sum)]);
    text.ages(PREFIX, &COPIES_BEHIND, &sum.copies_behind);
    text.0
}

fn commands(to: &mut Samples<'_>, sum: &Counters) {
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
        to.of(&[command, status], value);
    }
}

/// A number of each class.
fn of_each(to: &mut Samples<'_>, all: &ClassStats, number: fn(usize, &BandStats) -> u64) {
    for (class, band) in all.used() {
        to.of(&[&class.to_string()], number(class, band));
    }
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
