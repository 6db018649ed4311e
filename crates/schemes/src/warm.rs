//! A pool that is warmed from a former one: what is asked, where, and in which order, for one command.
//!
//! A key has two places, *here* and the *former* one. What is here counts. What is not is brought by a guarded fill; a write deletes at the
//! former place first, then is executed here. The rules:
//!
//! - A fill puts a placeholder where nothing is, reads the former place, and puts the item in place of *that* placeholder, by its CAS
//!   unique. Every write here changes the unique after it has deleted at the former place. So a fill that read before the delete stores
//!   nothing, and one that read after it has found nothing.
//! - Nobody stores at the former place any more, but for what was given up before and arrives late. So what it has is the present item or
//!   nothing, and an eviction here uncovers nothing old, or it is a late store: that has happened when somebody has stored it here, and not
//!   before. A read shows what it has stored, never what it has only fetched.
//! - A command that depends on what is there *resolves* first: it brings the item, or holds a placeholder where there is none. Then it
//!   deletes at the former place, and is executed here on condition that what it resolved is still there. Else it begins anew.
//! - A placeholder is shown to nobody. A read that meets one is a miss.
//!
//! Who works by these rules can do so beside others who ask nobody, and beside others who do not fill any more ([`Warming::of_write`]
//! without fills, a read that misses is a miss); and those beside others who know this place alone. That is the order of the
//! [stages](crate::stage::Stage).
//!
//! A [copy](crate::copies) of an item is filled by the same steps, with the copy *here* and its home as *former*, and it is refreshed by
//! almost the same: what stands in for the placeholder is the copy itself. Nobody is told what comes of either.
//!
//! The search in `tests/warm/` goes through all interleavings of a few commands, with evictions, restarts and lost requests, and shows
//! for each rule what goes wrong without it.

/// Times that a command begins anew, because others changed what it had resolved, before it is given up as busy.
pub const TRIES_MAX: u8 = 8;

/// What a command is bound to that is to meet nothing: no server gives it, so that no compare-and-swap fits.
pub const NO_UNIQUE: u64 = u64::MAX;

/// What a command wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wish {
    /// To read what can be told of an item that was brought.
    Read,
    /// To read what only this place can tell.
    ReadHere,
    /// To set or delete whatever is there.
    Overwrite,
    /// To store only where nothing is.
    Add,
    /// What depends on the item that is there, and can be bound to its unique.
    Change,
    /// What depends on the item that is there, and can not be bound.
    Touch,
    /// To bring a copy that is here up to date.
    Refresh,
}

/// A command to one of the places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Here: which unique the item has, and whether it is a mark.
    Look,
    /// Here: a placeholder, if nothing is there. Tells its unique.
    Place,
    /// Here: a placeholder in place of the mark with this unique. Tells its unique.
    TakeOver(u64),
    /// At the former place: the item, and how long it has to live.
    Fetch,
    /// Here: what was fetched, in place of the placeholder with this unique. Tells its unique.
    Store(u64),
    /// Here: delete the placeholder with this unique.
    Remove(u64),
    /// At the former place: delete.
    Clear,
    /// Here: the application's own command, on condition that the item has this unique where one is given.
    Own(Option<u64>),
}

/// What came of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heard {
    /// An item of the application's, with its unique here.
    Item(u64),
    /// A mark, with its unique.
    Mark(u64),
    /// Nothing is there.
    Nothing,
    /// Executed; with the unique of what is there now where the command tells it.
    Done(u64),
    /// Not executed: the condition does not hold.
    Refused,
    /// An error, or it could not be asked, or nobody knows what came of it.
    Failed,
}

/// What the application is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shown {
    /// What was fetched and stored, with this unique.
    Stored(u64),
    /// That nothing is there.
    Miss,
    /// What its own command was answered.
    Own,
    /// That others change the item all the time.
    Busy,
    /// That this place could not be asked.
    Failed,
    /// That the former place could not be asked.
    FormerFailed,
}

/// What is to be done next. With neither the operation is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// The application is told so, first.
    pub show: Option<Shown>,
    /// This is asked.
    pub ask: Option<Command>,
}

/// What was resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Found {
    /// An item with this unique.
    Item(u64),
    /// No item; our placeholder with this unique.
    Placeholder(u64),
    /// Neither.
    Nothing,
    /// Nothing was looked for.
    Whatever,
}

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Looking,
    Placing,
    /// With the unique of our placeholder, or of the copy that is refreshed.
    Fetching(u64),
    Storing,
    Clearing(Found),
    /// A placeholder is removed; then the own command is asked.
    Removing(u64),
    Asking(Found),
    /// What is still under way changes nothing of what was shown.
    Shown,
}

/// A command on its way between the two places.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Warming {
    wish: Wish,
    /// What is not here is brought.
    fills: bool,
    at: At,
    /// Times that it has begun anew.
    tries: u8,
}

impl Warming {
    /// A read that has found nothing here. As the fill of a copy it is over where it would ask its own command.
    pub fn of_read(wish: Wish) -> (Self, Command) {
        debug_assert!(matches!(wish, Wish::Read | Wish::ReadHere));
        let warming = Warming {
            wish,
            fills: true,
            at: At::Placing,
            tries: 0,
        };
        (warming, Command::Place)
    }

    /// A command that may change something, before it is asked. Without `fills` what is not here is nowhere.
    pub fn of_write(wish: Wish, fills: bool) -> (Self, Command) {
        debug_assert!(!matches!(wish, Wish::Read | Wish::ReadHere | Wish::Refresh));
        let (at, command) = match wish {
            Wish::Overwrite => (At::Clearing(Found::Whatever), Command::Clear),
            _ => (At::Looking, Command::Look),
        };
        let warming = Warming {
            wish,
            fills,
            at,
            tries: 0,
        };
        (warming, command)
    }

    /// A refresh of a copy that is here. What it does not meet as it was, it leaves as it is.
    pub fn of_refresh() -> (Self, Command) {
        let warming = Warming {
            wish: Wish::Refresh,
            fills: true,
            at: At::Looking,
            tries: 0,
        };
        (warming, Command::Look)
    }

    /// What the command wants.
    pub fn wish(&self) -> Wish {
        self.wish
    }

    /// Whether its own command is asked, or was.
    pub fn asks_own(&self) -> bool {
        matches!(self.at, At::Asking(_))
    }

    /// What was asked last has come to this: all transitions.
    pub fn handle(&mut self, heard: Heard) -> Next {
        use Heard::{Done, Failed, Item, Mark, Nothing, Refused};
        let reads = self.wish == Wish::Read;
        let is_read = reads || self.wish == Wish::ReadHere;
        let refreshes = self.wish == Wish::Refresh;
        match (self.at, heard) {
            (At::Fetching(unique), Item(_)) => self.ask(At::Storing, Command::Store(unique)),

            (At::Looking, Item(unique)) if refreshes => {
                self.ask(At::Fetching(unique), Command::Fetch)
            }
            (_, _) if refreshes => self.end(Shown::Miss),

            (At::Looking, Item(unique)) => self.clear(Found::Item(unique)),
            (At::Looking, Mark(unique)) => self.ask(At::Placing, Command::TakeOver(unique)),
            (At::Looking, Nothing) if self.fills => self.ask(At::Placing, Command::Place),
            (At::Looking, Nothing) => self.clear(Found::Nothing),

            (At::Placing, Done(unique)) if self.fills => {
                self.ask(At::Fetching(unique), Command::Fetch)
            }
            (At::Placing, Done(unique)) => self.clear(Found::Placeholder(unique)),
            (At::Placing, Failed) if reads => self.end(Shown::Miss),
            // Somebody else is there, or nothing of ours can be.
            (At::Placing, _) if is_read => self.ask_own(Found::Whatever),
            (At::Placing, Refused | Nothing) => self.begin_anew(),

            (At::Fetching(placed), Nothing | Failed) if reads => {
                self.end_removing(Shown::Miss, placed)
            }
            (At::Fetching(placed), Nothing) if is_read => {
                self.ask(At::Removing(placed), Command::Remove(placed))
            }
            (At::Fetching(placed), Nothing) => self.clear(Found::Placeholder(placed)),
            (At::Fetching(placed), _) => self.end_removing(Shown::FormerFailed, placed),

            (At::Storing, Done(unique)) if reads => self.end(Shown::Stored(unique)),
            (At::Storing, Failed) if reads => self.end(Shown::Miss),
            (At::Storing, _) if is_read => self.ask_own(Found::Whatever),
            (At::Storing, Done(unique)) => self.clear(Found::Item(unique)),
            (At::Storing, Refused | Nothing) => self.begin_anew(),

            (At::Clearing(Found::Placeholder(placed)), Done(_) | Nothing) => {
                self.ask(At::Removing(placed), Command::Remove(placed))
            }
            (At::Clearing(found), Done(_) | Nothing) => self.ask_own(found),
            (At::Clearing(Found::Placeholder(placed)), _) => {
                self.end_removing(Shown::FormerFailed, placed)
            }
            (At::Clearing(_), _) => self.end(Shown::FormerFailed),

            (At::Removing(_), Failed) => self.end(Shown::Failed),
            (At::Removing(placed), _) => self.ask_own(Found::Placeholder(placed)),

            // The condition was ours, not the application's.
            (At::Asking(_), Refused) if self.wish == Wish::Change => self.begin_anew(),
            // What kept it from storing may have been a placeholder.
            (At::Asking(Found::Placeholder(_) | Found::Nothing), Refused)
                if self.wish == Wish::Add =>
            {
                self.begin_anew()
            }
            // The time that was set is the placeholder's.
            (At::Asking(_), Mark(unique)) if self.wish == Wish::Touch => {
                self.end_removing(Shown::Miss, unique)
            }
            (At::Asking(_), Mark(_)) => self.end(Shown::Miss),
            (At::Asking(_), _) => self.end(Shown::Own),

            (At::Shown, _) => Next::default(),
            (At::Looking | At::Placing | At::Storing, _) => self.end(Shown::Failed),
        }
    }

    fn ask(&mut self, at: At, command: Command) -> Next {
        self.at = at;
        Next {
            show: None,
            ask: Some(command),
        }
    }

    fn clear(&mut self, found: Found) -> Next {
        self.ask(At::Clearing(found), Command::Clear)
    }

    fn ask_own(&mut self, found: Found) -> Next {
        let condition = match found {
            Found::Item(unique) | Found::Placeholder(unique) => Some(unique),
            Found::Nothing => Some(NO_UNIQUE),
            Found::Whatever => None,
        };
        let condition = condition.filter(|_| self.wish == Wish::Change);
        self.ask(At::Asking(found), Command::Own(condition))
    }

    fn begin_anew(&mut self) -> Next {
        self.tries += 1;
        match self.tries < TRIES_MAX {
            true => self.ask(At::Looking, Command::Look),
            false => self.end(Shown::Busy),
        }
    }

    fn end(&mut self, shown: Shown) -> Next {
        self.at = At::Shown;
        Next {
            show: Some(shown),
            ask: None,
        }
    }

    /// Shows, and removes a placeholder behind that.
    fn end_removing(&mut self, shown: Shown, placed: u64) -> Next {
        Next {
            ask: Some(Command::Remove(placed)),
            ..self.end(shown)
        }
    }
}

impl Command {
    /// Whether it is asked at the former place.
    pub fn is_of_former(self) -> bool {
        matches!(self, Command::Fetch | Command::Clear)
    }

    /// Whether it counts on the unique of what is there: at another server, or at the same after a restart, that says nothing.
    pub fn is_bound(self) -> bool {
        matches!(
            self,
            Command::TakeOver(_) | Command::Store(_) | Command::Remove(_) | Command::Own(Some(_))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refresh_looks_fetches_and_stores_over_what_it_has_seen() {
        let (mut refresh, first) = Warming::of_refresh();
        assert_eq!(first, Command::Look);
        assert_eq!(refresh.handle(Heard::Item(7)).ask, Some(Command::Fetch));
        assert_eq!(refresh.handle(Heard::Item(1)).ask, Some(Command::Store(7)));
        assert_eq!(refresh.handle(Heard::Done(8)).ask, None);
    }

    #[test]
    fn a_refresh_leaves_alone_what_it_does_not_meet_as_it_was() {
        use Heard::{Failed, Item, Mark, Nothing, Refused};
        let seen = [Item(7)];
        let fetched = [Item(7), Item(1)];
        for (before, heard) in [
            (&[][..], &[Nothing, Mark(7), Failed][..]),
            (&seen, &[Nothing, Mark(1), Failed]),
            (&fetched, &[Nothing, Refused, Failed]),
        ] {
            for heard in heard {
                let (mut refresh, _) = Warming::of_refresh();
                for before in before {
                    refresh.handle(*before);
                }
                assert_eq!(refresh.handle(*heard).ask, None, "{before:?} {heard:?}");
            }
        }
    }
}
