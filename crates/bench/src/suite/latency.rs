//! Latency at half of the rate that memcached reaches: everybody has to serve it with ease.
//!
//! The generator sends at that rate whether or not answers come, and counts each request's latency
//! from the moment it was due, so that a server that stalls is charged for all that waited.

use super::goal::{Goal, Unit};
use super::ground::Measured;
use super::peer::Peer;
use super::report::RowReport;
use super::rows::UNPIPELINED_GETS;
use super::{Suite, finish_row};

const ID_P99: &str = "get_latency_p99";
const ID_P99_9: &str = "get_latency_p99_9";

pub(super) fn measure(suite: &mut Suite, rows: &mut Vec<RowReport>) -> anyhow::Result<()> {
    if !suite.ground.wants(ID_P99) && !suite.ground.wants(ID_P99_9) {
        return Ok(());
    }
    suite.start()?;
    let known = rows.iter().find(|row| row.id == UNPIPELINED_GETS);
    let maximum = match known.and_then(|row| row.median_of(Peer::Memcached)) {
        Some(maximum) => maximum,
        None => {
            let mut servers = suite.servers.iter();
            let memcached = servers.find(|(peer, _)| *peer == Peer::Memcached);
            let (_, server) = memcached.expect("the suite starts no run without memcached");
            suite.ground.maximum(server)?
        }
    };
    let rate = maximum / 2.0;
    let [p99, p99_9] = suite
        .ground
        .in_turns(ID_P99, &suite.servers, |server, time| {
            let latency = suite.ground.at_rate(server, rate, time)?.latency;
            Ok(Measured {
                figures: [latency.latency_us_p99, latency.latency_us_p99_9],
                cpu_us: None,
                generator_share: None,
            })
        })?;
    for (id, share, results) in [(ID_P99, "p99", p99), (ID_P99_9, "p99.9", p99_9)] {
        let what = format!(
            "GET, {share} at {:.0} k requests/s, half of memcached's maximum",
            rate / 1000.0
        );
        let ours = suite.ours.iter();
        let goals: Vec<Goal> = ours
            .map(|&peer| Goal::Times(peer, Peer::Memcached, 1.0))
            .collect();
        let row = RowReport::new(id, what, Unit::Microseconds, results, &goals);
        finish_row(rows, row);
    }
    Ok(())
}
