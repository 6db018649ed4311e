//! The requests of one connection, from when they are asked until they are answered, in one queue of bytes.
//!
//! They stay there until their *answers* have come, not only until they are written, so that a read whose key has
//! moved, whose connection broke or whose replica was gone can be asked again without having been copied in advance:
//!
//! ```text
//!      first            sent                 end
//!        │  awaited      │   not yet written   │
//!        ▼               ▼                     ▼
//!   ─────[ request ][ request ][ request ][ request ]
//! ```

use crate::bytes::ByteQueue;
use crate::pipe::in_flight::{Asker, InFlight, Progress, Question, Tag, words};
use crate::places::Places;
use crate::stats::counters::Tally;
use evenkeel_types::rooms::Rooms;
use evenkeel_types::{Instant, copy};
use std::collections::VecDeque;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Queue {
    bytes: ByteQueue,
    /// Absolute position of the first byte.
    first: u64,
    /// Absolute position of the first byte that is not written. Invariant: within the queue.
    sent: u64,
    requests: VecDeque<InFlight>,
    /// Requests that were taken out of it, so that those in it have numbers.
    taken: u64,
    /// The number behind the last one that is no read, or was asked again.
    behind_unjoinable: u64,
    /// Where the gets stand that may be joined.
    joinable: Places<64>,
}

impl Queue {
    /// Requests that are not answered.
    #[inline]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Bytes of them, to be compared before and after writing a request.
    #[inline]
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Absolute position behind the last byte.
    pub fn end(&self) -> u64 {
        self.first + self.bytes.len() as u64
    }

    /// All requests that are not answered.
    pub fn requests(&self) -> impl Iterator<Item = &InFlight> {
        self.requests.iter()
    }

    /// The request whose answer comes next.
    #[inline]
    pub fn front(&self) -> Option<&InFlight> {
        self.requests.front()
    }

    /// The request in this place of the order.
    pub fn get(&self, index: usize) -> Option<&InFlight> {
        self.requests.get(index)
    }

    /// The bytes of the requests of a client.
    pub fn questions_of(&self, asker: Asker) -> impl Iterator<Item = &[u8]> {
        let bytes = self.bytes.as_slice();
        let of_asker = self.requests.iter().filter(move |r| r.tag.asker == asker);
        of_asker.map(move |request| {
            let at = (request.start - self.first) as usize;
            &bytes[at..at + request.len]
        })
    }

    /// Gives memory away that is not needed now.
    #[inline]
    pub fn give_back(&mut self, rooms: &mut Rooms) {
        self.bytes.give_back(rooms);
    }

    /// Where the next request is to be written; [`Queue::push`] must follow.
    #[inline]
    pub fn tail(&mut self) -> &mut Vec<u8> {
        self.bytes.tail()
    }

    /// The bytes appended since `before` ([`Queue::len_bytes`]) are a request.
    #[inline]
    pub fn push(
        &mut self,
        before: usize,
        of_worker: bool,
        deadline: Instant,
        tag: Tag,
        progress: Progress,
    ) {
        // One that cannot be joined itself is seen by its client before what that asks next, which must not join one before it: that
        // could be answered with something older.
        let number = self.taken + self.requests.len() as u64;
        match (tag.join_hash(), of_worker) {
            (Some(hash), _) => self.joinable.note(hash, number),
            (None, true) if tag.has_key() => self.joinable.forget(tag.hash.0),
            (None, false) if tag.is_of_copy() => {}
            // Which keys it is about is not looked at.
            (None, _) => self.behind_unjoinable = number + 1,
        }
        self.requests.push_back(InFlight {
            tag,
            start: self.first + before as u64,
            len: self.bytes.len() - before,
            deadline,
            progress,
            answer_bytes: 0,
            outcome: Tally::Nothing,
            joined: 0,
        });
    }

    /// The bytes appended since `before` are a read: takes them out again if an identical one waits to be sent, or was sent and is due
    /// after `due`, whose answer is then for both.
    #[inline]
    pub fn join_last(&mut self, before: usize, hash: u64, tag: &Tag, due: Option<Instant>) -> bool {
        let len = self.bytes.len() - before;
        let Some((bytes, request)) = self.joinable_request(hash, due) else {
            return false;
        };
        let (first, last) = (&bytes[..request.len], &bytes[bytes.len() - len..]);
        let is_same = words(first, &request.tag) == words(last, tag);
        let joins = is_same && request.join(tag.client, tag.slot);
        if joins {
            self.bytes.truncate(before);
        }
        joins
    }

    /// The latest request for a key of this hash, if it may be joined, and the queue from its first byte on.
    #[inline]
    fn joinable_request(
        &mut self,
        hash: u64,
        due: Option<Instant>,
    ) -> Option<(&[u8], &mut InFlight)> {
        let number = self.joinable.find(hash)?;
        if number < self.behind_unjoinable {
            return None;
        }
        let index = number.checked_sub(self.taken)? as usize;
        let request = self.requests.get_mut(index)?;
        let is_unsent = request.start >= self.sent;
        let is_late = due.is_some_and(|due| request.deadline > due);
        let may_join = (is_unsent || is_late) && request.tag.join_hash().is_some();
        let at = (request.start - self.first) as usize;
        may_join.then(|| (&self.bytes.as_slice()[at..], request))
    }

    /// The request whose answer comes next, and its bytes.
    #[inline]
    pub fn awaited(&mut self) -> Option<(&[u8], &mut InFlight)> {
        let request = self.requests.front_mut()?;
        Some((&self.bytes.as_slice()[..request.len], request))
    }

    /// The awaited request is answered, or given up: its bytes are dropped.
    #[inline]
    pub fn pop(&mut self) -> Option<InFlight> {
        let request = self.requests.pop_front()?;
        self.taken += 1;
        debug_assert_eq!(
            request.start, self.first,
            "requests are answered in the order asked"
        );
        self.bytes.consume(request.len);
        self.first += request.len as u64;
        // Answered before it was written: only when the connection is given up.
        self.sent = self.sent.max(self.first);
        Some(request)
    }

    /// [`Queue::pop`] of a request that was written, for nobody to look at.
    #[inline]
    pub fn drop_awaited(&mut self) {
        if let Some(request) = self.requests.pop_front() {
            self.taken += 1;
            self.bytes.consume(request.len);
            self.first += request.len as u64;
            debug_assert!(self.sent >= self.first, "it is answered");
        }
    }

    /// Takes out the request whose answer comes next together with its bytes, and whether all of
    /// them were written; if not, the peer cannot have executed it.
    pub fn pop_question(&mut self) -> Option<(Question, bool)> {
        let (bytes, _) = self.awaited()?;
        let bytes = bytes.to_vec();
        let is_written = self.sent >= self.first + bytes.len() as u64;
        let request = self.pop()?;
        let question = Question {
            tag: request.tag,
            bytes,
            progress: request.progress,
        };
        Some((question, is_written))
    }

    /// How many requests are written, in whole or in part.
    pub fn written(&self) -> usize {
        self.requests
            .partition_point(|request| request.start < self.sent)
    }

    /// What is not written of the first this many requests.
    #[inline]
    pub fn unwritten(&self, requests: usize) -> &[u8] {
        let bytes = match self.requests.get(requests) {
            Some(kept) => ..(kept.start.max(self.sent) - self.first) as usize,
            None => ..self.bytes.len(),
        };
        &self.bytes.as_slice()[bytes][(self.sent - self.first) as usize..]
    }

    /// This many more bytes are written. Returns up to where, and where the awaited request ends.
    #[inline]
    pub fn wrote(&mut self, count: usize) -> (u64, u64) {
        self.sent += count as u64;
        assert!(
            self.sent - self.first <= self.bytes.len() as u64,
            "wrote more bytes than there are"
        );
        let awaited = self.front().map_or(0, |request| request.len as u64);
        (self.sent, self.first + awaited)
    }

    /// Takes out the requests that wait to be written and of which `goes` says so, in their order. It is asked once of each. Also
    /// where the rest ends. O(requests that wait), and copies those behind the first that goes. `None` if none goes.
    pub fn take_waiting(
        &mut self,
        mut goes: impl FnMut(&InFlight) -> bool,
    ) -> Option<(Vec<Question>, u64)> {
        let mut waiting = self.written()..self.requests.len();
        let first = waiting.find(|&index| goes(&self.requests[index]))?;
        let mut start = self.requests[first].start;
        let at = (start - self.first) as usize;
        let requests = self.requests.split_off(first);
        let bytes = self.bytes.as_slice()[at..].to_vec();
        self.bytes.truncate(at);
        let (mut taken, mut rest) = (Vec::new(), &bytes[..]);
        for mut request in requests {
            let (question, behind) = rest.split_at(request.len);
            rest = behind;
            if taken.is_empty() || goes(&request) {
                taken.push(Question {
                    tag: request.tag,
                    bytes: question.to_vec(),
                    progress: request.progress,
                });
                continue;
            }
            request.start = start;
            start += request.len as u64;
            copy::append(self.bytes.tail(), question);
            self.requests.push_back(request);
        }
        Some((taken, start))
    }

    /// All requests were taken out: another connection begins.
    pub fn restart(&mut self) {
        assert!(self.requests.is_empty(), "requests are taken out before");
        self.bytes.clear();
        self.sent = self.first;
    }
}
