//! What a worker does about the memory of its connections' buffers: see [`budget`](crate::budget).

use super::Worker;
use super::weight::{is_scarce, may_go, weigh};
use crate::budget::{Held, LOOK, WAIT_LOOK, WAIT_MAX};
use crate::connection::Connection;
use evenkeel_runtime::budget::{Holding, Level, who_goes};
use evenkeel_runtime::watchdog::Step;
use evenkeel_server_core::{CloseReason, ConnectionId, Message};
use evenkeel_types::Now;
use std::time::Duration;

/// Answers to other workers are sent in the middle of a turn once they carry this many bytes, so that all
/// workers know of them.
const SEND_AT: usize = 256 << 10;

/// This many connections, and as many messages, that have waited for memory go on in a turn: their answers are large, and
/// others are served in between.
const RETRIES_PER_TURN: usize = 2;

impl Worker {
    /// How long a wait may be, so that those who wait for memory, or hold it for too long, are looked
    /// after.
    pub(super) fn shortage_look(&self) -> Duration {
        if self.waiters.is_empty() && self.wait_for_answers() == 0 {
            return match self.levels == Held::default() {
                true => Duration::MAX,
                false => self.look_interval(),
            };
        }
        let level = self.levels.answers;
        let goes_on = self.deferred.has_next(|message| may_go(level, message));
        match goes_on || self.may_take_held_back() {
            true => Duration::ZERO,
            false => WAIT_LOOK,
        }
    }

    /// How often to look for connections to close while memory is short.
    fn look_interval(&self) -> Duration {
        let budget = self.parts.share.budget();
        match budget.input.waiting() + budget.answers.waiting() {
            0 => LOOK,
            _ => WAIT_LOOK,
        }
    }

    /// How many wait for memory for their answers, connections here and at other workers.
    fn wait_for_answers(&self) -> usize {
        self.held_back.len() + self.deferred.len()
    }

    /// Takes what waited for a cachelet, before anything that comes later.
    pub(super) fn take_released(&mut self, now: Now) {
        while let Some((from, message)) = self.parts.core.poll_released() {
            let (pool, weight) = weigh(self.parts.share.budget(), &message);
            pool.take(weight);
            self.take_message(now, from, message);
        }
    }

    /// Takes a message, now or behind what is left of an earlier one.
    pub(super) fn take_message(&mut self, now: Now, from: u16, message: Message) {
        if let Message::Gone(id) = message {
            let budget = self.parts.share.budget();
            self.deferred.forget(from, id, |dropped| {
                let (pool, weight) = weigh(budget, dropped);
                pool.give_back(weight);
            });
        } else if self.deferred.is_behind(from, &message) {
            self.deferred.push(from, message);
        } else if let Some(left) = self.execute_message(now, from, message) {
            if self.levels.answers > Level::Easy {
                self.parts.core.counters().response_obj_waits += 1;
            }
            self.deferred.push(from, left);
        }
    }

    /// Executes a message, as long as there is memory for its answers, and time in this turn; gives what is left.
    fn execute_message(&mut self, now: Now, from: u16, message: Message) -> Option<Message> {
        let mut next = Some(message);
        while let Some(message) = next {
            next = self.execute_part(now, from, message);
            // What is left belongs to somebody whose answers are large, and fill the pool, or the turn, by themselves.
            if self.levels.answers > Level::Easy || self.has_moved_enough() {
                return next;
            }
        }
        None
    }

    /// Executes as much of a message as the core does at once; gives what is left.
    fn execute_part(&mut self, now: Now, from: u16, message: Message) -> Option<Message> {
        let (_, weight) = weigh(self.parts.share.budget(), &message);
        let is_answer = matches!(message, Message::Answers(_) | Message::Share { .. });
        // The connection of this worker whose answers grow.
        let answered = match &message {
            Message::Share { to, .. } if weight > 0 => Some(to.connection),
            Message::Answers(answers) if weight > 0 => Some(answers.connection()),
            // Its own command, for a key that has come here meanwhile.
            Message::Commands(commands) => self.parts.core.passed_back(commands),
            _ => None,
        };
        let scarce = !may_go(self.levels.answers, &message);
        self.parts.core.set_scarce(scarce);
        let made_before = self.parts.core.outbox_bytes();
        let left = self.parts.core.handle_message(now, from, message);
        let made = (self.parts.core.outbox_bytes()).saturating_sub(made_before);
        self.message_bytes += made + if is_answer { weight } else { 0 };
        if let Some(left) = &left {
            let (pool, weight) = weigh(self.parts.share.budget(), left);
            pool.take(weight);
        }
        if let Some(id) = answered {
            // Counted with the connection before it is not with the message any more: anyone who looks in
            // between must not take it for room.
            self.weigh(now, id);
            self.look_at_levels();
        }
        if weight > 0 {
            let budget = self.parts.share.budget();
            match is_answer {
                true => budget.answers.give_back(weight),
                false => budget.input.give_back(weight),
            }
        }
        if self.parts.core.outbox_bytes() >= SEND_AT {
            // What cannot be sent or told now will be at the end of the turn.
            let _ = self.send_messages();
            self.parts.mark.step(Step::Messages);
            self.look_at_levels();
        }
        left
    }

    /// Executes a part of some of the deferred messages, as long as there is memory for their answers.
    pub(super) fn take_deferred(&mut self, now: Now) {
        self.look_at_levels();
        for _ in 0..RETRIES_PER_TURN {
            let level = self.levels.answers;
            let next = self.deferred.take(|message| may_go(level, message));
            let Some((from, message)) = next else {
                return;
            };
            if let Some(left) = self.execute_part(now, from, message) {
                self.deferred.put_back(from, left);
            }
        }
    }

    fn look_at_levels(&mut self) {
        let budget = self.parts.share.budget();
        self.levels = Held {
            input: budget.input.level(),
            answers: budget.answers.level(),
        };
        if self.levels != Held::default() {
            self.parts.core.rooms().clear();
        }
        let scarce = is_scarce(self.levels.answers, false);
        self.parts.core.set_scarce(scarce);
    }

    /// Counts what a connection holds now, and gives it the room that it asks for, if there is some and
    /// nobody waits for it already. Makes room at once where it must be.
    pub(super) fn account(&mut self, now: Now, id: ConnectionId) {
        self.count(id);
        let nobody_waits = self.waiters.is_empty();
        let Some(client) = self.client(id) else {
            return;
        };
        let connection = &client.connection;
        if connection.asks() > 0 && !connection.waits_for_room() {
            let is_small = connection.asks_little();
            if (nobody_waits || is_small) && self.grant(now, id)
                || is_small && self.make_input_room(now, id) && self.grant(now, id)
            {
                // The rest may have been received and kept meanwhile.
                self.enqueue(id);
            } else {
                self.defer(now, id);
            }
        }
        self.look_at_levels();
        if self.levels.answers == Level::Over {
            self.close_slow_readers(now);
        }
    }

    /// Counts what has changed at a connection by another way than its own turn.
    fn weigh(&mut self, now: Now, id: ConnectionId) {
        let place = self.clients.get_mut(id.slot as usize);
        if let Some(client) = place.and_then(Option::as_mut) {
            client.connection.weigh(&mut self.parts.core, now);
        }
        self.count(id);
    }

    fn count(&mut self, id: ConnectionId) {
        let Some(client) = self.client(id) else {
            return;
        };
        let after = client.connection.held();
        let before = core::mem::replace(&mut client.counted, after);
        self.change(before, after);
    }

    fn change(&mut self, before: Held, after: Held) {
        self.parts.share.change(before, after);
        self.input_holders += usize::from(after.input > 0);
        self.input_holders -= usize::from(before.input > 0);
        let bytes = self.parts.share.used().input as u64;
        self.parts
            .core
            .set_input_held(self.input_holders as u64, bytes);
    }

    /// A connection is gone.
    pub(super) fn release(&mut self, connection: &Connection, counted: Held) {
        if counted != Held::default() {
            self.change(counted, Held::default());
        }
        if connection.waits_for_room() {
            self.leave_line(connection.id());
        }
    }

    /// Gives a connection the room that it asks for. False when there is none.
    fn grant(&mut self, now: Now, id: ConnectionId) -> bool {
        if self.grant_emptied(now, id) {
            return true;
        }
        let Some(client) = self.client(id) else {
            return true;
        };
        let more = client
            .connection
            .asks()
            .saturating_sub(client.counted.input);
        let is_small = client.connection.asks_little();
        if !self.parts.share.has_input_room(more, is_small) {
            return false;
        }
        if let Some(client) = self.client(id) {
            client.connection.grant(now);
        }
        self.count(id);
        true
    }

    /// Gives a connection room for all of a large command in memory that another one has emptied: the kernel need not clear it,
    /// and nothing is moved while more comes. False when there is none.
    fn grant_emptied(&mut self, now: Now, id: ConnectionId) -> bool {
        let Some(client) = self.client(id).filter(|it| !it.connection.asks_little()) else {
            return false;
        };
        let (bytes, counted) = (client.connection.command_bytes(), client.counted.input);
        let Some(room) = self.parts.core.rooms().take(bytes) else {
            return false;
        };
        let more = room.capacity().saturating_sub(counted);
        if !self.parts.share.has_input_room(more, false) {
            self.parts.core.rooms().keep(room);
            return false;
        }
        if let Some(client) = self.client(id) {
            client.connection.grant_in(now, room);
        }
        self.count(id);
        true
    }

    /// Gives a connection room for all of its command although the pool is full, unless another one has
    /// that: commands that all wait halfway would wait for each other.
    fn let_in(&mut self, now: Now, id: ConnectionId) -> bool {
        let is_taken = self.let_in.is_some_and(|(holder, since)| {
            let client = self.client(holder).filter(|_| holder != id);
            client.is_some_and(|client| client.connection.input_holding().since == since)
        });
        if !is_taken && let Some(client) = self.client(id) {
            client.connection.grant_all(now);
            let since = client.connection.input_holding().since;
            self.let_in = Some((id, since));
            self.count(id);
        }
        !is_taken
    }

    /// Ends the slowest of the commands that hold memory, so that a small one need not wait. False when
    /// there is none to end.
    fn make_input_room(&mut self, now: Now, id: ConnectionId) -> bool {
        let asks = self.client(id).map_or(0, |client| client.connection.asks());
        let holders = self.holders(Connection::input_holding);
        let holders = holders.filter(|(holder, _)| *holder != id);
        let slow = who_goes(now.monotonic, Level::Over, 0, asks, holders);
        slow.iter().for_each(|id| self.give_up_input(now, *id));
        !slow.is_empty()
    }

    /// This worker's connections, with what they hold of a pool.
    fn holders(
        &self,
        holding: impl Fn(&Connection) -> Holding,
    ) -> impl Iterator<Item = (ConnectionId, Holding)> {
        let clients = self.clients.iter().flatten();
        clients.map(move |client| (client.connection.id(), holding(&client.connection)))
    }

    /// Has a connection wait in line for the room that it asks for.
    fn defer(&mut self, now: Now, id: ConnectionId) {
        if let Some(client) = self.client(id) {
            client.connection.defer();
        }
        self.parts.core.counters().read_buf_waits += 1;
        self.waiters.push_back((id, now.monotonic));
        // So that its transport hears of it.
        self.enqueue(id);
    }

    fn leave_line(&mut self, id: ConnectionId) {
        self.waiters.retain(|(waiter, _)| *waiter != id);
    }

    /// Looks after those who wait for memory and those who hold it, once in a turn.
    pub(super) fn relieve(&mut self, now: Now) {
        self.take_released(now);
        self.look_at_levels();
        if self.may_take_held_back() {
            self.take_held_back();
        }
        while let Some((id, since)) = self.waiters.front().copied() {
            if self.grant(now, id) || self.let_in(now, id) {
                self.leave_line(id);
                self.enqueue(id);
            } else if now.monotonic.since(since) >= WAIT_MAX {
                self.give_up_input(now, id);
            } else {
                break;
            }
        }
        self.tell_waiting();
        let budget = self.parts.share.budget();
        let is_awaited = budget.input.waiting() > 0;
        let is_short = is_awaited || self.levels != Held::default();
        if !is_short || now.monotonic < self.next_shortage_look {
            return;
        }
        self.next_shortage_look = now.monotonic + self.look_interval();
        self.parts.share.trim();
        let pool = &self.parts.share.budget().input;
        // Somebody may wait for more than is left although the pool is not full.
        let level = match is_awaited {
            true => Level::Full,
            false => pool.level(),
        };
        let holders = self.holders(Connection::input_holding);
        let slow = who_goes(now.monotonic, level, pool.waiting(), 0, holders);
        slow.iter().for_each(|id| self.give_up_input(now, *id));
        self.close_slow_readers(now);
    }

    fn may_take_held_back(&self) -> bool {
        self.levels.answers < Level::Full && !self.held_back.is_empty()
    }

    /// Lets some of those try again whose answers had no memory.
    fn take_held_back(&mut self) {
        let level = self.levels.answers;
        for _ in 0..RETRIES_PER_TURN {
            let Some(id) = self.held_back.pop_front() else {
                return;
            };
            let place = self.clients.get_mut(id.slot as usize);
            if let Some(client) = place.and_then(Option::as_mut)
                && client.connection.id() == id
            {
                client.held_back = false;
                client
                    .connection
                    .set_answer_level(&mut self.parts.core, level);
            }
            self.enqueue(id);
        }
    }

    /// Tells all workers how many wait here.
    fn tell_waiting(&mut self) {
        let waiting = Held {
            input: self.waiters.len(),
            answers: self.wait_for_answers(),
        };
        let told = core::mem::replace(&mut self.told_waiting, waiting);
        let budget = self.parts.share.budget();
        budget.input.tell_waiting(told.input, waiting.input);
        budget.answers.tell_waiting(told.answers, waiting.answers);
    }

    /// Ends the command that a connection is sending, and then the connection.
    fn give_up_input(&mut self, now: Now, id: ConnectionId) {
        let Some(client) = self.client(id) else {
            return;
        };
        if client.connection.waits_for_room() {
            self.leave_line(id);
        }
        let place = self.clients[id.slot as usize].as_mut();
        if let Some(client) = place {
            client.connection.give_up_input(&mut self.parts.core);
        }
        self.parts.core.counters().read_buf_oom += 1;
        self.weigh(now, id);
        self.enqueue(id);
    }

    /// Closes the connections that read least for what they hold, if there is need.
    fn close_slow_readers(&mut self, now: Now) {
        self.parts.share.trim();
        let pool = &self.parts.share.budget().answers;
        let holders = self.holders(Connection::answers_holding);
        let excess = pool.excess(self.parts.share.used().answers);
        let level = pool.level();
        let slow = who_goes(now.monotonic, level, pool.waiting(), excess, holders);
        for id in slow {
            self.parts.core.counters().response_obj_oom += 1;
            self.close_for(id, CloseReason::Error);
        }
        self.look_at_levels();
    }
}
