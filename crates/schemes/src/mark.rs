//! Marks: items of ours under an application's own key, which no reader is shown.
//!
//! A mark has the client flags [`FLAGS`], which no application may use in a pool that has marks, and a value that says what it is: a digit
//! for the format, a letter for the kind, and sixteen hexadecimal digits that differ from mark to mark; of a [copy](Copied) more is behind
//! them. Whatever has these flags is taken for a mark, also one of a format or kind that this version does not know: it is somebody else's
//! placeholder, or lock, then.

use evenkeel_protocol::Reply;

/// The client flags of every mark: `EVKL`.
pub const FLAGS: u32 = 0x4556_4B4C;

/// How long a placeholder or a lock lives at most, in seconds: longer than a command takes, and a key whose proxy died is free again after it.
pub const PLACEHOLDER_EXPTIME_SECS: i64 = 2;

/// Bytes of a mark's value.
pub const LEN: usize = 18;

/// The format of this version.
const FORMAT: u8 = b'1';

/// How long a note lives, as an exptime: as long as its server keeps it. One that leads nowhere any more costs a step.
pub const NOTE_EXPTIME: i64 = 0;

/// The letter of a placeholder.
const PLACEHOLDER: u8 = b'p';

/// The letter of a lock.
const LOCK: u8 = b'l';

/// The letter of a note.
const NOTE: u8 = b'n';

/// The letter of a copy.
const COPY: u8 = b'c';

/// Digits of a copy's tag, and of its client flags.
const TAG_DIGITS: usize = 16;
const FLAGS_DIGITS: usize = 8;

/// Bytes before the application's value in the value of a copy.
pub const COPY_HEADER_LEN: usize = LEN + TAG_DIGITS + FLAGS_DIGITS;

/// Digits of a number, in base 16.
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// What a server is asked on each new connection whose pool has marks: a store that expires at once and leaves nothing, and is to tell its
/// CAS unique. A server without meta commands, of a version that does not tell it, or started without uniques (`-C`) shows itself by its
/// answer: there a fill would cover what others have written meanwhile.
pub const TRIAL: &[u8] = b"ms \x01trial 0 c T-1\r\n\r\n";

/// Whether a server that answers a [trial](TRIAL) so can hold marks. One that has no memory for it may.
pub fn passes_trial(reply: &Reply<'_>) -> bool {
    match reply {
        Reply::Meta(meta) => meta.flags.unsigned(b'c').is_some_and(|unique| unique > 0),
        Reply::ServerError(_) => true,
        _ => false,
    }
}

/// Whether an item with these client flags is a mark.
#[inline]
pub const fn is_mark(flags: u32) -> bool {
    flags == FLAGS
}

/// The value of a placeholder: who put it means to bring the item from where it was before. The nonce tells it from others; nothing
/// depends on it, but anyone who looks at a server by hand sees which is which.
pub fn placeholder(nonce: u64) -> [u8; LEN] {
    compose(PLACEHOLDER, nonce)
}

/// The value of a lock: who put it means to store an item here, and tells other racks first. The nonce is as a placeholder's.
pub fn lock(nonce: u64) -> [u8; LEN] {
    compose(LOCK, nonce)
}

/// The value of a note: the item is in the rack with this [token](crate::locality::topology::Rack::token).
pub fn note(rack: u64) -> [u8; LEN] {
    compose(NOTE, rack)
}

/// What a mark is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Somebody means to bring the item.
    Placeholder,
    /// Somebody means to store an item here.
    Lock,
    /// The item is in the rack with this [token](crate::locality::topology::Rack::token).
    Note(u64),
    /// The same, with a copy of the item as it was there a while ago: see [`Copied`].
    Copy(u64),
}

/// A [local copy](crate::locality::local_copies) of an item that another rack holds: a note to that rack, with what the item was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied<'v> {
    /// The [token](crate::locality::topology::Rack::token) of the rack that it was read in.
    pub rack: u64,
    /// What tells it from other values of the same item.
    pub tag: u64,
    /// The item's client flags.
    pub flags: u32,
    /// The item's value.
    pub value: &'v [u8],
}

impl<'v> Copied<'v> {
    /// The copy that this mark is; `None` where it is none.
    pub fn read(mark: &'v [u8]) -> Option<Self> {
        let (header, value) = mark.split_at_checked(COPY_HEADER_LEN)?;
        let (note, header) = header.split_at(LEN);
        let (tag, flags) = header.split_at(TAG_DIGITS);
        let [FORMAT, COPY, rack @ ..] = note else {
            return None;
        };
        Some(Copied {
            rack: number(rack)?,
            tag: number(tag)?,
            flags: u32::try_from(number(flags)?).ok()?,
            value,
        })
    }

    /// Its mark.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut mark = Vec::with_capacity(COPY_HEADER_LEN + self.value.len());
        mark.extend_from_slice(&compose(COPY, self.rack));
        put_digits(&mut mark, self.tag, TAG_DIGITS);
        put_digits(&mut mark, self.flags.into(), FLAGS_DIGITS);
        mark.extend_from_slice(self.value);
        mark
    }
}

/// What the mark with this value is; `None` where it is of a format or kind that this version does not know.
pub fn read(value: &[u8]) -> Option<Mark> {
    if let Some(copied) = Copied::read(value) {
        return Some(Mark::Copy(copied.rack));
    }
    let [FORMAT, kind, digits @ ..] = value else {
        return None;
    };
    let is_whole = value.len() == LEN;
    let number = is_whole.then(|| number(digits)).flatten()?;
    match *kind {
        PLACEHOLDER => Some(Mark::Placeholder),
        LOCK => Some(Mark::Lock),
        NOTE => Some(Mark::Note(number)),
        _ => None,
    }
}

/// The token of the rack that a mark names; `None` where it is neither a note nor a copy.
pub fn noted(value: &[u8]) -> Option<u64> {
    match read(value) {
        Some(Mark::Note(rack) | Mark::Copy(rack)) => Some(rack),
        _ => None,
    }
}

fn compose(kind: u8, number: u64) -> [u8; LEN] {
    let mut value = [0; LEN];
    value[0] = FORMAT;
    value[1] = kind;
    for (at, digit) in value[2..].iter_mut().enumerate() {
        *digit = digit_of(number, LEN - 3 - at);
    }
    value
}

fn put_digits(out: &mut Vec<u8>, number: u64, count: usize) {
    out.extend((0..count).rev().map(|at| digit_of(number, at)));
}

/// The digit of a number with this many behind it.
fn digit_of(number: u64, behind: usize) -> u8 {
    DIGITS[(number >> (4 * behind) & 15) as usize]
}

/// The number of these digits, which are at most sixteen.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number: u64, digit| {
        let value = DIGITS.iter().position(|it| it == digit)?;
        Some(number << 4 | value as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_says_what_it_is_and_differs_by_its_nonce() {
        assert_eq!(&placeholder(0x1234_5678_9abc_def0), b"1p123456789abcdef0");
        assert_eq!(&placeholder(0), b"1p0000000000000000");
        assert_eq!(&FLAGS.to_be_bytes(), b"EVKL");
        assert!(is_mark(1_163_283_276) && !is_mark(0));
    }

    #[test]
    fn a_note_names_its_rack_and_nothing_else_does() {
        for rack in [0, 7, 0x1234_5678_9abc_def0, u64::MAX] {
            assert_eq!(noted(&note(rack)), Some(rack));
        }
        assert_eq!(&lock(10), b"1l000000000000000a");
        let note = note(7);
        for len in 0..LEN {
            assert_eq!(read(&note[..len]), None, "{len}");
        }
        assert_eq!(read(&lock(7)), Some(Mark::Lock));
        assert_eq!(read(&placeholder(7)), Some(Mark::Placeholder));
        assert_eq!(read(b"1x0000000000000007"), None);
        for odd in [
            &lock(7)[..],
            &placeholder(7),
            b"2n0000000000000007",
            b"1n000000000000000G",
            b"1n000000000000000A",
            b"1n00000000000000071",
            b"1n-000000000000007",
        ] {
            assert_eq!(noted(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn a_copy_is_a_note_with_the_item_behind_it() {
        let copied = Copied {
            rack: 7,
            tag: u64::MAX,
            flags: 0x1234_abcd,
            value: b"value",
        };
        let mark = copied.to_bytes();
        assert_eq!(
            mark,
            b"1c0000000000000007ffffffffffffffff1234abcdvalue".as_slice()
        );
        assert_eq!(Copied::read(&mark), Some(copied));
        assert_eq!(read(&mark), Some(Mark::Copy(7)));
        assert_eq!(noted(&mark), Some(7));
        for len in 0..COPY_HEADER_LEN {
            assert_eq!(read(&mark[..len]), None, "{len}");
        }
        let empty = Copied::read(&mark[..COPY_HEADER_LEN]).expect("it is whole");
        assert_eq!(empty.value, b"");
        for at in 0..COPY_HEADER_LEN {
            let mut odd = mark.clone();
            odd[at] = b'G';
            assert_eq!(read(&odd), None, "{at}");
        }
        assert_eq!(Copied::read(&[&note(7)[..], &mark[LEN..]].concat()), None);
    }
}
