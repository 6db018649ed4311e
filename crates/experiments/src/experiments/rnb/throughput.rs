//! Replicate and Bundle on real servers: how many multi-gets a second copies bring.
//!
//! The `rnb-…` experiments before this one count transactions, and turn them into work by what a transaction and an item cost. Here are memcacheds
//! of which each transaction and each item takes this long, and proxies that keep copies; what is found is the highest rate at which
//! the 99th percentile stays within fifteen times the time for one key, as in the experiments with hot keys. What copies cost is all in it:
//! covers that are not perfect, copies that are not there, and those that writes delete.

use super::bundles::{Items, of_all_friends, of_uniform};
use super::judged::{Held, Judge, fill, warm};
use super::slowed::{KEY_TIME, LINE_TIME, Seen, Size, SlowedFleet};
use super::sources::{SOURCES, Source as GraphFile};
use super::{COST, Experiment};
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use evenkeel_bench::plot::{Axis, Curve, Plot};
use evenkeel_bench::{LoadPlan, Objective, Percentile, Source};
use evenkeel_workload::{
    Graph, GraphSource, KeySizes, Mix, MultiGet, Popularity, ValueSizes, WorkloadSpec,
};
use std::sync::Arc;
use std::time::Duration;

pub(in crate::experiments) const THROUGHPUT: Experiment = Experiment {
    name: "rnb-throughput",
    title: "Multi-gets a second with copies, of servers whose transactions cost something",
    source: "ours",
    modes: &[Mode::Real],
    run,
};

/// The network whose friends are asked for.
const NETWORK: &GraphFile = &SOURCES[0];

/// Lengths of keys and of values, in bytes.
const KEY_LEN: u32 = 16;
const VALUE_LEN: u32 = 100;

/// Uniform items of a wide multi-get.
const WIDE: u64 = 50;

/// The objective, by the time for one key.
const TIMES: u32 = 15;

/// A search begins with this part of what servers can do at most by the model.
const START: f64 = 0.55;

/// What copies bring is to be this much of what the cost of transactions and items says.
const OF_MODEL: f64 = 0.9;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Keys {
    Friends,
    Uniform(u64),
}

/// A load.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Load {
    keys: Keys,
    /// Part of the requests that are sets.
    writes: f64,
}

const FRIENDS: Load = Load {
    keys: Keys::Friends,
    writes: 0.01,
};
const UNIFORM: Load = Load {
    keys: Keys::Uniform(WIDE),
    writes: 0.01,
};
const WRITTEN: Load = Load {
    keys: Keys::Uniform(WIDE),
    writes: 0.3,
};
const SINGLE: Load = Load {
    keys: Keys::Uniform(1),
    writes: 0.01,
};

/// Servers and proxies with what is compared at them: numbers of copies, the plain servers first, and loads. Those that are written to most come
/// last: their writes leave few copies.
#[derive(Clone, Copy, Debug)]
struct Ground {
    servers: usize,
    proxies: usize,
    copies: &'static [usize],
    loads: &'static [Load],
}

const GROUNDS: [Ground; 3] = [
    Ground {
        servers: 16,
        proxies: 1,
        copies: &[1, 2, 4],
        loads: &[FRIENDS, UNIFORM, SINGLE, WRITTEN],
    },
    Ground {
        servers: 8,
        proxies: 1,
        copies: &[1, 4],
        loads: &[UNIFORM],
    },
    Ground {
        servers: 16,
        proxies: 3,
        copies: &[1, 4],
        loads: &[UNIFORM],
    },
];

impl Load {
    fn name(&self) -> String {
        let writes = self.writes * 100.0;
        match self.keys {
            Keys::Friends => format!("friends of users of {}, {writes} % writes", NETWORK.name),
            Keys::Uniform(1) => format!("single gets, {writes} % writes"),
            Keys::Uniform(count) => format!("gets of {count} uniform keys, {writes} % writes"),
        }
    }

    fn workload(&self, graph: &Arc<Graph>, seed: u64) -> anyhow::Result<WorkloadSpec> {
        Ok(WorkloadSpec {
            keys: Some(graph.users()),
            popularity: Popularity::Uniform,
            mix: Mix::gets(1.0 - self.writes)?,
            multiget: match self.keys {
                Keys::Friends => MultiGet::Friends(GraphSource::Loaded(Arc::clone(graph))),
                Keys::Uniform(count) => MultiGet::Keys(count),
            },
            prefix: "user:".into(),
            key_sizes: KeySizes::fixed(KEY_LEN)?,
            value_sizes: ValueSizes::fixed(VALUE_LEN)?,
            seed,
            ..WorkloadSpec::default()
        })
    }

    /// Keys of a multi-get, on average.
    fn mean_keys(&self, graph: &Graph) -> f64 {
        match self.keys {
            Keys::Friends => graph.edges() as f64 / graph.readers().len() as f64,
            Keys::Uniform(count) => count as f64,
        }
    }

    /// Transactions of a multi-get by the code that chooses, all copies there.
    fn model_transactions(&self, items: &Items, graph: &Graph, copies: usize, seed: u64) -> f64 {
        const DRAWN: u32 = 5_000;
        match self.keys {
            Keys::Friends => {
                let tally = of_all_friends(items, graph, copies);
                tally.tpr() * tally.requests as f64 / graph.readers().len() as f64
            }
            Keys::Uniform(count) => {
                let count = count as usize;
                of_uniform(items, seed, DRAWN, (count, count), copies).tpr()
            }
        }
    }
}

/// A row of a table: what a fleet with this many copies did under a load.
#[derive(Clone, Debug)]
struct Row {
    copies: usize,
    model_transactions: f64,
    /// `None` where no rate held.
    held: Option<Held>,
}

impl Row {
    fn requests_per_second(&self) -> f64 {
        let held = self.held.as_ref();
        held.map_or(0.0, |held| held.requests_per_second)
    }
}

fn run(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let mut report = run.report(experiment);
    let graph = Arc::new(NETWORK.load(run, &mut report.notes)?);
    let service = LINE_TIME + KEY_TIME;
    let judge = Judge {
        objective: Objective {
            percentile: Percentile::P99,
            within: TIMES * service,
        },
        duration: Duration::from_millis(run.by_scale([200, 2_000, 5_000, 10_000])),
    };
    report.settings = vec![
        ("time for a request line", format!("{LINE_TIME:?}")),
        ("for each key in it", format!("{KEY_TIME:?}")),
        (
            "objective",
            format!("p99 within {:?}", judge.objective.within),
        ),
        (
            "items",
            format!("{} of {KEY_LEN} + {VALUE_LEN} B", graph.users()),
        ),
        ("trials", format!("{:?}", judge.duration)),
    ];
    let mut curves = Vec::new();
    for ground in &GROUNDS {
        let rows = measure(run, ground, &graph, judge)?;
        for (load, rows) in ground.loads.iter().zip(rows) {
            let proxies = match ground.proxies {
                1 => "1 proxy".to_owned(),
                proxies => format!("{proxies} proxies"),
            };
            let title = format!("{} servers, {proxies}, {}", ground.servers, load.name());
            let mean_keys = load.mean_keys(&graph);
            report.claims.push(claim(&title, load, mean_keys, &rows));
            report.tables.push(table(&title, judge, &rows));
            let points = rows
                .iter()
                .map(|row| (row.copies as f64, row.requests_per_second()));
            curves.push(Curve::new(title, points.collect()));
        }
    }
    report.plots.push(Plot {
        name: run.plot_name(experiment),
        title: experiment.title.into(),
        x: Axis::linear("copies"),
        y: Axis::log("requests/s"),
        curves,
    });
    Ok(report)
}

/// What all loads of a ground find, by numbers of copies.
fn measure(
    run: &Run,
    ground: &Ground,
    graph: &Arc<Graph>,
    judge: Judge,
) -> anyhow::Result<Vec<Vec<Row>>> {
    let &Ground {
        servers, proxies, ..
    } = ground;
    let most = ground.copies.iter().copied().max().unwrap_or(1);
    let items = Items::new(graph.users() as u32, servers as u32, most)?;
    let mut rows = vec![Vec::<Row>::new(); ground.loads.len()];
    for &copies in ground.copies {
        let say = |what: &str| {
            let text = format!("{servers} servers, {proxies} proxies, {copies} copies: {what}");
            run.progress.say(text);
        };
        say("starting");
        let fleet = SlowedFleet::start(Size {
            servers,
            proxies,
            copies,
        })?;
        fill(&fleet, &FRIENDS.workload(graph, run.seed)?)?;
        for (load, rows) in ground.loads.iter().zip(&mut rows) {
            say(&load.name());
            let spec = load.workload(graph, run.seed)?;
            // A single get is asked at home.
            if copies > 1 && load.keys != SINGLE.keys {
                warm(&fleet, &spec, load.mean_keys(graph))?;
            }
            let plan = LoadPlan::new(fleet.filler(), Source::Generated(spec));
            let model_transactions = load.model_transactions(&items, graph, copies, run.seed);
            let start = START * capacity(ground, model_transactions, load.mean_keys(graph));
            let held = judge.highest(&fleet, &plan, start)?;
            rows.push(Row {
                copies,
                model_transactions,
                held,
            });
        }
    }
    Ok(rows)
}

/// What a multi-get takes all servers together.
fn work(lines: f64, keys: f64) -> Duration {
    LINE_TIME.mul_f64(lines) + KEY_TIME.mul_f64(keys)
}

/// Multi-gets a second that keep all servers busy.
fn capacity(ground: &Ground, transactions: f64, keys: f64) -> f64 {
    ground.servers as f64 / work(transactions, keys).as_secs_f64()
}

fn table(title: &str, judge: Judge, rows: &[Row]) -> Table {
    let mut table = Table::new(
        title,
        "copies|requests/s|by those without|p99 ms|servers that a get asks: by the model|by the proxies|request lines of a request, by the relays|copies there|servers busy|the busiest",
    );
    let plain = rows.first().map_or(0.0, Row::requests_per_second);
    for row in rows {
        let model = format!("{:.2}", row.model_transactions);
        let Some(held) = &row.held else {
            let mut cells = vec![row.copies.to_string(), "0".to_owned()];
            cells.resize(table.columns.len(), "-".to_owned());
            table.row(cells);
            continue;
        };
        let &Seen {
            ref asked,
            multi_gets,
            transactions,
            copies_asked,
            copies_hit,
        } = &held.seen;
        let lines = asked.iter().map(|asked| asked.lines).sum();
        let busy = asked.iter().map(|asked| {
            let takes = work(asked.lines as f64, asked.keys as f64);
            takes.div_duration_f64(judge.duration)
        });
        let busiest = busy.clone().fold(0.0, f64::max);
        let mean = busy.sum::<f64>() / asked.len() as f64;
        table.row([
            row.copies.to_string(),
            format!("{:.0}", held.requests_per_second),
            format!("{:.2}", held.requests_per_second / plain),
            format!("{:.1}", held.latency.latency_us_p99 / 1e3),
            model,
            // One that is for a single key asks one server, and is not counted.
            ratio(
                transactions + held.gets.saturating_sub(multi_gets),
                held.gets,
            ),
            ratio(lines, held.requests),
            percent(copies_hit, copies_asked),
            format!("{:.0} %", mean * 100.0),
            format!("{:.0} %", busiest * 100.0),
        ]);
    }
    table
}

fn ratio(of: u64, by: u64) -> String {
    match by {
        0 => "-".to_owned(),
        by => format!("{:.2}", of as f64 / by as f64),
    }
}

fn percent(of: u64, by: u64) -> String {
    match by {
        0 => "-".to_owned(),
        by => format!("{:.1} %", of as f64 * 100.0 / by as f64),
    }
}

/// What most copies bring, beside what the cost of transactions and items says where hardly anything is written.
fn claim(title: &str, load: &Load, mean_keys: f64, rows: &[Row]) -> Claim {
    let (Some(plain), Some(most)) = (rows.first(), rows.last()) else {
        unreachable!("a ground has numbers of copies");
    };
    let ours = most.requests_per_second() / plain.requests_per_second();
    let model =
        COST.of(plain.model_transactions, mean_keys) / COST.of(most.model_transactions, mean_keys);
    let is_judged = load.writes <= UNIFORM.writes;
    Claim::new(
        &format!(
            "{title}: requests/s with {} copies by those without",
            most.copies
        ),
        &match is_judged {
            true => format!("ours: at least {OF_MODEL} of the model's {model:.2}"),
            false => format!("the model's for gets alone: {model:.2}"),
        },
        format!("{ours:.2}"),
        is_judged.then_some(ours >= OF_MODEL * model),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Scale;
    use evenkeel_bench::Latency;
    use evenkeel_placement::cost::transactions;

    #[test]
    fn service_times_match_the_costs() {
        let ratio = LINE_TIME.as_secs_f64() / KEY_TIME.as_secs_f64();
        assert!((ratio - COST.transaction / COST.item).abs() < 1e-9);
    }

    /// Twin: the model's formula for plain servers. What is claimed holds of a fleet that does just what the costs say.
    #[test]
    fn copies_are_to_bring_what_transactions_and_items_cost_less() {
        let run = Run::silent(Scale::Quick, Mode::Real);
        let graph = NETWORK.load(&run, &mut Vec::new()).unwrap();
        let items = Items::new(graph.users() as u32, 16, 4).unwrap();
        for load in [FRIENDS, UNIFORM, WRITTEN, SINGLE] {
            let keys = load.mean_keys(&graph);
            let [plain, four] =
                [1, 4].map(|copies| load.model_transactions(&items, &graph, copies, run.seed));
            match load.keys {
                Keys::Uniform(count) => {
                    let exact = transactions(16, count as u32);
                    assert!((plain / exact - 1.0).abs() < 0.03, "{plain} of {exact}");
                    assert!(four < 0.5 * plain || count == 1);
                }
                Keys::Friends => assert!(four < 0.7 * plain, "{four} of {plain}"),
            }
            let verdicts = [0.8, 1.0].map(|part| {
                let row = |copies, model_transactions, requests_per_second| Row {
                    copies,
                    model_transactions,
                    held: Some(held(requests_per_second)),
                };
                let brings = work(plain, keys).div_duration_f64(work(four, keys));
                let rows = [row(1, plain, 1.0), row(4, four, part * brings)];
                claim("", &load, keys, &rows).holds
            });
            let judged = (load.writes < 0.1).then_some(false);
            assert_eq!(verdicts, [judged, judged.map(|no| !no)]);
        }
    }

    fn held(requests_per_second: f64) -> Held {
        Held {
            requests_per_second,
            latency: Latency::default(),
            requests: 0,
            gets: 0,
            failed: 0,
            seen: Seen {
                asked: Vec::new(),
                multi_gets: 0,
                transactions: 0,
                copies_asked: 0,
                copies_hit: 0,
            },
        }
    }
}
