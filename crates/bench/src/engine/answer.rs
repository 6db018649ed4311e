//! Requests in flight and what their answers mean.
//!
//! The reply parser of the protocol crate tells the two dialects of memcached apart, `resp` reads what Redis
//! says; here all become the few things that a get or a set can hear.

use super::parsed::{Answer, Parsed};
use super::request::Request;
use super::resp;
use super::work::Work;
use crate::Protocol;
use evenkeel_protocol::{Limits, MetaStatus, Reply, ReplyOutcome, parse_reply};
use evenkeel_workload::Operation;

/// Reads the first answer of `bytes`.
#[inline]
pub(crate) fn next_answer<'a>(protocol: Protocol, bytes: &'a [u8], limits: &Limits) -> Parsed<'a> {
    if protocol == Protocol::Resp {
        return resp::next_answer(bytes, limits);
    }
    let (reply, consumed) = match parse_reply(bytes, limits) {
        ReplyOutcome::Reply { reply, consumed } => (reply, consumed),
        ReplyOutcome::Incomplete { total } => return Parsed::Incomplete { total },
        ReplyOutcome::Malformed => return Parsed::Malformed,
    };
    let answer = match reply {
        Reply::Value(value) => Answer::Value {
            key: Some(value.key),
            value: value.data,
        },
        Reply::End => Answer::End,
        Reply::Stored | Reply::Deleted | Reply::Touched | Reply::Number(_) => Answer::Done,
        Reply::NotStored | Reply::Exists | Reply::NotFound => Answer::NotDone,
        Reply::Meta(meta) => match (meta.status, meta.value) {
            (MetaStatus::Value, Some(value)) => Answer::Value { key: None, value },
            (MetaStatus::Done, _) => Answer::Done,
            (MetaStatus::Miss, _) => Answer::Miss,
            _ => Answer::NotDone,
        },
        Reply::Error => Answer::Error(b"ERROR"),
        Reply::ClientError(text) | Reply::ServerError(text) => Answer::Error(text),
        _ => return Parsed::Malformed,
    };
    Parsed::Answer { answer, consumed }
}

/// What an answer did to the oldest request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    Done,
    /// The answer does not belong to the request: the connection has lost its step.
    OutOfStep(String),
}

impl Request {
    /// Makes the request new, to be sent at `intended_ns`.
    pub(crate) fn reset(&mut self, intended_ns: u64) {
        self.operation = Operation::Get;
        self.keys.clear();
        self.value_len = None;
        self.ttl_s = None;
        self.intended_ns = intended_ns;
        self.cachelet = None;
        self.refill = false;
        self.begins_counter = false;
        self.not_done = false;
        self.found.clear();
        self.next = 0;
        self.failed = false;
    }

    /// Makes the request a get of these keys, of which the first were found already.
    pub(crate) fn become_get<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>, found: usize) {
        self.reset(0);
        keys.for_each(|key| self.keys.push(key));
        self.found.resize(found, true);
        self.next = found;
    }

    /// The key of a get that has no other, and of which nothing has been answered.
    #[inline]
    pub(crate) fn only_key(&self) -> Option<&[u8]> {
        let is_plain = self.operation == Operation::Get && self.found.is_empty() && !self.failed;
        (is_plain && self.keys.len() == 1).then(|| self.keys.get(0))
    }

    /// Whether it is answered with values.
    #[inline]
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.operation, Operation::Get | Operation::ReadModifyWrite)
    }

    /// Makes the request the set that follows a miss.
    pub(crate) fn become_refill(&mut self, key: &[u8], get: &Request, now_ns: u64) {
        self.reset(now_ns);
        self.operation = Operation::Set;
        self.keys.push(key);
        self.value_len = get.value_len;
        self.ttl_s = get.ttl_s;
        self.cachelet = get.cachelet;
        self.refill = true;
    }

    /// Keys of an answered get that were not there; none where the get failed.
    pub(crate) fn missed(&self) -> impl Iterator<Item = &[u8]> {
        // A write follows a read-modify-write in any case.
        let answered = self.operation == Operation::Get && !self.failed;
        let count = if answered { self.keys.len() } else { 0 };
        (0..count)
            .filter(|&index| !self.found[index])
            .map(|index| self.keys.get(index))
    }

    /// What has to be sent now that the request is answered: the write that a read was for, or a
    /// counter that was not there.
    pub(crate) fn follow_up(&self) -> Option<Operation> {
        match self.operation {
            _ if self.failed => None,
            Operation::ReadModifyWrite => Some(Operation::Set),
            operation if operation.is_for_counters() && self.not_done => Some(Operation::Add),
            _ => None,
        }
    }

    /// Makes the request what follows another.
    pub(crate) fn become_follow_up(&mut self, operation: Operation, first: &Request, now_ns: u64) {
        self.reset(now_ns);
        self.operation = operation;
        self.keys.push(first.keys.get(0));
        self.value_len = first.value_len;
        self.ttl_s = first.ttl_s;
        self.cachelet = first.cachelet;
        self.begins_counter = first.operation.is_for_counters();
    }

    /// Takes an answer.
    pub(crate) fn take(&mut self, answer: Answer<'_>, work: &mut Work) -> Progress {
        match (self.is_read(), work.plan.protocol, answer) {
            (
                true,
                Protocol::Classic,
                Answer::Value {
                    key: Some(key),
                    value,
                },
            ) => {
                self.found.resize(self.keys.len(), false);
                match self.position(key) {
                    Some(index) => self.take_value(index, value, work),
                    None => {
                        work.note_error(|| "a value came with a key nobody asked for".into());
                        work.stats.counters.wrong_values += 1;
                    }
                }
                Progress::More
            }
            (true, Protocol::Classic, Answer::End) => {
                self.found.resize(self.keys.len(), false);
                self.end_get(work)
            }
            (true, Protocol::Meta | Protocol::Resp, Answer::Value { value, .. }) => {
                self.found.resize(self.keys.len(), false);
                self.take_value(self.next, value, work);
                self.end_meta_key(work)
            }
            (true, Protocol::Meta | Protocol::Resp, Answer::Miss) => {
                self.found.resize(self.keys.len(), false);
                self.next += 1;
                self.end_meta_key(work)
            }
            (false, _, Answer::NotDone | Answer::Miss) if self.operation == Operation::Set => {
                work.stats.counters.errors += 1;
                work.note_error(|| "a set was not stored".into());
                Progress::Done
            }
            (false, _, Answer::NotDone | Answer::Miss) => {
                work.stats.counters.others += 1;
                self.not_done = true;
                Progress::Done
            }
            (false, _, Answer::Done) => {
                match self.operation {
                    Operation::Delete | Operation::Touch | Operation::Incr | Operation::Decr => {
                        work.stats.counters.others += 1;
                    }
                    _ => work.stats.counters.sets += 1,
                }
                work.stats.counters.refills += u64::from(self.refill);
                Progress::Done
            }
            (true, Protocol::Meta, Answer::Error(text)) => {
                work.note_error(|| String::from_utf8_lossy(text).into_owned());
                // One key of several: its failure is the whole request's, its turn is over.
                self.failed = true;
                self.next += 1;
                self.end_meta_key(work)
            }
            (_, _, Answer::Error(text)) => {
                work.stats.counters.errors += 1;
                work.note_error(|| String::from_utf8_lossy(text).into_owned());
                self.failed = true;
                Progress::Done
            }
            (_, protocol, answer) => {
                let operation = self.operation;
                let kind = match answer {
                    Answer::Value { .. } => "a value",
                    Answer::End => "an end",
                    Answer::Miss => "a miss",
                    Answer::Done | Answer::NotDone => "an answer to a write",
                    Answer::Error(_) => "an error",
                };
                Progress::OutOfStep(format!("{kind} in answer to a {protocol} {operation:?}"))
            }
        }
    }

    /// Which of the keys this value is for. Servers answer in the order of the keys, but nothing
    /// obliges them to; a key asked for twice is answered twice.
    fn position(&self, key: &[u8]) -> Option<usize> {
        let open = |index: &usize| !self.found[*index] && self.keys.get(*index) == key;
        (self.next..self.keys.len())
            .find(open)
            .or_else(|| (0..self.next).find(open))
    }

    fn take_value(&mut self, index: usize, value: &[u8], work: &mut Work) {
        self.found[index] = true;
        self.next = index + 1;
        work.take_value(self.keys.get(index), value);
    }

    fn end_meta_key(&mut self, work: &mut Work) -> Progress {
        if self.next < self.keys.len() {
            Progress::More
        } else {
            self.end_get(work)
        }
    }

    fn end_get(&mut self, work: &mut Work) -> Progress {
        if self.failed {
            work.stats.counters.errors += 1;
            return Progress::Done;
        }
        let found = self.found.iter().filter(|&&found| found).count() as u64;
        work.stats.counters.gets += self.keys.len() as u64;
        work.stats.counters.misses += self.keys.len() as u64 - found;
        Progress::Done
    }
}
