//! Instructions of a worker for requests that have been received, counted under valgrind: what
//! `make bench-instructions` counts of the whole server, less sockets and event loop.
//!
//! `cargo bench -p evenkeel-server-core --bench instructions`. Needs valgrind and `gungraun-runner` of the
//! library's version. Each function executes [`REQUESTS`] requests (the multi-get: keys) in inputs
//! of as many as its name says; divide by that.

#![expect(
    missing_docs,
    reason = "the benchmark macros make items that they do not document"
)]

use evenkeel_server_core::{ConnectionId, Peer, WorkerConfig, WorkerCore};
use evenkeel_storage::{PoolConfig, SegmentPool};
use evenkeel_types::{Instant, Now};
use gungraun::{library_benchmark, library_benchmark_group, main};
use std::hint::black_box;

/// Requests, or keys, of each measured function.
const REQUESTS: usize = 1_600;
/// Keys that are there.
const ITEMS: usize = 20_000;
const NOW: Now = Now {
    monotonic: Instant(1_000_000_000),
    unix: 1_800_000_000,
};

/// A worker with its items and one connection, and what that sends, piece by piece.
type Setting = (WorkerCore, ConnectionId, Vec<Vec<u8>>);

/// 32 bytes.
fn key(number: usize) -> String {
    format!("key-{:028}", number * 7_919 % (2 * ITEMS))
}

fn set(number: usize) -> String {
    format!("set {} 0 0 100\r\n{:100}\r\n", key(number), "")
}

fn setting(inputs: Vec<Vec<u8>>) -> Setting {
    let pool = SegmentPool::new(PoolConfig {
        limit_bytes: 64 << 20,
        item_size_max: 1 << 20,
        cachelets_expected: 16,
    });
    let config = WorkerConfig::new(1, NOW, 0x5eed);
    let mut core = WorkerCore::new(config, &pool).expect("sound settings");
    let id = core.open(Peer::default());
    for number in 0..ITEMS {
        handle(&mut core, id, set(number).as_bytes());
    }
    (core, id, inputs)
}

/// This many requests in each input.
fn inputs(each: usize, request: impl Fn(usize) -> String) -> Vec<Vec<u8>> {
    let numbers: Vec<usize> = (0..REQUESTS).collect();
    let input = |numbers: &[usize]| numbers.iter().map(|number| request(*number)).collect();
    let made = numbers.chunks(each).map(input).map(String::into_bytes);
    made.collect()
}

fn gets(each: usize) -> Setting {
    setting(inputs(each, |number| format!("get {}\r\n", key(number))))
}

fn misses(each: usize) -> Setting {
    let missing = |number| format!("get {}\r\n", key(number + ITEMS));
    setting(inputs(each, missing))
}

fn meta_gets(each: usize) -> Setting {
    setting(inputs(each, |number| format!("mg {} v\r\n", key(number))))
}

fn multi_gets(each: usize) -> Setting {
    let numbers: Vec<usize> = (0..REQUESTS).collect();
    let line = |numbers: &[usize]| {
        let keys: Vec<String> = numbers.iter().map(|number| key(*number)).collect();
        format!("get {}\r\n", keys.join(" ")).into_bytes()
    };
    setting(numbers.chunks(each).map(line).collect())
}

fn sets(each: usize) -> Setting {
    setting(inputs(each, set))
}

fn handle(core: &mut WorkerCore, id: ConnectionId, input: &[u8]) {
    let progress = core.handle_input(NOW, id, input);
    assert_eq!(progress.consumed, input.len());
    let answers = core.session(id).expect("it is open").out.len();
    core.wrote(id, answers);
}

#[library_benchmark]
#[bench::get(gets(1))]
#[bench::get_16(gets(16))]
#[bench::miss_16(misses(16))]
#[bench::multi_get_100(multi_gets(100))]
#[bench::meta_get_16(meta_gets(16))]
#[bench::set(sets(1))]
#[bench::set_16(sets(16))]
fn requests((mut core, id, inputs): Setting) -> Setting {
    for input in &inputs {
        handle(&mut core, id, black_box(input));
    }
    // Given back, so that freeing them is not counted.
    (core, id, inputs)
}

library_benchmark_group!(name = worker; benchmarks = requests);
main!(library_benchmark_groups = worker);
