//! What goes to each rack: `stats locality`, and the same in `/metrics`.

use crate::racks::{NO_RACK, Racks};
use crate::stats::line::{shown, stat};
use crate::stats::process::BackendStats;
use evenkeel_control::exposition::{Labels, Text, seconds};
use evenkeel_control::families;
use evenkeel_types::counters;
use std::collections::{BTreeMap, BTreeSet};

/// What the names of metrics begin with.
pub(crate) const OF_RACK: &str = "evenkeel_proxy_rack_";

counters! {
    /// What a proxy has sent to the servers of a rack, and received from them.
    pub struct RackCounters {
        /// What stands in `stats locality`.
        LOCALITY {
            servers => gauge, "Servers that stand there.";
            requests => counter, "Requests put into their queues.";
            sends => counter, "Writes to their sockets.";
            sent_bytes => counter, "Bytes sent to them.";
            received_bytes => counter, "Bytes received from them.";
        }
    }
}

/// A rack as a proxy sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RackSeen {
    /// The proxy's own rack.
    own: String,
    name: String,
    is_central: bool,
    counters: RackCounters,
    /// Of its nearest server.
    distance_us: Option<u64>,
}

impl RackSeen {
    fn labels(&self) -> Labels<'_> {
        vec![("own", &self.own), ("rack", &self.name)]
    }
}

families! {
    pub(crate) RACKS of Vec<RackSeen> {
        distance_seconds[own, rack] => gauge, "The shortest time that a server there took to answer in the last minute.",
            |racks, to| for it in racks {
                if let Some(us) = it.distance_us {
                    to.of(&[&it.own, &it.name], seconds(us));
                }
            };
    }
}

/// The racks of the topology in its order, and behind them, as [`NO_RACK`], those servers that stand in none. Empty without a topology.
fn seen(racks: &Racks, backends: &[BackendStats]) -> Vec<RackSeen> {
    let topology = racks.topology();
    if topology.is_empty() {
        return Vec::new();
    }
    let mut servers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for backend in backends {
        servers
            .entry(&backend.rack)
            .or_default()
            .insert(&backend.name);
    }
    let named = topology
        .racks()
        .iter()
        .map(|rack| (rack.name.as_str(), rack.is_central));
    let nameless = servers.contains_key(NO_RACK).then_some((NO_RACK, false));
    let all = named.chain(nameless);
    let all = all.map(|(name, is_central)| {
        let there = || backends.iter().filter(|backend| backend.rack == name);
        let sum = |of: fn(&BackendStats) -> u64| there().map(of).sum();
        RackSeen {
            own: racks.name(racks.own()).to_owned(),
            name: name.to_owned(),
            is_central,
            counters: RackCounters {
                servers: servers.get(name).map_or(0, |names| names.len() as u64),
                requests: sum(|it| it.counters.requests),
                sends: sum(|it| it.counters.sends),
                sent_bytes: sum(|it| it.counters.sent_bytes),
                received_bytes: sum(|it| it.counters.received_bytes),
            },
            distance_us: there().filter_map(|it| it.distance_us).min(),
        }
    });
    all.collect()
}

/// Writes what `stats locality` shows.
pub(crate) fn compose(out: &mut Vec<u8>, racks: &Racks, backends: &[BackendStats]) {
    let all = seen(racks, backends);
    if let Some(first) = all.first() {
        stat(out, "own_rack", &first.own);
    }
    for rack in &all {
        let name = &rack.name;
        stat(
            out,
            format_args!("{name}:central"),
            u8::from(rack.is_central),
        );
        shown(
            out,
            &format!("{name}:"),
            RackCounters::LOCALITY,
            &rack.counters,
        );
        if let Some(us) = rack.distance_us {
            stat(out, format_args!("{name}:distance_us"), us);
        }
    }
}

/// Writes the same as metrics.
pub(crate) fn render(text: &mut Text, racks: &Racks, backends: &[BackendStats]) {
    let all = seen(racks, backends);
    let counters = all.iter().map(|rack| (rack.labels(), &rack.counters));
    text.shown(OF_RACK, RackCounters::LOCALITY, counters);
    text.families(OF_RACK, RACKS, &all);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::counters::BackendCounters;
    use crate::stats::latency::Latency;
    use evenkeel_schemes::locality::topology::{Rack, Topology};

    fn backend(name: &str, rack: &str, requests: u64, distance_us: Option<u64>) -> BackendStats {
        BackendStats {
            name: name.into(),
            pool: "main".into(),
            host: "h".into(),
            port: 1,
            state: "up",
            cause: None,
            counters: BackendCounters {
                requests,
                sends: requests / 2,
                sent_bytes: requests * 10,
                received_bytes: requests * 100,
                ..BackendCounters::default()
            },
            latency: Latency::default(),
            round_trip_us: None,
            rack: rack.into(),
            distance_us,
        }
    }

    #[test]
    fn what_goes_to_each_rack_is_the_sum_of_its_servers_of_all_workers() {
        let rack = |name: &str, is_central| Rack {
            name: name.to_owned(),
            networks: Vec::new(),
            is_central,
        };
        let topology = Topology::new(vec![rack("a", false), rack("core", true)]).unwrap();
        let own = topology.named("a");
        let racks = Racks::new(topology, own, BTreeMap::new());
        // Two workers, each with a connection to two servers.
        let backends = [
            backend("s1", "a", 10, Some(120)),
            backend("s1", "a", 20, Some(110)),
            backend("s2", "core", 4, None),
            backend("s2", NO_RACK, 2, None),
        ];
        let mut out = Vec::new();
        compose(&mut out, &racks, &backends);
        let text = String::from_utf8(out).unwrap().replace("STAT ", "");
        let expected = [
            "own_rack a",
            "a:central 0",
            "a:servers 1",
            "a:requests 30",
            "a:sends 15",
            "a:sent_bytes 300",
            "a:received_bytes 3000",
            "a:distance_us 110",
            "core:central 1",
            "core:servers 1",
            "core:requests 4",
            "core:sends 2",
            "core:sent_bytes 40",
            "core:received_bytes 400",
            "?:central 0",
            "?:servers 1",
            "?:requests 2",
            "?:sends 1",
            "?:sent_bytes 20",
            "?:received_bytes 200",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        let mut metrics = Text::default();
        render(&mut metrics, &racks, &backends);
        let sample = "evenkeel_proxy_rack_received_bytes_total{own=\"a\",rack=\"core\"} 400\n";
        assert!(metrics.0.contains(sample), "{}", metrics.0);
        let mut none = Vec::new();
        compose(&mut none, &Racks::default(), &backends);
        assert!(none.is_empty(), "there are no racks");
    }
}
