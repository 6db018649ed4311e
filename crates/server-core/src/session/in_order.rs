//! Answers in the order asked, of a connection of which some commands went to other workers.
//!
//! What this worker answers behind an awaited answer is kept in one buffer, and each awaited answer
//! knows at which place of it it belongs:
//!
//! ```text
//!   awaited 7    awaited 8        awaited 9
//!      │            │                │
//!      ▼            ▼                ▼
//!      [ said here  ][  said here    ][ said here ...      `behind`
//! ```
//!
//! When the first awaited answer is there, it goes to the output, and so does what was said here up to
//! the next one.

use crate::session::address::Ticket;
use crate::shard::share::Share;
use evenkeel_protocol::binary::Echo;
use evenkeel_protocol::binary::wording;
use evenkeel_types::copy;
use std::collections::VecDeque;

/// Released bytes of `behind` from which on they are removed while answers are still awaited.
const COMPACT_MIN: usize = 16 << 10;

/// An answer that is awaited, or has arrived before an earlier one.
#[derive(Debug)]
struct Awaited {
    ticket: Ticket,
    /// How many workers have not contributed yet; 0 when the answer is complete.
    missing: u16,
    /// Where in the stream of `behind` it belongs.
    at: u64,
    /// What came so far.
    parts: Share,
    /// Of a request in binary whose answer is composed as text: how it is worded in the end.
    wording: Option<Echo>,
}

/// Awaited answers of a connection, and what waits behind them.
#[derive(Debug, Default)]
pub(crate) struct InOrder {
    /// Invariant: the first one is not complete.
    awaited: VecDeque<Awaited>,
    /// What was said here since the first of them; empty when there is none.
    behind: Vec<u8>,
    /// Bytes of `behind` that have gone to the output.
    gone: usize,
    /// Place in the stream of the first byte of `behind`.
    base: u64,
    /// Bytes of contributions that have arrived.
    arrived: usize,
    next_ticket: Ticket,
}

impl InOrder {
    /// Whether nothing is awaited, so that answers may go straight to the output.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Where the next answer of this worker goes, while something is awaited.
    #[inline]
    pub fn behind(&mut self) -> &mut Vec<u8> {
        debug_assert!(!self.is_empty());
        &mut self.behind
    }

    /// The ticket of the next answer that will be awaited.
    pub fn next_ticket(&self) -> Ticket {
        self.next_ticket
    }

    /// Reserves the place of an answer to which `workers` workers contribute.
    #[inline]
    pub fn reserve(&mut self, workers: u16, wording: Option<Echo>) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket = ticket.wrapping_add(1);
        self.awaited.push_back(Awaited {
            ticket,
            missing: workers,
            at: self.base + self.behind.len() as u64,
            parts: Share::Done,
            wording,
        });
        ticket
    }

    /// Keeps an answer that is there and may not leave yet, until an empty contribution comes.
    pub fn keep(&mut self, answer: Vec<u8>, wording: Option<Echo>) -> Ticket {
        let ticket = self.reserve(1, wording);
        self.arrived += answer.len();
        if let Some(last) = self.awaited.back_mut() {
            last.parts = Share::Lines(answer);
        }
        ticket
    }

    /// Answers that are there and may not leave yet or wait for others, the latest first.
    pub fn kept(&self) -> impl Iterator<Item = &[u8]> {
        self.awaited
            .iter()
            .rev()
            .map(|waiting| waiting.parts.lines())
    }

    /// The whole answer of one worker has arrived. Gives its length, or `None` for an unknown ticket.
    #[inline]
    pub fn answered(&mut self, ticket: Ticket, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        match self.awaited.front() {
            Some(first)
                if first.ticket == ticket && first.missing == 1 && first.wording.is_none() =>
            {
                copy::append(out, bytes);
                self.awaited.pop_front();
                self.release(out);
                Some(bytes.len())
            }
            _ => {
                let share = Share::Lines(bytes.to_vec());
                self.contribute(ticket, share, Share::into_lines, out)
            }
        }
    }

    /// A worker's share has arrived, which is added to what came before. When it is the last one, `finish` turns them into
    /// the answer, whose length is given. An unknown ticket is ignored.
    pub fn contribute(
        &mut self,
        ticket: Ticket,
        share: Share,
        finish: impl FnOnce(Share) -> Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let waits = |waiting: &&mut Awaited| waiting.ticket == ticket && waiting.missing > 0;
        let waiting = self.awaited.iter_mut().find(waits)?;
        self.arrived -= waiting.parts.lines().len();
        waiting.parts.add(share);
        waiting.missing -= 1;
        if waiting.missing > 0 {
            self.arrived += waiting.parts.lines().len();
            return None;
        }
        let whole = finish(core::mem::take(&mut waiting.parts));
        let len = whole.len();
        let worded = match waiting.wording {
            Some(echo) => {
                let mut worded = Vec::new();
                wording::in_binary(&whole, echo, &mut worded);
                worded
            }
            None => whole,
        };
        self.arrived += worded.len();
        waiting.parts = Share::Lines(worded);
        self.release(out);
        Some(len)
    }

    /// Bytes of answers that are there but wait for earlier ones.
    #[inline]
    pub fn waiting_bytes(&self) -> usize {
        self.behind.len() - self.gone + self.arrived
    }

    /// Moves everything to the output that waits for nothing any more.
    #[inline]
    fn release(&mut self, out: &mut Vec<u8>) {
        loop {
            let Some(first) = self.awaited.front() else {
                out.extend_from_slice(&self.behind[self.gone..]);
                // An idle connection keeps no buffer.
                self.behind = Vec::new();
                (self.gone, self.base) = (0, 0);
                return;
            };
            let until = (first.at - self.base) as usize;
            out.extend_from_slice(&self.behind[self.gone..until]);
            self.gone = until;
            if first.missing > 0 {
                break;
            }
            let whole = first.parts.lines();
            out.extend_from_slice(whole);
            self.arrived -= whole.len();
            self.awaited.pop_front();
        }
        if self.gone >= COMPACT_MIN && self.gone > self.behind.len() / 2 {
            self.behind.drain(..self.gone);
            self.base += self.gone as u64;
            self.gone = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::Index;

    /// Something that happens to a connection.
    #[derive(Clone, Debug)]
    enum Step {
        /// This many bytes are answered here.
        Say(usize),
        /// An answer of this many bytes is awaited from this many workers.
        Await(usize, u16),
        /// One of the awaited answers arrives.
        Arrive(Index, Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..20_000_usize).prop_map(Step::Say),
            (0..2_000_usize, 1..3_u16).prop_map(|(len, workers)| Step::Await(len, workers)),
            any::<(Index, Index)>().prop_map(|(which, cut)| Step::Arrive(which, cut)),
        ]
    }

    proptest! {
        /// Answers that arrive in any order leave in the order asked, no matter who gave them.
        #[test]
        fn answers_leave_in_the_order_asked(steps in prop::collection::vec(step(), 0..200)) {
            let (mut order, mut out, mut expected) = (InOrder::default(), Vec::new(), Vec::new());
            let mut open: Vec<(Ticket, Vec<u8>, u16)> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Say(len) => {
                        let bytes = vec![number as u8; len];
                        expected.extend_from_slice(&bytes);
                        let sink = if order.is_empty() { &mut out } else { order.behind() };
                        sink.extend_from_slice(&bytes);
                    }
                    Step::Await(len, workers) => {
                        let bytes = vec![number as u8; len];
                        expected.extend_from_slice(&bytes);
                        open.push((order.reserve(workers, None), bytes, workers));
                    }
                    Step::Arrive(..) if open.is_empty() => {}
                    Step::Arrive(which, cut) => {
                        let (ticket, bytes, workers) = open.swap_remove(which.index(open.len()));
                        let cut = cut.index(bytes.len() + 1);
                        arrive(&mut order, ticket, &bytes, workers, cut, &mut out);
                    }
                }
                prop_assert!(expected.starts_with(&out));
                prop_assert!(order.waiting_bytes() <= expected.len() - out.len());
            }
            for (ticket, bytes, workers) in open {
                arrive(&mut order, ticket, &bytes, workers, bytes.len() / 2, &mut out);
            }
            prop_assert!(out == expected);
            prop_assert!(order.is_empty() && order.waiting_bytes() == 0);
        }
    }

    fn arrive(
        order: &mut InOrder,
        ticket: Ticket,
        bytes: &[u8],
        workers: u16,
        cut: usize,
        out: &mut Vec<u8>,
    ) {
        if workers == 1 {
            assert_eq!(order.answered(ticket, bytes, out), Some(bytes.len()));
        } else {
            let (first, last) = bytes.split_at(cut);
            let mut give = |part: &[u8]| {
                let share = Share::Lines(part.to_vec());
                order.contribute(ticket, share, Share::into_lines, out)
            };
            assert_eq!(give(first), None);
            assert_eq!(give(last), Some(bytes.len()));
        }
        assert_eq!(order.answered(ticket, bytes, out), None, "answered twice");
    }
}
