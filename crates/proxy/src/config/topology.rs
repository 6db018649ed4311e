//! The racks of a file, and which servers it says to stand where.

use super::reader::{At, Reader};
use evenkeel_placement::config::Server;
use evenkeel_proxy_core::Racks;
use evenkeel_runtime::UsageError;
use evenkeel_schemes::locality::topology::{Rack, RackId, Topology, network};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;
use toml::de::DeValue;

const RACK_KEYS: &[&str] = &["cidr", "central"];

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct RackPlan {
    topology: Topology,
    /// Racks of servers, by host and port.
    given: BTreeMap<(String, u16), RackId>,
}

/// What `[topology]` says.
pub fn topology(reader: &mut Reader, value: &Spanned<DeValue<'_>>) -> RackPlan {
    if reader.section("[topology]", value, &["racks"]).is_none() {
        return RackPlan::default();
    }
    let racks = value.get_ref().get("racks");
    let table = racks.and_then(|racks| racks.get_ref().as_table());
    let Some(table) = table else {
        reader.fail(
            value.span(),
            "a topology is of tables [topology.racks.NAME]",
        );
        return RackPlan::default();
    };
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    let read = entries
        .iter()
        .filter_map(|(name, value)| rack(reader, name.get_ref(), value));
    let read: Vec<Rack> = read.collect();
    match Topology::new(read) {
        Ok(topology) => RackPlan {
            topology,
            given: BTreeMap::new(),
        },
        Err(error) => {
            let is_to_blame = |name: &str| error.rack().is_some_and(|rack| rack == name);
            let blamed = entries.iter().find(|(name, _)| is_to_blame(name.get_ref()));
            let span = blamed.map_or(value.span(), |(name, _)| name.span());
            reader.fail(span, error.to_string());
            RackPlan::default()
        }
    }
}

fn rack(reader: &mut Reader, name: &str, value: &Spanned<DeValue<'_>>) -> Option<Rack> {
    let section = &reader.section(&format!("rack \"{name}\""), value, RACK_KEYS)?;
    let mut networks = Vec::new();
    for text in reader.texts(section, "cidr").unwrap_or_default() {
        match network(&text.value) {
            Ok(network) => networks.push(network),
            Err(error) => reader.fail(text.span, format!("cidr: {error}")),
        }
    }
    Some(Rack {
        name: name.to_owned(),
        networks,
        is_central: reader.flag(section, "central"),
    })
}

impl RackPlan {
    /// The rack of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn named(&self, name: &str) -> Result<RackId, String> {
        let racks = self.topology.racks().iter();
        let known: Vec<_> = racks.map(|rack| rack.name.as_str()).collect();
        let unknown = || match known.as_slice() {
            [] => format!("no rack \"{name}\": there is no [topology.racks.NAME]"),
            known => format!("no rack \"{name}\"; there are {}", known.join(", ")),
        };
        self.topology.named(name).ok_or_else(unknown)
    }

    /// The rack of a server, as far as the file says it.
    pub fn rack_of(&self, server: &Server) -> Option<RackId> {
        let given = self.given.get(&(server.host.clone(), server.port)).copied();
        given.or_else(|| self.topology.rack_of(server.host.parse().ok()?))
    }

    /// Whether a rack is central, and its name.
    pub fn place_of(&self, rack: RackId) -> (bool, &str) {
        let rack = self.topology.get(rack);
        rack.map_or((false, ""), |rack| (rack.is_central, &rack.name))
    }

    /// Notes which rack a listed server was given, and fails where it stands in none or in two.
    pub fn place(&mut self, reader: &mut Reader, server: &At<Server>, rack: Option<At<String>>) {
        let (host, port) = (&server.value.host, server.value.port);
        if let Some(rack) = rack {
            match self.named(&rack.value) {
                Ok(id) => self.give(reader, (host.clone(), port), id, rack.span),
                Err(error) => reader.fail(rack.span, format!("rack: {error}")),
            }
            return;
        }
        // Where a name leads is known once there is a connection.
        let Ok(address) = host.parse::<IpAddr>() else {
            return;
        };
        if !self.topology.is_empty() && self.topology.rack_of(address).is_none() {
            let what =
                format!("{host} is in no rack: add it to the cidr of one, or give rack = \"NAME\"");
            reader.fail(server.span.clone(), what);
        }
    }

    fn give(&mut self, reader: &mut Reader, place: (String, u16), id: RackId, span: Range<usize>) {
        let before = *self.given.entry(place.clone()).or_insert(id);
        if before != id {
            let (host, port) = place;
            let other = self.topology.get(before).map_or("", |rack| &rack.name);
            reader.fail(
                span,
                format!("{host}:{port} is in rack \"{other}\" already"),
            );
        }
    }

    /// Where everybody stands. The proxy's own rack is the one that a flag names, else that of the file, else the one that has the
    /// address under which it is reached.
    ///
    /// # Errors
    /// No rack has the flag's name.
    pub fn racks(
        self,
        flag: Option<&str>,
        file: Option<RackId>,
        advertise: Option<&str>,
    ) -> Result<Arc<Racks>, UsageError> {
        let flag = flag.map(|name| self.named(name)).transpose();
        let flag = flag.map_err(|error| UsageError(format!("--rack: {error}")))?;
        let by_address = advertise
            .and_then(|host| host.parse().ok())
            .and_then(|address| self.topology.rack_of(address));
        let own = flag.or(file).or(by_address);
        Ok(Arc::new(Racks::new(self.topology, own, self.given)))
    }
}
