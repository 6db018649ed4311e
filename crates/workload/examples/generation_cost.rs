//! What it costs to draw a request: `cargo run --release -p evenkeel-workload --example generation_cost`.
//!
//! Prints nanoseconds an operation, the best and the median of several runs on one thread, for key
//! numbers alone and for whole requests with their key's bytes, size and time to live.

use evenkeel_workload::{Request, WorkloadSpec};
use std::hint::black_box;
use std::time::Instant;

const WORKLOADS: [&str; 9] = [
    "keys=100M popularity=uniform mix=mix(get=1)",
    "keys=100M popularity=zipf(0.99) mix=mix(get=1)",
    "keys=100M popularity=zipf(0.99)",
    "keys=1G popularity=zipf(0.99)",
    "keys=100M popularity=zipf(1.5)",
    "keys=100M popularity=hotspot(0.9, 0.1)",
    "ycsb-b keys=100M",
    "etc keys=100M",
    "meta(kvcache_reg)",
];

const OPERATIONS: u64 = 2_000_000;
const RUNS: usize = 7;

fn main() {
    println!(
        "{:>8} {:>8}   {:>8} {:>8}",
        "draw ns", "median", "next ns", "median"
    );
    for text in WORKLOADS {
        let spec: WorkloadSpec = text.parse().expect("a workload");
        let workload = spec.build().expect("a workload that can be built");
        let mut stream = workload.stream(0, 1);
        let mut ids = Vec::new();
        let draw = measured(|| {
            ids.clear();
            black_box(stream.draw(0, &mut ids));
            black_box(&ids);
        });
        let mut request = Request::default();
        let next = measured(|| {
            stream.next(0, &mut request);
            black_box(&request);
        });
        println!(
            "{:>8.1} {:>8.1}   {:>8.1} {:>8.1}   {text}",
            draw.0, draw.1, next.0, next.1
        );
    }
}

/// The best and the median of the runs, in nanoseconds an operation.
fn measured(mut operation: impl FnMut()) -> (f64, f64) {
    let mut runs: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            (0..OPERATIONS).for_each(|_| operation());
            start.elapsed().as_nanos() as f64 / OPERATIONS as f64
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    (runs[0], runs[RUNS / 2])
}
