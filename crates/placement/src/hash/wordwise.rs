//! Hashes that take two, four or twelve bytes at a time, little-endian.

use super::bytewise::signed;

/// The murmurs' seed, times the length of the key.
const MURMUR_SEED: u32 = 0xdead_beef;

/// lookup3's start, and the seed that libmemcached and twemproxy give it.
const JENKINS_START: u32 = 0xdead_beef;
const JENKINS_SEED: u32 = 13;

/// Hsieh's SuperFastHash.
#[inline]
pub(super) fn hsieh(bytes: &[u8]) -> u32 {
    let mut hash = 0u32;
    let (blocks, rest) = bytes.as_chunks::<4>();
    for block in blocks {
        hash = hash.wrapping_add(half_word(block[0], block[1]));
        let mixed = (half_word(block[2], block[3]) << 11) ^ hash;
        hash = (hash << 16) ^ mixed;
        hash = hash.wrapping_add(hash >> 11);
    }
    match *rest {
        [a, b, c] => {
            hash = hash.wrapping_add(half_word(a, b));
            hash ^= hash << 16;
            // The only signed byte: the original shifts a `char`.
            hash ^= signed(c) << 18;
            hash = hash.wrapping_add(hash >> 11);
        }
        [a, b] => {
            hash = hash.wrapping_add(half_word(a, b));
            hash ^= hash << 11;
            hash = hash.wrapping_add(hash >> 17);
        }
        [a] => {
            hash = hash.wrapping_add(u32::from(a));
            hash ^= hash << 10;
            hash = hash.wrapping_add(hash >> 1);
        }
        _ => {}
    }
    hash ^= hash << 3;
    hash = hash.wrapping_add(hash >> 5);
    hash ^= hash << 4;
    hash = hash.wrapping_add(hash >> 17);
    hash ^= hash << 25;
    hash.wrapping_add(hash >> 6)
}

/// Appleby's MurmurHash2.
#[inline]
pub(super) fn murmur(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    // C takes the length as it fits into 32 bits; keys are short.
    let len = bytes.len() as u32;
    let mut hash = MURMUR_SEED.wrapping_mul(len) ^ len;
    let (blocks, rest) = bytes.as_chunks::<4>();
    for &block in blocks {
        let mut k = u32::from_le_bytes(block).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        hash = (hash ^ partial_word(rest)).wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// Appleby's MurmurHash3 for 32 bits.
#[inline]
pub(super) fn murmur3(bytes: &[u8]) -> u32 {
    let len = bytes.len() as u32;
    let scramble = |k: u32| {
        k.wrapping_mul(0xcc9e_2d51)
            .rotate_left(15)
            .wrapping_mul(0x1b87_3593)
    };
    let mut hash = MURMUR_SEED.wrapping_mul(len);
    let (blocks, rest) = bytes.as_chunks::<4>();
    for &block in blocks {
        hash ^= scramble(u32::from_le_bytes(block));
        hash = hash
            .rotate_left(13)
            .wrapping_mul(5)
            .wrapping_add(0xe654_6b64);
    }
    hash ^= scramble(partial_word(rest));
    hash ^= len;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

/// Jenkins' lookup3 (`hashlittle`).
#[inline]
pub(super) fn jenkins(bytes: &[u8]) -> u32 {
    let start = JENKINS_START
        .wrapping_add(bytes.len() as u32)
        .wrapping_add(JENKINS_SEED);
    let (mut a, mut b, mut c) = (start, start, start);
    let mut rest = bytes;
    // The last block, of up to twelve bytes, is mixed in another way.
    while rest.len() > 12 {
        let (block, behind) = rest.split_at(12);
        (a, b, c) = add(block, a, b, c);
        for (n, shift) in [4, 6, 8, 16, 19, 4].into_iter().enumerate() {
            // Each round takes the three in turn.
            let (x, y, z) = match n % 3 {
                0 => (&mut a, &mut b, &mut c),
                1 => (&mut b, &mut c, &mut a),
                _ => (&mut c, &mut a, &mut b),
            };
            *x = x.wrapping_sub(*z) ^ z.rotate_left(shift);
            *z = z.wrapping_add(*y);
        }
        rest = behind;
    }
    if rest.is_empty() {
        return c;
    }
    (a, b, c) = add(rest, a, b, c);
    let last = |x: u32, y: u32, shift: u32| (x ^ y).wrapping_sub(y.rotate_left(shift));
    c = last(c, b, 14);
    a = last(a, c, 11);
    b = last(b, a, 25);
    c = last(c, b, 16);
    a = last(a, c, 4);
    b = last(b, a, 14);
    last(c, b, 24)
}

/// Adds up to twelve bytes to three words.
#[inline]
fn add(block: &[u8], a: u32, b: u32, c: u32) -> (u32, u32, u32) {
    let mut words = [0; 12];
    words[..block.len()].copy_from_slice(block);
    let (words, _) = words.as_chunks::<4>();
    (
        a.wrapping_add(u32::from_le_bytes(words[0])),
        b.wrapping_add(u32::from_le_bytes(words[1])),
        c.wrapping_add(u32::from_le_bytes(words[2])),
    )
}

fn half_word(low: u8, high: u8) -> u32 {
    u32::from(u16::from_le_bytes([low, high]))
}

/// Less than four bytes as a word.
fn partial_word(bytes: &[u8]) -> u32 {
    let shifts = [0, 8, 16];
    let parts = bytes.iter().zip(shifts);
    parts.fold(0, |word, (&byte, shift)| word | u32::from(byte) << shift)
}
