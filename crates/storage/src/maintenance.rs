//! Work that is done between requests: prompt expiry and smaller indexes.
//!
//! A cursor goes round all segments of the store, a few at each call. A segment whose last item has
//! expired is dropped whole; an index shard that has become too empty is rebuilt smaller. Looking at
//! a segment's description reads one cache line, so a round over 16 GiB (16,384 segments) reads 1 MiB,
//! spread over many calls.

use crate::Seconds;
use crate::cachelet::{Context, Inner, Place};
use crate::item::{self, Layout};
use crate::store::Store;

/// Dropping this many items counts as one unit of work, as looking at one segment does.
const ITEMS_PER_WORK: usize = 64;

impl Store {
    /// Gives back the memory of expired items, what indexes no longer need and what a lowered limit
    /// no longer covers, and serves other stores that starve. Does about `work_limit` small steps (64
    /// take some microseconds when there is little to find). True when there is more to do.
    pub fn maintain(&mut self, now: Seconds, work_limit: usize) -> bool {
        let above_limit = self.shrink(now);
        self.help_others(now);
        let mut left = work_limit;
        let mut unfinished = true;
        while left > 0 && unfinished {
            let work = self.expire_next(now);
            unfinished = work.is_some() && !self.expiry_cursor.began();
            left = left.saturating_sub(work.unwrap_or(1));
        }
        self.context.account.trim();
        unfinished || above_limit
    }

    /// Looks at the next `segments` segments for expired ones; true when memory was freed.
    pub(crate) fn expire_some(&mut self, segments: usize, now: Seconds) -> bool {
        let before = self.context.account.credit();
        for _ in 0..segments {
            self.expire_next(now);
        }
        self.context.account.credit() > before
    }

    /// Looks at one segment and one index shard. Returns the work done, `None` without segments.
    fn expire_next(&mut self, now: Seconds) -> Option<usize> {
        let (cachelet, segment) = self.expiry_cursor.advance(&self.ids, &self.cachelets)?;
        let Store {
            cachelets, context, ..
        } = self;
        let inner = &mut cachelets[cachelet].as_mut()?.inner;
        let dropped = inner.drop_if_expired(segment, now, context);
        inner.shrink_index(context);
        Some(1 + dropped / ITEMS_PER_WORK)
    }
}

impl Inner {
    /// Drops a segment whose items have all expired. Returns how many items went.
    fn drop_if_expired(&mut self, at: u32, now: Seconds, context: &mut Context) -> usize {
        let segment = &self.segments[at as usize];
        if segment.live_items == 0 || !item::is_expired(segment.expires_at, now) {
            return 0;
        }
        let used = segment.used;
        self.close_segment(at);
        let items = self.segments[at as usize].live_items as usize;
        let mut offset = 0;
        let mut gone = 0;
        // The last item's removal frees the segment, so the count ends the loop, not the end.
        while offset < used && gone < items {
            let place = Place {
                segment: at,
                offset,
            };
            let data = self.data(place);
            let layout = Layout::read(data);
            offset += self.geometry.align_up(layout.size()) as u32;
            if !layout.is_dead() {
                let hash = context.hasher.hash(layout.key(data));
                self.expire(hash, place, context);
                gone += 1;
            }
        }
        items
    }
}
