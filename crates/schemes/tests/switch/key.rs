//! One key, its commands, and the stages that go by.

use crate::frame::{Doing, Frame, place_of, racks_of, site_of};
use crate::register::{Kind, Register, Told, value_of};
use crate::servers::{Ask, Came, For, Layer, Place, RACKS, Servers, rack_id};
use crate::world;
use evenkeel_schemes::locality::holder::{self, Command, Heard, Machine, Shown, Site};
use evenkeel_schemes::stage::Stage;
use evenkeel_schemes::warm::{self, Warming};

/// How much is searched.
#[derive(Clone, Copy)]
pub struct Scope {
    /// The former architecture and the new one.
    pub layers: [Layer; 2],
    pub ops: usize,
    pub kinds: &'static [Kind],
    /// The commands are of these kinds one after the other, and not each of any.
    pub in_order: bool,
    pub evictions: u8,
    pub restarts: u8,
    pub given_up: u8,
    /// Nothing is lost or missed, unless an item was evicted or another command was under way beside.
    pub strict: bool,
    /// A note in the new directory names the second rack, whose item was evicted: one that was brought there by a read.
    pub dangles: bool,
    /// The first stage and the last.
    pub stages: (Stage, Stage),
    pub fault: Option<Fault>,
}

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    FormerIsNotCleared,
    /// Of the former architecture the own place is cleared and no other.
    OwnPlaceIsCleared,
    /// A fill fetches before its lock stands.
    FetchesFirst,
    /// A fill fetches when its lock stands, and not what others are told of it.
    FetchesBehindLock,
    FillIgnoresUnique,
    /// Items of an earlier time, in which the pool was by the new architecture, have the names that items get.
    NamesAreUsedAgain,
    QuiescedIsLeftOut,
    ClosingIsLeftOut,
    ClosingDoesNotClear,
    CommandsAreNotAwaited,
    TwoStagesApart,
}

/// A command that is under way. Of its frames the last one goes on; each other waits for what the next one comes to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Running {
    op: usize,
    kind: Kind,
    rack: usize,
    stage: Stage,
    frames: Vec<Frame>,
    is_told: bool,
    /// Another was under way at some time.
    is_overlapped: bool,
}

/// A request that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Late {
    place: Place,
    ask: Ask,
    by: For,
    life: u8,
}

/// What can happen next.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    Begins(Kind, usize, Stage),
    Stage(Stage),
    /// The command at this position has something executed, and takes the answer.
    Step(usize, usize),
    GiveUp(usize),
    Late(usize),
    Evict(Place),
    Restart(Place),
}

/// The key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    servers: Servers,
    stage: Stage,
    running: Vec<Running>,
    late: Vec<Late>,
    register: Register,
    begun: usize,
    evictions: u8,
    restarts: u8,
    given_up: u8,
    is_lossy: bool,
}

impl Key {
    pub fn new(scope: &Scope) -> Self {
        Key {
            servers: Servers::new(scope),
            stage: scope.stages.0,
            running: Vec::new(),
            late: Vec::new(),
            register: Register::new(),
            begun: 0,
            evictions: scope.evictions,
            restarts: scope.restarts,
            given_up: scope.given_up,
            is_lossy: false,
        }
    }

    fn begin(&mut self, kind: Kind, rack: usize, stage: Stage, scope: &Scope) -> bool {
        let op = self.begun;
        self.begun += 1;
        self.register.begin(op, kind);
        let mut is_overlapped = false;
        for other in self.running.iter_mut().filter(|other| !other.is_told) {
            other.is_overlapped = true;
            is_overlapped = true;
        }
        self.running.push(Running {
            op,
            kind,
            rack,
            stage,
            frames: Vec::new(),
            is_told: false,
            is_overlapped,
        });
        let at = self.running.len() - 1;
        let is_warm = stage.takes_steps() && scope.layers[1] == Layer::Plain && !kind.reads();
        if is_warm {
            let wish = match kind {
                Kind::Set | Kind::Delete => warm::Wish::Overwrite,
                Kind::Add => warm::Wish::Add,
                _ => warm::Wish::Change,
            };
            let (mut frame, _) = Frame::new(1, kind, rack, stage, scope);
            let (machine, command) = Warming::of_write(wish, stage.fills());
            frame.asked.clear();
            frame.doing = Doing::Warm(machine);
            self.running[at].frames.push(frame);
            return self.ask_warm(at, command, scope);
        }
        let (layer, by) = match stage {
            Stage::Former => (0, Stage::Done),
            stage => (1, stage),
        };
        self.enter(at, layer, kind, by, scope)
    }

    /// An architecture is to execute a command.
    fn enter(&mut self, at: usize, layer: usize, kind: Kind, by: Stage, scope: &Scope) -> bool {
        let running = &mut self.running[at];
        let (frame, next) = Frame::new(layer, kind, running.rack, by, scope);
        running.frames.push(frame);
        self.go_on(at, next, None, scope)
    }

    fn top(&mut self, at: usize) -> &mut Frame {
        let frames = &mut self.running[at].frames;
        frames.last_mut().expect("it waits for something")
    }

    /// Something is executed, and the answer taken. False if what is told is wrong.
    fn step(&mut self, at: usize, nth: usize, scope: &Scope) -> bool {
        let (op, stage) = (self.running[at].op, self.running[at].stage);
        let rack = self.running[at].rack;
        let frame = self.top(at);
        let (place, ask) = frame.asked.remove(nth);
        let (by, life) = (frame.by(op), frame.life(place));
        let is_stale = ask.is_bound() && life != self.servers.life(place);
        let came = match (is_stale, ask) {
            (true, Ask::Racks(_)) => Came::Racks(Heard::Refused, None),
            (true, _) => Came::Warm(warm::Heard::Refused, Told::Unknown),
            (false, ask) => self.servers.execute(place, ask, by, scope.fault),
        };
        if let (Some(Fault::FetchesBehindLock), Ask::Racks(Command::Lock)) = (scope.fault, ask) {
            let former = place_of(0, Site::Rack(rack_id(0)));
            self.top(at).filled = self.servers.value(former);
        }
        let life = self.servers.life(place);
        let is_empty = !self.servers.has(place);
        // Who is told of the answer goes by the stage in which its proxy is by then.
        let before = Stage::ALL[(self.stage as usize).saturating_sub(1)];
        let present = stage.max(before);
        let frame = self.top(at);
        frame.learn(place, life);
        let is_here = frame.layer == 1;
        match (&mut frame.doing, came) {
            (Doing::Single, Came::Told(told)) => {
                let fills = is_here && present.fills() && frame.kind.reads();
                if told == Told::Nothing && is_empty && fills {
                    let (machine, command) = Warming::of_read(warm::Wish::Read);
                    frame.doing = Doing::Warm(machine);
                    return self.ask_warm(at, command, scope);
                }
                self.come_to(at, told, scope)
            }
            (Doing::Single, Came::Racks(Heard::Item(_), Some(value))) => {
                self.come_to(at, Told::Value(value), scope)
            }
            (Doing::Single, Came::Racks(heard, _)) => {
                let Layer::Racks(protocol) = scope.layers[frame.layer] else {
                    unreachable!("it has asked so")
                };
                let by = if is_here { present } else { Stage::Done };
                let (machine, next) = Machine::of_read(protocol, racks_of(rack), heard, by);
                frame.doing = Doing::Racks(machine);
                self.go_on(at, next, None, scope)
            }
            (Doing::Racks(machine), Came::Racks(heard, value)) => {
                let next = machine.handle(site_of(place), heard);
                if frame.kind == Kind::Incr && value.is_some() && heard != Heard::Nothing {
                    frame.made = value;
                }
                self.go_on(at, next, value, scope)
            }
            (Doing::Warm(machine), Came::Warm(heard, told)) => {
                let next = machine.handle(heard);
                self.go_on_warm(at, next, told, scope)
            }
            _ => unreachable!("each hears what it has asked"),
        }
    }

    /// Does what a command between racks says. False if what is told is wrong.
    fn go_on(&mut self, at: usize, next: holder::Next, value: Option<u8>, scope: &Scope) -> bool {
        if next.pauses {
            // It would begin anew: that is another command. What it has put may have covered an item.
            return self.give_in(at);
        }
        let frame = self.top(at);
        let (layer, kind) = (frame.layer, frame.kind);
        let shown = next.show.map(|shown| match (shown, kind) {
            (Shown::Own, Kind::Incr) => frame.made.map_or(Told::Nothing, Told::Value),
            (Shown::Own, kind) if kind.reads() => value.map_or(Told::Nothing, Told::Value),
            (Shown::Own, _) | (Shown::Miss, Kind::Delete) => Told::Done,
            (Shown::Stored(_), _) => frame.filled.map_or(Told::Nothing, Told::Value),
            (Shown::Miss, _) => Told::Nothing,
            (Shown::NotStored, _) => Told::NotStored,
            (Shown::Busy | Shown::Failed(_), _) => Told::Unknown,
        });
        let mut is_right = true;
        if let Some((command, sites)) = next.ask {
            for site in sites.iter().filter(|site| *site != Site::Former) {
                let place = place_of(layer, site);
                self.top(at).asked.push((place, Ask::Racks(command)));
            }
            if sites.has(Site::Former) {
                return self.ask_former(at, command, scope);
            }
        }
        if let Some(told) = shown {
            is_right = self.come_to(at, told, scope);
        }
        self.end(at);
        is_right
    }

    /// The former architecture is asked: by what it does for an application.
    fn ask_former(&mut self, at: usize, command: Command, scope: &Scope) -> bool {
        let fault = scope.fault;
        let is_cleared = match fault {
            Some(Fault::FormerIsNotCleared) => true,
            Some(Fault::ClosingDoesNotClear) => self.running[at].stage == Stage::Closing,
            _ => false,
        };
        match command {
            Command::Delete(_) if is_cleared => self.handle_former(at, Told::Done, scope),
            Command::Delete(_) if fault == Some(Fault::OwnPlaceIsCleared) => {
                let own = Site::Rack(rack_id(self.running[at].rack));
                self.servers.remove(place_of(0, own));
                self.handle_former(at, Told::Done, scope)
            }
            Command::Delete(_) => self.enter(at, 0, Kind::Delete, Stage::Done, scope),
            Command::Fetch
                if matches!(fault, Some(Fault::FetchesFirst | Fault::FetchesBehindLock)) =>
            {
                let told = self.top(at).filled.map_or(Told::Nothing, Told::Value);
                self.handle_former(at, told, scope)
            }
            _ => self.enter(at, 0, Kind::Get, Stage::Done, scope),
        }
    }

    /// What the former architecture has come to.
    fn handle_former(&mut self, at: usize, told: Told, scope: &Scope) -> bool {
        let frame = self.top(at);
        if let Told::Value(value) = told {
            frame.filled = Some(value);
        }
        match &mut frame.doing {
            Doing::Racks(machine) => {
                let heard = match told {
                    Told::Value(_) => Heard::Item(0),
                    Told::Unknown => Heard::Failed,
                    _ => Heard::Nothing,
                };
                let next = machine.handle(Site::Former, heard);
                self.go_on(at, next, None, scope)
            }
            Doing::Warm(machine) => {
                let heard = match told {
                    Told::Value(_) => warm::Heard::Item(0),
                    Told::Done => warm::Heard::Done(0),
                    Told::Unknown => warm::Heard::Failed,
                    _ => warm::Heard::Nothing,
                };
                let next = machine.handle(heard);
                self.go_on_warm(at, next, Told::Unknown, scope)
            }
            Doing::Single => unreachable!("it asks nothing of the former architecture"),
        }
    }

    fn ask_warm(&mut self, at: usize, command: warm::Command, scope: &Scope) -> bool {
        match command {
            warm::Command::Fetch => self.ask_former(at, Command::Fetch, scope),
            warm::Command::Clear => self.ask_former(at, Command::Delete(None), scope),
            command => {
                let place = place_of(1, Site::Rack(rack_id(0)));
                self.top(at).asked.push((place, Ask::Warm(command)));
                true
            }
        }
    }

    fn go_on_warm(&mut self, at: usize, next: warm::Next, told: Told, scope: &Scope) -> bool {
        let filled = self.top(at).filled;
        let shown = next.show.map(|shown| match shown {
            warm::Shown::Stored(_) => filled.map_or(Told::Nothing, Told::Value),
            warm::Shown::Miss => Told::Nothing,
            warm::Shown::Own => told,
            _ => Told::Unknown,
        });
        let asked = next
            .ask
            .is_none_or(|command| self.ask_warm(at, command, scope));
        let is_right = shown.is_none_or(|told| self.come_to(at, told, scope));
        self.end(at);
        asked && is_right
    }

    /// The last frame has come to this: the application is told, or who waits for it.
    fn come_to(&mut self, at: usize, told: Told, scope: &Scope) -> bool {
        let running = &mut self.running[at];
        if running.frames.len() > 1 {
            running.frames.pop();
            return self.handle_former(at, told, scope);
        }
        if told == Told::Unknown {
            self.is_lossy = true;
        }
        running.is_told = true;
        let may_lose = !scope.strict || self.is_lossy;
        let may = (may_lose, may_lose || running.is_overlapped);
        let is_right = self.register.tell(running.op, told, may);
        self.end(at);
        is_right
    }

    /// A command is over when it is told and nothing is asked any more.
    fn end(&mut self, at: usize) {
        let is_over = |running: &Running| {
            let mut frames = running.frames.iter();
            running.is_told && frames.all(|frame| frame.asked.is_empty())
        };
        if self.running.get(at).is_some_and(is_over) {
            self.running.remove(at);
        }
    }

    fn give_in(&mut self, at: usize) -> bool {
        self.is_lossy = true;
        let running = self.running.remove(at);
        running.is_told || self.register.tell(running.op, Told::Unknown, (true, true))
    }

    fn give_up(&mut self, at: usize) -> bool {
        let running = &self.running[at];
        for frame in &running.frames {
            let lates = frame.asked.iter().filter(|(_, ask)| !ask.reads());
            self.late.extend(lates.map(|(place, ask)| Late {
                place: *place,
                ask: *ask,
                by: frame.by(running.op),
                life: frame.life(*place),
            }));
        }
        self.give_in(at)
    }

    /// In which stages a command may begin.
    fn stages_of_beginners(&self, scope: &Scope) -> Vec<Stage> {
        let apart = 1 + usize::from(scope.fault == Some(Fault::TwoStagesApart));
        let present = self.stage as usize;
        let first = (scope.stages.0 as usize).max(present.saturating_sub(apart));
        let left_out = left_out(scope);
        let mut stages = Stage::ALL[first..=present].to_vec();
        if stages.iter().any(|stage| Some(*stage) == left_out) && first > 0 {
            stages.push(Stage::ALL[first - 1]);
        }
        stages.retain(|stage| Some(*stage) != left_out && *stage != Stage::Quiesced);
        stages
    }

    /// The stage that may begin: nothing that counts of the one before the present is under way.
    fn next_stage(&self, scope: &Scope) -> Option<Stage> {
        if self.stage == scope.stages.1 {
            return None;
        }
        let is_awaited = |running: &Running| {
            let frame = &running.frames[0];
            // A read here that has begun nothing is as good as none.
            let is_first_read =
                frame.doing == Doing::Single && frame.kind.reads() && frame.layer == 1;
            running.stage < self.stage && !is_first_read
        };
        let awaits = self.running.iter().any(is_awaited);
        if awaits && scope.fault != Some(Fault::CommandsAreNotAwaited) {
            return None;
        }
        let next = self.stage.next()?;
        // Placeholders live for two seconds, and the last stage begins later.
        let here = place_of(1, Site::Rack(rack_id(0)));
        let has_placeholder = scope.layers[1] == Layer::Plain && self.servers.has_lock(here);
        if next == Stage::Done && has_placeholder {
            return None;
        }
        match left_out(scope) {
            Some(left_out) if left_out == next => next.next(),
            _ => Some(next),
        }
    }
}

/// By some faults a stage is left out.
fn left_out(scope: &Scope) -> Option<Stage> {
    match scope.fault? {
        Fault::QuiescedIsLeftOut => Some(Stage::Quiesced),
        Fault::ClosingIsLeftOut => Some(Stage::Closing),
        _ => None,
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
            for stage in self.stages_of_beginners(scope) {
                for kind in kinds {
                    events.extend((0..RACKS).map(|rack| Event::Begins(*kind, rack, stage)));
                }
            }
        }
        events.extend(self.next_stage(scope).map(Event::Stage));
        for (at, running) in self.running.iter().enumerate() {
            let asked = running.frames.last().map_or(0, |frame| frame.asked.len());
            events.extend((0..asked).map(|nth| Event::Step(at, nth)));
            if self.given_up > 0 {
                events.push(Event::GiveUp(at));
            }
        }
        events.extend((0..self.late.len()).map(Event::Late));
        if self.evictions > 0 {
            let there = Place::all().filter(|place| self.servers.has(*place));
            events.extend(there.map(Event::Evict));
        }
        if self.restarts > 0 {
            let used = Place::all().filter(|place| self.servers.was_used(*place));
            events.extend(used.map(Event::Restart));
        }
        events
    }

    fn happen(&mut self, event: Event, scope: &Scope) -> bool {
        match event {
            Event::Begins(kind, rack, stage) => return self.begin(kind, rack, stage, scope),
            Event::Stage(stage) => self.stage = stage,
            Event::Step(at, nth) => return self.step(at, nth, scope),
            Event::GiveUp(at) => {
                self.given_up -= 1;
                return self.give_up(at);
            }
            Event::Late(nth) => {
                let Late {
                    place,
                    ask,
                    by,
                    life,
                } = self.late.remove(nth);
                // What was sent before a restart is lost with its connection.
                if !ask.is_bound() || life == self.servers.life(place) {
                    self.servers.execute(place, ask, by, scope.fault);
                }
            }
            Event::Evict(place) => {
                self.evictions -= 1;
                self.is_lossy = true;
                self.servers.remove(place);
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
            Event::Begins(kind, rack, stage) => format!("begins: {kind:?} in rack {rack}, {stage}"),
            Event::Stage(stage) => stage.to_string(),
            Event::Step(at, nth) => {
                let frame = self.running[at].frames.last();
                let (place, ask) = frame.expect("it waits for something").asked[nth];
                format!(
                    "{}: {ask:?} at {place:?}; {}",
                    of(at),
                    self.servers.told(place)
                )
            }
            Event::GiveUp(at) => format!("{} is given up", of(at)),
            Event::Late(nth) => format!("late: {:?}", self.late[nth]),
            Event::Evict(place) => format!("evicted at {place:?}"),
            Event::Restart(place) => format!("{place:?} starts anew"),
        }
    }
}
