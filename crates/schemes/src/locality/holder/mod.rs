//! Racks in which a key's item lives where it was written last: what is asked, where, and in which order, for one command (Snoop and Directory of Talaga
//! and Chapin, "Exploring non-typical memcache architectures", section 4, made safe over memcached).
//!
//! A key has a *place* in each rack. At most one of them *holds* its item; elsewhere stand [marks](crate::mark) or nothing. In [`snoop`] a note at each other
//! place names the rack that holds; in [`directory`] a note in the directory does. A rack that does not hold takes the key before it stores: it locks
//! its own place, tells the others, and stores in place of that lock, by its CAS unique. Anyone who takes the key from it meanwhile changes that unique.
//!
//! What is promised is a register that may lose its value: a miss is always possible, and nothing is read that an acknowledged write has replaced. All that
//! counts on a unique goes over the connection on which it was learnt; if that is another one by now, the condition counts as not fulfilled.
//!
//! The search in `tests/racks/` goes through all interleavings of a few commands and finds what goes wrong without each of the rules.

mod copying;
pub mod directory;
mod machine;
mod sites;
pub mod snoop;

pub use machine::Machine;
pub use sites::{Site, Sites};

use super::topology::RackId;

/// Times that a command is begun before it is given up as busy: others take the key all the time.
pub const TRIES_MAX: u8 = 5;

/// By which of the two a pool goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`snoop`].
    Snoop,
    /// [`directory`].
    Directory,
}

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
    /// To bring what the former pool has, where nothing is.
    Fill,
}

impl Wish {
    /// Whether it stores only where no item is.
    fn keeps_items(self) -> bool {
        matches!(self, Wish::Add | Wish::Fill)
    }
}

/// A command to a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Which item or mark is there. Tells its unique.
    Look,
    /// A lock, if nothing is there. Tells its unique.
    Lock,
    /// A note that names a rack; with the item behind it where [a copy is kept](Machine::of_copy).
    Note(RackId, Over),
    /// Delete, on condition that what is there has this unique where one is given.
    Delete(Option<u64>),
    /// The item with its value, and how long it has to live: at the former pool.
    Fetch,
    /// The application's own command, on the same condition. One that stores only where nothing is stores in place of what has the unique. Of a fill
    /// it is what was fetched that is stored.
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
    /// Executed; with the unique of what is there now where the command tells it.
    Done(u64),
    /// Not executed: the condition is not fulfilled.
    Refused,
    /// An error, or it could not be asked, or nobody knows what came of it.
    Failed,
}

/// How a command starts.
#[derive(Clone, Copy, Debug)]
enum Start {
    Anew,
    /// A fill behind a read that has found nothing.
    Nowhere,
    /// A read has found this at its own place, which is no item.
    Found(Heard),
    /// A set in a rack where the item was seen with this unique a while ago.
    Behind(u64),
}

/// What the application is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shown {
    /// What its own command was answered.
    Own,
    /// What was fetched and stored, with this unique.
    Stored(u64),
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
