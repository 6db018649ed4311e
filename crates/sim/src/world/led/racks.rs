//! A pool in racks of which one holds each item: what servers execute of commands between racks, and what goes wrong just then.

use super::super::World;
use super::super::command::{Change, Command};
use super::super::event::Event;
use super::super::fault::Fault;
use super::super::leading::Turn;
use super::super::led_report::{Mischance, RackStep};
use super::super::swarm::Hazards;
use super::super::units::MS;
use evenkeel_schemes::mark::{Mark, read};

/// One step in this many has something go wrong behind it; of those by which a key moves, which are few, more.
const STRUCK_OF: u64 = 60;
const MOVE_STRUCK_OF: u64 = 8;

/// How soon that is.
const SOON: u64 = 3 * MS;

/// The step that a command is.
fn step_of(command: &Command, input: &[u8]) -> RackStep {
    let line = input.split(|byte| *byte == b'\r').next();
    let mut words = line.unwrap_or_default().split(|byte| *byte == b' ');
    match &command.change {
        Change::Read if words.any(|word| word == b"u") => RackStep::Look,
        Change::Read => RackStep::Read,
        Change::Remove => RackStep::Delete,
        Change::Store { value, .. } => match read(value) {
            Some(Mark::Lock) => RackStep::Lock,
            Some(_) => RackStep::Note,
            None => RackStep::Store,
        },
        _ => RackStep::Store,
    }
}

impl World {
    /// A server has executed a step between racks: something may go wrong behind it.
    pub(super) fn step_taken(&mut self, server: usize, command: &Command, input: &[u8]) {
        let Some(racks) = self.led.as_mut().and_then(|led| led.racks.as_mut()) else {
            return;
        };
        let step = step_of(command, input);
        racks.last_step = step;
        let is_calm = self.plan.swarm.hazards == Hazards::default();
        let of = match step {
            RackStep::Lock | RackStep::Note | RackStep::Delete => MOVE_STRUCK_OF,
            RackStep::Read | RackStep::Look | RackStep::Store => STRUCK_OF,
        };
        if is_calm || self.time >= self.plan.quiet_from() || !self.random.chance(1, of) {
            return;
        }
        let mischance = Mischance::ALL[self.random.index(Mischance::ALL.len())];
        let turn = Turn::AtStep {
            server,
            step,
            mischance,
        };
        let delay = self.random.below(SOON);
        self.after(delay, Event::Led(turn));
    }

    /// Something goes wrong as a server has just executed a step: with that one in half of all cases.
    pub(super) fn let_happen_at(&mut self, server: usize, step: RackStep, mischance: Mischance) {
        if self.time >= self.plan.quiet_from() {
            return;
        }
        let with = self.random.chance(1, 2).then_some(server);
        let Some(led) = &mut self.led else {
            return;
        };
        if let Some(racks) = &mut led.racks {
            racks.last_step = step;
        }
        let moment = led.moment();
        if mischance.can_happen(led.kind(), moment) {
            self.let_happen(mischance, with);
        }
    }

    /// Some server evicts what it has of a key.
    pub(super) fn evict_in_racks(&mut self) {
        let key = self.some_text();
        let server = self.random.index(self.servers.len());
        self.evict_in_rack(server, key);
    }

    /// A server evicts what it has of a key, whatever that is.
    pub(super) fn evict_in_rack(&mut self, server: usize, key: usize) {
        let Some(racks) = self.led.as_ref().and_then(|led| led.racks.as_ref()) else {
            return;
        };
        let (name, mischance) = match racks.is_directory(server) {
            true => (racks.note_of(&self.keys[key]), Mischance::OwnEvicted),
            false => (self.keys[key].clone(), Mischance::FormerEvicted),
        };
        if self.evict_named(server, &name) {
            self.note_mischance(mischance);
        }
    }

    /// With a fault: what a server answers to a step that it does not execute, because that would take an item away.
    pub(super) fn keep_in_rack(
        &mut self,
        server: usize,
        command: &Command,
        input: &[u8],
    ) -> Option<&'static [u8]> {
        let racks = self.led.as_ref()?.racks.as_ref()?;
        if racks.is_directory(server) || !self.has_fault(Fault::HoldersKept) {
            return None;
        }
        let answer: &'static [u8] = match step_of(command, input) {
            RackStep::Note => b"HD c1\r\n",
            RackStep::Delete if input.starts_with(b"md ") => b"HD\r\n",
            _ => return None,
        };
        let has = self.peek(server, command)?;
        read(&has).is_none().then_some(answer)
    }
}
