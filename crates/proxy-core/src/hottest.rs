//! The keys that get most requests and bytes through one worker, of all its pools, whether any are replicated or not.
//!
//! They are counted as a server counts its own ([`Hottest`]), by the names that applications know. A read is picked when it gets its place
//! among the answers, where its key is known, and counted when it is shown, where its bytes are.

use crate::ids::PoolId;
use crate::slab::Key;
use evenkeel_hotkeys::hottest::{Hottest, HottestKey};
use evenkeel_types::Instant;

/// Keys with most gets, with most sets and with most bytes that a worker tells of.
const TOLD_MOST: usize = 16;

/// Bytes of a pool before a key.
const POOL_LEN: usize = size_of::<u64>();

/// A read that was picked and is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PickedId(u32);

impl PickedId {
    /// It was not picked.
    pub const NONE: PickedId = PickedId(u32::MAX);
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct HottestKeys {
    /// By pool and key.
    counted: Hottest,
    /// Reads that were picked.
    picked: Vec<Vec<u8>>,
    /// Places of `picked` that wait for nothing.
    free: Vec<u32>,
}

impl HottestKeys {
    /// The seed decides which requests are looked at.
    pub fn new(seed: u64) -> Self {
        HottestKeys {
            counted: Hottest::new(seed, Instant(0)),
            picked: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Whether the request that gets its place now is looked at. A few instructions for most.
    #[inline]
    pub fn picks(&mut self) -> bool {
        self.counted.picks()
    }

    /// A read of a key was picked.
    #[cold]
    pub fn note_read(&mut self, pool: PoolId, key: &[u8]) -> PickedId {
        let place = self.free.pop().unwrap_or_else(|| {
            self.picked.push(Vec::new());
            u32::try_from(self.picked.len() - 1).expect("of requests under way")
        });
        let name = &mut self.picked[place as usize];
        write_name(name, pool, key);
        PickedId(place)
    }

    /// A picked read was shown, this many bytes of a value, or none.
    #[cold]
    pub fn shown(&mut self, id: PickedId, bytes: usize) {
        if let Some(name) = self.picked.get(id.0 as usize) {
            self.counted.count_read(name, bytes);
            self.free.push(id.0);
        }
    }

    /// A picked read has no answer.
    pub fn forget(&mut self, id: PickedId) {
        if id != PickedId::NONE {
            self.free.push(id.0);
        }
    }

    /// A key is written, with this many bytes of a value.
    #[cold]
    pub fn count_write(&mut self, pool: PoolId, key: &[u8], bytes: usize) {
        let mut name = Vec::new();
        write_name(&mut name, pool, key);
        self.counted.count_written(&name, bytes);
    }

    /// Time has passed.
    #[inline]
    pub fn roll(&mut self, now: Instant) {
        self.counted.roll(now);
    }

    /// Those with most gets, most sets and most bytes, the greatest load first: the pool, and what is known with the key alone.
    pub fn list(&self, now: Instant) -> impl Iterator<Item = (PoolId, HottestKey)> {
        let list = self.counted.list(now, TOLD_MOST).into_iter();
        list.filter_map(|mut found| {
            let (pool, key) = found.key.split_first_chunk::<POOL_LEN>()?;
            let pool = PoolId(Key::of_number(u64::from_be_bytes(*pool)));
            found.key = key.to_vec();
            Some((pool, found))
        })
    }

    /// All requests in a second.
    pub fn requests_per_second(&self, now: Instant) -> f64 {
        self.counted.requests_per_second(now)
    }

    /// Reads that were picked and are not over.
    #[cfg(test)]
    pub fn picked(&self) -> usize {
        self.picked.len() - self.free.len()
    }
}

fn write_name(name: &mut Vec<u8>, pool: PoolId, key: &[u8]) {
    name.clear();
    name.extend(pool.0.to_number().to_be_bytes());
    name.extend_from_slice(key);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_by_pool_and_read_when_they_are_shown() {
        let pool = |slot| {
            PoolId(Key {
                slot,
                generation: 1,
            })
        };
        let mut hottest = HottestKeys::new(1);
        let (mut shown, mut lost) = (Vec::new(), Vec::new());
        for number in 0..60 {
            assert!(hottest.picks(), "all are looked at while there are few");
            let key: &[u8] = if number % 3 == 0 { b"b" } else { b"a" };
            match number % 2 {
                0 => shown.push(hottest.note_read(pool(0), key)),
                _ => lost.push(hottest.note_read(pool(0), key)),
            }
        }
        assert_eq!(hottest.picked(), 60);
        shown.into_iter().for_each(|id| hottest.shown(id, 100));
        lost.into_iter().for_each(|id| hottest.forget(id));
        assert_eq!(hottest.picked(), 0);
        hottest.count_write(pool(1), b"a", 30);
        let second = Instant(1_000_000_000);
        let list: Vec<_> = hottest.list(second).collect();
        let told = list
            .iter()
            .map(|(pool, it)| (pool.0.slot, &*it.key, it.gets, it.sets, it.bytes));
        let told: Vec<_> = told.collect();
        let a: &[u8] = b"a";
        assert_eq!(
            told,
            [
                (0, a, 20.0, 0.0, 2000.0),
                (0, b"b", 10.0, 0.0, 1000.0),
                (1, a, 0.0, 1.0, 30.0)
            ]
        );
    }
}
