//! Names of keys: 16 hexadecimal digits, eight of the seed and eight of the key's number.

use super::{KEY_LEN, KEYS_MAX};
use evenkeel_workload::rng::mix64;

/// Names the keys of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyNames {
    /// The digits of the seed.
    first: [u8; KEY_LEN / 2],
}

const _: () = assert!(KEYS_MAX <= 1 << 32, "a number has eight digits");

impl KeyNames {
    /// Names of their own for each seed, so that hashing throws keys elsewhere.
    pub fn of_seed(seed: u64) -> Self {
        KeyNames {
            first: digits((mix64(seed) >> 32) as u32),
        }
    }

    /// The name of a key.
    #[inline]
    pub fn of(&self, key: u64) -> [u8; KEY_LEN] {
        let mut name = [0; KEY_LEN];
        name[..KEY_LEN / 2].copy_from_slice(&self.first);
        name[KEY_LEN / 2..].copy_from_slice(&digits(key as u32));
        name
    }
}

/// Eight hexadecimal digits, all at once: it is done for most requests.
#[inline]
fn digits(number: u32) -> [u8; 8] {
    // A byte for each half byte, the highest first in memory.
    let mut x = u64::from(number);
    x = (x | x << 16) & 0x0000_ffff_0000_ffff;
    x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
    x = (x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // 1 in the bytes above nine, which are letters.
    let letters = ((x + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    let text = x + 0x3030_3030_3030_3030 + letters * u64::from(b'a' - b'9' - 1);
    text.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twin: the standard library's.
    #[test]
    fn digits_are_those_of_the_number() {
        let numbers = (0..70_000u32).chain((0..1000).map(|i| mix64(i) as u32));
        for number in numbers.chain([u32::MAX, 0x9abc_def0]) {
            assert_eq!(&digits(number)[..], format!("{number:08x}").as_bytes());
        }
    }

    #[test]
    fn seeds_and_keys_have_names_of_their_own() {
        let [one, other] = [1, 2].map(KeyNames::of_seed);
        assert_ne!(one.of(7), other.of(7));
        assert_ne!(one.of(7), one.of(8));
        assert_eq!(one.of(0x1234_abcd)[8..], *b"1234abcd");
        assert_eq!(one.of(7), KeyNames::of_seed(1).of(7));
    }
}
