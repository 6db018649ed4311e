//! What a thread of load has besides its connections: where requests come from and where they end.

use super::encode::{Encoder, Route};
use super::feed::Feed;
use super::request::Request;
use super::stats::LoadStats;
use crate::{BadUsage, LoadPlan, value};
use evenkeel_protocol::Limits;
use evenkeel_types::KeyHash;
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

/// Requests drawn for the connections of other workers that wait for their turn. More are forgotten:
/// draws do not depend on each other, so those that are left have the same popularity.
const WAITING_MAX: usize = 1024;

/// What requests that were sent and answered together have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Alike {
    is_read: bool,
    latency_ns: u64,
}

/// Everything of a thread but its connections.
pub(crate) struct Work {
    pub(crate) plan: Arc<LoadPlan>,
    pub(crate) stats: Box<LoadStats>,
    pub(super) feed: Feed,
    pub(super) encoder: Encoder,
    /// Requests that may still be sent.
    quota: Option<u64>,
    pub(super) ended: bool,
    /// Requests out of use, with their buffers: what sets after misses are made in.
    pool: Vec<Request>,
    /// Drawn and unsent, by the worker that they are for; empty where the load knows no workers.
    waiting: Vec<VecDeque<Request>>,
    /// The last of the requests that are finished and not booked, and how many of them are like it.
    alike: Alike,
    alike_count: u64,
    /// What the target may make us buffer.
    pub(crate) limits: Limits,
    clock: Instant,
    pub(super) last_answer_ns: u64,
    /// The first loss of a connection since the last answer.
    pub(super) lost_since_ns: Option<u64>,
    pub(super) fault: Option<anyhow::Error>,
    pub(super) first_error: Option<String>,
}

impl Work {
    /// The work of thread `index` of a load that began at `clock`.
    pub(super) fn new(index: usize, plan: Arc<LoadPlan>, feed: Feed, clock: Instant) -> Self {
        let workers = plan.cluster.as_ref().map_or(0, |cluster| cluster.workers());
        // The remainder goes to the first threads.
        let quota = plan.stop.requests.map(|requests| {
            let (threads, index) = (plan.threads as u64, index as u64);
            requests / threads + u64::from(index < requests % threads)
        });
        Work {
            stats: Box::default(),
            feed,
            // 2^40 writes of each thread before two share a version.
            encoder: Encoder::new(&plan, (index as u64) << 40),
            quota,
            ended: false,
            pool: Vec::new(),
            waiting: (0..workers).map(|_| VecDeque::new()).collect(),
            alike: Alike::default(),
            alike_count: 0,
            limits: Limits::default(),
            clock,
            last_answer_ns: 0,
            lost_since_ns: None,
            fault: None,
            first_error: None,
            plan,
        }
    }

    /// Nanoseconds since the start of the load.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// Makes the next request, meant to be sent at `intended_ns`; false when there are no more.
    pub(crate) fn draw(&mut self, intended_ns: u64, request: &mut Request) -> bool {
        if self.ended {
            return false;
        }
        request.reset(intended_ns);
        let drawn = match self.quota {
            Some(0) => Ok(None),
            _ => self.feed.next(intended_ns, &mut request.keys),
        };
        match drawn {
            Ok(Some(draw)) => {
                request.operation = draw.operation;
                request.value_len = draw.value_len;
                request.ttl_s = draw.ttl_s;
                self.quota = self.quota.map(|quota| quota - 1);
                return true;
            }
            Ok(None) => {}
            // The user's own file is at fault.
            Err(error) => self.fault = Some(BadUsage(error.to_string()).into()),
        }
        self.ended = true;
        false
    }

    /// Makes the next request for the connections of a worker; of all draws where the load knows none. False when
    /// there are no more.
    pub(crate) fn draw_for(&mut self, worker: usize, now_ns: u64, request: &mut Request) -> bool {
        if !self.ended
            && let Some(waiting) = self.waiting.get_mut(worker).and_then(VecDeque::pop_front)
        {
            self.pool.push(mem::replace(request, waiting));
            request.intended_ns = now_ns;
            return true;
        }
        loop {
            if !self.draw(now_ns, request) {
                return false;
            }
            let Some(cluster) = &self.plan.cluster else {
                return true;
            };
            let Some((owner, cachelet)) = cluster.owner(request.keys.get(0)) else {
                self.fault = Some(anyhow::anyhow!("the map gives some keys to nobody"));
                self.ended = true;
                return false;
            };
            request.cachelet = Some(cachelet);
            if owner == worker {
                return true;
            }
            if self.waiting[owner].len() < WAITING_MAX {
                let spare = self.pool.pop().unwrap_or_default();
                self.waiting[owner].push_back(mem::replace(request, spare));
            }
        }
    }

    /// By what the worker was chosen that this request goes to.
    #[inline]
    pub(crate) fn route(&self, request: &Request) -> Route {
        let cluster = self.plan.cluster.as_ref()?;
        Some((cluster.epoch(), request.cachelet?))
    }

    /// How many of so many requests that are made already may be sent.
    pub(crate) fn allow(&mut self, count: usize) -> usize {
        let allowed = match self.quota {
            _ if self.ended => 0,
            None => count,
            Some(left) => count.min(usize::try_from(left).unwrap_or(usize::MAX)),
        };
        self.quota = self.quota.map(|left| left - allowed as u64);
        self.ended |= allowed < count;
        allowed
    }

    /// Counts this many answered requests that were meant to be sent at the same moment.
    #[inline]
    pub(crate) fn count_answered(
        &mut self,
        is_read: bool,
        intended_ns: u64,
        now_ns: u64,
        count: u64,
    ) {
        self.last_answer_ns = now_ns;
        self.lost_since_ns = None;
        self.stats.counters.requests += count;
        let alike = Alike {
            is_read,
            latency_ns: now_ns.saturating_sub(intended_ns),
        };
        if self.alike != alike {
            self.book();
            self.alike = alike;
        }
        self.alike_count += count;
    }

    /// Counts an answered request; its misses become sets where the plan says so.
    pub(crate) fn finish(
        &mut self,
        request: &Request,
        now_ns: u64,
        refills: &mut VecDeque<Request>,
    ) {
        self.count_answered(request.is_read(), request.intended_ns, now_ns, 1);
        if self.plan.cache_aside {
            for key in request.missed() {
                let mut refill = self.pool.pop().unwrap_or_default();
                refill.become_refill(key, request, now_ns);
                refills.push_back(refill);
            }
        }
        if let Some(operation) = request.follow_up() {
            let mut next = self.pool.pop().unwrap_or_default();
            next.become_follow_up(operation, request, now_ns);
            refills.push_back(next);
        }
    }

    /// Books the latencies of what was finished: once for all that were sent and answered together. Has to be
    /// called when the answers at hand are taken in.
    pub(crate) fn book(&mut self) {
        let latency = if self.alike.is_read {
            &mut self.stats.get_latency
        } else {
            &mut self.stats.set_latency
        };
        if self.alike_count > 0 {
            latency.saturating_record_n(self.alike.latency_ns, mem::take(&mut self.alike_count));
        }
    }

    /// Counts a request that will never be answered.
    pub(crate) fn abandon(&mut self) {
        self.stats.counters.errors += 1;
        self.stats.counters.unanswered += 1;
    }

    /// Takes a request that is out of use.
    pub(crate) fn recycle(&mut self, request: Request) {
        self.pool.push(request);
    }

    /// Takes in a value that was found.
    #[inline]
    pub(crate) fn take_value(&mut self, key: &[u8], value: &[u8]) {
        self.stats.counters.hits += 1;
        self.check_value(key, value);
    }

    /// Checks a value, where the plan says so.
    #[inline]
    pub(crate) fn check_value(&mut self, key: &[u8], value: &[u8]) {
        if self.plan.check_values && !value::is_right(KeyHash::of(key), value) {
            self.stats.counters.wrong_values += 1;
            self.note_error(|| format!("a wrong value of key {}", String::from_utf8_lossy(key)));
        }
    }

    /// Remembers the first error for the report.
    pub(crate) fn note_error(&mut self, describe: impl FnOnce() -> String) {
        if self.first_error.is_none() {
            self.first_error = Some(describe());
        }
    }
}
