//! The command line of `evenkeel bench run`.

use crate::plan::{LoadPlan, Protocol, Source, Stop};
use crate::units::parse_duration;
use crate::{BadUsage, Target};
use evenkeel_workload::trace::TraceFormat;
use evenkeel_workload::{
    Arrivals, KeySizes, Mix, MultiGet, Popularity, Rate, ValueSizes, WorkloadError, WorkloadSpec,
};
use std::path::PathBuf;
use std::time::Duration;

/// Length of a run where nothing else ends it.
const DURATION_DEFAULT: Duration = Duration::from_secs(10);

/// Most rounds; medians gain nothing from more.
pub(crate) const ROUNDS_MAX: usize = 1000;

/// Puts load on memcached-speaking servers and measures them.
///
/// With several targets each round measures one after the other (A B A B …), and medians are
/// compared with those of the first.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// Server to measure: host:port or the path of a unix socket. Repeat to compare.
    #[arg(long, value_name = "HOST[:PORT]", required = true)]
    pub target: Vec<Target>,

    /// Be a client that knows the map: ask this coordinator (http://HOST:PORT) who owns which key and
    /// go to the owners. Needs --protocol meta; the target is filled through its ordinary port.
    #[arg(long, value_name = "URL")]
    pub coordinator: Option<String>,

    /// The load.
    #[command(flatten)]
    pub load: LoadArgs,
}

/// A load, and how it is told: what all commands that measure a load have in common.
#[derive(Clone, Debug, clap::Args)]
pub struct LoadArgs {
    /// The requests, and what carries them.
    #[command(flatten)]
    pub traffic: TrafficArgs,

    /// Draw and encode the requests beforehand, 32 MiB of them, and send them round and round: the generator
    /// then takes a fraction of its time for each, and is not what limits a fast server under pipelines.
    /// Not with what depends on answers or on time: a rate, a trace, --cache-aside, rmw, incr, decr.
    #[arg(long)]
    pub prepared: bool,

    /// Length of each measurement [default: 10s, or one pass of the trace].
    #[arg(long, value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Requests of each measurement.
    #[arg(long, value_name = "COUNT")]
    pub requests: Option<u64>,

    /// Time before each measurement that is not measured.
    #[arg(long, default_value = "0s", value_parser = parse_duration, value_name = "DURATION")]
    pub warm_up: Duration,

    /// Requests a second, sent whether or not answers come (open loop); latency counts from the
    /// moment a request was due. Without it a request follows an answer (closed loop).
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,

    /// Distances between requests of an open loop.
    #[arg(long, value_enum, default_value_t, requires = "rate")]
    pub arrivals: Distances,

    /// Replay a trace, plain, gzip or zstd: gets, each miss followed by a set. It starts again at its end
    /// where --duration or --requests says how long.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// text, be32, be64, lirs, arc, cloudphysics, wikipedia-edits, nasa-http, twitter, meta or higgs
    /// [default: by the file's name].
    #[arg(long, value_name = "FORMAT", requires = "trace")]
    pub trace_format: Option<TraceFormat>,

    /// Measurements of each target.
    #[arg(long, default_value_t = 1)]
    pub rounds: usize,

    /// Folder for plots (SVG) of throughput and latency over time, and of latency by percentile.
    #[arg(long, value_name = "FOLDER")]
    pub plots: Option<PathBuf>,

    /// How the result is printed.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// What is sent, and what carries it: all of a load but how much of it, when and for how long.
#[derive(Clone, Debug, clap::Args)]
pub struct TrafficArgs {
    /// Threads of the generator.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,

    /// Connections of each thread.
    #[arg(long, default_value_t = 8)]
    pub connections: usize,

    /// Requests in flight on each connection.
    #[arg(long, default_value_t = 1)]
    pub pipeline: usize,

    /// Dialect of the protocol.
    #[arg(long, value_enum, default_value_t)]
    pub protocol: Protocol,

    /// The workload in words, such as 'ycsb-b keys=1M' or 'twitter(4) arrivals=poisson(20k)'
    /// (docs/workloads.md). The flags that follow change single fields of it.
    #[arg(long, default_value = "default", value_name = "TEXT")]
    pub workload: WorkloadSpec,

    /// Share of the requests that are gets, 0 to 1; the rest are sets [default: 0.95].
    #[arg(long, value_name = "SHARE")]
    pub get_share: Option<f64>,

    /// Keys of each get [default: 1].
    #[arg(long, value_name = "KEYS")]
    pub multiget: Option<MultiGet>,

    /// uniform, zipf(EXPONENT), hotspot(OPERATIONS_SHARE, KEYS_SHARE) and others [default: zipf(0.99)].
    #[arg(long, value_name = "LAW")]
    pub popularity: Option<Popularity>,

    /// Number of keys [default: 200000].
    #[arg(long)]
    pub keys: Option<u64>,

    /// Length of every key in bytes [default: 24].
    #[arg(long, value_name = "BYTES")]
    pub key_size: Option<KeySizes>,

    /// First bytes of every key [default: key:].
    #[arg(long, value_name = "TEXT")]
    pub key_prefix: Option<String>,

    /// Size of values: BYTES, MIN..MAX, etc and others; a key keeps its size [default: 100].
    #[arg(long, value_name = "BYTES")]
    pub value_size: Option<ValueSizes>,

    /// Do not set every key before the first measurement.
    #[arg(long)]
    pub no_preload: bool,

    /// Follow a get that misses by a set of the key (always with --trace).
    #[arg(long)]
    pub cache_aside: bool,

    /// Cores for the generator's threads, in turn.
    #[arg(long, value_delimiter = ',', value_name = "CORE")]
    pub pin: Vec<usize>,

    /// Longest wait for an answer; then the connection is opened anew and its requests count as
    /// errors.
    #[arg(long, default_value = "5s", value_parser = parse_duration, value_name = "DURATION")]
    pub timeout: Duration,

    /// Do not check the values read: for keys that something else has written.
    #[arg(long)]
    pub no_check: bool,

    /// Fixes keys, mix and arrivals [default: 1].
    #[arg(long)]
    pub seed: Option<u64>,
}

/// Distances between requests of an open loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Distances {
    /// Exponential, as from many independent users.
    #[default]
    Poisson,
    /// Equal.
    Fixed,
}

/// How the result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// A table for people.
    #[default]
    Table,
    /// JSON with units in the names.
    Json,
}

impl LoadArgs {
    /// The measurement of one target.
    pub(crate) fn plan(&self, target: &Target) -> Result<LoadPlan, BadUsage> {
        let bounded = self.duration.is_some() || self.requests.is_some();
        let stop = Stop {
            after: match (bounded, &self.trace) {
                (false, None) => Some(DURATION_DEFAULT),
                _ => self.duration,
            },
            requests: self.requests,
        };
        let spec = self.spec()?;
        if self.trace.is_some() && spec.multiget != MultiGet::Keys(1) {
            return Err(BadUsage(
                "a trace has one key a request: no multiget".into(),
            ));
        }
        let source = match &self.trace {
            Some(path) => Source::Trace {
                path: path.clone(),
                format: self.trace_format,
                repeat: bounded,
            },
            None => Source::Generated(spec.clone()),
        };
        let plan = LoadPlan {
            cache_aside: self.traffic.cache_aside || self.trace.is_some(),
            prepared: self.prepared,
            stop,
            warm_up: self.warm_up,
            ..self.traffic.plan(target, &spec, source)
        };
        plan.validate()?;
        Ok(plan)
    }

    /// The plan that sets every key once, where one is asked for.
    pub(crate) fn preload_plan(&self, target: &Target) -> Result<Option<LoadPlan>, BadUsage> {
        match self.trace {
            Some(_) => Ok(None),
            None => Ok(self.traffic.preload_plan(target, &self.spec()?)),
        }
    }

    /// The workload, with what the flags change of it.
    ///
    /// # Errors
    /// When a flag is out of its range.
    pub(crate) fn spec(&self) -> Result<WorkloadSpec, BadUsage> {
        let mut spec = self.traffic.spec()?;
        if let Some(per_second) = self.rate {
            let rate = Rate::Constant(per_second);
            spec.arrivals = match self.arrivals {
                Distances::Poisson => Arrivals::Poisson(rate),
                Distances::Fixed => Arrivals::Fixed(rate),
            };
        }
        match self.trace {
            Some(_) => Ok(spec),
            None => buildable(spec),
        }
    }
}

impl TrafficArgs {
    /// A load of these requests, for as long as it is let.
    pub(crate) fn plan(&self, target: &Target, spec: &WorkloadSpec, source: Source) -> LoadPlan {
        LoadPlan {
            threads: self.threads,
            connections_per_thread: self.connections,
            pipeline: self.pipeline,
            protocol: self.protocol,
            value_sizes: spec.value_sizes.clone(),
            ttls: spec.ttls.clone(),
            cache_aside: self.cache_aside,
            pace: spec.arrivals,
            check_values: !self.no_check,
            answer_timeout: self.timeout,
            give_up_after: Some(self.timeout),
            seed: spec.seed,
            pin: self.pin.clone(),
            ..LoadPlan::new(target.clone(), source)
        }
    }

    /// The plan that sets every key of a workload once, where one is asked for.
    pub(crate) fn preload_plan(&self, target: &Target, spec: &WorkloadSpec) -> Option<LoadPlan> {
        let source = Source::Fill(spec.clone());
        (!self.no_preload).then(|| LoadPlan {
            pipeline: PRELOAD_PIPELINE,
            pace: Arrivals::Closed,
            ..self.plan(target, spec, source)
        })
    }

    /// The workload, with what these flags change of it.
    ///
    /// # Errors
    /// When a flag is out of its range.
    pub(crate) fn spec(&self) -> Result<WorkloadSpec, BadUsage> {
        let mut spec = self.workload.clone();
        if let Some(share) = self.get_share {
            spec.mix = Mix::gets(share).map_err(refused)?;
        }
        if let Some(multiget) = &self.multiget {
            spec.multiget = multiget.clone();
        }
        if let Some(popularity) = self.popularity {
            spec.popularity = popularity;
        }
        spec.keys = self.keys.or(spec.keys);
        if let Some(sizes) = &self.key_size {
            spec.key_sizes = sizes.clone();
        }
        if let Some(prefix) = &self.key_prefix {
            spec.prefix.clone_from(prefix);
        }
        if let Some(sizes) = &self.value_size {
            spec.value_sizes = sizes.clone();
        }
        if let Some(seed) = self.seed {
            spec.seed = seed;
        }
        Ok(spec)
    }
}

/// A workload with the number of keys that it comes to. Refused here rather than where the load starts.
pub(crate) fn buildable(spec: WorkloadSpec) -> Result<WorkloadSpec, BadUsage> {
    let keys = spec.build().map_err(refused)?.keys();
    Ok(WorkloadSpec {
        keys: Some(keys),
        ..spec
    })
}

fn refused(error: WorkloadError) -> BadUsage {
    BadUsage(error.to_string())
}

/// Depth of the pipelines that fill a server: enough to keep it busy over any connection.
const PRELOAD_PIPELINE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        run: RunArgs,
    }

    fn parse(line: &str) -> Result<RunArgs, clap::Error> {
        Command::try_parse_from(line.split_whitespace()).map(|command| command.run)
    }

    fn plan(line: &str) -> Result<LoadPlan, BadUsage> {
        let args = parse(line).unwrap();
        args.load.plan(&args.target[0])
    }

    #[test]
    fn a_line_becomes_a_plan() {
        let plan = plan(
            "run --target 127.0.0.1:1 --threads 2 --connections 3 --pipeline 4 --protocol meta \
             --rate 1000 --arrivals fixed --requests 50 --value-size 10..20 --pin 0",
        )
        .unwrap();
        assert_eq!(
            (plan.threads, plan.connections_per_thread, plan.pipeline),
            (2, 3, 4)
        );
        assert_eq!(plan.protocol, Protocol::Meta);
        assert_eq!(plan.pace, "fixed(1000)".parse().unwrap());
        assert_eq!(
            plan.stop,
            Stop {
                after: None,
                requests: Some(50)
            }
        );
        assert_eq!(plan.value_sizes.to_string(), "10..20");
    }

    #[test]
    fn a_run_ends() {
        let stop = |line| plan(line).unwrap().stop;
        assert_eq!(stop("run --target h/s").after, Some(DURATION_DEFAULT));
        let repeats = |line| match plan(line).unwrap().source {
            Source::Trace { repeat, .. } => repeat,
            _ => panic!("not a trace"),
        };
        assert!(!repeats("run --target h/s --trace t.txt"), "one pass");
        assert_eq!(stop("run --target h/s --trace t.txt"), Stop::default());
        assert!(repeats("run --target h/s --trace t.txt --duration 5s"));
    }

    #[test]
    fn bad_usage_is_refused() {
        for line in [
            "run",
            "run --target 22121",
            "run --target h/s --popularity zopf(1)",
            "run --target h/s --workload ycsb-e",
            "run --target h/s --value-size 5..4",
            "run --target h/s --duration 5",
            "run --target h/s --trace-format be32",
            "run --target h/s --arrivals fixed",
            "run --target h/s --nonsense",
        ] {
            let error = parse(line).map(|_| ()).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
        for (line, reason) in [
            ("run --target h/s --threads 0", "threads: 0"),
            ("run --target h/s --pipeline 100000", "pipeline: 100000"),
            ("run --target h/s --rate 0", "rate 0"),
            ("run --target h/s --rate NaN", "rate NaN"),
            ("run --target h/s --key-size 3", "keys of 3 bytes"),
            ("run --target h/s --pin 5000", "core 5000"),
            ("run --target h/s --trace t --multiget 2", "no multiget"),
            ("run --target h/s --timeout 0s", "more time"),
            ("run --target h/s --prepared --rate 9", "closed loop"),
            ("run --target h/s --prepared --cache-aside", "an answer"),
            ("run --target h/s --prepared --trace t", "generated"),
            ("run --target h/s --prepared --workload ycsb-f", "an answer"),
            ("run --target h/s --prepared --workload ycsb-d", "a new one"),
        ] {
            let message = plan(line).unwrap_err().to_string();
            assert!(message.contains(reason), "{line}: {message}");
        }
    }
}
