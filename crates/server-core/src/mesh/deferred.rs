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

    /// Whether a message has to wait because an earlier one of the same connection does.
    pub fn is_behind(&self, from: u16, message: &Message) -> bool {
        self.line
            .iter()
            .any(|(sender, earlier)| *sender == from && message.goes_behind(earlier))
    }

    /// Adds a message, or what is left of one of which others of the same connection are not behind.
    pub fn push(&mut self, from: u16, message: Message) {
        self.line.push_back((from, message));
    }

    /// Whether [`Deferred::take`] would give a message.
    pub fn has_next(&self, may_go: impl Fn(&Message) -> bool) -> bool {
        self.next(may_go).is_some()
    }

    /// Takes out the first message that may go and is behind none of the same connection.
    pub fn take(&mut self, may_go: impl Fn(&Message) -> bool) -> Option<(u16, Message)> {
        let next = self.next(may_go)?;
        self.line.remove(next)
    }

    fn next(&self, may_go: impl Fn(&Message) -> bool) -> Option<usize> {
        let mut line = self.line.iter().enumerate();
        line.position(|(at, (from, message))| {
            let mut before = self.line.iter().take(at);
            may_go(message)
                && !before.any(|(sender, earlier)| sender == from && message.goes_behind(earlier))
        })
    }

    /// Puts what is left of a message that was taken behind those of other connections, and what the same connection asked
    /// later behind it.
    pub fn put_back(&mut self, from: u16, left: Message) {
        let (later, others): (Vec<_>, Vec<_>) = core::mem::take(&mut self.line)
            .into_iter()
            .partition(|(sender, message)| *sender == from && message.goes_behind(&left));
        self.line = others.into();
        self.line.push_back((from, left));
        self.line.extend(later);
    }

    /// Drops the commands of a connection that is gone, and shows each.
    pub fn forget(&mut self, from: u16, gone: ConnectionId, mut dropped: impl FnMut(&Message)) {
        self.line.retain(|(sender, message)| {
            let is_its = *sender == from
                && matches!(message, Message::Commands(commands) if commands.connection() == Some(gone));
            if is_its {
                dropped(message);
            }
            !is_its
        });
    }
}
