//! The words behind the operator's commands: `lru_crawler`, `slabs`, `lru`, `watch`, `debugtime`.
//!
//! Most of them turn knobs of parts that memcached has and this server has not: LRU lists, a crawler
//! that walks them, slab pages that move between classes. Scripts turn these knobs when a cache
//! starts and give up when one is missing, so they are read as memcached reads them, found right or
//! wrong, and left alone.

use crate::number;
use crate::text;
use crate::words::{Split, Words};

/// Numbers of memcached's slab classes: 1 to 62 (`MAX_NUMBER_OF_SLAB_CLASSES`).
const CLASSES: core::ops::RangeInclusive<u64> = 1..=62;

/// Most microseconds that the crawler may sleep between two items.
const CRAWLER_SLEEP_MAX_US: u32 = 1_000_000;

/// Most that `lru tune` may give to the hot and warm lists together, in per cent.
const HOT_AND_WARM_PERCENT_MAX: u64 = 80;

/// How a dump shows an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpForm {
    /// `metadump`: a line of everything but the value.
    Meta,
    /// `mgdump`: an `mg` command that would fetch it.
    MetaGet,
}

/// Which items a dump shows: a set of class numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes(u64);

impl Classes {
    /// Every class.
    pub const ALL: Classes = Classes(u64::MAX);

    /// One class; `None` for a number that no class can have.
    pub fn one(number: u64) -> Option<Classes> {
        CLASSES.contains(&number).then(|| Classes(1 << number))
    }

    /// Whether the class of this number is in the set.
    pub fn contains(self, number: usize) -> bool {
        number < u64::BITS as usize && self.0 & (1 << number) != 0
    }

    /// Reads `all`, `hash`, or class numbers separated by commas.
    fn parse(word: &[u8]) -> Option<Classes> {
        if word == b"all" || word == b"hash" {
            return Some(Classes::ALL);
        }
        word.split(|&byte| byte == b',')
            .try_fold(Classes(0), |set, number| {
                let one = Classes::one(number::unsigned(number)?)?;
                Some(Classes(set.0 | one.0))
            })
    }
}

/// What `lru_crawler` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crawler {
    /// A list of items; `None` when no such class can exist.
    Dump(DumpForm, Option<Classes>),
    /// A knob of the crawler: answered, and nothing done.
    Knob(&'static [u8]),
}

/// Reads the words behind `lru_crawler`.
pub fn crawler(arguments: &[u8]) -> Crawler {
    let words = Split::<3>::new(Words::new(arguments));
    let knob = |answer| Crawler::Knob(answer);
    match (words.at(0), words.count) {
        (b"metadump", 2) => Crawler::Dump(DumpForm::Meta, Classes::parse(words.at(1))),
        (b"mgdump", 2) => Crawler::Dump(DumpForm::MetaGet, Classes::parse(words.at(1))),
        (b"crawl", 2) => knob(match Classes::parse(words.at(1)) {
            Some(_) => text::OK,
            None => text::BAD_CLASS,
        }),
        (b"sleep", 2) => knob(match number::wrapping_u32(words.at(1)) {
            Some(..=CRAWLER_SLEEP_MAX_US) => text::OK,
            Some(_) => text::CRAWLER_SLEEP_TOO_LONG,
            None => text::BAD_FORMAT,
        }),
        (b"tocrawl", 2) => knob(match number::wrapping_u32(words.at(1)) {
            Some(_) => text::OK,
            None => text::BAD_FORMAT,
        }),
        (b"enable" | b"disable", 1) => knob(text::OK),
        _ => knob(text::ERROR),
    }
}

/// What memcached answers to `slabs` with these words when no page can be moved.
pub fn slabs(arguments: &[u8]) -> &'static [u8] {
    let words = Split::<4>::new(Words::new(arguments));
    match (words.at(0), words.count) {
        (b"reassign", 3) => match (number::signed(words.at(1)), number::signed(words.at(2))) {
            (Some(from), Some(to)) if from == to => text::SAME_CLASS,
            (Some(from), Some(to)) => {
                let known = |number: i64| {
                    u64::try_from(number).is_ok_and(|number| CLASSES.contains(&number))
                };
                if known(from) && known(to) {
                    text::NO_SPARE_PAGES
                } else {
                    text::BAD_SLAB_CLASS
                }
            }
            _ => text::BAD_FORMAT,
        },
        (b"automove", 3) if words.at(1) == b"freeratio" => match ratio(words.at(2)) {
            Some(_) => text::OK,
            None => text::BAD_FORMAT,
        },
        (b"automove", 2) => match number::wrapping_u32(words.at(1)) {
            Some(0..=2) => text::OK,
            Some(_) => text::ERROR,
            None => text::BAD_FORMAT,
        },
        _ => text::ERROR,
    }
}

/// What memcached answers to `lru` with these words.
pub fn lru(arguments: &[u8]) -> &'static [u8] {
    let words = Split::<6>::new(Words::new(arguments));
    match (words.at(0), words.count) {
        (b"mode", 2) if matches!(words.at(1), b"flat" | b"segmented") => text::OK,
        (b"temp_ttl", 2) if number::wrapping_i32(words.at(1)).is_some() => text::OK,
        (b"tune", 5) => {
            let percent = (number::unsigned(words.at(1)), number::unsigned(words.at(2)));
            let factors = (ratio(words.at(3)), ratio(words.at(4)));
            match (percent, factors) {
                ((Some(hot), Some(warm)), (Some(hot_age), Some(warm_age))) => {
                    if hot.saturating_add(warm) > HOT_AND_WARM_PERCENT_MAX {
                        text::LRU_TOO_HOT
                    } else if hot_age <= 0.0 || warm_age <= 0.0 {
                        text::LRU_BAD_FACTOR
                    } else {
                        text::OK
                    }
                }
                _ => text::ERROR,
            }
        }
        _ => text::ERROR,
    }
}

fn ratio(word: &[u8]) -> Option<f64> {
    core::str::from_utf8(word).ok()?.parse().ok()
}

/// Kinds of events that somebody may watch: a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams(u16);

impl Streams {
    /// Reads: each key looked up.
    pub const FETCHERS: Streams = Streams(1);
    /// Each attempt to store an item.
    pub const MUTATIONS: Streams = Streams(1 << 1);
    /// Each item removed for want of memory.
    pub const EVICTIONS: Streams = Streams(1 << 2);
    /// Connections made and ended.
    pub const CONNEVENTS: Streams = Streams(1 << 3);
    /// Each item deleted by a client.
    pub const DELETIONS: Streams = Streams(1 << 4);
    /// What memcached knows besides: its background threads, raw commands, its proxy. Nothing here
    /// makes such events.
    pub const OTHERS: Streams = Streams(1 << 5);

    /// Whether no kind is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the two sets have a kind in common.
    pub fn intersects(self, other: Streams) -> bool {
        self.0 & other.0 != 0
    }

    /// Every kind that is in one of the sets.
    pub fn union(self, other: Streams) -> Streams {
        Streams(self.0 | other.0)
    }

    /// The set as a number.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// The set of a number that [`Streams::bits`] gave.
    pub fn from_bits(bits: u16) -> Streams {
        Streams(bits)
    }
}

/// Reads the words behind `watch`: `fetchers` when there are none, `None` when one is unknown.
pub fn watch(arguments: &[u8]) -> Option<Streams> {
    let mut words = Words::new(arguments).peekable();
    if words.peek().is_none() {
        return Some(Streams::FETCHERS);
    }
    words.try_fold(Streams::default(), |set, word| {
        let one = match word {
            b"fetchers" => Streams::FETCHERS,
            b"mutations" => Streams::MUTATIONS,
            b"evictions" => Streams::EVICTIONS,
            b"connevents" => Streams::CONNEVENTS,
            b"deletions" => Streams::DELETIONS,
            b"sysevents" | b"rawcmds" | b"proxyreqs" | b"proxyevents" | b"proxyuser" => {
                Streams::OTHERS
            }
            _ => return None,
        };
        Some(set.union(one))
    })
}

/// What `debugtime` does to the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugTime {
    /// `p`: it stands still.
    Pause,
    /// `r`: it goes on from where it stands.
    Resume,
    /// It moves on by this many seconds.
    Advance(u32),
}

/// Reads the words behind `debugtime`.
pub fn debug_time(arguments: &[u8]) -> Option<DebugTime> {
    match arguments {
        b"p" => Some(DebugTime::Pause),
        b"r" => Some(DebugTime::Resume),
        seconds => number::unsigned(seconds)
            .and_then(|seconds| u32::try_from(seconds).ok())
            .map(DebugTime::Advance),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knob(arguments: &str) -> &'static [u8] {
        match crawler(arguments.as_bytes()) {
            Crawler::Knob(answer) => answer,
            dump @ Crawler::Dump(..) => panic!("{arguments}: {dump:?}"),
        }
    }

    #[test]
    fn knobs_are_answered_as_memcached_answers() {
        for (words, answer) in [
            ("crawl all", text::OK),
            ("crawl 1,2", text::OK),
            ("crawl foo", text::BAD_CLASS),
            ("crawl 0", text::BAD_CLASS),
            ("crawl 63", text::BAD_CLASS),
            ("crawl 1 2", text::ERROR),
            ("crawl", text::ERROR),
            ("sleep 100", text::OK),
            ("sleep 1000001", text::CRAWLER_SLEEP_TOO_LONG),
            ("sleep x", text::BAD_FORMAT),
            ("tocrawl 10", text::OK),
            ("tocrawl x", text::BAD_FORMAT),
            ("tocrawl", text::ERROR),
            ("enable", text::OK),
            ("disable", text::OK),
            ("enable x", text::ERROR),
            ("metadump", text::ERROR),
            ("metadump all x", text::ERROR),
            ("bogus", text::ERROR),
            ("", text::ERROR),
        ] {
            assert_eq!(knob(words), answer, "lru_crawler {words}");
        }
        for (words, answer) in [
            ("automove 0", text::OK),
            ("automove 2", text::OK),
            ("automove 3", text::ERROR),
            ("automove x", text::BAD_FORMAT),
            ("automove", text::ERROR),
            ("automove freeratio 0.1", text::OK),
            ("reassign 1 2", text::NO_SPARE_PAGES),
            ("reassign 1 1", text::SAME_CLASS),
            ("reassign 1 x", text::BAD_FORMAT),
            ("reassign 99 100", text::BAD_SLAB_CLASS),
            ("reassign -1 2", text::BAD_SLAB_CLASS),
            ("", text::ERROR),
        ] {
            assert_eq!(slabs(words.as_bytes()), answer, "slabs {words}");
        }
        for (words, answer) in [
            ("mode flat", text::OK),
            ("mode bogus", text::ERROR),
            ("mode", text::ERROR),
            ("tune 10 20 0.1 0.2", text::OK),
            ("tune 90 20 0.1 0.2", text::LRU_TOO_HOT),
            ("tune 10 20 0 0.2", text::LRU_BAD_FACTOR),
            ("tune x", text::ERROR),
            ("temp_ttl 10", text::OK),
            ("temp_ttl -1", text::OK),
            ("temp_ttl x", text::ERROR),
            ("", text::ERROR),
        ] {
            assert_eq!(lru(words.as_bytes()), answer, "lru {words}");
        }
    }

    #[test]
    fn a_dump_names_classes() {
        let dump = |words: &str| match crawler(words.as_bytes()) {
            Crawler::Dump(form, classes) => (form, classes),
            Crawler::Knob(answer) => panic!("{words}: {answer:?}"),
        };
        assert_eq!(dump("metadump all"), (DumpForm::Meta, Some(Classes::ALL)));
        assert_eq!(dump("mgdump hash"), (DumpForm::MetaGet, Some(Classes::ALL)));
        let (_, Some(some)) = dump("metadump 1,3") else {
            panic!("classes");
        };
        let held: Vec<usize> = (0..100).filter(|&number| some.contains(number)).collect();
        assert_eq!(held, [1, 3]);
        for bad in [
            "metadump 0",
            "metadump 63",
            "metadump foo",
            "metadump 1,foo",
        ] {
            assert_eq!(dump(bad), (DumpForm::Meta, None), "{bad}");
        }
    }

    #[test]
    fn streams_are_a_set() {
        assert_eq!(watch(b""), Some(Streams::FETCHERS));
        let two = watch(b"mutations  evictions").expect("two streams");
        assert!(two.intersects(Streams::EVICTIONS) && !two.intersects(Streams::FETCHERS));
        assert_eq!(Streams::from_bits(two.bits()), two);
        assert_eq!(watch(b"rawcmds"), Some(Streams::OTHERS));
        assert_eq!(watch(b"fetchers bogus"), None);
    }

    #[test]
    fn the_clock_is_moved_forwards_only() {
        assert_eq!(debug_time(b"p"), Some(DebugTime::Pause));
        assert_eq!(debug_time(b"r"), Some(DebugTime::Resume));
        assert_eq!(debug_time(b"61"), Some(DebugTime::Advance(61)));
        for bad in [b"".as_slice(), b"x", b"-1", b"4294967296"] {
            assert_eq!(debug_time(bad), None);
        }
    }
}
