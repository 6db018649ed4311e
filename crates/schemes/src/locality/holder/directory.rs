//! A directory: a note there names the rack that holds the item.
//!
//! | | |
//! |---|---|
//! | read | the own place; what is not there is where the directory's note leads, or nowhere |
//! | set | the own place: an item is replaced by its unique. Else a mark's unique is kept, or a lock put where nothing is. The directory's note is looked at, or a lock put there where nothing is; the place that the note names is cleared, or, without a note, all others; a note to us takes the place of what was in the directory, by its unique; then the value takes the place of the mark or lock |
//! | add | an item that is found is kept. Else as a set, but what is cleared is looked at first, and an item is kept |
//! | fill | as an add; but the former pool is looked at first, and with nothing there that is all; and before the value is stored it is fetched there |
//! | change | found as by a read, and bound to its unique |
//! | delete | found as by a read, and bound to its unique. What is not where the note leads is deleted there; without a note, everywhere |
//!
//! Between two notes in the directory one rack is named, and no other may hold the item or store it. Anyone who puts a note has cleared the place that was named before, so
//! that a store of the one before fails; of two that saw the same note one fails to replace it. After a note that was lost nobody is known, so all are cleared.

use super::{Command, Heard, Next, Over, Racks, Shown, Site, Sites, Start, TRIES_MAX, Wish};
use crate::locality::topology::RackId;

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Looking at the own place.
    FindingHere,
    /// A fill looks whether there is something to bring; with the unique of the mark at the own place, if there is one.
    Peeking(Option<u64>),
    /// Asking the directory for it, with the unique of the mark at the own place, if there is one.
    Asking(Option<u64>),
    /// Looking where the directory's note leads.
    FindingThere(Option<u64>),
    Locking,
    /// The rest has the unique of the mark at the own place. Looking who is named.
    Naming(u64),
    /// A lock is put into the directory.
    Stubbing(u64),
    /// Others are cleared, while the directory has what has the second unique.
    Clearing(u64, u64),
    /// A note to us is put.
    Claiming(u64),
    /// A fill fetches the value that is to be stored in place of this unique.
    Fetching(u64),
    /// The own command at the own place.
    Storing,
    /// The own command where the item was found.
    Changing,
    /// Deleting what nobody has seen.
    Deleting,
    /// What is still under way changes nothing of what was shown.
    Shown,
}

/// A command on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Directory {
    wish: Wish,
    racks: Racks,
    at: At,
    /// What has been asked and is not answered.
    awaited: Sites,
    /// Times that it has begun.
    tries: u8,
}

impl Directory {
    /// A command that has not started.
    pub(super) fn new(wish: Wish, racks: Racks) -> Self {
        Directory {
            wish,
            racks,
            at: At::FindingHere,
            awaited: Sites::default(),
            tries: 0,
        }
    }

    /// It starts.
    pub(super) fn start(&mut self, start: Start) -> Next {
        match start {
            Start::Anew => self.begin(),
            Start::Nowhere => self.peek(None),
            Start::Found(found) => {
                self.awaited = self.racks.own().into();
                self.handle(self.racks.own(), found)
            }
            Start::Behind(unique) => {
                let replace = Command::Own(Some(unique));
                self.ask(At::Storing, replace, self.racks.own())
            }
        }
    }

    /// Whether nothing is awaited: all is done.
    pub(super) fn is_over(&self) -> bool {
        self.awaited.is_empty()
    }

    /// What was asked at a site has come to this: all transitions.
    pub(super) fn handle(&mut self, site: Site, heard: Heard) -> Next {
        use Heard::{Done, Failed, Item, Lock, Note, Nothing, Refused};
        if !self.awaited.remove(site) {
            return Next::default();
        }
        match (self.at, heard) {
            (At::Shown, _) => Next::default(),
            (_, Failed) => self.end(Shown::Failed(site)),

            (At::FindingHere | At::FindingThere(_), Item(unique)) => self.found(site, unique),
            (At::FindingHere, Lock(unique) | Note(unique, _)) => self.not_here(Some(unique)),
            (At::FindingHere, _) => self.not_here(None),
            (At::Asking(own), Note(_, rack)) => self.named(own, rack),
            (At::Asking(own), _) => self.named_nowhere(own),
            (At::FindingThere(own), _) => self.not_there(own, site),

            (At::Peeking(own), Item(_)) => self.take(own),
            (At::Peeking(_), _) => self.end(Shown::Miss),
            (At::Locking, Done(unique)) => self.name(unique),
            (At::Locking, _) => self.begin(),
            (At::Naming(own), Note(note, rack)) if rack == self.racks.own => self.claim(own, note),
            (At::Naming(own), Note(note, rack)) => self.clear(own, note, Site::Rack(rack)),
            (At::Naming(own), Lock(note) | Item(note)) => self.clear(own, note, self.racks.others),
            (At::Naming(own), _) => self.ask(At::Stubbing(own), Command::Lock, Site::Directory),
            (At::Stubbing(own), Done(note)) => self.clear(own, note, self.racks.others),
            (At::Stubbing(_), _) => self.begin(),

            // What is to keep items looks at what it clears.
            (At::Clearing(..), Item(_)) => self.end(Shown::NotStored),
            (At::Clearing(..), Lock(unique) | Note(unique, _)) => {
                self.ask_one(Command::Delete(Some(unique)), site)
            }
            (At::Clearing(..), Refused) => self.look_again(site),
            (At::Clearing(..), _) if !self.awaited.is_empty() => Next::default(),
            (At::Clearing(own, note), _) => self.claim(own, note),
            (At::Claiming(own), Done(_)) if self.wish == Wish::Fill => {
                self.ask(At::Fetching(own), Command::Fetch, Site::Former)
            }
            (At::Claiming(own), Done(_)) | (At::Fetching(own), Item(_)) => {
                self.ask(At::Storing, Command::Own(Some(own)), self.racks.own())
            }
            (At::Claiming(_), _) => self.begin(),
            (At::Fetching(own), _) => Next {
                show: Some(Shown::Miss),
                ..self.ask(At::Shown, Command::Delete(Some(own)), self.racks.own())
            },

            (At::Storing, Refused | Nothing) => self.begin(),
            (At::Storing, Done(unique)) if self.wish == Wish::Fill => {
                self.end(Shown::Stored(unique))
            }
            (At::Changing, Refused) => self.begin(),
            // The time that was set is the mark's.
            (At::Changing, Lock(unique) | Note(unique, _)) if self.wish == Wish::Touch => Next {
                show: Some(Shown::Miss),
                ..self.ask(At::Shown, Command::Delete(Some(unique)), site)
            },
            (At::Storing | At::Changing, _) => self.end(Shown::Own),
            (At::Deleting, _) if !self.awaited.is_empty() => Next::default(),
            (At::Deleting, _) => self.end(Shown::Miss),
        }
    }

    /// Begins, or begins anew.
    fn begin(&mut self) -> Next {
        if self.tries == TRIES_MAX {
            return self.end(Shown::Busy);
        }
        self.tries += 1;
        Next {
            pauses: self.tries > 1,
            ..self.ask(At::FindingHere, self.looking(), self.racks.own())
        }
    }

    /// How the item is looked for: a read asks for what it wants.
    fn looking(&self) -> Command {
        match self.wish {
            Wish::Read => Command::Own(None),
            _ => Command::Look,
        }
    }

    /// The item is at a site.
    fn found(&mut self, site: Site, unique: u64) -> Next {
        match self.wish {
            Wish::Read => self.end(Shown::Own),
            Wish::Add | Wish::Fill => self.end(Shown::NotStored),
            Wish::Set => self.ask(At::Storing, Command::Own(Some(unique)), site),
            Wish::Change | Wish::Delete => self.ask(At::Changing, Command::Own(Some(unique)), site),
            Wish::Touch => self.ask(At::Changing, Command::Own(None), site),
        }
    }

    /// It is not at the own place; `own` is the unique of the mark there, if there is one.
    fn not_here(&mut self, own: Option<u64>) -> Next {
        match self.wish {
            Wish::Set => self.take(own),
            _ => self.ask(At::Asking(own), Command::Look, Site::Directory),
        }
    }

    /// The directory's note names a rack.
    fn named(&mut self, own: Option<u64>, rack: RackId) -> Next {
        let site = Site::Rack(rack);
        if rack == self.racks.own {
            return self.not_there(own, site);
        }
        self.ask(At::FindingThere(own), self.looking(), site)
    }

    /// The item is not where the directory's note leads.
    fn not_there(&mut self, own: Option<u64>, site: Site) -> Next {
        match self.wish {
            Wish::Delete => self.ask(At::Deleting, Command::Delete(None), site),
            Wish::Set | Wish::Add => self.take(own),
            Wish::Fill => self.peek(own),
            Wish::Read | Wish::Change | Wish::Touch => self.end(Shown::Miss),
        }
    }

    /// The directory has no note.
    fn named_nowhere(&mut self, own: Option<u64>) -> Next {
        match self.wish {
            Wish::Delete => self.ask(At::Deleting, Command::Delete(None), self.racks.all()),
            Wish::Set | Wish::Add => self.take(own),
            Wish::Fill => self.peek(own),
            Wish::Read | Wish::Change | Wish::Touch => self.end(Shown::Miss),
        }
    }

    /// Is there anything to bring?
    fn peek(&mut self, own: Option<u64>) -> Next {
        self.ask(At::Peeking(own), Command::Look, Site::Former)
    }

    /// We are to hold the item.
    fn take(&mut self, own: Option<u64>) -> Next {
        match own {
            Some(unique) => self.name(unique),
            None => self.ask(At::Locking, Command::Lock, self.racks.own()),
        }
    }

    fn name(&mut self, own: u64) -> Next {
        self.ask(At::Naming(own), Command::Look, Site::Directory)
    }

    fn clear(&mut self, own: u64, note: u64, sites: impl Into<Sites>) -> Next {
        let command = match self.wish.keeps_items() {
            true => Command::Look,
            false => Command::Delete(None),
        };
        self.ask(At::Clearing(own, note), command, sites)
    }

    fn claim(&mut self, own: u64, note: u64) -> Next {
        let command = Command::Note(self.racks.own, Over::Unique(note));
        self.ask(At::Claiming(own), command, Site::Directory)
    }

    /// What was seen in a place is another by now.
    fn look_again(&mut self, site: Site) -> Next {
        if self.tries == TRIES_MAX {
            return self.end(Shown::Busy);
        }
        self.tries += 1;
        self.ask_one(Command::Look, site)
    }

    fn ask(&mut self, at: At, command: Command, sites: impl Into<Sites>) -> Next {
        self.at = at;
        self.awaited = sites.into();
        Next::ask(command, self.awaited)
    }

    /// Asks one site more, beside what is awaited.
    fn ask_one(&mut self, command: Command, site: Site) -> Next {
        self.awaited.insert(site);
        Next::ask(command, site)
    }

    fn end(&mut self, shown: Shown) -> Next {
        self.at = At::Shown;
        self.awaited = Sites::default();
        Next::show(shown)
    }
}
