//! What is right: a register that may lose its value at any time, and that may be missed.

use std::collections::HashSet;
use std::rc::Rc;

/// Commands of a scope at most.
pub const OPS: usize = 5;

/// What the register has at first.
pub const INITIAL: u8 = 1;

/// What an application asks.
#[allow(dead_code, reason = "each search asks some of them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Get,
    /// A get that keeps the unique for a compare-and-swap.
    Gets,
    ReadHere,
    Set,
    Delete,
    Add,
    Incr,
    Touch,
    /// With a unique that was read with this value.
    Cas(u8),
}

impl Kind {
    pub fn reads(self) -> bool {
        matches!(self, Kind::Get | Kind::Gets | Kind::ReadHere)
    }
}

/// What it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Told {
    Value(u8),
    Done,
    NotStored,
    Exists,
    Nothing,
    /// Whether it was executed, and when, is not known.
    Unknown,
}

/// One explanation of all answers so far.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Explanation {
    value: Option<u8>,
    /// Of commands that have taken effect and are not answered.
    effects: [Option<Told>; OPS],
}

/// What all answers so far say of the register.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Register {
    /// Begun, and not answered for certain.
    open: [Option<Kind>; OPS],
    /// In order. Shared, since most of what happens changes nothing here.
    explanations: Rc<Vec<Explanation>>,
}

pub fn value_of(op: usize) -> u8 {
    10 + op as u8
}

/// What a command does to the register, with what it is told.
pub fn effect(kind: Kind, op: usize, value: Option<u8>) -> (Told, Option<u8>) {
    let read = value.map_or(Told::Nothing, Told::Value);
    match (kind, value) {
        (Kind::Get | Kind::Gets | Kind::ReadHere, _) => (read, value),
        (Kind::Set, _) => (Told::Done, Some(value_of(op))),
        (Kind::Delete, _) => (Told::Done, None),
        (Kind::Add, None) => (Told::Done, Some(value_of(op))),
        (Kind::Add, Some(_)) => (Told::NotStored, value),
        (Kind::Incr, Some(value)) => (Told::Value(value + 50), Some(value + 50)),
        (Kind::Touch, Some(_)) => (Told::Done, value),
        (Kind::Cas(read), Some(value)) if read == value => (Told::Done, Some(value_of(op))),
        (Kind::Cas(_), Some(value)) => (Told::Exists, Some(value)),
        (Kind::Incr | Kind::Touch | Kind::Cas(_), None) => (Told::Nothing, None),
    }
}

/// What a command is told that misses what is there. A compare-and-swap may meet its own value
/// under another unique, too, or a mark.
fn missed(kind: Kind) -> &'static [Told] {
    match kind {
        Kind::Set | Kind::Delete => &[],
        Kind::Add => &[Told::Done],
        Kind::Cas(_) => &[Told::Nothing, Told::Exists],
        _ => &[Told::Nothing],
    }
}

impl Register {
    pub fn new() -> Self {
        Register {
            open: [None; OPS],
            explanations: Rc::new(vec![Explanation {
                value: Some(INITIAL),
                effects: [None; OPS],
            }]),
        }
    }

    /// It has nothing at first.
    #[allow(dead_code, reason = "one search begins so")]
    pub fn lose(&mut self) {
        let first = Rc::make_mut(&mut self.explanations);
        first.iter_mut().for_each(|known| known.value = None);
    }

    /// A command begins.
    pub fn begin(&mut self, op: usize, kind: Kind) {
        self.open[op] = Some(kind);
    }

    /// All that a command that is open may have done by now, and what was lost.
    fn explain(&self, (may_lose, may_miss): (bool, bool)) -> HashSet<Explanation> {
        let mut all: HashSet<_> = self.explanations.iter().cloned().collect();
        let mut new = self.explanations.to_vec();
        let mut found = Vec::new();
        while let Some(known) = new.pop() {
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
                    let misses = missed(*kind).iter();
                    for told in misses.filter(|_| may_miss) {
                        let mut missed = known.clone();
                        missed.effects[op] = Some(*told);
                        if *kind == Kind::Add {
                            missed.value = Some(value_of(op));
                        }
                        found.push(missed);
                    }
                }
            }
            for found in found.drain(..) {
                if all.insert(found.clone()) {
                    new.push(found);
                }
            }
        }
        all
    }

    /// A command is answered. False if nothing explains that.
    pub fn tell(&mut self, op: usize, told: Told, may: (bool, bool)) -> bool {
        if told == Told::Unknown {
            // It stays open: it may take effect at any time, or never.
            return true;
        }
        let all = self.explain(may);
        self.open[op] = None;
        let fits = all
            .into_iter()
            .filter(|known| known.effects[op] == Some(told));
        let mut fits: Vec<_> = fits
            .map(|mut known| {
                known.effects[op] = None;
                known
            })
            .collect();
        fits.sort_unstable();
        self.explanations = Rc::new(fits);
        !self.explanations.is_empty()
    }
}
