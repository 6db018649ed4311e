//! Racks in which a key's item lives where it was written last: what is asked, where, and in which order, for one command (Snoop and Directory of Talaga
//! and Chapin, "Exploring non-typical memcache architectures", section 4, made safe over memcached).
//!
//! A key has a *place* in each rack. At most one of them *holds* its item; elsewhere stand [marks](crate::mark) or nothing. In [`snoop`] a note at each other
//! place names the rack that holds; in [`directory`] a note in the directory does. A rack that does not hold takes the key before it stores: it locks
//! its own place, tells the others, and stores in place of that lock, by its CAS unique. Whoever takes the key from it meanwhile changes that unique.
//!
//! What is promised is a register that may lose its value: a miss is always possible, and nothing is read that an acknowledged write has replaced. All that
//! counts on a unique goes over the connection on which it was learnt; if that is another one by now, the condition counts as not fulfilled.
//!
//! The search in `tests/racks/` goes through all interleavings of a few commands and finds what goes wrong without each of the rules.

pub mod directory;
mod sites;
pub mod snoop;

pub use sites::{Site, Sites};

use super::topology::RackId;
use directory::Directory;
use snoop::Snoop;

/// Times that a command is begun before it is given up as busy: others take the key all the time.
pub const TRIES_MAX: u8 = 5;

/// What an application wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wish {
    /// The item.
    Read,
    /// To store whatever is there.
    Set,
    /// To store only where nothing is.
    Add,
    /// To change what is there, which can be bound to its unique.
    Change,
    /// To change what is there, which cannot be bound.
    Touch,
    /// To have nothing there.
    Delete,
}

/// A command to a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Which item or mark is there. Tells its unique.
    Look,
    /// A lock, if nothing is there. Tells its unique.
    Lock,
    /// A note that names a rack.
    Note(RackId, Over),
    /// Delete, on condition that what is there has this unique where one is given.
    Delete(Option<u64>),
    /// The application's own command, on the same condition. One that stores only where nothing is stores in place of what has the unique.
    Own(Option<u64>),
}

/// What a note is put over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Over {
    /// Whatever is there.
    Anything,
    /// Nothing: else it is refused.
    Nothing,
    /// What has this unique: else it is refused.
    Unique(u64),
}

/// What came of a command at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heard {
    /// An item of the application's is there, with this unique.
    Item(u64),
    /// A lock, or a mark that is no note to another rack that is known.
    Lock(u64),
    /// A note to another rack.
    Note(u64, RackId),
    /// Nothing is there.
    Nothing,
    /// Carried out; with the unique of what is there now where the command tells it.
    Done(u64),
    /// Not carried out: the condition is not fulfilled.
    Refused,
    /// An error, or it could not be asked, or nobody knows what came of it.
    Failed,
}

/// What the application is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shown {
    /// What its own command was answered.
    Own,
    /// That nothing is there.
    Miss,
    /// That something is there, so that nothing was stored.
    NotStored,
    /// That others take the key all the time.
    Busy,
    /// That a site could not be asked, or that nobody knows what came of it.
    Failed(Site),
}

/// What is to be done next. With neither nothing is: the rest of what was asked is awaited, or the command is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// The application is told so, first.
    pub show: Option<Shown>,
    /// This is asked, at all of these sites side by side.
    pub ask: Option<(Command, Sites)>,
    /// It is asked after a short time by chance: the command begins anew, and so do others that are in its way.
    pub pauses: bool,
}

impl Command {
    /// Whether it counts on the unique of what is there.
    pub fn is_bound(self) -> bool {
        matches!(
            self,
            Command::Note(_, Over::Unique(_)) | Command::Delete(Some(_)) | Command::Own(Some(_))
        )
    }
}

impl Next {
    fn show(shown: Shown) -> Next {
        Next {
            show: Some(shown),
            ..Next::default()
        }
    }

    fn ask(command: Command, sites: impl Into<Sites>) -> Next {
        Next {
            ask: Some((command, sites.into())),
            ..Next::default()
        }
    }
}

/// The racks of a pool, as a command of one of them sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Racks {
    own: RackId,
    others: Sites,
}

impl Racks {
    /// A command that is given in `own`, in a pool that has servers in these racks.
    pub fn new(own: RackId, all: impl IntoIterator<Item = RackId>) -> Self {
        let mut others: Sites = all.into_iter().map(Site::Rack).collect();
        others.remove(Site::Rack(own));
        Racks { own, others }
    }

    /// The places in other racks.
    pub fn others(&self) -> Sites {
        self.others
    }

    fn own(&self) -> Site {
        Site::Rack(self.own)
    }

    fn all(&self) -> Sites {
        let mut all = self.others;
        all.insert(self.own());
        all
    }
}

/// By which of the two a pool goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`snoop`].
    Snoop,
    /// [`directory`].
    Directory,
}

/// A command on its way, by either.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Machine {
    /// By [`snoop`].
    Snoop(Snoop),
    /// By [`directory`].
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
