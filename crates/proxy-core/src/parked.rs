//! Requests that wait until the server to ask is known, or until what was asked before them is answered.

use crate::failure::Failure;
use crate::ids::{ClientId, PoolId, RouteId};
use crate::limits::{MOVE_PAUSE, PARKED_BYTES_MAX, PARKED_MAX};
use crate::pipe::in_flight::{Question, Tag};
use evenkeel_types::Instant;
use std::collections::VecDeque;

/// Requests that wait for a move to end, or for reads.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    /// In the order of arrival, which is the order of `until`.
    waiting: VecDeque<Parked>,
    bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Parked {
    /// When to try it again.
    until: Instant,
    pub question: Question,
    /// What it fails with in the end.
    pub reason: Failure,
}

impl Parking {
    /// Whether another request of that many bytes may wait.
    pub fn has_room(&self, len: usize) -> bool {
        self.waiting.len() < PARKED_MAX && self.bytes + len <= PARKED_BYTES_MAX
    }

    /// Lets a request, for which there is room or which has waited before, wait for a pause: until when.
    pub fn push(&mut self, now: Instant, question: Question, reason: Failure) -> Instant {
        let until = now + MOVE_PAUSE;
        self.bytes += question.bytes.len();
        self.waiting.push_back(Parked {
            until,
            question,
            reason,
        });
        until
    }

    /// Takes out the first.
    pub fn pop(&mut self) -> Option<Parked> {
        let parked = self.waiting.pop_front()?;
        self.bytes -= parked.question.bytes.len();
        Some(parked)
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// When the first pause is over.
    pub fn deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|parked| parked.until)
    }

    /// Ends all pauses.
    pub fn hurry_all(&mut self, now: Instant) {
        for parked in &mut self.waiting {
            parked.until = parked.until.min(now);
        }
    }

    /// Ends the pause of what the client asked first of what is parked, unless something before it is awaited. True if it did.
    /// O(parked requests).
    pub fn hurry(
        &mut self,
        now: Instant,
        client: ClientId,
        awaits_before: impl FnOnce(&Tag) -> bool,
    ) -> bool {
        let waiting = self.waiting.iter().enumerate();
        let next = waiting
            .filter(|(_, parked)| parked.question.tag.client == client)
            .min_by_key(|(_, parked)| parked.question.tag.slot);
        if let Some((at, first)) = next
            && !awaits_before(&first.question.tag)
            && let Some(first) = self.waiting.remove(at)
        {
            let first = Parked {
                until: now,
                ..first
            };
            self.waiting.push_front(first);
            return true;
        }
        false
    }

    /// The routes of the requests that wait.
    pub fn routes(&self) -> impl Iterator<Item = RouteId> {
        let waiting = self.waiting.iter();
        waiting.map(|parked| parked.question.tag.route)
    }

    /// Whether a request to the pool waits.
    pub fn await_pool(&self, pool: PoolId) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|parked| parked.question.tag.pool == pool)
    }
}
