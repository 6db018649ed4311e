//! One key of a pool over racks, and its commands, which go as the crate says. The places, and what is right, are modelled here.

mod broken;

pub use broken::Fault;

use crate::register::{INITIAL, Kind, Register, Told, value_of};
use crate::servers::{Content, Servers};
use crate::world;
use broken::Broken;
use evenkeel_schemes::locality::holder::{
    Command, Heard, Kind as Protocol, Machine, Next, Racks, Shown, Site, Wish,
};
use evenkeel_schemes::locality::topology::RackId;
use evenkeel_schemes::stage::Stage;

/// How much is searched.
#[derive(Clone, Copy)]
pub struct Scope {
    pub protocol: Protocol,
    pub racks: usize,
    pub ops: usize,
    pub kinds: &'static [Kind],
    /// The kinds are those of the commands one after the other, and not all that each may be.
    pub in_order: bool,
    pub evictions: u8,
    pub restarts: u8,
    pub given_up: u8,
    /// Whether the item is there at first, in the first rack.
    pub is_there: bool,
    /// Nothing is lost or missed, unless an item was evicted or another command was under way beside.
    pub strict: bool,
    /// Nothing begins anew.
    pub one_try: bool,
    /// Anyone who reads an item of another rack keeps a copy of it behind that.
    pub copies: bool,
    pub fault: Option<Fault>,
}

/// A command that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Running {
    op: usize,
    kind: Kind,
    rack: usize,
    machine: Option<Machine>,
    /// What it has asked, and where.
    asked: Vec<(usize, Command)>,
    /// By place, in which of its lives a unique was learnt there.
    lives: Vec<u8>,
    /// Times that it has begun anew.
    anew: u8,
    is_told: bool,
    /// Another was under way at some time.
    is_overlapped: bool,
    /// What an increment has been told it made.
    made: Option<u8>,
    /// By a broken rule, what is done first or kept back.
    broken: Broken,
}

/// What can happen next.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    Begins(Kind, usize),
    /// The command at this position has something executed, and takes the answer.
    Step(usize, usize),
    GiveUp(usize),
    Late(usize),
    Evict(usize),
    Restart(usize),
}

/// A request that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Late {
    op: usize,
    kind: Kind,
    place: usize,
    command: Command,
    life: u8,
}

/// The key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    servers: Servers,
    running: Vec<Running>,
    late: Vec<Late>,
    register: Register,
    begun: usize,
    evictions: u8,
    restarts: u8,
    given_up: u8,
    is_lossy: bool,
}

pub fn rack_id(rack: usize) -> RackId {
    RackId::all().nth(rack).expect("so few")
}

/// Where a site's item lies among the places: the directory is behind the racks.
pub fn place_of(site: Site, racks: usize) -> usize {
    match site {
        Site::Rack(rack) => rack.index(),
        Site::Directory => racks,
        Site::Former => unreachable!("there is none"),
    }
}

pub fn site_of(place: usize, racks: usize) -> Site {
    match place == racks {
        true => Site::Directory,
        false => Site::Rack(rack_id(place)),
    }
}

impl Key {
    pub fn new(scope: &Scope) -> Self {
        let places = scope.racks + usize::from(scope.protocol == Protocol::Directory);
        let mut servers = Servers::new(places, scope.racks);
        let mut register = Register::new();
        if scope.is_there {
            servers.put(0, Content::Value(INITIAL));
            let noted = match scope.protocol {
                Protocol::Snoop => 1..scope.racks,
                Protocol::Directory => scope.racks..places,
            };
            noted.for_each(|place| _ = servers.put(place, Content::Note(0)));
        } else {
            register.lose();
        }
        Key {
            servers,
            running: Vec::new(),
            late: Vec::new(),
            register,
            begun: 0,
            evictions: scope.evictions,
            restarts: scope.restarts,
            given_up: scope.given_up,
            is_lossy: false,
        }
    }

    fn begin(&mut self, kind: Kind, rack: usize, scope: &Scope) {
        let op = self.begun;
        self.begun += 1;
        self.register.begin(op, kind);
        let mut beside = self.running.iter_mut().filter(|other| !other.is_told);
        let mut is_overlapped = false;
        beside.by_ref().for_each(|other| {
            other.is_overlapped = true;
            is_overlapped = true;
        });
        let mut running = Running {
            op,
            kind,
            rack,
            machine: None,
            asked: Vec::new(),
            lives: vec![0; self.servers.places()],
            anew: 0,
            is_told: false,
            is_overlapped,
            made: None,
            broken: Broken::default(),
        };
        let racks = Racks::new(rack_id(rack), (0..scope.racks).map(rack_id));
        let wish = match (kind, scope.fault) {
            (Kind::Get, _) => {
                // The own place first, without a machine.
                running.asked.push((rack, Command::Own(None)));
                self.running.push(running);
                return;
            }
            (Kind::Add, Some(Fault::AddsAsSets)) => Wish::Set,
            (Kind::Set, _) => Wish::Set,
            (Kind::Add, _) => Wish::Add,
            (Kind::Delete, _) => Wish::Delete,
            _ => Wish::Change,
        };
        let (machine, next) = Machine::of_asked(scope.protocol, wish, racks, None, Stage::Done);
        running.machine = Some(machine);
        self.running.push(running);
        let at = self.running.len() - 1;
        self.go_on(at, next, scope);
    }

    /// Does what a machine says. False if what is told is wrong.
    fn go_on(&mut self, at: usize, next: Next, scope: &Scope) -> bool {
        let running = &mut self.running[at];
        running.anew += u8::from(next.pauses);
        let is_one_too_many = next.pauses && scope.one_try;
        let mut is_right = true;
        if let Some(shown) = next.show {
            let told = match (shown, running.kind) {
                (Shown::Own, Kind::Incr) => running.made.map_or(Told::Nothing, Told::Value),
                (Shown::Own | Shown::Stored(_), _) => Told::Done,
                (Shown::Miss, Kind::Delete) => Told::Done,
                (Shown::Miss, _) => Told::Nothing,
                (Shown::NotStored, _) => Told::NotStored,
                (Shown::Busy | Shown::Failed(_), _) => Told::Unknown,
            };
            is_right = self.tell(at, told, scope);
        }
        let running = &mut self.running[at];
        if is_one_too_many || matches!(next.show, Some(Shown::Busy)) {
            // Its notes may have covered an item.
            self.is_lossy = true;
        }
        if is_one_too_many {
            let op = running.op;
            self.register.tell(op, Told::Unknown, (true, true));
            self.running.remove(at);
            return is_right;
        }
        if let Some((command, sites)) = next.ask {
            is_right &= self.ask(at, command, sites, scope);
        }
        let is_over = |running: &Running| running.asked.is_empty() && running.is_told;
        if self.running.get(at).is_some_and(is_over) {
            self.running.remove(at);
        }
        is_right
    }

    fn tell(&mut self, at: usize, told: Told, scope: &Scope) -> bool {
        let running = &mut self.running[at];
        running.is_told = true;
        let may_lose = !scope.strict || self.is_lossy;
        let may = (may_lose, may_lose || running.is_overlapped);
        self.register.tell(running.op, told, may)
    }

    /// Something is executed, and the answer taken. False if what is told is wrong.
    fn step(&mut self, at: usize, nth: usize, scope: &Scope) -> bool {
        let running = &mut self.running[at];
        let (place, command) = running.asked.remove(nth);
        let (op, kind) = (running.op, running.kind);
        let life = running.lives[place];
        let goes_on = scope.fault == Some(Fault::GoesOnAfterRestart);
        let is_stale = command.is_bound() && life != self.servers.life(place) && !goes_on;
        let (heard, value) = match is_stale {
            true => (Heard::Refused, None),
            false => self
                .servers
                .execute(place, command, (op, kind), scope.fault),
        };
        let running = &mut self.running[at];
        if matches!(
            heard,
            Heard::Item(_) | Heard::Lock(_) | Heard::Note(..) | Heard::Done(_)
        ) {
            running.lives[place] = self.servers.life(place);
        }
        if let (Command::Own(Some(_)), Kind::Incr, Heard::Done(_)) = (command, kind, heard) {
            running.made = value;
        }
        if kind == Kind::Get && running.machine.is_none() {
            return self.read_here(at, heard, value, scope);
        }
        let (place, heard) = match self.hold(at, (place, command), heard, scope) {
            Some(heard) => heard,
            None => return true,
        };
        let running = &mut self.running[at];
        let site = site_of(place, scope.racks);
        let machine = running.machine.as_mut().expect("it has one");
        let next = machine.handle(site, heard);
        if let (Kind::Get, Some(Shown::Own)) = (kind, next.show) {
            let told = value.map_or(Told::Nothing, Told::Value);
            let is_right = self.tell(at, told, scope);
            return match site {
                Site::Rack(holder) if scope.copies => self.copy(at, holder, scope) && is_right,
                _ => {
                    self.running.remove(at);
                    is_right
                }
            };
        }
        self.go_on(at, next, scope)
    }

    /// A get has been answered by another rack: a copy of that is kept.
    fn copy(&mut self, at: usize, holder: RackId, scope: &Scope) -> bool {
        let running = &mut self.running[at];
        let racks = Racks::new(rack_id(running.rack), (0..scope.racks).map(rack_id));
        let (machine, next) = Machine::of_copy(scope.protocol, racks, holder);
        running.machine = Some(machine);
        self.go_on(at, next, scope)
    }

    /// A get has looked at its own place.
    fn read_here(&mut self, at: usize, heard: Heard, value: Option<u8>, scope: &Scope) -> bool {
        if let Heard::Item(_) = heard {
            let is_right = self.tell(at, value.map_or(Told::Nothing, Told::Value), scope);
            self.running.remove(at);
            return is_right;
        }
        let racks = Racks::new(
            rack_id(self.running[at].rack),
            (0..scope.racks).map(rack_id),
        );
        let (machine, next) = Machine::of_read(scope.protocol, racks, heard, Stage::Done);
        self.running[at].machine = Some(machine);
        self.go_on(at, next, scope)
    }

    fn give_up(&mut self, at: usize) -> bool {
        let running = self.running.remove(at);
        let lates = running.asked.iter().filter(|(_, command)| match command {
            Command::Note(..) => true,
            Command::Look => false,
            _ => !running.kind.reads(),
        });
        self.late.extend(lates.map(|(place, command)| Late {
            op: running.op,
            kind: running.kind,
            place: *place,
            command: *command,
            life: running.lives[*place],
        }));
        running.is_told || self.register.tell(running.op, Told::Unknown, (true, true))
    }
}

impl world::World for Key {
    type Scope = Scope;
    type Event = Event;

    fn events(&self, scope: &Scope) -> Vec<Event> {
        let mut events = Vec::new();
        if self.begun < scope.ops {
            let kinds = match scope.in_order {
                true => &scope.kinds[self.begun..=self.begun],
                false => scope.kinds,
            };
            for kind in kinds {
                events.extend((0..scope.racks).map(|rack| Event::Begins(*kind, rack)));
            }
        }
        for (at, running) in self.running.iter().enumerate() {
            events.extend((0..running.asked.len()).map(|nth| Event::Step(at, nth)));
            if self.given_up > 0 {
                events.push(Event::GiveUp(at));
            }
        }
        events.extend((0..self.late.len()).map(Event::Late));
        let places = 0..self.servers.places();
        if self.evictions > 0 {
            let there = places.clone().filter(|place| self.servers.has(*place));
            events.extend(there.map(Event::Evict));
        }
        if self.restarts > 0 {
            let used = places.filter(|place| self.servers.was_used(*place));
            events.extend(used.map(Event::Restart));
        }
        events
    }

    fn happen(&mut self, event: Event, scope: &Scope) -> bool {
        match event {
            Event::Begins(kind, rack) => self.begin(kind, rack, scope),
            Event::Step(at, nth) => return self.step(at, nth, scope),
            Event::GiveUp(at) => {
                self.given_up -= 1;
                return self.give_up(at);
            }
            Event::Late(nth) => {
                let late = self.late.remove(nth);
                // What was sent before a restart is lost with its connection.
                if !late.command.is_bound() || late.life == self.servers.life(late.place) {
                    self.servers.execute(
                        late.place,
                        late.command,
                        (late.op, late.kind),
                        scope.fault,
                    );
                }
            }
            Event::Evict(place) => {
                self.evictions -= 1;
                self.is_lossy = true;
                self.servers.evict(place);
            }
            Event::Restart(place) => {
                self.restarts -= 1;
                self.is_lossy = true;
                self.servers.restart(place);
                self.late.retain(|late| late.place != place);
            }
        }
        true
    }

    fn describe(&self, event: Event) -> String {
        let of = |at: usize| {
            let Running { op, kind, rack, .. } = &self.running[at];
            format!("{kind:?} {op} in rack {rack} (value {})", value_of(*op))
        };
        match event {
            Event::Begins(kind, rack) => format!("begins: {kind:?} in rack {rack}"),
            Event::Step(at, nth) => {
                let (place, command) = self.running[at].asked[nth];
                format!(
                    "{}: {command:?} at {place}; {}",
                    of(at),
                    self.servers.told(place)
                )
            }
            Event::GiveUp(at) => format!("{} is given up", of(at)),
            Event::Late(nth) => format!("late: {:?}", self.late[nth]),
            Event::Evict(place) => format!("evicted at {place}"),
            Event::Restart(place) => format!("{place} starts anew"),
        }
    }
}
