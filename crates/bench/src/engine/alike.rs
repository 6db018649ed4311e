//! Hits that look as the last one did.

use crate::Protocol;

/// What hits of gets of one key look like whose values have the same length: `VALUE KEY 0 LEN`, the value, `END`;
/// or `VA LEN` and the value. Most caches have few sizes, so the next hit is likely to be like the last one: then
/// nothing needs to be parsed, and where it ends is known before it has been looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alike {
    head: Word,
    /// Whether the key stands between the head and the facts.
    has_key: bool,
    /// Flags and length: the first bytes of this word, as many as `facts_len`.
    facts: u128,
    facts_mask: u128,
    facts_len: usize,
    value_len: usize,
    tail: Word,
}

/// Up to eight bytes to be compared at once, at the beginning or at the end of eight bytes.
#[derive(Clone, Copy, Debug)]
struct Word {
    bytes: u64,
    mask: u64,
    len: usize,
}

impl Word {
    fn at_beginning(bytes: &[u8]) -> Word {
        let (mut word, mut mask) = ([0; 8], [0; 8]);
        word[..bytes.len()].copy_from_slice(bytes);
        mask[..bytes.len()].fill(0xff);
        Word {
            bytes: u64::from_le_bytes(word),
            mask: u64::from_le_bytes(mask),
            len: bytes.len(),
        }
    }

    fn at_end(bytes: &[u8]) -> Word {
        let word = Word::at_beginning(bytes);
        let by = 64 - 8 * bytes.len() as u32;
        Word {
            bytes: word.bytes << by,
            mask: word.mask << by,
            ..word
        }
    }

    #[inline]
    fn is_in(self, bytes: [u8; 8]) -> bool {
        u64::from_le_bytes(bytes) & self.mask == self.bytes
    }
}

impl Alike {
    /// Hits of values of this length; `None` for those too long to be told in sixteen bytes, and in dialects that
    /// answer otherwise.
    pub(crate) fn new(protocol: Protocol, value_len: usize) -> Option<Alike> {
        let (head, before, tail): (&[u8], &[u8], &[u8]) = match protocol {
            Protocol::Classic => (b"VALUE ", b" 0 ", b"\r\nEND\r\n"),
            Protocol::Meta => (b"", b"VA ", b"\r\n"),
            Protocol::Resp => return None,
        };
        let mut digits = itoa::Buffer::new();
        let (mut word, mut mask, mut facts_len) = ([0; 16], [0; 16], 0);
        for part in [before, digits.format(value_len).as_bytes(), b"\r\n"] {
            let place = facts_len..facts_len + part.len();
            word.get_mut(place.clone())?.copy_from_slice(part);
            mask[place].fill(0xff);
            facts_len += part.len();
        }
        Some(Alike {
            head: Word::at_beginning(head),
            has_key: protocol != Protocol::Meta,
            facts: u128::from_le_bytes(word),
            facts_mask: u128::from_le_bytes(mask),
            facts_len,
            value_len,
            tail: Word::at_end(tail),
        })
    }

    /// Remembers what a hit with a value of this length looks like.
    #[inline]
    pub(crate) fn learn(last: &mut Option<Alike>, protocol: Protocol, value_len: usize) {
        if last.is_none_or(|last| last.value_len != value_len) {
            *last = Alike::new(protocol, value_len);
        }
    }

    /// The value of this key, and what follows the answer; nothing unless the whole answer is there and is such
    /// a hit. (The last bytes of all may be too few for a look; others see to them.)
    #[inline]
    pub(crate) fn take<'b>(&self, bytes: &'b [u8], key: &[u8]) -> Option<(&'b [u8], &'b [u8])> {
        let key_at = self.head.len;
        let facts_at = key_at + if self.has_key { key.len() } else { 0 };
        let value_at = facts_at + self.facts_len;
        let value_end = value_at + self.value_len;
        let (answer, behind) = bytes.split_at_checked(value_end + self.tail.len)?;
        let facts = u128::from_le_bytes(*bytes.get(facts_at..)?.first_chunk()?);
        let is_alike = self.head.is_in(*answer.first_chunk()?)
            && self.tail.is_in(*answer.last_chunk()?)
            && facts & self.facts_mask == self.facts
            && (!self.has_key || answer[key_at..facts_at] == *key);
        is_alike.then(|| (&answer[value_at..value_end], behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_that_look_alike_are_told_from_all_others() {
        for (protocol, right) in [
            (
                Protocol::Classic,
                "VALUE somekey 0 12\r\nabcdefghijkl\r\nEND\r\n",
            ),
            (Protocol::Meta, "VA 12\r\nabcdefghijkl\r\n"),
        ] {
            let alike = Alike::new(protocol, 12).unwrap();
            let value_at = right.find("abcdefghijkl").unwrap();
            let behind = "VALUE x and more".as_bytes();
            let both = [right.as_bytes(), behind].concat();
            let hit = alike.take(&both, b"somekey");
            assert_eq!(hit, Some((&b"abcdefghijkl"[..], behind)), "{protocol}");
            assert!(alike.take(&both[..right.len() - 1], b"somekey").is_none());
            for at in 0..right.len() {
                let mut wrong = both.clone();
                wrong[at] ^= 1;
                let is_value = (value_at..value_at + 12).contains(&at);
                let seen = alike.take(&wrong, b"somekey").is_none();
                assert_eq!(seen, !is_value, "byte {at}, {protocol}");
            }
        }
        assert!(Alike::new(Protocol::Classic, 1_000_000_000_000).is_none());
        assert!(Alike::new(Protocol::Resp, 12).is_none());
    }
}
