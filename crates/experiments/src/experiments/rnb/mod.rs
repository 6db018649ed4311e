//! Replicate and Bundle (Raindel and Birk, IPDPS 2013): what requests for many items cost, and what replicas and
//! bundling save.

mod graphs;
mod hole;
mod items;

pub(super) use graphs::FIGURE_3;
pub(super) use hole::FIGURE_2;
pub(super) use items::FIGURE_13;

use super::Experiment;
use evenkeel_placement::config::{PlacementConfig, Server};
use evenkeel_placement::pool::Placement;

/// How the settings of a report name [`placement`].
const PLACEMENT_NAME: &str = "ketama of libmemcached, as the proxy places keys";

/// Servers by the proxy's own placement.
fn placement(servers: u32) -> anyhow::Result<Placement> {
    let servers = (0..servers).map(|n| Server::new(format!("10.0.{}.{}", n / 250, n % 250), 11211));
    Ok(Placement::new(&PlacementConfig {
        servers: servers.collect(),
        ..PlacementConfig::default()
    })?)
}

/// 1, 2, 4 … up to this many servers.
fn doublings(servers_max: u32) -> Vec<u32> {
    (0..32)
        .map(|log| 1 << log)
        .take_while(|&servers| servers <= servers_max)
        .collect()
}
