//! A recount of everything, for tests and simulation.

use crate::Seconds;
use crate::bands::{BandStats, Gauges};
use crate::cachelet::{Inner, Place};
use crate::index::Index;
use crate::item::{self, Layout};
use crate::segment::{NONE, QueueName, Segment};
use crate::store::Store;

impl Store {
    /// Walks the whole structure and compares it with what the counters say.
    ///
    /// # Panics
    ///
    /// When something does not hold. For tests: it takes time in proportion to the items.
    pub fn assert_invariants(&self) {
        let account = &self.context.account;
        let pool = account.pool();
        assert!(
            pool.used_bytes() <= pool.limit_bytes().max(pool.lowered_from()),
            "the pool's limit is strict, but for what was lent before it was lowered"
        );
        let held: usize = self.inners().map(|(_, inner)| inner.held).sum();
        assert_eq!(
            held + account.credit(),
            account.held(),
            "what was borrowed is held or at hand"
        );
        let fates = self.context.fates.all();
        let sum = |field: fn(&BandStats) -> u64| fates.iter().map(field).sum::<u64>();
        let counters = &self.context.counters;
        assert_eq!(
            (sum(|band| band.evicted), sum(|band| band.out_of_memory),),
            (counters.evictions, counters.out_of_memory),
            "what became of items, by size"
        );
        assert_eq!(self.ids.len(), self.cachelets.iter().flatten().count());
        for (slot, inner) in self.inners() {
            assert_eq!(slot, usize::from(inner.id.0));
            inner.assert_invariants(self);
        }
    }
}

impl Inner {
    fn assert_invariants(&self, store: &Store) {
        let hash_of = |location| {
            let data = self.data(self.place(location));
            let layout = Layout::read(data);
            assert!(!layout.is_dead(), "the index knows no dead item");
            store.hash(layout.key(data))
        };
        self.index.assert_invariants(hash_of);
        let mut bands = Gauges::default();
        let (mut copies, mut copies_bytes) = (0, 0);
        for location in self.index.locations() {
            let place = self.place(location);
            let item = self.item(place, 0);
            bands.add(item.size());
            let is_copy = (store.context.is_copy)(item.key());
            let queue = self.segments[place.segment as usize].queue;
            assert_eq!(
                is_copy,
                queue == QueueName::Copies,
                "copies keep to themselves"
            );
            copies += usize::from(is_copy);
            copies_bytes += usize::from(is_copy) * item.size();
        }
        assert_eq!(bands.all(), self.bands.all(), "items by size");
        assert_eq!(
            (copies, copies_bytes),
            (self.copies, self.copies_bytes),
            "copies"
        );
        assert_eq!(self.index.locations().count(), self.live_items);

        let table = self.segments.capacity() * size_of::<Segment>();
        let index = self.index.bytes() - Index::new().bytes();
        assert_eq!(
            self.held,
            self.segment_bytes + table + index + self.ghosts.bytes(),
            "bytes charged"
        );

        let in_use = || self.segments.iter().filter(|segment| segment.is_in_use());
        assert_eq!(in_use().count(), self.segments_in_use);
        assert_eq!(
            in_use().map(|segment| segment.data.len()).sum::<usize>(),
            self.segment_bytes
        );
        let live: usize = in_use().map(|segment| segment.live_bytes as usize).sum();
        assert_eq!(live, self.live_bytes);
        let open = self.segments.iter().filter(|segment| segment.open).count();
        assert_eq!(open, self.open.len(), "open segments are listed");

        let mut queued = 0;
        for queue in &self.queues {
            let (mut at, mut previous, mut bytes, mut stamp) = (queue.head, NONE, 0, None);
            while at != NONE {
                let segment = &self.segments[at as usize];
                assert!(
                    segment.is_in_use() && segment.previous == previous,
                    "queue links"
                );
                assert!(Some(segment.stamp) > stamp, "a queue is ordered by age");
                stamp = Some(segment.stamp);
                bytes += segment.data.len();
                queued += 1;
                previous = at;
                at = segment.next;
            }
            assert_eq!((queue.tail, queue.bytes), (previous, bytes));
        }
        assert_eq!(queued, self.segments_in_use, "each segment is in one queue");
        (0..self.segments.len() as u32).for_each(|at| self.assert_segment(at, store));
    }

    fn assert_segment(&self, at: u32, store: &Store) {
        let segment = &self.segments[at as usize];
        let (mut offset, mut live, mut items) = (0, 0, 0);
        while offset < segment.used {
            let place = Place {
                segment: at,
                offset,
            };
            let data = self.data(place);
            let layout = Layout::read(data);
            let bytes = self.geometry.align_up(layout.size()) as u32;
            if !layout.is_dead() {
                live += bytes;
                items += 1;
                let key = layout.key(data);
                assert_eq!(
                    self.find(key, store.hash(key)),
                    Some(place),
                    "the index leads here"
                );
                assert!(
                    expires_with(segment, layout.expires_at(data)),
                    "segment outlives items"
                );
            }
            offset += bytes;
        }
        assert_eq!(
            (offset, live, items),
            (segment.used, segment.live_bytes, segment.live_items)
        );
    }
}

fn expires_with(segment: &Segment, expires_at: Seconds) -> bool {
    segment.expires_at == item::NEVER
        || (expires_at != item::NEVER && expires_at <= segment.expires_at)
}
