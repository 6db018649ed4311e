//! Making room: what stays when memory is used up.
//!
//! The scheme is S3-FIFO's (Yang et al., SOSP 2023, section 4) on segments instead of items, so that
//! it costs no links: newcomers queue in the *small* queue, about a tenth of the memory; who is read
//! there before reaching the end moves to the *main* queue, where items go round as long as they are
//! read between two visits. Who left the small queue unread and is stored again soon enters the main
//! queue at once (`ghosts.rs`), and small items stay longer (`worth.rs`). A queue is a list of segments by age, and one step of eviction looks
//! through the oldest segment. What stays is appended to the open segment of the main queue, or, when
//! that is full, pushed together in place; the compacted segment then becomes the open one. So
//! a step needs no memory to begin with, dead bytes vanish on the way, and full segments need no
//! free chunks of a certain size: sizes may drift without calcification.
//!
//! The cachelets of a worker form one pair of queues: the victim is the oldest segment of them all.
//! A cachelet whose items are read more thus takes memory from the others, by the same measure that
//! decides between items.
//!
//! Copies of items that stand elsewhere ([`StoreConfig::is_copy`](crate::StoreConfig::is_copy)) are in a queue of their own, from which
//! is taken first, whatever is in need; those that are read go round there. For a copy nothing else is evicted, and no other store is asked.
//!
//! The work for one freed segment is bounded: when some steps in a row have freed nothing, items
//! must have been read more often to stay, and after [`FRUITLESS_STEPS_PER_LEVEL`] × 4 steps
//! nothing stays.
//!
//! Memory that overwritten and deleted items left behind is won back first while it is more than an
//! eighth: the segment with the most of it, among some that a cursor passes, is pushed together and
//! evicts nobody.
//!
//! Measured (`tests/hit_ratio.rs`, 100,000 keys, 2 and 8 MiB): 1 to 9 points above an exact LRU of the
//! same size for Zipf exponents from 0.7 to 0.99, and level with it where nearly every key fits.

use crate::Seconds;
use crate::cachelet::{Cachelet, Context, Inner, Need, Place};
use crate::item::{self, Layout};
use crate::segment::{NONE, QueueName, TtlClass};
use crate::store::Store;
use crate::worth::Scale;

/// The small queue's part of the memory (S3-FIFO, section 4.1: a tenth).
const SMALL_PART: usize = 10;
/// Steps of eviction that may free nothing before items must be hotter to stay.
const FRUITLESS_STEPS_PER_LEVEL: usize = 4;
/// Memory that no item uses is gathered before anyone is evicted, once it is this part of all.
const WASTE_PART: usize = 8;
/// A segment is worth pushing together when this part of it is unused.
const SEGMENT_WASTE_PART: usize = 4;
/// Segments that are compared to find one with much waste.
const WASTE_SAMPLE: usize = 32;
/// Without eviction, the store is full when this many gathering steps in a row freed nothing; each
/// gathers at least [`FULL_WASTE_PART`] of a segment, so that many gather one for certain.
const GATHER_STEPS_MAX: usize = 64;
/// Without eviction, waste below this part of a segment is not gathered.
const FULL_WASTE_PART: usize = 32;
/// Expired segments that are looked for before anyone is evicted.
const EXPIRY_LOOKAHEAD: usize = 4;

/// Where evicted keys return as a rule, one of 2^6 segments of newcomers is tried in the main queue, and
/// one of 2^2 while that is not full, which is while the small queue has more than this part.
const TRY_BITS: u32 = 6;
const TRY_BITS_FILLING: u32 = 2;
const SMALL_PART_FILLING: (usize, usize) = (3, 20);
/// An odd number without a pattern (the golden ratio), which spreads stamps over all bits.
const STAMP_MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// What stays when a segment is looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Every item that has not expired, in its queue.
    All,
    /// Items whose frequency is above this; they go to the main queue.
    HotterThan(u8),
}

impl Store {
    /// Frees memory until `need` of an item for a queue can be met; false when that cannot be done. `cachelet` is the one
    /// in need.
    pub(crate) fn make_room(
        &mut self,
        need: Need,
        cachelet: usize,
        queue: QueueName,
        now: Seconds,
    ) -> bool {
        let mut fruitless = 0;
        loop {
            let met = match need {
                Need::Bytes(bytes) => self.context.account.has_room_for(bytes),
                Need::Slot => self.inner(cachelet).is_some_and(Inner::has_unused_slot),
            };
            if met {
                return true;
            }
            let before = self.context.account.credit();
            let only = (need == Need::Slot).then_some(cachelet);
            if !self.free_some(fruitless, only, queue, now) {
                return false;
            }
            fruitless = if self.context.account.credit() > before {
                0
            } else {
                fruitless + 1
            };
        }
    }

    /// Evicts for a store that starves, if this one has more than its share. Bounded: one segment.
    pub(crate) fn help_others(&mut self, now: Seconds) {
        if self.config.evict && self.context.account.owed() > 0 {
            let bytes = self.context.account.pool().segment_bytes();
            self.free_up_to(bytes, now);
            self.context.account.pay_owed();
        }
    }

    /// Gives memory back that a lowered limit no longer covers, a bounded part at a time. True when
    /// that was not all.
    pub(crate) fn shrink(&mut self, now: Seconds) -> bool {
        let excess = self.context.account.excess();
        if excess == 0 {
            return false;
        }
        if self.config.evict {
            self.free_up_to(excess, now);
        }
        let paid = self.context.account.pay_excess();
        paid > 0 && self.context.account.excess() > 0
    }

    /// Evicts until this many bytes are at hand, or nothing is left to evict.
    fn free_up_to(&mut self, bytes: usize, now: Seconds) {
        let mut fruitless = 0;
        while self.context.account.credit() < bytes
            && self.free_some(fruitless, None, QueueName::Main, now)
        {
            fruitless += 1;
        }
    }

    /// One step that frees memory for an item of a queue or leads to it; false when there is nothing left to try.
    fn free_some(
        &mut self,
        fruitless: usize,
        only: Option<usize>,
        queue: QueueName,
        now: Seconds,
    ) -> bool {
        if fruitless == 0 && only.is_none() && self.expire_some(EXPIRY_LOOKAHEAD, now) {
            return true;
        }
        let threshold =
            (fruitless / FRUITLESS_STEPS_PER_LEVEL).min(usize::from(item::FREQUENCY_MAX));
        let colder = Keep::HotterThan(threshold as u8);
        let gathered = if fruitless == 0 && self.config.evict {
            self.wasteful_segment()
                .filter(|(cachelet, _)| only.is_none_or(|only| only == *cachelet))
        } else {
            None
        };
        let copies = self.oldest_of(QueueName::Copies, only);
        let (victim, keep) = if gathered.is_some() {
            (gathered, Keep::All)
        } else if copies.is_some() || queue == QueueName::Copies {
            (copies, colder)
        } else if self.config.evict {
            let oldest = self.oldest_segment(only);
            if threshold == 0 && oldest.is_some_and(|victim| self.try_in_main(victim)) {
                return true;
            }
            (oldest, colder)
        } else if fruitless < GATHER_STEPS_MAX {
            (self.most_wasteful_segment(only), Keep::All)
        } else {
            (None, Keep::All)
        };
        let Some((cachelet, segment)) = victim else {
            return false;
        };
        let Store {
            cachelets, context, ..
        } = self;
        if let Some(Cachelet { inner }) = &mut cachelets[cachelet] {
            inner.sweep(segment, keep, now, context);
            inner.shrink_index(context);
            inner.fit_ghosts(context);
        }
        true
    }

    /// Moves a segment at the old end of the small queue to the main queue as it is, if it is one of the
    /// few for which that is to be tried; true when it did.
    ///
    /// Where everything is asked for again, but later than the queues are long (a loop, a repeated
    /// scan), nobody would ever stay: each is evicted before it is read. Some that are kept at random
    /// stay as long as they are read. Which ones follows from their stamp alone.
    fn try_in_main(&mut self, (cachelet, at): (usize, u32)) -> bool {
        if !self.context.returning.is_the_rule() {
            return false;
        }
        let [small, main] =
            [QueueName::Small, QueueName::Main].map(|queue| self.bytes_of(queue, None));
        let filling = small > (small + main) * SMALL_PART_FILLING.0 / SMALL_PART_FILLING.1;
        let bits = if filling { TRY_BITS_FILLING } else { TRY_BITS };
        let Some(Cachelet { inner }) = &mut self.cachelets[cachelet] else {
            return false;
        };
        let segment = &inner.segments[at as usize];
        let drawn = segment.stamp.wrapping_mul(STAMP_MIX) >> (64 - bits) == 0;
        let tried = drawn && segment.queue == QueueName::Small && !segment.open;
        if tried {
            inner.requeue(at, QueueName::Main);
        }
        tried
    }

    /// The oldest segment of the queue of newcomers or the main one, whose turn it is, over all cachelets or in one.
    fn oldest_segment(&self, only: Option<usize>) -> Option<(usize, u32)> {
        let [small, main] =
            [QueueName::Small, QueueName::Main].map(|queue| self.bytes_of(queue, only));
        let order = match small > (small + main) / SMALL_PART {
            true => [QueueName::Small, QueueName::Main],
            false => [QueueName::Main, QueueName::Small],
        };
        order
            .into_iter()
            .find_map(|queue| self.oldest_of(queue, only))
    }

    /// The oldest segment of a queue, over all cachelets or in one.
    fn oldest_of(&self, queue: QueueName, only: Option<usize>) -> Option<(usize, u32)> {
        let heads = self.inners().filter_map(|(cachelet, inner)| {
            let at = inner.queues[queue as usize].head;
            let asked = only.is_none_or(|only| only == cachelet);
            (asked && at != NONE).then(|| (inner.segments[at as usize].stamp, cachelet, at))
        });
        heads.min().map(|(_, cachelet, at)| (cachelet, at))
    }

    /// Bytes of a queue, over all cachelets or in one.
    fn bytes_of(&self, queue: QueueName, only: Option<usize>) -> usize {
        let inners = self
            .inners()
            .filter(|(cachelet, _)| only.is_none_or(|only| only == *cachelet));
        inners
            .map(|(_, inner)| inner.queues[queue as usize].bytes)
            .sum()
    }

    /// A segment with much waste, if there is much waste in all: the best of a sample.
    fn wasteful_segment(&mut self) -> Option<(usize, u32)> {
        let (mut bytes, mut live) = (0, 0);
        for (_, inner) in self.inners() {
            bytes += inner.segment_bytes;
            live += inner.live_bytes;
        }
        if (bytes - live) * WASTE_PART <= bytes {
            return None;
        }
        let mut best: Option<(usize, usize, u32)> = None;
        for _ in 0..WASTE_SAMPLE {
            let (cachelet, segment) = self.waste_cursor.advance(&self.ids, &self.cachelets)?;
            let candidate = self.waste(cachelet, segment, SEGMENT_WASTE_PART);
            best = best.max(candidate.map(|waste| (waste, cachelet, segment)));
        }
        best.map(|(_, cachelet, segment)| (cachelet, segment))
    }

    /// The segment with the most waste of all; looks at each segment's description.
    fn most_wasteful_segment(&self, only: Option<usize>) -> Option<(usize, u32)> {
        let mut best: Option<(usize, usize, u32)> = None;
        for (cachelet, inner) in self.inners() {
            if only.is_some_and(|only| only != cachelet) {
                continue;
            }
            for segment in 0..inner.segments.len() as u32 {
                let candidate = self.waste(cachelet, segment, FULL_WASTE_PART);
                best = best.max(candidate.map(|waste| (waste, cachelet, segment)));
            }
        }
        best.map(|(_, cachelet, segment)| (cachelet, segment))
    }

    /// Unused bytes of a segment if they are at least a `part`th of it.
    fn waste(&self, cachelet: usize, segment: u32, part: usize) -> Option<usize> {
        let segment = self.inner(cachelet)?.segments.get(segment as usize)?;
        let waste = segment.waste();
        let worth_it = segment.is_in_use() && !segment.alone && waste * part >= segment.data.len();
        worth_it.then_some(waste)
    }
}

impl Inner {
    fn has_unused_slot(&self) -> bool {
        self.segments_in_use < self.geometry.slots_max()
    }

    /// Looks through a segment: what stays is moved together, the rest goes.
    pub fn sweep(&mut self, victim: u32, keep: Keep, now: Seconds, context: &mut Context) {
        if self.segments[victim as usize].alone {
            return self.sweep_alone(victim, keep, now, context);
        }
        context.changes += 1;
        self.close_segment(victim);
        let segment = &mut self.segments[victim as usize];
        let (class, old_queue) = (segment.class, segment.queue);
        let queue = after_a_round(old_queue, keep);
        let used = core::mem::take(&mut segment.used) as usize;
        segment.live_bytes = 0;
        segment.live_items = 0;
        let (high, stamp) = (segment.version_high, segment.stamp);
        let scale = Scale::of(self.live_bytes, self.live_items);
        // Taken out, so that items can be copied from it to another segment of this cachelet.
        let mut data = core::mem::take(&mut segment.data);
        let mut from = 0;
        while from < used {
            let layout = Layout::read(&data[from..]);
            let bytes = self.geometry.align_up(layout.size());
            let (at, end) = (from, from + bytes);
            from = end;
            if layout.is_dead() {
                continue;
            }
            let bytes_of_item = &data[at..end];
            let hash = context.hasher.hash(layout.key(bytes_of_item));
            let old = self.location(Place {
                segment: victim,
                offset: at as u32,
            });
            let expires_at = layout.expires_at(bytes_of_item);
            let costs = scale.round_costs(bytes, hash, stamp);
            let judged = Judged {
                data: bytes_of_item,
                queue: old_queue,
                reads_more: scale.reads_more(bytes),
                round_costs: costs,
            };
            let Some(frequency) = judged.survives(keep, now, context) else {
                let expired = item::is_expired(layout.expires_at(bytes_of_item), now);
                if old_queue == QueueName::Small && !expired {
                    self.ghosts.put(hash);
                }
                self.index.remove(hash, old);
                self.discount(old_queue, bytes);
                continue;
            };
            item::set_frequency(&mut data[at..end], frequency);
            let place = match self.append_survivor(&data[at..end], high, queue, class, now) {
                Some(place) => {
                    self.discount(old_queue, bytes);
                    place
                }
                None => {
                    let to = self.segments[victim as usize].append(bytes, expires_at);
                    data.copy_within(at..end, to);
                    Place {
                        segment: victim,
                        offset: to as u32,
                    }
                }
            };
            let new = self.location(place);
            if new != old {
                self.index.relocate(hash, old, new);
                context.counters.moved_items += 1;
            }
        }
        self.segments[victim as usize].data = data;
        if self.segments[victim as usize].live_items == 0 {
            self.free_segment(victim, context);
        } else {
            self.requeue(victim, queue);
            self.open_segment(victim, context);
        }
    }

    /// Copies an item to the open segment of a queue and class, if there is one with room.
    fn append_survivor(
        &mut self,
        data: &[u8],
        version_high: u32,
        queue: QueueName,
        class: TtlClass,
        now: Seconds,
    ) -> Option<Place> {
        let at = self.open_of(queue, class)?;
        let old = Layout::read(data);
        let meta = old.meta(data, version_high, now);
        let segment = &mut self.segments[at as usize];
        if segment.used == 0 {
            segment.version_high = item::version_high(meta.version);
        }
        let layout = Layout::of(&meta, old.key_len(), old.value_len(), segment.version_high);
        let bytes = self.geometry.align_up(layout.size());
        if segment.used as usize + bytes > segment.data.len() {
            return None;
        }
        let offset = segment.append(bytes, meta.expires_at);
        layout.write(
            &mut segment.data[offset..],
            &meta,
            old.key(data),
            [old.value(data), &[]],
        );
        self.count(queue, bytes);
        Some(Place {
            segment: at,
            offset: offset as u32,
        })
    }

    /// As [`Inner::sweep`], for a segment that has one item: it goes, or moves as it is.
    fn sweep_alone(&mut self, victim: u32, keep: Keep, now: Seconds, context: &mut Context) {
        let place = Place {
            segment: victim,
            offset: 0,
        };
        let old_queue = self.segments[victim as usize].queue;
        let item = self.item(place, now);
        let (hash, expires_at) = (context.hasher.hash(item.key()), item.expires_at());
        let (scale, size) = (self.scale(), item.size());
        let judged = Judged {
            data: &item.data[..size],
            queue: old_queue,
            reads_more: scale.reads_more(size),
            round_costs: scale.round_costs(size, hash, self.segments[victim as usize].stamp),
        };
        match judged.survives(keep, now, context) {
            None => {
                if old_queue == QueueName::Small && !item::is_expired(expires_at, now) {
                    self.ghosts.put(hash);
                }
                self.remove(hash, place, context);
            }
            Some(frequency) if keep != Keep::All => {
                item::set_frequency(self.data_mut(place), frequency);
                self.requeue(victim, after_a_round(old_queue, keep));
            }
            Some(_) => {}
        }
    }
}

/// Where items of a queue go on that stay.
fn after_a_round(queue: QueueName, keep: Keep) -> QueueName {
    match (keep, queue) {
        (Keep::All, queue) => queue,
        (Keep::HotterThan(_), QueueName::Small | QueueName::Main) => QueueName::Main,
        (Keep::HotterThan(_), QueueName::Copies) => QueueName::Copies,
    }
}

/// An item that a sweep has come to.
struct Judged<'a> {
    /// The item with its padding.
    data: &'a [u8],
    queue: QueueName,
    /// Reads that it needs beyond those that others need to leave the small queue.
    reads_more: u8,
    /// Whether a round in the main queue costs it one of its frequency.
    round_costs: bool,
}

impl Judged<'_> {
    /// The frequency that the item goes on with, or `None` when it goes; counts why.
    fn survives(&self, keep: Keep, now: Seconds, context: &mut Context) -> Option<u8> {
        let counters = &mut context.counters;
        let layout = Layout::read(self.data);
        let unfetched = u64::from(!layout.fetched());
        if item::is_expired(layout.expires_at(self.data), now) {
            counters.reclaimed += 1;
            counters.expired_unfetched += unfetched;
            return None;
        }
        let frequency = layout.frequency();
        let (stays, cost) = match (keep, self.queue) {
            (Keep::All, _) => (true, 0),
            // Leaving the small queue costs one, as each round does later (S3-FIFO, algorithm 1).
            (Keep::HotterThan(threshold), QueueName::Small) => {
                (frequency > threshold.saturating_add(self.reads_more), 1)
            }
            (Keep::HotterThan(threshold), QueueName::Main | QueueName::Copies) => {
                (frequency > threshold, u8::from(self.round_costs))
            }
        };
        if stays {
            return Some(frequency - cost);
        }
        if self.queue == QueueName::Copies {
            counters.copies_evicted += 1;
            return None;
        }
        counters.evictions += 1;
        counters.evicted_unfetched += unfetched;
        counters.evicted_active += u64::from(frequency > 0);
        context.fates.evicted(self.data, self.data.len(), now);
        None
    }
}
