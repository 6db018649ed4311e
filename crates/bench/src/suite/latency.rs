//! Latency at half of the rate that memcached reaches: everybody has to serve it with ease.
//!
//! The generator sends at that rate whether or not answers come, and counts each request's latency
//! from the moment it was due, so that a server that stalls is charged for all that waited.

use super::ground::WARM_UP;
use super::report::{Goal, PeerResult, RowReport, Unit};
use super::rows::{Peer, UNPIPELINED_GETS};
use super::{Suite, finish_row};
use crate::LoadPlan;
use anyhow::ensure;
use evenkeel_workload::{Arrivals, Operation, Rate};
use std::time::Duration;

const ID_P99: &str = "get_latency_p99";
const ID_P99_9: &str = "get_latency_p99_9";

/// Connections of the load.
const CONNECTIONS: usize = 16;

/// Requests in flight on a connection, so that a stall holds up answers and not the generator.
const PIPELINE: usize = 64;

/// A round is this many times as long as those of other rows: one request of a thousand counts.
const LENGTHS: u32 = 2;

pub(super) fn measure(suite: &mut Suite, rows: &mut Vec<RowReport>) -> anyhow::Result<()> {
    if !suite.ground.wants(ID_P99) && !suite.ground.wants(ID_P99_9) {
        return Ok(());
    }
    suite.start()?;
    let known = rows.iter().find(|row| row.id == UNPIPELINED_GETS);
    let maximum = match known.and_then(|row| row.median_of(Peer::Memcached)) {
        Some(maximum) => maximum,
        None => maximum_of_memcached(suite)?,
    };
    let rate = maximum / 2.0;
    let mut p99 = vec![Vec::new(); suite.servers.len()];
    let mut p99_9 = p99.clone();
    for round in 0..=suite.ground.rounds {
        for (index, (peer, server)) in suite.servers.iter().enumerate() {
            let mut plan = LoadPlan {
                pipeline: PIPELINE,
                pace: Arrivals::Poisson(Rate::Constant(rate)),
                ..suite.ground.plan(server, Operation::Get, CONNECTIONS)?
            };
            if round == 0 {
                plan.stop.after = Some(WARM_UP);
                crate::measure(plan)?;
                continue;
            }
            plan.stop.after = Some(suite.ground.duration * LENGTHS);
            let report = crate::measure(plan)?;
            ensure!(
                report.counters.errors == 0,
                "latency, {}: {}",
                peer.short(),
                report.first_error.unwrap_or_default()
            );
            p99[index].push(report.latency.latency_us_p99);
            p99_9[index].push(report.latency.latency_us_p99_9);
        }
    }
    for (id, share, figures) in [(ID_P99, "p99", p99), (ID_P99_9, "p99.9", p99_9)] {
        let peers = suite.servers.iter().zip(figures);
        let results = peers.map(|((peer, _), rounds)| PeerResult::of(*peer, rounds));
        let what = format!(
            "GET, {share} at {:.0} k requests/s, half of memcached's maximum",
            rate / 1000.0
        );
        let ours = suite.ours.iter();
        let goals: Vec<Goal> = ours
            .map(|&peer| Goal::Times(peer, Peer::Memcached, 1.0))
            .collect();
        let row = RowReport::new(id, what, Unit::Microseconds, results.collect(), &goals);
        finish_row(rows, row);
    }
    Ok(())
}

/// What memcached reaches unpipelined, where no row has measured it.
fn maximum_of_memcached(suite: &Suite) -> anyhow::Result<f64> {
    let server = suite
        .servers
        .iter()
        .find(|(peer, _)| *peer == Peer::Memcached);
    let (_, server) = server.expect("the suite starts no run without memcached");
    let mut figures = Vec::new();
    for _ in 0..suite.ground.rounds {
        let plan = suite.ground.plan(server, Operation::Get, CONNECTIONS)?;
        debug_assert!(plan.stop.after > Some(Duration::ZERO));
        figures.push(crate::measure(plan)?.requests_per_second);
    }
    Ok(crate::report::median(figures))
}
