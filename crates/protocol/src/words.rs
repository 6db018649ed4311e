//! A line as words. Words are separated by spaces and by nothing else: a tab belongs to a word.

use core::ops::Range;

/// The words of a line, in order; runs of spaces count as one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    pub(crate) fn new(line: &'a [u8]) -> Self {
        Words(line)
    }

    /// What is left of the line, without spaces on either side.
    pub(crate) fn rest(self) -> &'a [u8] {
        let text = skip_spaces(self.0);
        let len = text
            .iter()
            .rposition(|&byte| byte != b' ')
            .map_or(0, |last| last + 1);
        &text[..len]
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let text = skip_spaces(self.0);
        if text.is_empty() {
            self.0 = text;
            return None;
        }
        let len = space_at(text).unwrap_or(text.len());
        let (word, rest) = text.split_at(len);
        self.0 = rest;
        Some(word)
    }
}

/// Where the first space is. Words are short, so a call would cost more than the look.
#[inline(always)]
fn space_at(text: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const SPACES: u64 = u64::from_le_bytes([b' '; 8]);
    let mut at = 0;
    while let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk) {
        if has_space(chunk) {
            break;
        }
        at += 16;
    }
    while let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk) {
        // A byte that is no space is not zero here; the lowest that is zero borrows first, which is all
        // that counts.
        let differs = u64::from_le_bytes(*chunk) ^ SPACES;
        let found = differs.wrapping_sub(ONES) & !differs & (ONES << 7);
        if found != 0 {
            return Some(at + (found.trailing_zeros() >> 3) as usize);
        }
        at += 8;
    }
    let tail = text[at..].iter().position(|&byte| byte == b' ')?;
    Some(at + tail)
}

/// Whether one of these is a space. Written so that compilers make one comparison of it.
#[inline(always)]
fn has_space(chunk: &[u8; 16]) -> bool {
    chunk
        .iter()
        .fold(0, |found, &byte| found | u8::from(byte == b' '))
        != 0
}

/// Where the next word of a line is, at or behind `from`; `None` when only spaces follow.
#[inline]
pub fn next_word(line: &[u8], from: usize) -> Option<Range<usize>> {
    let text = line.get(from..)?;
    let rest = skip_spaces(text);
    if rest.is_empty() {
        return None;
    }
    let start = line.len() - rest.len();
    Some(start..start + space_at(rest).unwrap_or(rest.len()))
}

/// The words of a line of known shape. Holds at most `N`; a line with more has `count` over `N`.
pub(crate) struct Split<'a, const N: usize> {
    words: [&'a [u8]; N],
    /// How many words the line has, `N + 1` standing for more than `N`.
    pub(crate) count: usize,
}

impl<'a, const N: usize> Split<'a, N> {
    pub(crate) fn new(mut line: Words<'a>) -> Self {
        let mut words: [&[u8]; N] = [b""; N];
        let mut count = 0;
        for word in &mut words {
            match line.next() {
                Some(next) => *word = next,
                None => return Split { words, count },
            }
            count += 1;
        }
        count += usize::from(line.next().is_some());
        Split { words, count }
    }

    /// The word at `index`, empty when the line is shorter.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> &'a [u8] {
        self.words.get(index).copied().unwrap_or_default()
    }

    /// The last word of a line of at most `N` words, empty when there is none.
    #[inline]
    pub(crate) fn last(&self) -> &'a [u8] {
        self.at(self.count.wrapping_sub(1))
    }
}

#[inline]
fn skip_spaces(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_spaces_separate_words() {
        let words: Vec<&[u8]> = Words::new(b"  a\tb   c\r d ").collect();
        assert_eq!(words, [b"a\tb".as_slice(), b"c\r", b"d"]);
        assert_eq!(Words::new(b"   ").next(), None);
        assert_eq!(Words::new(b"").next(), None);
    }

    #[test]
    fn a_word_ends_at_the_first_space() {
        for len in 0..40 {
            for other in 0..=u8::MAX {
                let mut text = vec![other; len];
                let expected = text.iter().position(|&byte| byte == b' ');
                assert_eq!(space_at(&text), expected);
                text.extend_from_slice(b" \x21 \x1f");
                assert_eq!(space_at(&text), Some(expected.unwrap_or(len)));
            }
        }
    }

    #[test]
    fn the_rest_is_trimmed() {
        let mut words = Words::new(b"stats  items 1  ");
        words.next();
        assert_eq!(words.rest(), b"items 1");
        assert_eq!(Words::new(b"   ").rest(), b"");
    }

    #[test]
    fn a_split_tells_short_exact_and_long_lines_apart() {
        let split = Split::<2>::new(Words::new(b""));
        assert_eq!((split.count, split.last()), (0, b"".as_slice()));
        let split = Split::<2>::new(Words::new(b"a"));
        assert_eq!(
            (split.count, split.last(), split.at(1)),
            (1, b"a".as_slice(), b"".as_slice())
        );
        let split = Split::<2>::new(Words::new(b"a b"));
        assert_eq!((split.count, split.last()), (2, b"b".as_slice()));
        let split = Split::<2>::new(Words::new(b"a b c d"));
        assert_eq!(
            (split.count, split.last(), split.at(7)),
            (3, b"".as_slice(), b"".as_slice())
        );
    }
}
