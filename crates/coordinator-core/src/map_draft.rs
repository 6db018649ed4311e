//! The next map in the making: what the newest map says of cachelets, what has changed since, and why.
//!
//! Every change of an owner is made here, together with what follows from it for how long contents have gone on
//! (`since`), for the stay with an owner (`stay`), and for the share that a cachelet counts in (`accounts`).

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_types::{BootId, CacheletId, Epoch, ServerId, VirtualNode, WorkerRef};

use crate::event::{Cause, Change};
use crate::placing::{Accounts, DeadLife, Moving, Purpose, Slot, first_placement};

/// Cachelets whose owners died one after the other, each with the two lives.
pub(crate) type Suspects = BTreeMap<CacheletId, [DeadLife; 2]>;

/// What is known of cachelets. Positions in `slots`, `since` and `stay` are cachelets.
#[derive(Clone, Debug, Default)]
pub(crate) struct MapContents {
    /// Epoch of the newest map; 0 before the first.
    pub(crate) epoch: Epoch,
    /// First map that was made after the map was taken over from servers; 0 where it never was.
    pub(crate) taken_over: Epoch,
    /// Empty before the first map, as `slots`.
    pub(crate) virtual_nodes: Vec<CacheletId>,
    pub(crate) slots: Vec<Slot>,
    /// See [`SavedState::since`](crate::SavedState::since); as long as `slots`.
    pub(crate) since: Vec<Epoch>,
    /// See [`SavedState::stay`](crate::SavedState::stay); as long as `slots`.
    pub(crate) stay: Vec<Epoch>,
    pub(crate) accounts: Accounts,
}

/// The next map, as far as it is made.
#[derive(Debug, Default)]
pub(crate) struct MapDraft {
    contents: MapContents,
    /// What will be different from the newest map.
    changes: Vec<Change>,
}

impl MapDraft {
    /// Nothing has changed yet.
    pub(crate) fn new(contents: MapContents) -> Self {
        MapDraft {
            contents,
            changes: Vec::new(),
        }
    }

    pub(crate) fn contents(&self) -> &MapContents {
        &self.contents
    }

    /// Epoch of the newest map; 0 before the first.
    pub(crate) fn epoch(&self) -> Epoch {
        self.contents.epoch
    }

    /// Epoch of the map that this call will make, should it make one.
    pub(crate) fn next_epoch(&self) -> Epoch {
        Epoch(self.contents.epoch.0 + 1)
    }

    /// The only place where the epoch moves.
    pub(crate) fn advance(&mut self) {
        self.contents.epoch = self.next_epoch();
    }

    /// The map was taken over from servers: what is made from here on is this coordinator's own.
    pub(crate) fn note_taken_over(&mut self) {
        self.contents.taken_over = self.next_epoch();
    }

    /// Whether there is no cachelet, because there was no map yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.contents.slots.is_empty()
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        &self.contents.slots
    }

    pub(crate) fn slot(&self, cachelet: CacheletId) -> Option<&Slot> {
        self.contents.slots.get(usize::from(cachelet.0))
    }

    pub(crate) fn set_slot(&mut self, cachelet: CacheletId, slot: Slot) {
        self.contents.slots[usize::from(cachelet.0)] = slot;
    }

    pub(crate) fn owner_of(&self, cachelet: CacheletId) -> Option<WorkerRef> {
        self.slot(cachelet)?.owner()
    }

    /// The migration that a cachelet is in.
    pub(crate) fn moving(&self, cachelet: CacheletId) -> Option<Moving> {
        match self.slot(cachelet) {
            Some(Slot::Moving(moving)) => Some(*moving),
            _ => None,
        }
    }

    pub(crate) fn moving_mut(&mut self, cachelet: CacheletId) -> Option<&mut Moving> {
        match self.contents.slots.get_mut(usize::from(cachelet.0)) {
            Some(Slot::Moving(moving)) => Some(moving),
            _ => None,
        }
    }

    /// Cachelets that nobody owns because they are changing hands.
    pub(crate) fn cachelets_in_transit(&self) -> usize {
        let slots = self.slots().iter();
        slots
            .filter(|slot| matches!(slot, Slot::Released { .. }))
            .count()
    }

    /// Cachelets that a server owns, has given up and nobody has yet, or that are on their way to it.
    pub(crate) fn cachelets_of(&self, server: ServerId) -> usize {
        let are_its = |slot: &&Slot| match slot {
            Slot::Owned(owner) => owner.server == server,
            Slot::Moving(moving) => [moving.from.server, moving.to.server].contains(&server),
            Slot::Released { by, .. } => *by == server,
            Slot::Quarantined { .. } => false,
        };
        self.slots().iter().filter(are_its).count()
    }

    /// Cachelets that a server owns and that are on their way to others.
    pub(crate) fn moving_from(&self, server: ServerId) -> Vec<CacheletId> {
        let moves = |slot: &Slot| matches!(slot, Slot::Moving(it) if it.from.server == server);
        let slots = (0u16..).zip(self.slots());
        slots
            .filter(|(_, slot)| moves(slot))
            .map(|(cachelet, _)| CacheletId(cachelet))
            .collect()
    }

    /// The virtual nodes in cachelets that a server owns. O(virtual nodes).
    pub(crate) fn virtual_nodes_of(&self, server: ServerId) -> BTreeSet<VirtualNode> {
        let is_its = |cachelet: CacheletId| {
            let owner = self.owner_of(cachelet);
            owner.is_some_and(|owner| owner.server == server)
        };
        let nodes = (0u16..).zip(&self.contents.virtual_nodes);
        nodes
            .filter(|(_, cachelet)| is_its(**cachelet))
            .map(|(node, _)| VirtualNode(node))
            .collect()
    }

    /// Whether a cachelet is quarantined, and by the death of this server.
    pub(crate) fn quarantines_for(&self, id: ServerId) -> bool {
        let names = |slot: &Slot| match slot {
            Slot::Quarantined { by, died, .. } => {
                *by == id || died.iter().flatten().any(|life| life.server == id)
            }
            _ => false,
        };
        self.slots().iter().any(names)
    }

    /// Whether the stay of a cachelet with its owner begins with the map that this call will make.
    pub(crate) fn is_just_placed(&self, cachelet: CacheletId) -> bool {
        self.contents.stay.get(usize::from(cachelet.0)) == Some(&self.next_epoch())
    }

    /// From the next map on nothing is known of what a cachelet contains.
    pub(crate) fn begin_anew(&mut self, cachelet: CacheletId) {
        let (next, position) = (self.next_epoch(), usize::from(cachelet.0));
        self.contents.since[position] = next;
        self.contents.stay[position] = next;
    }

    /// A cachelet has passed to its target with what it contains.
    pub(crate) fn complete_move(&mut self, cachelet: CacheletId, moving: &Moving) {
        self.set_slot(cachelet, Slot::Owned(moving.to));
        self.contents.stay[usize::from(cachelet.0)] = moving.began;
        if moving.target_restarted {
            self.begin_anew(cachelet);
        }
        let accounts = &mut self.contents.accounts;
        match moving.purpose {
            Purpose::Load => {
                let account = *accounts.entry(cachelet).or_insert(moving.from);
                if account == moving.to {
                    accounts.remove(&cachelet);
                }
            }
            Purpose::Share => drop(accounts.remove(&cachelet)),
        }
    }

    /// Makes the first placement, which is all that there is to say of the first map.
    pub(crate) fn place_first(&mut self, takers: &[WorkerRef], per_worker: usize) {
        let next = self.next_epoch();
        let contents = &mut self.contents;
        (contents.virtual_nodes, contents.slots) = first_placement(takers, per_worker);
        contents.since = vec![next; contents.slots.len()];
        contents.stay = contents.since.clone();
        let servers = takers.iter().map(|worker| worker.server).collect();
        let cachelets = contents.slots.len();
        self.changes = vec![Change::of_cachelets(Cause::MapCreated, servers, cachelets)];
    }

    /// Takes cachelets from their owners; gives the owner of each.
    pub(crate) fn release(&mut self, cachelets: &[usize]) -> Vec<ServerId> {
        if cachelets.is_empty() {
            return Vec::new();
        }
        let epoch = self.next_epoch();
        let mut former = Vec::new();
        for &cachelet in cachelets {
            let slot = &mut self.contents.slots[cachelet];
            if let Slot::Owned(owner) = *slot {
                let by = owner.server;
                *slot = Slot::Released { by, epoch };
                former.push(by);
            }
        }
        let servers = former.iter().copied().collect();
        self.note(Change::of_cachelets(
            Cause::CacheletsReleased,
            servers,
            cachelets.len(),
        ));
        former
    }

    /// Gives cachelets that nobody owns to workers.
    pub(crate) fn grant(&mut self, grants: &[(usize, WorkerRef)]) {
        if grants.is_empty() {
            return;
        }
        for &(cachelet, worker) in grants {
            // CACHELETS_MAX positions fit u16.
            let cachelet = CacheletId(cachelet as u16);
            self.set_slot(cachelet, Slot::Owned(worker));
            self.begin_anew(cachelet);
            self.contents.accounts.remove(&cachelet);
        }
        let servers = grants.iter().map(|(_, worker)| worker.server).collect();
        self.note(Change::of_cachelets(
            Cause::CacheletsGranted,
            servers,
            grants.len(),
        ));
    }

    /// Takes all that a server owns and that is not moving; gives how much that is.
    pub(crate) fn release_all_of(&mut self, by: ServerId) -> usize {
        let epoch = self.next_epoch();
        let mut released = 0;
        for slot in &mut self.contents.slots {
            if matches!(slot, Slot::Owned(owner) if owner.server == by) {
                *slot = Slot::Released { by, epoch };
                released += 1;
            }
        }
        released
    }

    /// What a restarted server owned begins anew, spread over its workers where their number is another. The
    /// new life holds nothing yet, so there is nothing to let go of.
    pub(crate) fn begin_new_life(&mut self, id: ServerId, new_workers: Option<usize>) {
        let next_epoch = self.next_epoch();
        // WORKERS_MAX fits u16.
        let mut next = (0..new_workers.unwrap_or(0) as u16).cycle();
        let contents = &mut self.contents;
        let epochs = contents.since.iter_mut().zip(&mut contents.stay);
        for (slot, (since, stay)) in contents.slots.iter_mut().zip(epochs) {
            if let Slot::Owned(owner) = slot
                && owner.server == id
            {
                owner.worker = next.next().unwrap_or(owner.worker);
                (*since, *stay) = (next_epoch, next_epoch);
            }
        }
        if new_workers.is_some() {
            contents.accounts.retain(|_, account| account.server != id);
        }
    }

    /// Gives to nobody what was suspected, and what no server owns any more, or a new life of its server.
    pub(crate) fn withhold(&mut self, suspects: &Suspects) {
        let next = self.next_epoch();
        for (cachelet, &died) in suspects {
            let slot = &mut self.contents.slots[usize::from(cachelet.0)];
            let (by, epoch) = match *slot {
                Slot::Released { by, epoch } => (by, epoch),
                Slot::Owned(owner) => (owner.server, next),
                // Not what an owner has lost.
                Slot::Moving(_) | Slot::Quarantined { .. } => continue,
            };
            let died = Some(died);
            *slot = Slot::Quarantined { by, epoch, died };
        }
        if !suspects.is_empty() {
            let lives = suspects.values().flatten();
            self.note(Change {
                cause: Cause::CacheletsQuarantined,
                servers: lives.map(|life| life.server).collect(),
                cachelets: suspects.len(),
                named: suspects.keys().copied().collect(),
            });
        }
    }

    /// Lets a cachelet have an owner again.
    pub(crate) fn end_quarantine(&mut self, cachelet: CacheletId) {
        self.lift(|which, _| which == cachelet);
    }

    /// Lets those have an owner again that are quarantined for the death of that life.
    pub(crate) fn end_quarantines_for(&mut self, boot: BootId) {
        self.lift(|_, died| died.iter().flatten().any(|life| life.boot == boot));
    }

    fn lift(&mut self, is_lifted: impl Fn(CacheletId, Option<[DeadLife; 2]>) -> bool) {
        let (mut servers, mut named) = (BTreeSet::new(), Vec::new());
        for (number, slot) in (0u16..).zip(&mut self.contents.slots) {
            let cachelet = CacheletId(number);
            if let Slot::Quarantined { by, epoch, died } = *slot
                && is_lifted(cachelet, died)
            {
                *slot = Slot::Released { by, epoch };
                servers.extend(died.iter().flatten().map(|life| life.server));
                named.push(cachelet);
            }
        }
        if !named.is_empty() {
            self.note(Change {
                cause: Cause::QuarantineEnded,
                servers,
                cachelets: named.len(),
                named,
            });
        }
    }

    /// Something will be different in the next map.
    pub(crate) fn note(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Something will be different of a server.
    pub(crate) fn note_server(&mut self, cause: Cause, server: ServerId) {
        self.note(Change::of_server(cause, server));
    }

    /// Adds a migration to the changes, which become one event for each cause.
    pub(crate) fn note_migration(&mut self, cause: Cause, moving: &Moving) {
        let known = self.changes.iter().position(|change| change.cause == cause);
        let at = known.unwrap_or_else(|| {
            let change = Change::of_cachelets(cause, BTreeSet::new(), 0);
            self.changes.push(change);
            self.changes.len() - 1
        });
        let change = &mut self.changes[at];
        change
            .servers
            .extend([moving.from.server, moving.to.server]);
        change.cachelets += 1;
    }

    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// What the next map changes; from here on it is made.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        core::mem::take(&mut self.changes)
    }
}
