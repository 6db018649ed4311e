//! Copies of items in racks that read them often and do not hold them (paper 7.3, which asks for it and does not say how).
//!
//! The copy stands at the key's place in the rack that reads, as a mark: a [note](crate::mark::Copied) to the rack that holds the item, with the item
//! behind it. So anyone who writes there, or tells others where an item is, treats it as the note that it is, and nobody has to know of it or clear it.
//!
//! **How old it may be is not a matter of clocks that agree.** Each worker of a proxy shows a copy for a time that begins when it has itself
//! asked the rack that holds for the item, and been answered the very value that the copy has, which it knows by its tag. It measures that time by its own
//! monotonic clock. What another worker has stored counts for nothing until the own answer has the same tag; then nothing has to be stored.
//!
//! A copy is stored when the value was read `wanted` times within the time that it may be old. That number is one of the worker's own: it doubles with
//! each copy that was not shown before its time was over, be it that nobody has asked or that it was evicted or written over, and falls by one with each
//! that was shown twice or more. So where memory is short, or items change a lot, there are few copies.

use core::time::Duration;
use evenkeel_types::{Instant, KeyHash};

/// Keys whose reads are counted at most, in a table of 2.5 MiB.
pub const KEYS_MAX: usize = 32_768;

/// Longest value that is copied, in bytes.
pub const VALUE_MAX: usize = 16 << 10;

/// How long a copy stays where nothing has to stand when it is gone, in seconds. It is read for a shorter time, over and over.
pub const EXPTIME_SECS: i64 = 120;

/// Reads of a value before it is copied: at first and at least, and at most.
const WANTED_MIN: u32 = 2;
const WANTED_MAX: u32 = 64;

/// How often a copy is shown that was worth it.
const WORTH: u32 = 2;

/// What a worker knows of the items of a pool that other racks hold.
#[derive(Clone, Debug)]
pub struct LocalCopies {
    /// How old a copy may be.
    ttl: Duration,
    /// Reads of a value before it is copied.
    wanted: u32,
    /// By the lowest bits of the key's hash. Empty before the first read; a newer key takes the place of an older one.
    entries: Vec<Option<Entry>>,
}

/// A read that another rack has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarRead {
    /// The tag of the value.
    pub tag: u64,
    /// When it was asked there, or earlier.
    pub asked: Instant,
    /// The tag of the copy that was met in the own rack, if one was.
    pub met: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The key's hash.
    key: u64,
    /// What was read last was asked then, or the key was written.
    asked: Instant,
    /// The value that was read last.
    value: Option<Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    tag: u64,
    /// The reads that are counted have begun with this one.
    since: Instant,
    reads: u32,
    copy: Option<Shown>,
}

/// A copy with this value may be shown.
#[derive(Clone, Copy, Debug)]
struct Shown {
    until: Instant,
    /// How often it was.
    times: u32,
}

impl LocalCopies {
    /// Copies that may be as old as `ttl`.
    pub fn new(ttl: Duration) -> Self {
        LocalCopies {
            ttl,
            wanted: WANTED_MIN,
            entries: Vec::new(),
        }
    }

    /// Whether the copy with this tag may be shown to a read; of any that is stored by the same reads, where `tag` is `None`. O(1).
    #[inline]
    pub fn shows(&mut self, key: u64, tag: Option<u64>, now: Instant) -> bool {
        let entry = self.entries.get_mut(place(key));
        let entry = entry.and_then(|it| it.as_mut().filter(|it| it.key == key));
        let Some(known) = entry.and_then(|it| it.value.as_mut()) else {
            return false;
        };
        let is_it = tag.is_none_or(|tag| tag == known.tag);
        let copy = known.copy.as_mut().filter(|it| is_it && now < it.until);
        copy.map(|it| it.times += 1).is_some()
    }

    /// The rack that holds an item has answered. Whether it is to be copied. O(1).
    pub fn has_read(&mut self, key: u64, read: FarRead) -> bool {
        let FarRead { tag, asked, met } = read;
        let ttl = self.ttl;
        let entry = self.entry(key);
        if asked < entry.asked {
            // Something newer is known.
            return false;
        }
        entry.asked = asked;
        let former = entry.value.take();
        let mut known = former.filter(|it| it.tag == tag).unwrap_or(Known {
            tag,
            since: asked,
            reads: 0,
            copy: None,
        });
        if asked >= known.since + ttl {
            (known.since, known.reads) = (asked, 0);
        }
        known.reads += 1;
        let is_running = |copy: &Shown| asked < copy.until;
        known.copy = known.copy.filter(is_running);
        if let (None, Some(copy)) = (known.copy, former.and_then(|it| it.copy)) {
            self.judge(copy);
        }
        let is_there = met == Some(tag);
        let stores = !is_there && known.copy.is_none() && known.reads >= self.wanted;
        if is_there || stores {
            known.copy = Some(Shown {
                until: asked + ttl,
                times: known.copy.map_or(0, |it| it.times),
            });
        }
        self.entry(key).value = Some(known);
        stores
    }

    /// A write of the key was answered: what was read before, or is under way, is shown no more. O(1).
    pub fn has_written(&mut self, key: u64, now: Instant) {
        let entry = self.entry(key);
        let former = entry.value.take();
        // A read that was asked in the same moment may have been executed before.
        entry.asked = Instant(now.0 + 1);
        if let Some(copy) = former.and_then(|it| it.copy) {
            self.judge(copy);
        }
    }

    /// The time of a copy is over.
    fn judge(&mut self, copy: Shown) {
        self.wanted = match copy.times {
            0 => (self.wanted * 2).min(WANTED_MAX),
            WORTH.. => (self.wanted - 1).max(WANTED_MIN),
            _ => self.wanted,
        };
    }

    /// The entry of a key, in the place of another one's. What was asked before that one was written is too old for this one, too.
    fn entry(&mut self, key: u64) -> &mut Entry {
        if self.entries.is_empty() {
            self.entries.resize(KEYS_MAX, None);
        }
        let other = self.entries[place(key)].take_if(|it| it.key != key);
        if let Some(copy) = other.and_then(|it| it.value?.copy) {
            self.judge(copy);
        }
        self.entries[place(key)].get_or_insert(Entry {
            key,
            asked: other.map_or(Instant(0), |it| it.asked),
            value: None,
        })
    }
}

/// What tells a value from others of the same item. O(bytes).
pub fn tag(flags: u32, value: &[u8]) -> u64 {
    KeyHash::of(value).0 ^ KeyHash::of(&flags.to_le_bytes()).0.rotate_left(1)
}

fn place(key: u64) -> usize {
    key as usize % KEYS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_testkit::seed;
    use evenkeel_types::random::SplitMix64;
    use std::collections::BTreeSet;

    const TTL: Duration = Duration::from_millis(1_000);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn read(tag: u64, ms: u64) -> FarRead {
        FarRead {
            tag,
            asked: at(ms),
            met: None,
        }
    }

    fn met(tag: u64, ms: u64) -> FarRead {
        FarRead {
            met: Some(tag),
            ..read(tag, ms)
        }
    }

    #[test]
    fn a_value_that_is_read_twice_is_copied_and_shown_until_its_second_read_is_too_old() {
        let mut copies = LocalCopies::new(TTL);
        assert!(!copies.has_read(7, read(1, 100)));
        assert!(!copies.shows(7, Some(1), at(150)));
        assert!(copies.has_read(7, read(1, 200)));
        assert!(!copies.has_read(7, read(1, 201)), "it is being stored");
        assert!(copies.shows(7, Some(1), at(1_199)));
        assert!(!copies.shows(7, Some(1), at(1_200)));
        assert!(!copies.shows(7, Some(2), at(300)), "somebody else's");
        assert!(!copies.shows(8, Some(1), at(300)));
        // One that is there when its time is over is shown again, and is not stored.
        assert!(!copies.has_read(7, met(1, 1_300)));
        assert!(copies.shows(7, Some(1), at(2_299)));
    }

    #[test]
    fn what_another_worker_has_stored_is_shown_behind_one_read_of_the_same_value() {
        let mut copies = LocalCopies::new(TTL);
        assert!(!copies.has_read(7, met(1, 100)));
        assert!(copies.shows(7, Some(1), at(500)));
        let other = FarRead {
            met: Some(1),
            ..read(2, 600)
        };
        assert!(!copies.has_read(7, other), "the copy is out of date");
        assert!(!copies.shows(7, Some(1), at(700)));
        assert!(!copies.shows(7, Some(2), at(700)));
    }

    #[test]
    fn reads_count_that_are_close_together_and_show_one_value() {
        let mut copies = LocalCopies::new(TTL);
        assert!(!copies.has_read(7, read(1, 100)));
        assert!(!copies.has_read(7, read(1, 1_100)), "too late");
        assert!(!copies.has_read(7, read(2, 1_200)), "another value");
        assert!(!copies.has_read(7, read(1, 1_300)));
        assert!(copies.has_read(7, read(1, 1_400)));
    }

    #[test]
    fn more_reads_are_wanted_where_copies_are_not_shown_and_fewer_where_they_are() {
        let mut copies = LocalCopies::new(TTL);
        let mut needed = |key: u64, ms: u64, shown: u32| {
            let stored = (1..=100).find(|n| copies.has_read(key, read(1, ms + n)));
            for _ in 0..shown {
                assert!(copies.shows(key, Some(1), at(ms + 200)));
            }
            stored
        };
        // A copy is judged when its key is read again.
        for (ms, shown, expected) in [
            (0, 0, 2),
            (2_000, 0, 4),
            (4_000, 1, 8),
            (6_000, 2, 8),
            (8_000, 9, 7),
            (10_000, 0, 6),
            (12_000, 0, 12),
            (14_000, 0, 24),
            (16_000, 0, 48),
            (18_000, 0, 64),
            (20_000, 0, 64),
        ] {
            assert_eq!(needed(7, ms, shown), Some(expected), "{ms}");
        }
    }

    #[test]
    fn a_copy_that_is_lost_is_stored_again_when_its_time_is_over() {
        let mut copies = LocalCopies::new(TTL);
        let stored: Vec<u64> = (0..3_000)
            .step_by(10)
            .filter(|ms| copies.has_read(7, read(1, *ms)))
            .collect();
        assert_eq!(stored, [10, 1_030, 2_070]);
    }

    #[test]
    fn a_write_ends_what_was_read_before_it_was_answered() {
        let mut copies = LocalCopies::new(TTL);
        copies.has_written(7, at(50));
        assert!(!copies.has_read(7, met(1, 50)), "asked before");
        assert!(!copies.shows(7, Some(1), at(60)));
        assert!(!copies.has_read(7, met(1, 51)));
        assert!(copies.shows(7, Some(1), at(60)));
        copies.has_written(7, at(60));
        assert!(!copies.shows(7, Some(1), at(60)));
        // Also where another key has taken its place meanwhile.
        assert!(!copies.has_read(7 + KEYS_MAX as u64, met(1, 61)));
        assert!(!copies.has_read(7, met(1, 60)));
        assert!(!copies.shows(7, Some(1), at(62)));
    }

    #[test]
    fn an_older_read_that_is_answered_later_changes_nothing() {
        let mut copies = LocalCopies::new(TTL);
        assert!(!copies.has_read(7, met(2, 100)));
        assert!(!copies.has_read(7, met(1, 99)));
        assert!(copies.shows(7, Some(2), at(200)));
        assert!(!copies.shows(7, Some(1), at(200)));
    }

    /// What has been told of a key, all of it.
    #[derive(Default)]
    struct Twin {
        reads: Vec<(u64, FarRead)>,
        writes: Vec<(u64, Instant)>,
    }

    impl Twin {
        /// Whether a copy may be shown by the promise: it has the newest value of those that were asked after the last write, which was asked for
        /// lately.
        fn may_show(&self, key: u64, tag: u64, now: Instant) -> bool {
            let written = self.writes.iter().filter(|(it, _)| *it == key);
            let written = written.map(|(_, when)| *when).max();
            let reads = self.reads.iter().filter(|(it, _)| *it == key);
            let reads = reads
                .map(|(_, read)| read)
                .filter(|it| Some(it.asked) > written);
            let newest = reads.max_by_key(|it| it.asked);
            newest.is_some_and(|it| it.tag == tag && now < it.asked + TTL)
        }
    }

    #[test]
    fn nothing_is_shown_that_the_own_reads_do_not_vouch_for() {
        let mut random = SplitMix64::new(seed(0x7c));
        let mut below = |limit: u64| random.next_u64() % limit;
        let (mut copies, mut twin) = (LocalCopies::new(TTL), Twin::default());
        let mut shown = 0;
        let mut ms = 0;
        for _ in 0..20_000 {
            ms += below(60);
            // Two of them have the same place.
            let key = [1, 2, 1 + KEYS_MAX as u64][below(3) as usize];
            let tag = below(3);
            match below(10) {
                0..4 => {
                    // Answers may come in another order; no two are asked in the same moment.
                    let asked = Instant(at(ms - ms.min(below(200))).0 + twin.reads.len() as u64);
                    let met = (below(2) == 0).then_some(below(3));
                    let read = FarRead { tag, asked, met };
                    copies.has_read(key, read);
                    twin.reads.push((key, read));
                }
                4 if below(5) == 0 => {
                    copies.has_written(key, at(ms + 1));
                    twin.writes.push((key, at(ms + 1)));
                    ms += 1;
                }
                _ => {
                    if copies.shows(key, Some(tag), at(ms)) {
                        shown += 1;
                        assert!(twin.may_show(key, tag, at(ms)), "{key} {tag} at {ms}");
                    }
                }
            }
        }
        assert!(shown > 200, "{shown}");
    }

    #[test]
    fn values_and_flags_have_tags_of_their_own() {
        let tags = [(0, "a"), (1, "a"), (0, "b"), (0, ""), (97, "")];
        let tags: BTreeSet<u64> = tags
            .iter()
            .map(|(flags, value)| tag(*flags, value.as_bytes()))
            .collect();
        assert_eq!(tags.len(), 5);
    }

    #[test]
    fn the_table_is_as_large_as_it_says() {
        let bytes = KEYS_MAX * size_of::<Option<Entry>>();
        assert!(bytes <= 5 << 19, "{bytes}");
    }
}
