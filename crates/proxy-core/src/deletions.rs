//! Copies that are being deleted behind writes: each write is answered when all of its copies are heard of, or when that has taken too long.

use crate::client::Answered;
use crate::ids::{BackendId, ClientId, PoolId};
use crate::pipe::in_flight::{Asker, Tag};
use crate::slab::{Key, Slab};
use evenkeel_schemes::copies::Deleting;
use evenkeel_types::Instant;
use std::collections::BTreeSet;

/// Names the deletes behind one write, also in their tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeletionId(Key);

impl DeletionId {
    /// As the slot in a delete's tag.
    pub fn slot(self) -> u64 {
        self.0.to_number()
    }

    /// Behind which write a request deletes, if it is one that does.
    pub fn of(tag: &Tag) -> Option<Self> {
        (tag.asker == Asker::Deletion).then_some(DeletionId(Key::of_number(tag.slot)))
    }
}

/// The deletes behind one write.
#[derive(Debug)]
pub(crate) struct Deletion {
    pub pool: PoolId,
    /// Who waits for the write, where its answer stands among the others, and what it is.
    pub client: ClientId,
    pub slot: u64,
    pub answered: Answered,
    pub machine: Deleting,
    /// What the copies are called.
    pub name: Box<[u8]>,
    /// Servers that have not confirmed it.
    pub left: Vec<BackendId>,
    /// When it is not waited for any more.
    pub give_up: Instant,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Deletions {
    slab: Slab<Deletion>,
    /// By when they are given up.
    due: BTreeSet<(Instant, DeletionId)>,
    /// Those of which one has failed, once for each.
    failed: Vec<DeletionId>,
}

impl Deletions {
    pub fn insert(&mut self, deletion: Deletion) -> DeletionId {
        let give_up = deletion.give_up;
        let id = DeletionId(self.slab.insert(deletion));
        self.due.insert((give_up, id));
        id
    }

    pub fn get_mut(&mut self, id: DeletionId) -> Option<&mut Deletion> {
        self.slab.get_mut(id.0)
    }

    pub fn remove(&mut self, id: DeletionId) -> Option<Deletion> {
        let deletion = self.slab.remove(id.0)?;
        self.due.remove(&(deletion.give_up, id));
        Some(deletion)
    }

    /// A delete could not be asked, or nobody knows what came of it.
    pub fn one_failed(&mut self, id: DeletionId) {
        self.failed.push(id);
    }

    /// The next one that is to hear that.
    pub fn pop_failed(&mut self) -> Option<DeletionId> {
        self.failed.pop()
    }

    /// When the first is given up.
    pub fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next one that is given up.
    pub fn pop_due(&mut self, now: Instant) -> Option<Deletion> {
        let (at, id) = *self.due.first()?;
        if at > now {
            return None;
        }
        self.remove(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deletion(give_up: u64) -> Deletion {
        let key = Key {
            slot: 1,
            generation: 0,
        };
        Deletion {
            pool: PoolId(key),
            client: ClientId(key),
            slot: 0,
            answered: Answered::miss(),
            machine: Deleting::new(1),
            name: Box::default(),
            left: Vec::new(),
            give_up: Instant::from_millis(give_up),
        }
    }

    #[test]
    fn they_are_given_up_in_turn_and_not_once_they_are_over() {
        let mut deletions = Deletions::default();
        let [_, second, _] = [30, 10, 20].map(|ms| deletions.insert(deletion(ms)));
        assert_eq!(deletions.deadline(), Some(Instant::from_millis(10)));
        assert!(deletions.pop_due(Instant::from_millis(9)).is_none());
        assert!(deletions.remove(second).is_some());
        let due = deletions.pop_due(Instant::from_millis(25)).expect("one");
        assert_eq!(due.give_up, Instant::from_millis(20));
        assert!(deletions.pop_due(Instant::from_millis(25)).is_none());
        assert!(
            deletions.get_mut(second).is_none(),
            "a late answer finds nobody"
        );
    }
}
