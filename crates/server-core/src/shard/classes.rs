//! `stats items` and `stats slabs`: items by size, in the place of memcached's slab classes.
//!
//! Class `n` is the items that take at most 32 · 2ⁿ bytes in memory, header included, and more than
//! the class below; its "chunks" have that size and its "pages" a megabyte, as where memcached is run
//! with a growth factor of two. Counted is what `memcached-tool` shows: number and bytes of items, evictions, refusals and
//! ages; chunks and pages follow from the number, since items of all sizes share their memory here. What is counted
//! for the server alone and not by size (hits, expiry, moves between lists) shows 0.

use evenkeel_protocol::compose::answer::stat_number;
use evenkeel_storage::{BandStats, SIZE_BANDS, Store, band_bytes_max, size_band};
use evenkeel_types::Now;

use crate::shard::time::TimeBase;

/// Size of the pages that memory is shown in, in bytes: memcached's.
const PAGE_BYTES: u64 = 1 << 20;

/// The class of an item that takes this many bytes.
pub fn class_of(bytes: usize) -> usize {
    size_band(bytes) + 1
}

/// The items of one worker, or the sum over several, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats([BandStats; SIZE_BANDS]);

/// How `stats slabs` shows the number of items of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Most bytes of an item.
    pub chunk_bytes: u64,
    /// Chunks of a page.
    pub chunks_per_page: u64,
    /// Pages that the items would fill.
    pub pages: u64,
    /// Chunks of these pages.
    pub chunks: u64,
    /// Chunks that hold an item.
    pub used: u64,
}

/// Every number of a band: what is held, counts, and ages, which are not added up but
/// compared.
fn fields(band: &mut BandStats) -> [&mut u64; FIELDS] {
    let BandStats {
        items,
        bytes,
        evicted,
        out_of_memory,
        evicted_age_s,
        oldest_age_s,
    } = band;
    [
        items,
        bytes,
        evicted,
        out_of_memory,
        evicted_age_s,
        oldest_age_s,
    ]
}

/// Numbers of a band.
const FIELDS: usize = 6;

/// Of [`fields`], the first that is a count, and the first that is an age.
const FIRST_COUNT: usize = 2;
const FIRST_AGE: usize = 4;

impl ClassStats {
    /// What a store holds and has evicted.
    pub fn of(store: &Store, now: Now) -> Self {
        ClassStats(store.band_stats(TimeBase::seconds(now)))
    }

    /// The same without what was counted `before`: what is held and ages stay.
    pub fn since(mut self, mut before: ClassStats) -> Self {
        for (mine, old) in self.0.iter_mut().zip(&mut before.0) {
            let (mine, old) = (fields(mine), fields(old));
            for (mine, old) in mine.into_iter().zip(old).take(FIRST_AGE).skip(FIRST_COUNT) {
                *mine = mine.saturating_sub(*old);
            }
        }
        self
    }

    /// Adds another worker's.
    pub fn add(&mut self, other: &mut ClassStats) {
        for (mine, theirs) in self.0.iter_mut().zip(&mut other.0) {
            let pairs = fields(mine).into_iter().zip(fields(theirs));
            for (index, (mine, theirs)) in pairs.enumerate() {
                *mine = if index < FIRST_AGE {
                    mine.saturating_add(*theirs)
                } else {
                    (*mine).max(*theirs)
                };
            }
        }
    }

    /// The classes that hold something or have held something since the counters started, with
    /// their numbers.
    pub fn used(&self) -> impl Iterator<Item = (usize, &BandStats)> {
        self.0
            .iter()
            .enumerate()
            .filter(|(_, band)| {
                let quiet = BandStats {
                    oldest_age_s: band.oldest_age_s,
                    ..BandStats::default()
                };
                **band != quiet
            })
            .map(|(band, stats)| (band + 1, stats))
    }

    /// How `stats slabs` shows a class.
    pub fn pages(class: usize, stats: &BandStats) -> Pages {
        let chunk_bytes = band_bytes_max(class.saturating_sub(1)) as u64;
        let chunks_per_page = (PAGE_BYTES / chunk_bytes).max(1);
        let used = stats.items;
        let pages = used.div_ceil(chunks_per_page);
        Pages {
            chunk_bytes,
            chunks_per_page,
            pages,
            chunks: pages * chunks_per_page,
            used,
        }
    }
}

/// Composes `stats items`, without the closing `END`.
pub fn items(out: &mut Vec<u8>, classes: &ClassStats) {
    for (class, band) in classes.used().filter(|(_, band)| band.items > 0) {
        for (name, value) in [
            ("number", band.items),
            ("number_hot", 0),
            ("number_warm", 0),
            ("number_cold", band.items),
            ("age_hot", 0),
            ("age_warm", 0),
            ("age", band.oldest_age_s),
            ("mem_requested", band.bytes),
            ("evicted", band.evicted),
            ("evicted_nonzero", 0),
            ("evicted_time", band.evicted_age_s),
            ("outofmemory", band.out_of_memory),
            ("tailrepairs", 0),
            ("reclaimed", 0),
            ("expired_unfetched", 0),
            ("evicted_unfetched", 0),
            ("evicted_active", 0),
            ("crawler_reclaimed", 0),
            ("crawler_items_checked", 0),
            ("lrutail_reflocked", 0),
            ("moves_to_cold", 0),
            ("moves_to_warm", 0),
            ("moves_within_lru", 0),
            ("direct_reclaims", 0),
            ("hits_to_hot", 0),
            ("hits_to_warm", 0),
            ("hits_to_cold", 0),
            ("hits_to_temp", 0),
        ] {
            stat_number(out, format!("items:{class}:{name}").as_bytes(), value);
        }
    }
}

/// Composes `stats slabs`, without the closing `END`. `segment_bytes` is the memory that segments take.
pub fn slabs(out: &mut Vec<u8>, classes: &ClassStats, segment_bytes: u64) {
    let mut active = 0;
    for (class, band) in classes.used().filter(|(_, band)| band.items > 0) {
        active += 1;
        let pages = ClassStats::pages(class, band);
        for (name, value) in [
            ("chunk_size", pages.chunk_bytes),
            ("chunks_per_page", pages.chunks_per_page),
            ("total_pages", pages.pages),
            ("total_chunks", pages.chunks),
            ("used_chunks", pages.used),
            ("free_chunks", pages.chunks - pages.used),
            ("free_chunks_end", 0),
            ("get_hits", 0),
            ("cmd_set", 0),
            ("delete_hits", 0),
            ("incr_hits", 0),
            ("decr_hits", 0),
            ("cas_hits", 0),
            ("cas_badval", 0),
            ("touch_hits", 0),
        ] {
            stat_number(out, format!("{class}:{name}").as_bytes(), value);
        }
    }
    numbers(
        out,
        &[("active_slabs", active), ("total_malloced", segment_bytes)],
    );
}

pub(crate) fn numbers(out: &mut Vec<u8>, list: &[(&str, u64)]) {
    for (name, value) in list {
        stat_number(out, name.as_bytes(), *value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(items: u64, age: u64) -> ClassStats {
        let mut classes = ClassStats::default();
        classes.0[2].items = items;
        classes.0[2].evicted = 3;
        classes.0[2].oldest_age_s = age;
        classes
    }

    #[test]
    fn classes_add_up_and_the_oldest_stays() {
        let mut sum = with(1, 50);
        sum.add(&mut with(4, 20));
        let (class, band) = sum.used().next().expect("one class");
        assert_eq!((class, band.items), (3, 5));
        assert_eq!((band.evicted, band.oldest_age_s), (6, 50));
        let later = sum.since(with(9, 9)).0[2];
        assert_eq!((later.items, later.evicted), (5, 3));
    }

    #[test]
    fn chunks_and_pages_follow_from_the_items() {
        let sum = with(5000, 1);
        let (class, band) = sum.used().next().expect("one class");
        let pages = ClassStats::pages(class, band);
        assert_eq!((class, pages.chunk_bytes), (3, 256));
        assert_eq!((pages.chunks_per_page, pages.pages), (4096, 2));
        assert_eq!((pages.chunks, pages.used), (8192, 5000));
        assert_eq!(class_of(256), 3);
        assert_eq!(class_of(257), 4);
    }
}
