//! Where the servers of a pool come from, as a file says it: a list, another file, the name service,
//! or a coordinator.

use super::adaptive::{is_adaptive, starts_even};
use super::hot_keys::HOT_KEYS_KEYS;
use super::pools::PoolServers;
use super::reader::{At, Reader, Section};
use super::topology::RackPlan;
use crate::clusters::ClusterSpec;
use crate::discovery::{DiscoverySpec, Source, read_servers_file};
use crate::limits::{family, refresh};
use evenkeel_member::DEFAULT_CLUSTER;
use evenkeel_placement::config::{Distribution, HashTag, PlacementConfig, PlacementError, Server};
use evenkeel_placement::hash::Hash;
use evenkeel_proxy_core::ServerList;
use evenkeel_runtime::names::Family;
use std::sync::Arc;
use toml::Spanned;
use toml::de::DeValue;

/// A pool has one of these.
const SOURCES: [&str; 5] = ["servers", "servers_file", "dns", "srv", "coordinator"];

const SERVER_KEYS: &[&str] = &["address", "weight", "name", "rack"];

/// The servers of a pool; `None` where they cannot be used.
pub fn servers(
    reader: &mut Reader,
    pool: &str,
    section: &Section<'_>,
    racks: &mut RackPlan,
) -> Option<PoolServers> {
    let mut given = SOURCES.into_iter().filter(|key| section.has(key));
    let Some(source) = given.next() else {
        reader.fail(
            section.span.clone(),
            format!(
                "pool \"{pool}\" needs servers, servers_file, dns or srv (any memcached), or a \
                 coordinator (Evenkeel)"
            ),
        );
        return None;
    };
    if let Some(other) = given.next() {
        reader.fail(
            section.place_of(other),
            format!(
                "a pool has either {source} or {}, not both",
                with_article(other)
            ),
        );
        return None;
    }
    if source == "coordinator" {
        return cluster(reader, section);
    }
    if let (Some(cluster), false) = (
        reader.text(section, "cluster"),
        section.has("pool_coordinator"),
    ) {
        reader.fail(cluster.span, "cluster goes with coordinator");
    }
    if source == "servers" {
        for key in ["refresh", "family"]
            .into_iter()
            .filter(|key| section.has(key))
        {
            let what = format!("{key} goes with servers that are looked for, not with a list");
            reader.fail(section.place_of(key), what);
        }
        return listed(reader, section, racks).map(PoolServers::Memcached);
    }
    discovered(reader, section, source).map(PoolServers::Discovered)
}

fn with_article(source: &str) -> String {
    match source {
        "coordinator" => "a coordinator".into(),
        source => source.to_owned(),
    }
}

/// The cluster of a pool of Evenkeel servers.
fn cluster(reader: &mut Reader, section: &Section<'_>) -> Option<PoolServers> {
    let coordinators = reader.texts(section, "coordinator")?;
    let name = reader.text(section, "cluster");
    let plain = ["failover", "gutter", "failover_ttl", "flush_on_return"];
    for key in plain.into_iter().chain(HOT_KEYS_KEYS) {
        if section.has(key) {
            reader.fail(
                section.place_of(key),
                format!("{key} goes with servers: a pool of Evenkeel servers has its map"),
            );
        }
    }
    for key in ["distribution", "hash", "hash_tag", "refresh", "family"] {
        if section.has(key) {
            reader.fail(
                section.place_of(key),
                format!(
                    "{key} goes with servers: in a pool of Evenkeel servers the map says where keys \
                     live"
                ),
            );
        }
    }
    if coordinators.is_empty() {
        let what = "coordinator needs an address";
        reader.fail(section.place_of("coordinator"), what);
    }
    Some(PoolServers::Evenkeel(ClusterSpec {
        coordinators: coordinators.into_iter().map(|at| at.value).collect(),
        name: name.map_or_else(|| DEFAULT_CLUSTER.to_owned(), |at| at.value),
    }))
}

/// How keys are distributed to servers that are still to be named.
fn placement(reader: &mut Reader, section: &Section<'_>) -> PlacementConfig {
    let key = if is_adaptive(section) {
        "start"
    } else {
        "distribution"
    };
    let distribution = match starts_even(section) {
        true => None,
        false => reader.parsed(section, key, str::parse::<Distribution>),
    };
    let hash = reader.parsed(section, "hash", str::parse::<Hash>);
    let hash_tag = reader.parsed(section, "hash_tag", str::parse::<HashTag>);
    PlacementConfig {
        distribution: distribution.map(|at| at.value).unwrap_or_default(),
        hash: hash.map(|at| at.value),
        servers: Vec::new(),
        hash_tag: hash_tag.map(|at| at.value),
    }
}

/// Servers that are looked for.
fn discovered(reader: &mut Reader, section: &Section<'_>, source: &str) -> Option<DiscoverySpec> {
    let before = reader.problems.len();
    let placement = placement(reader, section);
    let refresh = reader.parsed(section, "refresh", refresh);
    let which = reader.parsed(section, "family", family);
    if source != "dns" && section.has("family") {
        reader.fail(section.place_of("family"), "family goes with dns");
    }
    let source = match source {
        "servers_file" => Source::File(reader.path(section, "servers_file")?.value),
        "dns" => {
            let family = which.map_or(Family::All, |at| at.value);
            let parse = |text: &str| Source::addresses(text, family);
            reader.parsed(section, "dns", parse)?.value
        }
        _ => reader.parsed(section, "srv", Source::services)?.value,
    };
    let spec = DiscoverySpec {
        refresh: refresh.map_or(source.refresh_default(), |at| at.value),
        source,
        placement,
    };
    // A file that cannot be used now will most likely not do at the next look either.
    if let Source::File(path) = &spec.source
        && let Err(error) = read_servers_file(path).and_then(|servers| spec.check(servers))
    {
        reader.fail(section.place_of("servers_file"), error);
    }
    (reader.problems.len() == before).then_some(spec)
}

/// A list of servers; `None` where it cannot be used.
fn listed(
    reader: &mut Reader,
    section: &Section<'_>,
    racks: &mut RackPlan,
) -> Option<Arc<ServerList>> {
    let listed = reader.list(section, "servers")?;
    let before = reader.problems.len();
    let mut servers = Vec::new();
    for value in listed {
        if let Some((server, rack)) = server(reader, value) {
            racks.place(reader, &server, rack);
            servers.push(server);
        }
    }
    let placement = placement(reader, section);
    if reader.problems.len() > before {
        return None;
    }
    let places: Vec<_> = servers
        .iter()
        .map(|at| (at.value.identity(), at.span.clone()))
        .collect();
    let config = PlacementConfig {
        servers: servers.into_iter().map(|at| at.value).collect(),
        ..placement
    };
    match ServerList::new(config) {
        Ok(list) => Some(Arc::new(list)),
        Err(error) => {
            let named = match &error {
                PlacementError::WeightZero { server }
                | PlacementError::WeightUnused { server, .. }
                | PlacementError::Duplicate { server } => {
                    // Of two that are called the same, the later is the one too many.
                    places.iter().rfind(|(identity, _)| identity == server)
                }
                _ => None,
            };
            let span = named.map(|(_, span)| span.clone());
            let span = span.unwrap_or_else(|| section.place_of("servers"));
            reader.fail(span, error.to_string());
            None
        }
    }
}

/// A server as a text, or as a table, and the rack that it is given there.
fn server(
    reader: &mut Reader,
    value: &Spanned<DeValue<'_>>,
) -> Option<(At<Server>, Option<At<String>>)> {
    let span = value.span();
    if let Some(text) = value.get_ref().as_str() {
        return match text.parse() {
            Ok(value) => Some((At { value, span }, None)),
            Err(error) => {
                reader.fail(span, format!("{error}"));
                None
            }
        };
    }
    let section = &reader.section("a server", value, SERVER_KEYS)?;
    let weight = reader.number(section, "weight", 0..=u32::MAX.into());
    let name = reader.text(section, "name").map(|at| at.value);
    let rack = reader.text(section, "rack");
    let address = reader.parsed(section, "address", |text| {
        let read = text.parse::<Server>().map_err(|error| error.to_string())?;
        if read.weight != 1 || read.name.is_some() {
            return Err(
                "give HOST or HOST:PORT; weight, name and rack have keys of their own".into(),
            );
        }
        Ok::<_, String>(read)
    });
    if !section.has("address") {
        reader.fail(span.clone(), "a server needs an address");
    }
    let value = Server {
        weight: weight.map_or(1, |at| at.value as u32),
        name,
        ..address?.value
    };
    Some((At { value, span }, rack))
}
