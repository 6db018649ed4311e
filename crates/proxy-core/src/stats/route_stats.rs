//! `stats routes`, and what workers tell each other for it.

use crate::routes::{Commands, RouteConfig};
use crate::stats::latency::Latency;
use crate::stats::line::{shown, stat};
use crate::stats::per_route::RouteCounters;

/// How statistics call a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteName {
    /// Its position in the configuration, from 1 on, or `others`.
    pub route: String,
    /// What its keys begin with.
    pub prefix: String,
    /// The classes of its commands, or `all`.
    pub commands: String,
    /// The pool that it leads to, `none` if it denies.
    pub pool: String,
}

/// What was counted of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteStats {
    /// Which one.
    pub name: RouteName,
    /// What became of its requests.
    pub counters: RouteCounters,
    /// How long they took.
    pub latency: Latency,
}

impl RouteName {
    pub(crate) fn of(position: usize, route: &RouteConfig, pool: &str) -> Self {
        let commands: Vec<_> = route.commands.iter().map(|class| class.name()).collect();
        RouteName {
            route: (position + 1).to_string(),
            prefix: String::from_utf8_lossy(&route.prefix).into_owned(),
            commands: match route.commands {
                Commands::ALL => "all".to_owned(),
                _ => commands.join(","),
            },
            pool: pool.to_owned(),
        }
    }

    pub(crate) fn others() -> Self {
        RouteName {
            route: "others".to_owned(),
            prefix: String::new(),
            commands: "all".to_owned(),
            pool: "none".to_owned(),
        }
    }
}

/// Adds what another worker has counted of a route. Workers may differ in their configuration for a moment.
pub(crate) fn add_route(sum: &mut Vec<RouteStats>, more: RouteStats) {
    match sum.iter_mut().find(|known| known.name == more.name) {
        Some(known) => {
            known.counters.add(&more.counters);
            known.latency.add(&more.latency);
        }
        None => sum.push(more),
    }
}

/// Writes `stats routes`.
pub(crate) fn compose(out: &mut Vec<u8>, routes: &[RouteStats]) {
    for RouteStats {
        name,
        counters,
        latency,
    } in routes
    {
        let RouteName {
            route,
            prefix,
            commands,
            pool,
        } = name;
        stat(out, format_args!("{route}:keys"), format_args!("{prefix}*"));
        stat(out, format_args!("{route}:commands"), commands);
        stat(out, format_args!("{route}:pool"), pool);
        let of_route = format!("{route}:");
        shown(out, &of_route, RouteCounters::ROUTES, counters);
        latency.tell(out, &of_route);
    }
}
