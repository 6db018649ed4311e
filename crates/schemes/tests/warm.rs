//! A search through all that can happen to one key of a pool that is warmed from a former one: a few commands of any kind, step by step
//! in every order, with evictions, restarts, and requests that are given up and may be carried out later. The commands are those of the
//! crate; the two servers, and what is right, are modelled here.
//!
//! Right is a register that may lose its value at any time, and that may be missed: an answer is right if some order of all commands that
//! keeps real time explains it. In *strict* scopes nothing is lost or missed, unless an item was evicted or another command was under way
//! beside.
//!
//! The whole change goes by in phases: all at the former place; there, but nobody writes; warmed; warmed, but nothing is brought any more;
//! all here. The next one begins when no command of the one before the present is under way; commands begin in the present phase or in the
//! one before it, as they would at several proxies.
//!
//! Each rule has a fault that breaks it; the search finds every one of them. `EVENKEEL_FULL=1` searches the larger scopes.

use evenkeel_schemes::warm::{Command, Heard, Next, Shown, Warming, Wish};
use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Commands of a scope at most.
const OPS: usize = 4;

/// What an application asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Get,
    Gets,
    ReadHere,
    Set,
    Delete,
    Add,
    Incr,
    Touch,
}

/// What it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Told {
    Value(u8),
    Done,
    NotStored,
    Nothing,
    /// Whether it was carried out, and when, is not known.
    Unknown,
}

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
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
    WritesAreNotEnded,
    FillsAreNotEnded,
    TwoPhasesApart,
    CommandsAreNotAwaited,
    LastStoresAreNotAwaited,
}

/// Who works how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    Former,
    FormerReadOnly,
    Warmed,
    NotFilled,
    Here,
}

impl Phase {
    const ALL: [Phase; 5] = [
        Phase::Former,
        Phase::FormerReadOnly,
        Phase::Warmed,
        Phase::NotFilled,
        Phase::Here,
    ];

    fn at(number: usize) -> Phase {
        Phase::ALL[number]
    }
}

/// What lies at the place that is warmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Slot {
    /// `None` for a placeholder.
    value: Option<u8>,
    unique: u64,
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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Op {
    Idle,
    Running {
        kind: Kind,
        phase: Phase,
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
    },
    Over,
}

/// One explanation of all answers so far.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Explanation {
    value: Option<u8>,
    /// Of commands that have taken effect and are not answered.
    effects: [Option<Told>; OPS],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    phase: Phase,
    here: Option<Slot>,
    former: Option<u8>,
    unique: u64,
    life: u8,
    ops: [Op; OPS],
    /// Begun, and not answered for certain.
    open: [Option<Kind>; OPS],
    /// Given up, and perhaps carried out later: the command, whose it is, the life it was sent in, and what it had fetched.
    late: Vec<(Command, usize, u8, Option<u8>)>,
    /// Those of who knows the former place alone, perhaps carried out later.
    late_at_former: Vec<usize>,
    evictions: u8,
    restarts: u8,
    given_up: u8,
    explanations: BTreeSet<Explanation>,
}

#[derive(Clone, Copy)]
struct Scope {
    ops: usize,
    kinds: &'static [Kind],
    evictions: u8,
    restarts: u8,
    given_up: u8,
    strict: bool,
    /// The first phase and the last.
    phases: (Phase, Phase),
    fault: Option<Fault>,
}

const ALL: &[Kind] = &[
    Kind::Get,
    Kind::Gets,
    Kind::ReadHere,
    Kind::Set,
    Kind::Delete,
    Kind::Add,
    Kind::Incr,
    Kind::Touch,
];

/// Those of which three together can be searched.
const MOST: &[Kind] = &[Kind::Get, Kind::Set, Kind::Incr];

const SCOPE: Scope = Scope {
    ops: 3,
    kinds: ALL,
    evictions: 1,
    restarts: 0,
    given_up: 0,
    strict: false,
    phases: (Phase::Warmed, Phase::Warmed),
    fault: None,
};

/// The change up to where the pool is warmed, and from there on.
const BEGIN: Scope = Scope {
    phases: (Phase::Former, Phase::Warmed),
    ..SCOPE
};

const END: Scope = Scope {
    phases: (Phase::Warmed, Phase::Here),
    ..SCOPE
};

/// What the former place has at first.
const INITIAL: u8 = 1;

fn value_of(op: usize) -> u8 {
    10 + op as u8
}

/// What a command does to the register, with what it is told.
fn effect(kind: Kind, op: usize, value: Option<u8>) -> (Told, Option<u8>) {
    let read = value.map_or(Told::Nothing, Told::Value);
    match (kind, value) {
        (Kind::Get | Kind::Gets | Kind::ReadHere, _) => (read, value),
        (Kind::Set, _) => (Told::Done, Some(value_of(op))),
        (Kind::Delete, _) => (Told::Done, None),
        (Kind::Add, None) => (Told::Done, Some(value_of(op))),
        (Kind::Add, Some(_)) => (Told::NotStored, value),
        (Kind::Incr, Some(value)) => (Told::Value(value + 50), Some(value + 50)),
        (Kind::Touch, Some(_)) => (Told::Done, value),
        (Kind::Incr | Kind::Touch, None) => (Told::Nothing, None),
    }
}

/// What a command is told that misses what is there.
fn missed(kind: Kind) -> Option<Told> {
    match kind {
        Kind::Set | Kind::Delete => None,
        Kind::Add => Some(Told::Done),
        _ => Some(Told::Nothing),
    }
}

impl World {
    fn new(scope: &Scope) -> Self {
        World {
            phase: scope.phases.0,
            here: None,
            former: Some(INITIAL),
            unique: 0,
            life: 0,
            ops: [const { Op::Idle }; OPS],
            open: [None; OPS],
            late: Vec::new(),
            late_at_former: Vec::new(),
            evictions: scope.evictions,
            restarts: scope.restarts,
            given_up: scope.given_up,
            explanations: BTreeSet::from([Explanation {
                value: Some(INITIAL),
                effects: [None; OPS],
            }]),
        }
    }

    fn next_unique(&mut self) -> u64 {
        self.unique += 1;
        self.unique
    }

    /// All that a command that is open may have done by now, and what was lost.
    fn explain(&mut self, (may_lose, may_miss): (bool, bool)) {
        let mut new: Vec<_> = self.explanations.iter().cloned().collect();
        while let Some(known) = new.pop() {
            let mut found = Vec::new();
            if may_lose {
                found.push(Explanation {
                    value: None,
                    ..known.clone()
                });
            }
            for (op, kind) in self.open.iter().enumerate() {
                if let (Some(kind), None) = (kind, known.effects[op]) {
                    let mut next = known.clone();
                    let (told, value) = effect(*kind, op, known.value);
                    next.effects[op] = Some(told);
                    next.value = value;
                    found.push(next);
                    if let (true, Some(told)) = (may_miss, missed(*kind)) {
                        let mut missed = known.clone();
                        missed.effects[op] = Some(told);
                        if *kind == Kind::Add {
                            missed.value = Some(value_of(op));
                        }
                        found.push(missed);
                    }
                }
            }
            for found in found {
                if self.explanations.insert(found.clone()) {
                    new.push(found);
                }
            }
        }
    }

    /// A command is answered. False if nothing explains that.
    fn tell(&mut self, op: usize, told: Told, may: (bool, bool)) -> bool {
        self.explain(may);
        if told == Told::Unknown {
            // It stays open: it may take effect at any time, or never.
            return true;
        }
        self.open[op] = None;
        let before = std::mem::take(&mut self.explanations);
        self.explanations = before
            .into_iter()
            .filter(|known| known.effects[op] == Some(told))
            .map(|mut known| {
                known.effects[op] = None;
                known
            })
            .collect();
        !self.explanations.is_empty()
    }

    /// A server carries out a command.
    fn carry_out(
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

    fn carry_out_own(
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

    /// Whether something may be lost, and whether a command may miss what is there.
    fn may(&self, op: usize, scope: &Scope) -> (bool, bool) {
        let beside = matches!(self.ops[op], Op::Running { beside: true, .. });
        let was_lost = self.evictions < scope.evictions || self.restarts < scope.restarts;
        let may_lose = !scope.strict || was_lost;
        (may_lose, may_lose || beside)
    }

    fn begin(&mut self, op: usize, kind: Kind, phase: Phase, fault: Option<Fault>) {
        let wish = match kind {
            Kind::Get | Kind::Gets | Kind::ReadHere => None,
            Kind::Set | Kind::Delete => Some(Wish::Overwrite),
            Kind::Add => Some(Wish::Add),
            Kind::Incr => Some(Wish::Change),
            Kind::Touch => Some(Wish::Touch),
        };
        let running = |op: &Op| matches!(op, Op::Running { .. });
        let others = self.ops.iter().any(running);
        for op in &mut self.ops {
            if let Op::Running { beside, .. } = op {
                *beside = true;
            }
        }
        let fills = phase == Phase::Warmed;
        let (machine, doing) = match (phase, wish) {
            (Phase::Former | Phase::FormerReadOnly, _) => (None, Doing::AtFormer),
            (Phase::Here, _) => (None, Doing::Here),
            (_, None) => (None, Doing::FirstRead),
            (_, Some(wish)) => {
                let (machine, command) = Warming::of_write(wish, fills);
                (Some(machine), Doing::Step(command))
            }
        };
        self.open[op] = Some(kind);
        self.ops[op] = Op::Running {
            kind,
            phase,
            machine,
            doing,
            fetched: None,
            life: self.life,
            told: false,
            beside: others,
            clears_late: false,
        };
        self.skip_clearing(op, fault);
    }

    /// By some faults a command that is to delete at the former place does not, or not yet.
    fn skip_clearing(&mut self, at: usize, fault: Option<Fault>) {
        let Op::Running {
            kind,
            machine: Some(machine),
            doing,
            clears_late,
            ..
        } = &mut self.ops[at]
        else {
            return;
        };
        if *doing != Doing::Step(Command::Clear) {
            return;
        }
        match fault {
            Some(Fault::FormerIsClearedAfterwards) => *clears_late = true,
            Some(Fault::ChangesDoNotClear) if *kind == Kind::Incr => {}
            _ => return,
        }
        let next = machine.hear(Heard::Done(0));
        *doing = Doing::Step(next.ask.expect("its own command or a removal"));
    }

    /// A running command's next request is carried out, and its answer taken. False if what is told is wrong.
    fn step(&mut self, at: usize, scope: &Scope) -> bool {
        let fault = scope.fault;
        let Op::Running {
            kind,
            phase,
            doing,
            fetched,
            life,
            machine,
            ..
        } = self.ops[at].clone()
        else {
            unreachable!("only running ones are stepped");
        };
        let command = match doing {
            Doing::AtFormer => {
                let (told, value) = effect(kind, at, self.former);
                self.former = value;
                return self.end(at, told, scope);
            }
            Doing::Here => {
                let (_, told) = self.carry_out_own((at, kind), None, fault);
                return self.end(at, told, scope);
            }
            Doing::FirstRead => {
                let (heard, told) = self.carry_out_own((at, kind), None, fault);
                let is_mark = matches!(heard, Heard::Mark(_));
                if matches!(heard, Heard::Item(_)) || is_mark && fault == Some(Fault::MarkIsShown) {
                    return self.end(at, told, scope);
                }
                if phase == Phase::NotFilled {
                    return self.end(at, Told::Nothing, scope);
                }
                let wish = match kind {
                    Kind::Get => Wish::Read { unique: false },
                    Kind::Gets => Wish::Read { unique: true },
                    _ => Wish::ReadHere,
                };
                let (machine, command) = Warming::of_read(wish, is_mark);
                let early = self
                    .former
                    .filter(|_| fault == Some(Fault::FetchesBeforePlacing));
                self.set(at, |op| {
                    if let Op::Running {
                        machine: its,
                        doing,
                        fetched,
                        ..
                    } = op
                    {
                        *its = Some(machine);
                        *doing = Doing::Step(command);
                        *fetched = early;
                    }
                });
                return true;
            }
            Doing::ClearLate(told) => {
                self.former = None;
                return self.end(at, told, scope);
            }
            Doing::Step(command) => command,
        };
        let is_stale = life != self.life && fault != Some(Fault::GoesOnAfterRestart);
        let (mut heard, told, value) = if command.is_bound() && is_stale {
            (Heard::Refused, Some(Told::Unknown), None)
        } else {
            self.carry_out(command, (at, kind), fetched, fault)
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
        self.set(at, |op| {
            if let Op::Running {
                machine: its,
                fetched,
                life,
                ..
            } = op
            {
                *its = Some(machine);
                *fetched = value;
                if learns {
                    *life = present;
                }
            }
        });
        let shown = next.show.take();
        self.go_on(at, shown, next, told, scope)
    }

    fn set(&mut self, at: usize, change: impl FnOnce(&mut Op)) {
        change(&mut self.ops[at]);
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
        let Op::Running {
            fetched,
            clears_late,
            told: was_told,
            ..
        } = self.ops[at].clone()
        else {
            unreachable!("it is running");
        };
        if let Some(shown) = shown {
            assert!(!was_told, "told twice");
            let told = match shown {
                Shown::Fetched(_) => Told::Value(fetched.expect("something was fetched")),
                Shown::Miss => Told::Nothing,
                Shown::Own => told.expect("its own command was answered"),
                Shown::Busy | Shown::Failed | Shown::FormerFailed => Told::Unknown,
            };
            if shown == Shown::Own && clears_late {
                self.set(at, |op| {
                    if let Op::Running { doing, .. } = op {
                        *doing = Doing::ClearLate(told);
                    }
                });
                return true;
            }
            let may = self.may(at, scope);
            if !self.tell(at, told, may) {
                return false;
            }
            self.set(at, |op| {
                if let Op::Running { told, .. } = op {
                    *told = true;
                }
            });
        }
        match next.ask {
            None => self.ops[at] = Op::Over,
            Some(command) => {
                self.set(at, |op| {
                    if let Op::Running { doing, .. } = op {
                        *doing = Doing::Step(command);
                    }
                });
                self.skip_clearing(at, scope.fault);
            }
        }
        true
    }

    fn end(&mut self, at: usize, told: Told, scope: &Scope) -> bool {
        let may = self.may(at, scope);
        self.ops[at] = Op::Over;
        self.tell(at, told, may)
    }

    /// A running command's request is given up: nobody knows what becomes of it. False if what is told is wrong.
    fn give_up(&mut self, at: usize, scope: &Scope) -> bool {
        let Op::Running {
            doing,
            fetched,
            life,
            machine,
            ..
        } = self.ops[at].clone()
        else {
            unreachable!("only running ones are given up");
        };
        match (doing, machine) {
            (Doing::AtFormer, _) => {
                self.late_at_former.push(at);
                self.end(at, Told::Unknown, scope)
            }
            (Doing::Step(command), Some(mut machine)) => {
                self.late.push((command, at, life, fetched));
                // An application's own command that is lost is not the machine's business any more.
                if matches!(command, Command::Own(_)) {
                    return self.end(at, Told::Unknown, scope);
                }
                let next = machine.hear(Heard::Failed);
                self.set(at, |op| {
                    if let Op::Running { machine: its, .. } = op {
                        *its = Some(machine);
                    }
                });
                self.go_on(at, next.show, next, None, scope)
            }
            _ => self.end(at, Told::Unknown, scope),
        }
    }

    /// The server that is warmed starts anew, and counts from one again. What was asked of it is lost with its connections.
    fn restart(&mut self, scope: &Scope) -> bool {
        self.here = None;
        self.unique = 0;
        self.life += 1;
        self.late.retain(|(command, ..)| command.is_of_former());
        for at in 0..OPS {
            let is_here = match &self.ops[at] {
                Op::Running {
                    doing: Doing::Step(command),
                    ..
                } => !command.is_of_former(),
                Op::Running { doing, .. } => *doing == Doing::FirstRead,
                _ => false,
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

    /// In which phases a command may begin.
    fn phases_of_beginners(&self, scope: &Scope) -> Vec<Phase> {
        let apart = match scope.fault {
            Some(Fault::TwoPhasesApart) => 2,
            _ => 1,
        };
        let present = self.phase as usize;
        let first = (scope.phases.0 as usize).max(present.saturating_sub(apart));
        let is_left_out = |phase: &Phase| match scope.fault {
            Some(Fault::WritesAreNotEnded) => *phase == Phase::FormerReadOnly,
            Some(Fault::FillsAreNotEnded) => *phase == Phase::NotFilled,
            _ => false,
        };
        let mut phases: Vec<_> = (first..=present).map(Phase::at).collect();
        if phases.iter().any(is_left_out) && first > 0 {
            phases.push(Phase::at(first - 1));
        }
        phases.retain(|phase| !is_left_out(phase));
        phases
    }

    /// The phase that may begin: nothing of the one before the present is under way, and nobody means to bring anything any more.
    fn next_phase(&self, scope: &Scope) -> Option<Phase> {
        if self.phase == scope.phases.1 {
            return None;
        }
        let is_awaited = |op: &Op| matches!(op, Op::Running { phase, .. } if *phase < self.phase);
        let waits =
            self.ops.iter().any(is_awaited) && scope.fault != Some(Fault::CommandsAreNotAwaited);
        let mut next = Phase::at(self.phase as usize + 1);
        // Placeholders live for two seconds, and the last phase begins later.
        let is_marked = self.here.is_some_and(|slot| slot.value.is_none());
        // Last stores at the former place are waited for until their connections have ended.
        let has_late = next == Phase::Warmed
            && !self.late_at_former.is_empty()
            && scope.fault != Some(Fault::LastStoresAreNotAwaited);
        if scope.fault == Some(Fault::WritesAreNotEnded) && next == Phase::FormerReadOnly {
            next = Phase::Warmed;
        }
        if scope.fault == Some(Fault::FillsAreNotEnded) && next == Phase::NotFilled {
            next = Phase::Here;
        }
        let must_wait = waits || has_late || next == Phase::Here && is_marked;
        (!must_wait).then_some(next)
    }

    /// All that can happen next, and whether it is right.
    fn successors(&self, scope: &Scope) -> Vec<(World, bool, String)> {
        let mut next = Vec::new();
        let mut push = |what: String, change: &dyn Fn(&mut World) -> bool| {
            let mut world = self.clone();
            let is_right = change(&mut world);
            next.push((world, is_right, what));
        };
        let idle = self.ops[..scope.ops].iter().position(|op| *op == Op::Idle);
        if let Some(op) = idle {
            for phase in self.phases_of_beginners(scope) {
                for &kind in scope.kinds {
                    let reads = matches!(kind, Kind::Get | Kind::Gets | Kind::ReadHere);
                    if phase == Phase::FormerReadOnly && !reads {
                        continue;
                    }
                    push(format!("{op} begins: {kind:?} {phase:?}"), &|world| {
                        world.begin(op, kind, phase, scope.fault);
                        true
                    });
                }
            }
        }
        if let Some(phase) = self.next_phase(scope) {
            push(format!("{phase:?}"), &|world| {
                world.phase = phase;
                true
            });
        }
        for index in 0..self.late_at_former.len() {
            push("late at the former place".into(), &|world: &mut World| {
                let op = world.late_at_former.remove(index);
                if let Some(kind) = world.open[op] {
                    world.former = effect(kind, op, world.former).1;
                }
                true
            });
        }
        for (at, op) in self.ops.iter().enumerate() {
            let Op::Running { kind, doing, .. } = op else {
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
                        let kind = world.open[op];
                        // Of an answered command only steps can be late, which have no kind.
                        let kind = kind.unwrap_or(Kind::Get);
                        world.carry_out(command, (op, kind), fetched, scope.fault);
                    }
                    true
                },
            );
        }
        if self.evictions > 0 {
            if self.here.is_some() {
                push("evicted here".into(), &|world| {
                    world.evictions -= 1;
                    world.here = None;
                    true
                });
            }
            if self.former.is_some() {
                push("evicted at the former place".into(), &|world| {
                    world.evictions -= 1;
                    world.former = None;
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

/// Searches a scope, the shortest ways first: how many states it has, or the way to what is wrong.
fn search(scope: &Scope) -> Result<usize, Vec<String>> {
    let hash = |world: &World| {
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        hasher.finish()
    };
    let first = World::new(scope);
    let mut seen = HashSet::from([hash(&first)]);
    let mut ways: Vec<(usize, String)> = vec![(0, String::new())];
    let mut layer = vec![(first, 0)];
    while !layer.is_empty() {
        let mut following = Vec::new();
        for (world, way) in layer {
            for (next, is_right, what) in world.successors(scope) {
                if !is_right {
                    let mut steps = vec![what];
                    let mut at = way;
                    while at > 0 {
                        steps.push(ways[at].1.clone());
                        at = ways[at].0;
                    }
                    steps.reverse();
                    return Err(steps);
                }
                if seen.insert(hash(&next)) {
                    ways.push((way, what));
                    following.push((next, ways.len() - 1));
                }
            }
        }
        layer = following;
    }
    Ok(seen.len())
}

fn is_right(scope: &Scope) {
    match search(scope) {
        Ok(states) => println!("{states} states"),
        Err(way) => panic!("wrong:\n  {}", way.join("\n  ")),
    }
}

/// Whether the larger scopes are to be searched.
fn full() -> bool {
    std::env::var_os("EVENKEEL_FULL").is_some()
}

#[test]
fn commands_of_any_kind_with_an_eviction_are_right() {
    is_right(&Scope { ops: 2, ..SCOPE });
    is_right(&Scope {
        kinds: if full() {
            MOST
        } else {
            &[Kind::Get, Kind::Set]
        },
        ..SCOPE
    });
}

#[test]
fn reads_and_writes_with_requests_that_are_given_up_are_right() {
    is_right(&Scope {
        kinds: &[Kind::Get, Kind::Set, Kind::Incr],
        given_up: 1,
        ops: 2,
        ..SCOPE
    });
}

#[test]
fn a_restart_that_counts_uniques_anew_is_right() {
    is_right(&Scope {
        kinds: &[Kind::Get, Kind::Gets, Kind::Set, Kind::Incr],
        restarts: 1,
        evictions: 0,
        ops: 2,
        ..SCOPE
    });
}

#[test]
fn the_whole_change_is_right() {
    is_right(&Scope { ops: 2, ..BEGIN });
    is_right(&Scope { ops: 2, ..END });
    is_right(&Scope {
        ops: if full() { 3 } else { 2 },
        given_up: 1,
        kinds: &[Kind::Get, Kind::Set, Kind::Delete],
        ..BEGIN
    });
    if full() {
        is_right(&Scope { kinds: MOST, ..END });
    }
}

#[test]
fn nothing_is_lost_that_was_not_evicted() {
    is_right(&Scope {
        evictions: 0,
        strict: true,
        ops: 2,
        ..SCOPE
    });
}

/// Each fault, by the shortest scope that shows it.
#[test]
fn every_broken_rule_is_found() {
    use Kind::{Add, Delete, Get, Incr, Set};
    let strict = Scope {
        strict: true,
        evictions: 0,
        ..SCOPE
    };
    for (fault, kinds, scope) in [
        (Fault::FillIgnoresUnique, &[Get, Set][..], SCOPE),
        (Fault::PlaceholderCovers, &[Get, Set], strict),
        (Fault::RemovalIgnoresUnique, &[Get, Set], strict),
        (Fault::MarkIsShown, &[Get], SCOPE),
        (Fault::FormerIsNotCleared, &[Get, Set], SCOPE),
        (Fault::FormerIsClearedAfterwards, &[Get, Delete], SCOPE),
        (Fault::ChangesDoNotClear, &[Get, Incr], SCOPE),
        (Fault::ChangesAreNotBound, &[Get, Delete, Incr], SCOPE),
        (
            Fault::AddTakesPlaceholdersForItems,
            &[Get, Delete, Add],
            strict,
        ),
        (
            Fault::GoesOnAfterRestart,
            &[Get, Set],
            Scope {
                restarts: 1,
                evictions: 0,
                ..SCOPE
            },
        ),
        (Fault::FetchesBeforePlacing, &[Get, Set], SCOPE),
        (Fault::WritesAreNotEnded, &[Get, Set], BEGIN),
        (Fault::TwoPhasesApart, &[Get, Set], BEGIN),
        (Fault::CommandsAreNotAwaited, &[Get, Set], BEGIN),
        (Fault::FillsAreNotEnded, &[Get, Delete], END),
        (
            Fault::LastStoresAreNotAwaited,
            &[Get, Set],
            Scope {
                ops: 4,
                evictions: 0,
                given_up: 1,
                ..BEGIN
            },
        ),
    ] {
        let scope = Scope {
            fault: Some(fault),
            kinds,
            ..scope
        };
        let began = std::time::Instant::now();
        match search(&scope) {
            Ok(states) => panic!("{fault:?} is not found among {states} states"),
            Err(way) => println!(
                "{fault:?}: {} steps, {:.1} s\n  {}",
                way.len(),
                began.elapsed().as_secs_f64(),
                way.join("\n  ")
            ),
        }
    }
}
