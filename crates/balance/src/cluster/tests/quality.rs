//! How even plans leave clusters of all kinds.

use super::*;
use evenkeel_testkit::seed;

/// What every worker can do.
const CAPACITY: f64 = 1000.0;
const WORKERS: u64 = 2;
const CACHELETS: u64 = 64;

/// Up to this utilization loads tell what is asked for. Above it workers are full, and what more is asked of one is not
/// seen: what counts is that all do what they can.
const SEEN_MAX: f64 = 0.95;

/// Clusters of 6 to 8 servers at 0 to 120 % of their capacity, of which half have a key with half of the load and a tenth two: what
/// replicas of those take away is spread over all workers, as phase 1 does. Plans are executed until there is none.
#[test]
fn after_all_phases_nobody_is_far_above_the_mean() {
    let mut random = SplitMix64::new(seed(0x5eed));
    let (mut gaps, mut served) = (Vec::new(), Vec::new());
    for _ in 0..1000 {
        let mut truth = Truth::draw(&mut random);
        let mut plans = 0;
        let config = |plans| ClusterConfig {
            finish: plans > 0,
            ..generous()
        };
        while let ClusterAnswer::Plan(plan) = answer(&truth.report(), &config(plans)) {
            truth.apply(&plan);
            plans += 1;
            assert!(plans <= 10, "plans have no end");
        }
        let used = truth.mean() / CAPACITY;
        if used > SEEN_MAX {
            served.push(truth.served());
        } else if plans > 0 {
            gaps.push(truth.gap());
        } else {
            // Nobody was overloaded, or all slept.
            assert!(truth.gap() <= TOLERANCE_MAX.max(BUSY_MIN - used), "{used}");
        }
    }
    gaps.sort_by(f64::total_cmp);
    served.sort_by(f64::total_cmp);
    let at = |part: f64| gaps[(part * (gaps.len() - 1) as f64) as usize];
    println!(
        "{} gaps: p50 {:.4}, p95 {:.4}, worst {:.4}",
        gaps.len(),
        at(0.5),
        at(0.95),
        at(1.0)
    );
    println!(
        "{} full: served at least {:.3}, median {:.3}",
        served.len(),
        served[0],
        served[served.len() / 2]
    );
    assert!(at(0.5) <= 0.02 && at(0.95) <= 0.03 && at(1.0) <= 0.35);
    assert!(served[0] >= 0.9);
}

/// What clients ask for.
struct Truth {
    servers: u64,
    /// Load of each cachelet, and its worker.
    cachelets: Vec<(f64, usize)>,
    /// What copies of hot keys add to each worker's load.
    copies: f64,
}

impl Truth {
    fn draw(random: &mut SplitMix64) -> Self {
        let servers = 6 + random.below(3);
        let workers = servers * WORKERS;
        let offered = 1.2 * random.unit() * CAPACITY * workers as f64;
        let spread = match random.below(10) {
            0 => 0.8,
            1..=5 => 0.5,
            _ => 0.0,
        };
        // Each worker has its own popularity, and so has each of its cachelets.
        let mut weights = Vec::new();
        for worker in 0..workers as usize {
            let popularity = 0.3 + random.unit();
            weights.extend((0..CACHELETS).map(|_| {
                let weight = popularity / random.unit().max(0.02).powf(0.7);
                (weight, worker)
            }));
        }
        let all: f64 = weights.iter().map(|cachelet| cachelet.0).sum();
        let own = (1.0 - spread) * offered;
        let load = |(weight, worker): (f64, usize)| (weight / all * own, worker);
        Truth {
            servers,
            cachelets: weights.into_iter().map(load).collect(),
            copies: spread * offered / workers as f64,
        }
    }

    fn loads(&self) -> Vec<f64> {
        let mut loads = vec![self.copies; (self.servers * WORKERS) as usize];
        for &(load, worker) in &self.cachelets {
            loads[worker] += load;
        }
        loads
    }

    fn mean(&self) -> f64 {
        mean(&self.loads())
    }

    /// (Most loaded worker - mean) by the capacity.
    fn gap(&self) -> f64 {
        let most = self.loads().into_iter().fold(0.0, f64::max);
        (most - self.mean()) / CAPACITY
    }

    /// What is served, by what could be.
    fn served(&self) -> f64 {
        let served = self.loads().into_iter().map(|load| load.min(CAPACITY));
        let workers = (self.servers * WORKERS) as f64;
        served.sum::<f64>() / (self.mean().min(CAPACITY) * workers)
    }

    /// What is seen of it: nobody serves more than he can.
    fn report(&self) -> ClusterReport {
        let loads = self.loads();
        let worker = |at: usize| {
            let part = (CAPACITY / loads[at]).min(1.0);
            let own = self.cachelets.iter().enumerate().filter(|it| it.1.1 == at);
            WorkerReport {
                load: loads[at] * part,
                busy: loads[at] * part / CAPACITY,
                replicates: false,
                cachelets: own
                    .map(|(number, &(load, _))| CacheletReport {
                        cachelet: CacheletNumber(number as u32),
                        load: load * part,
                        memory_bytes: MIB,
                        may_move: true,
                    })
                    .collect(),
            }
        };
        let server = |id: u64| ServerReport {
            server: ServerId(id as u16),
            accepts: true,
            memory_max_bytes: 1000 * MIB,
            workers: (0..WORKERS)
                .map(|w| worker((id * WORKERS + w) as usize))
                .collect(),
        };
        ClusterReport {
            servers: (0..self.servers).map(server).collect(),
        }
    }

    fn apply(&mut self, plan: &ClusterPlan) {
        for it in &plan.moves {
            let to = u64::from(it.to.server.0) * WORKERS + u64::from(it.to.worker);
            self.cachelets[it.cachelet.0 as usize].1 = to as usize;
        }
    }
}
