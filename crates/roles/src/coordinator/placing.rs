//! Which worker gets which cachelet: even shares, few moves, and never two owners.
//!
//! A cachelet changes hands in two steps. First it is *released*: the next map gives it to nobody,
//! and its former owner lets go and forgets its contents. Only when that server has confirmed that
//! it works by such a map is the cachelet *granted* to another worker, in a later map. In between
//! its keys have no home, which a cache may answer with a miss. So two servers never serve one
//! cachelet, even when one of them is slow to learn of the change, and what a server stored before
//! the move can never be read after it has come back.
//!
//! Where both servers are up and can do it, a cachelet that has to change hands *migrates* instead, with its
//! contents, and always has an owner; only so many at a time, and the others stay where they are until then. One whose
//! migrations came to nothing several times is released.
//!
//! The plan is made anew from what is the case at each call; no target is promised in advance.
//! When servers come and go while cachelets are between owners, it is simply another plan.
//!
//! A server that is down keeps its cachelets until it is certain that it serves nothing any more (see
//! `fence`): it cannot confirm that it let go, and when it returns before, nothing has to move. One that is
//! *drained* gives all of them up, a few at a time, and gets none.
//!
//! A cachelet that is *moving* goes to another server together with its contents (see `migrating`), and is left
//! alone here. One that moved because of its load goes on counting in the share of the worker that it left:
//! otherwise the next newcomer would have the shares made even again, and the load uneven.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_policy::placement::map::{Migration, VIRTUAL_NODES};
use evenkeel_types::{CacheletId, Epoch, ServerId, WorkerRef};
use serde::{Deserialize, Serialize};

use super::limits::CACHELETS_MAX;

/// Who has a cachelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// This worker.
    Owned(WorkerRef),
    /// A worker, until the cachelet has passed to another server.
    Moving(Moving),
    /// Nobody.
    Released {
        /// The last owner. It must confirm before anyone else becomes owner.
        by: ServerId,
        /// First map in which nobody had it: what `by` must confirm.
        epoch: Epoch,
    },
    /// No cachelet has this number any more, since it was merged into another one.
    Merged,
}

/// A cachelet on its way from one server to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moving {
    /// The source: its owner so far.
    pub from: WorkerRef,
    /// The target.
    pub to: WorkerRef,
    /// First map that told of it.
    pub began: Epoch,
    /// It is to be given up, if that is still possible.
    pub cancelled: bool,
    /// See [`Migration::bytes_per_second`].
    pub bytes_per_second: u64,
    /// What it is good for.
    pub purpose: Purpose,
    /// The target has begun a new life since, and has not said that it takes part in that: should the cachelet
    /// have passed before, then its contents are lost.
    pub target_restarted: bool,
    /// The source says that the cachelet has passed to such a target. With this map or a newer one the target has to
    /// say whether it has it.
    #[serde(default)]
    pub doubted_from: Option<Epoch>,
}

/// What a cachelet moves for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Its load, or an operator's wish. It goes on counting in the share of the worker that it leaves.
    Load,
    /// Even shares: it counts in the share of the worker that it goes to.
    Share,
}

impl Slot {
    /// The owner as a map has it.
    pub(super) fn owner(self) -> Option<WorkerRef> {
        match self {
            Slot::Owned(worker) => Some(worker),
            Slot::Moving(moving) => Some(moving.from),
            Slot::Released { .. } | Slot::Merged => None,
        }
    }

    /// The migration as a map has it.
    pub(super) fn migration(self, cachelet: CacheletId) -> Option<Migration> {
        let Slot::Moving(moving) = self else {
            return None;
        };
        Some(Migration {
            cachelet,
            to: moving.to,
            began: moving.began,
            cancelled: moving.cancelled,
            bytes_per_second: moving.bytes_per_second,
        })
    }
}

/// Moves to make in the next map; positions are cachelets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Cachelets to give to a worker.
    pub(super) grants: Vec<(usize, WorkerRef)>,
    /// Cachelets to take from their owner.
    pub(super) releases: Vec<usize>,
    /// Cachelets that go to a worker of another server with their contents.
    pub(super) moves: Vec<(usize, WorkerRef)>,
}

/// The first placement: virtual nodes spread evenly over the cachelets and cachelets evenly over
/// `workers`, both by turns.
pub(super) fn first_placement(
    workers: &[WorkerRef],
    cachelets_per_worker: usize,
) -> (Vec<CacheletId>, Vec<Slot>) {
    let wanted = workers.len().saturating_mul(cachelets_per_worker);
    let count = wanted.clamp(1, CACHELETS_MAX);
    let nodes = (0..VIRTUAL_NODES)
        // CACHELETS_MAX positions fit u16.
        .map(|node| CacheletId((node % count) as u16))
        .collect();
    let slots = workers
        .iter()
        .cycle()
        .take(count)
        .map(|&worker| Slot::Owned(worker))
        .collect();
    (nodes, slots)
}

/// Who may get cachelets, and who has to give them up.
#[derive(Clone, Debug, Default)]
pub(super) struct Parties {
    /// The workers that may get or lose cachelets: those of the servers that are up and not drained, in
    /// ascending order.
    pub(super) takers: Vec<WorkerRef>,
    /// Servers that are up and drained, and how many cachelets each may give up now.
    pub(super) leavers: BTreeMap<ServerId, usize>,
    /// Servers that can pass cachelets on with their contents, and in how many more migrations each may
    /// take part now.
    pub(super) migrating: BTreeMap<ServerId, usize>,
    /// How many migrations may be begun now.
    pub(super) migrations_max: usize,
    /// Cachelets that are released even so.
    pub(super) immovable: BTreeSet<CacheletId>,
    /// For how many cachelets those count that are not one in their taker's share.
    pub(super) weights: BTreeMap<CacheletId, u32>,
    /// Loads of cachelets of drained servers, as far as told.
    pub(super) loads: BTreeMap<CacheletId, f64>,
}

impl Parties {
    /// How much a cachelet is used.
    fn heat(&self, cachelet: usize) -> f64 {
        // CACHELETS_MAX positions fit u16.
        let load = self.loads.get(&CacheletId(cachelet as u16));
        load.copied().unwrap_or(0.0)
    }

    /// For how many cachelets one counts in a share. What goes to another share is one like all others there.
    fn weight(&self, cachelet: usize, slot: &Slot) -> usize {
        let goes = matches!(slot, Slot::Moving(moving) if moving.purpose == Purpose::Share);
        // CACHELETS_MAX positions fit u16.
        let weight = self.weights.get(&CacheletId(cachelet as u16));
        weight
            .filter(|_| !goes)
            .map_or(1, |weight| *weight as usize)
    }

    /// Whether a cachelet may leave its worker with its contents, if somebody can take it.
    fn can_migrate(&self, cachelet: usize, from: WorkerRef) -> bool {
        // CACHELETS_MAX positions fit u16.
        let id = CacheletId(cachelet as u16);
        self.migrating.contains_key(&from.server) && !self.immovable.contains(&id)
    }
}

/// Cachelets that count in the share of another worker than their owner: see [`Purpose::Load`].
pub(super) type Accounts = BTreeMap<CacheletId, WorkerRef>;

/// The next moves towards even shares.
///
/// `has_let_go(server, epoch)` says whether that server is known to work by a map
/// of that epoch or a newer one. Calling again after carrying out the plan and hearing from every
/// server that released something ends, after finitely many steps, with shares that differ by at
/// most one, unless too much is moving, a worker has nothing but cachelets that were split or merged, or what one has
/// too many only another worker of its server lacks, to which nothing passes with its contents; nothing moves that need not.
/// O(cachelets · log workers + workers · log workers + grants · workers).
pub(super) fn plan(
    slots: &[Slot],
    accounts: &Accounts,
    parties: &Parties,
    has_let_go: impl Fn(ServerId, Epoch) -> bool,
) -> Plan {
    let mut plan = Plan::default();
    if parties.takers.is_empty() {
        return plan;
    }
    let mut held: BTreeMap<WorkerRef, usize> = parties.takers.iter().map(|&w| (w, 0)).collect();
    let mut leavers = parties.leavers.clone();
    let mut to_share = 0;
    // What each holds that makes no share even.
    let mut fixed = BTreeMap::new();
    // What has to leave its worker.
    let mut leaving = Vec::new();
    // Whose share each cachelet is in; of what a taker owns, and of what moves to one.
    let mut shares = vec![None; slots.len()];
    for (cachelet, slot) in slots.iter().enumerate() {
        // CACHELETS_MAX positions fit u16.
        let account = accounts.get(&CacheletId(cachelet as u16));
        let account = account.filter(|account| held.contains_key(account));
        let worker = match slot {
            Slot::Released { .. } => {
                to_share += 1;
                continue;
            }
            Slot::Merged => continue,
            Slot::Owned(worker) => *worker,
            Slot::Moving(Moving {
                from,
                purpose: Purpose::Load,
                ..
            }) => *from,
            Slot::Moving(Moving { to, .. }) => *to,
        };
        if held.contains_key(&worker) {
            let share = match slot {
                Slot::Moving(Moving {
                    purpose: Purpose::Share,
                    ..
                }) => worker,
                _ => *account.unwrap_or(&worker),
            };
            let weight = parties.weight(cachelet, slot);
            // What counts for none or for many makes no share even by leaving.
            shares[cachelet] = Some(share).filter(|_| weight == 1);
            *held.entry(share).or_default() += weight;
            if weight != 1 {
                *fixed.entry(share).or_default() += weight;
            }
            to_share += weight;
        } else if let Slot::Owned(_) = slot
            && leavers.contains_key(&worker.server)
        {
            leaving.push((cachelet, worker));
        }
    }
    // What is used most goes first, while there is time for it.
    leaving.sort_by(|&(a, _), &(b, _)| parties.heat(b).total_cmp(&parties.heat(a)).then(a.cmp(&b)));
    leaving.retain(|(_, worker)| {
        let left = leavers.get_mut(&worker.server).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    });
    // Somebody is to get it, now or once it is released.
    let to_move = leaving
        .iter()
        .filter(|(cachelet, worker)| parties.can_migrate(*cachelet, *worker));
    to_share += to_move.count();
    let mut surplus = Vec::new();
    let quotas = quotas(held.clone(), &fixed, to_share);

    // From the back, so that the cachelets a worker has had for longest stay where they are; first what
    // a worker owns itself, then what went from it to others.
    for owned_by_itself in [true, false] {
        for (cachelet, slot) in slots.iter().enumerate().rev() {
            if let Slot::Owned(worker) = slot
                && let Some(share) = shares[cachelet]
                && (share == *worker) == owned_by_itself
                && let Some(count) = held.get_mut(&share)
                && *count > quotas[&share]
            {
                *count -= 1;
                surplus.push((cachelet, *worker));
            }
        }
    }
    surplus.sort_unstable();
    leaving.append(&mut surplus);

    for (cachelet, slot) in slots.iter().enumerate() {
        let Slot::Released { by, epoch } = *slot else {
            continue;
        };
        if !has_let_go(by, epoch) {
            continue;
        }
        // Quotas add up to all that is held or free, so that as long as something is free, somebody is
        // below quota.
        let worker = neediest(&held, &quotas, |_| true)
            .expect("a free cachelet is due to a worker below quota");
        *held.entry(worker).or_default() += 1;
        plan.grants.push((cachelet, worker));
    }
    pass_on(&leaving, parties, &mut held, &quotas, &mut plan);
    plan.releases.sort_unstable();
    plan
}

/// Moves what has to leave its worker where that is possible, releases it where it is not, and keeps it where it is
/// as long as enough is moving.
fn pass_on(
    leaving: &[(usize, WorkerRef)],
    parties: &Parties,
    held: &mut BTreeMap<WorkerRef, usize>,
    quotas: &BTreeMap<WorkerRef, usize>,
    plan: &mut Plan,
) {
    let mut room = parties.migrating.clone();
    for &(cachelet, from) in leaving {
        let can_take = |to: WorkerRef| to.server != from.server && room.contains_key(&to.server);
        let is_possible =
            parties.can_migrate(cachelet, from) && neediest(held, quotas, can_take).is_some();
        if !is_possible {
            // To be released and begin anew is too much for a place at another worker of the same server.
            let has_place_beside = |to: WorkerRef| to.server == from.server;
            let stays = parties.can_migrate(cachelet, from)
                && neediest(held, quotas, has_place_beside).is_some();
            if !stays {
                plan.releases.push(cachelet);
            }
            continue;
        }
        let has_room = |server: ServerId| room.get(&server).is_some_and(|left| *left > 0);
        let has_place = |to: WorkerRef| to.server != from.server && has_room(to.server);
        let is_full = plan.moves.len() == parties.migrations_max || !has_room(from.server);
        let Some(to) = neediest(held, quotas, has_place).filter(|_| !is_full) else {
            continue;
        };
        for end in [from.server, to.server] {
            room.entry(end).and_modify(|left| *left -= 1);
        }
        *held.entry(to).or_default() += 1;
        plan.moves.push((cachelet, to));
    }
}

/// The worker that is farthest below its quota, of those that come into question.
fn neediest(
    held: &BTreeMap<WorkerRef, usize>,
    quotas: &BTreeMap<WorkerRef, usize>,
    comes_into_question: impl Fn(WorkerRef) -> bool,
) -> Option<WorkerRef> {
    let needy = held
        .iter()
        .filter(|(worker, count)| **count < quotas[*worker] && comes_into_question(**worker));
    let neediest = needy
        .max_by_key(|(worker, count)| (quotas[*worker] - **count, core::cmp::Reverse(**worker)));
    neediest.map(|(worker, _)| *worker)
}

/// Even shares of `to_share` cachelets. Those that hold most get the odd ones, so that nobody gives
/// one up for another to have it. Who has more `fixed` than such a share keeps that, and the rest is for the others.
fn quotas(
    mut held: BTreeMap<WorkerRef, usize>,
    fixed: &BTreeMap<WorkerRef, usize>,
    mut to_share: usize,
) -> BTreeMap<WorkerRef, usize> {
    let mut quotas = BTreeMap::new();
    while !held.is_empty() {
        let share = to_share / held.len();
        let has_more = |worker: &&WorkerRef| fixed.get(worker).is_some_and(|has| *has > share);
        let Some(&worker) = held.keys().find(has_more) else {
            break;
        };
        held.remove(&worker);
        quotas.insert(worker, fixed[&worker]);
        to_share -= fixed[&worker];
    }
    if held.is_empty() {
        return quotas;
    }
    let (share, odd) = (to_share / held.len(), to_share % held.len());
    let mut by_count: Vec<_> = held
        .iter()
        .map(|(&worker, &count)| (count, worker))
        .collect();
    by_count.sort_unstable_by_key(|&(count, worker)| (core::cmp::Reverse(count), worker));
    let even = by_count.into_iter().enumerate();
    quotas.extend(even.map(|(i, (_, worker))| (worker, share + usize::from(i < odd))));
    quotas
}

#[cfg(test)]
mod tests {
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

            // Carried out with every owner confirming, it comes to rest in even shares.
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
}
