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
//! contents, and always has an owner; only this many at a time, and the others stay where they are until then. One whose
//! migrations came to nothing several times is released.
//!
//! The plan is made anew from what is the case at each call; no target is promised in advance.
//! When servers come and go while cachelets are between owners, it is simply another plan.
//!
//! A server that is down keeps its cachelets until it is certain that it serves nothing any more (see
//! `members::fence`): it cannot confirm that it let go, and when it returns before, nothing has to move. One that is
//! *drained* gives all of them up, a few at a time, and gets none.
//!
//! A cachelet that is *moving* goes to another server together with its contents (see `migrating`), and is left
//! alone here. One that moved because of its load goes on counting in the share of the worker that it left:
//! otherwise the next newcomer would have the shares made even again, and the load uneven.

mod slot;

pub use slot::{DeadLife, Moving, Purpose, Slot};

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_types::map::VIRTUAL_NODES;
use evenkeel_types::{CacheletId, Epoch, ServerId, WorkerRef};

use crate::limits::CACHELETS_MAX;

/// Moves to make in the next map; positions are cachelets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Cachelets to give to a worker.
    pub(crate) grants: Vec<(usize, WorkerRef)>,
    /// Cachelets to take from their owner.
    pub(crate) releases: Vec<usize>,
    /// Cachelets that go to a worker of another server with their contents.
    pub(crate) moves: Vec<(usize, WorkerRef)>,
}

/// The first placement: virtual nodes spread evenly over the cachelets and cachelets evenly over
/// `workers`, both by turns.
pub(crate) fn first_placement(
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
pub(crate) struct Parties {
    /// The workers that may get or lose cachelets: those of the servers that are up and not drained, in
    /// ascending order.
    pub(crate) takers: Vec<WorkerRef>,
    /// Servers that are up and drained, and how many cachelets each may give up now.
    pub(crate) leavers: BTreeMap<ServerId, usize>,
    /// Servers that can pass cachelets on with their contents, and in how many more migrations each may
    /// take part now.
    pub(crate) migrating: BTreeMap<ServerId, usize>,
    /// How many migrations may be begun now.
    pub(crate) migrations_max: usize,
    /// Cachelets that are released even so.
    pub(crate) immovable: BTreeSet<CacheletId>,
    /// Loads of cachelets of drained servers, as far as told.
    pub(crate) loads: BTreeMap<CacheletId, f64>,
}

impl Parties {
    /// How much a cachelet is used.
    fn heat(&self, cachelet: usize) -> f64 {
        // CACHELETS_MAX positions fit u16.
        let load = self.loads.get(&CacheletId(cachelet as u16));
        load.copied().unwrap_or(0.0)
    }

    /// Whether a cachelet may leave its worker with its contents, if somebody can take it.
    fn can_migrate(&self, cachelet: usize, from: WorkerRef) -> bool {
        // CACHELETS_MAX positions fit u16.
        let id = CacheletId(cachelet as u16);
        self.migrating.contains_key(&from.server) && !self.immovable.contains(&id)
    }
}

/// Cachelets that count in the share of another worker than their owner: see [`Purpose::Load`].
pub(crate) type Accounts = BTreeMap<CacheletId, WorkerRef>;

/// The next moves towards even shares.
///
/// `has_let_go(server, epoch)` says whether that server is known to work by a map
/// of that epoch or a newer one. Calling again after executing the plan and hearing from every
/// server that released something ends, after finitely many steps, with shares that differ by at
/// most one, unless too much is moving, or what one has too many only another worker of its server lacks, to which nothing
/// passes with its contents; nothing moves that need not.
/// O(cachelets · log workers + workers · log workers + grants · workers).
pub(crate) fn plan(
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
            Slot::Quarantined { .. } => continue,
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
            shares[cachelet] = Some(share);
            *held.entry(share).or_default() += 1;
            to_share += 1;
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
    let quotas = quotas(&held, to_share);

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
/// one up for another to have it.
fn quotas(held: &BTreeMap<WorkerRef, usize>, to_share: usize) -> BTreeMap<WorkerRef, usize> {
    let (share, odd) = (to_share / held.len(), to_share % held.len());
    let mut by_count: Vec<_> = held
        .iter()
        .map(|(&worker, &count)| (count, worker))
        .collect();
    by_count.sort_unstable_by_key(|&(count, worker)| (core::cmp::Reverse(count), worker));
    let even = by_count.into_iter().enumerate();
    even.map(|(i, (_, worker))| (worker, share + usize::from(i < odd)))
        .collect()
}

#[cfg(test)]
mod tests;
