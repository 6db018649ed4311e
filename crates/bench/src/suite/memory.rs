//! What fits into a memory limit, what stays resident under it, and what an idle connection takes.

use super::goal::{Goal, Unit};
use super::ground::{ANSWER_TIMEOUT, CHECK_CONNECTIONS, CHECK_PIPELINE, Ground};
use super::peer::Peer;
use super::report::{PeerResult, RowReport};
use super::rows::{IDLE_CONNECTION_BYTES_MAX, ITEM_SIZES, ItemSize, resident_bytes_bound};
use super::{Suite, finish_or_note, finish_row};
use crate::beside::{self, REFUSED_DIVISOR};
use crate::process::Server;
use crate::{LoadPlan, Source, Stop};
use anyhow::{Context, ensure};
use evenkeel_runtime::raise_descriptor_limit;
use evenkeel_workload::{KeySizes, Mix, Operation, Popularity, ValueSizes, WorkloadSpec};
use std::io::{Read, Write};
use std::net::TcpStream;

/// The memory limit under which items are counted, in megabytes; less where it must be quick.
const LIMIT_MB: u64 = 256;
const LIMIT_MB_QUICK: u64 = 64;

/// Keys asked for to see whether the items that a server counts are there.
const SAMPLE_LEN: u64 = 200_000;

/// How far the number found by asking may be from the number counted.
const SAMPLE_TOLERANCE: f64 = 0.02;

/// Idle connections; fewer where it must be quick.
const IDLE_CONNECTIONS: usize = 10_000;
const IDLE_CONNECTIONS_QUICK: usize = 2_000;

/// Fills servers until they evict, and counts: items, and resident memory at its highest.
pub(super) fn measure_items(suite: &mut Suite, rows: &mut Vec<RowReport>) -> anyhow::Result<()> {
    let limit_mb = if suite.ground.quick {
        LIMIT_MB_QUICK
    } else {
        LIMIT_MB
    };
    let limit_bytes = limit_mb << 20;
    // Storage is the same whichever way bytes come in.
    let peers = [Peer::Memcached, Peer::EvenkeelEpoll];
    let mut resident = vec![Vec::new(); peers.len()];
    for size in &ITEM_SIZES {
        if !suite.ground.wants(size.id) {
            continue;
        }
        let mut results = Vec::new();
        for (index, &peer) in peers.iter().enumerate() {
            let server = suite.server(peer, &["-m", &limit_mb.to_string()])?;
            let items = fill(suite, &server, peer, size, limit_bytes)
                .with_context(|| format!("{}, {}", size.id, peer.short()))?;
            results.push(PeerResult::of(peer, vec![items]));
            resident[index].push(server.resident_bytes_max()? as f64);
        }
        let what = format!(
            "items of {} + {} B in {limit_mb} MiB",
            size.key_len, size.value_len
        );
        let goal = Goal::Times(Peer::EvenkeelEpoll, Peer::Memcached, size.factor);
        finish_row(
            rows,
            RowReport::new(size.id, what, Unit::Items, results, &[goal]),
        );
    }
    if resident[0].is_empty() {
        return Ok(());
    }
    let most = |rounds: Vec<f64>| rounds.into_iter().fold(0.0, f64::max);
    let results = peers.iter().zip(resident);
    let results = results.map(|(&peer, rounds)| PeerResult::of(peer, vec![most(rounds)]));
    let what = format!("most resident memory while filled, -m {limit_mb}");
    let goal = Goal::Bound(Peer::EvenkeelEpoll, resident_bytes_bound(limit_bytes));
    let row = RowReport::new(
        "resident_max",
        what,
        Unit::Bytes,
        results.collect(),
        &[goal],
    );
    finish_row(rows, row);
    Ok(())
}

/// Sets more keys than can fit and returns how many items there are then. Keys are asked for to see
/// that these are not only counted.
fn fill(
    suite: &Suite,
    server: &Server,
    peer: Peer,
    size: &ItemSize,
    limit_bytes: u64,
) -> anyhow::Result<f64> {
    // This many would fill the limit if items had no overhead at all.
    let count = limit_bytes / (size.key_len + size.value_len) as u64;
    let workload = WorkloadSpec {
        keys: Some(count),
        popularity: Popularity::Uniform,
        mix: Mix::gets(1.0)?,
        prefix: "k".to_owned(),
        key_sizes: KeySizes::fixed(size.key_len as u32)?,
        value_sizes: ValueSizes::fixed(size.value_len as u32)?,
        ..WorkloadSpec::default()
    };
    let refused_max = match peer.is_ours() {
        true => 0,
        false => count / REFUSED_DIVISOR,
    };
    let cores = &suite.ground.generator_cores;
    beside::fill(server, workload.clone(), refused_max, cores)?;
    let stats = server.stats("")?;
    ensure!(stats.number("evictions")? > 0, "nothing was evicted");
    let items = stats.number("curr_items")? as f64;
    let sample = crate::measure(LoadPlan {
        pipeline: CHECK_PIPELINE,
        value_sizes: workload.value_sizes.clone(),
        source: Source::Generated(workload),
        check_values: true,
        stop: Stop::at_request(SAMPLE_LEN),
        ..suite
            .ground
            .plan(server, Operation::Get, CHECK_CONNECTIONS)?
    })?;
    ensure!(sample.counters.wrong_values == 0, "wrong values were read");
    let found = sample.hit_ratio * count as f64;
    ensure!(
        (found / items - 1.0).abs() < SAMPLE_TOLERANCE,
        "{items} items are counted and {found:.0} found"
    );
    Ok(items)
}

/// What a connection to each of Evenkeel's kinds of servers, and to memcached, takes that is idle.
pub(super) fn measure_idle_connections(
    suite: &mut Suite,
    rows: &mut Vec<RowReport>,
) -> anyhow::Result<()> {
    let peers = [&[Peer::Memcached][..], &suite.ours].concat();
    let row = idle_row(&suite.ground, "idle_connection", &peers, |peer, limit| {
        suite.server(peer, &["-m", "64", "-c", &limit.to_string()])
    })?;
    finish_or_note(rows, &mut suite.notes, row);
    Ok(())
}

/// Opens connections, uses each once, and sees what they take when they are idle. What the kernel
/// keeps for its sockets is no part of it. `start` starts a peer with room for this many. Nothing where it is not wanted; a
/// note where it cannot be measured.
pub(super) fn idle_row(
    ground: &Ground,
    id: &str,
    peers: &[Peer],
    start: impl Fn(Peer, usize) -> anyhow::Result<Server>,
) -> anyhow::Result<Option<Result<RowReport, String>>> {
    if !ground.wants(id) {
        return Ok(None);
    }
    let wanted = match ground.quick {
        true => IDLE_CONNECTIONS_QUICK,
        false => IDLE_CONNECTIONS,
    };
    // The client's ends are in this process; a server needs as many.
    if let Err(error) = raise_descriptor_limit(wanted) {
        return Ok(Some(Err(format!("{id} was not measured: {error}"))));
    }
    let mut results = Vec::new();
    for &peer in peers {
        let server = start(peer, wanted + 100)?;
        results.push(PeerResult::of(peer, vec![idle_bytes(&server, wanted)?]));
    }
    let what = format!("resident memory of an idle connection, of {wanted}");
    let ours = peers.iter().filter(|peer| peer.is_ours());
    let goals: Vec<Goal> = ours
        .map(|&peer| Goal::Bound(peer, IDLE_CONNECTION_BYTES_MAX))
        .collect();
    let row = RowReport::new(id, what, Unit::Bytes, results, &goals);
    Ok(Some(Ok(row)))
}

/// Resident memory that each of this many connections costs which have had one answer, in bytes.
fn idle_bytes(server: &Server, connections: usize) -> anyhow::Result<f64> {
    drop(use_once(server)?);
    let before = server.resident_bytes()?;
    let connections = (0..connections)
        .map(|_| use_once(server))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let grown = server.resident_bytes()?.saturating_sub(before);
    Ok(grown as f64 / connections.len() as f64)
}

/// A connection that has got one answer.
fn use_once(server: &Server) -> anyhow::Result<TcpStream> {
    let mut socket = TcpStream::connect(server.address)?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    socket.write_all(b"get nothing\r\n")?;
    let mut answer = [0; 5];
    socket.read_exact(&mut answer)?;
    ensure!(&answer == b"END\r\n", "a miss is not answered as one");
    Ok(socket)
}
