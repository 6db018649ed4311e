//! What a plan is in a small cluster, told one after the other.

use std::collections::BTreeSet;

use super::*;

#[test]
fn a_hot_worker_gives_to_the_least_loaded_server() {
    let report = cluster(&[
        &[&[45e3, 45e3, 37e3], &[41e3, 41e3]],
        &[&[41e3, 41e3], &[41e3, 41e3]],
        &[&[40e3, 30e3], &[30e3, 5e3]],
    ]);
    let plan = expect_plan(answer(&report, &generous()));
    assert_eq!(moves(&plan), [(0, worker(0, 0), worker(2, 1))]);
    assert_eq!((plan.before.overloaded, plan.after.overloaded), (1, 0));
    assert_eq!((plan.before.load_max, plan.after.load_max), (127e3, 82e3));
    let change = |worker, before, after| LoadChange {
        worker,
        before,
        after,
    };
    let expected = [
        change(worker(0, 0), 127e3, 82e3),
        change(worker(2, 1), 35e3, 80e3),
    ];
    assert_eq!(plan.changes, expected);
    assert_eq!(plan.bytes, MIB);
}

#[test]
fn a_server_without_memory_or_that_is_to_be_emptied_gets_nothing() {
    let even: &[f64] = &[30e3, 30e3, 30e3];
    let mut report = cluster(&[
        &[&[40e3, 40e3, 30e3, 30e3]],
        &[&[30e3, 10e3]],
        &[&[30e3, 15e3]],
        &[even],
        &[even],
    ]);
    let target = |report: &ClusterReport| {
        let plan = expect_plan(answer(report, &generous()));
        moves(&plan)
            .iter()
            .map(|m| m.2.server.0)
            .collect::<BTreeSet<_>>()
    };
    assert!(target(&report).contains(&1));
    report.servers[1].memory_max_bytes = MIB;
    assert!(!target(&report).contains(&1), "it has more already");
    report.servers[1].memory_max_bytes = 1000 * MIB;
    report.servers[1].accepts = false;
    assert!(!target(&report).contains(&1));
}

#[test]
fn full_servers_give_to_full_servers() {
    let mut report = cluster(&[&[&[50e3, 50e3, 50e3]], &[&[30e3, 20e3]], &[&[50e3, 40e3]]]);
    for server in &mut report.servers[1..] {
        server.memory_max_bytes = 2 * MIB;
    }
    let nobody = ClusterAnswer::NoRoom { overloaded: 1 };
    assert_eq!(
        answer(&report, &generous()),
        nobody,
        "it has room, and they have none"
    );
    report.servers[0].memory_max_bytes = 3 * MIB;
    let plan = expect_plan(answer(&report, &generous()));
    assert_eq!(moves(&plan), [(0, worker(0, 0), worker(1, 0))]);
}

#[test]
fn where_nothing_fits_two_are_swapped() {
    let report = cluster(&[&[&[60e3, 60e3]], &[&[40e3, 40e3]], &[&[50e3, 50e3]]]);
    let plan = expect_plan(answer(&report, &generous()));
    assert_eq!(
        moves(&plan),
        [
            (0, worker(0, 0), worker(1, 0)),
            (2, worker(1, 0), worker(0, 0))
        ]
    );
    assert_eq!(plan.after.load_max, 100e3);
    assert_eq!(plan.after.overloaded, 0);
}

#[test]
fn nobody_overloaded_means_nothing_to_do() {
    let report = cluster(&[&[&[51e3, 51e3]], &[&[50e3, 50e3]]]);
    for mut planner in planners() {
        let answer = plan(&mut planner, &report, &generous()).unwrap();
        assert_eq!(answer, ClusterAnswer::Even);
        let nobody = plan(&mut planner, &ClusterReport::default(), &generous()).unwrap();
        assert_eq!(nobody, ClusterAnswer::Even);
    }
    let mut asleep = cluster(&[&[&[60e3, 60e3]], &[&[40e3, 40e3]]]);
    for server in &mut asleep.servers {
        server.workers[0].busy /= 3.0;
    }
    assert_eq!(answer(&asleep, &generous()), ClusterAnswer::Even);
}

#[test]
fn a_cluster_that_is_hot_as_a_whole_wants_more_servers() {
    let mut report = cluster(&[&[&[90e3, 40e3]], &[&[60e3, 50e3]], &[&[60e3, 50e3]]]);
    let busy = |report: &mut ClusterReport, capacity: f64| {
        for worker in report.servers.iter_mut().flat_map(|s| &mut s.workers) {
            worker.busy = worker.load / capacity;
        }
    };
    // 350e3 of 390e3, and no cachelet that would fit anywhere. 3 servers at 0.9 do the work of 4.5 at 0.6.
    busy(&mut report, 130e3);
    assert_eq!(
        answer(&report, &generous()),
        ClusterAnswer::AddServers { servers: 2 }
    );
    // Where moves help they come first: full as it is, one has more than the others.
    report = cluster(&[
        &[&[90e3, 20e3, 10e3, 10e3]],
        &[&[60e3, 45e3]],
        &[&[60e3, 45e3]],
    ]);
    busy(&mut report, 130e3);
    let plan = expect_plan(answer(&report, &generous()));
    assert_eq!((plan.before.load_max, plan.after.load_max), (130e3, 115e3));
}

#[test]
fn what_is_too_hot_for_anybody_stays() {
    let report = cluster(&[&[&[150e3]], &[&[40e3, 30e3]], &[&[50e3, 30e3]]]);
    assert_eq!(
        answer(&report, &generous()),
        ClusterAnswer::NoRoom { overloaded: 1 }
    );
}

#[test]
fn a_plan_may_always_move_one_cachelet_however_large() {
    let mut report = cluster(&[&[&[50e3, 50e3, 50e3]], &[&[30e3, 20e3]], &[&[50e3, 40e3]]]);
    // A hundredth of 7 MiB is less than any cachelet has.
    for mut planner in planners() {
        let answer = plan(&mut planner, &report, &ClusterConfig::default()).unwrap();
        let plan = expect_plan(answer);
        assert_eq!((plan.moves.len(), plan.bytes), (1, MIB));
        let mut two = plan.clone();
        two.moves.push(plan.moves[0]);
        two.moves[1].cachelet = CacheletNumber((plan.moves[0].cachelet.0 + 1) % 3);
        two.bytes *= 2;
        let refused = check(&report, &ClusterConfig::default(), &two);
        assert_eq!(refused, Err(Refusal::Bytes(2 * MIB)));
    }
    let first = expect_plan(answer(&report, &ClusterConfig::default()));
    apply(&mut report, &first);
    assert_eq!(
        answer(&report, &ClusterConfig::default()),
        ClusterAnswer::Even
    );
}

#[test]
fn what_stays_is_told_with_its_reason() {
    let kept = |report: &ClusterReport, config: &ClusterConfig| {
        let kept = explain(&mut mbal(), report, config).unwrap();
        kept.into_iter()
            .map(|kept| {
                (
                    kept.worker,
                    kept.load,
                    kept.holds.into_iter().collect::<Vec<_>>(),
                )
            })
            .collect::<Vec<_>>()
    };
    let even = cluster(&[&[&[51e3, 51e3]], &[&[50e3, 50e3]]]);
    assert_eq!(kept(&even, &generous()), []);
    let too_hot = cluster(&[&[&[150e3]], &[&[40e3, 30e3]], &[&[50e3, 30e3]]]);
    assert_eq!(
        kept(&too_hot, &generous()),
        [(worker(0, 0), 150e3, vec![(Hold::Load, 1)])]
    );
    let mut report = cluster(&[&[&[50e3, 50e3, 50e3]], &[&[30e3, 20e3]], &[&[50e3, 40e3]]]);
    let frugal = ClusterConfig::default();
    report.servers[0].workers[0].cachelets[0].may_move = false;
    report.servers[0].workers[0].cachelets[1].load /= 2.0;
    report.servers[0].workers[0].cachelets[2].load *= 1.5;
    let told = kept(&report, &frugal);
    let [(at, load, holds)] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!((*at, *load), (worker(0, 0), 125e3));
    assert_eq!(holds[..], [(Hold::Rests, 1), (Hold::Bytes, 1)]);
    report
        .servers
        .iter_mut()
        .skip(1)
        .for_each(|s| s.accepts = false);
    let told = kept(&report, &generous());
    assert_eq!(told[0].2, [(Hold::Rests, 1), (Hold::Drained, 2)]);
    // An idle server that is to be emptied is not whom they would go to.
    let mut too_hot = too_hot;
    too_hot.servers[1].accepts = false;
    assert_eq!(kept(&too_hot, &generous())[0].2, [(Hold::Load, 1)]);
}
