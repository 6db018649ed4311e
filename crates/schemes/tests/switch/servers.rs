//! The places of both architectures: what they have, and what they do when they are asked.

use crate::key::{Fault, Scope};
use crate::register::{INITIAL, Kind, Told, value_of};
use evenkeel_schemes::locality::holder::{Command, Heard, Kind as Protocol, Over};
use evenkeel_schemes::locality::topology::RackId;
use evenkeel_schemes::warm;

/// How many racks there are.
pub const RACKS: usize = 2;

/// Places of an architecture at most: one in each rack, and one in a directory behind them. The first is all that a plain pool has.
const PLACES: usize = RACKS + 1;

/// Which architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    Plain,
    Racks(Protocol),
}

/// Where something lies: at a site of the former architecture (0) or of the new one (1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub layer: usize,
    pub site: usize,
}

/// What lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    Value(u8),
    /// A lock, or a placeholder.
    Lock,
    /// Which names a rack.
    Note(usize),
}

/// A request to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// An application's command, as it is.
    Plain(Kind),
    Racks(Command),
    Warm(warm::Command),
}

impl Ask {
    pub fn is_bound(self) -> bool {
        match self {
            Ask::Plain(_) => false,
            Ask::Racks(command) => command.is_bound(),
            Ask::Warm(command) => command.is_bound(),
        }
    }

    /// Whether it changes nothing.
    pub fn reads(self) -> bool {
        match self {
            Ask::Plain(kind) => kind.reads(),
            Ask::Racks(command) => matches!(command, Command::Look | Command::Own(None)),
            Ask::Warm(command) => matches!(command, warm::Command::Look),
        }
    }
}

/// For whom a request is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct For {
    pub op: usize,
    pub kind: Kind,
    /// What is stored by a fill.
    pub filled: Option<u8>,
}

/// What came of a request.
#[derive(Clone, Copy, Debug)]
pub enum Came {
    Told(Told),
    Racks(Heard, Option<u8>),
    Warm(warm::Heard, Told),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Server {
    slot: Option<(Content, u64)>,
    /// The last unique that it has given.
    unique: u64,
    /// How often it has started.
    life: u8,
}

/// All of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Servers([Server; 2 * PLACES]);

pub fn rack_id(rack: usize) -> RackId {
    RackId::all().nth(rack).expect("so few")
}

impl Place {
    fn index(self) -> usize {
        self.layer * PLACES + self.site
    }

    pub fn all() -> impl Iterator<Item = Place> {
        (0..2 * PLACES).map(|at| Place {
            layer: at / PLACES,
            site: at % PLACES,
        })
    }
}

impl Servers {
    /// The item is where the first architecture has it.
    pub fn new(scope: &Scope) -> Self {
        let mut servers = Servers(Default::default());
        let at = |site| Place { layer: 0, site };
        servers.put(at(0), Content::Value(INITIAL));
        let noted = match scope.layers[0] {
            Layer::Plain => 0..0,
            Layer::Racks(Protocol::Snoop) => 1..RACKS,
            Layer::Racks(Protocol::Directory) => RACKS..PLACES,
        };
        noted.for_each(|site| _ = servers.put(at(site), Content::Note(0)));
        let new = |site| Place { layer: 1, site };
        if scope.fault == Some(Fault::NamesAreUsedAgain) {
            servers.put(new(0), Content::Value(0));
        }
        if scope.dangles {
            servers.put(new(RACKS), Content::Note(1));
        }
        servers
    }

    fn slot(&self, place: Place) -> Option<(Content, u64)> {
        self.0[place.index()].slot
    }

    pub fn has(&self, place: Place) -> bool {
        self.slot(place).is_some()
    }

    pub fn value(&self, place: Place) -> Option<u8> {
        match self.slot(place) {
            Some((Content::Value(value), _)) => Some(value),
            _ => None,
        }
    }

    pub fn has_lock(&self, place: Place) -> bool {
        matches!(self.slot(place), Some((Content::Lock, _)))
    }

    pub fn life(&self, place: Place) -> u8 {
        self.0[place.index()].life
    }

    pub fn was_used(&self, place: Place) -> bool {
        self.0[place.index()].unique > 0
    }

    pub fn remove(&mut self, place: Place) {
        self.0[place.index()].slot = None;
    }

    /// It is empty, and counts from one again.
    pub fn restart(&mut self, place: Place) {
        let server = &mut self.0[place.index()];
        *server = Server {
            life: server.life + 1,
            ..Server::default()
        };
    }

    fn put(&mut self, place: Place, content: Content) -> u64 {
        let server = &mut self.0[place.index()];
        server.unique += 1;
        server.slot = Some((content, server.unique));
        server.unique
    }

    pub fn told(&self, place: Place) -> String {
        format!("there is {:?}", self.slot(place))
    }

    pub fn execute(&mut self, place: Place, ask: Ask, by: For, fault: Option<Fault>) -> Came {
        match ask {
            Ask::Plain(kind) => Came::Told(self.execute_plain(place, kind, by.op, None).1),
            Ask::Racks(command) => {
                let (heard, value) = self.execute_of_racks(place, command, by, fault);
                Came::Racks(heard, value)
            }
            Ask::Warm(command) => {
                let (heard, told) = self.execute_of_warm(place, command, by);
                Came::Warm(heard, told)
            }
        }
    }

    /// An application's command at a server that knows nothing of us, on condition of a unique.
    fn execute_plain(
        &mut self,
        place: Place,
        kind: Kind,
        op: usize,
        condition: Option<u64>,
    ) -> (warm::Heard, Told) {
        use warm::Heard;
        let own = Content::Value(value_of(op));
        let slot = self.slot(place);
        let fits = condition.is_none_or(|unique| slot.is_some_and(|(_, there)| there == unique));
        let value = self.value(place);
        match (kind, slot) {
            (Kind::Set, _) | (Kind::Add, None) => (Heard::Done(self.put(place, own)), Told::Done),
            (Kind::Delete, None) => (Heard::Nothing, Told::Done),
            (Kind::Delete, Some(_)) => {
                self.remove(place);
                (Heard::Done(0), Told::Done)
            }
            (Kind::Add, _) => (Heard::Refused, Told::NotStored),
            (_, None) => (Heard::Nothing, Told::Nothing),
            (Kind::Incr, Some(_)) if !fits => (Heard::Refused, Told::Unknown),
            (Kind::Incr, Some(_)) => match value {
                Some(value) => {
                    let unique = self.put(place, Content::Value(value + 50));
                    (Heard::Done(unique), Told::Value(value + 50))
                }
                None => (Heard::Done(0), Told::Nothing),
            },
            (_, Some((_, unique))) => match value {
                Some(value) => (Heard::Item(unique), Told::Value(value)),
                None => (Heard::Mark(unique), Told::Nothing),
            },
        }
    }

    fn execute_of_warm(
        &mut self,
        place: Place,
        command: warm::Command,
        by: For,
    ) -> (warm::Heard, Told) {
        use warm::{Command, Heard};
        let slot = self.slot(place);
        let has = |unique: u64| slot.is_some_and(|(_, there)| there == unique);
        let heard = match command {
            Command::Look => self.execute_plain(place, Kind::Get, by.op, None).0,
            Command::Place if slot.is_none() => Heard::Done(self.put(place, Content::Lock)),
            Command::TakeOver(unique) if has(unique) => Heard::Done(self.put(place, Content::Lock)),
            Command::Store(unique) if has(unique) => {
                let filled = by.filled.map_or(Content::Lock, Content::Value);
                Heard::Done(self.put(place, filled))
            }
            Command::Remove(unique) if has(unique) => {
                self.remove(place);
                Heard::Done(0)
            }
            Command::Own(condition) => {
                return self.execute_plain(place, by.kind, by.op, condition);
            }
            _ => Heard::Refused,
        };
        (heard, Told::Unknown)
    }

    fn see(&self, place: Place) -> (Heard, Option<u8>) {
        match self.slot(place) {
            None => (Heard::Nothing, None),
            Some((Content::Value(value), unique)) => (Heard::Item(unique), Some(value)),
            Some((Content::Lock, unique)) => (Heard::Lock(unique), None),
            // A note that names its own rack is none.
            Some((Content::Note(rack), unique)) if rack == place.site => {
                (Heard::Lock(unique), None)
            }
            Some((Content::Note(rack), unique)) => (Heard::Note(unique, rack_id(rack)), None),
        }
    }

    fn execute_of_racks(
        &mut self,
        place: Place,
        command: Command,
        by: For,
        fault: Option<Fault>,
    ) -> (Heard, Option<u8>) {
        let slot = self.slot(place);
        let has = |unique: u64| slot.is_some_and(|(_, there)| there == unique);
        let heard = match command {
            Command::Look | Command::Own(None) => return self.see(place),
            Command::Fetch => unreachable!("that is asked of the former architecture"),
            Command::Lock if slot.is_some() => Heard::Refused,
            Command::Lock => Heard::Done(self.put(place, Content::Lock)),
            Command::Note(rack, over) => {
                let may = match over {
                    Over::Anything => true,
                    Over::Nothing => slot.is_none(),
                    Over::Unique(unique) => has(unique),
                };
                match may {
                    true => Heard::Done(self.put(place, Content::Note(rack.index()))),
                    false => Heard::Refused,
                }
            }
            Command::Delete(condition) => match slot {
                None if condition.is_some() => Heard::Refused,
                None => Heard::Nothing,
                Some(_) if condition.is_some_and(|unique| !has(unique)) => Heard::Refused,
                Some(_) => {
                    self.remove(place);
                    Heard::Done(0)
                }
            },
            Command::Own(Some(unique)) => {
                if let Some(value) = by.filled {
                    let ignores = fault == Some(Fault::FillIgnoresUnique);
                    return match has(unique) || ignores {
                        true => (Heard::Done(self.put(place, Content::Value(value))), None),
                        false => (Heard::Refused, None),
                    };
                }
                if !has(unique) {
                    return (Heard::Refused, None);
                }
                let content = slot.map(|(content, _)| content);
                return match (by.kind, content) {
                    (Kind::Delete, _) => {
                        self.remove(place);
                        (Heard::Done(0), None)
                    }
                    (Kind::Incr, Some(Content::Value(value))) => {
                        let made = value + 50;
                        let unique = self.put(place, Content::Value(made));
                        (Heard::Done(unique), Some(made))
                    }
                    _ => {
                        let unique = self.put(place, Content::Value(value_of(by.op)));
                        (Heard::Done(unique), None)
                    }
                };
            }
        };
        (heard, None)
    }
}
