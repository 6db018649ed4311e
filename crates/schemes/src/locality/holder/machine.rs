//! A command on its way by either of the two ways; and what comes before it in a pool that is on its way from a former one.
//!
//! At the [stages](Stage) in which both pools count, what is here counts as ever, and the former pool has the present item or nothing:
//!
//! | | warming | closing |
//! |---|---|---|
//! | read | as ever; where it finds nothing, the item is brought: if that fails, it is a miss; where somebody else has brought it, it is read once more | as ever |
//! | set, delete | deleted at the former pool, then as ever | the same |
//! | add, change | the item is brought; deleted at the former pool; then as ever | deleted at the former pool, then as ever |
//!
//! Bringing is an add of what is fetched when everybody who would store or delete here meets a lock or note of it: anyone who does so has
//! deleted at the former pool before, so that either nothing is fetched or the lock is gone when that is to be stored. What is fetched is
//! shown when it is stored, and not before.
//!
//! The search in `tests/switch/` goes through it, with the steps by which the former pool is asked.

use super::copying::Copying;
use super::directory::Directory;
use super::snoop::Snoop;
use super::{Command, Heard, Kind, Next, Racks, Shown, Site, Start, Wish};
use crate::locality::topology::RackId;
use crate::stage::Stage;

/// A command on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    kind: Kind,
    racks: Racks,
    /// What the application wants.
    wish: Wish,
    /// How far its pool is on its way from a former one.
    stage: Stage,
    /// The unique with which the item was seen a while ago.
    known: Option<u64>,
    phase: Phase,
    /// What follows when the way has come to its end.
    then: Option<Phase>,
    way: Way,
}

/// What a command is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Bringing the item.
    Filling,
    /// Deleting at the former pool.
    Clearing,
    /// What the application wants.
    Acting,
    /// Reading once more, behind somebody else who has brought the item.
    ReadingAgain,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Way {
    Snoop(Snoop),
    Directory(Directory),
    Copying(Copying),
}

impl Way {
    fn new(kind: Kind, wish: Wish, racks: Racks) -> Self {
        match kind {
            Kind::Snoop => Way::Snoop(Snoop::new(wish, racks)),
            Kind::Directory => Way::Directory(Directory::new(wish, racks)),
        }
    }

    fn start(&mut self, start: Start) -> Next {
        match self {
            Way::Snoop(way) => way.start(start),
            Way::Directory(way) => way.start(start),
            Way::Copying(way) => way.start(),
        }
    }

    fn handle(&mut self, site: Site, heard: Heard) -> Next {
        match self {
            Way::Snoop(way) => way.handle(site, heard),
            Way::Directory(way) => way.handle(site, heard),
            Way::Copying(way) => way.handle(site, heard),
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Way::Snoop(way) => way.is_over(),
            Way::Directory(way) => way.is_over(),
            Way::Copying(way) => way.is_over(),
        }
    }
}

impl Machine {
    /// A read that has found this at its own place, which is no item, in a pool that is so far on its way from a former one: done, where it
    /// has none.
    pub fn of_read(kind: Kind, racks: Racks, found: Heard, stage: Stage) -> (Self, Next) {
        let mut machine = Machine::new((kind, racks), Wish::Read, None, stage);
        let next = machine.way.start(Start::Found(found));
        let next = machine.go_on(next);
        (machine, next)
    }

    /// A command that has asked nothing yet; a set may know the unique of the item in its own rack.
    pub fn of_asked(
        kind: Kind,
        wish: Wish,
        racks: Racks,
        known: Option<u64>,
        stage: Stage,
    ) -> (Self, Next) {
        let mut machine = Machine::new((kind, racks), wish, known, stage);
        let is_blind = matches!(wish, Wish::Set | Wish::Delete);
        let changes = wish != Wish::Read;
        let next = machine.enter(match stage.takes_steps() && changes {
            true if !is_blind && stage.fills() => Phase::Filling,
            true => Phase::Clearing,
            false => Phase::Acting,
        });
        (machine, next)
    }

    /// A [copy](crate::locality::local_copies) is to be kept of what this rack has answered to a read. Nothing is shown.
    pub fn of_copy(kind: Kind, racks: Racks, holder: RackId) -> (Self, Next) {
        let mut machine = Machine {
            way: Way::Copying(Copying::new(kind, racks, holder)),
            ..Machine::new((kind, racks), Wish::Read, None, Stage::Done)
        };
        let next = machine.way.start(Start::Anew);
        (machine, next)
    }

    /// Whether a copy is being kept.
    pub fn is_copying(&self) -> bool {
        matches!(self.way, Way::Copying(_))
    }

    fn new((kind, racks): (Kind, Racks), wish: Wish, known: Option<u64>, stage: Stage) -> Self {
        Machine {
            kind,
            racks,
            wish,
            stage,
            known,
            phase: Phase::Acting,
            then: None,
            way: Way::new(kind, wish, racks),
        }
    }

    /// What it wants at present: what the application does, or to bring the item.
    pub fn wish(&self) -> Wish {
        match self.phase {
            Phase::Filling => Wish::Fill,
            _ => self.wish,
        }
    }

    /// What was asked at a site has come to this.
    pub fn handle(&mut self, site: Site, heard: Heard) -> Next {
        match (self.phase, heard) {
            // Of what was asked before some may be answered only now.
            (Phase::Clearing, _) if site != Site::Former => Next::default(),
            (Phase::Clearing, Heard::Failed) => {
                self.phase = Phase::Acting;
                Next::show(Shown::Failed(site))
            }
            (Phase::Clearing, _) => self.enter(Phase::Acting),
            _ => {
                let next = self.way.handle(site, heard);
                self.go_on(next)
            }
        }
    }

    /// Whether nothing is awaited: all is done.
    pub fn is_over(&self) -> bool {
        self.phase != Phase::Clearing && self.way.is_over()
    }

    /// What the way says, unless something else is behind what it would show: all transitions between phases.
    fn go_on(&mut self, mut next: Next) -> Next {
        let is_read = self.wish == Wish::Read;
        if let (Phase::Filling, true, Some(Shown::Failed(_))) = (self.phase, is_read, next.show) {
            // What could not be brought is not here.
            next.show = Some(Shown::Miss);
        }
        self.then = match (self.phase, next.show) {
            (Phase::Acting, Some(Shown::Miss)) if is_read && self.stage.fills() => {
                Some(Phase::Filling)
            }
            (Phase::Filling, Some(Shown::NotStored | Shown::Busy)) if is_read => {
                Some(Phase::ReadingAgain)
            }
            (Phase::Filling, Some(Shown::Stored(_) | Shown::NotStored | Shown::Miss))
                if !is_read =>
            {
                Some(Phase::Clearing)
            }
            _ => self.then,
        };
        next.show = next.show.filter(|_| self.then.is_none());
        match self.then.filter(|_| self.way.is_over()) {
            Some(phase) => self.enter(phase),
            None => next,
        }
    }

    fn enter(&mut self, phase: Phase) -> Next {
        (self.phase, self.then) = (phase, None);
        let wish = match phase {
            Phase::Clearing => return Next::ask(Command::Delete(None), Site::Former),
            Phase::Filling => Wish::Fill,
            Phase::Acting | Phase::ReadingAgain => self.wish,
        };
        let start = match (phase, self.known) {
            (Phase::Acting, Some(unique)) => Start::Behind(unique),
            (Phase::Filling, _) if self.wish == Wish::Read => Start::Nowhere,
            _ => Start::Anew,
        };
        self.way = Way::new(self.kind, wish, self.racks);
        self.way.start(start)
    }
}
