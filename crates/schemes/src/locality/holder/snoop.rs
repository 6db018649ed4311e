//! Snooping: a note at each other place names the rack that holds the item.
//!
//! | | |
//! |---|---|
//! | read | the own place; a note leads to its rack, and one there, which is newer, once more. A lock, or nothing, is a miss |
//! | set | the own place: an item is replaced by its unique. Else a mark's unique is kept, or a lock put where nothing is; notes to all other places, whatever is there; when all are answered the value in place of that mark or lock |
//! | add | an item that is found is kept. Else as a set, but notes never cover an item: one that is met is kept, and the own lock becomes a note to it |
//! | change | found as by a read, and bound to its unique |
//! | fill | as an add; but the former pool is looked at first, and with nothing there that is all; and before the value is stored it is fetched there |
//! | delete | found as by a read, and bound to its unique; what is not found, or is another by then, is deleted at all places |
//!
//! There are never two holders. Who stores has seen its own place before its notes left, and they were all there before its value. Of two that both stored, each one's
//! note came to the other's place either before that had looked, and then the other's own notes, which came later, are over its own; or behind, over its value.

use super::{Command, Heard, Next, Over, Racks, Shown, Site, Sites, Start, TRIES_MAX, Wish};
use crate::locality::topology::RackId;

/// How many notes are followed: the first, and one that is newer where it leads.
const HOPS_MAX: u8 = 2;

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Looking in a rack, behind this many notes; with the unique of the mark that is at the own place, if that was looked at.
    Finding {
        hops: u8,
        own: Option<u64>,
    },
    Locking,
    /// Notes are put, before the value is stored in place of this unique.
    Noting(u64),
    /// A fill looks whether there is something to bring; with the unique of the mark that is at the own place, if there is one.
    Peeking(Option<u64>),
    /// A fill fetches the value that is to be stored in place of this unique.
    Fetching(u64),
    /// The own command at the own place, in place of what has been seen there.
    Storing,
    /// The own command where the item was found.
    Asking,
    /// Deleting everywhere.
    Clearing,
    /// What is still under way changes nothing of what was shown.
    Shown,
}

/// A command on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Snoop {
    wish: Wish,
    racks: Racks,
    at: At,
    /// What has been asked and is not answered.
    awaited: Sites,
    /// Times that it has begun.
    tries: u8,
}

impl Snoop {
    /// A command that has not started.
    pub(super) fn new(wish: Wish, racks: Racks) -> Self {
        Snoop {
            wish,
            racks,
            at: At::Finding { hops: 0, own: None },
            awaited: Sites::default(),
            tries: 0,
        }
    }

    /// It starts.
    pub(super) fn start(&mut self, start: Start) -> Next {
        match start {
            Start::Anew => self.begin(),
            Start::Nowhere => self.found_nothing(None),
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
        let is_own = site == self.racks.own();
        match (self.at, heard) {
            (At::Shown, _) => Next::default(),
            (_, Failed) => self.end(Shown::Failed(site)),

            (At::Finding { .. }, Item(unique)) => self.found(site, unique),
            (At::Finding { own, .. }, Lock(unique) | Note(unique, _)) if self.wish == Wish::Set => {
                debug_assert!(is_own && own.is_none());
                self.note(unique)
            }
            (At::Finding { hops, own }, Note(unique, rack)) if hops < HOPS_MAX => {
                let own = own.or(is_own.then_some(unique));
                let at = At::Finding {
                    hops: hops + 1,
                    own,
                };
                self.ask(at, self.looking(), Site::Rack(rack))
            }
            (At::Finding { own, .. }, Lock(unique) | Note(unique, _)) => {
                self.found_nothing(own.or(is_own.then_some(unique)))
            }
            (At::Finding { own, .. }, _) => self.found_nothing(own),

            (At::Peeking(own), Item(_)) => self.take(own),
            (At::Peeking(_), _) => self.end(Shown::Miss),
            (At::Locking, Done(unique)) => self.note(unique),
            (At::Locking, _) => self.begin(),

            // It covers no item.
            (At::Noting(_), Refused) if self.wish.keeps_items() => self.look_again(site),
            (At::Noting(_), Refused) => self.end(Shown::Failed(site)),
            (At::Noting(own), Item(_)) => self.keep(own, site),
            (At::Noting(_), Lock(unique) | Note(unique, _)) => {
                self.ask_one(Command::Note(self.racks.own, Over::Unique(unique)), site)
            }
            (At::Noting(_), Nothing) => {
                self.ask_one(Command::Note(self.racks.own, Over::Nothing), site)
            }
            (At::Noting(_), _) if !self.awaited.is_empty() => Next::default(),
            (At::Noting(own), _) if self.wish == Wish::Fill => {
                self.ask(At::Fetching(own), Command::Fetch, Site::Former)
            }
            (At::Noting(own), _) | (At::Fetching(own), Item(_)) => {
                self.ask(At::Storing, Command::Own(Some(own)), self.racks.own())
            }
            (At::Fetching(own), _) => Next {
                show: Some(Shown::Miss),
                ..self.ask(At::Shown, Command::Delete(Some(own)), self.racks.own())
            },

            (At::Storing, Refused | Nothing) => self.begin(),
            (At::Storing, Done(unique)) if self.wish == Wish::Fill => {
                self.end(Shown::Stored(unique))
            }
            (At::Asking, Refused) if self.wish == Wish::Delete => self.clear(),
            (At::Asking, Refused) if self.wish == Wish::Change => self.begin(),
            // The time that was set is the mark's.
            (At::Asking, Lock(unique) | Note(unique, _)) if self.wish == Wish::Touch => Next {
                show: Some(Shown::Miss),
                ..self.ask(At::Shown, Command::Delete(Some(unique)), site)
            },
            (At::Storing | At::Asking, _) => self.end(Shown::Own),

            (At::Clearing, _) if !self.awaited.is_empty() => Next::default(),
            (At::Clearing, _) => self.end(Shown::Miss),
        }
    }

    /// Begins, or begins anew.
    fn begin(&mut self) -> Next {
        if self.tries == TRIES_MAX {
            return self.end(Shown::Busy);
        }
        self.tries += 1;
        let at = At::Finding { hops: 0, own: None };
        Next {
            pauses: self.tries > 1,
            ..self.ask(at, self.looking(), self.racks.own())
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
            Wish::Change | Wish::Delete => self.ask(At::Asking, Command::Own(Some(unique)), site),
            Wish::Touch => self.ask(At::Asking, Command::Own(None), site),
        }
    }

    /// It is not; `own` is the unique of the mark at the own place, if there is one.
    fn found_nothing(&mut self, own: Option<u64>) -> Next {
        match (self.wish, own) {
            (Wish::Read | Wish::Change | Wish::Touch, _) => self.end(Shown::Miss),
            (Wish::Delete, _) => self.clear(),
            (Wish::Fill, own) => self.ask(At::Peeking(own), Command::Look, Site::Former),
            (Wish::Set | Wish::Add, own) => self.take(own),
        }
    }

    /// We are to hold the item.
    fn take(&mut self, own: Option<u64>) -> Next {
        match own {
            Some(unique) => self.note(unique),
            None => self.ask(At::Locking, Command::Lock, self.racks.own()),
        }
    }

    /// Notes to us go everywhere else; then the value is stored in place of this unique.
    fn note(&mut self, own: u64) -> Next {
        let over = match self.wish.keeps_items() {
            true => Over::Nothing,
            false => Over::Anything,
        };
        let command = Command::Note(self.racks.own, over);
        self.ask(At::Noting(own), command, self.racks.others)
    }

    /// Something is where a note is to cover no item.
    fn look_again(&mut self, site: Site) -> Next {
        if self.tries == TRIES_MAX {
            return self.end(Shown::Busy);
        }
        self.tries += 1;
        self.ask_one(Command::Look, site)
    }

    /// An item is in a rack: it is kept, and the own lock leads there.
    fn keep(&mut self, own: u64, site: Site) -> Next {
        let Site::Rack(rack) = site else {
            return self.end(Shown::NotStored);
        };
        Next {
            show: Some(Shown::NotStored),
            ..self.lead(own, rack)
        }
    }

    fn lead(&mut self, own: u64, rack: RackId) -> Next {
        let note = Command::Note(rack, Over::Unique(own));
        self.ask(At::Shown, note, self.racks.own())
    }

    fn clear(&mut self) -> Next {
        self.ask(At::Clearing, Command::Delete(None), self.racks.all())
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
