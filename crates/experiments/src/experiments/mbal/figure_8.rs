//! Figure 8: what getting memory piece by piece costs while a cache fills.

use super::machine::memcached;
use crate::args::Mode;
use crate::experiments::Experiment;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use evenkeel_bench::beside::{First, fill, in_turns, two_sides, with_cpu_us};
use evenkeel_bench::median;
use evenkeel_bench::plot::{Axis, Curve, Plot};
use evenkeel_bench::process::Server;
use evenkeel_workload::{KeySizes, ValueSizes, WorkloadSpec};

pub(in crate::experiments) const FIGURE_8: Experiment = Experiment {
    name: "mbal-8",
    title: "The first fill of empty caches over the size of values: memory piece by piece and in advance",
    source: "MBal, Figure 8",
    modes: &[Mode::Real],
    run: figure_8,
};

const VALUE_LENS: [usize; 6] = [32, 64, 128, 256, 512, 1024];
const VALUE_LENS_FEW: [usize; 3] = [32, 256, 1024];

const KEY_LEN: usize = 10;

/// A server, fresh for every fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Evenkeel,
    /// Slabs from the system as they are needed.
    Memcached,
    /// All memory at the start (`-L`).
    MemcachedInAdvance,
}

const KINDS: [Kind; 3] = [Kind::Evenkeel, Kind::Memcached, Kind::MemcachedInAdvance];

impl Kind {
    fn label(self) -> &'static str {
        match self {
            Kind::Evenkeel => "Evenkeel",
            Kind::Memcached => "memcached",
            Kind::MemcachedInAdvance => "memcached, memory in advance",
        }
    }

    fn start(self, memory_mb: usize, core: &[usize]) -> anyhow::Result<Server> {
        let memory = memory_mb.to_string();
        match self {
            Kind::Evenkeel => Server::evenkeel_server(1, &["-m", &memory], core),
            Kind::Memcached => memcached(&["-t", "1", "-m", &memory], core),
            Kind::MemcachedInAdvance => memcached(&["-t", "1", "-m", &memory, "-L"], core),
        }
    }
}

/// What servers of a kind took for values of a length.
struct Filled {
    kind: Kind,
    value_len: usize,
    sets_per_second: f64,
    /// Processor time for a set, in microseconds, in each round.
    cpu_us: Vec<f64>,
}

fn figure_8(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let cores = two_sides()?;
    let rounds = run.by_scale([1, 3, 11, 25]);
    let memory_mb = run.by_scale([64, 64, 1_024, 4_096]);
    let value_lens = run.by_scale([
        &VALUE_LENS_FEW[..],
        &VALUE_LENS_FEW,
        &VALUE_LENS,
        &VALUE_LENS,
    ]);
    let mut filled = Vec::new();
    for &value_len in value_lens {
        filled.extend(fill_all(run, value_len, memory_mb, rounds, &cores)?);
    }
    let mut report = run.report(experiment);
    report.settings = vec![
        (
            "servers",
            "real processes of one worker at their own speed, a new one for each fill".into(),
        ),
        ("memory", format!("{memory_mb} MB, filled to a half")),
        ("keys", format!("{KEY_LEN} B")),
        (
            "rounds",
            format!("{rounds} for each server and size, in turns"),
        ),
    ];
    report.tables = vec![table(&filled)];
    report.claims = claims(&filled);
    report.plots = vec![plot(experiment, run, &filled)];
    report.note("The paper puts malloc for each item in the place of slabs, in memcached and in MBal. Stock memcached and Evenkeel \
         have one allocator each; what can be compared is memory that comes as it is needed with memory in advance, and \
         that shows only while a cache fills. Evenkeel takes its memory as it is needed.");
    report.note("Judged by the server's processor time. Ratios are medians over the rounds of those in the same round.");
    Ok(report)
}

/// Fills new servers of each kind in turns, all with the same keys.
fn fill_all(
    run: &Run,
    value_len: usize,
    memory_mb: usize,
    rounds: usize,
    cores: &(Vec<usize>, Vec<usize>),
) -> anyhow::Result<Vec<Filled>> {
    let (server_core, generator_cores) = cores;
    let sets = in_turns(&KINDS, 1..=rounds, First::Another, |round, kind| {
        run.progress.say(format!(
            "{}, values of {value_len} B, round {round}/{rounds}",
            kind.label()
        ));
        let server = kind.start(memory_mb, server_core)?;
        fill_half(&server, value_len, memory_mb, generator_cores, run.seed)
    })?;
    let kinds = KINDS.iter().zip(sets);
    Ok(kinds
        .map(|(&kind, rounds)| {
            let (per_second, cpu_us) = rounds.into_iter().unzip();
            Filled {
                kind,
                value_len,
                sets_per_second: median(per_second),
                cpu_us,
            }
        })
        .collect())
}

/// Bytes that an item takes besides its key and value, at most: memcached's header, and room that is left in a slab.
const ITEM_BYTES: usize = 96;

/// Fills half of a server's memory; sets a second, and the server's processor time for one, in microseconds.
fn fill_half(
    server: &Server,
    value_len: usize,
    memory_mb: usize,
    cores: &[usize],
    seed: u64,
) -> anyhow::Result<(f64, f64)> {
    let keys = (memory_mb << 20) / 2 / (ITEM_BYTES + KEY_LEN + value_len);
    let spec = WorkloadSpec {
        keys: Some(keys as u64),
        prefix: String::new(),
        key_sizes: KeySizes::fixed(KEY_LEN as u32)?,
        value_sizes: ValueSizes::fixed(value_len as u32)?,
        seed,
        ..WorkloadSpec::default()
    };
    let begun = std::time::Instant::now();
    let ((), cpu_us) = with_cpu_us([server], || fill(server, spec, 0, cores))?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok((keys as f64 / seconds, cpu_us / keys as f64))
}

/// Time of one kind by that of another in the same round, over all sizes of values: the median.
fn by(filled: &[Filled], one: Kind, other: Kind) -> f64 {
    let of = |kind: Kind| {
        let filled = filled.iter().filter(move |filled| filled.kind == kind);
        filled.flat_map(|filled| &filled.cpu_us)
    };
    median(
        of(one)
            .zip(of(other))
            .map(|(one, other)| one / other)
            .collect(),
    )
}

fn claims(filled: &[Filled]) -> Vec<Claim> {
    let piecewise = by(filled, Kind::MemcachedInAdvance, Kind::Memcached);
    let ours = by(filled, Kind::Memcached, Kind::Evenkeel);
    vec![
        Claim::new(
            "memcached: what it carries with memory piece by piece, by in advance",
            "0.92",
            format!("{piecewise:.2}"),
            Some(piecewise < 1.0),
        ),
        Claim::new(
            "sets that Evenkeel carries while it fills, by memcached",
            "more",
            format!("{ours:.2}"),
            Some(ours > 1.0),
        ),
    ]
}

fn table(filled: &[Filled]) -> Table {
    let columns = "|values, B|sets/s|server µs a set|least to most";
    let mut table = Table::new("Filling an empty server", columns);
    for filled in filled {
        let least = filled.cpu_us.iter().copied().fold(f64::INFINITY, f64::min);
        let most = filled.cpu_us.iter().copied().fold(0.0, f64::max);
        table.row([
            filled.kind.label().to_owned(),
            filled.value_len.to_string(),
            format!("{:.0}", filled.sets_per_second),
            format!("{:.3}", median(filled.cpu_us.clone())),
            format!("{least:.3} to {most:.3}"),
        ]);
    }
    table
}

fn plot(experiment: &Experiment, run: &Run, filled: &[Filled]) -> Plot {
    let points = |kind: Kind| {
        let of_kind = filled.iter().filter(|filled| filled.kind == kind);
        of_kind
            .map(|filled| (filled.value_len as f64, median(filled.cpu_us.clone())))
            .collect()
    };
    Plot {
        name: run.plot_name(experiment),
        title: experiment.title.into(),
        x: Axis::log("bytes of a value"),
        y: Axis::linear("server µs a set"),
        curves: KINDS
            .iter()
            .map(|&kind| Curve::new(kind.label(), points(kind)))
            .collect(),
    }
}
