//! A run of memory that items are appended to, and the queues that order segments by age.
//!
//! A segment is a notebook: items are written one after another and stay where they are until the
//! whole page is looked through. An ordinary segment holds many items; an item too large for one
//! gets a segment of its own size and is alone in it.

use crate::Seconds;
use crate::item::NEVER;

/// "No segment" in links.
pub(crate) const NONE: u32 = u32::MAX;

/// Which queue a segment stands in (S3-FIFO, section 4: a small queue for newcomers, so that what
/// is asked for only once leaves soon, and a main queue for what was asked for again).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueName {
    Small = 0,
    Main = 1,
    /// [Copies](crate::StoreConfig::is_copy), which keep to themselves.
    Copies = 2,
}

/// How many there are.
pub(crate) const QUEUES: usize = 3;

/// Items whose expiries lie close together share segments, so that whole segments expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TtlClass(u8);

impl TtlClass {
    /// Items that never expire.
    pub const NEVER: TtlClass = TtlClass(0);

    /// The class of an item: four classes for each doubling of the time that it has left, so that
    /// an item outlives its expiry in memory by a quarter of its lifetime at most.
    #[inline]
    pub fn of(expires_at: Seconds, now: Seconds) -> Self {
        if expires_at == NEVER {
            return Self::NEVER;
        }
        let ttl = u64::from(expires_at.saturating_sub(now).max(1));
        let octave = ttl.ilog2();
        let quarter = ((ttl * 4) >> octave) & 3;
        // At most 1 + 4 * 31 + 3.
        TtlClass((1 + 4 * octave + quarter as u32) as u8)
    }

    /// How unfit segments of another class are for an item of this one. Items that never expire
    /// keep a segment from expiring, so the two kinds mix last.
    pub fn distance(self, other: TtlClass) -> u32 {
        let mixes = (self == Self::NEVER) != (other == Self::NEVER);
        u32::from(self.0.abs_diff(other.0)) + if mixes { u32::from(u8::MAX) } else { 0 }
    }
}

/// A segment's description. An unused slot of the segment table has an empty block.
#[derive(Debug)]
pub(crate) struct Segment {
    pub data: Box<[u8]>,
    /// Bytes written from the start. Invariant: `live_bytes <= used <= data.len()`.
    pub used: u32,
    /// Bytes of items that the index knows.
    pub live_bytes: u32,
    /// Number of items that the index knows.
    pub live_items: u32,
    /// No item here expires later; [`NEVER`] when some never expires. Only grows until the segment
    /// is looked through.
    pub expires_at: Seconds,
    /// Bits 40 and up of the items' versions, unless an item says otherwise.
    pub version_high: u32,
    /// Place in the order of ages over all cachelets.
    pub stamp: u64,
    pub queue: QueueName,
    pub class: TtlClass,
    /// Whether it holds one item and nothing else.
    pub alone: bool,
    /// Whether items are being appended to it.
    pub open: bool,
    pub previous: u32,
    /// Next in the queue, or next free slot.
    pub next: u32,
}

const _: () = assert!(
    size_of::<Segment>() <= 64,
    "a lookup reads one line of a description"
);

impl Segment {
    pub fn unused(next: u32) -> Self {
        Segment {
            data: Box::default(),
            used: 0,
            live_bytes: 0,
            live_items: 0,
            expires_at: NEVER,
            version_high: 0,
            stamp: 0,
            queue: QueueName::Small,
            class: TtlClass::NEVER,
            alone: false,
            open: false,
            previous: NONE,
            next,
        }
    }

    /// Bytes that looking through the segment would win.
    pub fn waste(&self) -> usize {
        let useful_end = if self.open {
            self.used as usize
        } else {
            self.data.len()
        };
        useful_end - self.live_bytes as usize
    }

    pub fn is_in_use(&self) -> bool {
        !self.data.is_empty()
    }

    /// Counts an item of `bytes` appended at the end. Returns where it starts.
    #[inline]
    pub fn append(&mut self, bytes: usize, expires_at: Seconds) -> usize {
        let at = self.used as usize;
        self.widen_expiry(expires_at);
        // Segments and items are smaller than 4 GiB.
        self.used += bytes as u32;
        self.live_bytes += bytes as u32;
        self.live_items += 1;
        at
    }

    /// Notes that an item here expires at this time.
    #[inline]
    pub fn widen_expiry(&mut self, expires_at: Seconds) {
        if self.live_items == 0 {
            self.expires_at = expires_at;
        } else if self.expires_at != NEVER {
            self.expires_at = if expires_at == NEVER {
                NEVER
            } else {
                self.expires_at.max(expires_at)
            };
        }
    }
}

/// First, last and size of a queue; the links are in the segments.
#[derive(Debug)]
pub(crate) struct Queue {
    pub head: u32,
    pub tail: u32,
    pub bytes: usize,
}

impl Queue {
    pub const EMPTY: Queue = Queue {
        head: NONE,
        tail: NONE,
        bytes: 0,
    };

    pub fn push(&mut self, segments: &mut [Segment], at: u32) {
        let previous = self.tail;
        let segment = &mut segments[at as usize];
        segment.previous = previous;
        segment.next = NONE;
        self.bytes += segment.data.len();
        match previous {
            NONE => self.head = at,
            last => segments[last as usize].next = at,
        }
        self.tail = at;
    }

    pub fn remove(&mut self, segments: &mut [Segment], at: u32) {
        let Segment { previous, next, .. } = segments[at as usize];
        self.bytes -= segments[at as usize].data.len();
        match previous {
            NONE => self.head = next,
            other => segments[other as usize].next = next,
        }
        match next {
            NONE => self.tail = previous,
            other => segments[other as usize].previous = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_spans_a_quarter_of_a_lifetime_at_most() {
        let mut start = 1u32;
        for ttl in 1..100_000 {
            if TtlClass::of(ttl, 0) != TtlClass::of(start, 0) {
                assert!(TtlClass::of(start, 0) < TtlClass::of(ttl, 0));
                start = ttl;
            }
            assert!(
                u64::from(ttl) * 4 <= u64::from(start) * 5,
                "{start} and {ttl}"
            );
        }
        assert_eq!(TtlClass::of(u32::MAX, 0), TtlClass(1 + 4 * 31 + 3));
    }

    #[test]
    fn a_segment_expires_with_its_last_item() {
        let mut segment = Segment::unused(NONE);
        segment.append(10, 50);
        segment.append(10, 40);
        assert_eq!(segment.expires_at, 50);
        segment.append(10, NEVER);
        segment.append(10, 60);
        assert_eq!(segment.expires_at, NEVER);
    }
}
