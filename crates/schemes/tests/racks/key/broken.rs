//! Rules that are broken: what a command asks or hears otherwise then.

use super::{Key, Protocol, Scope, place_of, rack_id, site_of};
use crate::register::Kind;
use evenkeel_schemes::locality::holder::{Command, Heard, Over, Sites};

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Notes (Snoop) leave before the own place is looked at, or the own place is looked at when the directory has the note.
    LooksAtOwnPlaceLast,
    /// The value is stored before the others are told.
    StoresFirst,
    StoresIgnoreUnique,
    /// Nothing is put at the own place before others are told.
    NoLock,
    ReplacesIgnoreUnique,
    AwaitsNoNote,
    DeletesHereAlone,
    /// A delete that finds nothing is over.
    DeletesNothing,
    ChangesIgnoreUnique,
    GoesOnAfterRestart,
    FollowsOneNote,
    AddsAsSets,
    /// An add's lock covers what is there.
    AddsLockAnything,
    /// The rack that the directory names keeps what it has.
    ClearsNothingNamed,
    /// Without a note in the directory nobody is cleared.
    ClearsNothingWithoutNote,
    /// The directory's note is put before others are cleared.
    ClearsBehindNote,
    ClaimsIgnoreUnique,
    /// Nothing is put into a directory that has nothing.
    NoStub,
    /// A note that names us is left as it is.
    OwnNoteIsKept,
    /// A copy is put over whatever is there by then.
    CopiesIgnoreUnique,
}

/// What a broken rule has changed of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Broken {
    /// Asked when nothing else is any more.
    then: Vec<(usize, Command)>,
    /// Heard when nothing is asked any more.
    held: Option<(usize, Heard)>,
    /// The directory had a note.
    saw_note: bool,
    /// And it names the own rack.
    saw_own_note: bool,
    /// Notes have left before.
    has_noted: bool,
}

impl Key {
    /// Asks what a machine says, unless a rule is broken.
    pub(super) fn ask(&mut self, at: usize, command: Command, sites: Sites, scope: &Scope) -> bool {
        let running = &mut self.running[at];
        let (kind, own) = (running.kind, running.rack);
        let is_set = matches!(kind, Kind::Set | Kind::Add);
        let asked = sites
            .iter()
            .map(|site| (place_of(site, scope.racks), command));
        let mut asked: Vec<_> = asked.collect();
        let is_first = running.anew == 0 && asked == [(own, Command::Look)];
        let mut is_left_out = false;
        match (scope.fault, command) {
            (Some(Fault::LooksAtOwnPlaceLast), Command::Look) if is_set && is_first => {
                let others = (0..scope.racks).filter(|rack| *rack != own);
                let note = |over| Command::Note(rack_id(own), over);
                running.broken.then = asked;
                running.broken.has_noted = true;
                asked = match scope.protocol {
                    Protocol::Snoop => others.map(|rack| (rack, note(Over::Anything))).collect(),
                    Protocol::Directory => others
                        .map(|rack| (rack, Command::Delete(None)))
                        .chain([(scope.racks, note(Over::Anything))])
                        .collect(),
                };
            }
            (Some(Fault::LooksAtOwnPlaceLast), Command::Note(..) | Command::Delete(None)) => {
                is_left_out = is_set && running.broken.has_noted;
            }
            (Some(Fault::StoresFirst), Command::Note(..) | Command::Delete(None)) if is_set => {
                // The value is there at once, whatever the place has; what follows is too late.
                if let (Heard::Done(_), _) = self.servers.execute(
                    own,
                    Command::Own(None),
                    (running.op, kind),
                    Some(Fault::StoresFirst),
                ) {
                    running.broken.has_noted = true;
                }
            }
            (Some(Fault::AwaitsNoNote), Command::Note(_, Over::Anything)) => {
                running.asked.append(&mut asked);
                is_left_out = true;
            }
            (Some(Fault::DeletesHereAlone), Command::Delete(None)) if kind == Kind::Delete => {
                let others: Vec<_> = asked.extract_if(.., |(place, _)| *place != own).collect();
                return self.pretend(at, others, scope, asked);
            }
            (Some(Fault::DeletesNothing), Command::Delete(None)) => {
                is_left_out = kind == Kind::Delete;
            }
            (Some(Fault::ClearsNothingNamed), Command::Delete(None)) => {
                is_left_out = is_set && running.broken.saw_note;
            }
            (Some(Fault::ClearsNothingWithoutNote), Command::Delete(None)) => {
                is_left_out = is_set && !running.broken.saw_note;
            }
            (Some(Fault::ClearsBehindNote), Command::Delete(None)) if is_set => {
                running.broken.then = asked.clone();
                is_left_out = true;
            }
            (Some(Fault::OwnNoteIsKept), Command::Note(..)) => {
                is_left_out = running.broken.saw_own_note;
            }
            _ => {}
        }
        if is_left_out {
            let left_out = sites
                .iter()
                .map(|site| (place_of(site, scope.racks), command));
            return self.pretend(at, left_out.collect(), scope, Vec::new());
        }
        let running = &mut self.running[at];
        running.asked.extend(asked);
        running.asked.sort_unstable_by_key(|(place, _)| *place);
        true
    }

    /// A broken rule has it that these are as good as done; the others are asked.
    fn pretend(
        &mut self,
        at: usize,
        done: Vec<(usize, Command)>,
        scope: &Scope,
        asked: Vec<(usize, Command)>,
    ) -> bool {
        self.running[at].asked.extend(asked);
        let op = self.running[at].op;
        let mut is_right = true;
        for (place, _) in done {
            let running = self.running.iter().position(|running| running.op == op);
            let Some(at) = running else { break };
            let Some(machine) = &mut self.running[at].machine else {
                break;
            };
            let next = machine.handle(site_of(place, scope.racks), Heard::Done(0));
            is_right &= self.go_on(at, next, scope);
        }
        is_right
    }

    /// What a machine hears, and where from, by the rules that are broken. `None` if it hears nothing yet.
    pub(super) fn hold(
        &mut self,
        at: usize,
        (place, command): (usize, Command),
        heard: Heard,
        scope: &Scope,
    ) -> Option<(usize, Heard)> {
        let running = &mut self.running[at];
        let broken = &mut running.broken;
        if let (true, Heard::Note(_, rack)) = (place == scope.racks, heard) {
            broken.saw_note = true;
            broken.saw_own_note = rack == rack_id(running.rack);
        }
        match (scope.fault, command, heard) {
            (Some(Fault::FollowsOneNote), _, Heard::Note(unique, _))
                if place != running.rack && place != scope.racks =>
            {
                return Some((place, Heard::Lock(unique)));
            }
            // The first look comes when all that it was kept back for is done.
            (Some(Fault::LooksAtOwnPlaceLast), _, _) if !broken.then.is_empty() => {
                if running.asked.is_empty() {
                    running.asked = core::mem::take(&mut broken.then);
                }
                return None;
            }
            (Some(Fault::ClearsBehindNote), Command::Note(..), Heard::Done(_))
                if !broken.then.is_empty() =>
            {
                broken.held = Some((place, heard));
                running.asked = core::mem::take(&mut broken.then);
                return None;
            }
            (Some(Fault::ClearsBehindNote), _, _) if broken.held.is_some() => {
                if running.asked.is_empty() {
                    return broken.held.take();
                }
                return None;
            }
            _ => {}
        }
        Some((place, heard))
    }
}
