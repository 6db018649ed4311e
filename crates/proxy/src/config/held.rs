//! Pools of which one rack holds each item, as workers are told them: the pool itself has the servers of the proxy's own rack, and each
//! other rack is a pool of its own, `POOL@RACK`, to which no route leads.

use super::pools::{HoldingPlan, OtherRack, PoolPlan, PoolServers};
use evenkeel_placement::config::PlacementConfig;
use evenkeel_proxy_core::{
    Holding, HoldingBy, PoolConfig, PoolKind, PoolSettings, Racks, ServerList,
};
use evenkeel_runtime::UsageError;
use evenkeel_schemes::locality::topology::RackId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Gives each such pool the servers of the proxy's own rack, and the other racks theirs.
///
/// # Errors
/// The proxy is in no rack, or in one without a server of the pool; or another pool is called as one of its racks.
pub fn place(plans: Vec<PoolPlan>, racks: &Racks) -> Result<Vec<PoolPlan>, UsageError> {
    let names: Vec<Arc<str>> = plans.iter().map(|plan| Arc::clone(&plan.name)).collect();
    let placed = plans.into_iter().map(|plan| {
        let Some(holding) = &plan.holding else {
            return Ok(plan);
        };
        let placed = in_racks(&plan, holding, racks).map_err(UsageError)?;
        let mut others = placed.holding.iter().flat_map(|holding| &holding.others);
        match others.find(|other| names.contains(&other.pool)) {
            None => Ok(placed),
            Some(other) => Err(UsageError(format!(
                "a pool may not be called \"{}\": that is a rack of pool \"{}\"",
                other.pool, plan.name
            ))),
        }
    });
    placed.collect()
}

fn in_racks(plan: &PoolPlan, holding: &HoldingPlan, racks: &Racks) -> Result<PoolPlan, String> {
    let name = &plan.name;
    let PoolServers::Memcached(list) = &plan.servers else {
        return Err(format!("the servers of pool \"{name}\" are no list"));
    };
    let own = racks.own().ok_or_else(|| {
        format!(
            "pool \"{name}\" is served from the proxy's own rack first: say which that is, by --rack, by rack = \"NAME\" in [proxy], or by an --advertise that is in the cidr of one"
        )
    })?;
    let mut lists = by_rack(list, racks)?;
    let servers = lists.remove(&own).ok_or_else(|| {
        let rack = racks.name(Some(own));
        format!("pool \"{name}\" has no server in rack \"{rack}\", in which the proxy is")
    })?;
    let others = lists.into_iter().map(|(rack, servers)| OtherRack {
        rack,
        pool: format!("{name}@{}", racks.name(Some(rack))).into(),
        servers,
    });
    Ok(PoolPlan {
        servers: PoolServers::Memcached(servers),
        holding: Some(HoldingPlan {
            own: Some(own),
            others: others.collect(),
            ..holding.clone()
        }),
        ..plan.clone()
    })
}

/// The servers of a list, by their racks: a list each, by which keys are distributed as by the whole.
fn by_rack(list: &ServerList, racks: &Racks) -> Result<BTreeMap<RackId, Arc<ServerList>>, String> {
    let mut configs: BTreeMap<RackId, PlacementConfig> = BTreeMap::new();
    for server in list.servers() {
        let rack = racks.of_server(&server.host, server.port, None);
        let rack = rack.ok_or_else(|| format!("{} is in no rack", server.identity()))?;
        let config = configs.entry(rack).or_insert_with(|| PlacementConfig {
            servers: Vec::new(),
            ..list.config().clone()
        });
        config.servers.push(server.clone());
    }
    let lists = configs.into_iter().map(|(rack, config)| {
        let list = ServerList::new(config).map_err(|error| error.to_string())?;
        Ok((rack, Arc::new(list)))
    });
    lists.collect()
}

/// What is done with the items of such a pool.
pub fn holding(plan: &PoolPlan) -> Option<Holding> {
    let holding = plan.holding.as_ref()?;
    let others = holding.others.iter();
    Some(Holding {
        by: match &holding.directory {
            None => HoldingBy::Snoop,
            Some(directory) => HoldingBy::Directory(Arc::clone(directory)),
        },
        own: holding.own?,
        copying: holding.copying,
        others: others
            .map(|other| (other.rack, Arc::clone(&other.pool)))
            .collect(),
    })
}

/// The other racks of such a pool, as pools with its settings. Only the pool itself knows of a former one.
pub fn other_racks(plan: &PoolPlan, pool: &PoolConfig) -> Vec<PoolConfig> {
    let others = plan.holding.iter().flat_map(|holding| &holding.others);
    let pools = others.map(|other| PoolConfig {
        name: Arc::clone(&other.pool),
        kind: PoolKind::Memcached(Arc::clone(&other.servers)),
        holding: None,
        settings: PoolSettings {
            warm_from: None,
            follows: None,
            ..pool.settings.clone()
        },
        ..pool.clone()
    });
    pools.collect()
}
