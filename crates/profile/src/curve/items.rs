//! The items of a simulated cache: in lists by age, found by key, gone when their time is over.

use foldhash::fast::FixedState;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// No item.
const NONE: u32 = u32::MAX;

/// An item's place, while it is there.
pub(super) type At = u32;

/// When items end that have no end.
pub(super) const NEVER: u64 = u64::MAX;

/// What is known of an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub key: u64,
    pub bytes: u64,
    /// Microseconds since 1970.
    pub ends_us: u64,
    /// How often it was read, as far as the policy counts.
    pub reads: u8,
    list: usize,
    newer: u32,
    older: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    newest: u32,
    oldest: u32,
    bytes: u64,
}

/// Items in up to three lists.
#[derive(Debug)]
pub(super) struct Items {
    items: Vec<Item>,
    free: Vec<At>,
    by_key: HashMap<u64, At, FixedState>,
    lists: [List; 3],
    /// Ends, keys and places; some of items that are gone or have another end now.
    ends: BinaryHeap<Reverse<(u64, u64, At)>>,
}

impl Items {
    pub fn new() -> Self {
        let empty = List {
            newest: NONE,
            oldest: NONE,
            bytes: 0,
        };
        Items {
            items: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::default(),
            lists: [empty; 3],
            ends: BinaryHeap::new(),
        }
    }

    pub fn find(&self, key: u64) -> Option<At> {
        self.by_key.get(&key).copied()
    }

    pub fn get(&self, at: At) -> &Item {
        &self.items[at as usize]
    }

    pub fn get_mut(&mut self, at: At) -> &mut Item {
        &mut self.items[at as usize]
    }

    /// The list that an item is in.
    pub fn list(&self, at: At) -> usize {
        self.get(at).list
    }

    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Bytes of all items, and of those in a list.
    pub fn bytes(&self) -> u64 {
        self.lists.iter().map(|list| list.bytes).sum()
    }

    pub fn bytes_of(&self, list: usize) -> u64 {
        self.lists[list].bytes
    }

    pub fn oldest(&self, list: usize) -> Option<At> {
        Some(self.lists[list].oldest).filter(|at| *at != NONE)
    }

    /// Puts an item that is not there at the new end of a list. O(1), O(log n) if it has an end.
    pub fn insert(&mut self, list: usize, key: u64, bytes: u64, ends_us: u64) -> At {
        let item = Item {
            key,
            bytes,
            ends_us: NEVER,
            reads: 0,
            list,
            newer: NONE,
            older: NONE,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.items[at as usize] = item;
                at
            }
            None => {
                self.items.push(item);
                (self.items.len() - 1) as At
            }
        };
        self.by_key.insert(key, at);
        self.link(at, list);
        self.end_at(at, ends_us);
        at
    }

    pub fn remove(&mut self, at: At) -> Item {
        self.unlink(at);
        let item = *self.get(at);
        self.by_key.remove(&item.key);
        self.free.push(at);
        item
    }

    /// Moves an item to the new end of a list.
    pub fn renew(&mut self, at: At, list: usize) {
        self.unlink(at);
        self.link(at, list);
    }

    /// Gives an item another end.
    pub fn end_at(&mut self, at: At, ends_us: u64) {
        let item = self.get_mut(at);
        item.ends_us = ends_us;
        let key = item.key;
        if ends_us == NEVER {
            return;
        }
        self.ends.push(Reverse((ends_us, key, at)));
        // Items that are stored again and again leave their former ends behind.
        if self.ends.len() > 2 * self.len() + 64 {
            let left = self.by_key.iter().filter_map(|(key, at)| {
                let ends_us = self.items[*at as usize].ends_us;
                (ends_us != NEVER).then_some(Reverse((ends_us, *key, *at)))
            });
            self.ends = left.collect();
        }
    }

    /// Removes what has ended.
    pub fn expire(&mut self, now_us: u64) {
        while let Some(&Reverse((ends_us, key, at))) = self.ends.peek() {
            if ends_us > now_us {
                return;
            }
            self.ends.pop();
            let item = self.get(at);
            if self.find(key) == Some(at) && item.ends_us == ends_us {
                self.remove(at);
            }
        }
    }

    /// Removes items whose keys do not stay.
    pub fn retain(&mut self, stays: impl Fn(u64) -> bool) {
        let gone = self.by_key.iter().filter(|(key, _)| !stays(**key));
        let gone: Vec<At> = gone.map(|(_, at)| *at).collect();
        for at in gone {
            self.remove(at);
        }
    }

    fn unlink(&mut self, at: At) {
        let Item {
            newer,
            older,
            list,
            bytes,
            ..
        } = *self.get(at);
        match newer {
            NONE => self.lists[list].newest = older,
            newer => self.get_mut(newer).older = older,
        }
        match older {
            NONE => self.lists[list].oldest = newer,
            older => self.get_mut(older).newer = newer,
        }
        self.lists[list].bytes -= bytes;
    }

    fn link(&mut self, at: At, list: usize) {
        let older = core::mem::replace(&mut self.lists[list].newest, at);
        let item = self.get_mut(at);
        (item.list, item.newer, item.older) = (list, NONE, older);
        let bytes = item.bytes;
        match older {
            NONE => self.lists[list].oldest = at,
            older => self.get_mut(older).newer = at,
        }
        self.lists[list].bytes += bytes;
    }
}
