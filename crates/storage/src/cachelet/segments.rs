//! The segments of a cachelet: to which an item is appended, and which are open, sealed and free.

use super::{Context, Entry, Inner, Need, Open, Place};
use crate::Seconds;
use crate::item::{Layout, version_high};
use crate::segment::{NONE, QueueName, Segment, TtlClass};

/// A cachelet may append to this many segments at a time whatever its size: newcomers and survivors,
/// with and without expiry.
const OPEN_SEGMENTS_MIN: usize = 4;
/// Beyond that, to one of this many of its segments, which bounds the space that lies idle.
const OPEN_SEGMENTS_PART: usize = 32;
/// Right-sized segments are multiples of this many bytes.
const BLOCK_GRANULE: usize = 64;

impl Inner {
    pub(super) fn write(
        &mut self,
        entry: &Entry<'_>,
        now: Seconds,
        context: &mut Context,
    ) -> Result<Place, Need> {
        let class = TtlClass::of(entry.meta.expires_at, now);
        let found = if entry.bytes_max() <= self.geometry.item_bytes_max() {
            self.open_segment_for(entry, class)
        } else {
            None
        };
        let (at, layout) = match found {
            Some(found) => found,
            None => self.new_segment_for(entry, class, context)?,
        };
        let bytes = self.geometry.align_up(layout.size());
        let segment = &mut self.segments[at as usize];
        let offset = segment.append(bytes, entry.meta.expires_at);
        layout.write(
            &mut segment.data[offset..],
            &entry.meta,
            entry.key,
            entry.value,
        );
        self.count(entry.queue, bytes);
        Ok(Place {
            segment: at,
            offset: offset as u32,
        })
    }

    /// Where an item goes for which no open segment is known yet, and its layout there.
    #[inline(never)]
    fn new_segment_for(
        &mut self,
        entry: &Entry<'_>,
        class: TtlClass,
        context: &mut Context,
    ) -> Result<(u32, Layout), Need> {
        let high = version_high(entry.meta.version);
        let layout = entry.layout(high);
        let least = self.geometry.align_up(layout.size());
        let alone = least > self.geometry.item_bytes_max();
        let bytes = if alone {
            self.block_bytes(least)
        } else if let Some(found) = self.open_segment_for(entry, class) {
            return Ok(found);
        } else {
            self.geometry.segment_bytes
        };
        let at = self.new_segment(bytes, entry.queue, class, context)?;
        self.segments[at as usize].version_high = high;
        Ok((at, layout))
    }

    /// Size of a right-sized segment; never that of an ordinary one, which tells them apart.
    fn block_bytes(&self, item_bytes: usize) -> usize {
        let bytes = item_bytes.next_multiple_of(BLOCK_GRANULE);
        if bytes == self.geometry.segment_bytes {
            bytes + BLOCK_GRANULE
        } else {
            bytes
        }
    }

    /// An open segment that has room for the item, and the item's layout there. Prefers one of the
    /// item's class; takes the nearest class once as many segments are open as should be.
    #[inline]
    fn open_segment_for(&mut self, entry: &Entry<'_>, class: TtlClass) -> Option<(u32, Layout)> {
        let at = self
            .open_of(entry.queue, class)
            .or_else(|| self.nearest_if_crowded(entry.queue, class))?;
        let segment = &mut self.segments[at as usize];
        if segment.used == 0 {
            segment.version_high = version_high(entry.meta.version);
        }
        let layout = entry.layout(segment.version_high);
        let end = segment.used as usize + self.geometry.align_up(layout.size());
        (end <= segment.data.len()).then_some((at, layout))
    }

    #[cold]
    fn nearest_if_crowded(&self, queue: QueueName, class: TtlClass) -> Option<u32> {
        if self.open.len() < self.open_segments_max() {
            return None;
        }
        let of_queue = self.open.iter().filter(|open| open.queue == queue);
        of_queue
            .min_by_key(|open| class.distance(open.class))
            .map(|open| open.segment)
    }

    fn open_segments_max(&self) -> usize {
        (self.segments_in_use / OPEN_SEGMENTS_PART).max(OPEN_SEGMENTS_MIN)
    }

    /// A fresh segment at the young end of a queue, open unless it is for one item.
    fn new_segment(
        &mut self,
        bytes: usize,
        queue: QueueName,
        class: TtlClass,
        context: &mut Context,
    ) -> Result<u32, Need> {
        let alone = bytes != self.geometry.segment_bytes;
        let at = self.unused_slot(context)?;
        let data = context.account.block(bytes).ok_or(Need::Bytes(bytes))?;
        self.held += bytes;
        self.segment_bytes += bytes;
        self.segments_in_use += 1;
        self.free_slot = self.segments[at as usize].next;
        let stamp = self.pool.next_stamp();
        let unused = Segment::unused(NONE);
        self.segments[at as usize] = Segment {
            data,
            stamp,
            queue,
            class,
            alone,
            ..unused
        };
        self.queues[queue as usize].push(&mut self.segments, at);
        if !alone {
            self.open_segment(at, context);
        }
        Ok(at)
    }

    /// Makes sure that the list of unused slots is not empty and returns its first.
    fn unused_slot(&mut self, context: &mut Context) -> Result<u32, Need> {
        if self.free_slot != NONE {
            return Ok(self.free_slot);
        }
        let len = self.segments.len();
        if len == self.geometry.slots_max() {
            return Err(Need::Slot);
        }
        if len == self.segments.capacity() {
            let more = (len / 8).max(OPEN_SEGMENTS_MIN);
            let bytes = more * size_of::<Segment>();
            if !context.account.charge(bytes) {
                return Err(Need::Bytes(bytes));
            }
            self.held += bytes;
            self.segments.reserve_exact(more);
        }
        self.segments.push(Segment::unused(NONE));
        // `slots_max` is at most 2^25, as offsets have seven bits at least.
        self.free_slot = len as u32;
        Ok(self.free_slot)
    }

    pub fn free_segment(&mut self, at: u32, context: &mut Context) {
        self.close_segment(at);
        let queue = self.segments[at as usize].queue;
        self.queues[queue as usize].remove(&mut self.segments, at);
        let unused = Segment::unused(self.free_slot);
        let segment = core::mem::replace(&mut self.segments[at as usize], unused);
        self.free_slot = at;
        self.segments_in_use -= 1;
        self.segment_bytes -= segment.data.len();
        self.held -= segment.data.len();
        context.account.release(segment.data);
    }

    /// Appends from now on to this segment instead of another of its queue and class.
    pub fn open_segment(&mut self, at: u32, context: &mut Context) {
        let Segment { queue, class, .. } = self.segments[at as usize];
        if let Some(other) = self.open_of(queue, class) {
            self.seal(other, context);
        }
        if self.open.len() >= self.open_segments_max() {
            self.seal(self.open[0].segment, context);
        }
        self.segments[at as usize].open = true;
        self.open.push(Open {
            segment: at,
            queue,
            class,
        });
    }

    /// Appends no more to a segment, and frees it if nothing has been.
    fn seal(&mut self, at: u32, context: &mut Context) {
        self.close_segment(at);
        if self.segments[at as usize].live_items == 0 {
            self.free_segment(at, context);
        }
    }

    /// Takes a segment from the open ones, if it is one of them.
    pub fn close_segment(&mut self, at: u32) {
        if core::mem::take(&mut self.segments[at as usize].open) {
            self.open.retain(|other| other.segment != at);
        }
    }

    /// Moves a segment to the young end of a queue.
    pub fn requeue(&mut self, at: u32, queue: QueueName) {
        let old = self.segments[at as usize].queue;
        self.queues[old as usize].remove(&mut self.segments, at);
        self.segments[at as usize].queue = queue;
        self.segments[at as usize].stamp = self.pool.next_stamp();
        self.queues[queue as usize].push(&mut self.segments, at);
    }

    /// A segment that is open for items of this queue and class.
    #[inline]
    pub fn open_of(&self, queue: QueueName, class: TtlClass) -> Option<u32> {
        let fits = |open: &&Open| open.queue == queue && open.class == class;
        self.open.iter().find(fits).map(|open| open.segment)
    }
}
