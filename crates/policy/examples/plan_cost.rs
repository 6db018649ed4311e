//! What plans of migration cost to make, and what they bring: the planners compared on made-up clusters.
//!
//! `cargo run --release -p evenkeel-policy --example plan_cost`
//!
//! The first table times plans of phase 2. The second times one plan for 1,000 servers with 16 workers of 16 cachelets
//! each. The others let each planner look after a smaller cluster for 100 intervals, in which a hot spot moves.
//! Everything follows from the seeds in the text, except for the times.

use std::time::Instant;

use evenkeel_policy::migration::cluster::{
    BoundedLoad, CacheletNumber, CacheletReport, ClusterAnswer, ClusterConfig, ClusterPlan,
    ClusterReport, Mbal, Planner, ServerReport, Slicer, Spread, Step, WorkerReport, plan,
};
use evenkeel_policy::migration::local::{
    Effort, HostedCachelet, LocalAnswer, LocalConfig, LocalInput, LocalLimits, LocalPlanner,
};
use evenkeel_policy::migration::solver::WorkLimit;
use evenkeel_policy::migration::{deviation, mean};
use evenkeel_types::{CacheletId, KeyHash, ServerId, WorkerRef};

/// Mean load of a worker.
const LOAD_MEAN: f64 = 50_000.0;

/// Mean size of a cachelet.
const BYTES_MEAN: f64 = (64 << 20) as f64;

/// Virtual nodes of a cachelet at the start.
const VIRTUAL_NODES: u32 = 16;

/// A number from 0 to 1 that follows from what it is for.
fn unit(purpose: &str, numbers: [usize; 2]) -> f64 {
    let hash = KeyHash::of(format!("{purpose} {numbers:?}").as_bytes());
    (hash.0 >> 11) as f64 / (1u64 << 53) as f64
}

/// A cachelet, or what became of one.
#[derive(Clone)]
struct Piece {
    number: CacheletNumber,
    /// The cachelets of the start that it has a part of, each with that part of its load and bytes.
    origins: Vec<(usize, f64)>,
    virtual_nodes: u32,
    owner: WorkerRef,
    /// The interval in which it last moved, and may not move again for two.
    moved_in: usize,
}

/// A made-up cluster.
struct World {
    servers: usize,
    workers: usize,
    /// Loads of the cachelets at the start, without a hot spot.
    loads: Vec<f64>,
    bytes: Vec<f64>,
    pieces: Vec<Piece>,
    numbers: u32,
}

impl World {
    /// Cachelets by turns at each worker. Their loads are Zipf's, in a random order.
    fn new(servers: usize, workers: usize, cachelets: usize, zipf: f64) -> Self {
        let count = servers * workers * cachelets;
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|&a, &b| unit("rank", [a, 0]).total_cmp(&unit("rank", [b, 0])));
        let mut loads = vec![0.0; count];
        for (rank, &cachelet) in order.iter().enumerate() {
            loads[cachelet] = ((rank + 1) as f64).powf(-zipf);
        }
        let scale = LOAD_MEAN * (servers * workers) as f64 / loads.iter().sum::<f64>();
        loads.iter_mut().for_each(|load| *load *= scale);
        let pieces = (0..count).map(|origin| Piece {
            number: CacheletNumber(origin as u32),
            origins: vec![(origin, 1.0)],
            virtual_nodes: VIRTUAL_NODES,
            owner: WorkerRef {
                server: ServerId((origin % servers) as u16),
                worker: (origin / servers % workers) as u16,
            },
            moved_in: 0,
        });
        World {
            servers,
            workers,
            bytes: (0..count)
                .map(|c| BYTES_MEAN * (0.5 + unit("bytes", [c, 0])))
                .collect(),
            pieces: pieces.collect(),
            numbers: count as u32,
            loads,
        }
    }

    /// Load of a piece in an interval. Each ten intervals another twentieth of the cachelets, side by side, is asked
    /// for four times as much.
    fn load(&self, piece: &Piece, interval: usize) -> f64 {
        let count = self.loads.len();
        let first = (unit("hot spot", [interval / 10, 0]) * count as f64) as usize;
        let load = |&(origin, part): &(usize, f64)| {
            let is_hot = (origin + count - first) % count < count / 20;
            self.loads[origin] * part * if is_hot { 4.0 } else { 1.0 }
        };
        piece.origins.iter().map(load).sum()
    }

    fn bytes(&self, piece: &Piece) -> u64 {
        let bytes = |&(origin, part): &(usize, f64)| self.bytes[origin] * part;
        piece.origins.iter().map(bytes).sum::<f64>() as u64
    }

    /// What the coordinator hears: loads that waver by a twentieth.
    fn report(&self, interval: usize) -> ClusterReport {
        let cachelets = self.loads.len() as f64 / (self.servers * self.workers) as f64;
        let memory_max = 1.5 * BYTES_MEAN * cachelets * self.workers as f64;
        let idle = WorkerReport {
            load: 0.0,
            busy: 0.6,
            cachelets: Vec::new(),
        };
        let mut servers: Vec<ServerReport> = (0..self.servers)
            .map(|server| ServerReport {
                server: ServerId(server as u16),
                accepts: true,
                memory_max_bytes: memory_max as u64,
                workers: vec![idle.clone(); self.workers],
            })
            .collect();
        for piece in &self.pieces {
            let noise = 0.95 + 0.1 * unit("noise", [piece.number.0 as usize, interval]);
            let load = self.load(piece, interval) * noise;
            let server = &mut servers[usize::from(piece.owner.server.0)];
            let worker = &mut server.workers[usize::from(piece.owner.worker)];
            worker.load += load;
            worker.cachelets.push(CacheletReport {
                cachelet: piece.number,
                load,
                memory_bytes: self.bytes(piece),
                virtual_nodes: piece.virtual_nodes,
                may_move: piece.moved_in == 0 || interval >= piece.moved_in + 2,
            });
        }
        ClusterReport { servers }
    }

    /// True loads of the workers.
    fn worker_loads(&self, interval: usize) -> Vec<f64> {
        let mut loads = vec![0.0; self.servers * self.workers];
        for piece in &self.pieces {
            let server = usize::from(piece.owner.server.0);
            loads[server * self.workers + usize::from(piece.owner.worker)] +=
                self.load(piece, interval);
        }
        loads
    }

    fn carry_out(&mut self, plan: &ClusterPlan, interval: usize) {
        for step in &plan.steps {
            match *step {
                Step::Move { cachelet, to, .. } => {
                    let piece = self.piece(cachelet);
                    (piece.owner, piece.moved_in) = (to, interval);
                }
                Step::Split { cachelet, .. } => {
                    let number = CacheletNumber(self.numbers);
                    self.numbers += 1;
                    let piece = self.piece(cachelet);
                    let half = piece.virtual_nodes / 2;
                    let part = f64::from(half) / f64::from(piece.virtual_nodes);
                    let mut other = Piece {
                        number,
                        virtual_nodes: half,
                        ..piece.clone()
                    };
                    piece.virtual_nodes -= half;
                    piece.origins.iter_mut().for_each(|o| o.1 *= 1.0 - part);
                    other.origins.iter_mut().for_each(|o| o.1 *= part);
                    self.pieces.push(other);
                }
                Step::Merge { cachelets, .. } => {
                    let merged = self.piece(cachelets[1]).clone();
                    self.pieces.retain(|piece| piece.number != merged.number);
                    let piece = self.piece(cachelets[0]);
                    piece.virtual_nodes += merged.virtual_nodes;
                    piece.origins.extend(merged.origins);
                }
            }
        }
    }

    fn piece(&mut self, number: CacheletNumber) -> &mut Piece {
        let mut pieces = self.pieces.iter_mut();
        let piece = pieces.find(|piece| piece.number == number);
        piece.expect("plans are about what is there")
    }
}

fn planners() -> [(&'static str, Box<dyn Planner>); 4] {
    let work = WorkLimit::default();
    [
        ("mbal", Box::new(Mbal::new(Effort::Fast, work))),
        (
            "mbal, programs",
            Box::new(Mbal::new(Effort::Thorough, work)),
        ),
        ("slicer", Box::new(Slicer)),
        ("bounded load", Box::new(BoundedLoad)),
    ]
}

/// Phase 2 on servers with skewed loads.
fn time_local() {
    println!("Plans of phase 2 for servers with 16 cachelets a worker, Zipf 0.5; means of 20\n");
    println!(
        "| workers | overloaded | search, us | nodes at most | programs, ms | slowest | deviation before, % of load | search | programs |"
    );
    println!("|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for (workers, hot) in [(4, 1), (8, 1), (16, 1), (8, 3), (16, 4), (32, 8)] {
        for nodes_max in [50, 200, 1000] {
            let mut row = [0.0; 6];
            for seed in 0..20 {
                let input = server(workers, hot, seed);
                let mean = mean(&input.loads);
                let limits = LocalLimits {
                    overloaded: 1.15 * mean,
                    permissible: 1.05 * mean,
                };
                let mut planner = LocalPlanner::new(LocalConfig {
                    work: WorkLimit {
                        nodes_max,
                        time_max: None,
                    },
                    ..LocalConfig::default()
                });
                let mut timed = |effort| {
                    let start = Instant::now();
                    let answer = planner.plan(&input, limits, effort);
                    let ms = start.elapsed().as_secs_f64() * 1000.0;
                    let after = match answer.expect("the input is sound") {
                        LocalAnswer::Plan(plan) => plan.after,
                        _ => input.loads.clone(),
                    };
                    (ms, part(&after))
                };
                let (search, programs) = (timed(Effort::Fast), timed(Effort::Thorough));
                row[0] += 1000.0 * search.0 / 20.0;
                row[1] += programs.0 / 20.0;
                row[2] = programs.0.max(row[2]);
                row[3] += part(&input.loads) / 20.0;
                row[4] += search.1 / 20.0;
                row[5] += programs.1 / 20.0;
            }
            println!(
                "| {workers} | {hot} | {:.0} | {nodes_max} | {:.0} | {:.0} | {:.1} | {:.1} | {:.1} |",
                row[0], row[1], row[2], row[3], row[4], row[5]
            );
        }
    }
    println!();
}

/// Deviation in hundredths of the load.
fn part(loads: &[f64]) -> f64 {
    100.0 * deviation(loads) / loads.iter().sum::<f64>()
}

/// A server of which so many workers have twice their load.
fn server(workers: usize, hot: usize, seed: usize) -> LocalInput {
    let cachelets = (0..workers * 16).map(|i| {
        let host = (i % workers) as u16;
        let rank = unit("rank of a cachelet", [seed, i]) * 256.0 + 1.0;
        HostedCachelet {
            cachelet: CacheletId(i as u16),
            home: host,
            host,
            load: 1000.0 * rank.powf(-0.5) * if i % workers < hot { 2.0 } else { 1.0 },
            memory_bytes: BYTES_MEAN as u64,
            moved_at: None,
        }
    });
    let cachelets: Vec<HostedCachelet> = cachelets.collect();
    let mut loads = vec![0.0; workers];
    for c in &cachelets {
        loads[usize::from(c.host)] += c.load;
    }
    LocalInput {
        now: Default::default(),
        loads,
        cachelets,
    }
}

fn time() {
    println!(
        "One plan for 1,000 servers x 16 workers x 16 cachelets, Zipf 0.5, a twentieth of them hot\n"
    );
    println!(
        "| planner | moves at most | ms | moves | bytes, % | deviation before, % of load | after |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let report = World::new(1000, 16, 16, 0.5).report(0);
    for moves_max in [ClusterConfig::default().moves_max, 20_000] {
        let config = ClusterConfig {
            moves_max,
            ..ClusterConfig::default()
        };
        for (name, mut planner) in planners() {
            let start = Instant::now();
            let answer = plan(&mut *planner, &report, &config).expect("the report is sound");
            let ms = start.elapsed().as_secs_f64() * 1000.0;
            let ClusterAnswer::Plan(plan) = answer else {
                panic!("{answer:?}");
            };
            let all: u64 = report.servers.iter().map(ServerReport::memory_bytes).sum();
            let part = |s: Spread| 100.0 * s.deviation / s.load_mean / 16_000.0;
            println!(
                "| {name} | {moves_max} | {ms:.0} | {} | {:.2} | {:.2} | {:.2} |",
                plan.moves(),
                100.0 * plan.bytes as f64 / all as f64,
                part(plan.before),
                part(plan.after),
            );
        }
    }
}

/// What a planner brought in 100 intervals.
#[derive(Default)]
struct Outcome {
    /// Sums over the intervals.
    max_ratio: f64,
    deviation_ratio: f64,
    even: usize,
    moves: usize,
    splits: usize,
    merges: usize,
    bytes: f64,
}

const INTERVALS: usize = 100;

fn look_after(mut world: World, planner: Option<&mut dyn Planner>) -> Outcome {
    let mut outcome = Outcome::default();
    let all: f64 = world.bytes.iter().sum();
    let mut planner = planner;
    let config = ClusterConfig::default();
    for interval in 1..=INTERVALS {
        if let Some(planner) = &mut planner {
            let report = world.report(interval);
            let answer = plan(&mut **planner, &report, &config).expect("the report is sound");
            if let ClusterAnswer::Plan(plan) = answer {
                outcome.moves += plan.moves();
                let is_split = |step: &&Step| matches!(step, Step::Split { .. });
                let splits = plan.steps.iter().filter(is_split).count();
                outcome.splits += splits;
                outcome.merges += plan.steps.len() - plan.moves() - splits;
                outcome.bytes += plan.bytes as f64 / all;
                world.carry_out(&plan, interval);
            }
        }
        let loads = world.worker_loads(interval);
        let mean = mean(&loads);
        let most = loads.iter().copied().fold(0.0, f64::max);
        outcome.max_ratio += most / mean / INTERVALS as f64;
        outcome.deviation_ratio += deviation(&loads) / mean / loads.len() as f64 / INTERVALS as f64;
        outcome.even += usize::from(most <= 1.2 * mean);
    }
    outcome
}

fn compare() {
    for (servers, zipf) in [(8, 0.4), (20, 0.4), (20, 0.6)] {
        println!(
            "\n{servers} servers x 4 workers x 16 cachelets, Zipf {zipf}, {INTERVALS} intervals; a twentieth of the\n\
             cachelets is four times as hot, another one each ten intervals\n"
        );
        println!(
            "| planner | max/mean | deviation, % of load | intervals within 1.2 | moves | splits | merges | bytes, % |"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|--:|");
        let show = |name: &str, o: &Outcome| {
            println!(
                "| {name} | {:.2} | {:.1} | {} | {} | {} | {} | {:.1} |",
                o.max_ratio,
                100.0 * o.deviation_ratio,
                o.even,
                o.moves,
                o.splits,
                o.merges,
                100.0 * o.bytes
            );
        };
        let world = || World::new(servers, 4, 16, zipf);
        show("none", &look_after(world(), None));
        for (name, mut planner) in planners() {
            show(name, &look_after(world(), Some(&mut *planner)));
        }
    }
}

fn main() {
    time_local();
    time();
    compare();
}
