//! What load to make: plain data, checked before anything starts.

use crate::{BadUsage, Cluster, Target};
use evenkeel_workload::trace::TraceFormat;
use evenkeel_workload::{Arrivals, MultiGet, Operation, Ttls, ValueSizes, WorkloadSpec};
use rustix::thread::CpuSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Most threads. More than any machine has cores for.
pub const THREADS_MAX: usize = 256;

/// Maximum connections of one thread; a port range has about twice as many.
pub const CONNECTIONS_MAX: usize = 16_384;

/// Most requests in flight on one connection. Deeper pipelines measure the socket buffers.
pub const PIPELINE_MAX: usize = 4096;

/// A load on one server.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// The server.
    pub target: Target,
    /// Be an aware client of this cluster: connections go to its workers in turn, and each asks only
    /// for keys that its worker owns. The target then only names the load. An aware load ends with
    /// an error when a connection is lost, since its map may be void then.
    pub cluster: Option<Arc<Cluster>>,
    /// Threads, each with its own event loop.
    pub threads: usize,
    /// Connections of each thread.
    pub connections_per_thread: usize,
    /// Most requests in flight on a connection.
    pub pipeline: usize,
    /// Dialect.
    pub protocol: Protocol,
    /// Where requests come from.
    pub source: Source,
    /// Sizes of values, unless a trace tells them.
    pub value_sizes: ValueSizes,
    /// Times to live, unless a trace tells them.
    pub ttls: Ttls,
    /// A get that misses is followed by a set of the same key on the same connection.
    pub cache_aside: bool,
    /// Draw and encode the requests beforehand, 32 MiB of them, and send them round and round: for a server
    /// that answers more than can be drawn. Closed loops of generated keys alone, and nothing that depends on
    /// an answer or on time; [`LoadHandle::switch_hot_keys`](crate::LoadHandle::switch_hot_keys) has no effect.
    pub prepared: bool,
    /// When requests are sent.
    pub pace: Arrivals,
    /// When the load ends by itself.
    pub stop: Stop,
    /// Time at the start that is not measured.
    pub warm_up: Duration,
    /// Check that values read are values that were written.
    pub check_values: bool,
    /// A connection whose oldest request waits longer is closed and opened anew; its requests
    /// count as unanswered.
    pub answer_timeout: Duration,
    /// Longest wait for answers when the load ends, at most [`answer_timeout`](Self::answer_timeout); what
    /// comes later counts as unanswered. A load that fills waits for as long as for any answer.
    pub drain: Duration,
    /// Ends the load when no connection has been open for this long; `None` keeps trying.
    pub give_up_after: Option<Duration>,
    /// Seed of arrivals (generated keys have their own in the source).
    pub seed: u64,
    /// Cores for the threads, in turn; empty leaves them to the system.
    pub pin: Vec<usize>,
}

/// Where requests come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Generated.
    Generated(WorkloadSpec),
    /// One set for each key of a generated workload, for filling a server.
    Fill(WorkloadSpec),
    /// A recorded trace, shared by the connections in its order.
    Trace {
        /// The file.
        path: PathBuf,
        /// Its format; `None` goes by its name.
        format: Option<TraceFormat>,
        /// Start again at the end.
        repeat: bool,
    },
}

/// When the load ends by itself: at whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stop {
    /// After this time, not counting the warm-up.
    pub after: Option<Duration>,
    /// After this many requests of all threads together, not counting the sets after misses.
    pub requests: Option<u64>,
}

impl Stop {
    /// After this time.
    pub fn after(time: Duration) -> Stop {
        Stop {
            after: Some(time),
            requests: None,
        }
    }

    /// After this many requests.
    pub fn at_request(count: u64) -> Stop {
        Stop {
            after: None,
            requests: Some(count),
        }
    }
}

/// Protocol of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Protocol {
    /// `get` and `set`.
    #[default]
    Classic,
    /// `mg` and `ms`.
    Meta,
    /// `GET`, `MGET` and `SET` of Redis (RESP 2), for comparisons.
    #[value(skip)]
    Resp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Classic => "classic",
            Protocol::Meta => "meta",
            Protocol::Resp => "resp",
        })
    }
}

impl LoadPlan {
    /// One thread, one connection, one request at a time, for ever; values are checked. Sizes, times to
    /// live, arrivals and seed are those of a generated workload, or of the default one.
    pub fn new(target: Target, source: Source) -> Self {
        let spec = match &source {
            Source::Generated(spec) => spec.clone(),
            // A fill is not a load: it goes as fast as it can.
            Source::Fill(spec) => WorkloadSpec {
                arrivals: Arrivals::Closed,
                ..spec.clone()
            },
            Source::Trace { .. } => WorkloadSpec::default(),
        };
        LoadPlan {
            target,
            cluster: None,
            threads: 1,
            connections_per_thread: 1,
            pipeline: 1,
            protocol: Protocol::Classic,
            source,
            value_sizes: spec.value_sizes,
            ttls: spec.ttls,
            cache_aside: false,
            prepared: false,
            pace: spec.arrivals,
            stop: Stop::default(),
            warm_up: Duration::ZERO,
            check_values: true,
            answer_timeout: Duration::from_secs(5),
            drain: Duration::from_secs(2),
            give_up_after: None,
            seed: spec.seed,
            pin: Vec::new(),
        }
    }

    /// Refuses numbers outside their limits and combinations that make no sense.
    ///
    /// # Errors
    /// [`BadUsage`] with the reason.
    pub fn validate(&self) -> Result<(), BadUsage> {
        let within = |what: &str, number: usize, max: usize| {
            if (1..=max).contains(&number) {
                Ok(())
            } else {
                Err(BadUsage(format!(
                    "{what}: {number} is not within 1 and {max}"
                )))
            }
        };
        within("threads", self.threads, THREADS_MAX)?;
        within(
            "connections of a thread",
            self.connections_per_thread,
            CONNECTIONS_MAX,
        )?;
        within("pipeline", self.pipeline, PIPELINE_MAX)?;
        self.pace
            .check()
            .map_err(|error| BadUsage(error.to_string()))?;
        if let Source::Generated(spec) = &self.source {
            validate_mix(spec)?;
        }
        if !self.pin.is_empty() {
            let allowed = rustix::thread::sched_getaffinity(None)
                .map_err(|error| BadUsage(format!("asking for the cores: {error}")))?;
            let known = |core: usize| core < CpuSet::MAX_CPU && allowed.is_set(core);
            if let Some(core) = self.pin.iter().find(|&&core| !known(core)) {
                return Err(BadUsage(format!(
                    "core {core} is not one that this process may use"
                )));
            }
        }
        if self.cluster.is_some() {
            self.validate_aware()?;
        }
        if self.prepared
            && let Some(reason) = self.unpreparable()
        {
            return Err(BadUsage(format!("prepared requests: {reason}")));
        }
        if self.answer_timeout.is_zero() {
            return Err(BadUsage("an answer needs more time than none".into()));
        }
        Ok(())
    }

    /// Why it cannot be made of requests that were [prepared](Self::prepared); nothing where it can.
    fn unpreparable(&self) -> Option<&'static str> {
        let Source::Generated(spec) = &self.source else {
            return Some("their keys are generated, not those of a trace or a fill");
        };
        let sends = |operation| spec.mix.share(operation) > 0.0;
        let follows_an_answer = self.cache_aside
            || sends(Operation::ReadModifyWrite)
            || sends(Operation::Incr)
            || sends(Operation::Decr);
        if follows_an_answer {
            // A counter that is not there is made.
            return Some("none may depend on an answer, as with cache-aside, rmw, incr and decr");
        }
        if spec.reshuffle_ns.is_some() || spec.flash.is_some() {
            return Some("what is hot does not change with time, as with reshuffle and flash");
        }
        if spec.lone_gets > 0.0 || spec.mix.insert_share() > 0.0 {
            return Some("they are sent again and again: no key can be a new one");
        }
        if self.pace != Arrivals::Closed {
            return Some("they are sent in a closed loop");
        }
        if self.cluster.is_some() {
            return Some("they are not sorted by the owners of their keys");
        }
        if self.protocol == Protocol::Resp {
            return Some("they speak memcached's protocol");
        }
        None
    }

    /// What an aware load cannot be: a request belongs to the connections of one worker, which must
    /// not have to wait for another's, and some that were drawn are still unsent when it ends.
    fn validate_aware(&self) -> Result<(), BadUsage> {
        let reason = if self.protocol != Protocol::Meta {
            "needs the meta protocol"
        } else if self.pace != Arrivals::Closed {
            "is a closed loop"
        } else {
            match &self.source {
                Source::Generated(spec) if spec.multiget != MultiGet::Keys(1) => {
                    "has one key a request"
                }
                Source::Generated(_) if self.stop.requests.is_none() => return Ok(()),
                _ => "generates its keys, for a time",
            }
        };
        Err(BadUsage(format!("a load on the owners of keys {reason}")))
    }
}

/// Refuses the one operation that the engine does not send: the version that a `cas` needs is in the
/// answer to a read, which the engine does not keep.
fn validate_mix(spec: &WorkloadSpec) -> Result<(), BadUsage> {
    if spec.mix.share(Operation::Cas) > 0.0 {
        return Err(BadUsage(
            "the load generator sends no cas: set another mix".into(),
        ));
    }
    Ok(())
}
