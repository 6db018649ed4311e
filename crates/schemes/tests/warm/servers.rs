//! The two servers: what they have, and what they do when they are asked.

use super::register::{INITIAL, Kind, Told, value_of};
use super::world::Fault;
use evenkeel_schemes::warm::{Command, Heard};

/// What lies at the place that is warmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// `None` for a placeholder.
    pub value: Option<u8>,
    pub unique: u64,
}

/// What both places have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Servers {
    pub here: Option<Slot>,
    pub former: Option<u8>,
    /// The last that was given here.
    pub unique: u64,
}

impl Servers {
    pub fn new() -> Self {
        Servers {
            here: None,
            former: Some(INITIAL),
            unique: 0,
        }
    }

    fn next_unique(&mut self) -> u64 {
        self.unique += 1;
        self.unique
    }

    /// A server carries out a command.
    pub fn carry_out(
        &mut self,
        command: Command,
        (op, kind): (usize, Kind),
        fetched: Option<u8>,
        fault: Option<Fault>,
    ) -> (Heard, Option<Told>, Option<u8>) {
        let has = |here: &Option<Slot>, unique: u64| here.is_some_and(|slot| slot.unique == unique);
        let seen = |here: &Option<Slot>| match here {
            None => Heard::Nothing,
            Some(Slot {
                value: None,
                unique,
            }) => Heard::Mark(*unique),
            Some(slot) => Heard::Item(slot.unique),
        };
        match command {
            Command::Look => (seen(&self.here), None, None),
            Command::Place => match self.here {
                Some(_) if fault != Some(Fault::PlaceholderCovers) => (Heard::Refused, None, None),
                _ => (self.put(None), None, None),
            },
            Command::TakeOver(unique) => match has(&self.here, unique) {
                true => (self.put(None), None, None),
                false => (Heard::Refused, None, None),
            },
            Command::Fetch => match self.former {
                Some(value) => (Heard::Item(0), None, Some(value)),
                None => (Heard::Nothing, None, None),
            },
            Command::Store(unique) => {
                let fits = has(&self.here, unique) || fault == Some(Fault::FillIgnoresUnique);
                match fits {
                    true => (self.put(fetched), None, None),
                    false => (Heard::Refused, None, None),
                }
            }
            Command::Remove(unique) => {
                let fits = has(&self.here, unique)
                    || self.here.is_some() && fault == Some(Fault::RemovalIgnoresUnique);
                match fits {
                    true => {
                        self.here = None;
                        (Heard::Done(0), None, None)
                    }
                    false => (Heard::Refused, None, None),
                }
            }
            Command::Clear => {
                if fault != Some(Fault::FormerIsNotCleared) {
                    self.former = None;
                }
                (Heard::Done(0), None, None)
            }
            Command::Own(unique) => {
                let (heard, told) = self.carry_out_own((op, kind), unique, fault);
                (heard, Some(told), None)
            }
        }
    }

    fn put(&mut self, value: Option<u8>) -> Heard {
        let unique = self.next_unique();
        self.here = Some(Slot { value, unique });
        Heard::Done(unique)
    }

    pub fn carry_out_own(
        &mut self,
        (op, kind): (usize, Kind),
        unique: Option<u64>,
        fault: Option<Fault>,
    ) -> (Heard, Told) {
        let Some(slot) = self.here else {
            return match kind {
                Kind::Set | Kind::Add => (self.put(Some(value_of(op))), Told::Done),
                Kind::Delete => (Heard::Nothing, Told::Done),
                _ => (Heard::Nothing, Told::Nothing),
            };
        };
        let fits = unique.is_none_or(|unique| unique == slot.unique)
            || fault == Some(Fault::ChangesAreNotBound);
        match (kind, slot.value) {
            (Kind::Set, _) => (self.put(Some(value_of(op))), Told::Done),
            (Kind::Delete, _) => {
                self.here = None;
                (Heard::Done(0), Told::Done)
            }
            (Kind::Add, _) => (Heard::Refused, Told::NotStored),
            (Kind::Incr, _) if !fits => (Heard::Refused, Told::Unknown),
            // A number put together with a mark.
            (Kind::Incr, value) => {
                let counted = value.unwrap_or(100) + 50;
                (self.put(Some(counted)), Told::Value(counted))
            }
            (_, None) => (Heard::Mark(slot.unique), Told::Value(99)),
            (Kind::Touch, Some(_)) => (Heard::Item(slot.unique), Told::Done),
            (_, Some(value)) => (Heard::Item(slot.unique), Told::Value(value)),
        }
    }
}
