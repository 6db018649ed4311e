//! Quick looks at the most frequent requests in their most frequent form.
//!
//! The parser proper ([`parse`](crate::parse)) takes a line apart step by step and knows memcached's
//! words for everything that can be wrong with it. Nearly all traffic is `get` and `set` written the
//! one way that every client library writes them, and for those each byte needs one look. Here a
//! line is either taken as a whole, with the same result that the parser proper would give, or left
//! to it: whatever is short of bytes, out of bounds, oddly spaced or simply unusual. Tests hold the
//! two against each other on millions of lines.

use crate::limits::{KEY_LEN_MAX, Limits};
use crate::request::{Store, StoreVerb};
use crate::text;
use crate::value::Value;
use memchr::memchr;

/// A key of a [`scan_get`], by its place in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAt {
    /// Where it starts.
    pub start: u32,
    /// Its length, 1 to [`KEY_LEN_MAX`].
    pub len: u8,
    /// Length of the request's end behind the key, its CRLF or LF; 0 when another key follows.
    pub end_len: u8,
}

const _: () = assert!(KEY_LEN_MAX <= u8::MAX as usize);

impl KeyAt {
    /// The key itself.
    #[inline]
    pub fn of<'a>(&self, buf: &'a [u8]) -> &'a [u8] {
        let start = self.start as usize;
        &buf[start..start + usize::from(self.len)]
    }

    /// Whether the request ends behind this key.
    #[inline]
    pub fn is_last(&self) -> bool {
        self.end_len != 0
    }

    /// Where the next request starts, if this is the last key of its own.
    #[inline]
    pub fn request_end(&self) -> usize {
        self.start as usize + usize::from(self.len) + usize::from(self.end_len)
    }
}

/// If a `get` stands at `at`, whole and plain, appends its keys to `keys` and gives the place where
/// the next request starts. Otherwise leaves `keys` as they are: the request is for
/// [`parse_request`](crate::parse_request).
///
/// Plain: keys of printable bytes, one space before each, CRLF or LF behind the last.
#[inline]
pub fn scan_get(buf: &[u8], at: usize, limits: &Limits, keys: &mut Vec<KeyAt>) -> Option<usize> {
    let line = buf.get(at..)?;
    if line.first_chunk() != Some(b"get ") || u32::try_from(buf.len()).is_err() {
        return None;
    }
    let first = key_at(buf, at + 4)?;
    if first.is_last() {
        keys.push(first);
        return Some(first.request_end());
    }
    scan_more_keys(buf, at, first, limits, keys)
}

/// The same for a `get` of one key. (Called, it costs half as much again as where it stands: 70 instructions.)
#[inline(always)]
pub fn scan_get_of_one(buf: &[u8], at: usize) -> Option<KeyAt> {
    let line = buf.get(at..)?;
    if line.first_chunk() != Some(b"get ") || u32::try_from(buf.len()).is_err() {
        return None;
    }
    key_at(buf, at + 4).filter(KeyAt::is_last)
}

/// The keys of a `get` of several.
fn scan_more_keys(
    buf: &[u8],
    at: usize,
    first: KeyAt,
    limits: &Limits,
    keys: &mut Vec<KeyAt>,
) -> Option<usize> {
    // A line that is not whole, or too long, is not worth looking at its keys.
    let len = memchr(b'\n', &buf[at..])?;
    if len > limits.line_len_max {
        return None;
    }
    let before = keys.len();
    let mut key = first;
    loop {
        keys.push(key);
        if key.is_last() {
            return Some(key.request_end());
        }
        match key_at(buf, key.request_end() + 1) {
            Some(next) => key = next,
            None => {
                keys.truncate(before);
                return None;
            }
        }
    }
}

/// The key that starts at `start`, if a single space or the end of the line follows it.
#[inline(always)]
fn key_at(buf: &[u8], start: usize) -> Option<KeyAt> {
    let rest = buf.get(start..)?;
    let len = word_len(rest);
    if len == 0 || len > KEY_LEN_MAX {
        return None;
    }
    let end_len = match rest.get(len..)? {
        [b' ', ..] => 0,
        [b'\r', b'\n', ..] => 2,
        [b'\n', ..] => 1,
        _ => return None,
    };
    Some(KeyAt {
        start: start as u32,
        len: len as u8,
        end_len,
    })
}

const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGHS: u64 = ONES << 7;

/// The highest bit of each byte that is a space or a control character; exact up to the lowest bit
/// that is set, which is all that counts.
#[inline(always)]
fn blanks(word: u64) -> u64 {
    word.wrapping_sub(ONES * (b' ' as u64 + 1)) & !word & HIGHS
}

/// How many bytes stand before the first space or control character; all of them if there is none.
/// Sixteen at a time as long as none of them is one, then eight at a time.
#[inline(always)]
fn word_len(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk) {
        if has_blank(chunk) {
            break;
        }
        at += 16;
    }
    while let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk) {
        let found = blanks(u64::from_le_bytes(*chunk));
        if found != 0 {
            return at + (found.trailing_zeros() >> 3) as usize;
        }
        at += 8;
    }
    let blank = |&byte: &u8| byte <= b' ';
    let tail = &text[at..];
    at + tail.iter().position(blank).unwrap_or(tail.len())
}

/// Whether a space or control character is among these. Written so that compilers make one comparison
/// of it.
#[inline(always)]
fn has_blank(chunk: &[u8; 16]) -> bool {
    chunk
        .iter()
        .fold(0, |found, &byte| found | u8::from(byte <= b' '))
        != 0
}

/// A `set` of [`scan_set`], by its places in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetAt {
    /// Where the request starts.
    start: u32,
    /// Where the value starts.
    value: u32,
    value_len: u32,
    flags: u32,
    exptime: u32,
    key_len: u8,
}

const SET: &[u8; 4] = b"set ";

impl SetAt {
    /// The key.
    #[inline]
    pub fn key<'a>(&self, buf: &'a [u8]) -> &'a [u8] {
        let start = self.start as usize + SET.len();
        &buf[start..start + usize::from(self.key_len)]
    }

    /// The request itself.
    #[inline]
    pub fn of<'a>(&self, buf: &'a [u8]) -> Store<'a> {
        let value = self.value as usize;
        Store {
            verb: StoreVerb::Set,
            key: self.key(buf),
            flags: self.flags,
            exptime: self.exptime.into(),
            value: &buf[value..value + self.value_len as usize],
            noreply: false,
        }
    }

    /// Where the next request starts.
    #[inline]
    pub fn end(&self) -> usize {
        self.value as usize + self.value_len as usize + text::CRLF.len()
    }
}

/// If a `set` stands at `at`, whole and plain, where its parts are. Otherwise the request is for
/// [`parse_request`](crate::parse_request).
///
/// Plain: words with one space between them, numbers of at most seven digits, CRLF, an answer wanted,
/// and nothing to refuse.
#[inline]
pub fn scan_set(buf: &[u8], at: usize, limits: &Limits) -> Option<SetAt> {
    let (word, line) = buf.get(at..)?.split_first_chunk()?;
    if word != SET || u32::try_from(buf.len()).is_err() {
        return None;
    }
    let key_len = word_len(line);
    if key_len == 0 || key_len > KEY_LEN_MAX || line.get(key_len) != Some(&b' ') {
        return None;
    }
    let (flags, next) = digits(line, key_len + 1, b' ')?;
    let (exptime, next) = digits(line, next, b' ')?;
    let (value_len, next) = digits(line, next, b'\r')?;
    let block = line.get(next..)?.get(..value_len as usize + 3)?;
    let is_whole = block.first() == Some(&b'\n') && block.ends_with(text::CRLF);
    if !is_whole || limits.is_too_large(key_len, value_len as usize, flags) {
        return None;
    }
    Some(SetAt {
        start: at as u32,
        value: (at + SET.len() + next + 1) as u32,
        value_len,
        flags,
        exptime,
        key_len: key_len as u8,
    })
}

const VALUE: &[u8; 6] = b"VALUE ";

/// If the answer to a `get` of one key stands at the front, whole and plain, and its length. Otherwise it
/// is for the rest of [`parse_reply`](crate::parse_reply).
///
/// Plain: words with one space between them, numbers of at most seven digits, no CAS unique, CRLF.
#[inline]
pub(crate) fn scan_value<'a>(buf: &'a [u8], limits: &Limits) -> Option<(Value<'a>, usize)> {
    let (word, line) = buf.split_first_chunk()?;
    if word != VALUE {
        return None;
    }
    let key_len = word_len(line);
    if key_len == 0 || key_len > KEY_LEN_MAX || line.get(key_len) != Some(&b' ') {
        return None;
    }
    let (flags, next) = digits(line, key_len + 1, b' ')?;
    let (len, next) = digits(line, next, b'\r')?;
    let len = len as usize;
    let block = line.get(next..)?.get(..len + 3)?;
    let is_whole = block.first() == Some(&b'\n') && block.ends_with(text::CRLF);
    if !is_whole || len > limits.item_size_max {
        return None;
    }
    let value = Value {
        key: &line[..key_len],
        flags,
        data: &block[1..=len],
        cas: None,
    };
    Some((value, VALUE.len() + next + len + 3))
}

/// If the `VALUE` of this key stands at the front, whole and plain, its length. Otherwise the reply is
/// for [`parse_reply`](crate::parse_reply), which takes it for the same.
///
/// Plain: words with one space between them, numbers of at most seven digits, no CAS unique, CRLF.
#[inline]
pub fn scan_value_of(buf: &[u8], key: &[u8], limits: &Limits) -> Option<usize> {
    let (head, data) = scan_value_head(buf, key, limits)?;
    let behind = buf.get(head + data..)?;
    behind
        .starts_with(text::CRLF)
        .then_some(head + data + text::CRLF.len())
}

/// If the first line of the `VALUE` of this key stands at the front, whole and plain, its length and that of
/// the value behind it, which may not be there yet. Plain as for [`scan_value_of`].
#[inline]
pub fn scan_value_head(buf: &[u8], key: &[u8], limits: &Limits) -> Option<(usize, usize)> {
    let (word, line) = buf.split_first_chunk()?;
    if word != VALUE {
        return None;
    }
    let (at, line) = line.split_at_checked(key.len())?;
    if at != key || line.first() != Some(&b' ') {
        return None;
    }
    let (_, next) = digits(line, 1, b' ')?;
    let (len, next) = digits(line, next, b'\r')?;
    let len = len as usize;
    if line.get(next) != Some(&b'\n') || len > limits.item_size_max {
        return None;
    }
    Some((VALUE.len() + key.len() + next + 1, len))
}

/// A number of one to seven digits at `at` with `end` behind it, and the place behind that.
#[inline(always)]
fn digits(text: &[u8], at: usize, end: u8) -> Option<(u32, usize)> {
    let text = text.get(at..)?;
    if let Some(&[digit, behind]) = text.first_chunk()
        && behind == end
    {
        let digit = digit.wrapping_sub(b'0');
        return (digit <= 9).then_some((digit.into(), at + 2));
    }
    let eight = text.first_chunk().copied().unwrap_or_else(|| {
        let mut eight = [0; 8];
        eight[..text.len()].copy_from_slice(text);
        eight
    });
    let word = u64::from_le_bytes(eight);
    let count = not_digits(word).trailing_zeros() as usize / 8;
    if !(1..8).contains(&count) || eight[count] != end {
        return None;
    }
    // Zeros in front, so that there are eight digits, the first of them lowest. Neighbours are put
    // together: to four numbers of two digits, two of four, one of eight.
    let ones = (word ^ ZEROS) << (64 - 8 * count);
    let twos = ones.wrapping_mul(10 * 0x100 + 1) >> 8 & 0x00ff_00ff_00ff_00ff;
    let fours = twos.wrapping_mul(100 * 0x1_0000 + 1) >> 16 & 0x0000_ffff_0000_ffff;
    let value = fours.wrapping_mul(10_000 * 0x1_0000_0000 + 1) >> 32;
    Some((value as u32, at + count + 1))
}

const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);

/// The highest bit of each byte that is no digit.
#[inline(always)]
fn not_digits(word: u64) -> u64 {
    // Digits become 0 to 9, and nothing else does; what is over 9 reaches the highest bit, or has it.
    let word = word ^ ZEROS;
    (((word & !HIGHS) + ONES * (0x80 - 10)) | word) & HIGHS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_ends_at_the_first_blank() {
        for len in 0..40 {
            for blank in 0..=b' ' {
                let mut text = vec![b'!'; len];
                text.extend_from_slice(&[blank, b'x', 0xff, blank]);
                assert_eq!(word_len(&text), len);
            }
            assert_eq!(word_len(&vec![0xff; len]), len);
        }
    }

    /// What the quick look takes of a reply, the parser proper takes as the same reply.
    #[test]
    fn values_are_taken_as_the_parser_takes_them() {
        let mut random = Random::for_test(8);
        let mut taken = 0;
        for _ in 0..ROUNDS {
            let len = random.below(200);
            let said = if random.below(10) == 0 { len + 1 } else { len };
            let flags = if random.coin() { 0 } else { random.number() };
            let mut reply = b"VALUE ".to_vec();
            reply.extend_from_slice(&random.key());
            reply.extend_from_slice(format!(" {flags} {said}").as_bytes());
            if random.below(10) == 0 {
                reply.extend_from_slice(b" 7");
            }
            reply.extend_from_slice(b"\r\n");
            reply.extend_from_slice(&random.bytes(len));
            reply.extend_from_slice(b"\r\nEND\r\n");
            if random.below(4) == 0 {
                random.mutate(&mut reply);
            }
            let quick = scan_value(&reply, &TIGHT);
            let word = reply.get(VALUE.len()..).unwrap_or_default();
            let key = &word[..word_len(word)];
            if (1..=KEY_LEN_MAX).contains(&key.len()) {
                let expected = quick.map(|(_, consumed)| consumed);
                assert_eq!(scan_value_of(&reply, key, &TIGHT), expected);
                let other = [key, b"x"].concat();
                assert_eq!(scan_value_of(&reply, &other, &TIGHT), None);
            }
            if let Some((value, consumed)) = quick {
                taken += 1;
                let expected = ReplyOutcome::Reply {
                    reply: Reply::Value(value),
                    consumed,
                };
                assert_eq!(parse_reply_line(&reply, &TIGHT), expected);
            }
        }
        assert!(taken > ROUNDS / 3, "{taken}");
    }

    #[test]
    fn numbers_have_one_to_seven_digits() {
        let mut random = Random::for_test(9);
        for _ in 0..ROUNDS {
            let places = 1 + random.below(7);
            let number = random.below(10_usize.pow(places as u32));
            let zeros = "0".repeat(random.below(3));
            let text = format!("x{zeros}{number} {}", "y".repeat(random.below(9)));
            let len = zeros.len() + number.to_string().len();
            let expected = (len < 8).then_some((number as u32, len + 2));
            assert_eq!(digits(text.as_bytes(), 1, b' '), expected, "{text}");
            assert_eq!(digits(text.as_bytes(), 1, b'\r'), None, "{text}");
        }
        assert_eq!(digits(b"9999999\r", 0, b'\r'), Some((9_999_999, 8)));
        for other in (0..=u8::MAX).filter(|byte| !byte.is_ascii_digit()) {
            assert_eq!(digits(&[b'7', other], 0, other), Some((7, 2)));
            assert_eq!(
                digits(&[b'1', b'7', other, b'9', 0, 0, 0, 0], 0, other),
                Some((17, 3))
            );
        }
        for refused in [
            b"10000000 ".as_slice(),
            b" ",
            b"",
            b"12",
            b"1\r",
            b"-1 ",
            b"+1 ",
        ] {
            assert_eq!(digits(refused, 0, b' '), None);
        }
    }

    use crate::parse::{RequestOutcome, parse_line, parse_request};
    use crate::random::Random;
    use crate::reply::{Reply, ReplyOutcome, parse_reply_line};
    use crate::request::Request;

    const ROUNDS: usize = 300_000;
    /// Limits that random lines run into.
    const TIGHT: Limits = Limits {
        item_size_max: 300,
        line_len_max: 600,
        nul_refused: true,
    };

    /// A `get` or `set` that is right more often than not.
    fn line(random: &mut Random) -> Vec<u8> {
        let mut line = random
            .pick(&["get", "get", "set", "set", "gets", "Get"])
            .as_bytes()
            .to_vec();
        let is_set = line == b"set";
        let gap = |random: &mut Random| if random.below(30) == 0 { "  " } else { " " };
        for _ in 0..if is_set { 1 } else { random.below(5) } {
            line.extend_from_slice(gap(random).as_bytes());
            let mut key = random.key();
            if random.below(30) == 0 {
                key.resize(248 + random.below(5), b'k');
            }
            line.extend_from_slice(&key);
        }
        let len = random.below(200);
        if is_set {
            let mut number = |random: &mut Random, number: u64| {
                line.extend_from_slice(gap(random).as_bytes());
                line.extend_from_slice(number.to_string().as_bytes());
            };
            for _ in 0..2 {
                let any = if random.coin() { 0 } else { random.number() };
                number(random, any);
            }
            let wrong = random.below(20) == 0;
            number(random, (len + usize::from(wrong)) as u64);
            if random.below(20) == 0 {
                line.extend_from_slice(b" noreply");
            }
        }
        line.extend_from_slice(if random.below(20) == 0 {
            b"\n"
        } else {
            b"\r\n"
        });
        if is_set {
            line.extend_from_slice(&random.bytes(len));
            line.extend_from_slice(b"\r\n");
        }
        match random.below(8) {
            0 => random.mutate(&mut line),
            1 => line.truncate(random.below(line.len() + 1)),
            2 => line.extend_from_slice(b"get a b\r\n"),
            _ => {}
        }
        line
    }

    #[test]
    fn what_is_taken_at_a_glance_is_what_the_parser_says() {
        let mut random = Random::for_test(7);
        let (mut gets, mut sets) = (0, 0);
        for _ in 0..ROUNDS {
            let line = line(&mut random);
            let limits = if random.coin() {
                TIGHT
            } else {
                Limits::default()
            };
            let by_words = parse_line(&line, &limits);
            assert_eq!(
                parse_request(&line, &limits),
                by_words,
                "{}",
                line.escape_ascii()
            );
            let shift = random.below(20);
            let shifted = [&vec![b'x'; shift], &line[..]].concat();
            if let Some(set) = scan_set(&shifted, shift, &limits) {
                sets += 1;
                let by_glance = RequestOutcome::Request {
                    request: Request::Store(set.of(&shifted)),
                    consumed: set.end() - shift,
                };
                assert_eq!(by_glance, by_words, "{}", line.escape_ascii());
            }
            let earlier = KeyAt {
                start: 0,
                len: 1,
                end_len: 1,
            };
            let mut keys = vec![earlier];
            let end = scan_get(&shifted, shift, &limits, &mut keys);
            assert_eq!(keys[0], earlier);
            let alone = (keys.len() == 2).then(|| keys[1]);
            assert_eq!(scan_get_of_one(&shifted, shift), alone);
            let Some(end) = end else {
                assert_eq!(keys.len(), 1);
                continue;
            };
            gets += 1;
            let RequestOutcome::Request {
                request:
                    Request::Get {
                        keys: by_words,
                        with_cas: false,
                    },
                consumed,
            } = by_words
            else {
                panic!("{by_words:?} for {}", line.escape_ascii());
            };
            assert_eq!(end, shift + consumed);
            assert!(keys[1..].iter().map(|key| key.of(&shifted)).eq(by_words));
            let (last, others) = keys[1..].split_last().expect("a get has a key");
            assert!(last.is_last() && others.iter().all(|key| !key.is_last()));
        }
        assert!(
            gets > ROUNDS / 10 && sets > ROUNDS / 20,
            "{gets} gets, {sets} sets"
        );
    }
}
