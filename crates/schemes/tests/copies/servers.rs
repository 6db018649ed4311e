//! The servers of one key: its home, and those that may have copies; and what they do when they are asked.
//!
//! A value is the number of the write that it came from, in the order in which writes took effect at home.

use evenkeel_schemes::warm::{Command, Heard};
use std::collections::BTreeMap;

/// Servers that may have a copy, at most.
pub const COPIES: usize = 2;

/// What an application asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A read at home.
    Home,
    /// A read at a copy.
    Copy(u8),
    /// A read at a copy that is to be refreshed if it is there.
    OldCopy(u8),
    Set,
    Delete,
    Add,
    Incr,
    Touch,
}

impl Kind {
    /// The copy that it reads.
    pub fn copy(self) -> Option<u8> {
        match self {
            Kind::Copy(copy) | Kind::OldCopy(copy) => Some(copy),
            _ => None,
        }
    }
}

/// Where a copy lies: at a server, under a name with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub copy: u8,
    pub token: u8,
}

/// What lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Slot {
    /// `None` for a placeholder.
    value: Option<u8>,
    unique: u64,
}

/// What a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// A read at home.
    Read,
    /// A write at home.
    Run(Kind),
    /// A read at a copy.
    Look(Place),
    Step(Step),
    Delete(Place),
}

/// A step of a fill or refresh of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    pub place: Place,
    pub command: Command,
    pub fetched: Option<u8>,
    /// In which life of the copy's server it has learnt a unique.
    pub life: u8,
}

impl Request {
    /// The copy whose server is asked; `None` for home.
    pub fn copy(self) -> Option<u8> {
        match self {
            Request::Read | Request::Run(_) => None,
            Request::Step(step) if step.command.is_of_former() => None,
            Request::Step(Step { place, .. }) | Request::Look(place) | Request::Delete(place) => {
                Some(place.copy)
            }
        }
    }

    /// Whether it changes nothing.
    pub fn only_reads(self) -> bool {
        match self {
            Request::Read | Request::Look(_) => true,
            Request::Step(step) => matches!(step.command, Command::Look | Command::Fetch),
            Request::Run(_) | Request::Delete(_) => false,
        }
    }
}

/// What they have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Servers {
    home: Option<u8>,
    /// Writes that took effect at home.
    pub writes: u8,
    copies: BTreeMap<Place, Slot>,
    /// The last unique that each has given.
    uniques: [u64; COPIES],
    /// How often each was started anew.
    lives: [u8; COPIES],
}

impl Servers {
    /// Home has the first value.
    pub fn new() -> Self {
        Servers {
            home: Some(1),
            writes: 1,
            copies: BTreeMap::new(),
            uniques: [0; COPIES],
            lives: [0; COPIES],
        }
    }

    pub fn life_of(&self, copy: u8) -> u8 {
        self.lives[usize::from(copy)]
    }

    /// The copies and placeholders that are there.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.copies.keys().copied()
    }

    /// Whether the server of a copy has stored anything since it was started.
    pub fn was_used(&self, copy: u8) -> bool {
        self.uniques[usize::from(copy)] > 0
    }

    pub fn has_home(&self) -> bool {
        self.home.is_some()
    }

    /// A copy is evicted, or what home has.
    pub fn evict(&mut self, place: Option<Place>) {
        match place {
            Some(place) => self.remove(place),
            None => self.home = None,
        }
    }

    /// The server of a copy is started anew: it is empty, and counts from one.
    pub fn restart(&mut self, copy: u8) {
        self.copies.retain(|place, _| place.copy != copy);
        self.uniques[usize::from(copy)] = 0;
        self.lives[usize::from(copy)] += 1;
    }

    /// A request is executed: what came of it, and the value that was read.
    pub fn execute(&mut self, request: Request) -> (Heard, Option<u8>) {
        let heard = match request {
            Request::Read => return self.read(),
            Request::Run(kind) => self.run(kind),
            Request::Look(place) => return self.look(place),
            Request::Delete(place) => {
                self.remove(place);
                Heard::Done(0)
            }
            Request::Step(step) => {
                let Step { place, command, .. } = step;
                let unique = self.copies.get(&place).map(|slot| slot.unique);
                match command {
                    Command::Fetch => return self.read(),
                    Command::Look => return self.look(place),
                    // What rests on a unique goes over the connection on which it was learnt.
                    _ if command.is_bound() && step.life != self.life_of(place.copy) => {
                        Heard::Failed
                    }
                    Command::Place if unique.is_none() => self.put(place, None),
                    Command::Store(seen) if unique == Some(seen) => self.put(place, step.fetched),
                    Command::Remove(seen) if unique == Some(seen) => {
                        self.remove(place);
                        Heard::Done(0)
                    }
                    Command::Place | Command::Store(_) | Command::Remove(_) => Heard::Refused,
                    _ => unreachable!("{command:?} is of no fill and no refresh"),
                }
            }
        };
        (heard, None)
    }

    fn read(&self) -> (Heard, Option<u8>) {
        match self.home {
            Some(value) => (Heard::Item(0), Some(value)),
            None => (Heard::Nothing, None),
        }
    }

    fn look(&self, place: Place) -> (Heard, Option<u8>) {
        match self.copies.get(&place) {
            None => (Heard::Nothing, None),
            Some(slot) if slot.value.is_none() => (Heard::Mark(slot.unique), None),
            Some(slot) => (Heard::Item(slot.unique), slot.value),
        }
    }

    /// A write at home. A delete counts as one also if it finds nothing: behind it nothing older is there.
    fn run(&mut self, kind: Kind) -> Heard {
        let found = match self.home {
            Some(_) => Heard::Done(0),
            None => Heard::Nothing,
        };
        let stores = match (kind, self.home) {
            (Kind::Set, _) | (Kind::Add, None) | (Kind::Incr, Some(_)) => true,
            (Kind::Delete, _) => false,
            _ => return found,
        };
        self.writes += 1;
        self.home = stores.then_some(self.writes);
        found
    }

    /// Stores a value, or a placeholder.
    pub fn put(&mut self, place: Place, value: Option<u8>) -> Heard {
        let unique = &mut self.uniques[usize::from(place.copy)];
        *unique += 1;
        let slot = Slot {
            value,
            unique: *unique,
        };
        self.copies.insert(place, slot);
        Heard::Done(slot.unique)
    }

    fn remove(&mut self, place: Place) {
        self.copies.remove(&place);
    }
}
