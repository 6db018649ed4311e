//! Messages on their way to the other workers of the server.

use crate::mesh::message::Message;
use std::collections::VecDeque;

/// Most messages that may wait for room in the queue to another worker before connections that
/// would add to them must wait.
pub const OUTBOX_MAX: usize = 4096;

/// The same for the bytes that they carry.
pub const OUTBOX_BYTES_MAX: usize = 4 << 20;

/// What waits for each of the other workers. Knows at once whether anything waits and whether any
/// queue is full, because that is asked for every command.
#[derive(Debug)]
pub struct Outbox {
    queues: Vec<VecDeque<Message>>,
    waiting: usize,
    /// Bytes that waiting messages carry, small ones not counted.
    bytes: usize,
    full: bool,
}

impl Outbox {
    /// An empty one, for so many workers.
    pub fn new(workers: u16) -> Self {
        Outbox {
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
