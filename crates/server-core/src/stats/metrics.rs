//! What the server counts, in Prometheus's text format.
//!
//! Names that begin with `memcached_` are those of prometheus/memcached_exporter, with its labels, so
//! that dashboards and alerts for memcached work without an exporter; their values are those of
//! `stats`, `stats items` and `stats slabs`. What memcached does not have begins with `evenkeel_`.

use crate::shard::classes::ClassStats;
use crate::shard::counters::Counters;
use crate::stats::{COPIES_BEHIND, ProcessCounts, ProcessFacts};
use evenkeel_control::exposition::{Text, seconds};
use evenkeel_types::Now;
use evenkeel_types::VERSION;

/// The kind of text that [`render`] writes.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// What memcached does not have begins with this.
pub(crate) const PREFIX: &str = "evenkeel_";

/// Writes everything. `sum` and `classes` are the sums over all workers.
pub fn render(sum: &Counters, classes: &ClassStats, facts: &ProcessFacts, now: Now) -> String {
    let mut text = Text(String::with_capacity(16 << 10));
    process(&mut text, facts, now);
    commands(&mut text, sum);
    items(&mut text);
    slabs(&mut text, classes);
    counted(&mut text, sum, facts);
    text.0
}

fn process(text: &mut Text, facts: &ProcessFacts, now: Now) {
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
        (
            "limit_bytes",
            "Most bytes of items and indexes.",
            facts.limit_bytes,
        ),
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

fn items(text: &mut Text) {
    for (name, help, value) in [
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

/// Each counter that is declared with a metric.
fn counted(text: &mut Text, sum: &Counters, facts: &ProcessFacts) {
    text.shown(PREFIX, ProcessCounts::EVENKEEL, [(vec![], &facts.counts)]);
    text.shown(PREFIX, Counters::MEMCACHED, [(vec![], sum)]);
    text.shown(PREFIX, Counters::EVENKEEL, [(vec![], sum)]);
    text.ages(PREFIX, &COPIES_BEHIND, &sum.copies_behind);
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
            band.bytes
        }),
        ("current_items", "Items.", |_, band| band.items),
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
            |_, band| band.evicted,
        ),
        (
            "items_evicted_nonzero_total",
            "Always 0: not counted by size.",
            |_, _| 0,
        ),
        (
            "items_evicted_unfetched_total",
            "Always 0: not counted by size.",
            |_, _| 0,
        ),
        (
            "items_evicted_time_seconds",
            "Seconds since the last use of the item evicted last.",
            |_, band| band.evicted_age_s,
        ),
        (
            "items_outofmemory_total",
            "Values refused for want of memory.",
            |_, band| band.out_of_memory,
        ),
        (
            "items_reclaimed_total",
            "Always 0: not counted by size.",
            |_, _| 0,
        ),
        (
            "items_expired_unfetched_total",
            "Always 0: not counted by size.",
            |_, _| 0,
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
