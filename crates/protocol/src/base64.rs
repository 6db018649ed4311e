//! Base64 for keys that are not plain text (meta flag `b`).
//!
//! Decoding is as forgiving as memcached's: bytes outside of the alphabet are skipped, the rest must
//! come in groups of four, and decoding ends at the first padded group. Forgiving decoding means
//! that two texts can name one key; the decoded bytes are the key's identity everywhere.

/// Appends the encoding of `bytes`, padded.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let symbol = |index: usize| {
            if index > group.len() {
                PAD
            } else {
                ALPHABET[(bits >> (18 - 6 * index)) as usize & 63]
            }
        };
        out.extend_from_slice(&[symbol(0), symbol(1), symbol(2), symbol(3)]);
    }
}

/// Decodes `text` into `out` and returns the decoded length, or `None` when the text does not
/// decode to at least one byte or not into `out`.
pub fn decode(text: &[u8], out: &mut [u8]) -> Option<usize> {
    let symbols = text
        .iter()
        .filter(|&&byte| VALUES[usize::from(byte)] != NO_SYMBOL)
        .count();
    if symbols == 0 || symbols % 4 != 0 {
        return None;
    }
    let mut len = 0;
    let mut bits: u32 = 0;
    let mut in_group = 0;
    let mut padding = 0;
    for &byte in text {
        let value = VALUES[usize::from(byte)];
        if value == NO_SYMBOL {
            continue;
        }
        padding += usize::from(byte == PAD);
        bits = bits << 6 | u32::from(value);
        in_group += 1;
        if in_group < 4 {
            continue;
        }
        let [_, group @ ..] = bits.to_be_bytes();
        let kept = match padding {
            0 => 3,
            1 => 2,
            2 => 1,
            _ => return None,
        };
        out.get_mut(len..len + kept)?
            .copy_from_slice(&group[..kept]);
        len += kept;
        if padding > 0 {
            break;
        }
        bits = 0;
        in_group = 0;
    }
    Some(len)
}

const PAD: u8 = b'=';
const NO_SYMBOL: u8 = 0x80;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Value of each byte as a symbol. The pad counts as a symbol of value 0.
const VALUES: [u8; 256] = {
    let mut values = [NO_SYMBOL; 256];
    let mut value = 0;
    while value < 64 {
        values[ALPHABET[value as usize] as usize] = value;
        value += 1;
    }
    values[PAD as usize] = 0;
    values
};
