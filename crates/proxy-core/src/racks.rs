//! Where the proxy and its servers stand.

use core::net::IpAddr;
use evenkeel_schemes::locality::topology::{RackId, Topology};
use std::collections::BTreeMap;

/// The racks, and who is in which.
///
/// A server's rack is the one that is given for it, else the one that has its address: what its host is, if that is an address, else
/// where its connection goes. A gateway acts from its own rack.
#[derive(Clone, Debug, Default)]
pub struct Racks {
    topology: Topology,
    own: Option<RackId>,
    /// The racks that were given, by host and port.
    given: BTreeMap<(String, u16), RackId>,
}

impl Racks {
    /// Servers at these places are in these racks, whatever their addresses are.
    pub fn new(
        topology: Topology,
        own: Option<RackId>,
        given: BTreeMap<(String, u16), RackId>,
    ) -> Self {
        Racks {
            topology,
            own,
            given,
        }
    }

    /// All racks.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The proxy's rack.
    pub fn own(&self) -> Option<RackId> {
        self.own
    }

    /// The rack of a server; `address` is where its connection goes, if that is known.
    pub fn of_server(&self, host: &str, port: u16, address: Option<IpAddr>) -> Option<RackId> {
        if self.topology.is_empty() {
            return None;
        }
        let given = self.given.get(&(host.to_owned(), port)).copied();
        let address = || host.parse().ok().or(address);
        given.or_else(|| self.topology.rack_of(address()?))
    }

    /// What a rack is called in statistics; [`NO_RACK`] for none.
    pub fn name(&self, rack: Option<RackId>) -> &str {
        let rack = rack.and_then(|rack| self.topology.get(rack));
        rack.map_or(NO_RACK, |rack| &rack.name)
    }
}

/// What stands where a rack is not known. No rack can be called so.
pub const NO_RACK: &str = "?";

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_schemes::locality::topology::{Rack, network};

    #[test]
    fn what_is_given_goes_before_addresses_and_an_address_in_the_list_before_the_connection() {
        let rack = |name: &str, net: &str| Rack {
            name: name.to_owned(),
            networks: vec![network(net).expect("a network")],
            is_central: false,
        };
        let topology = Topology::new(vec![rack("a", "10.1.0.0/16"), rack("b", "10.2.0.0/16")]);
        let topology = topology.expect("a topology");
        let (a, b) = (topology.named("a"), topology.named("b"));
        let given = [(("10.1.0.9".to_owned(), 11211), b.expect("it is there"))];
        let racks = Racks::new(topology, a, given.into());
        let address = |text: &str| Some(text.parse().expect("an address"));
        assert_eq!(racks.of_server("10.1.0.9", 11211, None), b);
        assert_eq!(racks.of_server("10.1.0.9", 11212, None), a);
        assert_eq!(racks.of_server("10.1.0.8", 11211, address("10.2.0.8")), a);
        assert_eq!(racks.of_server("cache-1", 11211, None), None);
        assert_eq!(racks.of_server("cache-1", 11211, address("10.2.0.8")), b);
        assert_eq!(racks.of_server("cache-1", 11211, address("10.3.0.8")), None);
        assert_eq!((racks.name(a), racks.name(None)), ("a", "?"));
        assert_eq!(Racks::default().of_server("10.1.0.9", 11211, None), None);
    }
}
