//! What a request would cost if keys lived elsewhere (Talaga and Chapin, "Exploring non-typical memcache architectures").
//!
//! Five architectures place keys near those who use them or do not. How long a request takes in each of them follows from how many
//! switches it crosses one after the other; how much of its bytes crosses the central switch, and how much memory holds items, follows from
//! what is sent and stored where. The paper prints formulas of traffic, of space and of one command out of twenty; those of the other
//! commands are reconstructed from the steps that its text describes. The tables and golden figures are in `docs/locality.md`.
//!
//! The model knows no load: a switch or server that is nearly full takes as long as an idle one (the paper's section 7.1).

mod distances;
#[cfg(test)]
mod golden;
pub mod held;
pub mod network;
pub mod paper;
pub mod shipped;
pub mod space;
pub mod turn;
mod usage;

pub use distances::{Distances, Network};
pub use usage::Usage;

use core::fmt;
use serde::{Deserialize, Serialize};

/// Where keys live, and who is told (the paper's section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// Standard deployment, central: all servers are on the backbone.
    Sdc,
    /// Standard deployment, spread: the servers are in the racks, and the key alone says in which of them it lives.
    Sds,
    /// Standard deployment, replicated: spread, with copies of each item in several racks; the nearest is read.
    Sdr,
    /// An item lives in the rack that wrote it last, and a note in every other rack says which.
    Snoop,
    /// An item lives in the rack that wrote it last, and a central directory says which.
    Dir,
}

impl Architecture {
    /// All of them, the plainest first.
    pub const ALL: [Architecture; 5] = [
        Architecture::Sdc,
        Architecture::Sds,
        Architecture::Sdr,
        Architecture::Snoop,
        Architecture::Dir,
    ];

    /// What it is called, in lower case.
    pub const fn word(self) -> &'static str {
        match self {
            Architecture::Sdc => "sdc",
            Architecture::Sds => "sds",
            Architecture::Sdr => "sdr",
            Architecture::Snoop => "snoop",
            Architecture::Dir => "dir",
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How many racks there are, and how many of them have an item that is replicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Racks {
    /// r, from 2: a single rack has nothing that is far.
    pub racks: u32,
    /// k, the copies of an item in [`Architecture::Sdr`]: 1 to r.
    pub copies: u32,
}

impl Racks {
    /// The chance that an item is in the own rack if it is in one, whichever: 1/r.
    fn own_share(self) -> f64 {
        1.0 / f64::from(self.racks)
    }

    /// The chance that one of its copies is: k/r.
    fn near_share(self) -> f64 {
        f64::from(self.copies) / f64::from(self.racks)
    }
}
