//! How much of a multi-get is enough (Replicate and Bundle, section III-F): said by its first key, which is no key then, or by its route.
//!
//! `limit:90%`, `limit:45`, `limit:5ms`, or both, `limit:90%,5ms`.

use crate::limits::LIMIT_MS_MAX;
use core::time::Duration;

/// What a key begins with that is a limit.
pub(crate) const LIMIT: &[u8] = b"limit:";

/// What is enough of a multi-get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How many of the keys, if not all.
    pub enough: Option<Enough>,
    /// How long after the request was read it is answered with what is there: whole milliseconds, to [`LIMIT_MS_MAX`].
    pub within: Option<Duration>,
}

/// How many keys are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enough {
    /// This many of a hundred, 1 to 100, rounded up.
    Percent(u32),
    /// This many, or all if there are fewer.
    Keys(u32),
}

impl Limit {
    /// What a pseudo key says; `None` if that is no limit.
    pub(crate) fn parse(said: &[u8]) -> Option<Limit> {
        let said = str::from_utf8(said.strip_prefix(LIMIT)?).ok()?;
        let mut limit = Limit {
            enough: None,
            within: None,
        };
        for part in said.split(',') {
            if let Some(ms) = part.strip_suffix("ms") {
                let ms = number(ms, LIMIT_MS_MAX)?;
                let within = Duration::from_millis(ms.into());
                if limit.within.replace(within).is_some() {
                    return None;
                }
                continue;
            }
            let enough = match part.strip_suffix('%') {
                Some(percent) => Enough::Percent(number(percent, 100)?),
                None => Enough::Keys(number(part, u32::MAX)?),
            };
            if limit.enough.replace(enough).is_some() {
                return None;
            }
        }
        Some(limit)
    }

    /// How many of this many keys are enough.
    pub(crate) fn wanted(&self, keys: usize) -> usize {
        match self.enough {
            None => keys,
            Some(Enough::Percent(percent)) => (keys * percent as usize).div_ceil(100),
            Some(Enough::Keys(wanted)) => keys.min(wanted as usize),
        }
    }
}

/// A decimal number from 1 on, without a sign.
fn number(digits: &str, most: u32) -> Option<u32> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u32 = digits.parse().ok().filter(|_| is_plain)?;
    (1..=most).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_a_share_a_time_or_a_time_and_one_of_these() {
        let limit = |said: &str| Limit::parse(format!("limit:{said}").as_bytes());
        let ms = |ms| Some(Duration::from_millis(ms));
        for (said, enough, within) in [
            ("90%", Some(Enough::Percent(90)), None),
            ("100%", Some(Enough::Percent(100)), None),
            ("45", Some(Enough::Keys(45)), None),
            ("5ms", None, ms(5)),
            ("90%,5ms", Some(Enough::Percent(90)), ms(5)),
            ("60000ms,1", Some(Enough::Keys(1)), ms(60_000)),
        ] {
            assert_eq!(limit(said), Some(Limit { enough, within }), "{said}");
        }
        for said in [
            "",
            "0",
            "0%",
            "101%",
            "-1ms",
            "0ms",
            "60001ms",
            "5s",
            "+5",
            "5,6",
            "5%,5",
            "5ms,5ms",
            "5,",
            ",",
            "5 ",
            "x",
            "99999999999",
        ] {
            assert_eq!(limit(said), None, "{said:?}");
        }
        assert_eq!(Limit::parse(b"limit"), None);
    }

    #[test]
    fn a_share_of_the_keys_is_rounded_up() {
        let wanted = |said: &[u8], keys| Limit::parse(said).unwrap().wanted(keys);
        assert_eq!(wanted(b"limit:90%", 50), 45);
        assert_eq!(wanted(b"limit:90%", 11), 10);
        assert_eq!(wanted(b"limit:1%", 1), 1);
        assert_eq!(wanted(b"limit:45", 30), 30);
        assert_eq!(wanted(b"limit:5ms", 30), 30);
    }
}
