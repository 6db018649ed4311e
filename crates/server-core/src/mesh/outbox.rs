//! Messages on their way to the other workers of the server.

use crate::mesh::forwarded::{Answers, Command, Commands, Form, Whose};
use crate::mesh::handed_over::FlushGiven;
use crate::mesh::message::{Message, Task};
use crate::placement::Located;
use crate::session::address::{ReturnAddress, Ticket};
use crate::session::connections::Connections;
use crate::shard::counters::Counters;
use crate::shard::share::Share;
use evenkeel_protocol::text;
use std::collections::VecDeque;

/// Most messages that may wait for room in the queue to another worker before connections that
/// would add to them must wait.
pub const OUTBOX_MAX: usize = 4096;

/// The same for the bytes that they carry.
pub const OUTBOX_BYTES_MAX: usize = 4 << 20;

/// What commands that travel together are expected to be: this many, and this many bytes in all.
const EXPECTED: (usize, usize) = (8, 320);

/// What waits for each of the other workers. Knows at once whether anything waits and whether any
/// queue is full, because that is asked for every command.
#[derive(Debug)]
pub struct Outbox {
    /// The worker whose messages they are.
    me: u16,
    queues: Vec<VecDeque<Message>>,
    waiting: usize,
    /// Bytes that waiting messages carry, small ones not counted.
    bytes: usize,
    full: bool,
}

impl Outbox {
    /// An empty one of a worker, for this many workers.
    pub fn new(me: u16, workers: u16) -> Self {
        Outbox {
            me,
            queues: (0..workers).map(|_| VecDeque::new()).collect(),
            waiting: 0,
            bytes: 0,
            full: false,
        }
    }

    /// Puts a message behind those that wait for the worker.
    pub fn push(&mut self, worker: u16, message: Message) {
        let queue = &mut self.queues[usize::from(worker)];
        self.bytes += message.weight();
        queue.push_back(message);
        self.waiting += 1;
        self.full |= queue.len() >= OUTBOX_MAX || self.bytes >= OUTBOX_BYTES_MAX;
    }

    /// Puts a message behind those that wait for each of the other workers.
    pub fn push_to_others(&mut self, message: impl Fn() -> Message) {
        for worker in self.others() {
            self.push(worker, message());
        }
    }

    /// The other workers.
    fn others(&self) -> impl Iterator<Item = u16> + use<> {
        let me = self.me;
        (0..self.queues.len() as u16).filter(move |worker| *worker != me)
    }

    /// Asks another worker for its share of a command about the whole server.
    pub(crate) fn ask_share(
        &mut self,
        counters: &mut Counters,
        worker: u16,
        to: Option<ReturnAddress>,
        task: Task,
    ) {
        counters.forwarded_out += 1;
        self.push(worker, Message::Whole { to, task });
    }

    /// Asks each of the other workers for its share of a command about the whole server.
    pub(crate) fn ask_shares(
        &mut self,
        counters: &mut Counters,
        to: Option<ReturnAddress>,
        task: Task,
    ) {
        for worker in self.others() {
            self.ask_share(counters, worker, to, task);
        }
    }

    /// Sends a command to a worker on behalf of a connection, of another worker perhaps: of [`Whose::default`] if nobody
    /// waits. `ticket` is that of the awaited answer, if one is wanted.
    #[inline]
    pub(crate) fn send_command(
        &mut self,
        worker: u16,
        whose: Whose,
        ticket: Option<Ticket>,
        located: Located,
        form: Form,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let add = |commands: &mut Commands| {
            let before = commands.bytes.len();
            write(&mut commands.bytes);
            commands.list.push(Command {
                ticket,
                len: (commands.bytes.len() - before) as u32,
                form,
                located,
            });
        };
        self.change_last(worker, |last| match last {
            Some(Message::Commands(commands)) if commands.takes(whose) => {
                add(commands);
                None
            }
            _ => {
                let mut commands = Commands {
                    whose,
                    list: Vec::with_capacity(EXPECTED.0),
                    bytes: Vec::with_capacity(EXPECTED.1),
                };
                add(&mut commands);
                Some(Message::Commands(commands))
            }
        });
    }

    /// Sends answers to the worker that asks. Answers of what was passed on may be for a connection of this one.
    #[inline]
    pub(crate) fn answer(&mut self, connections: &mut Connections, asker: u16, answers: Answers) {
        if asker == self.me {
            answers.deliver(connections);
        } else {
            self.push(asker, Message::Answers(answers));
        }
    }

    /// Sends a `flush_all` to the next host that it must reach, or the answer to who waits for it.
    pub(crate) fn pass_flush_on(&mut self, connections: &mut Connections, mut flush: FlushGiven) {
        if let Some(hop) = flush.flush_hops.pop() {
            let to = if hop.by == self.me {
                flush.cachelets = hop.cachelets;
                hop.host
            } else {
                let by = hop.by;
                flush.flush_hops.push(hop);
                by
            };
            return self.push(to, Message::FlushGiven(flush));
        }
        let Some(to) = flush.to else { return };
        let (task, share) = (Task::Flush { at_s: None }, Share::Done);
        if flush.asker == self.me {
            let finish = |_| text::OK.to_vec();
            return connections.deliver(to.connection, |session| {
                session.answer_arrived(to.ticket, share, finish);
            });
        }
        self.push(flush.asker, Message::Share { to, task, share });
    }

    /// Lets `change` add to the message that stands last for a worker, or give one to stand behind it.
    #[inline]
    pub fn change_last(
        &mut self,
        worker: u16,
        change: impl FnOnce(Option<&mut Message>) -> Option<Message>,
    ) {
        let mut last = self.queues[usize::from(worker)].back_mut();
        let before = last.as_ref().map_or(0, |last| last.weight());
        match change(last.as_deref_mut()) {
            Some(next) => self.push(worker, next),
            None => {
                let after = last.map_or(0, |last| last.weight());
                self.bytes = self.bytes - before + after;
                self.full |= self.bytes >= OUTBOX_BYTES_MAX;
            }
        }
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Bytes that waiting messages carry; see [`Message::weight`].
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether [`OUTBOX_MAX`] messages or more wait for some worker, or [`OUTBOX_BYTES_MAX`] for all.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Hands waiting messages to `send` until it gives one back because a queue is full.
    pub fn flush(&mut self, mut send: impl FnMut(u16, Message) -> Result<(), Message>) {
        if self.is_empty() {
            return;
        }
        for (worker, queue) in self.queues.iter_mut().enumerate() {
            while let Some(message) = queue.pop_front() {
                let weight = message.weight();
                if let Err(message) = send(worker as u16, message) {
                    queue.push_front(message);
                    break;
                }
                self.waiting -= 1;
                self.bytes -= weight;
            }
        }
        self.full = self.bytes >= OUTBOX_BYTES_MAX
            || self.queues.iter().any(|queue| queue.len() >= OUTBOX_MAX);
    }
}
