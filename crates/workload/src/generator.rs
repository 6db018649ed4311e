//! Generated requests: everything that a [`WorkloadSpec`] says, drawn from one seed.
//!
//! A [`Workload`] is shared by any number of [`WorkloadStream`]s, one for each thread or simulated client.
//! Each has its own random numbers, and all agree on which keys are hot, when that changes, and what a
//! key's size is, so that together they are the workload asked for. Time is told by the caller, in
//! nanoseconds from the start of the load; there is no clock here.

use crate::arrivals::{STREAMS_MAX, Schedule};
use crate::flash::FlashCrowd;
use crate::graph::Graph;
use crate::keys::{KeyFormat, KeyList};
use crate::mix::{Action, MixSampler, Operation};
use crate::multiget::MultiGet;
use crate::popularity::{Popularity, RankSampler, ycsb_hash};
use crate::rng::{self, WorkloadRng, mix64};
use crate::spec::WorkloadSpec;
use crate::{Permutation, WorkloadError, refuse};
use evenkeel_types::KeyHash;
use std::ops::Range;
use std::sync::Arc;

/// Keys that are asked for once in their life have numbers from here on, far above those of a key that
/// was inserted.
const LONE_KEYS_FROM: u64 = 1 << 40;

/// The permutation that chooses the keys of a flash crowd, apart from those that choose hot keys.
const FLASH_GENERATION: u64 = u64::MAX;

/// One request. Owned by the caller and filled anew each time, so that drawing allocates nothing once
/// the buffers have grown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// What it does.
    pub operation: Operation,
    /// Numbers of its keys: several for a get, else one.
    pub ids: Vec<u64>,
    /// Its keys, in the same order.
    pub keys: KeyList,
    /// Size of the value of the first key, in bytes.
    pub value_len: u32,
    /// Time to live of the first key in seconds, 0 for ever.
    pub ttl_s: u32,
}

/// A workload ready to be drawn from by any number of threads.
#[derive(Clone, Debug)]
pub struct Workload {
    parts: Arc<Parts>,
}

#[derive(Debug)]
struct Parts {
    spec: WorkloadSpec,
    keys: u64,
    sampler: RankSampler,
    mix: MixSampler,
    format: KeyFormat,
    graph: Option<Arc<Graph>>,
    /// Keys that the popularity is over: all, or the users that have friends.
    drawn_keys: u64,
}

impl Workload {
    pub(crate) fn new(spec: WorkloadSpec) -> Result<Self, WorkloadError> {
        spec.multiget.check()?;
        spec.arrivals.check()?;
        if !(0.0..=1.0).contains(&spec.lone_gets) {
            return refuse(format!(
                "share of lone gets {} is not within 0 and 1",
                spec.lone_gets
            ));
        }
        if spec.read_only.is_some_and(|read_only| read_only.every == 0) {
            return refuse("one key in 0 is none");
        }
        let graph = match &spec.multiget {
            MultiGet::Friends(source) => Some(source.load(spec.seed)?),
            _ => None,
        };
        let keys = match (&graph, spec.keys) {
            (Some(graph), Some(keys)) if keys != graph.users() => {
                return refuse(format!(
                    "a graph of {} users has this many keys, not {keys}",
                    graph.users()
                ));
            }
            (Some(graph), _) => graph.users(),
            (None, _) => spec.keys(),
        };
        let drawn_keys = match &graph {
            Some(graph) if graph.readers().is_empty() => {
                return refuse("nobody in the graph has a friend");
            }
            Some(graph) => graph.readers().len() as u64,
            None => keys,
        };
        let moving = matches!(spec.popularity, Popularity::Latest { .. });
        if spec.mix.insert_share() > 0.0 && !moving {
            return refuse(format!(
                "nobody would ask for inserted keys: insert goes with latest, not {}",
                spec.popularity
            ));
        }
        if moving && (graph.is_some() || spec.reshuffle_ns.is_some() || spec.read_only.is_some()) {
            return refuse(
                "the hot keys of latest move by themselves: no graph, reshuffle or read-only goes with it",
            );
        }
        if spec.read_only.is_some() && matches!(spec.popularity, Popularity::ScrambledZipf { .. }) {
            return refuse(
                "several ranks of scrambled-zipf fall on a key: read-only goes with zipf",
            );
        }
        if spec.reshuffle_ns == Some(0) {
            return refuse("hot keys cannot change every 0 s");
        }
        if let Some(flash) = &spec.flash {
            flash.check(drawn_keys)?;
        }
        let sampler = RankSampler::new(drawn_keys, spec.popularity)?;
        let format = KeyFormat::of_sizes(&spec.prefix, spec.key_sizes.clone(), keys)?;
        Ok(Workload {
            parts: Arc::new(Parts {
                mix: MixSampler::new(&spec.mix),
                keys,
                sampler,
                format,
                graph,
                drawn_keys,
                spec,
            }),
        })
    }

    /// Stream `index` of `streams`.
    ///
    /// # Panics
    /// When `index` is not below `streams`, or there are more than [`STREAMS_MAX`].
    pub fn stream(&self, index: usize, streams: usize) -> WorkloadStream {
        assert!(
            index < streams && streams <= STREAMS_MAX,
            "stream {index} of {streams}"
        );
        let spec = &self.parts.spec;
        let mut stream = WorkloadStream {
            rng: rng::stream(spec.seed, index as u64),
            parts: Arc::clone(&self.parts),
            index: index as u64,
            streams: streams as u64,
            order: Permutation::new(self.parts.drawn_keys, spec.seed, 0),
            salt: 0,
            generation: 0,
            epoch: 0,
            epoch_ends_ns: spec.reshuffle_ns.unwrap_or(u64::MAX),
            flash: spec.flash.map(|crowd| Flash {
                crowd,
                order: Permutation::new(self.parts.drawn_keys, spec.seed, FLASH_GENERATION),
            }),
            flash_from_ns: spec.flash.map_or(u64::MAX, |flash| flash.at_ns),
            inserted: 0,
            lone: 0,
            scratch: Vec::new(),
        };
        stream.reorder();
        stream
    }

    /// When stream `index` of `streams` is to send its requests; `None` in a closed loop.
    ///
    /// # Panics
    /// As [`Workload::stream`].
    pub fn schedule(&self, index: usize, streams: usize) -> Option<Schedule> {
        Schedule::new(
            self.parts.spec.arrivals,
            index,
            streams,
            self.parts.spec.seed,
        )
    }

    /// The numbers of the keys that stream `index` of `streams` has to set before the load begins, so
    /// that each key exists once.
    ///
    /// # Panics
    /// When `index` is not below `streams`.
    pub fn fill(&self, index: usize, streams: usize) -> Range<u64> {
        assert!(index < streams, "stream {index} of {streams}");
        let cut = |n: usize| (u128::from(self.parts.keys) * n as u128 / streams as u128) as u64;
        cut(index)..cut(index + 1)
    }

    /// Appends the name of a key.
    #[inline]
    pub fn write_key(&self, id: u64, out: &mut Vec<u8>) {
        self.parts.format.write(id, out);
    }

    /// Size of the value of a key in bytes.
    #[inline]
    pub fn value_len(&self, key: KeyHash) -> u32 {
        self.parts.spec.value_sizes.of(key.0)
    }

    /// Time to live of a key in seconds, 0 for ever.
    #[inline]
    pub fn ttl_s(&self, key: KeyHash) -> u32 {
        self.parts.spec.ttls.of(key.0)
    }

    /// Number of keys at the start.
    pub fn keys(&self) -> u64 {
        self.parts.keys
    }

    /// What it was built from.
    pub fn spec(&self) -> &WorkloadSpec {
        &self.parts.spec
    }

    /// The law of popularity over ranks.
    pub fn ranks(&self) -> &RankSampler {
        &self.parts.sampler
    }
}

#[derive(Clone, Debug)]
struct Flash {
    crowd: FlashCrowd,
    order: Permutation,
}

/// An endless stream of requests.
#[derive(Clone, Debug)]
pub struct WorkloadStream {
    parts: Arc<Parts>,
    rng: WorkloadRng,
    index: u64,
    streams: u64,
    /// From ranks to keys.
    order: Permutation,
    /// The same for hashed ranks.
    salt: u64,
    /// Set by the owner, and by time: both choose the order.
    generation: u64,
    epoch: u64,
    epoch_ends_ns: u64,
    flash: Option<Flash>,
    flash_from_ns: u64,
    inserted: u64,
    lone: u64,
    /// Key numbers that are on their way to becoming keys.
    scratch: Vec<u64>,
}

impl WorkloadSpec {
    /// Makes the workload ready to be drawn from. Takes about a millisecond, but for graphs.
    ///
    /// # Errors
    /// When a number is outside its range, the fields do not go together, or a graph cannot be had.
    pub fn build(&self) -> Result<Workload, WorkloadError> {
        Workload::new(self.clone())
    }
}

impl WorkloadStream {
    /// Draws the next request of a load that began `now_ns` ago. `now_ns` never goes backwards.
    #[inline]
    pub fn next(&mut self, now_ns: u64, request: &mut Request) {
        request.ids.clear();
        request.keys.clear();
        request.operation = self.draw(now_ns, &mut request.ids);
        self.write_keys(request.operation, &request.ids, &mut request.keys);
        let hash = KeyHash::of(request.keys.get(0));
        request.value_len = self.parts.spec.value_sizes.of(hash.0);
        request.ttl_s = self.parts.spec.ttls.of(hash.0);
    }

    /// Draws an operation and appends its keys: for those who need neither numbers nor sizes.
    #[inline]
    pub fn next_keys(&mut self, now_ns: u64, keys: &mut KeyList) -> Operation {
        let mut ids = core::mem::take(&mut self.scratch);
        ids.clear();
        let operation = self.draw(now_ns, &mut ids);
        self.write_keys(operation, &ids, keys);
        self.scratch = ids;
        operation
    }

    fn write_keys(&self, operation: Operation, ids: &[u64], keys: &mut KeyList) {
        let format = &self.parts.format;
        for &id in ids {
            keys.push_with(|bytes| match operation.is_for_counters() {
                false => format.write(id, bytes),
                true => format.write_counter(id, bytes),
            });
        }
    }

    /// Draws an operation and appends the numbers of its keys: for those who need no bytes.
    #[inline]
    pub fn draw(&mut self, now_ns: u64, ids: &mut Vec<u64>) -> Operation {
        if now_ns >= self.epoch_ends_ns {
            self.begin_epoch(now_ns);
        }
        let operation = match self.parts.mix.sample(&mut self.rng) {
            Action::On(operation) => operation,
            Action::Insert => {
                ids.push(self.insert());
                return Operation::Set;
            }
        };
        if operation == Operation::Get {
            self.draw_get(now_ns, ids);
            return operation;
        }
        let rank = self.parts.sampler.sample(&mut self.rng);
        let place = self.place(rank);
        ids.push(self.key_at(place));
        match self.parts.spec.read_only {
            Some(read_only) if read_only.holds(rank) => Operation::Get,
            _ => operation,
        }
    }

    /// Makes other keys hot: generation 0 is where every stream starts, and streams of the same
    /// generation agree. With `latest`, whose hot keys move by themselves, nothing changes.
    pub fn switch_to(&mut self, generation: u64) {
        self.generation = generation;
        self.reorder();
    }

    // Always: calls for each of its steps would cost a third of a draw.
    #[inline(always)]
    fn draw_get(&mut self, now_ns: u64, ids: &mut Vec<u64>) {
        let keys = match self.parts.spec.multiget {
            MultiGet::Keys(keys) => keys,
            MultiGet::Geometric { p, max } => {
                let steps = (1.0 - rng::unit(&mut self.rng)).ln() / (1.0 - p).ln();
                (1 + steps as u64).min(max)
            }
            MultiGet::Friends(_) => {
                let place = self.draw_place(now_ns);
                if let Some(graph) = &self.parts.graph {
                    let user = graph.readers()[place as usize];
                    ids.extend(graph.friends(user).iter().map(|&id| u64::from(id)));
                }
                return;
            }
        };
        for _ in 0..keys {
            let lone = self.parts.spec.lone_gets;
            if lone > 0.0 && rng::unit(&mut self.rng) < lone {
                ids.push(LONE_KEYS_FROM + self.lone * self.streams + self.index);
                self.lone += 1;
            } else {
                ids.push(self.draw_place(now_ns));
            }
        }
    }

    /// A key for reading, by popularity or crowd.
    #[inline(always)]
    fn draw_place(&mut self, now_ns: u64) -> u64 {
        if now_ns >= self.flash_from_ns
            && let Some(Flash { crowd, order }) = &self.flash
            && rng::unit(&mut self.rng) < crowd.share_at(now_ns)
        {
            return order.apply(rng::below(&mut self.rng, crowd.keys));
        }
        let rank = self.parts.sampler.sample(&mut self.rng);
        self.place(rank)
    }

    /// The key that has this rank now; with a graph, the position of the user among those with friends.
    #[inline(always)]
    fn place(&self, rank: u64) -> u64 {
        match self.parts.spec.popularity {
            Popularity::ScrambledZipf { .. } => ycsb_hash(rank ^ self.salt) % self.parts.drawn_keys,
            // Other streams are taken to have inserted as many.
            Popularity::Latest { .. } => self.parts.keys + self.inserted * self.streams - 1 - rank,
            _ => self.order.apply(rank),
        }
    }

    fn key_at(&self, place: u64) -> u64 {
        match &self.parts.graph {
            Some(graph) => u64::from(graph.readers()[place as usize]),
            None => place,
        }
    }

    fn insert(&mut self) -> u64 {
        let id = self.parts.keys + self.inserted * self.streams + self.index;
        self.inserted += 1;
        id
    }

    #[cold]
    fn begin_epoch(&mut self, now_ns: u64) {
        if let Some(period_ns) = self.parts.spec.reshuffle_ns {
            self.epoch = now_ns / period_ns;
            self.epoch_ends_ns = (self.epoch + 1).saturating_mul(period_ns);
            self.reorder();
        }
    }

    fn reorder(&mut self) {
        let seed = self.parts.spec.seed;
        // Switches by hand and by time come to orders of their own.
        let generation = mix64(self.generation) ^ self.epoch;
        self.order = Permutation::new(self.parts.drawn_keys, seed, generation);
        self.salt = match (self.generation, self.epoch) {
            // As YCSB does it.
            (0, 0) => 0,
            _ => mix64(seed ^ generation),
        };
    }
}

#[cfg(test)]
mod tests;
