//! Quarantine: a cachelet whose owners die one after the other is given to nobody, until an operator says so.
//!
//! A request that crashes a server is asked again when its key has another owner, and so goes from server to server. Who
//! crashed does not say of what; but when the next owner of a cachelet dies soon after the former one, it may well have been
//! one of its keys. So it is remembered which virtual nodes a server had that *died*: it
//! fell silent and was given up, or its name has passed to another process, and neither was announced. When another life that
//! has some of them dies within [`DEATHS_COUNT_FOR`], cachelets with these are *quarantined*: the map gives them to nobody
//! and says so, and anyone who is asked for their keys answers with an error. Everything else is given on. So one key
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

use std::collections::{BTreeSet, VecDeque};

use evenkeel_types::{BootId, CacheletId, Epoch, Instant, ServerId, VirtualNode};
use serde::{Deserialize, Serialize};

use crate::limits::{DEATHS_COUNT_FOR, QUARANTINED_PART};
use crate::map_draft::{MapDraft, Suspects};
use crate::members::{Members, Server};
use crate::placing::{DeadLife, Slot};

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
pub(crate) struct Deaths(VecDeque<(Instant, SavedDeath)>);

impl Deaths {
    /// Those of a former coordinator count as if they had happened now: nothing is known of its clock.
    pub(crate) fn restore(now: Instant, saved: Vec<SavedDeath>) -> Self {
        Deaths(saved.into_iter().map(|death| (now, death)).collect())
    }

    pub(crate) fn saved(&self) -> Vec<SavedDeath> {
        self.0.iter().map(|(_, death)| death.clone()).collect()
    }

    /// Forgets deaths that lie too far back. True if there were any.
    pub(crate) fn forget_old(&mut self, now: Instant) -> bool {
        let before = self.0.len();
        self.0.retain(|(at, _)| now.since(*at) < DEATHS_COUNT_FOR);
        self.0.len() < before
    }

    /// A life is heard of again that was given up.
    pub(crate) fn note_alive(&mut self, boot: BootId) {
        self.forget(|life| life.boot == boot);
    }

    /// Whether one of those who have died had this id.
    pub(crate) fn name(&self, id: ServerId) -> bool {
        let mut deaths = self.0.iter();
        deaths.any(|(_, death)| death.life.server == id)
    }

    /// A server is about to lose what it owns, without having said so before. O(virtual nodes).
    pub(crate) fn note(&mut self, now: Instant, server: &Server, draft: &MapDraft) -> Conclusion {
        let id = server.entry.id;
        if server.fence.is_over() || server.drain.is_some() {
            return Conclusion::default();
        }
        let virtual_nodes = draft.virtual_nodes_of(id);
        if virtual_nodes.is_empty() {
            return Conclusion::default();
        }
        let life = DeadLife {
            server: id,
            boot: server.entry.boot,
        };
        self.forget_old(now);
        let mut suspects = Suspects::new();
        for (_, former) in &self.0 {
            for node in former.virtual_nodes.intersection(&virtual_nodes) {
                let cachelet = draft.contents().virtual_nodes[usize::from(node.0)];
                suspects.insert(cachelet, [former.life, life]);
            }
        }
        let quarantined = draft.slots().iter().filter(|slot| slot.is_quarantined());
        let is_too_much =
            (quarantined.count() + suspects.len()) * QUARANTINED_PART > draft.slots().len();
        let is_omitted = is_too_much && !suspects.is_empty();
        if is_omitted {
            suspects.clear();
        }
        if suspects.is_empty() {
            let death = SavedDeath {
                life,
                virtual_nodes,
            };
            self.push(now, death);
        } else {
            let explains = |life: &DeadLife| suspects.values().any(|lives| lives[0] == *life);
            self.forget(explains);
        }
        Conclusion {
            suspects,
            is_omitted,
        }
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

/// What follows from a death.
#[derive(Debug, Default)]
pub(crate) struct Conclusion {
    /// What is to be withheld once its owner has lost it.
    pub(crate) suspects: Suspects,
    /// Something was suspected, and is given on all the same because it is too much.
    pub(crate) is_omitted: bool,
}

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

/// Cachelets in quarantine, in ascending order. O(cachelets).
pub(crate) fn quarantined(draft: &MapDraft, members: &Members) -> Vec<QuarantinedView> {
    let name = |life: &DeadLife| members.server(life.server).entry.name.clone();
    let view = |(cachelet, slot): (u16, &Slot)| match slot {
        Slot::Quarantined { died, .. } => Some(QuarantinedView {
            cachelet: CacheletId(cachelet),
            servers: died.iter().flatten().map(name).collect(),
        }),
        _ => None,
    };
    (0u16..).zip(draft.slots()).filter_map(view).collect()
}

/// Checks whether a cachelet can be let have an owner again.
pub(crate) fn check_release(draft: &MapDraft, cachelet: CacheletId) -> Result<(), ReleaseRefusal> {
    match draft.slot(cachelet) {
        None => Err(ReleaseRefusal::UnknownCachelet { cachelet }),
        Some(Slot::Quarantined { .. }) => Ok(()),
        Some(_) => Err(ReleaseRefusal::NotQuarantined { cachelet }),
    }
}

const _: () = assert!(QUARANTINED_PART > 2, "less than half of a cluster");
