//! Who has a cachelet, at present or soon.

use evenkeel_types::map::Migration;
use evenkeel_types::{BootId, CacheletId, Epoch, ServerId, WorkerRef};
use serde::{Deserialize, Serialize};

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
    /// Nobody, until an operator says so: its owners died one after the other (see `quarantine`). Of who had it last as
    /// of what is released.
    Quarantined {
        /// The last owner.
        by: ServerId,
        /// First map in which nobody had it.
        epoch: Epoch,
        /// Who died; absent where a coordinator without state has it from a map.
        died: Option<[DeadLife; 2]>,
    },
}

/// A life of a server that ended without a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLife {
    /// The server.
    pub server: ServerId,
    /// Which of its lives.
    pub boot: BootId,
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
    pub(crate) fn owner(self) -> Option<WorkerRef> {
        match self {
            Slot::Owned(worker) => Some(worker),
            Slot::Moving(moving) => Some(moving.from),
            Slot::Released { .. } | Slot::Quarantined { .. } => None,
        }
    }

    pub(crate) fn is_quarantined(&self) -> bool {
        matches!(self, Slot::Quarantined { .. })
    }

    /// The migration as a map has it.
    pub(crate) fn migration(self, cachelet: CacheletId) -> Option<Migration> {
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
