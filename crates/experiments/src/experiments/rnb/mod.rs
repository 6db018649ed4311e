//! Replicate and Bundle (Raindel and Birk, IPDPS 2013): what requests for many items cost, and what replicas and
//! bundling save.

mod bundles;
mod caches;
mod figure_11;
mod figure_6;
mod figure_8;
mod figure_9;
mod graphs;
mod hole;
mod items;
mod judged;
mod real_caches;
mod scale;
mod slowed;
mod sources;
mod throughput;

pub(super) use figure_6::FIGURE_6;
pub(super) use figure_8::FIGURE_8;
pub(super) use figure_9::{FIGURE_9, FIGURE_10};
pub(super) use figure_11::{FIGURE_11, FIGURE_12};
pub(super) use graphs::FIGURE_3;
pub(super) use hole::FIGURE_2;
pub(super) use items::FIGURE_13;
pub(super) use scale::SCALE;
pub(super) use throughput::THROUGHPUT;

use super::Experiment;
use evenkeel_placement::config::{PlacementConfig, Server};
use evenkeel_placement::cost::Cost;
use evenkeel_placement::pool::Placement;

/// How the settings of a report name [`placement`].
const PLACEMENT_NAME: &str = "ketama of libmemcached, as the proxy places keys";

/// How the settings of a report name the places of copies and the choice among them.
const COPIES_NAME: &str = "ranged consistent hashing, and a greedy cover: the crate placement's";

/// Servers at which claims about graphs are judged; in every scale.
const JUDGED_AT: u32 = 16;

/// What servers have to do, by what a transaction costs: with this, twenty items in a transaction bring ten
/// times the items a second of one, as `rnb-13` measured for Evenkeel.
const COST: Cost = Cost {
    transaction: 1.0,
    item: 1.0 / 18.0,
};

/// Servers of a pool.
fn servers(servers: u32) -> Vec<Server> {
    let server = |n| Server::new(format!("10.0.{}.{}", n / 250, n % 250), 11211);
    (0..servers).map(server).collect()
}

/// Servers by the proxy's own placement.
fn placement(count: u32) -> anyhow::Result<Placement> {
    Ok(Placement::new(&PlacementConfig {
        servers: servers(count),
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
