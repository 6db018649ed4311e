//! What a worker does about the memory of its connections' buffers: see [`budget`](crate::budget).

use super::Worker;
use crate::budget::{Budget, HOLDER_MIN, Held, LOOK, Level, PATIENCE, Pool, WAIT_LOOK, WAIT_MAX};
use crate::connection::Connection;
use evenkeel_roles::server::{CloseReason, ConnectionId, Message};
use evenkeel_types::{Instant, Now};
use std::time::Duration;

/// Answers to other workers are sent in the middle of a turn once they carry so many bytes, so that all
/// workers know of them.
const SEND_AT: usize = 256 << 10;

/// Which pool a message counts against, and how many bytes.
pub(super) fn weigh<'b>(budget: &'b Budget, message: &Message) -> (&'b Pool, usize) {
    let pool = match message {
        Message::Answers(_) | Message::Share { .. } => &budget.answers,
        _ => &budget.input,
    };
    (pool, message.weight())
}

impl Worker {
    /// How long a wait may be, so that those who wait for memory, or hold it for too long, are looked
    /// after.
    pub(super) fn shortage_look(&self) -> Duration {
        let somebody_waits =
            !self.waiters.is_empty() || !self.deferred.is_empty() || !self.held_back.is_empty();
        if somebody_waits {
            WAIT_LOOK
        } else if self.levels != Held::default() {
            LOOK
        } else {
            Duration::MAX
        }
    }

    /// Takes a message, now or once there is memory for its answer.
    pub(super) fn take_message(&mut self, now: Now, from: u16, message: Message) {
        let adds = matches!(message, Message::Commands(_) | Message::Whole { .. });
        // What follows a deferred message stays behind it.
        if adds && (self.levels.answers == Level::Full || !self.deferred.is_empty()) {
            self.deferred.push_back((from, message));
            return;
        }
        self.carry_out_message(now, from, message);
    }

    /// Carries out a message, as long as there is memory for its answers.
    fn carry_out_message(&mut self, now: Now, from: u16, message: Message) {
        let mut next = Some(message);
        while let Some(message) = next {
            next = self.carry_out_part(now, from, message);
            if self.levels.answers == Level::Full
                && let Some(left) = next.take()
            {
                self.deferred.push_front((from, left));
            }
        }
    }

    /// Carries out as much of a message as the core does at once; gives what is left.
    fn carry_out_part(&mut self, now: Now, from: u16, message: Message) -> Option<Message> {
        let (_, weight) = weigh(self.parts.share.budget(), &message);
        let answered = match &message {
            Message::Share { to, .. } if weight > 0 => Some(to.connection),
            Message::Answers(answers) if weight > 0 => Some(answers.connection()),
            _ => None,
        };
        let left = self.parts.core.handle_message(now, from, message);
        if let Some(left) = &left {
            let (pool, weight) = weigh(self.parts.share.budget(), left);
            pool.take(weight);
        }
        if let Some(id) = answered {
            // Counted with the connection before it is not with the message any more: whoever looks in
            // between must not take it for room.
            self.weigh_answers(id);
            self.parts.share.budget().answers.give_back(weight);
        } else if weight > 0 {
            self.parts.share.budget().input.give_back(weight);
        }
        if self.parts.core.outbox_bytes() >= SEND_AT {
            // What cannot be sent or told now will be at the end of the turn.
            let _ = self.send_messages();
            self.look_at_levels();
        }
        left
    }

    /// Carries out deferred messages, as long as there is memory for their answers.
    pub(super) fn take_deferred(&mut self, now: Now) {
        self.look_at_levels();
        while self.levels.answers < Level::Full
            && let Some((from, message)) = self.deferred.pop_front()
        {
            self.carry_out_message(now, from, message);
        }
    }

    fn look_at_levels(&mut self) {
        let budget = self.parts.share.budget();
        self.levels = Held {
            input: budget.input.level(),
            answers: budget.answers.level(),
        };
    }

    /// Counts what a connection holds now, and gives it the room that it asks for, if there is some and
    /// nobody waits for it already.
    pub(super) fn settle(&mut self, now: Now, id: ConnectionId) {
        self.count(id);
        let nobody_waits = self.waiters.is_empty();
        let Some(client) = self.client(id) else {
            return;
        };
        if client.connection.asks() > 0 && !client.connection.waits_for_room() {
            if nobody_waits && self.grant(now, id) {
                // The rest may have been received and kept meanwhile.
                self.enqueue(id);
            } else {
                self.defer(now, id);
            }
        }
        self.look_at_levels();
    }

    /// Counts answers that have come to a connection by another way than its own turn.
    fn weigh_answers(&mut self, id: ConnectionId) {
        let place = self.clients.get_mut(id.slot as usize);
        if let Some(client) = place.and_then(Option::as_mut) {
            client.connection.weigh(&mut self.parts.core);
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
        let bytes = self.parts.share.input_bytes() as u64;
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
        let Some(client) = self.client(id) else {
            return true;
        };
        let (asks, held) = (client.connection.asks(), client.counted.input);
        let more = asks.saturating_sub(held);
        if !self.parts.share.has_input_room(held, more) {
            return false;
        }
        if let Some(client) = self.client(id) {
            client.connection.grant(now);
        }
        self.count(id);
        true
    }

    /// Has a connection wait in line for the room that it asks for.
    fn defer(&mut self, now: Now, id: ConnectionId) {
        if let Some(client) = self.client(id) {
            client.connection.defer();
        }
        self.parts.core.counters().read_buf_waits += 1;
        self.parts.share.set_waiting(true);
        self.waiters.push_back((id, now.monotonic));
        // So that its transport hears of it.
        self.enqueue(id);
    }

    fn leave_line(&mut self, id: ConnectionId) {
        self.waiters.retain(|(waiter, _)| *waiter != id);
        self.parts.share.set_waiting(false);
    }

    /// Looks after those who wait for memory and those who hold it, once in a turn.
    pub(super) fn relieve(&mut self, now: Now) {
        self.look_at_levels();
        while self.levels.answers == Level::Full && self.close_slow_reader(now) {
            self.look_at_levels();
        }
        if self.levels.answers < Level::Full {
            while let Some(id) = self.held_back.pop_front() {
                if let Some(client) = self.client(id) {
                    client.held_back = false;
                }
                self.enqueue(id);
            }
        }
        while let Some((id, since)) = self.waiters.front().copied() {
            if self.grant(now, id) {
                self.leave_line(id);
                self.enqueue(id);
            } else if now.monotonic.since(since) >= WAIT_MAX {
                self.give_up_input(id);
            } else {
                break;
            }
        }
        let awaited = self.parts.share.budget().input.is_awaited();
        let short = awaited || self.levels != Held::default();
        if !short || now.monotonic < self.next_shortage_look {
            return;
        }
        self.next_shortage_look = now.monotonic + LOOK;
        if awaited {
            self.parts.share.trim();
        }
        if awaited || self.levels.input > Level::Easy {
            let slowest = self.oldest(now, |connection| {
                let holds = connection.held().input >= HOLDER_MIN && !connection.waits_for_room();
                holds.then(|| connection.input_since())
            });
            if let Some(id) = slowest {
                self.give_up_input(id);
            }
        }
        if self.levels.answers > Level::Easy {
            self.close_slow_reader(now);
        }
    }

    /// Ends the command that a connection is sending, and then the connection.
    fn give_up_input(&mut self, id: ConnectionId) {
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
        self.enqueue(id);
    }

    /// Closes the connection whose answers have been unread for longest, if that is too long.
    fn close_slow_reader(&mut self, now: Now) -> bool {
        let slowest = self.oldest(now, |connection| {
            let holds = connection.held().answers >= HOLDER_MIN;
            holds.then(|| connection.unread_since())
        });
        let Some(id) = slowest else {
            return false;
        };
        self.parts.core.counters().response_obj_oom += 1;
        self.close_for(id, CloseReason::Error);
        true
    }

    /// The connection that has held memory for longest, if for longer than [`PATIENCE`]; `since` says
    /// since when, of those that hold any.
    fn oldest(
        &self,
        now: Now,
        since: impl Fn(&Connection) -> Option<Instant>,
    ) -> Option<ConnectionId> {
        (self.clients.iter().flatten())
            .filter_map(|client| Some((since(&client.connection)?, client.connection.id())))
            .min_by_key(|(since, _)| *since)
            .filter(|(since, _)| now.monotonic.since(*since) >= PATIENCE)
            .map(|(_, id)| id)
    }
}
