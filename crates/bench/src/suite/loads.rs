//! Closed loops on one worker: throughput, and what a request costs the server.

use super::ground::{Ground, KEY_LEN, Measured, VALUE_LEN, all_hits};
use super::peer::Peer;
use super::report::RowReport;
use super::rows::{LOADS, Load, Traffic};
use super::{Suite, finish_row};
use crate::beside::with_cpu_us;
use crate::process::Server;
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
    let mut peers = vec![(Peer::Echo, &echo)];
    let servers = suite.servers.iter();
    peers.extend(servers.map(|(peer, server)| (*peer, server)));
    let [results] = ground.in_turns(load.id, &peers, |&server, time| {
        let on_peer = prepared.on(server.address.into()).lasting(time);
        let (done, cpu_us) = with_cpu_us([server], || all_hits(&on_peer))?;
        let cpu_us = cpu_us / done.counters.requests as f64;
        Ok(Measured {
            figures: [match load.shared_core {
                true => cpu_us,
                false => done.requests_per_second * load.traffic.multiget as f64,
            }],
            cpu_us: Some(cpu_us),
            generator_share: Some(done.generator_cpu_share),
        })
    })?;
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
    let arguments = format!(
        "bench echo --request {request} --multiget {} --key-size {KEY_LEN} --value-size {VALUE_LEN}",
        traffic.multiget
    );
    let arguments: Vec<&str> = arguments.split(' ').collect();
    Server::evenkeel(&arguments, &[ground.server_core])
}
