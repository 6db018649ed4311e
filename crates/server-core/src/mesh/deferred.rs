//! What is left of other workers' messages whose answers had no memory, in line.

use crate::mesh::message::Message;
use crate::session::ConnectionId;
use std::collections::VecDeque;

/// Messages that wait, each with the worker that sent it. What one connection asked is executed in order; connections
/// take turns. Operations take time in proportion to the number of messages that wait.
#[derive(Debug, Default)]
pub struct Deferred {
    line: VecDeque<(u16, Message)>,
}

impl Deferred {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Whether a message of the worker `from` has to wait because an earlier one does.
    pub fn is_behind(&self, from: u16, message: &Message) -> bool {
        let mut line = self.line.iter();
        line.any(|(sender, earlier)| message.goes_behind(from, earlier, *sender))
    }

    /// Adds a message, or what is left of one of which others of the same connection are not behind.
    pub fn push(&mut self, from: u16, message: Message) {
        self.line.push_back((from, message));
    }

    /// Whether [`Deferred::take`] would give a message.
    pub fn has_next(&self, may_go: impl Fn(&Message) -> bool) -> bool {
        self.next(may_go).is_some()
    }

    /// Takes out the first message that may go and is behind no other.
    pub fn take(&mut self, may_go: impl Fn(&Message) -> bool) -> Option<(u16, Message)> {
        let next = self.next(may_go)?;
        self.line.remove(next)
    }

    fn next(&self, may_go: impl Fn(&Message) -> bool) -> Option<usize> {
        let mut line = self.line.iter().enumerate();
        line.position(|(at, (from, message))| {
            let mut before = self.line.iter().take(at);
            may_go(message)
                && !before.any(|(sender, earlier)| message.goes_behind(*from, earlier, *sender))
        })
    }

    /// Puts what is left of a message that was taken behind those of other connections, and what has to be behind it there.
    pub fn put_back(&mut self, from: u16, left: Message) {
        let (later, others): (Vec<_>, Vec<_>) = core::mem::take(&mut self.line)
            .into_iter()
            .partition(|(sender, message)| message.goes_behind(*sender, &left, from));
        self.line = others.into();
        self.line.push_back((from, left));
        self.line.extend(later);
    }

    /// Drops the commands of a connection of the worker `from` that is gone, and shows each.
    pub fn forget(&mut self, from: u16, gone: ConnectionId, mut dropped: impl FnMut(&Message)) {
        self.line.retain(|(sender, message)| {
            let is_its = matches!(message, Message::Commands(_))
                && message.asker(*sender) == Some((from, gone));
            if is_its {
                dropped(message);
            }
            !is_its
        });
    }
}
