//! The statistics that are lists: hot keys, replicas held, cachelets. Each worker adds its lines.

use crate::mesh::message::LinesView;
use crate::ownership::hosting::Hosting;
use crate::shard::engine::Engine;
use crate::shard::time::TimeBase;
use evenkeel_balance::cachelet_load::CacheletLoad;
use evenkeel_control::hot_keys::{EventView, HottestView, KeyView, ReplicaView, WorkerHotKeys};
use evenkeel_protocol::text;
use evenkeel_storage::CacheletStats;
use evenkeel_types::{KeyHash, Now, WorkerRef};
use std::io::Write;

/// What is not known.
const NONE: &str = "-";

/// Most lines that one worker adds to an answer, so that a list stays an answer and not a dump.
const LINES_MAX: usize = 1000;

/// Writes one worker's lines of a list.
pub(crate) fn lines(
    engine: &Engine,
    hosting: &Hosting,
    view: LinesView,
    now: Now,
    out: &mut Vec<u8>,
) {
    match view {
        LinesView::HotKeys => {
            let described = hot_keys_view(engine, hosting.me.worker, now, false);
            for key in described.keys.iter().take(LINES_MAX) {
                write_key(out, key);
            }
            let is_tracked = |key: &&HottestView| described.keys.iter().any(|it| it.key == key.key);
            for key in described.hottest.iter().filter(|key| !is_tracked(key)) {
                write_hottest(out, key);
            }
        }
        LinesView::HotLog => {
            for event in &hot_keys_view(engine, hosting.me.worker, now, true).events {
                write_event(out, event);
            }
        }
        LinesView::Replicas => {
            for replica in replica_views(engine, hosting, now) {
                write_replica(out, &replica);
            }
        }
        LinesView::Cachelets => write_cachelets(engine, hosting.me.worker, out),
    }
}

/// What this worker knows of its hot keys: of all tracked keys, or only of those that have
/// replicas or would have them.
pub(crate) fn hot_keys_view(
    engine: &Engine,
    worker: u16,
    now: Now,
    only_spread: bool,
) -> WorkerHotKeys {
    WorkerHotKeys::of(worker, now, (&engine.hot, &engine.hottest), only_spread)
}

/// The first `LINES_MAX` replicas that this worker holds for other homes.
pub(crate) fn replica_views(engine: &Engine, hosting: &Hosting, now: Now) -> Vec<ReplicaView> {
    let home = |key| hosting.map.as_ref()?.locate(KeyHash::of(key)).worker;
    let held = engine.replicas.list(TimeBase::seconds(now));
    let view = held.take(LINES_MAX).map(|facts| ReplicaView {
        worker: hosting.me.worker,
        key: evenkeel_types::printable(facts.key),
        home: home(facts.key),
        epoch: facts.epoch.0,
        version: facts.version.0,
        bytes: facts.bytes,
        age_s: facts.age_s,
        stored_s: facts.stored_s,
        reads: facts.reads,
    });
    view.collect()
}

fn write_cachelets(engine: &Engine, worker: u16, out: &mut Vec<u8>) {
    let store = &engine.store;
    let worker = engine.cachelet_loads(worker);
    // Writing into memory cannot fail, here and below.
    let _ = write!(
        out,
        "STAT worker:{} load={:.0} replica_load={:.0} diverted_load={:.0} busy={:.3} \
         memory_bytes={} intervals={}\r\n",
        worker.worker,
        worker.load,
        worker.replica_load,
        worker.diverted_load,
        worker.busy,
        worker.memory_bytes,
        worker.intervals
    );
    for load in worker.cachelets.into_iter().take(LINES_MAX) {
        let stats = store.cachelet_stats(load.cachelet).unwrap_or_default();
        write_cachelet(out, worker.worker, &load, &stats);
    }
}

fn write_cachelet(out: &mut Vec<u8>, worker: u16, load: &CacheletLoad, stats: &CacheletStats) {
    let _ = write!(
        out,
        "STAT {} items={} bytes={} segments={} index_bytes={} held_bytes={} reads={} hits={} writes={} \
         bytes_in={} bytes_out={} worker={worker} load={:.0} busy={:.4} reads_per_s={:.0} \
         hits_per_s={:.0} writes_per_s={:.0} bytes_in_per_s={:.0} bytes_out_per_s={:.0}\r\n",
        load.cachelet,
        stats.items,
        stats.bytes,
        stats.segments,
        stats.index_bytes,
        stats.held_bytes,
        stats.reads,
        stats.hits,
        stats.writes,
        stats.bytes_in,
        stats.bytes_out,
        load.load,
        load.busy,
        load.reads_per_s,
        load.hits_per_s,
        load.writes_per_s,
        load.bytes_in_per_s,
        load.bytes_out_per_s
    );
}

fn write_key(out: &mut Vec<u8>, key: &KeyView) {
    let _ = write!(
        out,
        "STAT {} state={} rps={:.0} load={:.0} gamma={} shadows=",
        key.key,
        key.state.to_uppercase(),
        key.rps.max(0.0),
        key.load_rps.max(0.0),
        key.gamma
    );
    write_workers(out, &key.shadows);
    let _ = write!(out, " state_ms={}", key.state_ms);
    if !key.proposed.is_empty() {
        out.extend_from_slice(b" proposed=");
        write_workers(out, &key.proposed);
    }
    out.extend_from_slice(text::CRLF);
}

/// A key that nothing is done about, and why.
fn write_hottest(out: &mut Vec<u8>, key: &HottestView) {
    let _ = write!(
        out,
        "STAT {} state=COLD gets={:.0} sets={:.0} bytes={:.0} share={:.4} why={}\r\n",
        key.key, key.gets_per_s, key.sets_per_s, key.bytes_per_s, key.share, key.why
    );
}

fn write_workers(out: &mut Vec<u8>, workers: &[WorkerRef]) {
    for (i, worker) in workers.iter().enumerate() {
        let _ = write!(out, "{}{worker}", if i == 0 { "" } else { "," });
    }
}

/// `STAT <worker>:<number> …`: names of statistics are unique.
fn write_event(out: &mut Vec<u8>, event: &EventView) {
    let _ = write!(
        out,
        "STAT {}:{} at={}.{:03} {} cause={} key={} gamma={}->{} key_rps={:.0} key_share={:.3} \
         undiverted_rps={:.0} served_rps={:.0} mean_rps={} busy={:.2} expected_rps={:.0} served_rps_after={}\r\n",
        event.worker,
        event.number,
        event.unix_ms / 1000,
        event.unix_ms % 1000,
        event.deed,
        event.cause,
        event.key,
        event.gamma_before,
        event.gamma,
        event.key_rps,
        event.key_share,
        event.before.undiverted_rps,
        event.before.served_rps,
        or_none(event.before.mean_rps),
        event.before.busy,
        event.expected_rps,
        or_none(event.after.map(|after| after.served_rps)),
    );
}

fn write_replica(out: &mut Vec<u8>, replica: &ReplicaView) {
    let home = match replica.home {
        Some(home) => home.to_string(),
        None => NONE.to_owned(),
    };
    let _ = write!(
        out,
        "STAT {} version={} bytes={} home={home} epoch={} age_s={} stored_s={} reads={}\r\n",
        replica.key,
        replica.version,
        replica.bytes,
        replica.epoch,
        replica.age_s,
        replica.stored_s,
        replica.reads
    );
}

fn or_none(number: Option<f64>) -> String {
    number.map_or(NONE.to_owned(), |number| format!("{number:.0}"))
}
