//! How long an answer takes by how far away it is.

use serde::{Deserialize, Serialize};

/// A network in which time grows with the switches that are crossed (the paper's section 2.2).
///
/// The paper writes `l3 = 3·2·switch + base`, with `switch` one way; its tables come out with round trips, as here.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// What a switch adds to a round trip, in ms.
    pub switch: f64,
    /// What a round trip takes besides, in ms: kernels and servers.
    pub base: f64,
}

impl Network {
    /// l_n: a round trip across this many switches, in ms.
    pub fn across(self, switches: u32) -> f64 {
        f64::from(switches) * self.switch + self.base
    }
}

/// Mean round trips, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distances {
    /// To a server of the own rack: l1.
    pub own: f64,
    /// To a server on the backbone: l2. `None` where nothing is central, as between data centres (the paper's section 7.2).
    pub central: Option<f64>,
    /// To a server of another rack: l3.
    pub other: f64,
}

impl From<Network> for Distances {
    fn from(network: Network) -> Distances {
        Distances {
            own: network.across(1),
            central: Some(network.across(2)),
            other: network.across(3),
        }
    }
}

impl Distances {
    /// What a switch adds: another rack is two switches further than the own one.
    pub fn switch(self) -> f64 {
        (self.other - self.own) / 2.0
    }

    /// The same network with switches that take this long, in ms. Everything else stays as it is.
    #[must_use]
    pub fn with_switch(self, switch: f64) -> Distances {
        let more = switch - self.switch();
        Distances {
            own: self.own + more,
            central: self.central.map(|central| central + 2.0 * more),
            other: self.other + 3.0 * more,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_switches_are_another_network_with_the_same_base() {
        let slow = Distances::from(Network {
            switch: 1.5,
            base: 0.25,
        });
        let fast = Distances::from(Network {
            switch: 0.5,
            base: 0.25,
        });
        assert_eq!(slow.switch(), 1.5);
        assert_eq!(slow.with_switch(0.5), fast);
    }
}
