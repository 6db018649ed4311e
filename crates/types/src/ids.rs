//! Identifiers. Each is a newtype, so that a worker can never be mistaken for a server.

use core::fmt;
use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$meta:meta])* $name:ident($inner:ty)) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// A cache server of the cluster. The coordinator hands it out for a server's name and never
    /// gives it to another name.
    ServerId(u16)
}
id! {
    /// A set of virtual nodes that one worker owns: the unit in which load moves (MBal, section 2.2).
    CacheletId(u16)
}
id! {
    /// A piece of the hash space; many make a cachelet.
    VirtualNode(u16)
}
id! {
    /// Version of the cluster map. Only grows. Zero means "no map yet".
    Epoch(u64)
}
id! {
    /// One life of a server process. A server that comes back has another, so that what is known of
    /// its former contents is void.
    BootId(u64)
}
id! {
    /// Version of an item: its CAS unique. Versions of one key only grow while one worker is its home,
    /// also across deletes, so that two copies can be told apart by age. Those of different homes, or
    /// of different lives of one, are told apart by the epoch of the map.
    Version(u64)
}

/// One worker of one server.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct WorkerRef {
    /// The server.
    pub server: ServerId,
    /// Index of the worker inside its server, from 0.
    pub worker: u16,
}

impl fmt::Display for WorkerRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server, self.worker)
    }
}
