//! Quarantine: a cachelet whose owners die one after the other is given to nobody, until an operator says so.
//!
//! A request that crashes a server is asked again when its key has another owner, and so goes from server to server. Who
//! crashed does not say of what; but when the next owner of a cachelet dies soon after the former one, it may well have been
//! one of its keys. So it is remembered which virtual nodes a server had that *died*: it
//! fell silent and was given up, or its name has passed to another process, and neither was announced. When another life that
//! has some of them dies within [`DEATHS_COUNT_FOR`], cachelets with these are *quarantined*: the map gives them to nobody
//! and says so, and whoever is asked for their keys answers with an error. Everything else is given on. So one key
//! ends two lives, of two servers or of one that was started again.
//!
//! Servers die of other things too, and one after the other where they are killed by hand or for want of memory. What keeps
//! the loss small then:
//!
//! - Two deaths explain each other *once*: with a quarantine all that else was suspected because of them is forgotten, for
//!   the cause was found, if it was a key. Who kills eight servers one after the other, loses 18 of 256 cachelets
//!   to quarantines instead of 66.
//! - At most one of [`QUARANTINED_PART`] cachelets is quarantined. More than that is no key but a cluster in trouble.
//! - Who has said goodbye, was removed by an operator, or was being emptied, has not died.
//! - Nor has a life that is heard of again after it was given up: whatever was concluded from its death is taken back.
//!
//! Rejected: see `docs/decisions/010-killer-keys.md`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use evenkeel_types::{BootId, CacheletId, Epoch, Instant, Now, ServerId, VirtualNode};
use serde::{Deserialize, Serialize};

use super::event::Cause;
use super::limits::{DEATHS_COUNT_FOR, QUARANTINED_PART};
use super::placing::Slot;
use super::{Change, CoordinatorCore};

/// A life of a server that ended without a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLife {
    /// The server.
    pub server: ServerId,
    /// Which of its lives.
    pub boot: BootId,
}

/// What a server had that has died, as far as nobody has died with it since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedDeath {
    /// Who has died.
    pub life: DeadLife,
    /// What it had.
    pub virtual_nodes: BTreeSet<VirtualNode>,
}

/// Lives that have ended lately, the latest last. A virtual node is in one of them at most, the latest.
#[derive(Debug, Default)]
pub(super) struct Deaths(VecDeque<(Instant, SavedDeath)>);

impl Deaths {
    /// Those of a former coordinator count as if they had happened now: nothing is known of its clock.
    pub(super) fn restore(now: Instant, saved: Vec<SavedDeath>) -> Self {
        Deaths(saved.into_iter().map(|death| (now, death)).collect())
    }

    pub(super) fn saved(&self) -> Vec<SavedDeath> {
        self.0.iter().map(|(_, death)| death.clone()).collect()
    }

    /// Forgets deaths that lie too far back. True if there were any.
    fn forget_old(&mut self, now: Instant) -> bool {
        let before = self.0.len();
        self.0.retain(|(at, _)| now.since(*at) < DEATHS_COUNT_FOR);
        self.0.len() < before
    }

    fn forget(&mut self, is_it: impl Fn(&DeadLife) -> bool) {
        self.0.retain(|(_, death)| !is_it(&death.life));
    }

    fn push(&mut self, now: Instant, death: SavedDeath) {
        for (_, former) in &mut self.0 {
            former
                .virtual_nodes
                .retain(|node| !death.virtual_nodes.contains(node));
        }
        self.0
            .retain(|(_, former)| !former.virtual_nodes.is_empty());
        self.0.push_back((now, death));
    }
}

/// Cachelets whose owners died one after the other, each with the two lives.
pub(super) type Suspects = BTreeMap<CacheletId, [DeadLife; 2]>;

/// A cachelet in quarantine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantinedView {
    /// Which.
    pub cachelet: CacheletId,
    /// The owners that died, the first one first; none where a coordinator without state has it from a map.
    pub servers: Vec<String>,
}

/// A cachelet that may have an owner again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasedView {
    /// Which.
    pub cachelet: CacheletId,
    /// The map that says so. Its owner stands there or in a later one.
    pub epoch: Epoch,
}

/// Why a cachelet is not released. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseRefusal {
    /// There is no such cachelet.
    #[error("there is no cachelet {cachelet}")]
    UnknownCachelet {
        /// The number.
        cachelet: CacheletId,
    },
    /// It has an owner, or is about to get one.
    #[error("cachelet {cachelet} is not quarantined")]
    NotQuarantined {
        /// The cachelet.
        cachelet: CacheletId,
    },
}

impl CoordinatorCore {
    /// Lets a cachelet have an owner again, for an operator.
    ///
    /// # Errors
    ///
    /// See [`ReleaseRefusal`].
    pub fn release_cachelet(
        &mut self,
        now: Now,
        cachelet: CacheletId,
    ) -> Result<ReleasedView, ReleaseRefusal> {
        match self.slots.get(usize::from(cachelet.0)) {
            None => return Err(ReleaseRefusal::UnknownCachelet { cachelet }),
            Some(Slot::Quarantined { .. }) => {}
            Some(_) => return Err(ReleaseRefusal::NotQuarantined { cachelet }),
        }
        self.notice_pause(now.monotonic);
        let mut changes = Vec::new();
        self.lift(|which, _| which == cachelet, &mut changes);
        self.finish(now, changes);
        Ok(ReleasedView {
            cachelet,
            epoch: self.epoch,
        })
    }

    /// Cachelets in quarantine, in ascending order. O(cachelets).
    pub fn quarantined(&self) -> Vec<QuarantinedView> {
        let name = |life: &DeadLife| {
            let entry = &self.servers[usize::from(life.server.0)].entry;
            entry.name.clone()
        };
        let view = |(cachelet, slot): (u16, &Slot)| match slot {
            Slot::Quarantined { died, .. } => Some(QuarantinedView {
                cachelet: CacheletId(cachelet),
                servers: died.iter().flatten().map(name).collect(),
            }),
            _ => None,
        };
        (0u16..).zip(&self.slots).filter_map(view).collect()
    }

    /// A server is about to lose what it owns, without having said so before. Gives what is to be
    /// [withheld](Self::withhold). O(virtual nodes).
    pub(super) fn note_death(&mut self, now: Instant, id: ServerId) -> Suspects {
        let mut suspects = Suspects::new();
        let server = &self.servers[usize::from(id.0)];
        if server.fence.is_over() || server.drain.is_some() {
            return suspects;
        }
        let life = DeadLife {
            server: id,
            boot: server.entry.boot,
        };
        let is_its = |cachelet: CacheletId| {
            let owner = self.slots[usize::from(cachelet.0)].owner();
            owner.is_some_and(|owner| owner.server == id)
        };
        let nodes = (0u16..).zip(&self.virtual_nodes);
        let virtual_nodes: BTreeSet<_> = nodes
            .filter(|(_, cachelet)| is_its(**cachelet))
            .map(|(node, _)| VirtualNode(node))
            .collect();
        if virtual_nodes.is_empty() {
            return suspects;
        }
        self.deaths.forget_old(now);
        for (_, former) in &self.deaths.0 {
            for node in former.virtual_nodes.intersection(&virtual_nodes) {
                let cachelet = self.virtual_nodes[usize::from(node.0)];
                suspects.insert(cachelet, [former.life, life]);
            }
        }
        let quarantined = self.slots.iter().filter(|slot| slot.is_quarantined());
        let is_too_much =
            (quarantined.count() + suspects.len()) * QUARANTINED_PART > self.slots.len();
        if is_too_much && !suspects.is_empty() {
            self.counters.quarantines_omitted += 1;
            suspects.clear();
        }
        if suspects.is_empty() {
            let death = SavedDeath {
                life,
                virtual_nodes,
            };
            self.deaths.push(now, death);
        } else {
            let explains = |life: &DeadLife| suspects.values().any(|lives| lives[0] == *life);
            self.deaths.forget(explains);
        }
        suspects
    }

    /// Gives to nobody what was suspected, and what no server owns any more, or a new life of its server.
    pub(super) fn withhold(&mut self, suspects: &Suspects, changes: &mut Vec<Change>) {
        let next = self.next_epoch();
        for (cachelet, &died) in suspects {
            let slot = &mut self.slots[usize::from(cachelet.0)];
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
            changes.push(Change {
                cause: Cause::CacheletsQuarantined,
                servers: suspects
                    .values()
                    .flatten()
                    .map(|life| life.server)
                    .collect(),
                cachelets: suspects.len(),
                named: suspects.keys().copied().collect(),
            });
        }
    }

    /// A life is heard of again that was given up.
    pub(super) fn note_alive(&mut self, boot: BootId, changes: &mut Vec<Change>) {
        self.deaths.forget(|life| life.boot == boot);
        let has_not_died = |_, died: Option<[DeadLife; 2]>| {
            let mut died = died.iter().flatten();
            died.any(|life| life.boot == boot)
        };
        self.lift(has_not_died, changes);
    }

    /// Whether an id means somebody who has died, so that no other may have it.
    pub(super) fn remembers_death_of(&self, id: ServerId) -> bool {
        let mut deaths = self.deaths.0.iter();
        let names = |slot: &Slot| match slot {
            Slot::Quarantined { by, died, .. } => {
                *by == id || died.iter().flatten().any(|life| life.server == id)
            }
            _ => false,
        };
        deaths.any(|(_, death)| death.life.server == id) || self.slots.iter().any(names)
    }

    /// Forgets deaths that lie too far back.
    pub(super) fn forget_deaths(&mut self, now: Instant) {
        let has_forgotten = self.deaths.forget_old(now);
        self.revision += u64::from(has_forgotten);
    }

    fn lift(
        &mut self,
        is_lifted: impl Fn(CacheletId, Option<[DeadLife; 2]>) -> bool,
        changes: &mut Vec<Change>,
    ) {
        let (mut servers, mut named) = (BTreeSet::new(), Vec::new());
        for (number, slot) in (0u16..).zip(&mut self.slots) {
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
            changes.push(Change {
                cause: Cause::QuarantineEnded,
                servers,
                cachelets: named.len(),
                named,
            });
        }
    }
}

const _: () = assert!(QUARANTINED_PART > 2, "less than half of a cluster");
