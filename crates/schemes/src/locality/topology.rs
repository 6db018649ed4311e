//! Which rack an address belongs to.
//!
//! A rack is whatever is near to itself: machines behind one switch, a zone, a data centre (the paper on locality, section 2.2). A
//! rack has networks; where several hold an address, the one with the longest prefix decides. A *central* rack stands on the backbone:
//! the others reach it through two switches and each other through three.

use crate::generation;
use core::fmt;
use core::net::IpAddr;
use evenkeel_types::KeyHash;
use ipnet::IpNet;

/// Most racks of a topology.
pub const RACKS_MAX: usize = 64;

/// Most letters of a rack's name.
pub const NAME_LEN_MAX: usize = 32;

/// Number of a rack: its position in the topology, below [`RACKS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RackId(u8);

impl RackId {
    /// Its position.
    pub fn index(self) -> usize {
        self.0.into()
    }

    /// All that there can be.
    pub fn all() -> impl Iterator<Item = RackId> {
        (0..RACKS_MAX as u8).map(RackId)
    }

    /// Its number in files.
    pub fn number(self) -> u8 {
        self.0
    }
}

/// Reads a network: `10.1.0.0/16`, `fd00:1::/32`, or an address alone. An IPv4-mapped one (RFC 4291, 2.5.5.2) is the IPv4 network that it
/// means.
///
/// # Errors
/// What is wrong with it, in words.
pub fn network(text: &str) -> Result<IpNet, String> {
    let read = match text.contains('/') {
        true => text.parse().ok(),
        false => text.parse::<IpAddr>().ok().map(IpNet::from),
    };
    let form = || "a network is ADDRESS/BITS, such as 10.1.0.0/16 or fd00:1::/32".to_owned();
    let network: IpNet = canonical(read.ok_or_else(form)?);
    if network.trunc() != network {
        let meant = network.trunc();
        return Err(format!("there are bits behind the prefix: write {meant}"));
    }
    Ok(network)
}

/// Bits before an IPv4 address in the IPv6 address that is mapped to it.
const MAPPED_BITS: u8 = 96;

fn canonical(network: IpNet) -> IpNet {
    let prefix = network.prefix_len().checked_sub(MAPPED_BITS);
    match (network.addr(), prefix) {
        (IpAddr::V6(address), Some(prefix)) => {
            let address = address.to_ipv4_mapped();
            let mapped = address.and_then(|address| IpNet::new(address.into(), prefix).ok());
            mapped.unwrap_or(network)
        }
        _ => network,
    }
}

/// A rack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rack {
    /// Its name: 1 to [`NAME_LEN_MAX`] letters, digits, `-` and `_`.
    pub name: String,
    /// Its networks, as [`network`] reads them.
    pub networks: Vec<IpNet>,
    /// Whether it stands on the backbone.
    pub is_central: bool,
}

impl Rack {
    /// What stands for it where others read it who may number racks otherwise: all of it in [notes](crate::mark::note), its lowest bits in
    /// [CAS uniques](Rack::unique_mask). Of its name alone.
    pub fn token(&self) -> u64 {
        KeyHash::of(self.name.as_bytes()).0
    }

    /// What uniques of its servers are combined with (exclusive or) where applications see them: those of two racks are never the same.
    pub fn unique_mask(&self) -> u64 {
        generation::mask(self.token())
    }
}

/// The racks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    racks: Vec<Rack>,
}

/// Why racks make no topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyError {
    /// More than [`RACKS_MAX`].
    TooMany(usize),
    /// No name for a rack.
    Name(String),
    /// Two have this name.
    SameName(String),
    /// The tokens of these racks have the same lowest bits.
    Alike([String; 2]),
    /// Two racks have this network.
    SameNetwork {
        /// What they both have.
        network: IpNet,
        /// The racks, the later one last.
        racks: [String; 2],
    },
}

impl TopologyError {
    /// The rack to blame: of two the later.
    pub fn rack(&self) -> Option<&str> {
        match self {
            TopologyError::TooMany(_) => None,
            TopologyError::Name(name) | TopologyError::SameName(name) => Some(name),
            TopologyError::Alike([_, later])
            | TopologyError::SameNetwork {
                racks: [_, later], ..
            } => Some(later),
        }
    }
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopologyError::TooMany(count) => {
                write!(f, "{count} racks; there may be {RACKS_MAX} at most")
            }
            TopologyError::Name(name) => write!(
                f,
                "\"{name}\" is no name of a rack: 1 to {NAME_LEN_MAX} letters, digits, - and _"
            ),
            TopologyError::SameName(name) => write!(f, "there are two racks \"{name}\""),
            TopologyError::Alike([one, other]) => write!(
                f,
                "the names of the racks \"{one}\" and \"{other}\" have hashes whose lowest bits are the same: call one of them otherwise"
            ),
            TopologyError::SameNetwork {
                network,
                racks: [one, other],
            } => write!(f, "the racks \"{one}\" and \"{other}\" both have {network}"),
        }
    }
}

impl core::error::Error for TopologyError {}

impl Topology {
    /// Puts racks together; they are numbered in this order.
    ///
    /// # Errors
    /// See [`TopologyError`].
    pub fn new(racks: Vec<Rack>) -> Result<Self, TopologyError> {
        if racks.len() > RACKS_MAX {
            return Err(TopologyError::TooMany(racks.len()));
        }
        for (position, rack) in racks.iter().enumerate() {
            if !is_name(&rack.name) {
                return Err(TopologyError::Name(rack.name.clone()));
            }
            for former in &racks[..position] {
                if former.name == rack.name {
                    return Err(TopologyError::SameName(rack.name.clone()));
                }
                if former.unique_mask() == rack.unique_mask() {
                    let racks = [former.name.clone(), rack.name.clone()];
                    return Err(TopologyError::Alike(racks));
                }
                if let Some(network) = rack
                    .networks
                    .iter()
                    .find(|network| former.networks.contains(network))
                {
                    return Err(TopologyError::SameNetwork {
                        network: *network,
                        racks: [former.name.clone(), rack.name.clone()],
                    });
                }
            }
        }
        Ok(Topology { racks })
    }

    /// The racks, each at its number.
    pub fn racks(&self) -> &[Rack] {
        &self.racks
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.racks.is_empty()
    }

    /// The racks with their numbers.
    fn numbered(&self) -> impl Iterator<Item = (RackId, &Rack)> {
        (0..).map(RackId).zip(&self.racks)
    }

    /// The rack of this name.
    pub fn named(&self, name: &str) -> Option<RackId> {
        let mut racks = self.numbered();
        racks.find(|(_, rack)| rack.name == name).map(|(id, _)| id)
    }

    /// The rack that has this token.
    pub fn with_token(&self, token: u64) -> Option<RackId> {
        let mut racks = self.numbered();
        racks
            .find(|(_, rack)| rack.token() == token)
            .map(|(id, _)| id)
    }

    /// The rack of this number.
    pub fn get(&self, id: RackId) -> Option<&Rack> {
        self.racks.get(id.index())
    }

    /// The rack that has an address: the one with the longest network that holds it.
    pub fn rack_of(&self, address: IpAddr) -> Option<RackId> {
        let address = address.to_canonical();
        let networks = self
            .numbered()
            .flat_map(|(id, rack)| rack.networks.iter().map(move |network| (network, id)));
        let holding = networks.filter(|(network, _)| network.contains(&address));
        holding
            .max_by_key(|(network, _)| network.prefix_len())
            .map(|(_, id)| id)
    }
}

fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        network(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn rack(name: &str, networks: &[&str]) -> Rack {
        Rack {
            name: name.to_owned(),
            networks: networks.iter().map(|text| net(text)).collect(),
            is_central: false,
        }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_longest_network_decides_in_both_ways_of_writing_an_address() {
        let racks = vec![
            rack("all", &["0.0.0.0/0"]),
            rack("a", &["10.1.0.0/16", "fd00:1::/32"]),
            rack("b", &["10.1.2.0/24", "10.1.3.7"]),
            rack("rest", &["::/0"]),
        ];
        let topology = Topology::new(racks).expect("a topology");
        let name = |text: &str| {
            let id = topology.rack_of(address(text));
            id.and_then(|id| topology.get(id))
                .map(|rack| rack.name.as_str())
        };
        for (text, expected) in [
            ("10.1.9.9", "a"),
            ("10.1.2.9", "b"),
            ("10.1.3.7", "b"),
            ("10.1.3.8", "a"),
            ("192.0.2.1", "all"),
            ("::ffff:10.1.2.9", "b"),
            ("::ffff:192.0.2.1", "all"),
            ("fd00:1:2::3", "a"),
            ("fd00:2::3", "rest"),
        ] {
            assert_eq!(name(text), Some(expected), "{text}");
        }
        let without = Topology::new(vec![rack("a", &["10.1.0.0/16"])]).expect("a topology");
        assert_eq!(without.rack_of(address("10.2.0.1")), None);
        assert_eq!(without.rack_of(address("fd00::1")), None);
        assert_eq!(without.named("a"), without.rack_of(address("10.1.0.1")));
        assert_eq!(without.named("b"), None);
    }

    #[test]
    fn networks_are_shown_as_they_are_read() {
        for text in [
            "10.1.0.0/16",
            "0.0.0.0/0",
            "10.1.3.7/32",
            "fd00:1::/32",
            "::/0",
            "::1/128",
        ] {
            assert_eq!(net(text).to_string(), text);
        }
        assert_eq!(net("::ffff:10.0.0.0/104"), net("10.0.0.0/8"));
        assert_eq!(net("10.1.3.7"), net("10.1.3.7/32"));
    }

    #[test]
    fn what_is_no_network_is_told_in_words() {
        let malformed = [
            "",
            "10.1/16",
            "a/8",
            "10.0.0.0/",
            "10.0.0.0/x",
            "10.0.0.0/33",
            "::/129",
            "[::]/0",
        ];
        for text in malformed {
            let error = network(text).expect_err(text);
            assert!(error.contains("ADDRESS/BITS"), "{text}: {error}");
        }
        let error = network("10.1.2.3/16").expect_err("bits behind the prefix");
        assert_eq!(error, "there are bits behind the prefix: write 10.1.0.0/16");
    }

    #[test]
    fn racks_that_make_no_topology() {
        let same = vec![
            rack("a", &["10.1.0.0/16"]),
            rack("b", &["::ffff:10.1.0.0/112"]),
        ];
        let error = Topology::new(same).expect_err("one network twice");
        assert_eq!(error.rack(), Some("b"));
        assert_eq!(
            error.to_string(),
            "the racks \"a\" and \"b\" both have 10.1.0.0/16"
        );
        let twice = vec![rack("a", &["10.1.0.0/16"]), rack("a", &[])];
        assert_eq!(
            Topology::new(twice),
            Err(TopologyError::SameName("a".into()))
        );
        let long = "a".repeat(NAME_LEN_MAX + 1);
        for name in ["", "a b", "ä", &long] {
            let error = Topology::new(vec![rack(name, &[])]).expect_err("no name");
            assert_eq!(error, TopologyError::Name(name.to_owned()));
        }
        let many = |count: usize| (0..count).map(|n| rack(&format!("r{n}"), &[])).collect();
        assert!(Topology::new(many(RACKS_MAX)).is_ok());
        assert_eq!(
            Topology::new(many(RACKS_MAX + 1)),
            Err(TopologyError::TooMany(RACKS_MAX + 1))
        );
    }

    #[test]
    fn a_rack_is_found_by_what_stands_for_it_in_whatever_order_they_are() {
        let topology = |names: [&str; 2]| {
            let racks = names.map(|name| rack(name, &[])).to_vec();
            Topology::new(racks).expect("a topology")
        };
        let (here, there) = (topology(["a", "b"]), topology(["b", "a"]));
        // Notes outlive versions of the proxy.
        assert_eq!(rack("a", &[]).token(), 0xe6c6_32b6_1e96_4e1f);
        for name in ["a", "b"] {
            let token = rack(name, &[]).token();
            assert_eq!(here.with_token(token), here.named(name));
            assert_eq!(there.with_token(token), there.named(name));
        }
        assert_eq!(here.with_token(7), None);
    }

    #[test]
    fn racks_whose_uniques_would_be_shown_alike_are_refused() {
        let mut by_mask = std::collections::BTreeMap::new();
        let mut names = (0..100_000).map(|number| format!("rack-{number}"));
        let [one, other] = names
            .find_map(|name| {
                let before = by_mask.insert(rack(&name, &[]).unique_mask(), name.clone());
                before.map(|before| [before, name])
            })
            .expect("24 bits are alike in some of this many");
        let racks = [&one, &other].map(|name| rack(name, &[])).to_vec();
        let error = Topology::new(racks).expect_err("they are alike");
        assert_eq!(error.rack(), Some(&*other));
        assert!(error.to_string().contains("call one of them otherwise"));
    }
}
