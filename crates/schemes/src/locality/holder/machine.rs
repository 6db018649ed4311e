//! Either of the two ways, for whoever drives both.

use super::directory::Directory;
use super::snoop::Snoop;
use super::{Heard, Next, Racks, Site, Wish};

/// By which of the two a pool goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`snoop`](super::snoop).
    Snoop,
    /// [`directory`](super::directory).
    Directory,
}

/// A command on its way, by either.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Machine {
    /// By [`snoop`](super::snoop).
    Snoop(Snoop),
    /// By [`directory`](super::directory).
    Directory(Directory),
}

impl Machine {
    /// A read that has found this at its own place, which is no item.
    pub fn of_read(kind: Kind, racks: Racks, found: Heard) -> (Self, Next) {
        match kind {
            Kind::Snoop => {
                let (machine, next) = Snoop::of_read(racks, found);
                (Machine::Snoop(machine), next)
            }
            Kind::Directory => {
                let (machine, next) = Directory::of_read(racks, found);
                (Machine::Directory(machine), next)
            }
        }
    }

    /// A command that may change something.
    pub fn of_write(kind: Kind, wish: Wish, racks: Racks) -> (Self, Next) {
        match kind {
            Kind::Snoop => {
                let (machine, next) = Snoop::of_write(wish, racks);
                (Machine::Snoop(machine), next)
            }
            Kind::Directory => {
                let (machine, next) = Directory::of_write(wish, racks);
                (Machine::Directory(machine), next)
            }
        }
    }

    /// A set in a rack where the item was seen with this unique a while ago.
    pub fn of_set_behind(kind: Kind, racks: Racks, unique: u64) -> (Self, Next) {
        match kind {
            Kind::Snoop => {
                let (machine, next) = Snoop::of_set_behind(racks, unique);
                (Machine::Snoop(machine), next)
            }
            Kind::Directory => {
                let (machine, next) = Directory::of_set_behind(racks, unique);
                (Machine::Directory(machine), next)
            }
        }
    }

    /// What was asked at a site has come to this.
    pub fn hear(&mut self, site: Site, heard: Heard) -> Next {
        match self {
            Machine::Snoop(machine) => machine.hear(site, heard),
            Machine::Directory(machine) => machine.hear(site, heard),
        }
    }

    /// Whether nothing is awaited: all is done.
    pub fn is_over(&self) -> bool {
        match self {
            Machine::Snoop(machine) => machine.is_over(),
            Machine::Directory(machine) => machine.is_over(),
        }
    }
}
