//! The servers: what they have, and what they do when they are asked.

use super::commands::{Fault, State};
use super::register::{INITIAL, Kind, Told, value_of};
use evenkeel_schemes::generation::mask;
use evenkeel_schemes::warm::{Command, Heard};

/// How many there are.
pub const SERVERS: usize = 3;

/// Where the key's item lies: at a server, under the name of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub server: u8,
    pub generation: u8,
}

/// What lies at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// `None` for a placeholder.
    pub value: Option<u8>,
    pub unique: u64,
}

/// An application's command: its number, its kind, and the unique that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    pub op: usize,
    pub kind: Kind,
    pub unique: Option<u64>,
}

/// What all servers have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Servers {
    /// In order.
    items: Vec<(Place, Slot)>,
    /// The last that each of them has given.
    uniques: [u64; SERVERS],
}

impl Servers {
    pub fn new(first: Place) -> Self {
        let mut servers = Servers {
            items: Vec::new(),
            uniques: [0; SERVERS],
        };
        servers.put(first, Some(INITIAL));
        servers
    }

    /// The places that have something.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.items.iter().map(|(place, _)| *place)
    }

    pub fn at(&self, place: Place) -> Option<Slot> {
        let found = self.items.iter().find(|(at, _)| *at == place);
        found.map(|(_, slot)| *slot)
    }

    pub fn value_at(&self, place: Place) -> Option<u8> {
        self.at(place)?.value
    }

    pub fn has_mark(&self, place: Place) -> bool {
        self.at(place).is_some_and(|slot| slot.value.is_none())
    }

    /// Whether it has ever stored anything since it was started.
    pub fn was_used(&self, server: u8) -> bool {
        self.uniques[usize::from(server)] > 0
    }

    /// It is empty, and counts from one again.
    pub fn restart(&mut self, server: u8) {
        self.items.retain(|(place, _)| place.server != server);
        self.uniques[usize::from(server)] = 0;
    }

    pub fn remove(&mut self, place: Place) {
        self.items.retain(|(at, _)| *at != place);
    }

    fn put(&mut self, place: Place, value: Option<u8>) -> u64 {
        let unique = &mut self.uniques[usize::from(place.server)];
        *unique += 1;
        let slot = Slot {
            value,
            unique: *unique,
        };
        match self.items.binary_search_by_key(&place, |(at, _)| *at) {
            Ok(found) => self.items[found].1 = slot,
            Err(at) => self.items.insert(at, (place, slot)),
        }
        slot.unique
    }

    /// A server executes a command. What came of it, what the application would be told, and what was fetched.
    pub fn execute(
        &mut self,
        command: Command,
        asked: Asked,
        (state, fetched): (State, Option<u8>),
        fault: Option<Fault>,
    ) -> (Heard, Option<Told>, Option<u8>) {
        let State { former, here, .. } = state;
        let slot = self.at(here);
        let has = |unique: u64| slot.is_some_and(|slot| slot.unique == unique);
        let heard = match command {
            Command::Look => match slot {
                None => Heard::Nothing,
                Some(slot) if slot.value.is_none() => Heard::Mark(slot.unique),
                Some(slot) => Heard::Item(slot.unique),
            },
            Command::Place if slot.is_some() && fault != Some(Fault::PlaceholderCovers) => {
                Heard::Refused
            }
            Command::Place => Heard::Done(self.put(here, None)),
            Command::TakeOver(unique) if has(unique) => Heard::Done(self.put(here, None)),
            Command::Store(unique) if has(unique) || fault == Some(Fault::FillIgnoresUnique) => {
                Heard::Done(self.put(here, fetched))
            }
            Command::Remove(unique)
                if has(unique) || slot.is_some() && fault == Some(Fault::RemovalIgnoresUnique) =>
            {
                self.remove(here);
                Heard::Done(0)
            }
            Command::TakeOver(_) | Command::Store(_) | Command::Remove(_) => Heard::Refused,
            Command::Fetch => match self.value_at(former) {
                Some(value) => return (Heard::Item(0), None, Some(value)),
                None => Heard::Nothing,
            },
            Command::Clear => {
                if fault != Some(Fault::FormerIsNotCleared) {
                    self.remove(former);
                }
                Heard::Done(0)
            }
            Command::Own(unique) => {
                let (heard, told) = self.execute_own(here, asked, unique, fault);
                return (heard, Some(told), None);
            }
        };
        (heard, None, None)
    }

    /// A server executes an application's own command, on a condition of ours where there is one.
    pub fn execute_own(
        &mut self,
        place: Place,
        Asked { op, kind, unique }: Asked,
        condition: Option<u64>,
        fault: Option<Fault>,
    ) -> (Heard, Told) {
        let own = Some(value_of(op));
        let Some(slot) = self.at(place) else {
            return match kind {
                Kind::Set | Kind::Add => (Heard::Done(self.put(place, own)), Told::Done),
                Kind::Delete => (Heard::Nothing, Told::Done),
                _ => (Heard::Nothing, Told::Nothing),
            };
        };
        let fits = condition.is_none_or(|unique| unique == slot.unique)
            || fault == Some(Fault::ChangesAreNotBound);
        match (kind, slot.value) {
            (Kind::Set, _) => (Heard::Done(self.put(place, own)), Told::Done),
            (Kind::Delete, _) => {
                self.remove(place);
                (Heard::Done(0), Told::Done)
            }
            (Kind::Add, _) => (Heard::Refused, Told::NotStored),
            (Kind::Incr, _) if !fits => (Heard::Refused, Told::Unknown),
            (Kind::Incr, Some(value)) => {
                let unique = self.put(place, Some(value + 50));
                (Heard::Done(unique), Told::Value(value + 50))
            }
            // By the fault it is put together with a mark, as an append would be.
            (Kind::Incr, None) if fault == Some(Fault::ChangesAreNotBound) => {
                (Heard::Done(0), Told::Value(99))
            }
            // A mark is no number: an error.
            (Kind::Incr, None) => (Heard::Done(0), Told::Nothing),
            (Kind::Cas(_), _) if unique == Some(shown(place, slot.unique, fault)) => {
                (Heard::Done(self.put(place, own)), Told::Done)
            }
            (Kind::Cas(_), _) => (Heard::Done(0), Told::Exists),
            (_, None) => (Heard::Mark(slot.unique), Told::Value(99)),
            (Kind::Touch, Some(_)) => (Heard::Item(slot.unique), Told::Done),
            (_, Some(value)) => (Heard::Item(slot.unique), Told::Value(value)),
        }
    }
}

/// What an application sees of a place's unique.
pub fn shown(place: Place, unique: u64, fault: Option<Fault>) -> u64 {
    match fault {
        Some(Fault::MaskIsLeftOut) => unique,
        _ => unique ^ mask(u64::from(place.generation)),
    }
}
