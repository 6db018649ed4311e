//! Requests as they are drawn, and what leads each to its worker.

use super::Cluster;
use crate::history::Nanos;
use crate::load::{Arrivals, CLIENT_STREAM, LoadPlan};
use evenkeel_workload::rng::{WorkloadRng, below, stream};
use evenkeel_workload::{Operation, Schedule, WorkloadStream};

/// Requests that are drawn ahead. What happens between them does not change them, and many at once keep
/// the processor busy where one would wait for memory.
const DRAWN_AHEAD: usize = 256;

/// A request that will be asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    /// When it is meant to be sent.
    pub at: Nanos,
    /// When it comes to its worker.
    pub arrives: Nanos,
    pub key: u32,
    pub client: u32,
    pub place: u16,
    pub home: u16,
    pub proxy: u16,
    pub is_get: bool,
}

/// Where requests come from.
#[derive(Debug)]
pub(super) struct Asker {
    requests: WorkloadStream,
    due: Schedule,
    random: WorkloadRng,
    /// Its times count from here.
    begun: Nanos,
    key: Vec<u64>,
}

impl Asker {
    /// What a plan asks from a time on.
    pub fn new(plan: &LoadPlan, begun: Nanos) -> Result<Self, String> {
        let Arrivals::Open { .. } = plan.arrivals else {
            return Err("the fast mode knows open loops alone: give a rate".into());
        };
        let workload = plan.workload()?;
        Ok(Asker {
            requests: workload.stream(0, 1),
            due: workload.schedule(0, 1).expect("the loop is open"),
            random: stream(plan.seed, CLIENT_STREAM),
            begun,
            key: Vec::with_capacity(1),
        })
    }

    /// Draws the next requests that are due by the end.
    fn draw(&mut self, cluster: &Cluster<'_>, end: Nanos, asks: &mut Vec<Ask>) {
        asks.clear();
        while self.begun + self.due.next_ns() <= end && asks.len() < DRAWN_AHEAD {
            let at = self.begun + self.due.next_ns();
            asks.push(Ask {
                at,
                arrives: at + cluster.way,
                key: 0,
                client: below(&mut self.random, cluster.plan.clients as u64) as u32,
                place: 0,
                home: 0,
                proxy: 0,
                is_get: true,
            });
            self.due.advance();
        }
        for ask in asks {
            self.key.clear();
            let operation = self.requests.draw(ask.at - self.begun, &mut self.key);
            ask.is_get = operation == Operation::Get;
            ask.key = self.key[0] as u32;
        }
    }
}

impl Cluster<'_> {
    /// Asks all that is due by the end.
    pub(super) fn ask_until(&mut self, asker: &mut Asker, end: Nanos) {
        let mut asks = Vec::with_capacity(DRAWN_AHEAD);
        loop {
            asker.draw(self, end, &mut asks);
            if asks.is_empty() {
                return;
            }
            for ask in &mut asks {
                ask.place = self.keys.of(ask.key).place;
                ask.proxy = self.proxies[ask.client as usize];
            }
            for ask in &mut asks {
                if ask.at >= self.tick {
                    self.tick = ask.at - ask.at % super::TICK + super::TICK;
                    self.tick(ask.at);
                }
                self.fill_until(ask.at);
                self.direct(ask);
                match ask.is_get {
                    true => self.get(ask),
                    false => self.set(ask.at, ask),
                }
            }
            self.simulated += asks.len() as u64;
        }
    }

    /// Leads a request to the worker that has its key. A proxy that does not know that the key has moved asks the
    /// former worker first and is sent on: that takes a miss's time there and a round trip. It does not wait for
    /// its turn: of what waits there already, something is for the same cachelet, and is answered before.
    #[inline]
    pub(super) fn direct(&mut self, ask: &mut Ask) {
        let place = usize::from(ask.place);
        ask.home = self.hosts[place];
        let Some(known) = self.views[usize::from(ask.proxy)].hosts.get_mut(place) else {
            return;
        };
        if *known != ask.home {
            let former = core::mem::replace(known, ask.home);
            let cost = self.costs.miss;
            self.work(usize::from(former), ask.arrives, ask.proxy, cost);
            ask.arrives += cost + self.costs.batch + 2 * self.plan.network;
            self.redirects += 1;
        }
    }
}
