//! Numbers, read as memcached reads them, and written in decimal.
//!
//! memcached hands words to the C library's `strtol` family. That accepts blanks before the digits,
//! a sign, and stops at the first byte that is no digit; memcached then insists that this byte is a
//! blank or the end. Words are separated by spaces alone, so a word may hold other blanks: `5`, `+5`,
//! `05`, `<TAB>5` and `5<TAB>x` are all 5. Clients rely on little of this, but a stricter parser would
//! answer an error where memcached stores.

/// A signed 32-bit number (memcached `safe_strtol`): anything that fits 64 bits is accepted and
/// taken modulo 2^32, so 4294967296 is 0 and 2147483648 is the smallest number.
#[inline]
pub(crate) fn wrapping_i32(word: &[u8]) -> Option<i32> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "taking the low half is the point"
    )]
    signed(word).map(|value| value as i32)
}

/// An unsigned 32-bit number (memcached `safe_strtoul`), taken modulo 2^32.
#[inline]
pub(crate) fn wrapping_u32(word: &[u8]) -> Option<u32> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "taking the low half is the point"
    )]
    unsigned(word).map(|value| value as u32)
}

/// A signed 64-bit number.
#[inline]
pub(crate) fn signed(word: &[u8]) -> Option<i64> {
    let (negative, magnitude) = sign_and_magnitude(word)?;
    if negative {
        0_i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// An unsigned 64-bit number (memcached `safe_strtoull`). A minus sign negates modulo 2^64, as in C,
/// but is refused when the result looks negative; so `-0` passes and `-1` does not.
///
/// Also how `incr` and `decr` read the value of an item.
#[inline]
pub fn unsigned(word: &[u8]) -> Option<u64> {
    match sign_and_magnitude(word)? {
        (false, magnitude) => Some(magnitude),
        (true, magnitude) => {
            let value = magnitude.wrapping_neg();
            (value >> 63 == 0).then_some(value)
        }
    }
}

/// A number in plain digits and nothing else: how the extension and replies write numbers.
#[inline]
pub(crate) fn plain(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    let (value, digits) = leading_digits(word)?;
    (digits == word.len()).then_some(value)
}

/// Whether there is a minus, and the number behind it.
fn sign_and_magnitude(word: &[u8]) -> Option<(bool, u64)> {
    let blanks = word.iter().position(|&byte| !is_blank(byte))?;
    let (negative, digits) = match &word[blanks..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let (magnitude, len) = leading_digits(digits)?;
    match digits.get(len) {
        _ if len == 0 => None,
        Some(&byte) if !is_blank(byte) => None,
        _ => Some((negative, magnitude)),
    }
}

/// The number that the leading digits make, and how many they are; `None` beyond 64 bits.
#[inline]
fn leading_digits(text: &[u8]) -> Option<(u64, usize)> {
    let mut value: u64 = 0;
    let mut len = 0;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        len += 1;
    }
    Some((value, len))
}

/// C's `isspace` in the C locale.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Appends a number in decimal.
#[inline]
pub fn write(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
