//! What lies in memory by size, and what was evicted: the numbers behind memcached's slab classes that its tools show.
//!
//! Segments hold items of all sizes, so there are no slab classes; but who runs a cache wants to know
//! which sizes fill it and which are evicted. A *band* is a range of sizes that ends at a power of
//! two. What is held is counted per cachelet where an item comes or goes, what was evicted or refused per
//! store where that is decided: a read counts nothing here.

use crate::Seconds;
use crate::item::{self, Layout};

/// Largest item of the lowest band, in bytes.
const LOWEST_BAND_BYTES: usize = 1 << LOWEST_BAND_SHIFT;
const LOWEST_BAND_SHIFT: u32 = 6;

/// How many bands there are: enough for the largest item that a store takes.
pub const SIZE_BANDS: usize = 27;

/// Evicted items that a log keeps until they are taken: those of some dozen segments.
const EVICTIONS_KEPT_MAX: usize = 4096;

/// The band of an item that takes this many bytes in its segment: 0 to `SIZE_BANDS - 1`.
#[inline]
pub fn size_band(bytes: usize) -> usize {
    let above = bytes.saturating_sub(1) >> LOWEST_BAND_SHIFT;
    ((usize::BITS - above.leading_zeros()) as usize).min(SIZE_BANDS - 1)
}

/// Most bytes of an item of a band.
pub fn band_bytes_max(band: usize) -> usize {
    LOWEST_BAND_BYTES << band.min(SIZE_BANDS - 1)
}

/// One band of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BandStats {
    /// Items that are held now.
    pub items: u64,
    /// Their bytes in memory, padding included.
    pub bytes: u64,
    /// Live items that went to make room since the store was made.
    pub evicted: u64,
    /// Items refused for lack of memory since then.
    pub out_of_memory: u64,
    /// Seconds since the last use of the item that was evicted last.
    pub evicted_age_s: u64,
    /// Seconds since the last use of the least recently used item among some that are next to be
    /// looked at for eviction; 0 when there is none of this band among them.
    pub oldest_age_s: u64,
}

/// Items of one band that a cachelet holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BandGauge {
    pub(crate) items: u64,
    pub(crate) bytes: u64,
}

/// What a cachelet holds, by band.
#[derive(Debug, Default)]
pub(crate) struct Gauges([BandGauge; SIZE_BANDS]);

impl Gauges {
    #[inline]
    pub fn add(&mut self, bytes: usize) {
        let gauge = &mut self.0[size_band(bytes)];
        gauge.items += 1;
        gauge.bytes += bytes as u64;
    }

    #[inline]
    pub fn remove(&mut self, bytes: usize) {
        let gauge = &mut self.0[size_band(bytes)];
        gauge.items -= 1;
        gauge.bytes -= bytes as u64;
    }

    pub fn clear(&mut self) {
        *self = Gauges::default();
    }

    pub fn all(&self) -> &[BandGauge; SIZE_BANDS] {
        &self.0
    }
}

/// An item that went to make room, for anyone who watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Its key.
    pub key: Box<[u8]>,
    /// Whether it had been read since it was written.
    pub fetched: bool,
    /// When it would have expired, or [`NEVER`](crate::NEVER).
    pub expires_at: Seconds,
    /// Seconds since its last use.
    pub age_s: Seconds,
    /// Bytes that it took in memory.
    pub bytes: usize,
}

/// The evicted items that were not taken yet.
#[derive(Debug, Default)]
pub struct EvictionLog {
    /// In the order in which they went.
    pub evicted: Vec<Evicted>,
    /// How many more there were than a log keeps.
    pub dropped: u64,
}

/// What became of a store's items, by band.
#[derive(Debug, Default)]
pub(crate) struct Fates {
    /// Without what is held, which cachelets count.
    bands: [BandStats; SIZE_BANDS],
    /// There while somebody watches.
    log: Option<Box<EvictionLog>>,
}

impl Fates {
    /// A live item goes to make room. `data` starts with the item, which takes `bytes`.
    pub fn evicted(&mut self, data: &[u8], bytes: usize, now: Seconds) {
        let band = &mut self.bands[size_band(bytes)];
        band.evicted += 1;
        let age_s = age(data, now);
        band.evicted_age_s = age_s.into();
        let Some(log) = &mut self.log else { return };
        if log.evicted.len() == EVICTIONS_KEPT_MAX {
            log.dropped += 1;
            return;
        }
        let layout = Layout::read(data);
        log.evicted.push(Evicted {
            key: layout.key(data).into(),
            fetched: layout.fetched(),
            expires_at: layout.expires_at(data),
            age_s,
            bytes,
        });
    }

    /// An item found no room.
    pub fn refused(&mut self, bytes: usize) {
        self.bands[size_band(bytes)].out_of_memory += 1;
    }

    /// From now on keeps what is evicted, or no longer.
    pub fn keep_log(&mut self, on: bool) {
        if on != self.log.is_some() {
            self.log = on.then(Box::default);
        }
    }

    /// What was evicted since it was last asked, while a log is kept.
    pub fn take_log(&mut self) -> EvictionLog {
        let log = self.log.as_deref_mut();
        log.map_or_else(EvictionLog::default, core::mem::take)
    }

    pub fn all(&self) -> &[BandStats; SIZE_BANDS] {
        &self.bands
    }
}

/// Seconds since the last use of the item that `data` starts with.
pub(crate) fn age(data: &[u8], now: Seconds) -> Seconds {
    now.saturating_sub(item::last_access(data, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_ends_at_a_power_of_two() {
        assert_eq!((size_band(0), size_band(1), size_band(64)), (0, 0, 0));
        for band in 0..SIZE_BANDS {
            let most = band_bytes_max(band);
            assert_eq!(size_band(most), band);
            assert_eq!(size_band(most + 1), (band + 1).min(SIZE_BANDS - 1));
        }
        assert_eq!(size_band(usize::MAX), SIZE_BANDS - 1);
    }
}
