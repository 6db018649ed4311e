//! A connection's share of a load whose requests are drawn and encoded when they are sent.

use super::alike::Alike;
use super::answer::{Progress, next_answer};
use super::parsed::{Answer, Parsed};
use super::request::Request;
use super::wire::{Loss, OUTPUT_LEN_MAX, Taken, out_of_step, write};
use super::work::Work;
use crate::target::Socket;
use std::collections::VecDeque;
use std::mem;

/// First size of the buffer for requests.
const OUTPUT_LEN: usize = 64 << 10;

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

    /// The place this many behind the oldest.
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

/// The requests of one connection.
pub(crate) struct Drawn {
    /// Position of the worker at the other end, where the load knows the workers; else 0.
    worker: usize,
    output: Vec<u8>,
    written: usize,
    in_flight: InFlight,
    /// Sets after misses, to be sent before anything new.
    refills: VecDeque<Request>,
    /// What the last hit looked like.
    alike: Option<Alike>,
}

impl Drawn {
    pub(crate) fn new(worker: usize, pipeline: usize) -> Self {
        Drawn {
            worker,
            output: Vec::with_capacity(OUTPUT_LEN),
            written: 0,
            in_flight: InFlight::new(pipeline),
            refills: VecDeque::new(),
            alike: None,
        }
    }

    /// Whether another request may be made now.
    pub(crate) fn has_room(&self, pipeline: usize) -> bool {
        self.in_flight.count < pipeline && self.output.len() - self.written < OUTPUT_LEN_MAX
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.count == 0 && self.refills.is_empty()
    }

    /// When the oldest request was sent.
    pub(crate) fn waits_since(&self) -> Option<u64> {
        self.in_flight.oldest().map(|request| request.sent_ns)
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
            self.encode(work, now_ns);
        }
    }

    /// Where the next request is to be made; the caller knows that there is room.
    pub(crate) fn next(&mut self) -> &mut Request {
        self.in_flight.next()
    }

    /// Encodes the request made in [`Drawn::next`].
    pub(crate) fn encode(&mut self, work: &mut Work, now_ns: u64) {
        let request = self.in_flight.next();
        request.sent_ns = now_ns;
        let route = work.route(request);
        work.encoder.encode(request, route, &mut self.output);
        self.in_flight.push();
    }

    /// Writes what is encoded, as far as the socket takes it.
    pub(crate) fn flush(&mut self, socket: &mut Socket, work: &mut Work) -> Result<(), Loss> {
        self.written += write(socket, &self.output[self.written..], work)?;
        // What is left moves to the front, so that the buffer stays as large as its limit.
        self.output.copy_within(self.written.., 0);
        self.output.truncate(self.output.len() - self.written);
        self.written = 0;
        Ok(())
    }

    /// Takes in the answers that are there.
    pub(crate) fn take_answers(
        &mut self,
        bytes: &[u8],
        work: &mut Work,
        now_ns: u64,
    ) -> Result<Taken, Loss> {
        let (mut taken, mut wanted) = (0, 0);
        while taken < bytes.len() {
            if let Some(len) = self.take_alike(&bytes[taken..], work, now_ns) {
                taken += len;
                continue;
            }
            let parsed = next_answer(work.plan.protocol, &bytes[taken..], &work.limits);
            let (answer, consumed) = match parsed {
                Parsed::Answer { answer, consumed } => (answer, consumed),
                Parsed::Incomplete { total } => {
                    wanted = total;
                    break;
                }
                Parsed::Malformed => return Err(out_of_step("an answer that is none".into())),
            };
            let Some(request) = self.in_flight.oldest_mut() else {
                return Err(out_of_step(format!("{answer:?} without a request")));
            };
            if let Answer::Value { value, .. } = answer {
                Alike::learn(&mut self.alike, work.plan.protocol, value.len());
            }
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
        Ok(Taken { taken, wanted })
    }

    /// Takes in the answer to a get of one key, if it is all there and looks as the last hit did; its length.
    #[inline]
    fn take_alike(&mut self, bytes: &[u8], work: &mut Work, now_ns: u64) -> Option<usize> {
        let alike = self.alike?;
        let key = self.in_flight.oldest()?.only_key()?;
        let (value, behind) = alike.take(bytes, key)?;
        work.take_value(key, value);
        work.stats.counters.gets += 1;
        let intended_ns = self.in_flight.oldest()?.intended_ns;
        work.count_answered(true, intended_ns, now_ns, 1);
        self.in_flight.pop();
        Some(bytes.len() - behind.len())
    }

    /// Forgets what is in flight and what was to follow; how much was in flight.
    pub(crate) fn close(&mut self, work: &mut Work) -> usize {
        self.output.clear();
        self.written = 0;
        let in_flight = self.in_flight.count;
        while self.in_flight.pop() {}
        for refill in self.refills.drain(..) {
            work.recycle(refill);
        }
        in_flight
    }
}
