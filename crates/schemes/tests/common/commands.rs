//! All that can happen to the commands of one key: they begin and go on as the crate says, servers evict and start anew, requests are given
//! up and may be executed later.

use super::register::{Kind, OPS, Register, Told};
use super::servers::{Asked, Place, SERVERS, Servers, shown};
use evenkeel_schemes::stage::Stage;
use evenkeel_schemes::warm::{Command, Heard, Next, Shown, Warming, Wish};

/// How much is searched.
#[derive(Clone, Copy)]
pub struct Scope {
    pub ops: usize,
    pub kinds: &'static [Kind],
    /// The commands are of these kinds one after the other, and not each of any.
    pub in_order: bool,
    pub evictions: u8,
    pub restarts: u8,
    pub given_up: u8,
    pub strict: bool,
    /// The first stage and the last.
    #[allow(dead_code, reason = "a slice goes through all")]
    pub stages: (Stage, Stage),
    pub fault: Option<Fault>,
}

/// A rule that is broken.
#[allow(dead_code, reason = "each search breaks some of them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    FillIgnoresUnique,
    PlaceholderCovers,
    RemovalIgnoresUnique,
    MarkIsShown,
    FormerIsNotCleared,
    FormerIsClearedAfterwards,
    ChangesDoNotClear,
    ChangesAreNotBound,
    AddTakesPlaceholdersForItems,
    GoesOnAfterRestart,
    FetchesBeforePlacing,
    QuiescedIsLeftOut,
    ReadsGoOnWhileQuiesced,
    ReadsGoHereWhileQuiesced,
    ClosingDoesNotClear,
    ShownBeforeStored,
    PlaceholdersAreReadThrough,
    ClosingIsLeftOut,
    TwoStagesApart,
    CommandsAreNotAwaited,
    FormerReadsAreNotAwaited,
    MaskIsLeftOut,
    GenerationIsReused,
    NamesHaveNoGeneration,
    PlanBeginsUnawaited,
    NobodyIsLeftOut,
}

/// By what a command works, from its beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    pub version: u64,
    /// `None` where nobody is asked.
    pub stage: Option<Stage>,
    pub former: Place,
    pub here: Place,
}

impl State {
    pub fn is_at(&self, stage: Stage) -> bool {
        self.stage == Some(stage)
    }
}

/// What a running command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    /// The one request of who knows this place alone.
    At(Place),
    FirstRead,
    Step(Command),
    /// By a fault: deletes at the former place behind its own command.
    ClearLate(Told),
}

/// A command that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Running {
    pub asked: Asked,
    pub state: State,
    machine: Option<Warming>,
    pub doing: Doing,
    fetched: Option<u8>,
    /// In which life of the server it has learnt a unique.
    life: u8,
    /// The application has its answer.
    told: bool,
    /// Another was under way at some time.
    beside: bool,
    clears_late: bool,
}

impl Running {
    /// The server of its next request.
    fn server(&self) -> u8 {
        match self.doing {
            Doing::At(place) => place.server,
            Doing::Step(command) if command.is_of_former() => self.state.former.server,
            Doing::ClearLate(_) => self.state.former.server,
            Doing::FirstRead | Doing::Step(_) => self.state.here.server,
        }
    }
}

/// What can happen next.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A request is executed, and its answer taken.
    Step(usize),
    /// A request is given up.
    GiveUp(usize),
    /// One that was given up is executed.
    Late(usize),
    Evict(Place),
    Restart(u8),
}

/// One key, and its commands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub servers: Servers,
    /// How often each server was started anew.
    lives: [u8; SERVERS],
    /// Those that have begun; nothing of those that are over.
    ops: Vec<Option<Running>>,
    register: Register,
    /// What applications have read with uniques, as they saw them.
    seen: Vec<(u8, u64)>,
    /// Given up, and perhaps executed later: as it was, with the life of its server.
    late: Vec<(Running, u8)>,
    /// Nothing begins to fill any more, whenever it has begun.
    pub fills_no_more: bool,
    evictions: u8,
    restarts: u8,
    given_up: u8,
}

impl Key {
    pub fn new(scope: &Scope, first: Place) -> Self {
        assert!(scope.ops <= OPS);
        Key {
            servers: Servers::new(first),
            lives: [0; SERVERS],
            ops: Vec::new(),
            register: Register::new(),
            seen: Vec::new(),
            late: Vec::new(),
            fills_no_more: false,
            evictions: scope.evictions,
            restarts: scope.restarts,
            given_up: scope.given_up,
        }
    }

    pub fn running(&self) -> impl Iterator<Item = &Running> {
        self.ops.iter().flatten()
    }

    /// What an application may ask next.
    pub fn beginners(&self, scope: &Scope) -> Vec<(Kind, Option<u64>)> {
        let mut asked = Vec::new();
        if self.ops.len() == scope.ops {
            return asked;
        }
        let kinds = match scope.in_order {
            true => &scope.kinds[self.ops.len()..][..1],
            false => scope.kinds,
        };
        for &kind in kinds {
            match kind {
                Kind::Cas(_) => {
                    let seen = self.seen.iter();
                    asked.extend(seen.map(|(read, unique)| (Kind::Cas(*read), Some(*unique))));
                }
                _ => asked.push((kind, None)),
            }
        }
        asked
    }

    /// Whether something may be lost, and whether a command may miss what is there.
    fn may(&self, op: usize, scope: &Scope) -> (bool, bool) {
        let beside = self.ops[op].as_ref().is_some_and(|op| op.beside);
        let was_lost = self.evictions < scope.evictions || self.restarts < scope.restarts;
        let may_lose = !scope.strict || was_lost;
        (may_lose, may_lose || beside)
    }

    fn life_of(&self, server: u8) -> u8 {
        self.lives[usize::from(server)]
    }

    /// A command begins.
    pub fn begin(&mut self, (kind, unique): (Kind, Option<u64>), state: State, scope: &Scope) {
        let stage = state.stage.expect("somebody is asked");
        let wish = match kind {
            Kind::Get | Kind::Gets | Kind::ReadHere => None,
            Kind::Set | Kind::Delete => Some(Wish::Overwrite),
            Kind::Add => Some(Wish::Add),
            Kind::Incr => Some(Wish::Change),
            // The condition of a compare-and-swap is the application's.
            Kind::Touch | Kind::Cas(_) => Some(Wish::Touch),
        };
        let others = self.running().next().is_some();
        for running in self.ops.iter_mut().flatten() {
            running.beside = true;
        }
        let reads_here = scope.fault == Some(Fault::ReadsGoHereWhileQuiesced);
        let (machine, doing) = match (stage, wish) {
            (Stage::Quiesced, _) if reads_here => (None, Doing::FirstRead),
            (Stage::Former | Stage::Quiesced, _) => (None, Doing::At(state.former)),
            (_, Some(wish)) if stage.takes_steps() => {
                let (machine, command) = Warming::of_write(wish, stage.fills());
                (Some(machine), Doing::Step(command))
            }
            (_, Some(_)) => (None, Doing::At(state.here)),
            (_, None) => (None, Doing::FirstRead),
        };
        let op = self.ops.len();
        self.register.begin(op, kind);
        self.ops.push(Some(Running {
            asked: Asked { op, kind, unique },
            state,
            machine,
            doing,
            fetched: None,
            life: self.life_of(state.here.server),
            told: false,
            beside: others,
            clears_late: false,
        }));
        self.skip_clearing(op, scope.fault);
    }

    /// By some faults a command that is to delete at the former place does not, or not yet.
    fn skip_clearing(&mut self, at: usize, fault: Option<Fault>) {
        let running = self.at(at);
        if running.doing != Doing::Step(Command::Clear) {
            return;
        }
        match fault {
            Some(Fault::FormerIsClearedAfterwards) => running.clears_late = true,
            Some(Fault::ChangesDoNotClear) if running.asked.kind == Kind::Incr => {}
            Some(Fault::ClosingDoesNotClear) if running.state.is_at(Stage::Closing) => {}
            _ => return,
        }
        let machine = running.machine.as_mut().expect("it takes steps");
        let next = machine.handle(Heard::Done(0));
        running.doing = Doing::Step(next.ask.expect("its own command or a removal"));
    }

    /// A running command's next request is executed, and its answer taken. False if what is told is wrong.
    fn step(&mut self, at: usize, scope: &Scope) -> bool {
        let fault = scope.fault;
        let Running {
            asked,
            state,
            doing,
            fetched,
            life,
            machine,
            ..
        } = self.at(at).clone();
        let command = match doing {
            Doing::At(place) => {
                let (heard, mut told) = self.servers.execute_own(place, asked, None, fault);
                // A placeholder that was given up may have arrived where none is looked for any more.
                if matches!(heard, Heard::Mark(_)) && fault != Some(Fault::MarkIsShown) {
                    told = Told::Nothing;
                }
                self.note_seen(at, (told, heard), place, fault);
                return self.end(at, told, scope);
            }
            Doing::FirstRead => {
                let (heard, told) = self.servers.execute_own(state.here, asked, None, fault);
                let is_mark = matches!(heard, Heard::Mark(_));
                if matches!(heard, Heard::Item(_)) || is_mark && fault == Some(Fault::MarkIsShown) {
                    self.note_seen(at, (told, heard), state.here, fault);
                    return self.end(at, told, scope);
                }
                if is_mark && fault == Some(Fault::PlaceholdersAreReadThrough) {
                    self.at(at).doing = Doing::At(state.former);
                    return true;
                }
                // Who fills no more does not begin to, whenever the command has begun.
                let fills_early = fault == Some(Fault::ReadsGoHereWhileQuiesced);
                let fills = state.stage.is_some_and(Stage::fills)
                    || fills_early && state.is_at(Stage::Quiesced);
                if is_mark || !fills || self.fills_no_more {
                    return self.end(at, Told::Nothing, scope);
                }
                let wish = match asked.kind {
                    Kind::ReadHere => Wish::ReadHere,
                    _ => Wish::Read,
                };
                let (machine, command) = Warming::of_read(wish);
                let early = self.servers.value_at(state.former);
                let running = self.at(at);
                running.machine = Some(machine);
                running.doing = Doing::Step(command);
                running.fetched = early.filter(|_| fault == Some(Fault::FetchesBeforePlacing));
                return true;
            }
            Doing::ClearLate(told) => {
                self.servers.remove(state.former);
                return self.end(at, told, scope);
            }
            Doing::Step(command) => command,
        };
        let present = self.life_of(state.here.server);
        let is_stale = life != present && fault != Some(Fault::GoesOnAfterRestart);
        let (mut heard, told, value) = match command.is_bound() && is_stale {
            true => (Heard::Refused, Some(Told::Unknown), None),
            false => (self.servers).execute(command, asked, (state, fetched), fault),
        };
        let mut value = value.or(fetched);
        let fetched_before = fetched.filter(|_| fault == Some(Fault::FetchesBeforePlacing));
        if command == Command::Fetch && fetched_before.is_some() {
            (heard, value) = (Heard::Item(0), fetched_before);
        }
        let mut machine = machine.expect("it takes steps");
        let mut next = machine.handle(heard);
        if fault == Some(Fault::AddTakesPlaceholdersForItems)
            && asked.kind == Kind::Add
            && (matches!(heard, Heard::Mark(_)) && command == Command::Look
                || matches!((heard, command), (Heard::Refused, Command::Own(_))))
        {
            return self.end(at, Told::NotStored, scope);
        }
        let learns = matches!(
            (command, heard),
            (Command::Look, _) | (_, Heard::Done(_)) if !command.is_of_former()
        );
        let running = self.at(at);
        running.machine = Some(machine);
        running.fetched = value;
        if learns {
            running.life = present;
        }
        let mut shown = next.show.take();
        let is_early = fault == Some(Fault::ShownBeforeStored) && asked.kind == Kind::Get;
        if is_early && command == Command::Fetch {
            shown = shown.or(value.map(|_| Shown::Stored(0)));
        }
        if let Some(told) = told {
            self.note_seen(at, (told, heard), state.here, fault);
        }
        self.go_on(at, shown, next, told, scope)
    }

    /// A command that is under way.
    fn at(&mut self, at: usize) -> &mut Running {
        self.ops[at].as_mut().expect("it is under way")
    }

    /// Keeps what a command that asks for uniques has read.
    fn note_seen(
        &mut self,
        at: usize,
        (told, heard): (Told, Heard),
        place: Place,
        fault: Option<Fault>,
    ) {
        let (Told::Value(value), Heard::Item(unique)) = (told, heard) else {
            return;
        };
        let seen = (value, shown(place, unique, fault));
        if self.at(at).asked.kind == Kind::Gets && !self.seen.contains(&seen) {
            self.seen.push(seen);
            self.seen.sort_unstable();
        }
    }

    /// Tells the application, and asks what is next.
    fn go_on(
        &mut self,
        at: usize,
        shown: Option<Shown>,
        next: Next,
        told: Option<Told>,
        scope: &Scope,
    ) -> bool {
        let running = self.at(at);
        let (fetched, clears_late) = (running.fetched, running.clears_late);
        let here = running.state.here;
        let was_early = scope.fault == Some(Fault::ShownBeforeStored) && running.told;
        if let Some(shown) = shown.filter(|_| !was_early) {
            assert!(!running.told, "told twice");
            let told = match shown {
                Shown::Stored(_) => Told::Value(fetched.expect("something was fetched")),
                Shown::Miss => Told::Nothing,
                Shown::Own => told.expect("its own command was answered"),
                Shown::Busy | Shown::Failed | Shown::FormerFailed => Told::Unknown,
            };
            if let Shown::Stored(unique) = shown {
                self.note_seen(at, (told, Heard::Item(unique)), here, scope.fault);
            }
            if shown == Shown::Own && clears_late {
                self.at(at).doing = Doing::ClearLate(told);
                return true;
            }
            let may = self.may(at, scope);
            if !self.register.tell(at, told, may) {
                return false;
            }
            self.at(at).told = true;
        }
        match next.ask {
            None => self.ops[at] = None,
            Some(command) => {
                self.at(at).doing = Doing::Step(command);
                self.skip_clearing(at, scope.fault);
            }
        }
        true
    }

    fn end(&mut self, at: usize, told: Told, scope: &Scope) -> bool {
        let may = self.may(at, scope);
        self.ops[at] = None;
        self.register.tell(at, told, may)
    }

    /// A running command's request is given up: nobody knows what becomes of it. False if what is told is wrong.
    fn give_up(&mut self, at: usize, scope: &Scope) -> bool {
        let running = self.at(at).clone();
        let life = self.life_of(running.server());
        // What only reads changes nothing later.
        let changes = match running.doing {
            Doing::At(_) => !running.asked.kind.reads(),
            Doing::Step(command) => !matches!(command, Command::Look | Command::Fetch),
            Doing::FirstRead | Doing::ClearLate(_) => false,
        };
        if changes {
            self.late.push((running.clone(), life));
        }
        match (running.doing, running.machine) {
            // An application's own command that is lost is not the machine's business any more.
            (Doing::Step(command), Some(mut machine)) if !matches!(command, Command::Own(_)) => {
                let next = machine.handle(Heard::Failed);
                self.at(at).machine = Some(machine);
                self.go_on(at, next.show, next, None, scope)
            }
            _ => self.end(at, Told::Unknown, scope),
        }
    }

    /// What was given up is executed.
    fn arrive(&mut self, index: usize, scope: &Scope) {
        let (running, life) = self.late.remove(index);
        if life != self.life_of(running.server()) {
            return;
        }
        let (asked, state) = (running.asked, running.state);
        match running.doing {
            Doing::At(place) => {
                (self.servers).execute_own(place, asked, None, scope.fault);
            }
            Doing::Step(command) => {
                let with = (state, running.fetched);
                self.servers.execute(command, asked, with, scope.fault);
            }
            Doing::FirstRead | Doing::ClearLate(_) => {}
        }
    }

    /// A server starts anew, and counts from one again. What was asked of it is lost with its connections.
    fn restart(&mut self, server: u8, scope: &Scope) -> bool {
        self.servers.restart(server);
        self.lives[usize::from(server)] += 1;
        self.late.retain(|(running, _)| running.server() != server);
        for at in 0..self.ops.len() {
            let is_there = self.ops[at]
                .as_ref()
                .is_some_and(|op| op.server() == server);
            // By the fault it is asked again as if nothing had been.
            if is_there && scope.fault != Some(Fault::GoesOnAfterRestart) {
                let late = self.late.len();
                if !self.give_up(at, scope) {
                    return false;
                }
                self.late.truncate(late);
            }
        }
        true
    }

    /// All that can happen next, but that another command begins.
    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for running in self.running() {
            events.push(Event::Step(running.asked.op));
            if self.given_up > 0 {
                events.push(Event::GiveUp(running.asked.op));
            }
        }
        events.extend((0..self.late.len()).map(Event::Late));
        if self.evictions > 0 {
            events.extend(self.servers.places().map(Event::Evict));
        }
        if self.restarts > 0 {
            let used = (0..SERVERS as u8).filter(|server| self.servers.was_used(*server));
            events.extend(used.map(Event::Restart));
        }
        events
    }

    /// It happens. False if what is told is wrong.
    pub fn happen(&mut self, event: Event, scope: &Scope) -> bool {
        match event {
            Event::Step(at) => return self.step(at, scope),
            Event::GiveUp(at) => {
                self.given_up -= 1;
                return self.give_up(at, scope);
            }
            Event::Restart(server) => {
                self.restarts -= 1;
                return self.restart(server, scope);
            }
            Event::Late(index) => self.arrive(index, scope),
            Event::Evict(place) => {
                self.evictions -= 1;
                self.servers.remove(place);
            }
        }
        true
    }

    /// It, in words.
    pub fn describe(&self, event: Event) -> String {
        let of = |running: &Running| {
            let Running { asked, doing, .. } = running;
            format!("{} {:?} {doing:?}", asked.op, asked.kind)
        };
        match event {
            Event::Step(at) => self.ops[at].as_ref().map_or(String::new(), of),
            Event::GiveUp(at) => {
                let what = self.ops[at].as_ref().map_or(String::new(), of);
                format!("{what} is given up")
            }
            Event::Late(index) => format!("late: {}", of(&self.late[index].0)),
            Event::Evict(place) => format!("evicted at {place:?}"),
            Event::Restart(server) => format!("server {server} starts anew"),
        }
    }
}
