//! Messages on their way to the other workers of the server.

use super::message::Message;
use std::collections::VecDeque;

/// Most messages that may wait for room in the queue to another worker before connections that
/// would add to them must wait.
pub const OUTBOX_MAX: usize = 4096;

/// What waits for each of the other workers. Knows at once whether anything waits and whether any
/// queue is full, because that is asked for every command.
#[derive(Debug)]
pub struct Outbox {
    queues: Vec<VecDeque<Message>>,
    waiting: usize,
    full: bool,
}

impl Outbox {
    /// An empty one, for so many workers.
    pub fn new(workers: u16) -> Self {
        Outbox {
            queues: (0..workers).map(|_| VecDeque::new()).collect(),
            waiting: 0,
            full: false,
        }
    }

    /// Puts a message behind those that wait for the worker.
    pub fn push(&mut self, worker: u16, message: Message) {
        let queue = &mut self.queues[usize::from(worker)];
        queue.push_back(message);
        self.waiting += 1;
        self.full |= queue.len() >= OUTBOX_MAX;
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Whether [`OUTBOX_MAX`] messages or more wait for some worker.
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
                if let Err(message) = send(worker as u16, message) {
                    queue.push_front(message);
                    break;
                }
                self.waiting -= 1;
            }
        }
        self.full = self.queues.iter().any(|queue| queue.len() >= OUTBOX_MAX);
    }
}
