//! Load in the background, watched from outside.

use crate::engine::connection::{Connection, Traffic};
use crate::engine::drawn::Drawn;
use crate::engine::feed::FeedSource;
use crate::engine::prepared::Prepared;
use crate::engine::ring::Ring;
use crate::engine::stats::{Counters, LoadStats, Mailbox};
use crate::engine::thread::{Control, LoadThread, Outcome};
use crate::{BadUsage, LoadPlan, Source, Target};
use anyhow::Context;
use hdrhistogram::Histogram;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Starts loads.
///
/// ```no_run
/// use evenkeel_bench::{Driver, LoadPlan, Source};
/// # fn main() -> anyhow::Result<()> {
/// let source = Source::Trace { path: "trace.txt.gz".into(), format: None, repeat: true };
/// let target = "127.0.0.1:11211".parse().map_err(anyhow::Error::msg)?;
/// let mut load = Driver::start(LoadPlan {
///     connections_per_thread: 128,
///     cache_aside: true,
///     pace: "poisson(20k)".parse()?,
///     ..LoadPlan::new(target, source)
/// })?;
/// let sample = load.poll();
/// println!("{:.0}/s, p99 {:.0} us", sample.requests_per_second(), sample.latency_us(0.99));
/// load.switch_hot_keys();
/// let all = load.stop()?;
/// println!("{} requests, {} errors", all.counters.requests, all.counters.errors);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Driver;

impl Driver {
    /// Opens the connections and starts the threads of a plan.
    ///
    /// # Errors
    /// [`BadUsage`] when the plan is refused or its trace cannot be opened; else when the target
    /// does not answer or threads cannot be started.
    pub fn start(plan: LoadPlan) -> anyhow::Result<LoadHandle> {
        Load::prepare(plan)?.start()
    }
}

/// A load that is ready to be started, as often as one likes.
#[derive(Clone)]
pub(crate) struct Load {
    plan: Arc<LoadPlan>,
    ring: Option<Arc<Ring>>,
}

impl Load {
    /// Checks a plan and makes its requests, where they are to be made beforehand.
    ///
    /// # Errors
    /// [`BadUsage`] when the plan is refused.
    pub(crate) fn prepare(plan: LoadPlan) -> Result<Load, BadUsage> {
        plan.validate()?;
        let plan = Arc::new(plan);
        let ring = match &plan.source {
            Source::Generated(spec) if plan.prepared => {
                let workload = spec.build().map_err(|error| BadUsage(error.to_string()))?;
                Some(Arc::new(Ring::new(&plan, &workload)))
            }
            _ => None,
        };
        Ok(Load { plan, ring })
    }

    /// The same load on another server.
    pub(crate) fn on(&self, target: Target) -> Load {
        let plan = LoadPlan {
            target,
            ..LoadPlan::clone(&self.plan)
        };
        Load {
            plan: Arc::new(plan),
            ring: self.ring.clone(),
        }
    }

    /// The same load for another time.
    pub(crate) fn lasting(&self, time: Duration) -> Load {
        let mut plan = LoadPlan::clone(&self.plan);
        plan.stop.after = Some(time);
        Load {
            plan: Arc::new(plan),
            ring: self.ring.clone(),
        }
    }

    /// The requests, where they are made.
    pub(crate) fn ring(&self) -> Option<&Ring> {
        self.ring.as_deref()
    }

    /// Threads of the load.
    pub(crate) fn threads(&self) -> usize {
        self.plan.threads
    }

    /// Opens the connections and starts the threads.
    ///
    /// # Errors
    /// [`BadUsage`] when the plan's trace cannot be opened; else when the target does not answer or threads
    /// cannot be started.
    pub(crate) fn start(&self) -> anyhow::Result<LoadHandle> {
        let plan = &self.plan;
        let source = FeedSource::open(&plan.source).map_err(|error| BadUsage(error.to_string()))?;
        let connect =
            |thread| (0..plan.connections_per_thread).map(move |index| self.connect(thread, index));
        let connections = (0..plan.threads).map(|thread| connect(thread).collect());
        let connections = connections.collect::<anyhow::Result<Vec<Vec<Connection>>>>()?;
        let control = Arc::new(Control::default());
        let (done_sender, done) = mpsc::channel();
        let started = Instant::now();
        let mut handle = LoadHandle {
            control: Arc::clone(&control),
            mailboxes: Vec::new(),
            threads: Vec::new(),
            done,
            totals: LoadStats::default(),
            polled: started,
        };
        for (index, connections) in connections.into_iter().enumerate() {
            let mailbox = Arc::new(Mutex::new(Mailbox::default()));
            let thread = LoadThread::new(
                index,
                Arc::clone(plan),
                source.feed(index, plan.threads),
                connections,
                Arc::clone(&control),
                Arc::clone(&mailbox),
                started,
            )
            .context("preparing an event loop")?;
            let done = done_sender.clone();
            let builder = std::thread::Builder::new().name(format!("load-{index}"));
            let running = builder.spawn(move || {
                let outcome = thread.run();
                // Nobody listens where the handle is stopped or dropped: then it joins instead.
                let _ = done.send(());
                outcome
            });
            handle.mailboxes.push(mailbox);
            handle.threads.push(running.context("starting a thread")?);
        }
        Ok(handle)
    }

    /// Opens connection `index` of a thread.
    fn connect(&self, thread: usize, index: usize) -> anyhow::Result<Connection> {
        let plan = &self.plan;
        let workers = plan.cluster.as_ref().map_or(1, |cluster| cluster.workers());
        let socket = match &plan.cluster {
            Some(cluster) => cluster.connect(index % workers)?,
            None => {
                (plan.target.connect()).with_context(|| format!("connecting to {}", plan.target))?
            }
        };
        let traffic = match &self.ring {
            Some(ring) => {
                // Connections begin at equal distances.
                let per_thread = plan.connections_per_thread;
                let place = thread * per_thread + index;
                let first = ring.len() * place / (plan.threads * per_thread);
                Traffic::Prepared(Prepared::new(Arc::clone(ring), first, plan.pipeline))
            }
            None => Traffic::Drawn(Drawn::new(index % workers, plan.pipeline)),
        };
        Ok(Connection::new(socket, traffic))
    }
}

/// A running load. Dropping it stops the load and waits for its threads.
#[derive(Debug)]
pub struct LoadHandle {
    control: Arc<Control>,
    mailboxes: Vec<Arc<Mutex<Mailbox>>>,
    threads: Vec<JoinHandle<Outcome>>,
    done: mpsc::Receiver<()>,
    totals: LoadStats,
    polled: Instant,
}

/// What happened since the last look.
#[derive(Clone, Debug)]
pub struct LiveSample {
    /// Seconds since the last look. Figures arrive about ten times a second, so looks much closer
    /// than a quarter of a second apart are uneven.
    pub seconds: f64,
    /// What happened how often.
    pub counters: Counters,
    /// Latency of gets and sets together, in nanoseconds.
    pub latency: Histogram<u64>,
}

impl LiveSample {
    /// Adds what another load did in the same time, or this one in another; the seconds stay as they are.
    pub fn add(&mut self, other: &LiveSample) {
        self.counters += other.counters;
        self.latency
            .add(&other.latency)
            .expect("all histograms have the same bounds");
    }

    /// Requests answered a second.
    pub fn requests_per_second(&self) -> f64 {
        if self.seconds > 0.0 {
            self.counters.requests as f64 / self.seconds
        } else {
            0.0
        }
    }

    /// The latency in microseconds that this share of the requests (0 to 1) did not exceed.
    pub fn latency_us(&self, share: f64) -> f64 {
        self.latency.value_at_quantile(share) as f64 / 1000.0
    }
}

/// What a finished load leaves behind.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) stats: LoadStats,
    pub(crate) outcomes: Vec<Outcome>,
}

impl LoadHandle {
    /// What happened since the last look (or the start).
    pub fn poll(&mut self) -> LiveSample {
        let now = Instant::now();
        let stats = self.take_published();
        let seconds = now.duration_since(self.polled).as_secs_f64();
        self.polled = now;
        LiveSample {
            seconds,
            counters: stats.counters,
            latency: stats.latency(),
        }
    }

    /// Makes other keys hot: another permutation of generated keys; a trace's keys go on under
    /// other names. Each call takes keys that were not hot before. Prepared requests stay what they are.
    pub fn switch_hot_keys(&self) {
        self.control.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the load has ended by itself.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Everything since the start, as far as it has been looked at.
    pub fn totals(&self) -> &LoadStats {
        &self.totals
    }

    /// Stops the load, waits for the last answers (2 s at most) and says what it all was.
    ///
    /// # Errors
    /// When the load ended before its time: a damaged trace, a target that is gone.
    pub fn stop(mut self) -> anyhow::Result<LoadStats> {
        self.control.stop.store(true, Ordering::Relaxed);
        Ok(self.finish()?.stats)
    }

    /// Waits for a load that ends by itself and says what it was.
    ///
    /// # Errors
    /// When the load ended before its time: a damaged trace, a target that is gone.
    pub fn wait(mut self) -> anyhow::Result<LoadStats> {
        Ok(self.finish()?.stats)
    }

    /// Waits for the load to end by itself, telling at least this often everything so far and what has
    /// come since the last time.
    pub(crate) fn watch(
        mut self,
        interval: Duration,
        mut progress: impl FnMut(&LoadStats, &LoadStats),
    ) -> anyhow::Result<Finished> {
        let mut running = self.threads.len();
        while running > 0 {
            match self.done.recv_timeout(interval) {
                Ok(()) => running -= 1,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                // A thread that panics drops its sender without a word; joining it tells.
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            let since = self.take_published();
            progress(&self.totals, &since);
        }
        self.finish()
    }

    fn take_published(&mut self) -> LoadStats {
        let mut sum = LoadStats::default();
        for mailbox in &self.mailboxes {
            mailbox
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take_into(&mut sum);
        }
        self.totals.add(&sum);
        sum
    }

    fn finish(&mut self) -> anyhow::Result<Finished> {
        let mut outcomes = Vec::with_capacity(self.threads.len());
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(outcome) => outcomes.push(outcome),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        self.take_published();
        if let Some(fault) = outcomes.iter_mut().find_map(|outcome| outcome.fault.take()) {
            return Err(fault);
        }
        let mut stats = std::mem::take(&mut self.totals);
        stats.first_error = outcomes.iter_mut().find_map(|it| it.first_error.take());
        Ok(Finished { stats, outcomes })
    }
}

impl Drop for LoadHandle {
    fn drop(&mut self) {
        self.control.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic has been reported by its thread; a drop must not add another.
            let _ = thread.join();
        }
    }
}
