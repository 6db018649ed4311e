//! Pools that name others: a gutter, and a former pool that this one is warmed from.

use super::adaptive::is_adaptive;
use super::bundles::keeps_copies;
use super::diagnostic::did_you_mean;
use super::pools::{PoolPlan, PoolServers};
use super::reader::{At, Reader, Section};
use crate::clusters::ClusterSpec;
use evenkeel_member::DEFAULT_CLUSTER;
use evenkeel_placement::config::Server;
use evenkeel_proxy_core::{Commands, Failover, RouteConfig, RouteTable, RouteTarget};
use std::ops::Range;
use std::sync::Arc;

/// Why keys of a pool that is warmed from another stay where they are.
const ELSEWHERE: &str = "of two more places nothing tells which has the newest item";

/// The pools that others name, by who names them.
#[derive(Debug, Default)]
pub struct Others {
    gutters: Vec<(String, At<String>)>,
    formers: Vec<(String, At<String>)>,
    directories: Vec<(String, At<String>)>,
    led: Vec<Led>,
}

/// A pool whose coordinator leads its change from a former one.
#[derive(Debug)]
pub struct Led {
    name: String,
    former: String,
    /// Where the coordinator stands.
    span: Range<usize>,
}

impl Others {
    /// A pool has a gutter.
    pub fn note_gutter(&mut self, of: &str, gutter: At<String>) {
        self.gutters.push((of.to_owned(), gutter));
    }

    /// A pool is warmed from another.
    pub fn note_former(&mut self, of: &str, former: At<String>) {
        self.formers.push((of.to_owned(), former));
    }

    /// A pool has notes of another's items.
    pub fn note_directory(&mut self, of: &str, directory: At<String>) {
        self.directories.push((of.to_owned(), directory));
    }

    /// A coordinator leads a pool's change from another.
    pub fn note_led(&mut self, of: &str, former: &str, span: Range<usize>) {
        self.led.push(Led {
            name: of.to_owned(),
            former: former.to_owned(),
            span,
        });
    }

    /// Notes what is wrong with them; all pools have these names, and those that can be used are planned. Gives those whose change is led.
    pub fn check(self, reader: &mut Reader, plans: &[PoolPlan], names: &[String]) -> Vec<Led> {
        for (of, gutter) in self.gutters {
            check_gutter(reader, &of, gutter, plans, names);
        }
        for (of, former) in self.formers {
            check_former(reader, &of, former, plans, names);
        }
        for (of, directory) in self.directories {
            check_directory(reader, &of, directory, plans, names);
        }
        self.led
    }
}

/// No route writes to a former pool whose place another takes stage by stage: it would not keep to the stages.
pub fn check_led(reader: &mut Reader, led: &[Led], routes: &RouteTable, names: &[String]) {
    for Led { name, former, span } in led {
        let writes = |route: &RouteConfig| {
            let RouteTarget::Pool(pool) = route.target else {
                return false;
            };
            let changes = route.commands.and(Commands::WRITES);
            let is_its = names.get(pool).is_some_and(|pool| pool == former);
            is_its && !route.read_only && !changes.is_empty()
        };
        if routes.routes().iter().any(writes) {
            let what = format!(
                "a route writes to pool \"{former}\", whose place \"{name}\" takes: lead it to \"{name}\", or make it read_only"
            );
            reader.fail(span.clone(), what);
        }
    }
}

/// The cluster whose coordinator leads a pool's change from the pool that it is warmed from.
pub fn leader(reader: &mut Reader, section: &Section<'_>) -> Option<ClusterSpec> {
    let coordinators = reader.texts(section, "pool_coordinator")?;
    let span = section.place_of("pool_coordinator");
    if coordinators.is_empty() {
        reader.fail(span.clone(), "pool_coordinator needs an address");
    }
    if !section.has("warm_from") && !is_adaptive(section) && !keeps_copies(section) {
        let what = "pool_coordinator goes with warm_from, with distribution = \"adaptive\", with bundle = \"on\", or with architecture = \"sdr\"";
        reader.fail(span, what);
    }
    if section.has("warm_fill") {
        let what =
            "warm_fill does not go with pool_coordinator, which leads the pool stage by stage";
        reader.fail(section.place_of("warm_fill"), what);
    }
    let name = reader.text(section, "cluster");
    Some(ClusterSpec {
        coordinators: coordinators.into_iter().map(|at| at.value).collect(),
        name: name.map_or_else(|| DEFAULT_CLUSTER.to_owned(), |at| at.value),
    })
}

/// A former pool is another pool of any memcached servers, which is complete by itself.
fn check_former(
    reader: &mut Reader,
    of: &str,
    former: At<String>,
    plans: &[PoolPlan],
    names: &[String],
) {
    let At { value: name, span } = former;
    let plan = |name: &str| plans.iter().find(|plan| *plan.name == *name);
    if !names.contains(&name) {
        let meant = did_you_mean(&name, names.iter().map(String::as_str));
        return reader.fail(span, format!("there is no pool \"{name}\"{meant}"));
    }
    if name == of {
        return reader.fail(span, "a pool is warmed from another pool");
    }
    if let Some(former) = plan(&name) {
        if matches!(former.servers, PoolServers::Evenkeel(_)) {
            let what = "a pool is warmed from one with servers, not from one with a coordinator";
            reader.fail(span, what);
        } else if former.ring.is_some() {
            let what =
                format!("the ring of pool \"{name}\" moves its keys: it cannot be warmed from");
            reader.fail(span, what);
        } else if let Some(server) = plan(of).and_then(|pool| shared_by_racks(pool, former)) {
            let what = format!(
                "{server} is a server of both pools, where an item of \"{of}\" would have the name of one of \"{name}\": give \"{of}\" a generation of its own"
            );
            reader.fail(span, what);
        } else if former.settings.warm_from.is_some() {
            let what = format!("pool \"{name}\" is itself warmed from another: end that first");
            reader.fail(span, what);
        }
    }
}

/// A server of both a pool and the one that it is warmed from, where items of either move between racks.
fn shared_by_racks(pool: &PoolPlan, former: &PoolPlan) -> Option<String> {
    let (PoolServers::Memcached(own), PoolServers::Memcached(theirs)) =
        (&pool.servers, &former.servers)
    else {
        return None;
    };
    let is_theirs = |server: &&Server| {
        let mut theirs = theirs.servers().iter();
        theirs.any(|it| it.host == server.host && it.port == server.port)
    };
    let moves = pool.holding.is_some() || former.holding.is_some();
    let have_one_name = pool.settings.name_prefix == former.settings.name_prefix;
    let shared = own.servers().iter().find(is_theirs);
    shared
        .filter(|_| moves && have_one_name)
        .map(Server::identity)
}

/// A gutter is another pool of any memcached servers.
fn check_gutter(
    reader: &mut Reader,
    of: &str,
    gutter: At<String>,
    plans: &[PoolPlan],
    names: &[String],
) {
    let At { value: name, span } = gutter;
    let is_plain = |plan: &PoolPlan| {
        !matches!(plan.servers, PoolServers::Evenkeel(_)) && has_fixed_places(plan)
    };
    if !names.contains(&name) {
        let meant = did_you_mean(&name, names.iter().map(String::as_str));
        reader.fail(span, format!("there is no pool \"{name}\"{meant}"));
    } else if name == of {
        reader.fail(span, "a gutter is another pool");
    } else if plans
        .iter()
        .any(|plan| *plan.name == *name && !is_plain(plan))
    {
        reader.fail(
            span,
            "a gutter is a pool with servers, not one with a coordinator, a ring, or architecture = \"snoop\" or \"dir\"",
        );
    }
}

/// Whether the list of a pool's servers says where its keys are.
fn has_fixed_places(plan: &PoolPlan) -> bool {
    plan.ring.is_none() && plan.holding.is_none()
}

/// A directory is another pool of any memcached servers, whose list says where keys are.
fn check_directory(
    reader: &mut Reader,
    of: &str,
    directory: At<String>,
    plans: &[PoolPlan],
    names: &[String],
) {
    let At { value: name, span } = directory;
    let is_fit = |plan: &PoolPlan| {
        let changes = plan.settings.warm_from.is_some() || plan.settings.failover != Failover::None;
        matches!(plan.servers, PoolServers::Memcached(_)) && has_fixed_places(plan) && !changes
    };
    let mut plans = plans.iter().filter(|plan| *plan.name == *name);
    if !names.contains(&name) {
        let meant = did_you_mean(&name, names.iter().map(String::as_str));
        reader.fail(span, format!("there is no pool \"{name}\"{meant}"));
    } else if name == of {
        reader.fail(span, "a directory is another pool");
    } else if plans.any(|plan| !is_fit(plan)) {
        let what = "a directory is a pool with servers = [...] whose keys stay where the list says: without failover, gutter, warm_from, distribution = \"adaptive\", and architecture = \"snoop\" or \"dir\"";
        reader.fail(span, what);
    }
}

/// The pool that another is warmed from. What it cannot go together with is told where that stands.
pub fn warm_from(reader: &mut Reader, section: &Section<'_>) -> Option<At<String>> {
    let Some(former) = reader.text(section, "warm_from") else {
        if section.has("warm_fill") {
            let what = "warm_fill goes with warm_from";
            reader.fail(section.place_of("warm_fill"), what);
        }
        return None;
    };
    for (key, what) in [
        ("failover", ELSEWHERE),
        ("gutter", ELSEWHERE),
        (
            "hot_keys",
            "replicas of hot keys would have to follow deletes at the former pool",
        ),
    ] {
        if section.has(key) {
            let what = format!("{key} does not go with warm_from: {what}");
            reader.fail(section.place_of(key), what);
        }
    }
    Some(former)
}

/// Where the keys of a pool go while their server is out of use.
pub fn failover(reader: &mut Reader, section: &Section<'_>) -> Failover {
    let named = reader.parsed(section, "failover", |text| match text {
        "none" => Ok(Failover::None),
        "next" => Ok(Failover::Next),
        _ => Err("use \"none\" or \"next\", or gutter = \"POOL\" instead"),
    });
    match (named, reader.text(section, "gutter")) {
        (Some(_), Some(gutter)) => {
            reader.fail(
                gutter.span,
                "a pool has either failover or a gutter, not both",
            );
            Failover::None
        }
        (None, Some(gutter)) => Failover::Gutter(Arc::from(gutter.value)),
        (named, None) => named.map_or(Failover::None, |at| at.value),
    }
}
