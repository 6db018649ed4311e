//! What contradicts itself is refused: reports, and plans that were tampered with.

use super::*;

#[test]
fn reports_that_contradict_themselves_are_refused() {
    let refuse = |change: fn(&mut ClusterReport)| {
        let mut report = even_cluster();
        change(&mut report);
        let error = plan(&mut mbal(), &report, &generous()).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        refuse(|r| r.servers[1].workers[2].load = f64::NAN),
        "server 1 reports a load of NaN"
    );
    assert_eq!(
        refuse(|r| r.servers[1].workers[2].cachelets[3].load = -0.5),
        "server 1 reports a load of -0.5"
    );
    assert_eq!(
        refuse(|r| r.servers[1].workers[0].busy = f64::INFINITY),
        "server 1 reports a load of inf"
    );
    assert_eq!(
        refuse(|r| r.servers[1].workers[2].load = 2e12),
        "server 1 reports a load of 2000000000000"
    );
    assert_eq!(
        refuse(|r| r.servers[0].workers[0].cachelets[3].memory_bytes = u64::MAX),
        "cachelet 3 is reported to have 18446744073709551615 bytes"
    );
    assert_eq!(
        refuse(|r| r.servers[2].server = ServerId(1)),
        "server 1 is not in ascending order"
    );
    assert_eq!(
        refuse(|r| r.servers[2].workers[0].cachelets[0].cachelet = CacheletNumber(7)),
        "cachelet 7 has two owners"
    );
}

#[test]
fn a_plan_that_was_tampered_with_is_refused() {
    let report = cluster(&[&[&[60e3, 50e3, 50e3]], &[&[30e3, 20e3]], &[&[50e3, 40e3]]]);
    let good = expect_plan(answer(&report, &generous()));
    assert_eq!(check(&report, &generous(), &good), Ok(()));
    let [
        Move {
            cachelet,
            from,
            to,
            load,
            bytes,
        },
        ..,
    ] = good.moves[..]
    else {
        panic!("{good:?}");
    };
    let verdict = |it: Move| {
        let mut plan = good.clone();
        plan.moves[0] = it;
        check(&report, &generous(), &plan).unwrap_err()
    };
    let unknown = CacheletNumber(99);
    let cases = [
        (
            Move {
                cachelet: unknown,
                from,
                to,
                load,
                bytes,
            },
            Refusal::NotThere(unknown),
        ),
        (
            Move {
                cachelet,
                from: to,
                to: from,
                load,
                bytes,
            },
            Refusal::NotThere(cachelet),
        ),
        (
            Move {
                cachelet,
                from,
                to,
                load: load + 1.0,
                bytes,
            },
            Refusal::NotThere(cachelet),
        ),
        (
            Move {
                cachelet,
                from,
                to: from,
                load,
                bytes,
            },
            Refusal::Nowhere(cachelet),
        ),
        (
            Move {
                cachelet,
                from,
                to: worker(7, 0),
                load,
                bytes,
            },
            Refusal::Nowhere(cachelet),
        ),
        (
            Move {
                cachelet,
                from,
                to,
                load,
                bytes: 1,
            },
            Refusal::Bytes(1),
        ),
    ];
    for (it, expected) in cases {
        assert_eq!(verdict(it), expected);
    }
    let refuse = |config: ClusterConfig, change: fn(&mut ClusterPlan)| {
        let mut plan = good.clone();
        change(&mut plan);
        check(&report, &config, &plan).unwrap_err()
    };
    assert_eq!(
        refuse(generous(), |p| p.moves.push(p.moves[0])),
        Refusal::Twice(cachelet)
    );
    assert_eq!(
        refuse(generous(), |p| p.bytes += 1),
        Refusal::Bytes(good.bytes)
    );
    assert_eq!(
        refuse(ClusterConfig::default(), |_| ()),
        Refusal::Bytes(good.bytes)
    );
    let few = ClusterConfig {
        moves_max: 0,
        ..generous()
    };
    assert_eq!(refuse(few, |_| ()), Refusal::TooManyMoves(good.moves.len()));
    // They can do twice as much in their time, so that who gets it is slower than the others.
    let mut fast = report.clone();
    for server in fast.servers.iter_mut().filter(|s| s.server != to.server) {
        server.workers[0].busy /= 2.0;
    }
    let refused = check(&fast, &generous(), &good).unwrap_err();
    assert!(matches!(refused, Refusal::Overloads { .. }), "{refused:?}");
    let mut tight = report.clone();
    let target = tight
        .servers
        .iter_mut()
        .find(|s| s.server == to.server)
        .unwrap();
    target.memory_max_bytes = target.memory_bytes();
    let refused = check(&tight, &generous(), &good);
    assert_eq!(refused, Err(Refusal::NoMemory(to.server)));
    let wrong = refuse(generous(), |p| p.changes[0].after += 1e3);
    assert!(matches!(wrong, Refusal::WrongPrediction(_)));
}
