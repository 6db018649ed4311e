//! Closed loops on one worker: throughput, and what a request costs the server.

use super::ground::{Ground, KEY_LEN, VALUE_LEN, WARM_UP, all_hits};
use super::report::{PeerResult, RowReport};
use super::rows::{LOADS, Load, Peer, Traffic};
use super::{Suite, finish_row};
use crate::driver::Load as Prepared;
use crate::process::Server;
use crate::report::median;
use anyhow::Context;
use std::slice;

/// Measures every load that is wanted.
pub(super) fn measure(suite: &mut Suite, rows: &mut Vec<RowReport>) -> anyhow::Result<()> {
    for load in &LOADS {
        if suite.ground.wants(load.id) {
            suite.start()?;
            finish_row(rows, row(suite, load)?);
        }
    }
    Ok(())
}

fn row(suite: &Suite, load: &Load) -> anyhow::Result<RowReport> {
    let ground = &suite.ground;
    let echo = echo(ground, &load.traffic)?;
    let cores = if load.shared_core {
        slice::from_ref(&ground.server_core)
    } else {
        &ground.generator_cores
    };
    let prepared = ground.prepared(&load.traffic, cores)?;
    let mut measured = vec![Measured::new(Peer::Echo, &echo)];
    let servers = suite.servers.iter();
    measured.extend(servers.map(|(peer, server)| Measured::new(*peer, server)));
    for round in 0..=ground.rounds {
        for peer in &mut measured {
            let place = || format!("{}, {}", load.id, peer.peer.short());
            let on_peer = prepared.on(peer.server.address.into());
            if round == 0 {
                all_hits(&on_peer.lasting(WARM_UP)).with_context(place)?;
            } else {
                let place = place();
                peer.measure(&on_peer, load).context(place)?;
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

/// A server on the servers' core that echoes what a load asks for.
pub(super) fn echo(ground: &Ground, traffic: &Traffic) -> anyhow::Result<Server> {
    let request = match traffic.echo_request() {
        crate::EchoRequest::Get => "get",
        crate::EchoRequest::Set => "set",
    };
    let (keys, key, value) = (
        traffic.multiget.to_string(),
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
    Server::evenkeel(&arguments, &[ground.server_core])
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

    fn measure(&mut self, prepared: &Prepared, load: &Load) -> anyhow::Result<()> {
        let before = self.server.cpu_time()?;
        let done = all_hits(prepared)?;
        let cpu = self.server.cpu_time()?.saturating_sub(before);
        let cpu_us = cpu.as_secs_f64() * 1e6 / done.counters.requests as f64;
        self.cpu_us.push(cpu_us);
        self.figures.push(if load.shared_core {
            cpu_us
        } else {
            done.requests_per_second * load.traffic.multiget as f64
        });
        self.generator_cpu_share_max = self.generator_cpu_share_max.max(done.generator_cpu_share);
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
