//! A connection's share of a load whose requests were made beforehand: ranges of the ring in flight, and the
//! quick look at answers that are what they mostly are.
//!
//! A get is mostly answered by the values of all its keys in their order, without flags, and a set by its being
//! stored. Such an answer is compared with its request where both lie, and nothing is built of it. The first
//! byte that is otherwise (a miss, an error, other flags) hands the rest of this one answer to the general
//! parser, and to what the engine makes of any answer; so both count alike.

use super::alike::Alike;
use super::answer::{Progress, next_answer};
use super::parsed::Parsed;
use super::request::Request;
use super::ring::{Kind, Ring};
use super::wire::{Loss, OUTPUT_LEN_MAX, Taken, out_of_step, write};
use super::work::Work;
use crate::Protocol;
use crate::target::Socket;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Digits of a value's length that the quick look reads: more than any item has.
const LENGTH_DIGITS_MAX: usize = 9;

/// Requests that were handed to the socket together, and those of them that are unanswered.
#[derive(Clone, Copy, Debug)]
struct Batch {
    sent_ns: u64,
    count: usize,
}

/// The requests of one connection.
pub(crate) struct Prepared {
    ring: Arc<Ring>,
    /// Index of the next request to send.
    next: usize,
    /// Index of the oldest request that is unanswered.
    oldest: usize,
    in_flight: usize,
    /// What is in flight, the oldest first. Invariant: the counts are above 0 and sum up to `in_flight`.
    batches: VecDeque<Batch>,
    /// What the socket did not take yet, as a range of the ring's bytes.
    unwritten: Range<usize>,
    /// Keys of the oldest request, a get, whose values have come.
    found: usize,
    /// Where its next key begins, from the beginning of the request.
    key_at: usize,
    /// Whether the oldest request is in the hands of the general parser, as `request`.
    is_unusual: bool,
    request: Request,
    /// What the last hit looked like.
    alike: Option<Alike>,
}

impl Prepared {
    /// Nothing in flight; begins at request `first` of the ring.
    pub(crate) fn new(ring: Arc<Ring>, first: usize, pipeline: usize) -> Self {
        Prepared {
            next: first,
            oldest: first,
            in_flight: 0,
            batches: VecDeque::with_capacity(pipeline),
            unwritten: 0..0,
            found: 0,
            key_at: ring.first_key_at(),
            is_unusual: false,
            request: Request::default(),
            alike: None,
            ring,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// When the oldest request was sent.
    pub(crate) fn waits_since(&self) -> Option<u64> {
        self.batches.front().map(|batch| batch.sent_ns)
    }

    /// Sends as many requests as have room, as far as the socket takes them.
    pub(crate) fn send(
        &mut self,
        socket: &mut Socket,
        work: &mut Work,
        now_ns: u64,
    ) -> Result<(), Loss> {
        loop {
            let bytes = &self.ring.bytes()[self.unwritten.clone()];
            self.unwritten.start += write(socket, bytes, work)?;
            if !self.unwritten.is_empty() {
                return Ok(());
            }
            let room = work.plan.pipeline - self.in_flight;
            let count = self.ring.together(self.next, room, OUTPUT_LEN_MAX);
            let count = work.allow(count);
            if count == 0 {
                return Ok(());
            }
            self.unwritten = self.ring.range(self.next, count);
            self.next = self.ring.behind(self.next, count);
            self.in_flight += count;
            self.batches.push_back(Batch {
                sent_ns: now_ns,
                count,
            });
        }
    }

    /// Takes in the answers that are there.
    pub(crate) fn take_answers(
        &mut self,
        bytes: &[u8],
        work: &mut Work,
        now_ns: u64,
    ) -> Result<Taken, Loss> {
        let mut rest = bytes;
        let mut wanted = 0;
        loop {
            if !self.is_unusual {
                self.take_usual(&mut rest, work, now_ns);
            }
            if rest.is_empty() {
                break;
            }
            let (answer, consumed) = match next_answer(work.plan.protocol, rest, &work.limits) {
                Parsed::Answer { answer, consumed } => (answer, consumed),
                Parsed::Incomplete { total } => {
                    wanted = total;
                    break;
                }
                Parsed::Malformed => return Err(out_of_step("an answer that is none".into())),
            };
            let Some(&batch) = self.batches.front() else {
                return Err(out_of_step(format!("{answer:?} without a request")));
            };
            if !self.is_unusual {
                self.remake();
                self.is_unusual = true;
            }
            rest = &rest[consumed..];
            match self.request.take(answer, work) {
                Progress::More => {}
                Progress::OutOfStep(what) => return Err(out_of_step(what)),
                Progress::Done => {
                    work.count_answered(self.request.is_read(), batch.sent_ns, now_ns, 1);
                    self.finish(1);
                }
            }
        }
        work.book();
        Ok(Taken {
            taken: bytes.len() - rest.len(),
            wanted,
        })
    }

    /// Forgets what is in flight; how much it was.
    pub(crate) fn close(&mut self) -> usize {
        self.batches.clear();
        self.unwritten = 0..0;
        self.oldest = self.next;
        self.begin_oldest();
        std::mem::take(&mut self.in_flight)
    }

    /// Takes in answers as long as they are what they mostly are, a batch of requests at a time.
    #[inline]
    fn take_usual(&mut self, rest: &mut &[u8], work: &mut Work, now_ns: u64) {
        while let Some(&batch) = self.batches.front() {
            let (mut reads, mut writes) = (0, 0);
            let mut is_usual = true;
            while is_usual && reads + writes < batch.count {
                let mut kind = self.ring.kind(self.oldest);
                if kind == Kind::Get {
                    let most = batch.count - reads - writes;
                    let alike = self.take_alike(rest, work, most);
                    reads += alike;
                    if alike == most {
                        break;
                    }
                    kind = self.ring.kind(self.oldest);
                }
                is_usual = match kind {
                    Kind::Get | Kind::MultiGet => self.take_hits(rest, work),
                    Kind::Set => take_stored(rest, work.plan.protocol),
                    Kind::Other(_) => false,
                };
                if is_usual {
                    reads += usize::from(kind.is_read());
                    writes += usize::from(!kind.is_read());
                    self.oldest = self.ring.behind(self.oldest, 1);
                }
            }
            work.stats.counters.sets += writes as u64;
            for (is_read, count) in [(true, reads), (false, writes)] {
                if count > 0 {
                    work.count_answered(is_read, batch.sent_ns, now_ns, count as u64);
                }
            }
            self.forget(reads + writes);
            if !is_usual {
                return;
            }
        }
    }

    /// Takes in answers to gets of one key that look as the last one did, but for key and value. How many it took,
    /// at most `most`.
    fn take_alike(&mut self, rest: &mut &[u8], work: &mut Work, most: usize) -> usize {
        let (ring, mut index, mut bytes) = (&*self.ring, self.oldest, *rest);
        let Some(alike) = self.alike.filter(|_| self.found == 0) else {
            return 0;
        };
        let mut count = 0;
        while count < most && ring.kind(index) == Kind::Get {
            let key = ring.only_key(index);
            let Some((value, behind)) = alike.take(bytes, key) else {
                break;
            };
            work.check_value(key, value);
            bytes = behind;
            index = ring.behind(index, 1);
            count += 1;
        }
        *rest = bytes;
        self.oldest = index;
        let counters = &mut work.stats.counters;
        counters.gets += count as u64;
        counters.hits += count as u64;
        count
    }

    /// Takes in the values of the oldest request, a get, as far as they are right in front. Whether they are all
    /// there and the get is over.
    #[inline]
    fn take_hits(&mut self, rest: &mut &[u8], work: &mut Work) -> bool {
        let is_classic = work.plan.protocol == Protocol::Classic;
        let request_len = self.ring.request(self.oldest).len();
        while self.key_at < request_len {
            let (key, next) = self.ring.key_at(self.oldest, self.key_at);
            let hit = if is_classic {
                classic_hit(rest, key)
            } else {
                rest.strip_prefix(b"VA ")
            };
            let len_max = work.limits.item_size_max;
            let Some((value, behind)) = hit.and_then(|line| value(line, len_max)) else {
                return false;
            };
            work.take_value(key, value);
            Alike::learn(&mut self.alike, work.plan.protocol, value.len());
            *rest = behind;
            self.found += 1;
            self.key_at = next;
        }
        if is_classic {
            match rest.strip_prefix(b"END\r\n") {
                Some(behind) => *rest = behind,
                None => return false,
            }
        }
        work.stats.counters.gets += self.found as u64;
        self.found = 0;
        self.key_at = self.ring.first_key_at();
        true
    }

    /// Makes the oldest request for the general parser, with what has been found of it.
    fn remake(&mut self) {
        match self.ring.kind(self.oldest) {
            Kind::Get | Kind::MultiGet => {
                let keys = self.ring.keys(self.oldest);
                self.request.become_get(keys, self.found);
            }
            kind => {
                self.request.reset(0);
                self.request.operation = kind.operation();
            }
        }
    }

    /// The oldest requests are answered.
    fn finish(&mut self, count: usize) {
        self.oldest = self.ring.behind(self.oldest, count);
        self.begin_oldest();
        self.forget(count);
    }

    /// This many requests of the oldest batch are no longer in flight.
    #[inline]
    fn forget(&mut self, count: usize) {
        self.in_flight -= count;
        if let Some(batch) = self.batches.front_mut() {
            batch.count -= count;
            if batch.count == 0 {
                self.batches.pop_front();
            }
        }
    }

    /// Nothing of the oldest request has been answered.
    fn begin_oldest(&mut self) {
        self.found = 0;
        self.key_at = self.ring.first_key_at();
        self.is_unusual = false;
    }
}

/// What follows the key in the line of a hit without flags: the value's length.
#[inline]
fn classic_hit<'a>(bytes: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    bytes
        .strip_prefix(b"VALUE ")?
        .strip_prefix(key)?
        .strip_prefix(b" 0 ")
}

/// The value of this length, and what follows it.
#[inline]
fn value(bytes: &[u8], len_max: usize) -> Option<(&[u8], &[u8])> {
    let mut len = 0;
    let mut digits = 0;
    while let Some(digit) = bytes.get(digits).filter(|byte| byte.is_ascii_digit()) {
        len = len * 10 + usize::from(digit - b'0');
        digits += 1;
        if digits > LENGTH_DIGITS_MAX {
            return None;
        }
    }
    // How lengths are not written is the general parser's to judge.
    if digits == 0 || (digits > 1 && bytes[0] == b'0') || len > len_max {
        return None;
    }
    let data = bytes[digits..].strip_prefix(b"\r\n")?;
    let (value, behind) = data.split_at_checked(len)?;
    Some((value, behind.strip_prefix(b"\r\n")?))
}

/// Takes in the answer to a set that was stored.
#[inline]
fn take_stored(rest: &mut &[u8], protocol: Protocol) -> bool {
    let stored: &[u8] = match protocol {
        Protocol::Meta => b"HD\r\n",
        _ => b"STORED\r\n",
    };
    match rest.strip_prefix(stored) {
        Some(behind) => {
            *rest = behind;
            true
        }
        None => false,
    }
}
