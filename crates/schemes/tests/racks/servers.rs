//! The places: what they have, and what they do when they are asked.

use crate::key::{Fault, rack_id};
use crate::register::{Kind, value_of};
use evenkeel_schemes::locality::holder::{Command, Heard, Over};

/// What lies at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    Value(u8),
    Lock,
    /// Which names a rack.
    Note(usize),
}

/// What a server has at the key's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Place {
    slot: Option<(Content, u64)>,
    /// The last unique that it has given.
    unique: u64,
    /// How often it has started.
    life: u8,
}

/// All places: one in each rack, and one in the directory behind them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Servers {
    places: Vec<Place>,
    racks: usize,
}

impl Servers {
    pub fn new(places: usize, racks: usize) -> Self {
        Servers {
            places: vec![Place::default(); places],
            racks,
        }
    }

    pub fn places(&self) -> usize {
        self.places.len()
    }

    fn is_directory(&self, place: usize) -> bool {
        place == self.racks
    }

    pub fn has(&self, place: usize) -> bool {
        self.places[place].slot.is_some()
    }

    pub fn life(&self, place: usize) -> u8 {
        self.places[place].life
    }

    pub fn was_used(&self, place: usize) -> bool {
        self.places[place].unique > 0
    }

    pub fn evict(&mut self, place: usize) {
        self.places[place].slot = None;
    }

    /// It is empty, and counts from one again.
    pub fn restart(&mut self, place: usize) {
        let Place { life, .. } = self.places[place];
        self.places[place] = Place {
            life: life + 1,
            ..Place::default()
        };
    }

    pub fn put(&mut self, place: usize, content: Content) -> Heard {
        let place = &mut self.places[place];
        place.unique += 1;
        place.slot = Some((content, place.unique));
        Heard::Done(place.unique)
    }

    pub fn told(&self, place: usize) -> String {
        format!("there is {:?}", self.places[place].slot)
    }

    fn see(&self, place: usize) -> (Heard, Option<u8>) {
        match self.places[place].slot {
            None => (Heard::Nothing, None),
            Some((Content::Value(value), unique)) => (Heard::Item(unique), Some(value)),
            Some((Content::Lock, unique)) => (Heard::Lock(unique), None),
            // A note that names its own rack is none.
            Some((Content::Note(rack), unique)) if rack == place => (Heard::Lock(unique), None),
            Some((Content::Note(rack), unique)) => (Heard::Note(unique, rack_id(rack)), None),
        }
    }

    /// A server executes a command of an operation. What came of it, and what value was read or made.
    pub fn execute(
        &mut self,
        place: usize,
        command: Command,
        (op, kind): (usize, Kind),
        fault: Option<Fault>,
    ) -> (Heard, Option<u8>) {
        let slot = self.places[place].slot;
        let has = |unique: u64| slot.is_some_and(|(_, present)| present == unique);
        let content = slot.map(|(content, _)| content);
        let heard = match command {
            // The value at once, over whatever is no value.
            Command::Own(None) if fault == Some(Fault::StoresFirst) && !kind.reads() => {
                if matches!(content, Some(Content::Value(_))) {
                    return (Heard::Refused, None);
                }
                self.put(place, Content::Value(value_of(op)))
            }
            Command::Look | Command::Own(None) => return self.see(place),
            Command::Fetch => unreachable!("there is no former pool"),
            Command::Lock if fault == Some(Fault::NoLock) && !self.is_directory(place) => {
                match slot {
                    None => Heard::Done(0),
                    Some(_) => Heard::Refused,
                }
            }
            Command::Lock if fault == Some(Fault::NoStub) && self.is_directory(place) => {
                Heard::Done(0)
            }
            Command::Lock
                if slot.is_some()
                    && !(fault == Some(Fault::AddsLockAnything) && kind == Kind::Add) =>
            {
                Heard::Refused
            }
            Command::Lock => self.put(place, Content::Lock),
            Command::Note(rack, over) => {
                let may = match over {
                    Over::Anything => true,
                    Over::Nothing => slot.is_none(),
                    Over::Unique(0) => fault == Some(Fault::NoStub),
                    Over::Unique(unique) => {
                        let ignores = match fault {
                            Some(Fault::ClaimsIgnoreUnique) => self.is_directory(place),
                            Some(Fault::CopiesIgnoreUnique) => kind.reads(),
                            _ => false,
                        };
                        has(unique) || ignores
                    }
                };
                match may {
                    true => self.put(place, Content::Note(rack.index())),
                    false => Heard::Refused,
                }
            }
            Command::Delete(unique) => match slot {
                None if unique.is_some() => Heard::Refused,
                None => Heard::Nothing,
                Some(_) if unique.is_some_and(|unique| !has(unique)) => Heard::Refused,
                Some(_) => {
                    self.evict(place);
                    Heard::Done(0)
                }
            },
            Command::Own(Some(unique)) => {
                let is_value = matches!(content, Some(Content::Value(_)));
                let ignores = match (kind, fault) {
                    (Kind::Set | Kind::Add, Some(Fault::NoLock)) => unique == 0,
                    (Kind::Set | Kind::Add, Some(Fault::StoresIgnoreUnique)) => !is_value,
                    (Kind::Set, Some(Fault::ReplacesIgnoreUnique)) => true,
                    (Kind::Incr, Some(Fault::ChangesIgnoreUnique)) => true,
                    _ => false,
                };
                if !has(unique) && !ignores {
                    return (Heard::Refused, None);
                }
                return match (kind, content) {
                    (Kind::Delete, _) => {
                        self.evict(place);
                        (Heard::Done(0), None)
                    }
                    (Kind::Incr, Some(Content::Value(value))) => {
                        let made = value + 50;
                        (self.put(place, Content::Value(made)), Some(made))
                    }
                    (Kind::Incr, _) => (self.put(place, Content::Value(99)), Some(99)),
                    _ => (self.put(place, Content::Value(value_of(op))), None),
                };
            }
        };
        (heard, None)
    }
}
