//! Planners on made-up slots: what they move, what they leave, and what they refuse.

use super::*;
use evenkeel_placement::ring::{HASHES, Run};
use evenkeel_testkit::seed;
use evenkeel_types::random::SplitMix64;

/// A slot in which each grain carries by a density at its first hash, in requests of which all hit.
fn slot(ring: &Ring, density: impl Fn(u32) -> f64) -> SlotReport {
    let grains = ring.grains();
    let counts = grains.iter().map(|grain| {
        let load = density(grain.part.first) * grain.part.width() as f64 / HASHES as f64 * 1e6;
        GrainCounts {
            gets: load as u64,
            hits: load as u64,
            sets: 0,
            load,
        }
    });
    SlotReport {
        grains: counts.collect(),
        utilization: None,
    }
}

fn max_to_mean(loads: &[f64]) -> f64 {
    loads.iter().copied().fold(0.0, f64::max) / crate::mean(loads)
}

fn paper(alpha: f64, beta: f64) -> Paper {
    let cost = CostSettings {
        alpha,
        ..CostSettings::default()
    };
    Paper::new(PaperSettings { cost, beta }).unwrap()
}

/// The example under equation (3): of five servers, ci = 1 and cj = 0.5 move 0.01 (1 − 0.5) of a 20th of the ring. The paper prints
/// 1,073,741, which is half a hundredth of 2³²/20.
#[test]
fn the_paper_moves_what_its_example_says() {
    let ring = Ring::even(5, 4).unwrap();
    let original = ring.clone();
    let density = |hash: u32| match original.owner(hash) {
        3 => 1.0,
        1 => 0.5,
        _ => 0.75,
    };
    let report = slot(&ring, density);
    let plan = paper(0.0, 0.01).plan(&ring, &report).unwrap();
    let [planned] = &plan.moves[..] else {
        panic!("{plan:?}");
    };
    assert_eq!((planned.from, planned.to), (3, 1));
    assert!(
        planned.part.width().abs_diff(1_073_741) < 300,
        "{planned:?}"
    );
    let runs = ring.runs();
    let of = |run: &&Run| run.first == planned.part.first;
    let run = runs.iter().find(of).expect("its lower part");
    assert_eq!((run.owner, run.behind), (3, 1));
    let (before, after) = (report.loads(&ring), &plan.predicted);
    assert!((before[3] - after[3] - planned.load).abs() < 1e-6);
    assert!((after[1] - before[1] - planned.load).abs() < 1e-6);
}

#[test]
fn the_paper_comes_to_rest_and_evens_out_on_the_way() {
    let original = Ring::even(3, 2).unwrap();
    let mut ring = original.clone();
    let density = |hash: u32| if original.owner(hash) == 0 { 2.5 } else { 1.0 };
    let mut planner = paper(0.0, 0.05);
    let mut loads = Vec::new();
    for _ in 0..200 {
        let report = slot(&ring, density);
        loads = report.loads(&ring);
        let plan = planner.plan(&ring, &report).unwrap();
        assert!(plan.moves.len() <= 1);
        ring = ring.moved(&plan.to_moves()).unwrap();
    }
    assert!(max_to_mean(&loads) < 1.05, "{loads:?}");
    let even = slot(&original, |_| 1.0);
    let plan = paper(0.0, 1.0).plan(&original, &even).unwrap();
    let moved: u64 = plan.moves.iter().map(|of| of.part.width()).sum();
    assert!(moved < HASHES / 1_000, "all cost about the same");
}

/// In an adopted ring the two servers that differ most may not meet anywhere.
#[test]
fn the_paper_takes_the_adjacent_pair_that_differs_most() {
    // 0 then 1 then 2, and around: 2 can give to 1, 1 to 0, 0 to 2.
    let ring = Ring::even(3, 1).unwrap();
    let mut moves = Vec::new();
    for (at, run) in ring.runs().iter().enumerate() {
        let part = run.lower(run.width).unwrap();
        let to = (at / 2) as u16;
        moves.push(Move { part, to });
    }
    let ring = ring.moved(&moves).unwrap();
    let original = ring.clone();
    let density = move |hash: u32| [1.0, 2.0, 0.1][usize::from(original.owner(hash))];
    let report = slot(&ring, density);
    let plan = paper(0.0, 0.1).plan(&ring, &report).unwrap();
    let runs = ring.runs();
    let can = |from: u16, to: u16| {
        runs.iter()
            .any(|run| (run.owner, run.behind) == (from, to) && run.width > 0)
    };
    let [planned] = &plan.moves[..] else {
        panic!("{plan:?}");
    };
    assert!(can(planned.from, planned.to));
}

#[test]
fn impossible_numbers_are_refused_and_nothing_is_remembered() {
    let ring = Ring::even(3, 10).unwrap();
    let good = slot(&ring, |_| 1.0);
    let off = slot(&ring, |hash| if hash >> 31 == 0 { 5.0 } else { 1.0 });
    let refused = |change: &dyn Fn(&mut SlotReport)| {
        let mut bad = good.clone();
        change(&mut bad);
        let mut measured = Measured::default();
        let error = measured.plan(&ring, &bad).unwrap_err().to_string();
        let by_paper = paper(0.5, 0.01).plan(&ring, &bad).unwrap_err();
        assert_eq!(by_paper.to_string(), error);
        // Two good slots are wanted before something moves.
        assert!(measured.plan(&ring, &off).unwrap().moves.is_empty());
        error
    };
    assert_eq!(
        refused(&|r| r.grains[3].load = -1.0),
        "grain 3 has a load of -1"
    );
    assert_eq!(
        refused(&|r| r.grains[4].load = f64::NAN),
        "grain 4 has a load of NaN"
    );
    assert!(refused(&|r| r.grains[4].load = f64::INFINITY).ends_with("inf"));
    assert_eq!(
        refused(&|r| (r.grains[0].gets, r.grains[0].hits) = (1, 2)),
        "grain 0 has 2 hits of 1 gets"
    );
    assert!(refused(&|r| r.grains[1].sets = u64::MAX).contains("18446744073709551615 sets"));
    assert!(
        refused(&|r| {
            r.grains.pop();
        })
        .starts_with("counts of")
    );
    assert_eq!(
        refused(&|r| r.utilization = Some(f64::NAN)),
        "a utilization of NaN"
    );
    assert_eq!(
        refused(&|r| r.utilization = Some(0.0)),
        "a utilization of 0"
    );
    let beta = |beta| {
        let settings = PaperSettings {
            beta,
            ..PaperSettings::default()
        };
        Paper::new(settings).unwrap_err().to_string()
    };
    assert_eq!(beta(0.0), "beta is 0, not above 0 and at most 1");
    assert_eq!(beta(f64::NAN), "beta is NaN, not above 0 and at most 1");
}

#[test]
fn the_measured_planner_waits_for_a_second_slot_and_lets_rest_what_moved() {
    let original = Ring::even(4, 12).unwrap();
    let mut ring = original.clone();
    let density = |hash: u32| if original.owner(hash) == 0 { 3.0 } else { 1.0 };
    let mut planner = Measured::default();
    let mut moved: Vec<(u32, Part)> = Vec::new();
    for at in 0..20u32 {
        let report = slot(&ring, density);
        let plan = planner.plan(&ring, &report).unwrap();
        assert!(plan.moves.len() <= GRAINS_MAX);
        assert!(at % 2 == 1 || plan.moves.is_empty(), "slot {at}");
        let space: u64 = plan.moves.iter().map(|of| of.part.width()).sum();
        assert!(space as f64 <= SPACE_RATIO_MAX * HASHES as f64);
        for of in &plan.moves {
            let lately = moved
                .iter()
                .filter(|(then, _)| at - then < REST_SLOTS as u32);
            assert!(lately.into_iter().all(|(_, part)| !part.overlaps(&of.part)));
        }
        moved.extend(plan.moves.iter().map(|of| (at, of.part)));
        if at == 1 {
            assert!(
                plan.kept
                    .iter()
                    .any(|kept| (kept.server, kept.why) == (0, Hold::Limit))
            );
        }
        ring = ring.moved(&plan.to_moves()).unwrap();
    }
    assert!(max_to_mean(&slot(&ring, density).loads(&ring)) < 1.9);
    assert!(!moved.is_empty());
}

#[test]
fn a_grain_that_alone_is_more_than_the_gap_stays_and_is_told() {
    let ring = Ring::even(4, 12).unwrap();
    let mut report = slot(&ring, |_| 1.0);
    let grains = ring.grains();
    let hot = grains.iter().position(|grain| grain.owner == 2).unwrap();
    report.grains[hot].load = 2e6;
    let mut planner = Measured::default();
    planner.plan(&ring, &report).unwrap();
    let plan = planner.plan(&ring, &report).unwrap();
    assert!(plan.moves.iter().all(|of| of.part != grains[hot].part));
    let kept = plan.kept.iter().find(|kept| kept.server == 2).unwrap();
    assert_eq!(kept.heaviest, Some((grains[hot].part, 2e6)));
}

#[test]
fn what_is_tolerated_shrinks_with_the_headroom() {
    let ring = Ring::even(4, 12).unwrap();
    let original = ring.clone();
    let report = |utilization| SlotReport {
        utilization: Some(utilization),
        ..slot(
            &ring,
            |hash| if original.owner(hash) == 0 { 1.12 } else { 1.0 },
        )
    };
    let moves = |utilization| {
        let mut planner = Measured::default();
        planner.plan(&ring, &report(utilization)).unwrap();
        let plan = planner.plan(&ring, &report(utilization)).unwrap();
        plan.moves.len()
    };
    assert_eq!(moves(0.5), 0);
    assert!(moves(0.95) > 0);
}

#[test]
fn a_server_with_next_to_nothing_gets_something() {
    let ring = Ring::even(8, 21).unwrap();
    let original = ring.clone();
    let report = slot(
        &ring,
        |hash| if original.owner(hash) == 5 { 0.1 } else { 1.0 },
    );
    let mut planner = Measured::default();
    planner.plan(&ring, &report).unwrap();
    let plan = planner.plan(&ring, &report).unwrap();
    assert!(!plan.moves.is_empty());
    assert!(plan.moves.iter().all(|of| of.to == 5));
    assert!(plan.predicted[5] > report.loads(&ring)[5]);
}

/// Twin: the fewest moves of all that bring every server within what is permissible.
#[test]
fn few_grains_move() {
    let mut random = SplitMix64::new(seed(0xfe3));
    let (mut more, mut solved) = (0, 0);
    for _ in 0..200 {
        let ring = Ring::even(3, 2).unwrap();
        let grains = ring.grains();
        let mut report = slot(&ring, |_| 0.0);
        // Three grains of each server carry something.
        let mut loaded = Vec::new();
        for server in 0..3u16 {
            let own: Vec<usize> = (0..grains.len())
                .filter(|&g| grains[g].owner == server)
                .collect();
            for _ in 0..3 {
                let grain = own[random.below(own.len() as u64) as usize];
                report.grains[grain].load = 1.0 + random.below(9) as f64;
                loaded.push(grain);
            }
        }
        loaded.sort_unstable();
        loaded.dedup();
        let mut planner = Measured::default();
        planner.plan(&ring, &report).unwrap();
        let plan = planner.plan(&ring, &report).unwrap();
        let mean = crate::mean(&report.loads(&ring));
        let permissible = 0.025 * mean + 1e-9;
        let is_even = |loads: &[f64]| loads.iter().all(|load| (load - mean).abs() <= permissible);
        if plan.moves.is_empty() || !is_even(&plan.predicted) {
            continue;
        }
        let fewest = fewest(&report, &grains, &loaded, &is_even).expect("the plan is one");
        solved += 1;
        more += plan.moves.len() - fewest;
        assert!(
            plan.moves.len() <= fewest + 2,
            "{} {fewest}",
            plan.moves.len()
        );
    }
    assert!(solved >= 5, "{solved}");
    assert!(
        more * 2 <= solved,
        "{more} moves too many in {solved} plans"
    );
}

/// By trying all ways in which grains can be distributed to three servers.
fn fewest(
    report: &SlotReport,
    grains: &[evenkeel_placement::ring::Grain],
    loaded: &[usize],
    is_even: &impl Fn(&[f64]) -> bool,
) -> Option<usize> {
    let ways = 3usize.pow(loaded.len() as u32);
    let even = (0..ways).filter_map(|way| {
        let (mut rest, mut loads, mut moves) = (way, [0.0; 3], 0);
        for &grain in loaded {
            loads[rest % 3] += report.grains[grain].load;
            moves += usize::from(usize::from(grains[grain].owner) != rest % 3);
            rest /= 3;
        }
        is_even(&loads).then_some(moves)
    });
    even.min()
}

#[test]
fn plans_keep_their_laws_on_random_slots() {
    let mut random = SplitMix64::new(seed(0x1a35));
    for _ in 0..150 {
        let servers = 1 + random.below(9) as usize;
        let mut ring = Ring::even(servers, 1 + random.below(60) as usize).unwrap();
        let mut planners: [Box<dyn RingPlanner>; 2] = [
            Box::new(Measured::default()),
            Box::new(paper(random.unit(), random.unit())),
        ];
        let planner = &mut planners[random.below(2) as usize];
        for _ in 0..6 {
            let mut report = slot(&ring, |_| 0.0);
            for counts in &mut report.grains {
                counts.gets = random.below(100);
                counts.hits = random.below(counts.gets + 1);
                counts.sets = random.below(60);
                let is_hot = random.below(500) == 0;
                counts.load = (counts.gets + counts.sets) as f64 * if is_hot { 200.0 } else { 1.0 };
            }
            let plan = planner.plan(&ring, &report).unwrap();
            let (before, after) = (report.loads(&ring), &plan.predicted);
            let sum = |loads: &[f64]| loads.iter().sum::<f64>();
            assert!((sum(&before) - sum(after)).abs() < 1e-6 * sum(&before).max(1.0));
            let most = |loads: &[f64]| loads.iter().copied().fold(0.0, f64::max);
            for of in &plan.moves {
                assert_ne!(of.from, of.to);
                assert_eq!(ring.owner(of.part.first), of.from);
            }
            if plan.moves.len() > 1 {
                assert!(
                    most(after) <= most(&before) + 1e-6,
                    "the most loaded is not more so"
                );
            }
            ring = ring.moved(&plan.to_moves()).unwrap();
        }
    }
}

/// A plan for the largest ring: `cargo test --release -p evenkeel-balance largest_ring -- --ignored --nocapture` prints what it takes.
#[test]
#[ignore = "measures time"]
#[allow(
    clippy::disallowed_methods,
    reason = "a measurement of time needs a clock"
)]
fn what_a_plan_for_the_largest_ring_takes() {
    let mut ring = Ring::even(1_000, Ring::VIRTUAL_NODES).unwrap();
    let mut random = SplitMix64::new(seed(0x1000));
    // Every other slice gives its lower half to the server behind it until there are as many as may be.
    let missing = evenkeel_placement::ring::SLICES_MAX - ring.slices().len();
    let runs = ring.runs();
    let halves = runs.iter().step_by(2).take(missing).map(|run| Move {
        part: run.lower(run.width / 2).unwrap(),
        to: run.behind,
    });
    let halves: Vec<Move> = halves.collect();
    ring = ring.moved(&halves).unwrap();
    let factors: Vec<f64> = (0..1_000).map(|_| 0.5 + random.unit()).collect();
    let original = ring.clone();
    let report = slot(&ring, |hash| factors[usize::from(original.owner(hash))]);
    let mut planners: [(&str, Box<dyn RingPlanner>); 2] = [
        ("paper", Box::new(paper(0.5, 0.01))),
        ("measured", Box::new(Measured::default())),
    ];
    for (name, planner) in &mut planners {
        planner.plan(&ring, &report).unwrap();
        let begun = std::time::Instant::now();
        let plan = planner.plan(&ring, &report).unwrap();
        println!(
            "{name}: 1,000 servers, {} slices, {} grains: {} moves planned in {:.1} ms",
            ring.slices().len(),
            report.grains.len(),
            plan.moves.len(),
            begun.elapsed().as_secs_f64() * 1e3,
        );
    }
}
