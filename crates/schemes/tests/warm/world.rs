//! All that can happen to one key: commands begin and go on, servers evict and start anew, requests are given up, stages follow each other.

use super::register::{Kind, OPS, Register, Told, effect};
use super::servers::Servers;
use evenkeel_schemes::stage::Stage;
use evenkeel_schemes::warm::{Command, Heard, Next, Shown, Warming, Wish};

/// How much is searched.
#[derive(Clone, Copy)]
pub struct Scope {
    pub ops: usize,
    pub kinds: &'static [Kind],
    pub evictions: u8,
    pub restarts: u8,
    pub given_up: u8,
    pub strict: bool,
    /// The first stage and the last.
    pub stages: (Stage, Stage),
    pub fault: Option<Fault>,
}

/// A rule that is broken.
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
}

/// What a running command waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Doing {
    /// The one request of who knows the former place alone.
    AtFormer,
    /// That of who knows this place alone.
    Here,
    FirstRead,
    Step(Command),
    /// By a fault: deletes at the former place behind its own command.
    ClearLate(Told),
}

/// A command that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Running {
    kind: Kind,
    stage: Stage,
    machine: Option<Warming>,
    doing: Doing,
    fetched: Option<u8>,
    /// In which life of the server it has learnt a unique.
    life: u8,
    /// The application has its answer.
    told: bool,
    /// Another was under way at some time.
    beside: bool,
    clears_late: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Op {
    Idle,
    Running(Running),
    Over,
}

impl Op {
    fn running(&self) -> Option<&Running> {
        match self {
            Op::Running(running) => Some(running),
            Op::Idle | Op::Over => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    stage: Stage,
    servers: Servers,
    life: u8,
    ops: [Op; OPS],
    register: Register,
    /// Given up, and perhaps carried out later: the command, whose it is, the life it was sent in, and what it had fetched.
    late: Vec<(Command, usize, u8, Option<u8>)>,
    /// Those of who knows the former place alone, perhaps carried out later.
    late_at_former: Vec<usize>,
    evictions: u8,
    restarts: u8,
    given_up: u8,
}

impl World {
    pub fn new(scope: &Scope) -> Self {
        World {
            stage: scope.stages.0,
            servers: Servers::new(),
            register: Register::new(),
            life: 0,
            ops: [const { Op::Idle }; OPS],
            late: Vec::new(),
            late_at_former: Vec::new(),
            evictions: scope.evictions,
            restarts: scope.restarts,
            given_up: scope.given_up,
        }
    }

    /// Whether something may be lost, and whether a command may miss what is there.
    fn may(&self, op: usize, scope: &Scope) -> (bool, bool) {
        let beside = self.ops[op].running().is_some_and(|op| op.beside);
        let was_lost = self.evictions < scope.evictions || self.restarts < scope.restarts;
        let may_lose = !scope.strict || was_lost;
        (may_lose, may_lose || beside)
    }

    fn begin(&mut self, op: usize, kind: Kind, stage: Stage, fault: Option<Fault>) {
        let wish = match kind {
            Kind::Get | Kind::ReadHere => None,
            Kind::Set | Kind::Delete => Some(Wish::Overwrite),
            Kind::Add => Some(Wish::Add),
            Kind::Incr => Some(Wish::Change),
            Kind::Touch => Some(Wish::Touch),
        };
        let others = self.ops.iter().any(|op| op.running().is_some());
        for op in &mut self.ops {
            if let Op::Running(running) = op {
                running.beside = true;
            }
        }
        let (machine, doing) = match (stage, wish) {
            (Stage::Quiesced, _) if fault == Some(Fault::ReadsGoHereWhileQuiesced) => {
                (None, Doing::FirstRead)
            }
            (Stage::Former | Stage::Quiesced, _) => (None, Doing::AtFormer),
            (_, Some(wish)) if stage.takes_steps() => {
                let (machine, command) = Warming::of_write(wish, stage.fills());
                (Some(machine), Doing::Step(command))
            }
            (_, Some(_)) => (None, Doing::Here),
            (_, None) => (None, Doing::FirstRead),
        };
        self.register.begin(op, kind);
        self.ops[op] = Op::Running(Running {
            kind,
            stage,
            machine,
            doing,
            fetched: None,
            life: self.life,
            told: false,
            beside: others,
            clears_late: false,
        });
        self.skip_clearing(op, fault);
    }

    /// By some faults a command that is to delete at the former place does not, or not yet.
    fn skip_clearing(&mut self, at: usize, fault: Option<Fault>) {
        let running = self.at(at);
        if running.doing != Doing::Step(Command::Clear) {
            return;
        }
        match fault {
            Some(Fault::FormerIsClearedAfterwards) => running.clears_late = true,
            Some(Fault::ChangesDoNotClear) if running.kind == Kind::Incr => {}
            Some(Fault::ClosingDoesNotClear) if running.stage == Stage::Closing => {}
            _ => return,
        }
        let machine = running.machine.as_mut().expect("it takes steps");
        let next = machine.hear(Heard::Done(0));
        running.doing = Doing::Step(next.ask.expect("its own command or a removal"));
    }

    /// A running command's next request is carried out, and its answer taken. False if what is told is wrong.
    fn step(&mut self, at: usize, scope: &Scope) -> bool {
        let fault = scope.fault;
        let Running {
            kind,
            stage,
            doing,
            fetched,
            life,
            machine,
            ..
        } = self.at(at).clone();
        let command = match doing {
            Doing::AtFormer => {
                let (told, value) = effect(kind, at, self.servers.former);
                self.servers.former = value;
                return self.end(at, told, scope);
            }
            Doing::Here => {
                let (_, told) = self.servers.carry_out_own((at, kind), None, fault);
                return self.end(at, told, scope);
            }
            Doing::FirstRead => {
                let (heard, told) = self.servers.carry_out_own((at, kind), None, fault);
                let is_mark = matches!(heard, Heard::Mark(_));
                if matches!(heard, Heard::Item(_)) || is_mark && fault == Some(Fault::MarkIsShown) {
                    return self.end(at, told, scope);
                }
                if is_mark && fault == Some(Fault::PlaceholdersAreReadThrough) {
                    self.at(at).doing = Doing::AtFormer;
                    return true;
                }
                // Who fills no more does not begin to, whenever the command has begun.
                let fills_early = fault == Some(Fault::ReadsGoHereWhileQuiesced);
                let fills = stage.fills() || fills_early && stage == Stage::Quiesced;
                if is_mark || !fills || self.stage > Stage::Closing {
                    return self.end(at, Told::Nothing, scope);
                }
                let wish = match kind {
                    Kind::Get => Wish::Read,
                    _ => Wish::ReadHere,
                };
                let (machine, command) = Warming::of_read(wish);
                let early = self
                    .servers
                    .former
                    .filter(|_| fault == Some(Fault::FetchesBeforePlacing));
                let running = self.at(at);
                running.machine = Some(machine);
                running.doing = Doing::Step(command);
                running.fetched = early;
                return true;
            }
            Doing::ClearLate(told) => {
                self.servers.former = None;
                return self.end(at, told, scope);
            }
            Doing::Step(command) => command,
        };
        let is_stale = life != self.life && fault != Some(Fault::GoesOnAfterRestart);
        let (mut heard, told, value) = if command.is_bound() && is_stale {
            (Heard::Refused, Some(Told::Unknown), None)
        } else {
            self.servers.carry_out(command, (at, kind), fetched, fault)
        };
        let mut value = value.or(fetched);
        if fault == Some(Fault::FetchesBeforePlacing)
            && command == Command::Fetch
            && fetched.is_some()
        {
            (heard, value) = (Heard::Item(0), fetched);
        }
        let mut machine = machine.expect("it takes steps");
        let mut next = machine.hear(heard);
        if fault == Some(Fault::AddTakesPlaceholdersForItems)
            && kind == Kind::Add
            && (matches!(heard, Heard::Mark(_)) && command == Command::Look
                || matches!((heard, command), (Heard::Refused, Command::Own(_))))
        {
            return self.end(at, Told::NotStored, scope);
        }
        let learns = matches!(
            (command, heard),
            (Command::Look, _) | (_, Heard::Done(_)) if !command.is_of_former()
        );
        let present = self.life;
        let running = self.at(at);
        running.machine = Some(machine);
        running.fetched = value;
        if learns {
            running.life = present;
        }
        let mut shown = next.show.take();
        let is_early = fault == Some(Fault::ShownBeforeStored) && kind == Kind::Get;
        if is_early && command == Command::Fetch {
            shown = shown.or(value.map(|_| Shown::Stored(0)));
        }
        self.go_on(at, shown, next, told, scope)
    }

    /// A command that is under way.
    fn at(&mut self, at: usize) -> &mut Running {
        match &mut self.ops[at] {
            Op::Running(running) => running,
            Op::Idle | Op::Over => unreachable!("it is under way"),
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
        let was_early = scope.fault == Some(Fault::ShownBeforeStored) && running.told;
        if let Some(shown) = shown.filter(|_| !was_early) {
            assert!(!running.told, "told twice");
            let told = match shown {
                Shown::Stored(_) => Told::Value(fetched.expect("something was fetched")),
                Shown::Miss => Told::Nothing,
                Shown::Own => told.expect("its own command was answered"),
                Shown::Busy | Shown::Failed | Shown::FormerFailed => Told::Unknown,
            };
            if shown == Shown::Own && clears_late {
                running.doing = Doing::ClearLate(told);
                return true;
            }
            let may = self.may(at, scope);
            if !self.register.tell(at, told, may) {
                return false;
            }
            self.at(at).told = true;
        }
        match next.ask {
            None => self.ops[at] = Op::Over,
            Some(command) => {
                self.at(at).doing = Doing::Step(command);
                self.skip_clearing(at, scope.fault);
            }
        }
        true
    }

    fn end(&mut self, at: usize, told: Told, scope: &Scope) -> bool {
        let may = self.may(at, scope);
        self.ops[at] = Op::Over;
        self.register.tell(at, told, may)
    }

    /// A running command's request is given up: nobody knows what becomes of it. False if what is told is wrong.
    fn give_up(&mut self, at: usize, scope: &Scope) -> bool {
        let running = self.at(at).clone();
        match (running.doing, running.machine) {
            (Doing::AtFormer, _) => {
                self.late_at_former.push(at);
                self.end(at, Told::Unknown, scope)
            }
            (Doing::Step(command), Some(mut machine)) => {
                self.late.push((command, at, running.life, running.fetched));
                // An application's own command that is lost is not the machine's business any more.
                if matches!(command, Command::Own(_)) {
                    return self.end(at, Told::Unknown, scope);
                }
                let next = machine.hear(Heard::Failed);
                self.at(at).machine = Some(machine);
                self.go_on(at, next.show, next, None, scope)
            }
            _ => self.end(at, Told::Unknown, scope),
        }
    }

    /// The server that is warmed starts anew, and counts from one again. What was asked of it is lost with its connections.
    fn restart(&mut self, scope: &Scope) -> bool {
        self.servers.here = None;
        self.servers.unique = 0;
        self.life += 1;
        self.late.retain(|(command, ..)| command.is_of_former());
        for at in 0..OPS {
            let is_here = match self.ops[at].running().map(|running| &running.doing) {
                Some(Doing::Step(command)) => !command.is_of_former(),
                Some(doing) => *doing == Doing::FirstRead,
                None => false,
            };
            // By the fault it is asked again as if nothing had been.
            if is_here && scope.fault != Some(Fault::GoesOnAfterRestart) {
                let late = self.late.len();
                if !self.give_up(at, scope) {
                    return false;
                }
                self.late.truncate(late);
            }
        }
        true
    }

    /// In which stages a command may begin.
    fn stages_of_beginners(&self, scope: &Scope) -> Vec<Stage> {
        let apart = match scope.fault {
            Some(Fault::TwoStagesApart) => 2,
            _ => 1,
        };
        let present = self.stage as usize;
        let first = (scope.stages.0 as usize).max(present.saturating_sub(apart));
        let left_out = left_out(scope);
        let mut stages = Stage::ALL[first..=present].to_vec();
        if stages.iter().any(|stage| Some(*stage) == left_out) && first > 0 {
            stages.push(Stage::ALL[first - 1]);
        }
        stages.retain(|stage| Some(*stage) != left_out);
        stages
    }

    /// The stage that may begin: nothing that counts of the one before the present is under way.
    fn next_stage(&self, scope: &Scope) -> Option<Stage> {
        if self.stage == scope.stages.1 {
            return None;
        }
        // What only reads is not waited for, unless it has begun to fill.
        let is_awaited = |op: &Running| {
            let reads = matches!(op.kind, Kind::Get | Kind::ReadHere);
            op.stage < self.stage && (op.machine.is_some() || !reads)
        };
        let mut awaited = self
            .ops
            .iter()
            .filter_map(Op::running)
            .filter(|op| is_awaited(op));
        if awaited.next().is_some() && scope.fault != Some(Fault::CommandsAreNotAwaited) {
            return None;
        }
        let next = self.stage.next()?;
        // Placeholders live for two seconds, and the last stage begins later.
        if next == Stage::Done && self.servers.here.is_some_and(|slot| slot.value.is_none()) {
            return None;
        }
        match left_out(scope) {
            Some(left_out) if left_out == next => next.next(),
            _ => Some(next),
        }
    }

    /// All that can happen next, and whether it is right.
    pub fn successors(&self, scope: &Scope) -> Vec<(World, bool, String)> {
        let mut next = Vec::new();
        let mut push = |what: String, change: &dyn Fn(&mut World) -> bool| {
            let mut world = self.clone();
            let is_right = change(&mut world);
            next.push((world, is_right, what));
        };
        let idle = self.ops[..scope.ops].iter().position(|op| *op == Op::Idle);
        if let Some(op) = idle {
            for stage in self.stages_of_beginners(scope) {
                for &kind in scope.kinds {
                    let reads = matches!(kind, Kind::Get | Kind::ReadHere);
                    let goes_on = reads
                        && matches!(
                            scope.fault,
                            Some(Fault::ReadsGoOnWhileQuiesced | Fault::ReadsGoHereWhileQuiesced)
                        );
                    if stage == Stage::Quiesced && !goes_on {
                        continue;
                    }
                    push(format!("{op} begins: {kind:?} {stage}"), &|world| {
                        world.begin(op, kind, stage, scope.fault);
                        true
                    });
                }
            }
        }
        if let Some(stage) = self.next_stage(scope) {
            push(format!("{stage}"), &|world| {
                world.stage = stage;
                true
            });
        }
        for index in 0..self.late_at_former.len() {
            push("late at the former place".into(), &|world: &mut World| {
                let op = world.late_at_former.remove(index);
                if let Some(kind) = world.register.open(op) {
                    world.servers.former = effect(kind, op, world.servers.former).1;
                }
                true
            });
        }
        for (at, op) in self.ops.iter().enumerate() {
            let Some(Running { kind, doing, .. }) = op.running() else {
                continue;
            };
            push(format!("{at} {kind:?} {doing:?}"), &|world| {
                world.step(at, scope)
            });
            if self.given_up > 0 {
                push(format!("{at} {kind:?} {doing:?} is given up"), &|world| {
                    world.given_up -= 1;
                    world.give_up(at, scope)
                });
            }
        }
        for index in 0..self.late.len() {
            push(
                format!("late: {:?}", self.late[index]),
                &|world: &mut World| {
                    let (command, op, life, fetched) = world.late.remove(index);
                    if life == world.life || command.is_of_former() {
                        let kind = world.register.open(op);
                        // Of an answered command only steps can be late, which have no kind.
                        let kind = kind.unwrap_or(Kind::Get);
                        world
                            .servers
                            .carry_out(command, (op, kind), fetched, scope.fault);
                    }
                    true
                },
            );
        }
        if self.evictions > 0 {
            if self.servers.here.is_some() {
                push("evicted here".into(), &|world| {
                    world.evictions -= 1;
                    world.servers.here = None;
                    true
                });
            }
            if self.servers.former.is_some() {
                push("evicted at the former place".into(), &|world| {
                    world.evictions -= 1;
                    world.servers.former = None;
                    true
                });
            }
        }
        if self.restarts > 0 {
            push("restart".into(), &|world| {
                world.restarts -= 1;
                world.restart(scope)
            });
        }
        next
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
