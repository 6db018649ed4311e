//! What is kept of the loads, beside a twin that keeps everything.

use super::*;
use evenkeel_balance::cachelet_load::{CacheletLoad, WorkerLoad};
use evenkeel_control::loads::LeftOut;
use evenkeel_control::times::Histogram;
use evenkeel_control::{LoadReport, Served};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::heat::{HeatColumn, Step};
use crate::history::History;
use crate::limits::{
    HEAT_CELLS_TOLD_MAX, HISTORY_CELLS_MAX, HISTORY_MINUTES, HISTORY_SECOND, HISTORY_SECONDS,
    HISTORY_WORKERS_MAX,
};
use crate::members::ServedView;

const CACHELETS: u16 = 6;

/// Loads of servers with these names: each worker of a random part of the cachelets, with a random load.
fn loads(random: &mut Xoshiro256PlusPlus, servers: u16) -> Vec<ServerLoad> {
    let mut left: Vec<u16> = (0..CACHELETS).collect();
    let mut worker = |number| {
        let mut worker = WorkerLoad {
            worker: number,
            replica_load: (random.next_u64() % 100) as f64,
            ..WorkerLoad::default()
        };
        for _ in 0..random.next_u64() % 3 {
            let Some(cachelet) = left.pop() else { break };
            let reads_per_s = (random.next_u64() % 1000) as f64;
            worker.load += reads_per_s;
            worker.cachelets.push(CacheletLoad {
                cachelet: CacheletId(cachelet),
                load: reads_per_s,
                reads_per_s,
                hits_per_s: reads_per_s / 2.0,
                writes_per_s: (random.next_u64() % 10) as f64,
                bytes_in_per_s: 3.0,
                bytes_out_per_s: 4.0,
                ..CacheletLoad::default()
            });
        }
        (worker, LeftOut::default())
    };
    let server = |n| ServerLoad {
        server: ServerId(n),
        age: Duration::ZERO,
        memory_limit_bytes: 1,
        workers: (0..2).map(&mut worker).collect(),
    };
    (0..servers).map(server).collect()
}

fn name(server: ServerId) -> &'static str {
    ["a", "b", "c"][usize::from(server.0)]
}

/// What was noted, without any bound.
#[derive(Default)]
struct Twin(Vec<(Now, Vec<ServerLoad>)>);

impl Twin {
    /// The mean load of a cachelet where it was told of, over some columns.
    fn mean(columns: &[(Now, Vec<ServerLoad>)], cachelet: u16) -> Option<f64> {
        let loads: Vec<f64> = (columns.iter().flat_map(|(_, loads)| loads))
            .flat_map(|server| &server.workers)
            .flat_map(|(worker, _)| &worker.cachelets)
            .filter(|load| load.cachelet == CacheletId(cachelet))
            .map(|load| load.load)
            .collect();
        (!loads.is_empty()).then(|| loads.iter().sum::<f64>() / loads.len() as f64)
    }

    fn served(columns: &[(Now, Vec<ServerLoad>)], row: &HeatWorker) -> Option<f64> {
        let loads: Vec<f64> = (columns.iter().flat_map(|(_, loads)| loads))
            .filter(|server| name(server.server) == row.server)
            .flat_map(|server| &server.workers)
            .filter(|(worker, _)| Some(worker.worker) == row.worker)
            .map(|(worker, _)| worker.load + worker.replica_load)
            .collect();
        (!loads.is_empty()).then(|| loads.iter().sum::<f64>() / loads.len() as f64)
    }
}

fn wanted(of: Measure, step: Step) -> WantedHeat {
    WantedHeat {
        of,
        step,
        columns: usize::MAX,
    }
}

/// Four-byte numbers are off by less than one in what is whole.
fn is_near(told: Option<u64>, exact: Option<f64>) -> bool {
    match (told, exact) {
        (Some(told), Some(exact)) => (told as f64 - exact).abs() <= 1.0,
        (None, None) => true,
        _ => false,
    }
}

fn check(
    view: &HeatView,
    column: &HeatColumn,
    columns: &[(Now, Vec<ServerLoad>)],
    what: &dyn Fn() -> String,
) {
    for cachelet in 0..CACHELETS {
        let told = column.cachelets[usize::from(cachelet)];
        assert!(
            is_near(told, Twin::mean(columns, cachelet)),
            "{}: cachelet {cachelet}",
            what()
        );
    }
    for (row, told) in view.workers.iter().zip(&column.workers) {
        assert!(
            is_near(*told, Twin::served(columns, row)),
            "{}: {row:?}",
            what()
        );
    }
}

#[test]
fn seconds_and_minutes_are_what_a_twin_makes_of_all_that_was_told() {
    for seed in 0..8 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut history, mut twin) = (History::default(), Twin::default());
        let mut now = Now {
            monotonic: Instant::from_millis(1),
            unix: 1_000,
        };
        let mut minutes = Vec::new();
        let mut began = (now.monotonic, 0);
        for _ in 0..500 {
            let step = HISTORY_SECOND.as_millis() as u64 + random.next_u64() % 300;
            now.monotonic = now.monotonic + Duration::from_millis(step);
            now.unix = (now.monotonic.since(Instant::from_millis(0))).as_secs() as u32;
            assert!(history.is_due(now.monotonic));
            let servers = (random.next_u64() % 4) as u16;
            let loads = loads(&mut random, servers);
            history.note(
                now,
                usize::from(CACHELETS),
                (&loads, ServedView::default()),
                name,
            );
            twin.0.push((now, loads));
            if twin.0.len() == 1 {
                began = (now.monotonic, 1);
            } else if now.monotonic.since(began.0) >= Duration::from_secs(60) {
                minutes.push(began.1..twin.0.len());
                began = (now.monotonic, twin.0.len());
            }
        }
        let seconds = HeatView::of(&history, now.monotonic, wanted(Measure::Load, Step::Second));
        assert_eq!(seconds.columns.len(), twin.0.len());
        for (column, noted) in seconds.columns.iter().zip(&twin.0) {
            assert_eq!(column.unix_s, noted.0.unix);
            let what = || format!("seed {seed}, second {}", column.unix_s);
            check(&seconds, column, std::slice::from_ref(noted), &what);
        }
        let told = HeatView::of(&history, now.monotonic, wanted(Measure::Load, Step::Minute));
        assert_eq!(
            (told.columns.len(), told.interval_ms),
            (minutes.len(), 60_000)
        );
        for (column, span) in told.columns.iter().zip(&minutes) {
            let what = || format!("seed {seed}, minute {span:?}");
            check(&told, column, &twin.0[span.clone()], &what);
        }
    }
}

#[test]
fn each_measure_of_a_worker_is_the_sum_of_its_cachelets_but_load_counts_replicas_too() {
    let cachelet = |id, reads_per_s| CacheletLoad {
        cachelet: CacheletId(id),
        load: 2.0 * reads_per_s,
        reads_per_s,
        hits_per_s: reads_per_s - 1.0,
        writes_per_s: 7.0,
        bytes_in_per_s: 100.0,
        bytes_out_per_s: 1_000.0,
        ..CacheletLoad::default()
    };
    let worker = WorkerLoad {
        worker: 1,
        load: 60.0,
        replica_load: 5.0,
        cachelets: vec![cachelet(0, 10.0), cachelet(2, 20.0)],
        ..WorkerLoad::default()
    };
    let load = ServerLoad {
        server: ServerId(2),
        age: Duration::ZERO,
        memory_limit_bytes: 1,
        workers: vec![(worker, LeftOut::default())],
    };
    let now = Now {
        monotonic: Instant::from_millis(9),
        unix: 77,
    };
    let mut history = History::default();
    history.note(now, 3, (&[load], ServedView::default()), name);
    let told = Measure::ALL.map(|of| {
        let view = HeatView::of(&history, now.monotonic, wanted(of, Step::Second));
        let column = &view.columns[0];
        assert_eq!((column.unix_s, column.reads, column.hits), (77, 30, 28));
        assert_eq!(column.owners, [Some(0), None, Some(0)]);
        let row = &view.workers[0];
        assert_eq!((&*row.server, row.worker), ("c", Some(1)));
        let told = Some(column.sum);
        assert_eq!((column.workers[0], column.mean as u64), (told, column.sum));
        (column.workers.clone(), column.cachelets.clone())
    });
    let of = |worker, first, third| (vec![Some(worker)], vec![Some(first), None, Some(third)]);
    let expected = [
        of(65, 20, 40),
        of(30, 10, 20),
        of(14, 7, 7),
        of(2_200, 1_100, 1_100),
    ];
    assert_eq!(told, expected);
}

#[test]
fn servers_have_the_rows_of_a_cluster_of_many_workers() {
    let worker = |number: usize, reads_per_s| WorkerLoad {
        worker: number as u16,
        load: reads_per_s,
        cachelets: vec![CacheletLoad {
            cachelet: CacheletId(number as u16),
            load: reads_per_s,
            reads_per_s,
            ..CacheletLoad::default()
        }],
        ..WorkerLoad::default()
    };
    let server = |id, workers: std::ops::Range<usize>| ServerLoad {
        server: ServerId(id),
        age: Duration::ZERO,
        memory_limit_bytes: 1,
        workers: workers
            .map(|n| (worker(n, 100.0 + n as f64), LeftOut::default()))
            .collect(),
    };
    let half = HISTORY_WORKERS_MAX / 2;
    let mut history = History::default();
    for second in 0..=61 {
        let now = Now {
            monotonic: Instant::from_millis(1_000 * second),
            unix: second as u32,
        };
        // One worker too many for the last half of it.
        let surplus = usize::from(second > 30);
        let loads = [
            server(0, 0..half),
            server(1, half..HISTORY_WORKERS_MAX + surplus),
        ];
        let cachelets = HISTORY_WORKERS_MAX + 1;
        history.note(now, cachelets, (&loads, ServedView::default()), name);
    }
    let now = Instant::from_millis(62_000);
    let last = |step| {
        let columns = 1;
        let of = Measure::Reads;
        HeatView::of(&history, now, WantedHeat { of, step, columns })
    };
    let second = last(Step::Second);
    let rows: Vec<_> = (second.workers.iter())
        .map(|row| (&*row.server, row.worker))
        .collect();
    assert_eq!(rows, [("a", None), ("b", None)]);
    // Of each server the worker with most, of all of them the sum and the mean.
    let column = &second.columns[0];
    let (half, all) = (half as u64, HISTORY_WORKERS_MAX as u64);
    assert_eq!(column.workers, [Some(99 + half), Some(100 + all)]);
    let sum = (all + 1) * 100 + all * (all + 1) / 2;
    assert_eq!((column.sum, column.reads), (sum, sum));
    assert!((column.mean - sum as f64 / (all + 1) as f64).abs() < 1e-6);
    let owner = |cachelet: u64| column.owners[cachelet as usize];
    assert_eq!((owner(half - 1), owner(half)), (Some(0), Some(1)));
    // In a minute with both, each has its rows.
    let minute = last(Step::Minute);
    assert_eq!(minute.workers.len() as u64, all + 2);
    let told = minute.columns[0].workers.iter().flatten();
    assert_eq!(told.count() as u64, all + 2);
}

#[test]
fn both_rings_end_at_their_limits() {
    // What the limits and docs/page.md say of bytes.
    let cell = size_of::<Option<crate::history::Cell>>();
    assert_eq!((cell, size_of::<crate::history::Row>()), (24, 40));
    assert!(HISTORY_CELLS_MAX * cell <= 32 << 20);
    let mut history = History::default();
    let note = |history: &mut History, seconds: u64, cachelets: usize| {
        let now = Now {
            monotonic: Instant::from_millis(1_000 * seconds),
            unix: seconds as u32,
        };
        history.note(now, cachelets, (&[], ServedView::default()), name);
    };
    let few = HISTORY_CELLS_MAX / HISTORY_SECONDS;
    let day = 60 * HISTORY_MINUTES as u64;
    for second in 0..day + 600 {
        note(&mut history, second, if second < day { 1 } else { few });
    }
    let (seconds, minutes) = (history.seconds.columns(), history.minutes.columns());
    assert_eq!(seconds.len(), HISTORY_SECONDS);
    assert_eq!(minutes.len(), HISTORY_MINUTES);
    assert_eq!(minutes.back().expect("some").unix_s, day as u32 + 540);

    // With the most cachelets that a map may have: some seconds, and an answer that a client reads.
    let most = evenkeel_types::map::CACHELETS_MAX;
    for second in 0..400 {
        note(&mut history, day + 600 + second, most);
    }
    assert_eq!(history.seconds.columns().len(), HISTORY_CELLS_MAX / most);
    let now = Instant::from_millis(1_000 * (day + 1_000));
    let told = HeatView::of(&history, now, wanted(Measure::Load, Step::Second));
    assert_eq!(told.columns.len(), HEAT_CELLS_TOLD_MAX / most);
    assert_eq!(told.columns.last().expect("some").unix_s, day as u32 + 999);
}

#[test]
fn a_server_keeps_its_name_in_columns_that_it_outlives_its_id_in() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut history = History::default();
    let now = |second: u64| Now {
        monotonic: Instant::from_millis(1_000 * second),
        unix: 0,
    };
    let loads = loads(&mut random, 1);
    history.note(now(1), 1, (&loads, ServedView::default()), |_| "old");
    history.note(now(2), 1, (&loads, ServedView::default()), |_| "new");
    let view = HeatView::of(
        &history,
        now(2).monotonic,
        wanted(Measure::Load, Step::Second),
    );
    let names: Vec<&str> = view.workers.iter().map(|it| &*it.server).collect();
    assert_eq!(names, ["new", "new", "old", "old"]);
    assert!(view.columns[0].workers[..2].iter().all(Option::is_none));
}

#[test]
fn a_second_has_what_all_proxies_told_in_it_and_a_minute_its_slowest_second() {
    let mut world = World::new(1);
    let told = |name: &str, times: &[(u8, u64)], shed| Heartbeat {
        load: LoadReport {
            served: Some(Served {
                times: times.to_vec(),
                shed,
            }),
            ..LoadReport::default()
        },
        ..proxy(name)
    };
    let wanted = |step| wanted(Measure::Load, step);
    // The first column.
    world.sleep(1000);
    for second in 0..=60 {
        // Told twice in a second, by the one of two that is slow once in a minute.
        let slow = if second == 7 { 40 } else { 2 };
        world.send(&told("a", &[(1, 90)], 0)).unwrap();
        world.send(&told("b", &[(slow, 3)], 4)).unwrap();
        world.send(&told("b", &[(slow, 2)], 6)).unwrap();
        world.sleep(1000);
        let now = world.now.monotonic;
        let heat = world.core.heat(now, wanted(Step::Second));
        let served = heat.columns.last().expect("a second is over").served;
        let expected = Histogram::of_counted(&[(slow, 1)]).quantile_us(1.0);
        assert_eq!((served.p50_us, served.p99_us), (Some(1), Some(expected)));
        let proxies = world.core.proxies(now).proxies;
        let p50 = [&proxies[0], &proxies[1]].map(|it| it.served.p50_us);
        assert_eq!(p50, [Some(1), Some(expected)]);
        assert!((served.shed_per_s - proxies[1].served.shed_per_s).abs() < 1e-9);
    }
    let now = world.now.monotonic;
    let minute = world.core.heat(now, wanted(Step::Minute)).columns[0].served;
    let slowest = Histogram::of_counted(&[(40, 1)]).quantile_us(1.0);
    assert_eq!((minute.p50_us, minute.p99_us), (Some(1), Some(slowest)));
    assert!((9.0..=10.0).contains(&minute.shed_per_s), "{minute:?}");
}
