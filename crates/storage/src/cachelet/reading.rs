//! Reads an item of a cachelet, and notes that it was read.

use super::{Context, Inner};
use crate::Seconds;
use crate::hash::TableHash;
use crate::item::{self, Item, Layout};

impl Inner {
    /// Looks a key up and reads its item, or counts a miss.
    // Not inlined: it is long.
    #[inline(never)]
    pub fn look_up<'a>(
        &'a mut self,
        key: &[u8],
        hash: TableHash,
        now: Seconds,
        context: &mut Context,
    ) -> Option<Item<'a>> {
        let found = self.location_guessed(self.index.guess(hash), key, hash);
        self.read(found, hash, now, context)
    }

    /// Reads the item at a location, or counts a miss.
    #[inline(always)]
    pub fn read<'a>(
        &'a mut self,
        found: Option<u32>,
        hash: TableHash,
        now: Seconds,
        context: &mut Context,
    ) -> Option<Item<'a>> {
        // Nobody counts 2^64 of anything.
        self.reads = self.reads.wrapping_add(1);
        let Some(location) = found else {
            self.misses = self.misses.wrapping_add(1);
            return None;
        };
        let place = self.place(location);
        let data = self.data(place);
        let layout = Layout::read(data);
        if layout.expires() && item::is_expired(layout.expires_at(data), now) {
            self.expire_read(hash, place, context);
            return None;
        }
        let segment = &mut self.segments[place.segment as usize];
        let data = &mut segment.data[place.offset as usize..];
        let layout = item::note_read(data, layout, now);
        // Here it takes two instructions, before the item is noted as read ten.
        self.bytes_out = self.bytes_out.wrapping_add(layout.value_len() as u64);
        Some(Item {
            data,
            layout,
            segment_version_high: segment.version_high,
            now,
            align: self.geometry.align,
        })
    }
}
