//! Copies of items on other servers of their pool, so that wide multi-gets ask few servers (Replicate and Bundle, Raindel and Birk, IPDPS 2013).
//!
//! The item at its *home* is the only authority. Copies are read, filled and refreshed while they are switched on, and every write deletes them
//! between what it does at home and its answer. So a read that begins after a write was acknowledged never shows an older value.
//!
//! A copy is filled as an item is [brought](crate::warm) from a former pool: its own place is *here*, and home is *former*. So a fill that has
//! read before a write stores nothing behind it. Its name holds a token that is new each time that copies are switched on, so that what an
//! earlier time has left is never read.
//!
//! The search in `tests/copies/` goes through all interleavings of a few commands, and shows for each rule what goes wrong without it.

use crate::name::{self, Kind, MARK};
use crate::stage::Stage;
use core::fmt;

/// Bytes that stand before the key in the name of a copy.
pub const PREFIX_LEN: usize = Kind::Copy.prefix_len();

/// Bytes that stand before the application's value in the value of a copy.
pub const HEADER_LEN: usize = 12;

/// A copy lives shorter by up to this part of the most that it may, so that those which were filled together do not end together.
const SPREAD: u32 = 10;

/// A copy with less than this part of the most that it may live is old enough to be refreshed.
const OLD: u32 = 4;

/// One in this many reads of an old copy refreshes it: one is enough, and a copy that is read a lot has many.
const REFRESHERS: u32 = 4;

/// An item with this many seconds to live, or less, has no copies: they would be gone before they are read.
const SHORT_SECS: u64 = 2;

/// How far copies of a pool are switched on.
///
/// They are switched by plans, each of which goes through the [stages](Stage) of a change, so that of each two neighbours both are safe side by side:
///
/// | stage | copies are | reads | writes |
/// |---|---|---|---|
/// | `former` | off | at home | at home |
/// | `quiesced` | clearing | at home | at home, then delete copies |
/// | `warming` | on | anywhere; what is not at a copy is filled there | at home, then delete copies |
/// | `closing` | clearing | at home | at home, then delete copies |
/// | `done` | off | at home | at home |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Switch {
    /// There are none, as far as anybody looks.
    Off,
    /// Nobody reads or fills them, and writes delete them.
    Clearing,
    /// They are read and filled.
    On,
}

impl Switch {
    /// At a stage of a plan.
    #[inline]
    pub fn at(stage: Stage) -> Self {
        match stage {
            Stage::Former | Stage::Done => Switch::Off,
            Stage::Quiesced | Stage::Closing => Switch::Clearing,
            Stage::Warming => Switch::On,
        }
    }

    /// Whether writes delete copies.
    #[inline]
    pub fn is_cleared(self) -> bool {
        self != Switch::Off
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Switch::Off => "off",
            Switch::Clearing => "clearing",
            Switch::On => "on",
        }
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the name of a copy has before the key. Of the token 48 bits count.
pub fn name_prefix(token: u64) -> [u8; PREFIX_LEN] {
    name::prefix(Kind::Copy, token.into())
}

/// Whether a name is that of a copy, or pretends to be.
#[inline]
pub fn is_copy(name: &[u8]) -> bool {
    const LETTER: u8 = Kind::Copy.letter();
    matches!(name, [MARK, LETTER, ..])
}

/// What the value of a copy begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The CAS unique of the item at home.
    pub unique: u64,
    /// The second in which the copy ends, in Unix time.
    pub ends: u32,
}

impl Header {
    /// As it stands in a value: both numbers with their lowest byte first.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(&self.unique.to_le_bytes());
        bytes[8..].copy_from_slice(&self.ends.to_le_bytes());
        bytes
    }

    /// The header of a copy's value, and the application's value behind it. `None` for what is too short to be one.
    pub fn parse(value: &[u8]) -> Option<(Self, &[u8])> {
        let (unique, rest) = value.split_first_chunk()?;
        let (ends, rest) = rest.split_first_chunk()?;
        let header = Header {
            unique: u64::from_le_bytes(*unique),
            ends: u32::from_le_bytes(*ends),
        };
        Some((header, rest))
    }
}

/// How many seconds a copy may live, of an item that has this many left (`None`: it does not end), where none may live longer than `most`.
/// `chance` is any number. `None` where there is to be no copy.
pub fn lifetime(item_ttl: Option<u64>, most: u32, chance: u32) -> Option<u32> {
    let less = chance % (most / SPREAD + 1);
    let at_most = most - less;
    match item_ttl {
        None => Some(at_most),
        Some(..=SHORT_SECS) => None,
        // The end of a copy is counted from another second than that of the item.
        Some(ttl) => Some(u32::try_from(ttl - 1).map_or(at_most, |ttl| ttl.min(at_most))),
    }
}

/// What a read has found at a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A value that ends in this second, in Unix time.
    Value {
        /// See [`Header::ends`].
        ends: u32,
    },
    /// A [mark](crate::mark): somebody fills it.
    Mark,
    /// Nothing that is a copy.
    Nothing,
}

/// What a read does with that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// It shows the value.
    Show {
        /// The copy is refreshed behind that.
        refresh: bool,
    },
    /// It reads at home.
    AskHome {
        /// The copy is filled.
        fill: bool,
    },
}

/// What a read does, in the second `now` of Unix time, with what it has found, where no copy may live longer than `most` seconds. `chance`
/// is any number.
#[inline]
pub fn read(found: Found, now: u32, most: u32, chance: u32) -> Read {
    match found {
        Found::Value { ends } if ends > now => Read::Show {
            refresh: ends - now < most.div_ceil(OLD) && chance.is_multiple_of(REFRESHERS),
        },
        Found::Mark => Read::AskHome { fill: false },
        Found::Value { .. } | Found::Nothing => Read::AskHome { fill: true },
    }
}

/// A write that has been executed at home, whatever was answered there: it is answered when all copies are heard of, which are deleted
/// side by side. Home may have lost what copies still have, so they are deleted also where it says that nothing was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deleting {
    left: u8,
    is_confirmed: bool,
}

impl Deleting {
    /// This many copies are being deleted, one at least.
    pub fn new(copies: u8) -> Self {
        debug_assert!(copies > 0);
        Deleting {
            left: copies,
            is_confirmed: true,
        }
    }

    /// One more is heard of: it is deleted or was not there (confirmed), or nobody knows. With the last one: whether all are confirmed. If
    /// not, the write is an error of unknown outcome.
    pub fn handle(&mut self, is_confirmed: bool) -> Option<bool> {
        self.left -= 1;
        self.is_confirmed &= is_confirmed;
        (self.left == 0).then_some(self.is_confirmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;

    #[test]
    fn a_copy_is_known_by_its_name() {
        let name = [&name_prefix(7)[..], b"key"].concat();
        let parsed = Name::parse(&name).expect("a name");
        assert_eq!((parsed.kind, parsed.key), (Kind::Copy, &b"key"[..]));
        assert_eq!(name::number_of(parsed.token), 7);
        assert_eq!(PREFIX_LEN, 11);
        assert!(is_copy(&name));
        assert!(!is_copy(b"") && !is_copy(b"\x01") && !is_copy(b"key") && !is_copy(b"\x01g"));
        assert_ne!(name_prefix(1), name_prefix(2));
    }

    #[test]
    fn a_header_is_found_again_before_the_value() {
        let header = Header {
            unique: 0x0102_0304_0506_0708,
            ends: 0x0a0b_0c0d,
        };
        let mut value = header.to_bytes().to_vec();
        assert_eq!(value, [8, 7, 6, 5, 4, 3, 2, 1, 0xd, 0xc, 0xb, 0xa]);
        assert_eq!(Header::parse(&value), Some((header, &b""[..])));
        value.extend(b"value");
        assert_eq!(Header::parse(&value), Some((header, &b"value"[..])));
        for len in 0..HEADER_LEN {
            assert_eq!(Header::parse(&value[..len]), None, "{len}");
        }
    }

    #[test]
    fn a_copy_ends_before_its_item_and_before_the_most_with_some_spread() {
        let lives: Vec<_> = (0..1000).map(|chance| lifetime(None, 60, chance)).collect();
        assert_eq!(lives.iter().min(), Some(&Some(54)));
        assert_eq!(lives.iter().max(), Some(&Some(60)));
        for (ttl, life) in [
            (0, None),
            (2, None),
            (3, Some(2)),
            (60, Some(59)),
            (61, Some(60)),
            (u64::MAX, Some(60)),
        ] {
            assert_eq!(lifetime(Some(ttl), 60, 0), life, "{ttl}");
        }
        assert_eq!(lifetime(None, 9, u32::MAX), Some(9), "too short for that");
        assert_eq!(lifetime(None, u32::MAX, 0), Some(u32::MAX));
    }

    #[test]
    fn what_is_found_is_shown_filled_or_left_alone() {
        let reads = |ends: u32, chance: u32| read(Found::Value { ends }, 100, 60, chance);
        let shown = |refresh: bool| Read::Show { refresh };
        assert_eq!(reads(114, 0), shown(true));
        assert_eq!(reads(114, 1), shown(false), "one in four");
        assert_eq!(reads(115, 0), shown(false), "not old yet");
        assert_eq!(reads(101, 4), shown(true));
        assert_eq!(reads(100, 0), Read::AskHome { fill: true });
        assert_eq!(reads(0, 0), Read::AskHome { fill: true });
        assert_eq!(reads(u32::MAX, 0), shown(false));
        let other = |found| read(found, 100, 60, 0);
        assert_eq!(other(Found::Mark), Read::AskHome { fill: false });
        assert_eq!(other(Found::Nothing), Read::AskHome { fill: true });
    }

    #[test]
    fn a_write_is_answered_when_the_last_copy_is_heard_of() {
        let mut one = Deleting::new(1);
        assert_eq!(one.handle(true), Some(true));
        for (first, second) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut two = Deleting::new(2);
            assert_eq!(two.handle(first), None);
            assert_eq!(two.handle(second), Some(first && second));
        }
    }
}
