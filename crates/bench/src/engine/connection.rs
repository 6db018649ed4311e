//! One connection: bytes out, bytes in, and the requests between them in their order.

use super::answer::{Parsed, Progress, Request, next_answer};
use super::encode;
use super::thread::Work;
use crate::target::Socket;
use evenkeel_protocol::StoreVerb;
use evenkeel_workload::Operation;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::mem;

/// First size of the buffer for answers. It grows to the largest answer, no further.
const INPUT_LEN: usize = 64 << 10;

/// No request is encoded while this many bytes wait for the socket.
const OUTPUT_LEN_MAX: usize = 256 << 10;

/// Why a connection cannot go on.
pub(crate) type Loss = io::Error;

/// How an operation writes the value that it comes with; `None` where it has none.
fn store_verb(operation: Operation) -> Option<StoreVerb> {
    match operation {
        Operation::Set => Some(StoreVerb::Set),
        Operation::Add => Some(StoreVerb::Add),
        Operation::Replace => Some(StoreVerb::Replace),
        Operation::Append => Some(StoreVerb::Append),
        Operation::Prepend => Some(StoreVerb::Prepend),
        _ => None,
    }
}

/// Requests that were sent and are unanswered, oldest first, in places that are used again and again: a request
/// is made where it stays until it is answered.
struct InFlight {
    places: Vec<Request>,
    first: usize,
    count: usize,
}

impl InFlight {
    fn new(most: usize) -> Self {
        InFlight {
            places: (0..most).map(|_| Request::default()).collect(),
            first: 0,
            count: 0,
        }
    }

    /// The place behind the youngest. While all are taken it is the oldest's.
    #[inline]
    fn next(&mut self) -> &mut Request {
        let place = self.place(self.count);
        &mut self.places[place]
    }

    /// What is in the next place is sent.
    #[inline]
    fn push(&mut self) {
        debug_assert!(self.count < self.places.len());
        self.count += 1;
    }

    #[inline]
    fn oldest(&self) -> Option<&Request> {
        (self.count > 0).then(|| &self.places[self.first])
    }

    #[inline]
    fn oldest_mut(&mut self) -> Option<&mut Request> {
        (self.count > 0).then(|| &mut self.places[self.first])
    }

    /// Gives the oldest's place away; whether there was one.
    #[inline]
    fn pop(&mut self) -> bool {
        if self.count == 0 {
            return false;
        }
        self.first = self.place(1);
        self.count -= 1;
        true
    }

    /// The place so many behind the oldest.
    #[inline]
    fn place(&self, behind: usize) -> usize {
        let place = self.first + behind;
        if place < self.places.len() {
            place
        } else {
            place - self.places.len()
        }
    }
}

/// A connection to the target.
pub(crate) struct Connection {
    /// Position of the worker at the other end, where the load knows the workers; else 0.
    worker: usize,
    /// `None`: down, until `retry_at_ns`.
    pub(crate) socket: Option<Socket>,
    pub(crate) retry_at_ns: u64,
    input: Vec<u8>,
    filled: usize,
    /// Bytes that the parser wants to see before it is asked again.
    wanted: usize,
    output: Vec<u8>,
    written: usize,
    in_flight: InFlight,
    /// Sets after misses, to be sent before anything new.
    refills: VecDeque<Request>,
}

impl Connection {
    pub(crate) fn new(socket: Socket, worker: usize, pipeline: usize) -> Self {
        Connection {
            worker,
            socket: Some(socket),
            retry_at_ns: 0,
            input: vec![0; INPUT_LEN],
            filled: 0,
            wanted: 0,
            output: Vec::with_capacity(INPUT_LEN),
            written: 0,
            in_flight: InFlight::new(pipeline),
            refills: VecDeque::new(),
        }
    }

    /// Whether another request may be sent now.
    pub(crate) fn has_room(&self, pipeline: usize) -> bool {
        self.socket.is_some()
            && self.in_flight.count < pipeline
            && self.output.len() - self.written < OUTPUT_LEN_MAX
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.count == 0 && self.refills.is_empty()
    }

    /// Whether the oldest request was sent before this.
    pub(crate) fn waits_since_before(&self, ns: u64) -> bool {
        self.in_flight
            .oldest()
            .is_some_and(|request| request.sent_ns < ns)
    }

    /// Encodes requests while there is room: sets after misses first, then, where `fresh`, new ones.
    pub(crate) fn fill(&mut self, work: &mut Work, now_ns: u64, fresh: bool) {
        while self.has_room(work.plan.pipeline) {
            let place = self.in_flight.next();
            let found = match self.refills.pop_front() {
                Some(refill) => {
                    work.recycle(mem::replace(place, refill));
                    true
                }
                None => fresh && work.draw_for(self.worker, now_ns, place),
            };
            if !found {
                return;
            }
            self.send(work, now_ns);
        }
    }

    /// Where the next request is to be made; the caller knows that there is room.
    pub(crate) fn next(&mut self) -> &mut Request {
        self.in_flight.next()
    }

    /// Encodes the request made in [`Connection::next`].
    pub(crate) fn send(&mut self, work: &mut Work, now_ns: u64) {
        let request = self.in_flight.next();
        request.sent_ns = now_ns;
        let protocol = work.plan.protocol;
        let route = work.route(request);
        match request.operation {
            Operation::Get | Operation::ReadModifyWrite => {
                encode::get(protocol, &request.keys, route, &mut self.output);
            }
            operation => {
                let (key, output) = (request.keys.get(0), &mut self.output);
                let ttl_s = work.ttl_s(key, request.ttl_s);
                match store_verb(operation) {
                    Some(verb) => {
                        let value = work.next_value(request);
                        encode::store(protocol, verb, key, value, ttl_s, route, output);
                    }
                    None => encode::short(protocol, operation, key, ttl_s, route, output),
                }
            }
        }
        self.in_flight.push();
    }

    /// Writes what is encoded, as far as the socket takes it.
    pub(crate) fn flush(&mut self, work: &mut Work) -> Result<(), Loss> {
        let Some(socket) = &mut self.socket else {
            return Ok(());
        };
        while self.written < self.output.len() {
            match socket.write(&self.output[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.written += count;
                    work.stats.counters.sent_bytes += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Also while the connection is being made.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::NotConnected
                    ) =>
                {
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        // What is left moves to the front, so that the buffer stays as large as its limit.
        self.output.copy_within(self.written.., 0);
        self.output.truncate(self.output.len() - self.written);
        self.written = 0;
        Ok(())
    }

    /// Reads and takes in every answer that is there.
    pub(crate) fn receive(&mut self, work: &mut Work) -> Result<(), Loss> {
        loop {
            let Some(socket) = &mut self.socket else {
                return Ok(());
            };
            if self.filled == self.input.len() {
                // The parser refuses answers above its limits, so this ends there.
                self.input.resize(self.wanted.max(self.input.len() * 2), 0);
            }
            match socket.read(&mut self.input[self.filled..]) {
                Ok(0) => {
                    return Err(io::Error::new(
                        ErrorKind::UnexpectedEof,
                        "closed by the server",
                    ));
                }
                Ok(count) => {
                    self.filled += count;
                    work.stats.counters.received_bytes += count as u64;
                    // A short read has emptied the socket: the next bytes raise a new event.
                    let emptied = self.filled < self.input.len();
                    if self.filled >= self.wanted {
                        let now_ns = work.now_ns();
                        self.take_answers(work, now_ns)?;
                    }
                    if emptied {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::NotConnected
                    ) =>
                {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn take_answers(&mut self, work: &mut Work, now_ns: u64) -> Result<(), Loss> {
        let out_of_step = |what: String| io::Error::new(ErrorKind::InvalidData, what);
        let mut taken = 0;
        self.wanted = 0;
        while taken < self.filled {
            let bytes = &self.input[taken..self.filled];
            let (answer, consumed) = match next_answer(work.plan.protocol, bytes, &work.limits) {
                Parsed::Answer { answer, consumed } => (answer, consumed),
                Parsed::Incomplete { total } => {
                    self.wanted = total;
                    break;
                }
                Parsed::Malformed => return Err(out_of_step("an answer that is none".into())),
            };
            let Some(request) = self.in_flight.oldest_mut() else {
                return Err(out_of_step(format!("{answer:?} without a request")));
            };
            let progress = request.take(answer, work);
            taken += consumed;
            match progress {
                Progress::More => {}
                Progress::OutOfStep(what) => return Err(out_of_step(what)),
                Progress::Done => {
                    work.finish(request, now_ns, &mut self.refills);
                    self.in_flight.pop();
                }
            }
        }
        work.book();
        self.input.copy_within(taken..self.filled, 0);
        self.filled -= taken;
        Ok(())
    }

    /// Closes the connection and gives up what was under way.
    pub(crate) fn close(&mut self, work: &mut Work, retry_at_ns: u64) {
        self.socket = None;
        self.retry_at_ns = retry_at_ns;
        self.filled = 0;
        self.wanted = 0;
        self.output.clear();
        self.written = 0;
        work.book();
        while self.in_flight.pop() {
            work.abandon();
        }
        for refill in self.refills.drain(..) {
            work.recycle(refill);
        }
    }
}
