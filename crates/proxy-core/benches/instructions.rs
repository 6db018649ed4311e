//! Instructions of a proxy worker for gets that go the quick way, with and without a profile, counted under valgrind: what
//! `make bench-instructions PART=proxy` counts of the whole proxy, less sockets and event loop.
//!
//! `CARGO_PROFILE_BENCH_STRIP=false cargo bench -p evenkeel-proxy-core --bench instructions`: functions are found by their
//! symbols. Needs valgrind and `gungraun-runner` of the library's version. Each function executes [`REQUESTS`] requests, one after the other; divide by that.

#![expect(
    missing_docs,
    reason = "the benchmark macros make items that they do not document"
)]

use evenkeel_placement::config::{PlacementConfig, Server};
use evenkeel_profile::{Head, NO_RACK, RECORD_LEN, Sampling};
use evenkeel_proxy_core::{
    BackendId, ClientId, Output, PoolKind, PoolSettings, ProfileConfig, ProxyConfig, ProxyCore,
    ServerList,
};
use evenkeel_types::Instant;
use gungraun::{library_benchmark, library_benchmark_group, main};
use std::hint::black_box;
use std::sync::Arc;

/// Requests of each measured function, and those before, by which connections are made and memory is there.
const REQUESTS: usize = 2_000;
const BEFORE: usize = 200;

/// Which requests are recorded.
#[derive(Clone, Copy)]
enum Recorded {
    None,
    OneOf(u32),
}

/// A worker, its one client, and what that sends and is answered: a line, and of it what each server says.
struct Setting {
    core: ProxyCore,
    client: ClientId,
    now: u64,
    lines: Vec<Vec<u8>>,
}

/// 32 bytes.
fn key(number: usize) -> String {
    format!("key-{:028}", number * 7_919 % 100_003)
}

fn setting(keys: usize, recorded: Recorded) -> Setting {
    let placement = PlacementConfig {
        servers: vec![Server::new("a", 1), Server::new("a", 2)],
        ..PlacementConfig::default()
    };
    let list = ServerList::new(placement).expect("a list");
    let kind = PoolKind::Memcached(Arc::new(list));
    let mut config = ProxyConfig::of_pool(kind, PoolSettings::default());
    if let Recorded::OneOf(one_of) = recorded {
        let head = Head {
            record_len: RECORD_LEN,
            proxy: "p".into(),
            sampling: Sampling {
                seed: 0,
                pages: one_of,
                keys: one_of,
            },
            racks: Vec::new(),
            own_rack: None,
            pools: vec!["default".into()],
        };
        config.profile = Some(ProfileConfig {
            head: Arc::new(head),
            own_rack: NO_RACK,
        });
    }
    let mut core = ProxyCore::new(&Arc::new(config), 7);
    let client = core.client_opened();
    core.client_comes_from(client, b"10.0.0.9");
    let line = |number: usize| {
        let keys: Vec<String> = (0..keys).map(|nth| key(number * keys + nth)).collect();
        format!("get {}\r\n", keys.join(" ")).into_bytes()
    };
    let mut setting = Setting {
        core,
        client,
        now: 1_000_000_000,
        lines: (0..BEFORE).map(line).collect(),
    };
    run(&mut setting);
    setting.lines = (BEFORE..BEFORE + REQUESTS).map(line).collect();
    setting
}

/// Each line is sent, and its servers answer with 100 bytes for each key; an eighth of a millisecond passes, or every thirtieth time more than between pages.
fn run(setting: &mut Setting) {
    let lines = std::mem::take(&mut setting.lines);
    let mut asked: Vec<(BackendId, Vec<u8>)> = Vec::new();
    let mut said = Vec::new();
    for (nth, line) in lines.iter().enumerate() {
        let core = &mut setting.core;
        setting.now += if nth % 30 == 0 { 60_000_000 } else { 125_000 };
        let now = Instant(setting.now);
        core.begin_turn(now);
        assert_eq!(core.client_input(now, setting.client, line), line.len());
        loop {
            core.end_turn();
            while let Some(output) = core.poll_output() {
                match output {
                    Output::Connect { id, .. } => core.backend_connected(id, None),
                    Output::WriteBackend(id) => {
                        let bytes = core.backend_output(id).to_vec();
                        core.backend_wrote(id, bytes.len());
                        asked.push((id, bytes));
                    }
                    Output::WriteClient(id) => {
                        let len = core.client_output(id).len();
                        core.client_wrote(id, len);
                    }
                    Output::Profile(chunk) => drop(black_box(chunk)),
                    _ => {}
                }
            }
            let Some((id, bytes)) = asked.pop() else {
                break;
            };
            said.clear();
            answer(&bytes, &mut said);
            core.backend_input(now, id, &said);
        }
    }
}

fn answer(bytes: &[u8], said: &mut Vec<u8>) {
    for line in bytes.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(keys) = line.strip_prefix(b"get ") {
            for key in keys.split(|byte| *byte == b' ') {
                said.extend_from_slice(b"VALUE ");
                said.extend_from_slice(key);
                said.extend_from_slice(b" 0 100\r\n");
                said.resize(said.len() + 100, b'x');
                said.extend_from_slice(b"\r\n");
            }
            said.extend_from_slice(b"END\r\n");
        } else if line == b"version" {
            said.extend_from_slice(b"VERSION 1.6.18\r\n");
        }
    }
}

#[library_benchmark]
#[bench::without(setting(1, Recorded::None))]
#[bench::one_of_100(setting(1, Recorded::OneOf(100)))]
#[bench::full(setting(1, Recorded::OneOf(1)))]
fn get(mut setting: Setting) -> Setting {
    run(&mut setting);
    black_box(setting)
}

#[library_benchmark]
#[bench::without(setting(10, Recorded::None))]
#[bench::one_of_100(setting(10, Recorded::OneOf(100)))]
#[bench::full(setting(10, Recorded::OneOf(1)))]
fn multi_get_of_10(mut setting: Setting) -> Setting {
    run(&mut setting);
    black_box(setting)
}

library_benchmark_group!(name = gets, benchmarks = [get, multi_get_of_10]);

main!(library_benchmark_groups = gets);
