//! Hashes that take one byte at a time.

const FNV_32_START: u32 = 0x811c_9dc5;
const FNV_32_PRIME: u32 = 0x0100_0193;

/// Lower halves of FNV's 64-bit constants. No bit of a product or an XOR depends on higher bits, so
/// that they are enough for the lower half of the hash.
const FNV_64_START: u32 = 0x8422_2325;
const FNV_64_PRIME: u32 = 0x0000_01b3;

/// A byte as C's signed `char` becomes a number.
#[inline]
pub(super) fn signed(byte: u8) -> u32 {
    byte.cast_signed() as u32
}

#[inline]
pub(super) fn one_at_a_time(bytes: &[u8]) -> u32 {
    let mut hash = bytes.iter().fold(0u32, |hash, &byte| {
        let sum = hash.wrapping_add(signed(byte));
        let sum = sum.wrapping_add(sum << 10);
        sum ^ (sum >> 6)
    });
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

#[inline]
pub(super) fn fnv1_32(bytes: &[u8]) -> u32 {
    fnv1(bytes, FNV_32_START, FNV_32_PRIME)
}

#[inline]
pub(super) fn fnv1a_32(bytes: &[u8]) -> u32 {
    fnv1a(bytes, FNV_32_START, FNV_32_PRIME)
}

#[inline]
pub(super) fn fnv1_64(bytes: &[u8]) -> u32 {
    fnv1(bytes, FNV_64_START, FNV_64_PRIME)
}

#[inline]
pub(super) fn fnv1a_64(bytes: &[u8]) -> u32 {
    fnv1a(bytes, FNV_64_START, FNV_64_PRIME)
}

#[inline]
fn fnv1(bytes: &[u8], start: u32, prime: u32) -> u32 {
    fold_bytes(bytes, start, |hash, byte| {
        hash.wrapping_mul(prime) ^ signed(byte)
    })
}

#[inline]
fn fnv1a(bytes: &[u8], start: u32, prime: u32) -> u32 {
    fold_bytes(bytes, start, |hash, byte| {
        (hash ^ signed(byte)).wrapping_mul(prime)
    })
}

/// Takes one byte after the other. Eight in a row without counting, for this is most of what placing a
/// key costs.
#[inline(always)]
fn fold_bytes(bytes: &[u8], start: u32, step: impl Fn(u32, u8) -> u32) -> u32 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let hash = eights.iter().fold(start, |hash, eight| {
        eight.iter().fold(hash, |hash, &byte| step(hash, byte))
    });
    rest.iter().fold(hash, |hash, &byte| step(hash, byte))
}

/// CRC-16 of the polynomial x¹⁶ + x¹² + x⁵ + 1 in a register of 32 bits that is never cut to 16.
#[inline]
pub(super) fn crc16(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0u32, |crc, &byte| {
        let index = ((crc >> 8) as u8) ^ byte;
        (crc << 8) ^ u32::from(CRC16_TABLE[usize::from(index)])
    })
}

/// What each byte leaves in the register.
const CRC16_TABLE: [u16; 256] = {
    let mut table = [0u16; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut register = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let carry = register >> 15;
            register = (register << 1) ^ (carry * 0x1021);
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of CRC-16/XMODEM; and the published ones of FNV.
    #[test]
    fn published_values_hold() {
        assert_eq!(crc16(b"123456789") & 0xffff, 0x31c3);
        assert_eq!(fnv1_32(b"foobar"), 0x31f0_b262);
        assert_eq!(fnv1a_32(b"foobar"), 0xbf9c_f968);
        assert_eq!(fnv1_64(b"foobar"), 0x340d_8765_a4dd_a9c2_u64 as u32);
        assert_eq!(fnv1a_64(b"foobar"), 0x8594_4171_f739_67e8_u64 as u32);
        assert_eq!(
            one_at_a_time(b"The quick brown fox jumps over the lazy dog"),
            0x519e_91f5
        );
    }
}
