//! Plain servers of a led pool, as memcacheds are: they count uniques anew in each life and evict what they like.
//!
//! What each value is, is learnt where it comes into being: the content that a server holds after a command stands for the write that
//! made it. So values that servers put together (`append`, `incr`) are known, and on what they were built.

use super::super::World;
use super::super::command::{Change, Command};
use super::super::connection::INITIATOR;
use super::super::event::Event;
use super::super::fault::Fault;
use super::super::leading::Turn;
use super::super::led_report::{LedKind, Mischance, Moment, Tally};
use super::super::mutants::edit_line;
use super::super::observing::told;
use crate::history::{Action, NEVER, WriteId};
use evenkeel_protocol::{Limits, MetaStatus, Reply, ReplyOutcome, StoreMode, parse_reply};
use evenkeel_schemes::generation::mask;
use evenkeel_schemes::mark;
use evenkeel_schemes::stage::Stage;
use evenkeel_server_core::{ConnectionId, Peer};

impl World {
    /// Lets a server of a led pool execute the command at the front of an input, and gives what it consumed and answered.
    pub(in crate::world) fn execute_led(
        &mut self,
        place: (usize, u16, ConnectionId),
        command: Option<&Command>,
        input: &[u8],
    ) -> (usize, Vec<u8>) {
        let Some(renamed) = self.reuse_generations(input) else {
            return self.execute_at_server(place, command, input);
        };
        let command = Command::parse(&renamed.input, &self.keys);
        let (consumed, out) = self.execute_at_server(place, command.as_ref(), &renamed.input);
        let shorter = input.len() - renamed.input.len();
        match consumed {
            0 => (0, out),
            consumed => (consumed + shorter, renamed.as_asked(&out)),
        }
    }

    fn execute_at_server(
        &mut self,
        (server, worker, id): (usize, u16, ConnectionId),
        command: Option<&Command>,
        input: &[u8],
    ) -> (usize, Vec<u8>) {
        let place = (server, worker, id);
        let Some(command) = command else {
            return self.show_input(place, input);
        };
        if command.is_of_copy() {
            return self.execute_at_copy(place, command, input);
        }
        if let Some(answer) = self.keep_at_former(server, command) {
            return (command.len, answer.to_vec());
        }
        if let Some(answer) = self.swallow(command, input) {
            return (command.len, answer.to_vec());
        }
        let base = match &command.change {
            Change::Increase(_) => self.peek(server, command),
            Change::Store {
                mode: StoreMode::Append | StoreMode::Prepend,
                ..
            } => self.peek(server, command),
            _ => None,
        };
        let unguarded = self.unguarded(command, input);
        if let Some(answer) = self.keep_in_rack(server, command, input) {
            return (command.len, answer.to_vec());
        }
        let forged = unguarded.or_else(|| self.forge(command, input));
        let (consumed, mut out) = self.show_forged(place, command, input, forged);
        if consumed > 0 {
            self.step_taken(server, command, input);
            self.note_late(place, command);
            self.name_value(command, base, &out);
            self.note_masked(command, &out);
        }
        self.spoil_led(server, &mut out);
        (consumed, out)
    }

    /// Lets a server execute what it is shown instead of a command, if anything.
    pub(super) fn show_forged(
        &mut self,
        place: (usize, u16, ConnectionId),
        command: &Command,
        input: &[u8],
        forged: Option<Vec<u8>>,
    ) -> (usize, Vec<u8>) {
        match forged {
            None => self.show_input(place, input),
            Some(forged) => match self.show_input(place, &forged) {
                (0, out) => (0, out),
                (_, out) => (command.len, out),
            },
        }
    }

    /// A write whose proxy has given it up, or has died, is executed all the same.
    fn note_late(&mut self, (server, worker, id): (usize, u16, ConnectionId), command: &Command) {
        let sessions = &self.servers[server].sessions[usize::from(worker)];
        let connection = sessions.get(&(id.slot, id.generation)).copied();
        let is_given_up = |connection: usize| !self.connections[connection].ends[INITIATOR].open;
        let is_late = connection.is_some_and(is_given_up);
        let is_former = self.led.as_ref().is_some_and(|led| led.is_former(server));
        let counts = is_former || self.is_in_racks();
        if is_late && counts && command.change != Change::Read {
            self.note_mischance(Mischance::WriteLate);
        }
    }

    /// A swap of an item was meant for one of another generation.
    fn note_masked(&mut self, command: &Command, answer: &[u8]) {
        let Change::Store {
            expects: Some(unique),
            ..
        } = command.change
        else {
            return;
        };
        let status = told(answer, &Limits::default()).map(|(status, _)| status);
        if self.has_ring() && unique >= mask(1) && status == Some(MetaStatus::Exists) {
            self.report.led.tell(LedKind::Ring, Tally::MasksMissed, 1);
        }
    }

    /// What a server answers over a connection of nobody's.
    fn ask_inside(&mut self, server: usize, command: &[u8]) -> Vec<u8> {
        let s = &mut self.servers[server];
        let now = s.process.now(self.time);
        let Some(core) = s.workers.first_mut() else {
            return Vec::new();
        };
        let id = core.open(Peer::default());
        core.handle_input(now, id, command);
        let out = core
            .session(id)
            .map(|session| core::mem::take(&mut session.out));
        core.close(id);
        out.unwrap_or_default()
    }

    /// What a server holds of what a command is about.
    pub(super) fn peek(&mut self, server: usize, command: &Command) -> Option<Vec<u8>> {
        let key = &self.keys[usize::from(command.key)];
        let command = [b"get ", &command.prefix[..], key, b"\r\n"].concat();
        let out = self.ask_inside(server, &command);
        match parse_reply(&out, &Limits::default()) {
            ReplyOutcome::Reply {
                reply: Reply::Value(value),
                ..
            } => Some(value.data.to_vec()),
            _ => None,
        }
    }

    /// A command has been executed: what the key is from now on has a name.
    fn name_value(&mut self, command: &Command, base: Option<Vec<u8>>, answer: &[u8]) {
        let Some((status, _)) = told(answer, &Limits::default()) else {
            return;
        };
        if !matches!(status, MetaStatus::Done | MetaStatus::Value) {
            return;
        }
        let key = usize::from(command.key);
        let (content, id) = match &command.change {
            Change::Store { mode, value, .. } => {
                let before = base.as_deref().unwrap_or_default();
                let content = match mode {
                    StoreMode::Append => [before, value].concat(),
                    StoreMode::Prepend => [value, before].concat(),
                    _ => value.clone(),
                };
                (content, self.register.sender_of(value))
            }
            Change::Increase(by) => {
                let before = base.as_deref().unwrap_or_default();
                let number = String::from_utf8_lossy(before).parse::<u64>();
                let sum = number.unwrap_or(0).wrapping_add(*by).to_string();
                let id = self.register.numbers.get(by).copied();
                (sum.into_bytes(), id)
            }
            _ => return,
        };
        if let (Some(base), Some(id)) = (&base, id) {
            self.note_base(key, base, id);
        }
        // What was brought from elsewhere has its name. A placeholder has none.
        let named = &mut self.register.named[key];
        if let Some(id) = id.filter(|_| !named.contains_key(&content)) {
            named.insert(content, id);
        }
    }

    /// A value was made of another one: it has to be that which the key was.
    fn note_base(&mut self, key: usize, base: &[u8], by: WriteId) {
        let Some(of) = self.register.write_of(key, base) else {
            return;
        };
        let mut operations = self.operations.iter_mut().rev();
        let is_it = |action: &Action| matches!(action, Action::Write { id, .. } if *id == by);
        if let Some(operation) = operations.find(|operation| is_it(&operation.action))
            && let Action::Write { expects, .. } = &mut operation.action
        {
            *expects = Some(of);
        }
    }

    /// A server counts uniques anew: one of a former life can be the same by chance, as with memcached.
    pub(in crate::world) fn forget_uniques(&mut self) {
        let Some(led) = &mut self.led else {
            return;
        };
        led.restarted = self.time;
        for application in &mut self.applications {
            application.versions.fill(None);
        }
        let open = |operation: &&mut crate::history::Operation| operation.completed == NEVER;
        for operation in self.operations.iter_mut().filter(open) {
            if let Action::Write { expects, .. } = &mut operation.action {
                *expects = None;
            }
        }
    }

    /// Some server evicts a key.
    pub(super) fn evict_some(&mut self) {
        let Some(led) = &self.led else {
            return;
        };
        let (every, stage) = (led.evicts_every, led.stage());
        let pause = 1 + self.random.below(2 * every);
        self.after(pause, Event::Led(Turn::Evict));
        if self.is_in_racks() {
            return self.evict_in_racks();
        }
        let is_former = self.random.chance(1, 4);
        if !is_former && stage < Stage::Warming {
            return;
        }
        let key = self.some_text();
        if self.has_ring() {
            self.evict_of_ring(key, is_former, None);
            return;
        }
        if self.keeps_copies() {
            return self.evict_somewhere(key, is_former);
        }
        for server in self.servers_of(is_former) {
            self.evict(server, key);
        }
    }

    /// A server evicts all keys.
    pub(super) fn evict_all(&mut self, server: usize) {
        for key in 0..self.keys.len() {
            if self.is_in_racks() {
                self.evict_in_rack(server, key);
            } else if self.has_ring() {
                for is_former in [true, false] {
                    self.evict_of_ring(key, is_former, Some(server));
                }
            } else if self.keeps_copies() {
                for is_item in [true, false] {
                    self.evict_of_copies(server, key, is_item);
                }
            } else {
                self.evict(server, key);
            }
        }
    }

    fn evict(&mut self, server: usize, key: usize) {
        let name = self.keys[key].clone();
        if !self.evict_named(server, &name) {
            return;
        }
        let is_former = self.led.as_ref().is_some_and(|led| led.is_former(server));
        self.note_mischance(match is_former {
            true => Mischance::FormerEvicted,
            false => Mischance::OwnEvicted,
        });
    }

    /// The server that has a key before the moves of the present plan, or behind them, evicts it; `only` if it is this one.
    fn evict_of_ring(&mut self, key: usize, is_former: bool, only: Option<usize>) {
        let Some(led) = &self.led else {
            return;
        };
        let stage = led.stage();
        let known = led.ring.as_ref().and_then(|ring| ring.known.as_ref());
        let Some([from, to]) = known.map(|known| known.places(&self.keys[key])) else {
            return;
        };
        let moves = from != to;
        let place = if is_former { from } else { to };
        let is_meant = only.is_none_or(|only| only == place.server);
        if !is_meant || !self.evict_named(place.server, &place.name) || !moves {
            return;
        }
        let mischance = match is_former {
            true => Mischance::FormerEvicted,
            false => Mischance::OwnEvicted,
        };
        if mischance.can_happen(LedKind::Ring, Moment::Stage(stage)) {
            self.note_mischance(mischance);
        }
    }

    /// A server evicts the item of this name. False if it has none.
    pub(super) fn evict_named(&mut self, server: usize, name: &[u8]) -> bool {
        let process = &self.servers[server].process;
        if !process.alive || process.stopped_until > self.time {
            return false;
        }
        let command = [b"delete ", name, b"\r\n"].concat();
        let had = self.ask_inside(server, &command) == b"DELETED\r\n";
        if had {
            self.narrate(&[server], || format!("evicts {}", name.escape_ascii()));
        }
        had
    }

    /// With a fault: what a former server answers to a delete that it does not execute.
    fn keep_at_former(&self, server: usize, command: &Command) -> Option<&'static [u8]> {
        let led = self.led.as_ref()?;
        let is_kept = self.has_fault(Fault::FormerKept)
            && led.is_former(server)
            && led.stage() >= Stage::Warming
            && command.change == Change::Remove;
        is_kept.then_some(b"HD\r\n")
    }

    /// With a fault that does so: changes what a server of the pool's own answers.
    fn spoil_led(&self, server: usize, out: &mut Vec<u8>) {
        let is_former = self.led.as_ref().is_some_and(|led| led.is_former(server));
        if is_former && !self.is_in_racks() || !self.has_fault(Fault::MarksShown) {
            return;
        }
        let text = format!(" f{}", mark::FLAGS).into_bytes();
        let at = out.windows(text.len()).position(|words| words == text);
        if let Some(at) = at {
            out.splice(at..at + text.len(), b" f0".iter().copied());
        }
    }

    /// With a fault: an item that is brought, or a copy, without the unique of the placeholder that it is to take the place of.
    pub(super) fn unguarded(&self, command: &Command, input: &[u8]) -> Option<Vec<u8>> {
        let Change::Store {
            value,
            expects: Some(_),
            ..
        } = &command.change
        else {
            return None;
        };
        let known = self.register.write_of(usize::from(command.key), value);
        let is_brought = command.is_of_copy() || known.is_some();
        if !is_brought || !self.has_fault(Fault::FillsUnguarded) {
            return None;
        }
        Some(edit_line(&input[..command.len], |words| {
            // An opaque word in its place: a server remembers how much of a line it has seen, so that it is to be as long.
            for word in words.iter_mut().filter(|word| word.starts_with('C')) {
                word.replace_range(..1, "O");
            }
        }))
    }
}
