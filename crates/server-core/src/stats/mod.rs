//! The answers to `stats`, under memcached's names.
//!
//! Tools read these by name and some by position, so the general list keeps memcached's names and
//! order. Names that mean nothing here show 0; items and slabs are shown by size, see `shard/classes.rs`.

pub(crate) mod connections;
pub(crate) mod lists;
pub mod metrics;
#[cfg(test)]
mod page;
pub(crate) mod process;

use crate::mesh::message::{ClassesView, CountersView, Task};
use crate::session::Session;
use crate::session::address::ReturnAddress;
use crate::shard::classes::{self, ClassStats, numbers};
use crate::shard::counters::Counters;
use crate::shard::share::Share;
use evenkeel_control::exposition::ShownAges;
use evenkeel_protocol::compose::answer::{stat, stat_number};
use evenkeel_protocol::text;
use evenkeel_types::shown::Shown;
use evenkeel_types::{Now, counters};

/// What the process knows and a worker does not; the driver keeps it up to date.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessFacts {
    /// Process id.
    pub pid: u32,
    /// CPU time in user mode, in microseconds.
    pub user_us: u64,
    /// CPU time in the kernel, in microseconds.
    pub system_us: u64,
    /// Maximum connections at a time (`-c`).
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
    /// Workers.
    pub threads: u64,
    /// Host name or address and port that clients reach this server by.
    pub address: Option<(String, u16)>,
    /// The ports and sockets that the server listens on for anyone.
    pub listeners: Vec<String>,
    /// `stats settings`, in order.
    pub settings: Vec<(&'static str, String)>,
    /// What it counts.
    pub counts: ProcessCounts,
}

counters! {
    /// What the process counts beside its workers, of what memcached does not have.
    pub struct ProcessCounts {
        /// All of it, which stands in `stats evenkeel`.
        EVENKEEL {
            memory_used_bytes => gauge, "Bytes lent to workers.";
            turns_slow => counter, "Turns of workers that took 50 ms or longer, without the time in line for a processor.";
            turns_starved => counter, "Turns of workers that took this long only with the time in line for a processor.";
            names_asked => counter, "Questions to the name service.";
            names_failed => counter, "Questions to the name service that brought no address.";
        }
    }
}

/// How long copies are behind.
pub(crate) const COPIES_BEHIND: ShownAges = ShownAges {
    name: "copies_behind",
    help: "How long writes to replicated keys took until every replica was known to have them.",
};

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

/// Composes `stats items` or `stats slabs` of all workers together.
pub fn compose_classes(view: ClassesView, (classes, sum): &(ClassStats, Counters)) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    match view {
        ClassesView::Items => classes::items(&mut out, classes),
        ClassesView::Slabs => classes::slabs(&mut out, classes, sum.segment_bytes),
    }
    out.extend_from_slice(text::END);
    out
}

/// Adds a share to the answer that a connection awaits from the workers, and composes that when it is the last one.
pub(crate) fn add_share(
    facts: &ProcessFacts,
    now: Now,
    session: &mut Session,
    to: ReturnAddress,
    task: Task,
    mut share: Share,
) {
    if let Task::List(step) = task {
        session.release();
        if let Some(listing) = session.list.as_deref_mut() {
            share = Share::Lines(listing.advance(step, share.lines()).to_vec());
        }
    }
    let finish = |sum: Share| match (task, sum) {
        (Task::Stats(view), Share::Counters(sum)) => compose(view, &sum, facts, now),
        (Task::Classes(view), Share::Classes(sum)) => compose_classes(view, &sum),
        (Task::Prefixes, Share::Prefixes(sum)) => [&sum.dump(), text::END].concat(),
        (Task::List(_), sum) => sum.into_lines(),
        (Task::Lines(_) | Task::Connections, sum) => [sum.lines(), text::END].concat(),
        (Task::ResetStats, _) => text::RESET.to_vec(),
        _ => text::OK.to_vec(),
    };
    session.answer_arrived(to.ticket, share, finish);
}

fn cpu_time(out: &mut Vec<u8>, name: &str, us: u64) {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    stat(out, name.as_bytes(), text.as_bytes());
}

fn general(out: &mut Vec<u8>, sum: &Counters, facts: &ProcessFacts, now: Now) {
    let count = |name: &'static str| (name, sum.named(name));
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
            count("response_obj_oom"),
            count("response_obj_count"),
            count("response_obj_bytes"),
            count("read_buf_count"),
            count("read_buf_bytes"),
            ("read_buf_bytes_free", 0),
            count("read_buf_oom"),
            ("reserved_fds", 0),
            count("cmd_get"),
            count("cmd_set"),
            count("cmd_flush"),
            count("cmd_touch"),
            count("cmd_meta"),
            count("get_hits"),
            count("get_misses"),
            count("get_expired"),
            ("get_flushed", 0),
            count("delete_misses"),
            count("delete_hits"),
            count("incr_misses"),
            count("incr_hits"),
            count("decr_misses"),
            count("decr_hits"),
            count("cas_misses"),
            count("cas_hits"),
            count("cas_badval"),
            count("touch_hits"),
            count("touch_misses"),
            count("store_too_large"),
            count("store_no_memory"),
            count("auth_cmds"),
            count("auth_errors"),
        ],
    );
    if facts.idle_timeout {
        numbers(out, &[count("idle_kicks")]);
    }
    numbers(
        out,
        &[
            count("bytes_read"),
            count("bytes_written"),
            ("limit_maxbytes", facts.limit_bytes),
            ("accepting_conns", u64::from(!facts.accepting_paused)),
            ("listen_disabled_num", facts.accepting_pauses),
            ("time_in_listen_disabled_us", facts.accepting_paused_us),
            ("threads", facts.threads),
            count("conn_yields"),
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
            count("log_worker_dropped"),
            count("log_worker_written"),
            count("log_watcher_skipped"),
            count("log_watcher_sent"),
            count("log_watchers"),
        ],
    );
    if let Some(read_at_s) = facts.tls_read_at_s {
        let since_s = now.monotonic.as_secs().saturating_sub(read_at_s);
        numbers(
            out,
            &[
                count("ssl_handshake_errors"),
                count("ssl_proto_errors"),
                ("time_since_server_cert_refresh", since_s),
            ],
        );
    }
    numbers(
        out,
        &[
            ("unexpected_napi_ids", 0),
            ("round_robin_fallback", 0),
            count("bytes"),
            count("curr_items"),
            count("total_items"),
            ("slab_global_page_pool", 0),
            count("expired_unfetched"),
            count("evicted_unfetched"),
            count("evicted_active"),
            count("evictions"),
            count("reclaimed"),
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
    shown(out, ProcessCounts::EVENKEEL, &facts.counts);
    shown(out, Counters::EVENKEEL, sum);
    for (name, value) in COPIES_BEHIND.rows(&sum.copies_behind) {
        stat_number(out, name.as_bytes(), value);
    }
}

fn shown<T>(out: &mut Vec<u8>, list: &[Shown<T>], of: &T) {
    for shown in list {
        stat_number(out, shown.name.as_bytes(), (shown.value)(of));
    }
}
