//! Names of keys: eight hexadecimal digits of the seed and eight decimal ones of the key's number. They are
//! the names of a workload with that prefix and keys of that length, so that real servers can be asked for
//! the same keys.

use super::{KEY_LEN, KEYS_MAX};
use evenkeel_workload::rng::mix64;

/// Names the keys of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyNames {
    /// The digits of the seed.
    first: [u8; KEY_LEN / 2],
}

const _: () = assert!(KEYS_MAX <= 100_000_000, "a number has eight digits");

impl KeyNames {
    /// Names of their own for each seed, so that hashing throws keys elsewhere.
    pub fn of_seed(seed: u64) -> Self {
        let mut first = [0; KEY_LEN / 2];
        let text = format!("{:08x}", (mix64(seed) >> 32) as u32);
        first.copy_from_slice(text.as_bytes());
        KeyNames { first }
    }

    /// What all names begin with.
    pub fn prefix(&self) -> &str {
        core::str::from_utf8(&self.first).expect("digits are text")
    }

    /// The name of a key.
    #[inline]
    pub fn of(&self, key: u32) -> [u8; KEY_LEN] {
        let mut name = [0; KEY_LEN];
        name[..KEY_LEN / 2].copy_from_slice(&self.first);
        name[KEY_LEN / 2..].copy_from_slice(&digits(key));
        name
    }
}

/// Eight decimal digits, all at once: it is done for most requests. Divisions are multiplications with shifts
/// that are exact for numbers of so few digits.
#[inline]
fn digits(number: u32) -> [u8; 8] {
    let number = u64::from(number);
    // Two numbers of four digits, the first in the lower half; then four of two, then eight of one.
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | ((fours - 100 * hundreds) << 16);
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | ((twos - 10 * tens) << 8);
    (ones + 0x3030_3030_3030_3030).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_workload::{KeySizes, WorkloadSpec};

    /// Twin: the standard library's.
    #[test]
    fn digits_are_those_of_the_number() {
        let most = KEYS_MAX as u32;
        let numbers = (0..70_000u32).chain((0..10_000).map(|i| mix64(i) as u32 % most));
        for number in numbers.chain([most - 1, 99_999_999, 90_090_909]) {
            assert_eq!(&digits(number)[..], format!("{number:08}").as_bytes());
        }
    }

    #[test]
    fn names_are_those_of_a_workload() {
        let names = KeyNames::of_seed(9);
        let spec = WorkloadSpec {
            keys: Some(KEYS_MAX),
            prefix: names.prefix().to_owned(),
            key_sizes: KeySizes::fixed(KEY_LEN as u32).unwrap(),
            ..WorkloadSpec::default()
        };
        let workload = spec.build().unwrap();
        for key in [0, 7, 12_345_678, KEYS_MAX - 1] {
            let mut name = Vec::new();
            workload.write_key(key, &mut name);
            assert_eq!(name, names.of(key as u32));
        }
    }

    #[test]
    fn seeds_and_keys_have_names_of_their_own() {
        let [one, other] = [1, 2].map(KeyNames::of_seed);
        assert_ne!(one.of(7), other.of(7));
        assert_ne!(one.of(7), one.of(8));
        assert_eq!(one.of(12_345_678)[8..], *b"12345678");
        assert_eq!(one.of(7), KeyNames::of_seed(1).of(7));
        assert!(one.of(7).starts_with(one.prefix().as_bytes()));
    }
}
