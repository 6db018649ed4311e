//! What a store tells of its items by size: the call for it looks at what cachelets count, and at some items.

use crate::Seconds;
use crate::bands::{BandStats, EvictionLog, SIZE_BANDS, age, size_band};
use crate::cachelet::Inner;
use crate::item::Layout;
use crate::store::Store;

/// Items looked at from the old end of each queue to find out how old items are when they leave.
const AGE_SAMPLE: usize = 256;

impl Store {
    /// From now on keeps what is evicted for [`Store::take_evictions`], or no longer.
    pub fn log_evictions(&mut self, on: bool) {
        self.context.fates.keep_log(on);
    }

    /// What was evicted since it was last asked, while [`Store::log_evictions`] is on.
    pub fn take_evictions(&mut self) -> EvictionLog {
        self.context.fates.take_log()
    }

    /// What the store holds and what became of its items, by band. Takes time in proportion to its
    /// cachelets, and looks at some items at the old end of each queue.
    pub fn band_stats(&self, now: Seconds) -> [BandStats; SIZE_BANDS] {
        let mut bands = *self.context.fates.all();
        for (_, inner) in self.inners() {
            for (band, gauge) in bands.iter_mut().zip(inner.bands.all()) {
                band.items += gauge.items;
                band.bytes += gauge.bytes;
            }
            for queue in &inner.queues {
                inner.sample_ages(queue.head, now, &mut bands);
            }
        }
        bands
    }
}

impl Inner {
    /// Looks at items from the oldest segment of a queue on for the oldest of each band.
    fn sample_ages(&self, head: u32, now: Seconds, bands: &mut [BandStats; SIZE_BANDS]) {
        let mut left = AGE_SAMPLE;
        let mut at = head;
        while let Some(segment) = self.segments.get(at as usize) {
            let mut offset = 0;
            while offset < segment.used as usize {
                if left == 0 {
                    return;
                }
                left -= 1;
                let data = &segment.data[offset..];
                let layout = Layout::read(data);
                let bytes = self.geometry.align_up(layout.size());
                offset += bytes;
                if !layout.is_dead() {
                    let oldest = &mut bands[size_band(bytes)].oldest_age_s;
                    *oldest = (*oldest).max(age(data, now).into());
                }
            }
            at = segment.next;
        }
    }
}
