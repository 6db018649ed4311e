//! Names of ours on servers that are not ours: `0x01`, a letter for the kind, a token whose length the kind says, a colon, and the
//! application's key.
//!
//! memcached's protocol allows no control characters in keys ("Keys" in its `doc/protocol.txt`), although memcached stores them. So
//! no application that keeps to it means such an item, and one that does not is refused where a pool uses names.

use evenkeel_types::KeyHash;

/// What every name begins with.
pub const MARK: u8 = 1;

/// What stands behind the token.
const END: u8 = b':';

/// The letters of tokens, six bits each. None of them ends a word of the protocol.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What each byte says as a letter of a token.
const VALUES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < DIGITS.len() {
        values[DIGITS[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// Of bytes that are no letters.
const NO_DIGIT: u8 = u8::MAX;

/// Letters that 128 bits take.
pub const HASH_DIGITS: usize = 22;

/// What an item of ours is. Those without a user are reserved, so that a proxy of today leaves items of a later one alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A replica of a hot key, after what it holds: the token is a hash of value and client flags.
    Replica,
    /// An item of a generation of a slice: the token is the incarnation of its ring (eight letters) and the generation (four).
    Generation,
    /// As [`Generation`](Kind::Generation) or [`Note`](Kind::Note), of a key that leaves no room: the token is the letter and token of
    /// that kind, and a keyed hash of 128 bits stands in place of the key.
    Hashed,
    /// A copy of a bundled item: the token is given out when copies are switched on.
    Copy,
    /// A note in a directory: the token is a hash of the pool's name (eight letters) and, while the pool has had one architecture only, four letters
    /// for 0.
    Note,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] = [
        Kind::Replica,
        Kind::Generation,
        Kind::Hashed,
        Kind::Copy,
        Kind::Note,
    ];

    /// Its letter.
    pub const fn letter(self) -> u8 {
        match self {
            Kind::Replica => b'r',
            Kind::Generation => b'g',
            Kind::Hashed => b'h',
            Kind::Copy => b'c',
            Kind::Note => b'n',
        }
    }

    /// Letters of its token.
    pub const fn token_len(self) -> usize {
        match self {
            Kind::Replica => HASH_DIGITS,
            Kind::Generation | Kind::Note => 12,
            Kind::Hashed => 13,
            Kind::Copy => 8,
        }
    }

    /// Bytes that stand before the key.
    pub const fn prefix_len(self) -> usize {
        2 + self.token_len() + 1
    }
}

/// A name, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'n> {
    /// What it is of.
    pub kind: Kind,
    /// As many letters as its kind has.
    pub token: &'n [u8],
    /// The application's key, or a hash of it.
    pub key: &'n [u8],
}

impl<'n> Name<'n> {
    /// Takes a name apart; `None` for what is none, or of a kind that this version does not know.
    pub fn parse(name: &'n [u8]) -> Option<Self> {
        let [MARK, letter, rest @ ..] = name else {
            return None;
        };
        let kind = Kind::ALL
            .into_iter()
            .find(|kind| kind.letter() == *letter)?;
        let (token, rest) = rest.split_at_checked(kind.token_len())?;
        let key = rest.strip_prefix(&[END])?;
        let is_digit = |letter: &u8| VALUES[usize::from(*letter)] != NO_DIGIT;
        let is_token = token.iter().all(is_digit);
        (is_token && !key.is_empty()).then_some(Name { kind, token, key })
    }
}

/// What a name has before the key, of a kind whose prefix has `N` bytes and whose token is a number: its lowest six bits first.
///
/// # Panics
/// In constants, where `N` is not the kind's [`prefix_len`](Kind::prefix_len).
pub fn prefix<const N: usize>(kind: Kind, token: u128) -> [u8; N] {
    assert!(N == kind.prefix_len(), "the length is the kind's");
    let mut name = [MARK; N];
    name[1] = kind.letter();
    name[N - 1] = END;
    let mut rest = token;
    for digit in &mut name[2..N - 1] {
        *digit = DIGITS[(rest % 64) as usize];
        rest /= 64;
    }
    name
}

/// What stands before a key in the name of its note in a directory, in a pool of this name: pools that share a directory have different ones.
pub fn note_prefix(pool: &str) -> [u8; Kind::Note.prefix_len()] {
    /// The letters of a ring's incarnation. Those of a generation are 0.
    const TOKEN_BITS: u32 = 48;
    let token = KeyHash::of(pool.as_bytes()).0 & ((1 << TOKEN_BITS) - 1);
    prefix(Kind::Note, token.into())
}

/// The number that letters of a token say, ten at most, its lowest six bits first. What is no letter counts as any.
#[inline]
pub fn number_of(letters: &[u8]) -> u64 {
    let digits = letters.iter().rev();
    digits.fold(0, |number, letter| {
        number << 6 | u64::from(VALUES[usize::from(*letter)] & 63)
    })
}

/// Whether a key names a [copy](Kind::Copy) of an item that stands elsewhere. One comparison for most that do not.
#[inline]
pub fn is_copy(key: &[u8]) -> bool {
    Name::parse(key).is_some_and(|name| name.kind == Kind::Copy)
}

/// Whether a key is one of ours, or pretends to be. Where a pool [uses names](crate::Scheme::uses_names), no application may.
#[inline]
pub fn is_reserved(key: &[u8]) -> bool {
    key.first() == Some(&MARK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn of<const N: usize>(kind: Kind, token: u128, key: &[u8]) -> Vec<u8> {
        [&prefix::<N>(kind, token)[..], key].concat()
    }

    #[test]
    fn what_is_composed_is_found_again() {
        for token in [0, 1, 63, 64, u128::MAX] {
            for key in [&b"k"[..], b"a:b", &[b'x'; 225]] {
                for (kind, name) in [
                    (Kind::Replica, of::<25>(Kind::Replica, token, key)),
                    (Kind::Generation, of::<15>(Kind::Generation, token, key)),
                    (Kind::Hashed, of::<16>(Kind::Hashed, token, key)),
                    (Kind::Copy, of::<11>(Kind::Copy, token, key)),
                    (Kind::Note, of::<15>(Kind::Note, token, key)),
                ] {
                    assert!(is_reserved(&name));
                    assert_eq!(is_copy(&name), kind == Kind::Copy);
                    let found = Name::parse(&name).expect("a name");
                    assert_eq!((found.kind, found.key), (kind, key));
                    assert_eq!(found.token, &name[2..kind.prefix_len() - 1]);
                    let parts = found.token.chunks(10).rev();
                    let number = parts.fold(0, |number, part| {
                        number << (6 * part.len()) | u128::from(number_of(part))
                    });
                    let bits = (6 * kind.token_len()).min(127) as u32;
                    let all = (1 << bits) - 1;
                    assert_eq!(number & all, token & all);
                }
            }
        }
    }

    #[test]
    fn all_128_bits_are_in_a_replicas_token() {
        let tokens = (0..128).map(|bit| of::<25>(Kind::Replica, 1 << bit, b"k"));
        assert_eq!(tokens.collect::<BTreeSet<_>>().len(), 128);
    }

    #[test]
    fn what_is_cut_short_of_another_kind_or_odd_is_no_name() {
        let name = of::<15>(Kind::Generation, 7, b"k");
        assert!(Name::parse(&name).is_some());
        for len in 0..name.len() {
            assert_eq!(Name::parse(&name[..len]), None, "{len}");
        }
        for (at, byte) in [(0, 2), (1, b'x'), (3, b'.'), (3, 1), (14, b';')] {
            let mut odd = name.clone();
            odd[at] = byte;
            assert_eq!(Name::parse(&odd), None, "{at} {byte}");
        }
        assert!(!is_reserved(b"") && !is_reserved(b"key"));
    }

    #[test]
    fn kinds_differ_by_their_letters() {
        let letters: BTreeSet<_> = Kind::ALL.map(Kind::letter).into();
        assert_eq!(letters.len(), Kind::ALL.len());
    }
}
