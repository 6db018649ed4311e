use super::*;

fn worker(server: u16, worker: u16) -> WorkerRef {
    WorkerRef {
        server: ServerId(server),
        worker,
    }
}

/// The plan where nobody is drained.
fn plan(
    slots: &[Slot],
    takers: &[WorkerRef],
    has_let_go: impl Fn(ServerId, Epoch) -> bool,
) -> Plan {
    let parties = Parties {
        takers: takers.to_vec(),
        ..Parties::default()
    };
    super::plan(slots, &Accounts::new(), &parties, has_let_go)
}

fn shares(slots: &[Slot]) -> BTreeMap<WorkerRef, usize> {
    let mut shares = BTreeMap::new();
    for owner in slots.iter().filter_map(|slot| slot.owner()) {
        *shares.entry(owner).or_default() += 1;
    }
    shares
}

#[test]
fn the_first_placement_is_even_for_virtual_nodes_and_cachelets() {
    let workers: Vec<_> = (0..3).flat_map(|s| [worker(s, 0), worker(s, 1)]).collect();
    let (nodes, slots) = first_placement(&workers, 16);
    assert_eq!((nodes.len(), slots.len()), (VIRTUAL_NODES, 96));
    assert!(shares(&slots).values().all(|&n| n == 16));
    let mut sizes = vec![0; slots.len()];
    nodes.iter().for_each(|c| sizes[usize::from(c.0)] += 1);
    assert!(sizes.iter().all(|&n| n == 42 || n == 43), "{sizes:?}");
}

#[test]
fn there_are_never_more_cachelets_than_virtual_nodes() {
    let workers: Vec<_> = (0..300).map(|s| worker(s, 0)).collect();
    let (nodes, slots) = first_placement(&workers, 16);
    assert_eq!(slots.len(), CACHELETS_MAX);
    assert!(nodes.iter().all(|c| usize::from(c.0) < slots.len()));
    assert!(shares(&slots).values().all(|&n| n == 13 || n == 14));
}

#[test]
fn a_balanced_cluster_has_nothing_to_do() {
    let takers = [worker(0, 0), worker(1, 0), worker(2, 0)];
    let (_, slots) = first_placement(&takers, 5);
    assert_eq!(plan(&slots, &takers, |_, _| true), Plan::default());
}

#[test]
fn a_newcomer_gets_its_share_and_nothing_else_moves() {
    let (_, slots) = first_placement(&[worker(0, 0), worker(1, 0)], 6);
    let takers = [worker(0, 0), worker(1, 0), worker(2, 0)];
    let plan = plan(&slots, &takers, |_, _| true);
    assert!(plan.grants.is_empty());
    assert_eq!(plan.releases, [8, 9, 10, 11]);
}

#[test]
fn odd_cachelets_stay_with_whoever_has_them() {
    // Shares 3, 2, 2 and then a fourth worker: 7 = 2 + 2 + 2 + 1, one move.
    let owners = [0, 0, 0, 1, 1, 2, 2];
    let slots: Vec<_> = owners.iter().map(|&s| Slot::Owned(worker(s, 0))).collect();
    let takers: Vec<_> = (0..4).map(|s| worker(s, 0)).collect();
    let plan = plan(&slots, &takers, |_, _| true);
    assert_eq!(plan.releases, [2]);
}

#[test]
fn a_released_cachelet_waits_for_its_former_owner() {
    let mut slots = vec![Slot::Owned(worker(0, 0)); 4];
    slots[2] = Slot::Released {
        by: ServerId(0),
        epoch: Epoch(7),
    };
    slots[3] = slots[2];
    let takers = [worker(0, 0), worker(1, 0)];
    assert_eq!(plan(&slots, &takers, |_, _| false), Plan::default());
    let confirmed = plan(&slots, &takers, |s, e| s == ServerId(0) && e == Epoch(7));
    assert_eq!(confirmed.grants, [(2, worker(1, 0)), (3, worker(1, 0))]);
    assert!(confirmed.releases.is_empty());
}

#[test]
fn a_server_that_is_down_keeps_its_cachelets_and_is_not_counted() {
    let (_, slots) = first_placement(&[worker(0, 0), worker(1, 0), worker(2, 0)], 4);
    let up = [worker(0, 0), worker(1, 0)];
    assert_eq!(plan(&slots, &up, |_, _| true), Plan::default());
    let up = [worker(0, 0), worker(1, 0), worker(3, 0)];
    let plan = plan(&slots, &up, |_, _| true);
    assert_eq!(
        plan.releases.len(),
        2,
        "8 cachelets of two workers for three"
    );
    assert!(
        plan.releases
            .iter()
            .all(|&c| slots[c] != Slot::Owned(worker(2, 0)))
    );
}

/// Fewest cachelets that must leave their workers, found by trying every way to hand out the
/// odd ones.
fn fewest_releases(held: &[usize], to_share: usize) -> usize {
    let (share, odd) = (to_share / held.len(), to_share % held.len());
    (0u32..1 << held.len())
        .filter(|lucky| lucky.count_ones() as usize == odd)
        .map(|lucky| {
            let quota = |i: usize| share + (lucky >> i & 1) as usize;
            let surplus = |(i, &n): (usize, &usize)| n.saturating_sub(quota(i));
            held.iter().enumerate().map(surplus).sum()
        })
        .min()
        .unwrap_or(0)
}

#[test]
fn plans_agree_with_trying_every_way() {
    use rand_xoshiro::rand_core::{Rng, SeedableRng};
    const SEED: u64 = 0x5eed;
    println!("seed {SEED}");
    let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut below = move |n: usize| (random.next_u64() % n as u64) as usize;
    for _ in 0..2_000 {
        let workers = 1 + below(6);
        let takers: Vec<_> = (0..workers as u16).map(|s| worker(s, 0)).collect();
        let mut slots: Vec<_> = (0..below(30))
            .map(|_| match below(8) {
                0 => Slot::Released {
                    by: ServerId(below(8) as u16),
                    epoch: Epoch(1 + below(2) as u64),
                },
                1 => Slot::Owned(worker(9, 0)),
                _ => Slot::Owned(takers[below(workers)]),
            })
            .collect();
        let has_let_go =
            |server: ServerId, epoch: Epoch| server.0.is_multiple_of(2) && epoch == Epoch(1);
        let held: Vec<usize> = takers
            .iter()
            .map(|&t| slots.iter().filter(|&&s| s == Slot::Owned(t)).count())
            .collect();
        let free = slots.iter().filter(|slot| slot.owner().is_none()).count();
        let to_share = held.iter().sum::<usize>() + free;
        let first = plan(&slots, &takers, has_let_go);
        assert_eq!(
            first.releases.len(),
            fewest_releases(&held, to_share),
            "{slots:?}"
        );
        for &(cachelet, _) in &first.grants {
            let confirmed = matches!(slots[cachelet],
                Slot::Released { by, epoch } if has_let_go(by, epoch));
            assert!(confirmed, "{slots:?}");
        }

        // Executed with every owner confirming, it comes to rest in even shares.
        for _ in 0..2 {
            let plan = plan(&slots, &takers, |_, _| true);
            for &cachelet in &plan.releases {
                slots[cachelet] = Slot::Released {
                    by: ServerId(0),
                    epoch: Epoch(2),
                };
            }
            for &(cachelet, worker) in &plan.grants {
                slots[cachelet] = Slot::Owned(worker);
            }
        }
        assert_eq!(plan(&slots, &takers, |_, _| true), Plan::default());
        let shares = shares(&slots);
        let share = |t| shares.get(t).copied().unwrap_or(0);
        let most = takers.iter().map(share).max().unwrap_or(0);
        let least = takers.iter().map(share).min().unwrap_or(0);
        assert!(most - least <= 1, "{slots:?}");
    }
}

#[test]
fn a_drained_server_gives_up_what_it_may_and_gets_nothing() {
    let (_, slots) = first_placement(&[worker(0, 0), worker(1, 0), worker(2, 0)], 4);
    let parties = |may: usize| Parties {
        takers: vec![worker(0, 0), worker(2, 0)],
        leavers: BTreeMap::from([(ServerId(1), may)]),
        ..Parties::default()
    };
    let plan = super::plan(&slots, &Accounts::new(), &parties(3), |_, _| true);
    assert_eq!((plan.releases.len(), plan.grants.len()), (3, 0));
    assert!(
        plan.releases
            .iter()
            .all(|&c| slots[c] == Slot::Owned(worker(1, 0)))
    );
    let mut slots = slots;
    for &cachelet in &plan.releases {
        slots[cachelet] = Slot::Released {
            by: ServerId(1),
            epoch: Epoch(1),
        };
    }
    let plan = super::plan(&slots, &Accounts::new(), &parties(0), |_, _| true);
    assert_eq!((plan.releases.len(), plan.grants.len()), (0, 3));
    assert!(
        plan.grants
            .iter()
            .all(|(_, owner)| owner.server != ServerId(1))
    );
}

#[test]
fn a_drained_server_gives_up_first_what_is_used_most() {
    let (_, slots) = first_placement(&[worker(0, 0), worker(1, 0), worker(2, 0)], 4);
    let mut parties = Parties {
        takers: vec![worker(0, 0), worker(2, 0)],
        leavers: BTreeMap::from([(ServerId(1), 2)]),
        loads: [(1, 5.0), (4, 50.0), (7, 10.0)]
            .map(|(cachelet, load)| (CacheletId(cachelet), load))
            .into(),
        ..Parties::default()
    };
    let plan = |parties: &Parties| super::plan(&slots, &Accounts::new(), parties, |_, _| true);
    assert_eq!(plan(&parties).releases, [4, 7]);
    parties.migrating = (0..3).map(|server| (ServerId(server), 1)).collect();
    parties.migrations_max = 8;
    let moves = plan(&parties).moves;
    assert_eq!(
        moves
            .iter()
            .map(|(cachelet, _)| *cachelet)
            .collect::<Vec<_>>(),
        [4]
    );
}

#[test]
fn what_only_a_worker_of_the_same_server_lacks_stays_where_it_is() {
    // Shares 4, 2 and 3: one more than three for the first, which the second lacks, and nobody else.
    let owners = [
        (0, 0),
        (0, 0),
        (0, 0),
        (0, 0),
        (0, 1),
        (0, 1),
        (1, 0),
        (1, 0),
        (1, 0),
    ];
    let slots: Vec<_> = (owners.iter())
        .map(|&(server, its)| Slot::Owned(worker(server, its)))
        .collect();
    let mut parties = Parties {
        takers: vec![worker(0, 0), worker(0, 1), worker(1, 0)],
        migrating: (0..2).map(|server| (ServerId(server), 1)).collect(),
        migrations_max: 8,
        ..Parties::default()
    };
    let plan = |parties: &Parties| super::plan(&slots, &Accounts::new(), parties, |_, _| true);
    assert_eq!(plan(&parties), Plan::default());
    // Where nothing migrates in any case, shares count for more.
    parties.migrating.clear();
    assert_eq!(plan(&parties).releases, [3]);
}

#[test]
fn without_servers_nothing_is_planned() {
    let (_, slots) = first_placement(&[worker(0, 0)], 4);
    assert_eq!(plan(&slots, &[], |_, _| true), Plan::default());
}
