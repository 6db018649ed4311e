//! What it costs to place the keys of a request and to choose which copies are read:
//! `cargo run --profile dist -p evenkeel-placement --example cover_cost`.
//!
//! Prints microseconds of processor time for a request of random keys, the fastest of some rounds, and what the requests
//! of a round ask; `places` looks the places of all keys up, `cover` chooses.

use evenkeel_placement::copies::Copies;
use evenkeel_placement::cover::Cover;
use evenkeel_types::KeyHash;
use evenkeel_types::random::SplitMix64;

const ROUNDS: usize = 5;

/// Keys of a round, over all its requests.
const KEYS: usize = 2_000_000;

fn main() {
    println!(
        "{:>6} {:>8} {:>7} {:>10} {:>10} {:>13} {:>6}",
        "keys", "servers", "copies", "places µs", "cover µs", "transactions", "plain"
    );
    for (keys, servers, k) in [
        (10, 16, 4),
        (50, 16, 2),
        (50, 16, 4),
        (50, 16, 8),
        (50, 1_000, 4),
        (1_000, 16, 4),
        (1_000, 1_000, 4),
        (1_000, 10_000, 4),
        (10_000, 16, 4),
        (10_000, 1_000, 4),
        (10_000, 10_000, 4),
    ] {
        measure(keys, servers, k);
    }
}

fn measure(keys: usize, servers: usize, k: usize) {
    let members: Vec<(String, u32)> = (0..servers).map(|n| (format!("s{n}"), 1)).collect();
    let copies = Copies::new(&members);
    let requests = (KEYS / keys).max(1);
    let mut random = SplitMix64::new(1);
    let hashes: Vec<u64> = (0..requests * keys).map(|_| random.next_u64()).collect();
    let mut all = vec![0; hashes.len() * k];
    let mut cover = Cover::default();
    let (mut placing, mut covering) = (u64::MAX, u64::MAX);
    let (mut transactions, mut plain) = (0, 0);
    for _ in 0..ROUNDS {
        let begun = processor_ns();
        for (hash, places) in hashes.iter().zip(all.chunks_exact_mut(k)) {
            copies.places(KeyHash(*hash), (*hash % servers as u64) as usize, places);
        }
        let placed = processor_ns();
        (transactions, plain) = (0, 0);
        for (hashes, places) in hashes.chunks_exact(keys).zip(all.chunks_exact(keys * k)) {
            cover.clear();
            for (hash, places) in hashes.iter().zip(places.chunks_exact(k)) {
                cover.add(*hash, places);
            }
            cover.choose(copies.seeds(), usize::MAX);
            transactions += cover.transactions();
        }
        placing = placing.min(placed - begun);
        covering = covering.min(processor_ns() - placed);
    }
    for (hashes, places) in hashes.chunks_exact(keys).zip(all.chunks_exact(keys * k)) {
        cover.clear();
        for (hash, places) in hashes.iter().zip(places.chunks_exact(k)) {
            cover.add(*hash, &places[..1]);
        }
        cover.choose(copies.seeds(), usize::MAX);
        plain += cover.transactions();
    }
    let of_each = |sum: f64| sum / requests as f64;
    println!(
        "{keys:>6} {servers:>8} {k:>7} {:>10.2} {:>10.2} {:>13.2} {:>6.2}",
        of_each(placing as f64 / 1e3),
        of_each(covering as f64 / 1e3),
        of_each(transactions as f64),
        of_each(plain as f64),
    );
}

/// Processor time of this thread so far, in nanoseconds.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let first = text.split_whitespace().next();
    first.and_then(|ns| ns.parse().ok()).expect("a number")
}
