//! One key and its commands, which go as the crate says, while copies are switched on and off.
//!
//! Copies are switched in versions: four for each time, of which the first is *off*, as the last of the time before is. Commands begin in
//! the present version or in the one before it, as they would at several proxies.

use crate::servers::{Kind, Place, Request, Servers, Step};
use crate::world;
use evenkeel_schemes::copies::{self, Deleting, Found, Switch};
use evenkeel_schemes::stage::Stage;
use evenkeel_schemes::warm::{Command, Heard, Warming, Wish};

/// How long a copy lives at most, and what time it is when it is read. Time stands still: a copy that ends is as one that is evicted.
const MOST_SECS: u32 = 60;
const NOW: u32 = 100;

/// How much is searched.
#[derive(Clone, Copy)]
pub struct Scope {
    pub ops: u8,
    pub kinds: &'static [Kind],
    /// Copies beside the home.
    pub copies: u8,
    /// The first and the last.
    pub versions: (u8, u8),
    pub evictions: u8,
    pub restarts: u8,
    pub given_up: u8,
    pub fault: Option<Fault>,
}

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    FillIgnoresUnique,
    RefreshIgnoresUnique,
    FetchesBeforePlacing,
    MarkIsShown,
    GoesOnAfterRestart,
    DeletesBeforeItRuns,
    AnswersBeforeItHasDeleted,
    DeletesNothingWhereNothingWas,
    DeletesOneOfTwo,
    UnconfirmedDeletesAreAcknowledged,
    ReadsCopiesWhileClearing,
    /// This version is left out.
    LeftOut(u8),
    TokenIsReused,
    TwoVersionsApart,
    CommandsAreNotAwaited,
    /// What goes on behind answers, that is.
    FillsAreNotAwaited,
}

/// What can happen next.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A command begins in a version.
    Begins(Kind, u8),
    /// Copies are switched.
    Version(u8),
    /// A request of a command is executed, and its answer taken.
    Step(usize, Request),
    /// It is given up.
    GiveUp(usize, Request),
    /// One that was given up is executed.
    Late(usize),
    /// A copy goes, or what home has.
    Evict(Option<Place>),
    /// The server of a copy starts anew.
    Restart(u8),
}

/// What a command that is under way waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Doing {
    /// At home; with the first step of a fill behind that.
    Reading(Option<Step>),
    Looking(Place),
    Running,
    Deleting {
        deleting: Deleting,
        left: Vec<Place>,
        /// Writes that had taken effect at home when it had run; `None` if it has not.
        ran: Option<u8>,
    },
    /// Behind the answer.
    Filling(Warming, Step),
}

/// A command that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Running {
    kind: Kind,
    version: u8,
    /// A read shows nothing older than this.
    oldest: u8,
    doing: Doing,
}

impl Running {
    /// What it has asked.
    fn requests(&self) -> Vec<Request> {
        match &self.doing {
            Doing::Reading(_) => vec![Request::Read],
            Doing::Looking(place) => vec![Request::Look(*place)],
            Doing::Running => vec![Request::Run(self.kind)],
            Doing::Deleting { left, .. } => left.iter().copied().map(Request::Delete).collect(),
            Doing::Filling(_, step) => vec![Request::Step(*step)],
        }
    }
}

/// The key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    servers: Servers,
    version: u8,
    begun: u8,
    running: Vec<Running>,
    /// Given up, and perhaps executed later.
    late: Vec<Request>,
    /// The newest write that was acknowledged.
    acknowledged: u8,
    evictions: u8,
    restarts: u8,
    given_up: u8,
}

/// How far copies are switched on in a version.
fn switch(version: u8) -> Switch {
    Switch::at(Stage::ALL[usize::from(version % 4)])
}

impl Key {
    pub fn new(scope: &Scope) -> Self {
        let servers = Servers::new();
        Key {
            version: scope.versions.0,
            begun: 0,
            running: Vec::new(),
            late: Vec::new(),
            acknowledged: servers.writes,
            servers,
            evictions: scope.evictions,
            restarts: scope.restarts,
            given_up: scope.given_up,
        }
    }

    /// Versions that commands may begin in, the present one first.
    fn versions_of_beginners(&self, scope: &Scope) -> impl Iterator<Item = u8> {
        let apart = match scope.fault {
            Some(Fault::TwoVersionsApart) => 2,
            _ => 1,
        };
        let versions = (scope.versions.0..=self.version).rev();
        versions.filter(is_there(scope)).take(apart + 1)
    }

    /// The version that may begin: nothing of one before the present is under way.
    fn next_version(&self, scope: &Scope) -> Option<u8> {
        let is_awaited = |running: &Running| match scope.fault {
            Some(Fault::CommandsAreNotAwaited) => false,
            Some(Fault::FillsAreNotAwaited) => !matches!(running.doing, Doing::Filling(..)),
            _ => true,
        };
        let mut awaited = self.running.iter().filter(|running| is_awaited(running));
        if awaited.any(|running| running.version < self.version) {
            return None;
        }
        (self.version + 1..=scope.versions.1).find(is_there(scope))
    }

    fn begin(&mut self, kind: Kind, version: u8, scope: &Scope) {
        let deletes_first = scope.fault == Some(Fault::DeletesBeforeItRuns);
        let doing = match kind {
            Kind::Home => Doing::Reading(None),
            Kind::Copy(copy) | Kind::OldCopy(copy) => Doing::Looking(place(copy, version, scope)),
            _ if switch(version).is_cleared() && deletes_first => deleting(version, None, scope),
            _ => Doing::Running,
        };
        self.begun += 1;
        self.running.push(Running {
            kind,
            version,
            oldest: self.acknowledged,
            doing,
        });
    }

    /// A request of a command is executed, and its answer taken. False if what is told is wrong.
    fn step(&mut self, at: usize, mut request: Request, scope: &Scope) -> bool {
        let fault = scope.fault;
        if let (Request::Step(step), Doing::Filling(filling, _)) =
            (&mut request, &self.running[at].doing)
        {
            let ignores_unique = match filling.wish() {
                Wish::Refresh => fault == Some(Fault::RefreshIgnoresUnique),
                _ => fault == Some(Fault::FillIgnoresUnique),
            };
            if ignores_unique && matches!(step.command, Command::Store(_)) {
                let heard = self.servers.put(step.place, step.fetched);
                return self.handle(at, request, (heard, None), scope);
            }
            if fault == Some(Fault::GoesOnAfterRestart) {
                step.life = self.servers.life_of(step.place.copy);
            }
        }
        let answer = self.servers.execute(request);
        self.handle(at, request, answer, scope)
    }

    /// What a command has asked has come to this. False if what it tells is wrong.
    fn handle(
        &mut self,
        at: usize,
        request: Request,
        (heard, value): (Heard, Option<u8>),
        scope: &Scope,
    ) -> bool {
        match request {
            Request::Look(place) => return self.look(at, place, (heard, value), scope),
            Request::Read => return self.read(at, (heard, value)),
            Request::Step(step) => self.fill(at, step, (heard, value)),
            Request::Run(_) => self.have_run(at, heard, scope),
            Request::Delete(place) => self.delete(at, place, heard, scope),
        }
        true
    }

    /// A read has read at home. False if what it shows is wrong.
    fn read(&mut self, at: usize, (heard, value): (Heard, Option<u8>)) -> bool {
        let running = &mut self.running[at];
        let is_right = value.is_none_or(|value| value >= running.oldest);
        match running.doing {
            Doing::Reading(Some(step)) if heard != Heard::Failed => {
                let (filling, _) = Warming::of_read(Wish::Read);
                running.doing = Doing::Filling(filling, step);
            }
            _ => drop(self.running.remove(at)),
        }
        is_right
    }

    /// A fill or refresh has taken a step.
    fn fill(&mut self, at: usize, step: Step, (heard, value): (Heard, Option<u8>)) {
        let Doing::Filling(filling, next) = &mut self.running[at].doing else {
            unreachable!("nobody else takes steps");
        };
        match filling.handle(heard).ask {
            // That nothing is stored is nobody's business.
            None | Some(Command::Own(_)) => drop(self.running.remove(at)),
            Some(command) => {
                let learns = matches!(step.command, Command::Look | Command::Place);
                *next = Step {
                    command,
                    fetched: step.fetched.or(value),
                    life: match learns {
                        true => self.servers.life_of(step.place.copy),
                        false => step.life,
                    },
                    ..step
                };
            }
        }
    }

    /// A write has deleted a copy.
    fn delete(&mut self, at: usize, place: Place, heard: Heard, scope: &Scope) {
        let running = &mut self.running[at];
        let Doing::Deleting {
            deleting,
            left,
            ran,
        } = &mut running.doing
        else {
            unreachable!("nobody else deletes");
        };
        left.retain(|other| *other != place);
        let ignores_it = scope.fault == Some(Fault::UnconfirmedDeletesAreAcknowledged);
        let Some(are_confirmed) = deleting.handle(heard != Heard::Failed || ignores_it) else {
            return;
        };
        match *ran {
            None => running.doing = Doing::Running,
            Some(ran) => {
                self.running.remove(at);
                if are_confirmed {
                    self.acknowledge(ran);
                }
            }
        }
    }

    /// A read has looked at a copy. False if what it shows is wrong.
    fn look(
        &mut self,
        at: usize,
        place: Place,
        (heard, value): (Heard, Option<u8>),
        scope: &Scope,
    ) -> bool {
        let running = &mut self.running[at];
        let ends = match running.kind {
            Kind::OldCopy(_) => NOW + 1,
            _ => NOW + MOST_SECS,
        };
        let found = match heard {
            Heard::Item(_) => Found::Value { ends },
            Heard::Mark(_) if scope.fault != Some(Fault::MarkIsShown) => Found::Mark,
            Heard::Mark(_) => Found::Value { ends },
            _ => Found::Nothing,
        };
        let first = |command, fetched| Step {
            place,
            command,
            fetched,
            life: 0,
        };
        match copies::read(found, NOW, MOST_SECS, 0) {
            copies::Read::Show { refresh } => {
                let is_right = value.is_some_and(|value| value >= running.oldest);
                if refresh {
                    let (refreshing, command) = Warming::of_refresh();
                    running.doing = Doing::Filling(refreshing, first(command, None));
                } else {
                    self.running.remove(at);
                }
                is_right
            }
            copies::Read::AskHome { fill } => {
                let early = self.servers.execute(Request::Read).1;
                let fetched = early.filter(|_| scope.fault == Some(Fault::FetchesBeforePlacing));
                let fills = fill && heard != Heard::Failed;
                let step = fills.then(|| first(Command::Place, fetched));
                running.doing = Doing::Reading(step);
                true
            }
        }
    }

    /// A write was executed at home.
    fn have_run(&mut self, at: usize, heard: Heard, scope: &Scope) {
        let version = self.running[at].version;
        let ran = self.servers.writes;
        let deletes = switch(version).is_cleared()
            && match scope.fault {
                Some(Fault::DeletesBeforeItRuns) => false,
                Some(Fault::DeletesNothingWhereNothingWas) => heard != Heard::Nothing,
                _ => true,
            };
        if heard != Heard::Failed && deletes {
            self.running[at].doing = deleting(version, Some(ran), scope);
        } else {
            self.running.remove(at);
        }
        let is_answered = !deletes || scope.fault == Some(Fault::AnswersBeforeItHasDeleted);
        if heard != Heard::Failed && is_answered {
            self.acknowledge(ran);
        }
    }

    /// A write is acknowledged, when this many had taken effect.
    fn acknowledge(&mut self, ran: u8) {
        self.acknowledged = self.acknowledged.max(ran);
    }

    /// The commands that may begin.
    fn beginners(&self, scope: &Scope) -> Vec<Event> {
        if self.begun == scope.ops {
            return Vec::new();
        }
        let reads_early = scope.fault == Some(Fault::ReadsCopiesWhileClearing);
        let may_begin = |kind: &Kind, version: u8| match (kind.copy(), switch(version)) {
            (None, _) | (_, Switch::On) => true,
            (_, switch) => switch == Switch::Clearing && reads_early,
        };
        let versions = self.versions_of_beginners(scope);
        let begins = versions.flat_map(|version| {
            let kinds = scope.kinds.iter();
            let kinds = kinds.filter(move |kind| may_begin(kind, version));
            kinds.map(move |kind| Event::Begins(*kind, version))
        });
        begins.collect()
    }
}

impl world::World for Key {
    type Scope = Scope;
    type Event = Event;

    fn events(&self, scope: &Scope) -> Vec<Event> {
        let mut events = self.beginners(scope);
        events.extend(self.next_version(scope).map(Event::Version));
        for (at, running) in self.running.iter().enumerate() {
            for request in running.requests() {
                events.push(Event::Step(at, request));
                if self.given_up > 0 {
                    events.push(Event::GiveUp(at, request));
                }
            }
        }
        events.extend((0..self.late.len()).map(Event::Late));
        if self.evictions > 0 {
            events.extend(self.servers.places().map(|place| Event::Evict(Some(place))));
            events.extend(self.servers.has_home().then_some(Event::Evict(None)));
        }
        if self.restarts > 0 {
            let used = (0..scope.copies).filter(|copy| self.servers.was_used(*copy));
            events.extend(used.map(Event::Restart));
        }
        events
    }

    fn happen(&mut self, event: Event, scope: &Scope) -> bool {
        match event {
            Event::Begins(kind, version) => self.begin(kind, version, scope),
            Event::Version(version) => self.version = version,
            Event::Step(at, request) => return self.step(at, request, scope),
            Event::GiveUp(at, request) => {
                self.given_up -= 1;
                if !request.only_reads() {
                    self.late.push(request);
                }
                return self.handle(at, request, (Heard::Failed, None), scope);
            }
            Event::Late(index) => {
                let request = self.late.remove(index);
                self.servers.execute(request);
            }
            Event::Evict(place) => {
                self.evictions -= 1;
                self.servers.evict(place);
            }
            Event::Restart(copy) => {
                self.restarts -= 1;
                self.servers.restart(copy);
                // What was asked of it is lost with its connections.
                self.late.retain(|request| request.copy() != Some(copy));
            }
        }
        true
    }

    fn describe(&self, event: Event) -> String {
        let of = |at: usize, request: Request| {
            let Running { kind, version, .. } = self.running[at];
            format!("{kind:?} of v{version}: {request:?}")
        };
        match event {
            Event::Begins(kind, version) => {
                format!("begins: {kind:?}, v{version} {}", switch(version))
            }
            Event::Version(version) => format!("v{version}: {}", switch(version)),
            Event::Step(at, request) => of(at, request),
            Event::GiveUp(at, request) => format!("{} is given up", of(at, request)),
            Event::Late(index) => format!("late: {:?}", self.late[index]),
            Event::Evict(Some(place)) => format!("evicted: {place:?}"),
            Event::Evict(None) => "evicted at home".to_owned(),
            Event::Restart(copy) => format!("the server of copy {copy} starts anew"),
        }
    }
}

/// Where a copy lies, for who works by this version.
fn place(copy: u8, version: u8, scope: &Scope) -> Place {
    let token = match scope.fault {
        Some(Fault::TokenIsReused) => 0,
        _ => version / 4,
    };
    Place { copy, token }
}

/// All copies are deleted side by side.
fn deleting(version: u8, ran: Option<u8>, scope: &Scope) -> Doing {
    let first = match scope.fault {
        Some(Fault::DeletesOneOfTwo) => 1,
        _ => 0,
    };
    let left: Vec<Place> = (first..scope.copies)
        .map(|copy| place(copy, version, scope))
        .collect();
    Doing::Deleting {
        deleting: Deleting::new(left.len() as u8),
        left,
        ran,
    }
}

/// Whether a version is not left out.
fn is_there(scope: &Scope) -> impl Fn(&u8) -> bool + use<> {
    let fault = scope.fault;
    move |version| fault != Some(Fault::LeftOut(*version))
}
