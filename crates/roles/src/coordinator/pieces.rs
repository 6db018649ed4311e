//! Splitting cachelets, and merging them.
//!
//! Both change which cachelet virtual nodes are in, and neither their owner nor their contents. So the next map says it
//! at once, clients route as before, and the owner sees to it by itself (see
//! [`server`](crate::server), `recut`). What begins before that is over, begins later there.
//!
//! A cachelet that ends by a merge leaves its number, which the next split takes.
//!
//! [Shares](super::placing) of cachelets stay as they are: a half that a split has made counts for none, and one that has
//! taken others in for as many as they were. Otherwise cachelets would move for the sake of even numbers, which is not
//! what anybody wants where one was too hot or some too cold. Once it gets another owner for shares, each is one
//! like all others.

use evenkeel_policy::placement::map::MergedNode;
use evenkeel_types::{CacheletId, Epoch, Now, VirtualNode, WorkerRef};

use serde::{Deserialize, Serialize};

use super::event::Cause;
use super::limits::CACHELETS_MAX;
use super::placing::Slot;
use super::{Change, CoordinatorCore};

/// Why a cachelet is not split, or two are not merged. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PiecesRefusal {
    /// There is no such cachelet.
    #[error("there is no cachelet {cachelet}")]
    UnknownCachelet {
        /// The number.
        cachelet: CacheletId,
    },
    /// It has no owner, or is moving to another server.
    #[error("cachelet {cachelet} is changing hands, or quarantined")]
    ChangingHands {
        /// The cachelet.
        cachelet: CacheletId,
    },
    /// Its owner is down, or of a version that cannot do it.
    #[error("server {server:?} is down, or too old to split and merge cachelets")]
    Unable {
        /// Its name.
        server: String,
    },
    /// It is a single virtual node.
    #[error("cachelet {cachelet} is one virtual node, which cannot be divided")]
    Indivisible {
        /// The cachelet.
        cachelet: CacheletId,
    },
    /// No more cachelets fit a map.
    #[error("there are {CACHELETS_MAX} cachelets already")]
    TooMany,
    /// Two that are to be merged have different owners, or are the same.
    #[error("cachelets {} and {} are not two of one worker", .cachelets[0], .cachelets[1])]
    NotOfOneWorker {
        /// The two.
        cachelets: [CacheletId; 2],
    },
}

/// A cachelet that was split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitView {
    /// The one that there was. It keeps the lower half of its virtual nodes.
    pub cachelet: CacheletId,
    /// The new one.
    pub half: CacheletId,
    /// The map that says so.
    pub epoch: Epoch,
}

/// An operator's wish to merge a cachelet with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MergeRequest {
    /// The one that becomes a part of the first. There is none of its number afterwards.
    pub with: CacheletId,
}

/// Two cachelets that were merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeView {
    /// The one that there is.
    pub cachelet: CacheletId,
    /// The one that has become a part of it.
    pub merged: CacheletId,
    /// The map that says so.
    pub epoch: Epoch,
}

impl CoordinatorCore {
    /// Splits a cachelet for an operator. Gives the new half.
    ///
    /// # Errors
    ///
    /// It is not possible.
    pub fn split_cachelet(
        &mut self,
        now: Now,
        cachelet: CacheletId,
    ) -> Result<SplitView, PiecesRefusal> {
        self.notice_pause(now.monotonic);
        let mut changes = Vec::new();
        let half = self.split(cachelet, &mut changes);
        self.finish(now, changes);
        let epoch = self.epoch;
        half.map(|half| SplitView {
            cachelet,
            half,
            epoch,
        })
    }

    /// Merges two cachelets of one worker for an operator. The first one stays.
    ///
    /// # Errors
    ///
    /// It is not possible.
    pub fn merge_cachelets(
        &mut self,
        now: Now,
        cachelets: [CacheletId; 2],
    ) -> Result<MergeView, PiecesRefusal> {
        self.notice_pause(now.monotonic);
        let mut changes = Vec::new();
        let done = self.merge(cachelets, &mut changes);
        self.finish(now, changes);
        let [cachelet, merged] = cachelets;
        let epoch = self.epoch;
        done.map(|()| MergeView {
            cachelet,
            merged,
            epoch,
        })
    }

    /// Half of the virtual nodes of a cachelet become another one. O(virtual nodes).
    pub(super) fn split(
        &mut self,
        cachelet: CacheletId,
        changes: &mut Vec<Change>,
    ) -> Result<CacheletId, PiecesRefusal> {
        let owner = self.may_recut(cachelet)?;
        let nodes = self.nodes_of(cachelet);
        if nodes.len() < 2 {
            return Err(PiecesRefusal::Indivisible { cachelet });
        }
        let half = self.unused_cachelet()?;
        let (from, into) = (usize::from(cachelet.0), usize::from(half.0));
        if into == self.slots.len() {
            self.slots.push(Slot::Merged);
            self.since.push(Epoch(0));
            self.stay.push(Epoch(0));
        }
        self.slots[into] = Slot::Owned(owner);
        (self.since[into], self.stay[into]) = (self.since[from], self.stay[from]);
        for node in &nodes[nodes.len() / 2..] {
            self.virtual_nodes[*node] = half;
        }
        self.weights.insert(half, 0);
        changes.push(Change {
            cachelets: 1,
            ..Change::of_server(Cause::CacheletsSplit, owner.server)
        });
        Ok(half)
    }

    /// The second cachelet becomes a part of the first. O(virtual nodes).
    pub(super) fn merge(
        &mut self,
        cachelets: [CacheletId; 2],
        changes: &mut Vec<Change>,
    ) -> Result<(), PiecesRefusal> {
        let [into, from] = cachelets;
        let owner = self.may_recut(into)?;
        if into == from || self.may_recut(from)? != owner {
            return Err(PiecesRefusal::NotOfOneWorker { cachelets });
        }
        let ends = usize::from(from.0);
        let (since, stay) = (self.since[ends], self.stay[ends]);
        for node in self.nodes_of(from) {
            self.virtual_nodes[node] = into;
            // VIRTUAL_NODES_MAX positions fit u16.
            let virtual_node = VirtualNode(node as u16);
            let at = (self.merged).binary_search_by_key(&virtual_node, |node| node.virtual_node);
            if let Err(at) = at {
                let node = MergedNode {
                    virtual_node,
                    since,
                    stay,
                };
                self.merged.insert(at, node);
            }
        }
        self.slots[ends] = Slot::Merged;
        self.accounts.remove(&from);
        let of_from = self.weights.remove(&from).unwrap_or(1);
        *self.weights.entry(into).or_insert(1) += of_from;
        self.migrations.forget_failure(from);
        changes.push(Change {
            cachelets: 1,
            ..Change::of_server(Cause::CacheletsMerged, owner.server)
        });
        Ok(())
    }

    /// The owner, if it can make two of a cachelet or one of two.
    fn may_recut(&self, cachelet: CacheletId) -> Result<WorkerRef, PiecesRefusal> {
        let owner = match self.slots.get(usize::from(cachelet.0)) {
            None | Some(Slot::Merged) => return Err(PiecesRefusal::UnknownCachelet { cachelet }),
            Some(Slot::Moving(_) | Slot::Released { .. } | Slot::Quarantined { .. }) => {
                return Err(PiecesRefusal::ChangingHands { cachelet });
            }
            Some(Slot::Owned(owner)) => *owner,
        };
        if self.is_just_placed(cachelet) {
            return Err(PiecesRefusal::ChangingHands { cachelet });
        }
        let server = &self.servers[usize::from(owner.server.0)];
        if !server.entry.up || !server.splits {
            let server = server.entry.name.clone();
            return Err(PiecesRefusal::Unable { server });
        }
        Ok(owner)
    }

    fn nodes_of(&self, cachelet: CacheletId) -> Vec<usize> {
        let nodes = self.virtual_nodes.iter().enumerate();
        nodes
            .filter_map(|(node, its)| (*its == cachelet).then_some(node))
            .collect()
    }

    /// A number that no cachelet has.
    fn unused_cachelet(&self) -> Result<CacheletId, PiecesRefusal> {
        let left = self.slots.iter().position(|slot| *slot == Slot::Merged);
        let number = left.unwrap_or(self.slots.len());
        if number >= CACHELETS_MAX {
            return Err(PiecesRefusal::TooMany);
        }
        // CACHELETS_MAX positions fit u16.
        Ok(CacheletId(number as u16))
    }

    /// A cachelet has passed to another server as one, or begins anew: its pieces have the same history from here on.
    /// Gives the newest `since` of those that had another.
    pub(super) fn unite_histories(&mut self, cachelet: usize) -> Epoch {
        let of_it = |node: &MergedNode| {
            let its = self.virtual_nodes[usize::from(node.virtual_node.0)];
            usize::from(its.0) == cachelet
        };
        let (its, others) = self.merged.iter().partition(|node| of_it(node));
        self.merged = others;
        let its: Vec<MergedNode> = its;
        its.iter().map(|node| node.since).max().unwrap_or_default()
    }
}
