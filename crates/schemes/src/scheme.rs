//! The four axes, and which choices go together.

use core::fmt;

/// Where a key lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the cachelet that the map of a cluster says.
    Map,
    /// At the server of a list that a distribution says.
    List,
    /// At the owner of a slice of a ring that follows the load.
    Ring,
}

/// Whether a key has copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// It has none.
    None,
    /// While it is hot.
    HotKeys,
    /// A fixed number of them.
    Fixed,
    /// In each rack that uses it.
    PerRack,
}

/// Which copy a read goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// To the key's home.
    Home,
    /// To any that a lease allows.
    LeasedCopy,
    /// To those that few servers have together.
    Cover,
    /// To the nearest.
    Nearest,
}

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// It goes to the home alone.
    Home,
    /// The home executes it and sends it to the copies.
    HomeAndPropagate,
    /// It goes to the home, and then the copies are deleted.
    HomeThenDelete,
    /// Notes at the other racks lead to the one that has the item.
    Notes,
    /// A note in a directory does.
    Directory,
}

/// What a pool does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// Where it lives.
    pub placement: Placement,
    /// Whether it has copies.
    pub replication: Replication,
    /// Which one a read goes to.
    pub read: Read,
    /// What a write does.
    pub write: Write,
}

/// Whether a scheme can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It can; and what it promises.
    Works(&'static str),
    /// It makes sense, and nothing implements it yet.
    NotBuilt,
    /// It makes no sense, and why.
    Refused(&'static str),
}

impl Placement {
    /// All of them.
    pub const ALL: [Placement; 3] = [Placement::Map, Placement::List, Placement::Ring];
}

impl Replication {
    /// All of them.
    pub const ALL: [Replication; 4] = [
        Replication::None,
        Replication::HotKeys,
        Replication::Fixed,
        Replication::PerRack,
    ];
}

impl Read {
    /// All of them.
    pub const ALL: [Read; 4] = [Read::Home, Read::LeasedCopy, Read::Cover, Read::Nearest];
}

impl Write {
    /// All of them.
    pub const ALL: [Write; 5] = [
        Write::Home,
        Write::HomeAndPropagate,
        Write::HomeThenDelete,
        Write::Notes,
        Write::Directory,
    ];
}

impl Scheme {
    /// A pool of a cluster: its servers replicate hot keys, and send writes on to the replicas.
    pub const CLUSTER: Scheme = Scheme {
        placement: Placement::Map,
        replication: Replication::HotKeys,
        read: Read::LeasedCopy,
        write: Write::HomeAndPropagate,
    };

    /// A pool of any memcached servers.
    pub const LIST: Scheme = Scheme {
        placement: Placement::List,
        replication: Replication::None,
        read: Read::Home,
        write: Write::Home,
    };

    /// Such a pool whose hot keys the proxies replicate. Replicas are named after what they hold, so that a write need not reach them.
    pub const LIST_WITH_HOT_KEYS: Scheme = Scheme {
        placement: Placement::List,
        replication: Replication::HotKeys,
        read: Read::LeasedCopy,
        write: Write::Home,
    };

    /// Such a pool whose items have copies, so that wide multi-gets ask few servers. Writes delete them before they are answered.
    pub const LIST_WITH_COPIES: Scheme = Scheme {
        placement: Placement::List,
        replication: Replication::Fixed,
        read: Read::Cover,
        write: Write::HomeThenDelete,
    };

    /// Such a pool whose items have copies in some racks: SDR.
    pub const LIST_IN_RACKS: Scheme = Scheme {
        placement: Placement::List,
        replication: Replication::PerRack,
        read: Read::Nearest,
        write: Write::HomeThenDelete,
    };

    /// Such a pool in each rack of several: notes in the others lead to the one that holds an item. Snoop.
    pub const LIST_WITH_NOTES: Scheme = Scheme {
        write: Write::Notes,
        ..Scheme::LIST_IN_RACKS
    };

    /// The same, where notes in a directory do. Dir.
    pub const LIST_WITH_DIRECTORY: Scheme = Scheme {
        write: Write::Directory,
        ..Scheme::LIST_IN_RACKS
    };

    /// A pool of any memcached servers whose hash space follows the load: slices of its ring change hands under generations.
    pub const RING: Scheme = Scheme {
        placement: Placement::Ring,
        replication: Replication::None,
        read: Read::Home,
        write: Write::Home,
    };

    /// Whether it can be had: the first reason why not, in the order of the axes.
    pub fn support(&self) -> Support {
        use Support::{NotBuilt, Refused, Works};
        let Scheme {
            placement,
            replication,
            read,
            write,
        } = *self;
        match (replication, read, write) {
            (Replication::None, Read::Home, Write::Home) => match placement {
                Placement::List => Works("what the key's server does"),
                Placement::Map => Refused(
                    "the servers of a cluster replicate what is hot; hot_keys=off is a setting of theirs",
                ),
                Placement::Ring => Works("what the server does that has the key's slice"),
            },
            (Replication::None, Read::Home, _) => {
                Refused("there are no copies that a write would have to reach")
            }
            (Replication::None, ..) => Refused("there are no copies to read"),

            (Replication::HotKeys, Read::LeasedCopy, Write::Home) => match placement {
                Placement::List => {
                    Works("a read returns what the home held at most a lease before it was sent")
                }
                Placement::Map => Refused(
                    "replicas of a cluster have the key's own name: writes have to reach them",
                ),
                Placement::Ring => NotBuilt,
            },
            (Replication::HotKeys, Read::LeasedCopy, Write::HomeAndPropagate) => match placement {
                Placement::Map => Works(
                    "a read is at most a lease behind an acknowledged write, and never older than what its connection saw",
                ),
                Placement::List | Placement::Ring => Refused("a memcached sends no write on"),
            },
            (Replication::HotKeys, Read::LeasedCopy, _) => Refused(
                "leases bound how old a hot key's copies are: nothing has to be deleted or noted",
            ),
            (Replication::HotKeys, ..) => Refused("copies of hot keys are read under leases"),

            (Replication::Fixed, Read::Cover, Write::HomeThenDelete) => match placement {
                Placement::List => Works(
                    "a read that begins after a write was acknowledged never shows an older value",
                ),
                Placement::Map | Placement::Ring => NotBuilt,
            },
            (Replication::Fixed, Read::Cover, _) => {
                Refused("a fixed copy would stay old: a write has to delete it")
            }
            (Replication::Fixed, ..) => {
                Refused("a fixed number of copies is there to bundle reads: they are covered")
            }

            (Replication::PerRack, Read::Nearest, _) if placement != Placement::List => {
                Refused("racks are lists of servers")
            }
            (Replication::PerRack, Read::Nearest, Write::HomeThenDelete) => Works(
                "a read that begins after a write was acknowledged never shows an older value",
            ),
            (Replication::PerRack, Read::Nearest, Write::Notes | Write::Directory) => Works(
                "a register that may lose its value: nothing is read that an acknowledged write has replaced",
            ),
            (Replication::PerRack, Read::Nearest, _) => {
                Refused("a copy in another rack would stay old")
            }
            (Replication::PerRack, ..) => Refused("copies by rack are there to be read from near"),
        }
    }

    /// Whether items of ours stand beside the application's, under [names](crate::name) of ours.
    pub fn uses_names(&self) -> bool {
        let names_copies =
            self.placement == Placement::List && self.replication != Replication::None;
        names_copies || self.placement == Placement::Ring
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Placement::Map => "map",
            Placement::List => "list",
            Placement::Ring => "ring",
        })
    }
}

impl fmt::Display for Replication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Replication::None => "no copies",
            Replication::HotKeys => "copies of hot keys",
            Replication::Fixed => "k copies",
            Replication::PerRack => "copies by rack",
        })
    }
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Read::Home => "home",
            Read::LeasedCopy => "leased copy",
            Read::Cover => "cover",
            Read::Nearest => "nearest",
        })
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Write::Home => "home",
            Write::HomeAndPropagate => "home and propagate",
            Write::HomeThenDelete => "home, then delete copies",
            Write::Notes => "notes",
            Write::Directory => "directory",
        })
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {}; read {}; write {}",
            self.placement, self.replication, self.read, self.write
        )
    }
}
