//! Operations under way: commands of applications that take several requests to servers, step by step.
//!
//! What each asks next is decided by a pure machine ([`Warming`]); here is what it works with: the application's own request, what was
//! fetched, and the connection on which it learnt a unique. `under_way/operation.rs` asks and hears.

use crate::failure::Failure;
use crate::ids::{BackendId, ClientId, PoolId};
use crate::limits::{OPERATION_BYTES_MAX, OPERATIONS_MAX};
use crate::pipe::in_flight::{Asker, Question, Tag};
use crate::slab::{Key, Slab};
use evenkeel_schemes::warm::{Command, Warming};
use evenkeel_types::Instant;
use std::collections::BTreeMap;

/// Names an operation, also in the tag of a step, which nobody's connection asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OperationId(Key);

impl OperationId {
    /// As the slot in a step's tag.
    pub fn slot(self) -> u64 {
        self.0.to_number()
    }

    /// Whose step a request is, if it is one.
    pub fn of_step(tag: &Tag) -> Option<Self> {
        (tag.asker == Asker::Step).then_some(OperationId(Key::of_number(tag.slot)))
    }
}

/// What was fetched at the former place.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub flags: u32,
    /// Seconds that it has to live; `None` for ever.
    pub ttl: Option<u64>,
    pub value: Vec<u8>,
}

/// An operation under way.
#[derive(Debug)]
pub(crate) struct Operation {
    pub machine: Warming,
    /// The application's request; its tag names who waits for the answer.
    pub question: Question,
    /// Whether it fills or refreshes a copy, for nobody who waits.
    pub is_fill: bool,
    /// Whether the application has its answer, and what is left is done for nobody.
    pub is_told: bool,
    /// The application's further requests wait for it.
    pub holds_back: bool,
    /// The key as it is stored.
    pub key: Box<[u8]>,
    /// As it is stored at the former place, where that is another name.
    pub former_key: Option<Box<[u8]>>,
    pub former: PoolId,
    /// By which version of its pool's step it was begun.
    pub version: u64,
    /// Servers of lists that the key is at, here and at the former place, and in which era: finding them takes a hash of the key.
    pub homes: [Option<(u64, BackendId)>; 2],
    /// What is asked at present.
    pub asked: Command,
    /// Whether the former place had an item, which was deleted.
    pub was_at_former: bool,
    pub fetched: Option<Fetched>,
    /// The connection on which it has learnt a unique, and which of those to its server that is.
    pub learnt_on: Option<(BackendId, u64)>,
    /// No further step begins from then on.
    pub give_up: Instant,
    /// Why its last step failed.
    pub failure: Option<Failure>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    slab: Slab<Operation>,
    /// Those whose application waits, by the place of its answer.
    by_slot: BTreeMap<(ClientId, u64), OperationId>,
    /// Bytes of requests and fetched values.
    bytes: usize,
    /// How many fill or refresh copies.
    fills: usize,
    /// Those whose step has failed, which have not heard it.
    failed: Vec<(OperationId, Failure)>,
}

impl Operations {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slab.len() == 0
    }

    /// Whether another one can begin that keeps this many bytes.
    pub fn has_room(&self, len: usize) -> bool {
        self.slab.len() < OPERATIONS_MAX && self.bytes + len <= OPERATION_BYTES_MAX
    }

    /// How many fill or refresh copies.
    pub fn fills(&self) -> usize {
        self.fills
    }

    pub fn insert(&mut self, operation: Operation) -> OperationId {
        let tag = operation.question.tag;
        self.bytes += operation.bytes();
        self.fills += usize::from(operation.is_fill);
        let is_told = operation.is_told;
        let id = OperationId(self.slab.insert(operation));
        if !is_told {
            self.by_slot.insert((tag.client, tag.slot), id);
        }
        id
    }

    pub fn get(&self, id: OperationId) -> Option<&Operation> {
        self.slab.get(id.0)
    }

    pub fn get_mut(&mut self, id: OperationId) -> Option<&mut Operation> {
        self.slab.get_mut(id.0)
    }

    /// The one whose answer goes to a place.
    pub fn of_slot(&self, client: ClientId, slot: u64) -> Option<OperationId> {
        self.by_slot.get(&(client, slot)).copied()
    }

    /// Keeps what was fetched.
    pub fn keep(&mut self, id: OperationId, fetched: Fetched) {
        if let Some(operation) = self.slab.get_mut(id.0) {
            self.bytes += fetched.value.len();
            let before = operation.fetched.replace(fetched);
            self.bytes -= before.map_or(0, |before| before.value.len());
        }
    }

    /// The application has its answer, or is not there any more: what it has asked is not needed for it. Who it is, where its further
    /// requests waited.
    pub fn told(&mut self, id: OperationId) -> Option<ClientId> {
        let operation = self.slab.get_mut(id.0)?;
        operation.is_told = true;
        let tag = operation.question.tag;
        self.by_slot.remove(&(tag.client, tag.slot));
        core::mem::take(&mut operation.holds_back).then_some(tag.client)
    }

    /// It is over.
    pub fn remove(&mut self, id: OperationId) {
        if let Some(operation) = self.slab.remove(id.0) {
            self.bytes -= operation.bytes();
            self.fills -= usize::from(operation.is_fill);
            let tag = operation.question.tag;
            if !operation.is_told {
                self.by_slot.remove(&(tag.client, tag.slot));
            }
        }
    }

    /// A step could not be asked, or nobody knows what came of it.
    pub fn step_failed(&mut self, id: OperationId, failure: Failure) {
        self.failed.push((id, failure));
    }

    /// Whether any is to hear that.
    pub fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// The next one that is to hear that.
    pub fn pop_failed(&mut self) -> Option<(OperationId, Failure)> {
        self.failed.pop()
    }

    /// Whether any of a pool was begun by an earlier version of its step. O(operations).
    pub fn began_before(&self, pool: PoolId, version: u64) -> bool {
        let mut operations = self.slab.iter().map(|(_, operation)| operation);
        let is_of = |operation: &Operation| operation.question.tag.pool == pool;
        operations.any(|operation| is_of(operation) && operation.version < version)
    }

    /// Whether any works with a pool. O(operations).
    pub fn use_pool(&self, pool: PoolId) -> bool {
        let mut operations = self.slab.iter().map(|(_, operation)| operation);
        operations.any(|operation| operation.former == pool || operation.question.tag.pool == pool)
    }
}

impl Operation {
    /// The key as it is stored at the former place.
    pub fn former_key(&self) -> &[u8] {
        self.former_key.as_deref().unwrap_or(&self.key)
    }

    fn bytes(&self) -> usize {
        let fetched = self.fetched.as_ref();
        self.question.bytes.len() + fetched.map_or(0, |fetched| fetched.value.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipe::in_flight::{Ask, Progress};
    use evenkeel_schemes::warm::Wish;

    fn operation(slot: u64, len: usize) -> Operation {
        let client = ClientId(Key {
            slot: 1,
            generation: 0,
        });
        let pool = PoolId(client.0);
        let (machine, asked) = Warming::of_write(Wish::Overwrite, true);
        Operation {
            machine,
            question: Question {
                tag: Tag::new(client, pool, slot, Ask::Single, Instant(0)),
                bytes: vec![0; len],
                progress: Progress::Nothing,
            },
            is_fill: false,
            is_told: false,
            holds_back: true,
            key: Box::default(),
            former_key: None,
            former: pool,
            version: 0,
            homes: [None; 2],
            asked,
            was_at_former: false,
            fetched: None,
            learnt_on: None,
            give_up: Instant(0),
            failure: None,
        }
    }

    #[test]
    fn their_number_and_their_bytes_are_bounded() {
        let mut operations = Operations::default();
        let large = operations.insert(operation(0, OPERATION_BYTES_MAX));
        assert!(operations.has_room(0) && !operations.has_room(1));
        operations.remove(large);
        assert!(operations.has_room(OPERATION_BYTES_MAX));
        let ids: Vec<_> = (0..OPERATIONS_MAX as u64)
            .map(|slot| operations.insert(operation(slot, 1)))
            .collect();
        assert!(!operations.has_room(0));
        let fetched = |len| Fetched {
            flags: 0,
            ttl: None,
            value: vec![0; len],
        };
        operations.keep(ids[7], fetched(5));
        operations.keep(ids[7], fetched(3));
        assert_eq!(operations.bytes, OPERATIONS_MAX + 3);
        ids.into_iter().for_each(|id| operations.remove(id));
        assert!(operations.is_empty() && operations.by_slot.is_empty());
        assert_eq!(operations.bytes, 0);
    }

    #[test]
    fn one_whose_application_has_its_answer_is_found_by_its_steps_alone() {
        let mut operations = Operations::default();
        let id = operations.insert(operation(3, 1));
        let tag = operation(3, 1).question.tag;
        assert_eq!(operations.of_slot(tag.client, 3), Some(id));
        assert_eq!(OperationId::of_step(&tag), None, "an application's");
        let step = Tag {
            asker: Asker::Step,
            slot: id.slot(),
            ..tag
        };
        assert_eq!(OperationId::of_step(&step), Some(id));
        assert_eq!(operations.told(id), Some(tag.client), "may ask more now");
        assert_eq!(operations.told(id), None, "once");
        assert_eq!(operations.of_slot(tag.client, 3), None);
        assert!(operations.get(id).is_some() && operations.use_pool(tag.pool));
        operations.remove(id);
        let next = operations.insert(operation(3, 1));
        assert!(operations.get(id).is_none(), "a late step finds nobody");
        assert!(operations.get(next).is_some());
    }
}
