//! Closed loops on one worker: throughput, and what a request costs the server.

use super::process::Server;
use super::report::{PeerResult, RowReport};
use super::rows::{LOADS, Load, Peer};
use super::{KEY_LEN, Suite, VALUE_LEN, WARM_UP, finish_row, measure as measure_load};
use crate::report::median;
use crate::{LoadPlan, Stop};
use anyhow::ensure;

/// Measures every load that is wanted.
pub(super) fn measure(suite: &mut Suite, rows: &mut Vec<RowReport>) -> anyhow::Result<()> {
    for load in &LOADS {
        if suite.wants(load.id) {
            suite.start()?;
            finish_row(rows, row(suite, load)?);
        }
    }
    Ok(())
}

fn row(suite: &Suite, load: &Load) -> anyhow::Result<RowReport> {
    let echo = echo(suite, load)?;
    let mut measured = vec![Measured::new(Peer::Echo, &echo)];
    measured.extend(
        suite
            .servers
            .iter()
            .map(|(peer, server)| Measured::new(*peer, server)),
    );
    for round in 0..=suite.rounds {
        for peer in &mut measured {
            let mut plan = plan(suite, load, peer.server)?;
            if round == 0 {
                plan.stop.after = Some(WARM_UP);
                measure_load(plan)?;
            } else {
                peer.measure(plan, load)?;
            }
        }
    }
    let results = measured.into_iter().map(Measured::result).collect();
    Ok(RowReport::new(
        load.id,
        load.what(),
        load.unit(),
        results,
        &load.goals(),
    ))
}

fn echo(suite: &Suite, load: &Load) -> anyhow::Result<Server> {
    let request = match load.echo_request() {
        crate::EchoRequest::Get => "get",
        crate::EchoRequest::Set => "set",
    };
    let (keys, key, value) = (
        load.multiget.to_string(),
        KEY_LEN.to_string(),
        VALUE_LEN.to_string(),
    );
    let arguments = [
        "bench",
        "echo",
        "--request",
        request,
        "--multiget",
        &keys,
        "--key-size",
        &key,
        "--value-size",
        &value,
    ];
    Server::evenkeel(&arguments, &[suite.server_core])
}

fn plan(suite: &Suite, load: &Load, server: &Server) -> anyhow::Result<LoadPlan> {
    let mut plan = LoadPlan {
        pipeline: load.pipeline,
        multiget: load.multiget,
        ..suite.plan(server, load.operation, load.connections)?
    };
    if load.shared_core {
        plan.threads = 1;
        plan.connections_per_thread = load.connections;
        plan.pin = vec![suite.server_core];
    }
    Ok(plan)
}

/// A peer's rounds of one load.
struct Measured<'s> {
    peer: Peer,
    server: &'s Server,
    figures: Vec<f64>,
    cpu_us: Vec<f64>,
    generator_cpu_share_max: f64,
}

impl<'s> Measured<'s> {
    fn new(peer: Peer, server: &'s Server) -> Self {
        Measured {
            peer,
            server,
            figures: Vec::new(),
            cpu_us: Vec::new(),
            generator_cpu_share_max: 0.0,
        }
    }

    fn measure(&mut self, plan: LoadPlan, load: &Load) -> anyhow::Result<()> {
        debug_assert_ne!(plan.stop, Stop::default());
        let before = self.server.cpu_time()?;
        let round = measure_load(plan)?;
        let cpu = self.server.cpu_time()?.saturating_sub(before);
        let counters = round.counters;
        ensure!(
            counters.requests > 0 && counters.errors == 0 && counters.misses == 0,
            "{}, {}: {} requests, {} errors, {} misses ({})",
            load.id,
            self.peer.short(),
            counters.requests,
            counters.errors,
            counters.misses,
            round.first_error.as_deref().unwrap_or("no error was told")
        );
        let cpu_us = cpu.as_secs_f64() * 1e6 / counters.requests as f64;
        self.cpu_us.push(cpu_us);
        self.figures.push(if load.shared_core {
            cpu_us
        } else if load.multiget > 1 {
            round.keys_per_second
        } else {
            round.requests_per_second
        });
        self.generator_cpu_share_max = self.generator_cpu_share_max.max(round.generator_cpu_share);
        Ok(())
    }

    fn result(self) -> PeerResult {
        PeerResult {
            server_cpu_us_per_request: Some(median(self.cpu_us)),
            generator_cpu_share_max: Some(self.generator_cpu_share_max),
            ..PeerResult::of(self.peer, self.figures)
        }
    }
}
