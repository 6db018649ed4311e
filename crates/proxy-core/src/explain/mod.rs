//! Where a key goes and why, for people.
//!
//! Everything here is asked of what requests go through themselves: the routes, the renaming, the pool,
//! [`elsewhere`](ProxyCore::elsewhere). Nothing is worked out a second time, so that an explanation cannot
//! differ from what happens. It is made without counting anything and without asking a server.
//!
//! Commands that take the same way are explained together.

mod faults;
mod held;
mod seen;
mod together;

use crate::config::{Failover, OnDown};
use crate::ids::{BackendId, ClientId};
use crate::pipe::backend::{Backend, Peer};
use crate::pool::racks::PoolRacks;
use crate::pool::{EvenkeelPool, MemcachedPool, Pool};
use crate::routes::way::WayTo;
use crate::routes::{CommandClass, Renamed, RouteConfig};
use crate::under_way::say::{say, say_bytes};
use crate::worker::ProxyCore;
use evenkeel_control::bundles::COPIES_MAX;
use evenkeel_placement::renaming::shadows;
use evenkeel_protocol::text;
use evenkeel_schemes::copies::Switch;
use evenkeel_schemes::generation::taken_apart;
use evenkeel_schemes::locality::holder::Site;
use evenkeel_schemes::stage::Stage;
use evenkeel_types::{Instant, KeyHash, ServerId, is_key};
use serde::Serialize;

pub use faults::{Fault, KeyReport, PlaceSeen, Stands};
pub(crate) use held::held_key;
pub use held::{HeldKey, HeldPlace};
pub(crate) use together::together;
pub use together::{KeyTogether, Together};

pub use seen::{
    CopiesSeen, Destination, Explanation, Exptimes, FormerSeen, HealthSeen, HotSeen, KeyWay,
    PLACES_LISTED_MAX, Placing, RacksSeen, RouteFound, ServerSeen,
};

/// Explains the ways of a key. `running` says whether it is worth telling how servers are.
///
/// # Errors
/// The error line for what is no key: nothing, more than 250 bytes, spaces, control characters.
pub(crate) fn explain(
    core: &ProxyCore,
    now: Instant,
    key: &[u8],
    running: bool,
) -> Result<Explanation, &'static [u8]> {
    if !is_key(key) {
        return Err(text::BAD_FORMAT);
    }
    let mut groups: Vec<((usize, bool), Vec<CommandClass>)> = Vec::new();
    for class in CommandClass::ALL {
        let route = core.routing.table().find(key, class);
        let way = (route, core.routing.ways()[route].denies(class));
        match groups.iter_mut().find(|(other, _)| *other == way) {
            Some((_, classes)) => classes.push(class),
            None => groups.push((way, vec![class])),
        }
    }
    let ways = groups.into_iter().map(|((route, is_denied), classes)| {
        let way = &core.routing.ways()[route];
        let (refused, to) = if is_denied {
            (Some(way.denial()), None)
        } else {
            match inside(core, way.to(), key) {
                Some(inside) => (None, destination(core, now, way.to(), &inside, running)),
                None => (Some(text::BAD_FORMAT), None),
            }
        };
        KeyWay {
            commands: classes.iter().map(|class| class.name().into()).collect(),
            route: route_found(core, route, key),
            refused: refused.map(|words| shown(words.trim_ascii_end())),
            to,
        }
    });
    Ok(Explanation {
        key: shown(key),
        config_generation: core.config.revision.generation,
        running,
        ways: ways.collect(),
    })
}

/// Answers `stats together KEY…`, in one line of JSON.
pub(crate) fn together_asked(core: &mut ProxyCore, id: ClientId, keys: &[u8]) {
    let keys: Vec<&[u8]> = keys
        .split(|it| *it == b' ')
        .filter(|it| !it.is_empty())
        .collect();
    match together(core, &keys) {
        Ok(together) => say_json(core, id, b"STAT together ", &together),
        Err(words) => say(core, id, words),
    }
}

/// Answers `stats explain KEY`, in one line of JSON.
pub(crate) fn explain_asked(core: &mut ProxyCore, now: Instant, id: ClientId, key: &[u8]) {
    let explanation = match explain(core, now, key, true) {
        Ok(explanation) => explanation,
        Err(words) => return say(core, id, words),
    };
    say_json(core, id, b"STAT explain ", &explanation);
}

fn say_json(core: &mut ProxyCore, id: ClientId, begin: &[u8], said: &impl Serialize) {
    let mut bytes = core.spare.take();
    bytes.extend_from_slice(begin);
    serde_json::to_writer(&mut bytes, said)
        .expect("strings and numbers can be written as JSON, and a vector takes all bytes");
    bytes.extend_from_slice(text::CRLF);
    bytes.extend_from_slice(text::END);
    say_bytes(core, id, bytes);
}

fn route_found(core: &ProxyCore, number: usize, key: &[u8]) -> RouteFound {
    let routes = core.routing.table().routes();
    let prefix = &routes[number].prefix;
    let is_longer =
        |route: &RouteConfig| route.prefix.len() > prefix.len() && key.starts_with(&route.prefix);
    let why = if routes.iter().any(is_longer) {
        "the routes of longer prefixes are for other commands"
    } else if !prefix.is_empty() {
        "the longest prefix that begins the key"
    } else if routes.iter().all(|route| route.prefix.is_empty()) {
        "no route has a prefix"
    } else {
        "no prefix begins the key"
    };
    RouteFound {
        number: number + 1,
        prefix: shown(prefix),
        why: why.into(),
    }
}

/// The key as servers know it; `None` if the route's renaming makes it none.
fn inside(core: &ProxyCore, to: &WayTo, key: &[u8]) -> Option<Vec<u8>> {
    let Some(rename) = core.routing.renames.get(to.rename) else {
        return Some(key.to_vec());
    };
    let mut renamed = Renamed::default();
    rename
        .to_inside(key, false, &mut renamed)
        .then(|| renamed.stored().to_vec())
}

fn destination(
    core: &ProxyCore,
    now: Instant,
    to: &WayTo,
    key: &[u8],
    running: bool,
) -> Option<Destination> {
    let pool = core.pools.get(to.pool)?;
    let prefix = pool.name_prefix(key);
    let name = prefix.map(|prefix| [&prefix, key].concat());
    let key = name.as_deref().unwrap_or(key);
    let bounds = to.ttl;
    let exptimes = (!bounds.is_none()).then(|| Exptimes {
        min_s: bounds.min,
        max_s: bounds.max,
        jitter_permille: ((u64::from(bounds.jitter) * 1000).div_ceil(1 << 32)) as u32,
    });
    let mut destination = Destination {
        pool: pool.name.to_string(),
        kind: pool.kind().into(),
        scheme: pool.scheme().to_string(),
        key_sent: shown(key),
        exptimes,
        placing: Placing::NoMap,
        home: None,
        others: Vec::new(),
        others_unlisted: 0,
        former: former_seen(core, pool, key, running),
        hot: None,
        copies: copies_seen(core, pool, key, running),
        racks: racks_seen(core, pool, key, running),
        asked: None,
        why: String::new(),
    };
    if pool.settings.adaptive && pool.ring().is_none() {
        destination.why = match running {
            true => "the coordinator has not told a ring yet".into(),
            false => "the ring is known to a proxy that runs".into(),
        };
    } else if let Some(list) = pool.list() {
        place_by_list(core, now, to, list, key, running, &mut destination);
    } else if let Some(cluster) = pool.cluster() {
        place_by_map(core, cluster, key, running, &mut destination);
    }
    destination.hot = hot_seen(core, now, pool, key, &destination.others);
    if running {
        let is_loss = pool.ring().is_some_and(|ring| ring.is_loss());
        say_stage(&mut destination, is_loss);
    }
    if running && destination.asked.is_none() {
        let reads = match pool.settings.on_down {
            OnDown::Miss => "gets are misses",
            OnDown::Error => "gets are answered SERVER_ERROR",
        };
        let words = ["; ", reads, ", the rest SERVER_ERROR"].concat();
        destination.why.push_str(&words);
    }
    Some(destination)
}

/// As long as the pool's own servers are not asked, others are, or nobody.
fn say_stage(found: &mut Destination, is_loss: bool) {
    let Some(former) = &found.former else { return };
    match former.stage {
        Stage::Former => {
            found.asked = former.home.as_ref().map(|home| home.name.clone());
            found.why = "the former servers are asked as yet".into();
        }
        Stage::Quiesced if is_loss => {
            found.asked = None;
            found.why =
                "its server is lost, and nobody is asked before all proxies know that".into();
        }
        Stage::Quiesced => {
            found.asked = None;
            found.why = "requests wait for the coordinator that leads the pool to other servers; in the end"
                .into();
        }
        Stage::Warming | Stage::Closing | Stage::Done => {}
    }
}

fn copies_seen(core: &ProxyCore, pool: &Pool, key: &[u8], running: bool) -> Option<CopiesSeen> {
    let bundled = pool.bundled.as_ref()?;
    let switch = bundled.kept?.switch();
    let servers = pool.list()?;
    let mut places = [0; COPIES_MAX as usize];
    let places = bundled.by.places(servers.list(), key, &mut places);
    let copies = places.iter().skip(1);
    let copies =
        copies.filter_map(|at| server_seen(core, servers.backends()[*at as usize], running));
    let name = bundled
        .write_prefix()
        .map(|prefix| [&prefix[..], key].concat());
    Some(CopiesSeen {
        switch: switch.map_or("unknown", Switch::as_str).into(),
        name: name.map(|name| shown(&name)),
        servers: copies.collect(),
    })
}

fn racks_seen(core: &ProxyCore, pool: &Pool, key: &[u8], running: bool) -> Option<RacksSeen> {
    let racks = pool.racks.as_ref()?;
    let seen = |site| server_seen(core, server_at(core, racks, site, key)?, running);
    let directory = seen(Site::Directory);
    let note = directory
        .as_ref()
        .map(|_| shown(&racks.name(Site::Directory, key)));
    Some(RacksSeen {
        others: racks.racks.others().iter().filter_map(seen).collect(),
        directory,
        note,
    })
}

/// The server at a site of a pool's racks that has the key of an item's name.
fn server_at(core: &ProxyCore, racks: &PoolRacks, site: Site, name: &[u8]) -> Option<BackendId> {
    let name = racks.name(site, name);
    let (home, _) = core.pools.place(racks.pool_of(site)?, &name);
    home.ok()
}

fn former_seen(core: &ProxyCore, pool: &Pool, key: &[u8], running: bool) -> Option<FormerSeen> {
    let former = core.pools.get(pool.former?.pool)?;
    let stage = match pool.settings.adaptive {
        true => pool.ring().and_then(|_| pool.stage(key))?,
        false => pool.former?.stage(),
    };
    let former_name = pool.former_name(key);
    let key = former_name.as_deref().unwrap_or(key);
    let home = former.list().map(|list| list.home(key));
    let home = home.and_then(|home| server_seen(core, home, running));
    Some(FormerSeen {
        pool: former.name.to_string(),
        home,
        stage,
    })
}

fn place_by_list(
    core: &ProxyCore,
    now: Instant,
    to: &WayTo,
    servers: &MemcachedPool,
    key: &[u8],
    running: bool,
    found: &mut Destination,
) {
    let (generation, own) = taken_apart(key);
    let (hashed, hash) = servers.list().hashed(own);
    let (distribution, function) = servers.list().rule();
    let (hash, hashed, hash_value) = (function.into(), shown(hashed), format!("{hash:#x}"));
    found.placing = match servers.ring() {
        Some(ring) => Placing::Ring {
            plan: ring.number(),
            generation,
            hash,
            hashed,
            hash_value,
        },
        None => Placing::List {
            distribution: distribution.into(),
            hash,
            hashed,
            hash_value,
        },
    };
    let home = servers.home(key);
    found.home = server_seen(core, home, running);
    let Some(pool) = core.pools.get(to.pool) else {
        return;
    };
    let (stand_in, policy) = stand_in(core, pool);
    if let Some(others) = stand_in.and_then(Pool::list) {
        let others = others.candidates(key).filter(|&id| id != home);
        list_others(core, others.collect(), running, found);
    }
    if !running {
        found.asked = found.home.as_ref().map(|home| home.name.clone());
        found.why = "its home, if that is in use".into();
        return;
    }
    let Some(elsewhere) = core.pools.elsewhere(&core.backends, now, to.pool, key) else {
        say_home(core, home, "its home is in use", found);
        return;
    };
    found.asked = elsewhere.place.and_then(|place| name_of(core, place));
    found.why = match elsewhere.place {
        Some(_) => format!("its home is out of use, and {policy}"),
        None if stand_in.is_none() => {
            format!("its home is out of use, and {policy}")
        }
        None if !elsewhere.is_expired => {
            "a server was back for too short a time before it failed again: what others held \
             for it may not have expired"
                .into()
        }
        None => format!("its home is out of use, {policy}, and no other place is in use"),
    };
}

/// The pool that takes the keys of servers that are out of use, and what the configuration says.
fn stand_in<'p>(core: &'p ProxyCore, pool: &'p Pool) -> (Option<&'p Pool>, String) {
    match &pool.settings.failover {
        Failover::None => (None, "the pool has no failover".into()),
        Failover::Next => (Some(pool), "failover is \"next\"".into()),
        Failover::Gutter(name) => {
            let gutter = pool.gutter.and_then(|gutter| core.pools.get(gutter));
            (gutter, format!("failover is the gutter \"{name}\""))
        }
    }
}

fn place_by_map(
    core: &ProxyCore,
    servers: &EvenkeelPool,
    key: &[u8],
    running: bool,
    found: &mut Destination,
) {
    let Some(map) = servers.map() else {
        found.why = if running {
            "there is no map yet".into()
        } else {
            "the map is known to a proxy that runs".into()
        };
        return;
    };
    let hash = KeyHash::of(key);
    let place = map.locate(hash);
    found.placing = Placing::Map {
        epoch: map.epoch().0,
        hash_value: format!("{:#x}", hash.0),
        virtual_node: place.virtual_node.0,
        cachelet: place.cachelet.0,
    };
    let Some(worker) = place.worker else {
        found.why = match map.is_quarantined(place.cachelet) {
            true => "its cachelet is quarantined: its owners died one after the other".into(),
            false => "nobody owns its cachelet".into(),
        };
        return;
    };
    let most = u8::try_from(map.servers_up_count()).unwrap_or(u8::MAX);
    let replicas = shadows(map, key, worker.server, most);
    let replicas = replicas.into_iter().filter_map(|w| servers.backend(w));
    list_others(core, replicas.collect(), running, found);
    let Some((_, Some(home))) = servers.home(hash) else {
        found.why = "the map has no address of its owner".into();
        return;
    };
    found.home = server_seen(core, home, running);
    say_home(core, home, "it owns the cachelet", found);
}

/// What is known of the replicas of a key, whose possible places of Evenkeel servers `others` are. Nothing is before it was read
/// under a lease.
fn hot_seen(
    core: &ProxyCore,
    now: Instant,
    pool: &Pool,
    key: &[u8],
    others: &[ServerSeen],
) -> Option<HotSeen> {
    let hash = KeyHash::of(key);
    let known = pool.leases.look(now, hash)?;
    let servers = match pool.list() {
        None => {
            let replicas = others.iter().take(known.gamma.into());
            replicas.map(|server| server.name.clone()).collect()
        }
        Some(servers) => {
            let hot = pool.hot.as_ref().filter(|hot| hot.is_tracked(hash, key))?;
            let places = (1..=known.gamma).filter_map(|of| hot.server_of_copy(hash, of));
            let replicas = places.filter_map(|place| servers.backends().get(place));
            let listed = replicas.take(PLACES_LISTED_MAX);
            listed.filter_map(|&id| name_of(core, id)).collect()
        }
    };
    Some(HotSeen {
        replicas: known.gamma,
        servers,
        leased_us: u64::try_from(known.leased_for.as_micros()).unwrap_or(u64::MAX),
        kept_bytes: known.kept_len,
    })
}

fn say_home(core: &ProxyCore, home: BackendId, why: &str, found: &mut Destination) {
    let takes = core.backends.get(home).is_some_and(Backend::takes_requests);
    if takes {
        found.asked = name_of(core, home);
        found.why = why.into();
    } else {
        found.why = format!("{why}, but its connection is lost and no new one stands yet");
    }
}

fn list_others(core: &ProxyCore, others: Vec<BackendId>, running: bool, found: &mut Destination) {
    found.others_unlisted = others.len().saturating_sub(PLACES_LISTED_MAX);
    let listed = others.into_iter().take(PLACES_LISTED_MAX);
    found.others = listed
        .filter_map(|id| server_seen(core, id, running))
        .collect();
}

fn name_of(core: &ProxyCore, id: BackendId) -> Option<String> {
    Some(core.backends.get(id)?.full_name())
}

fn server_seen(core: &ProxyCore, id: BackendId, running: bool) -> Option<ServerSeen> {
    let backend = core.backends.get(id)?;
    let host = &backend.host;
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.clone()
    };
    Some(ServerSeen {
        name: backend.full_name(),
        address: format!("{host}:{}", backend.port),
        rack: backend
            .rack
            .map(|rack| core.config.racks.name(Some(rack)).to_owned()),
        distance_us: backend.stopwatch.distance_us(core.now).filter(|_| running),
        health: running.then(|| HealthSeen {
            standing: match backend.peer {
                Peer::Memcached => backend.health.state_name().into(),
                Peer::Worker(worker) => up_or_down(core, backend, worker.server).into(),
            },
            connection: backend.state().into(),
            failures: backend.health.failures(),
            cause: backend.cause().map(ToString::to_string),
            queued_requests: backend.queued_requests(),
        }),
    })
}

/// What the map says of a server.
fn up_or_down(core: &ProxyCore, backend: &Backend, server: ServerId) -> &'static str {
    let cluster = core.pools.get(backend.pool).and_then(Pool::cluster);
    let map = cluster.and_then(EvenkeelPool::map);
    match map.is_some_and(|map| map.is_up(server)) {
        true => "up",
        false => "down",
    }
}

/// Text of bytes, for people.
fn shown(bytes: &[u8]) -> String {
    // What names of ours begin with moves a terminal's cursor in some.
    String::from_utf8_lossy(bytes).replace('\x01', "\\x01")
}
