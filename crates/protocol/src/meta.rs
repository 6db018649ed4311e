//! Meta commands: a key, and flags that are one letter each with an optional token behind it.
//!
//! Flags stay text. Parsing checks them once and notes in 64 bits which letters are there, so that
//! [`MetaFlags::has`] is one test, the order as sent is kept for the answer, and a proxy can forward
//! them as they are. Tokens are read when asked for: a command has few.

use crate::limits::{KEY_LEN_MAX, OPAQUE_LEN_MAX};
use crate::mode::{Direction, StoreMode};
use crate::number;
use crate::words::Words;
use crate::{base64, text};

/// A meta command's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta<'a> {
    /// The key.
    pub key: SentKey<'a>,
    /// The flags, valid for memcached or the extension.
    pub flags: MetaFlags<'a>,
    /// The value, without the final CRLF; empty for every command but `ms`.
    pub value: &'a [u8],
}

impl<'a> Meta<'a> {
    /// The key as it is stored. Only a base64 key needs, and uses, `scratch`.
    #[inline]
    pub fn key<'s>(&self, scratch: &'s mut KeyScratch) -> &'s [u8]
    where
        'a: 's,
    {
        self.key.decode(scratch)
    }
}

/// A key as it was sent: plain, or in base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentKey<'a> {
    /// The key's text in the request, 1 to [`KEY_LEN_MAX`] bytes.
    pub text: &'a [u8],
    /// Whether the text is base64. Invariant of a parsed request: it then decodes to 1 byte or more.
    pub base64: bool,
}

/// Room to decode a key into.
#[derive(Clone, Debug)]
pub struct KeyScratch([u8; KEY_LEN_MAX]);

impl Default for KeyScratch {
    fn default() -> Self {
        KeyScratch([0; KEY_LEN_MAX])
    }
}

impl<'a> SentKey<'a> {
    /// A key that stands for itself.
    #[inline]
    pub fn plain(text: &'a [u8]) -> Self {
        SentKey {
            text,
            base64: false,
        }
    }

    /// Whether a key can stand in a line as it is. Others can be sent in base64 alone.
    #[inline]
    pub fn can_be_plain(key: &[u8]) -> bool {
        !key.iter()
            .any(|byte| matches!(byte, b' ' | b'\r' | b'\n' | 0))
    }

    /// The key as it is sent, in base64 where it must be; `encoded` holds its text then. `None` when
    /// that is longer than a key may be.
    #[inline]
    pub fn of(key: &'a [u8], encoded: &'a mut Vec<u8>) -> Option<Self> {
        if SentKey::can_be_plain(key) {
            return Some(SentKey::plain(key));
        }
        encoded.clear();
        base64::encode(key, encoded);
        (encoded.len() <= KEY_LEN_MAX).then_some(SentKey {
            text: encoded,
            base64: true,
        })
    }

    /// The key as it is stored. Text that is not base64 after all decodes to nothing, which no
    /// stored key equals; the parser lets no such text through.
    #[inline]
    pub fn decode<'s>(&self, scratch: &'s mut KeyScratch) -> &'s [u8]
    where
        'a: 's,
    {
        if !self.base64 {
            return self.text;
        }
        let len = base64::decode(self.text, &mut scratch.0).unwrap_or(0);
        &scratch.0[..len]
    }
}

/// The flags of a meta command or of a meta reply, in the order sent.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct MetaFlags<'a> {
    text: &'a [u8],
    /// Bit `letter - b'A'` is set for each letter that is there.
    present: u64,
}

impl<'a> MetaFlags<'a> {
    /// Whether the flag is there. Takes constant time.
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        self.present & bit(letter) != 0
    }

    /// What stands behind the letter, possibly nothing; `None` when the flag is not there.
    #[inline]
    pub fn token(&self, letter: u8) -> Option<&'a [u8]> {
        if !self.has(letter) {
            return None;
        }
        self.iter()
            .find(|&(other, _)| other == letter)
            .map(|(_, token)| token)
    }

    /// The flags in the order sent: letter, and what stands behind it.
    #[inline]
    pub fn iter(&self) -> MetaFlagsIter<'a> {
        MetaFlagsIter(Words::new(self.text))
    }

    /// The flags as they stand in the line, without spaces on either side.
    #[inline]
    pub fn raw(&self) -> &'a [u8] {
        Words::new(self.text).rest()
    }

    /// Whether there is no flag.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Whether a request has a flag of the extension (`A`, `G`, `H`, `U`, `W`, `X`, `Y`), which only a peer that said
    /// hello may send.
    #[inline]
    pub fn uses_extension(&self) -> bool {
        self.present & EXTENSION != 0
    }

    /// The flag's token as an unsigned number, read as memcached does. Requests carry none that is
    /// not a number behind `C`, `D`, `E`, `H`, `J`, `U`, `W` and `Y`.
    #[inline]
    pub fn unsigned(&self, letter: u8) -> Option<u64> {
        number::unsigned(self.token(letter)?)
    }

    /// The flag's token as an exptime: `T` (new exptime), `N` (exptime if created on a miss), `R`
    /// (win to recache below this many seconds), or `t` of a reply (-1: never).
    #[inline]
    pub fn exptime(&self, letter: u8) -> Option<i64> {
        number::wrapping_i32(self.token(letter)?).map(i64::from)
    }

    /// Client flags: `F` of a request.
    #[inline]
    pub fn client_flags(&self) -> Option<u32> {
        number::wrapping_u32(self.token(b'F')?)
    }

    /// How `ms` shall store; storing in any case unless flag `M` says otherwise.
    #[inline]
    pub fn store_mode(&self) -> StoreMode {
        self.token(b'M').and_then(store_mode).unwrap_or_default()
    }

    /// Which way `ma` goes; up unless flag `M` says otherwise.
    #[inline]
    pub fn direction(&self) -> Direction {
        self.token(b'M')
            .and_then(direction)
            .unwrap_or(Direction::Incr)
    }

    /// Reads the flags of a reply, which may have letters and tokens of any kind.
    pub fn of_reply(text: &'a [u8]) -> Self {
        let present =
            MetaFlagsIter(Words::new(text)).fold(0, |bits, (letter, _)| bits | bit(letter));
        MetaFlags { text, present }
    }
}

impl core::fmt::Debug for MetaFlags<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "MetaFlags({:?})", String::from_utf8_lossy(self.raw()))
    }
}

impl<'a> IntoIterator for MetaFlags<'a> {
    type Item = (u8, &'a [u8]);
    type IntoIter = MetaFlagsIter<'a>;

    fn into_iter(self) -> MetaFlagsIter<'a> {
        self.iter()
    }
}

/// Iterator over [`MetaFlags`].
#[derive(Clone, Debug)]
pub struct MetaFlagsIter<'a>(Words<'a>);

impl<'a> Iterator for MetaFlagsIter<'a> {
    type Item = (u8, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0
            .next()
            .and_then(<[u8]>::split_first)
            .map(|(&letter, token)| (letter, token))
    }
}

/// Which command the flags belong to: they differ in how they name faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetaVerb {
    Get,
    Set,
    Delete,
    Arithmetic,
}

/// Checks the words behind the key (and, for `ms`, the length), in memcached's order, so that of
/// several faults the same one is named. The error is what to answer.
pub(crate) fn parse_flags<'a>(
    verb: MetaVerb,
    key: &'a [u8],
    words: Words<'a>,
) -> Result<MetaFlags<'a>, &'static [u8]> {
    let flags = scan(key, words).map_err(|fault| match verb {
        MetaVerb::Get | MetaVerb::Set => fault,
        MetaVerb::Delete | MetaVerb::Arithmetic => text::INVALID_OR_DUPLICATE_FLAG,
    })?;
    if let Some(mode) = flags.token(b'M') {
        match verb {
            MetaVerb::Set if store_mode(mode).is_none() => return Err(text::BAD_MODE_MS),
            MetaVerb::Arithmetic if direction(mode).is_none() => return Err(text::BAD_MODE_MA),
            _ => {}
        }
    }
    match flags.token(b'O') {
        Some(opaque) if opaque.len() >= OPAQUE_LEN_MAX => Err(text::OPAQUE_TOO_LONG),
        _ => Ok(flags),
    }
}

/// Whether there are more flags than memcached takes. Those of the extension do not count, so that a
/// proxy can add them to any command it forwards.
pub(crate) fn too_many_flags(words: Words<'_>, count_max: usize) -> bool {
    // A flag takes two bytes at least, so nearly every line is known to be short enough by now.
    if words.rest().len() <= 2 * count_max {
        return false;
    }
    words
        .filter(|word| EXTENSION & bit(word[0]) == 0)
        .nth(count_max)
        .is_some()
}

/// An unknown or repeated flag is named at once, of other faults the last.
fn scan<'a>(key: &'a [u8], words: Words<'a>) -> Result<MetaFlags<'a>, &'static [u8]> {
    let mut present = 0;
    let mut fault = None;
    for (letter, token) in MetaFlagsIter(words) {
        if letter >= 0x7f || present & bit(letter) != 0 {
            return Err(text::DUPLICATE_FLAG);
        }
        present |= bit(letter);
        match letter {
            b'b' => {
                let mut scratch = KeyScratch::default();
                if base64::decode(key, &mut scratch.0).is_none() {
                    fault = Some(text::BAD_KEY);
                }
            }
            b'N' | b'R' | b'T' if number::signed(token).is_none() => fault = Some(text::BAD_TOKEN),
            b'C' | b'E' if number::unsigned(token).is_none() => fault = Some(text::BAD_TOKEN),
            // memcached sets no words of its own for this one.
            b'F' if number::unsigned(token).is_none() => fault = fault.or(Some(text::BAD_FORMAT)),
            b'J' if number::unsigned(token).is_none() => fault = Some(text::BAD_INITIAL),
            b'D' if number::unsigned(token).is_none() => fault = Some(text::BAD_META_DELTA),
            b'M' if token.len() != 1 => fault = Some(text::BAD_MODE_LEN),
            // To memcached these letters do not exist at all, so a fault in them is no better.
            b'H' | b'W' | b'Y' if number::plain(token).is_none() => return Err(text::INVALID_FLAG),
            b'A' | b'G' | b'X' if !token.is_empty() => return Err(text::INVALID_FLAG),
            _ if KNOWN & bit(letter) == 0 => return Err(text::INVALID_FLAG),
            _ => {}
        }
    }
    match fault {
        Some(fault) => Err(fault),
        None => Ok(MetaFlags {
            text: words.rest(),
            present,
        }),
    }
}

/// Flags that requests may carry: memcached 1.6.45's, and the extension's.
const KNOWN: u64 = letters(b"CDEFIJLMNOPRTbcfhklqstuvx") | EXTENSION;

/// Flags of the extension.
const EXTENSION: u64 = letters(b"AGHWXY");

const fn letters(letters: &[u8]) -> u64 {
    let mut bits = 0;
    let mut index = 0;
    while index < letters.len() {
        bits |= bit(letters[index]);
        index += 1;
    }
    bits
}

/// The bit of a letter; other bytes have none.
#[inline]
const fn bit(letter: u8) -> u64 {
    if letter.is_ascii_alphabetic() {
        1 << (letter - b'A')
    } else {
        0
    }
}

fn store_mode(token: &[u8]) -> Option<StoreMode> {
    match token {
        b"S" => Some(StoreMode::Set),
        b"E" => Some(StoreMode::Add),
        b"R" => Some(StoreMode::Replace),
        b"A" => Some(StoreMode::Append),
        b"P" => Some(StoreMode::Prepend),
        _ => None,
    }
}

fn direction(token: &[u8]) -> Option<Direction> {
    match token {
        b"I" | b"+" => Some(Direction::Incr),
        b"D" | b"-" => Some(Direction::Decr),
        _ => None,
    }
}
