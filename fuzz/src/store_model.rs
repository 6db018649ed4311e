//! A store does what a plain table does, but may forget what it says it evicted.

use arbitrary::{Result, Unstructured};
use evenkeel_storage::{NEVER, NewItem, PoolConfig, SegmentPool, Store, StoreConfig};
use evenkeel_types::{CacheletId, Version};
use std::sync::Arc;

/// Keys are numbers below this; few, so that they meet.
const KEYS: usize = 64;
const CACHELETS: u16 = 3;
/// Largest item, as memcached counts.
const ITEM_BYTES_MAX: usize = 16 << 10;
/// Memory is this, times 1 to 16.
const LIMIT_UNIT: usize = 24 << 10;
/// Operations of one run.
const OPERATIONS_MAX: usize = 400;

/// What values are made of, at different offsets.
const fn pattern() -> [u8; 2 * ITEM_BYTES_MAX] {
    let mut bytes = [0; 2 * ITEM_BYTES_MAX];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = (at as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0];
        at += 1;
    }
    bytes
}
static PATTERN: [u8; 2 * ITEM_BYTES_MAX] = pattern();

#[derive(Clone, Copy, Debug)]
struct Expected {
    /// Offset and length in the pattern.
    value: (usize, usize),
    flags: u32,
    expires_at: u32,
    version: u64,
}

impl Expected {
    fn value(&self) -> &'static [u8] {
        &PATTERN[self.value.0..][..self.value.1]
    }
}

struct Run {
    pool: Arc<SegmentPool>,
    store: Store,
    evict: bool,
    table: [Option<Expected>; KEYS],
    /// What was missing though nobody removed it.
    forgotten: u64,
    now: u32,
    version: u64,
    ceiling: usize,
}

fn key_of(number: usize) -> ([u8; 40], usize) {
    ([number as u8 + b' '; 40], 1 + number % 40)
}

fn cachelet_of(number: usize) -> CacheletId {
    CacheletId((number % usize::from(CACHELETS)) as u16)
}

impl Run {
    fn new(input: &mut Unstructured<'_>) -> Result<Self> {
        let limit_bytes = LIMIT_UNIT * input.int_in_range(1..=16)?;
        let evict = input.ratio(7, 8)?;
        let pool = SegmentPool::new(PoolConfig {
            limit_bytes,
            item_size_max: ITEM_BYTES_MAX,
            cachelets_expected: usize::from(CACHELETS),
        });
        let config = StoreConfig {
            hash_seed: 1,
            evict,
            bytes_max: None,
        };
        let mut store = Store::with_config(pool.clone(), config);
        for id in 0..CACHELETS {
            store.create_cachelet(CacheletId(id));
        }
        Ok(Run {
            pool,
            store,
            evict,
            table: [None; KEYS],
            forgotten: 0,
            now: 1,
            version: 1 << 39,
            ceiling: limit_bytes,
        })
    }

    /// What should be found, if the store has not evicted it.
    fn expected(&self, number: usize) -> Option<Expected> {
        self.table[number].filter(|item| item.expires_at == NEVER || item.expires_at > self.now)
    }

    /// Compares one key, by a read or without a trace.
    fn compare(&mut self, number: usize, read: bool) {
        let expected = self.expected(number);
        let (key, len) = key_of(number);
        let (id, key) = (cachelet_of(number), &key[..len]);
        let found = if read {
            self.store.read(id, key, self.now)
        } else {
            self.store.peek(id, key, self.now)
        };
        match (found, expected) {
            (Some(item), Some(expected)) => {
                assert_eq!(item.key(), key);
                assert!(item.value() == expected.value(), "another value");
                assert_eq!(item.flags(), expected.flags);
                assert_eq!(item.expires_at(), expected.expires_at);
                assert_eq!(item.version(), Version(expected.version));
            }
            (None, None) => self.table[number] = None,
            (None, Some(_)) => {
                assert!(self.evict, "a store that may not evict has forgotten");
                self.forgotten += 1;
                self.table[number] = None;
            }
            (Some(_), None) => panic!("an item that was never stored, was removed or has expired"),
        }
    }

    fn insert(&mut self, number: usize, input: &mut Unstructured<'_>) -> Result<()> {
        let long = input.ratio(1, 8)?;
        let value_len = input.int_in_range(0..=if long { ITEM_BYTES_MAX } else { 300 })?;
        let expires_at = match input.int_in_range(0..=3)? {
            0 => self.now + input.int_in_range(1..=200)?,
            _ => NEVER,
        };
        let foreign = input.ratio(1, 16)?;
        self.version += 1;
        let item = Expected {
            value: (input.int_in_range(0..=255)?, value_len),
            flags: input.int_in_range(0..=1)?,
            expires_at,
            version: if foreign { input.arbitrary()? } else { self.version },
        };
        // Whether the older one was there decides whether it counts as forgotten.
        self.compare(number, false);
        let (key, len) = key_of(number);
        let (head, tail) = item.value().split_at(value_len / 3);
        let new = NewItem {
            key: &key[..len],
            value: [head, tail],
            flags: item.flags,
            expires_at,
            version: Version(item.version),
        };
        let stored = self.store.insert(cachelet_of(number), new, self.now);
        self.table[number] = stored.is_ok().then_some(item);
        Ok(())
    }

    /// Changes an item in place, as commands do.
    fn change(&mut self, number: usize, input: &mut Unstructured<'_>) -> Result<()> {
        self.compare(number, false);
        let Some(mut expected) = self.expected(number) else {
            return Ok(());
        };
        let (key, len) = key_of(number);
        let Some(mut item) = self.store.get(cachelet_of(number), &key[..len], self.now) else {
            return Ok(());
        };
        match input.int_in_range(0..=2)? {
            0 => item.touch_access(self.now),
            1 => {
                let expires_at = self.now + input.int_in_range(1..=200)?;
                if item.set_expires_at(expires_at).is_ok() {
                    expected.expires_at = expires_at;
                }
            }
            _ => {
                let version = input.arbitrary()?;
                if item.set_version(Version(version)).is_ok() {
                    expected.version = version;
                }
            }
        }
        self.table[number] = Some(expected);
        Ok(())
    }

    fn step(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let number = input.int_in_range(0..=KEYS - 1)?;
        match input.int_in_range(0u8..=31)? {
            0..=13 => self.insert(number, input)?,
            14..=20 => self.compare(number, true),
            21..=23 => self.change(number, input)?,
            24..=25 => {
                self.compare(number, false);
                let (key, len) = key_of(number);
                let deleted = self.store.delete(cachelet_of(number), &key[..len], self.now);
                assert_eq!(deleted, self.table[number].is_some());
                self.table[number] = None;
            }
            26..=27 => self.now += input.int_in_range(0..=100)?,
            28 => drop(self.store.maintain(self.now, number)),
            29 => {
                let limit = LIMIT_UNIT * input.int_in_range(1..=16)?;
                self.ceiling = self.ceiling.max(limit);
                self.pool.set_limit_bytes(limit);
            }
            30 => {
                let id = cachelet_of(number);
                let cachelet = self.store.detach(id).expect("its home has it");
                assert!(self.store.attach(cachelet).is_none());
            }
            _ if number == 0 => {
                self.store.flush();
                self.table = [None; KEYS];
            }
            _ => self.store.assert_invariants(),
        }
        // Lent memory never grows beyond the limit, also while it is above a lowered one.
        assert!(self.pool.used_bytes() <= self.ceiling);
        self.ceiling = self.pool.used_bytes().max(self.pool.limit_bytes());
        Ok(())
    }
}

/// Executes the operations that the bytes stand for.
///
/// # Panics
/// When the store errs.
pub fn check(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let Ok(mut run) = Run::new(&mut input) else {
        return;
    };
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() || run.step(&mut input).is_err() {
            break;
        }
    }
    (0..KEYS).for_each(|number| run.compare(number, false));
    run.store.assert_invariants();
    let evicted = run.store.stats().evictions;
    assert!(run.forgotten <= evicted, "{} forgotten, {evicted} evicted", run.forgotten);
}
