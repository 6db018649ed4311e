//! A flash crowd: for a while, a share of all gets goes to a few keys that were like any other before
//! (Jung, Krishnamurthy and Rabinovich, "Flash crowds and denial of service attacks", WWW 2002).

use crate::text::{self, Term};
use crate::{WorkloadError, refuse};
use core::fmt;
use core::str::FromStr;

/// A flash crowd, as text `flash(at=30s, for=10s, share=0.5, keys=1, ramp=2s, every=5min)`. `share` is
/// 0.5, `keys` 1, `ramp` none and `every` never where they are not given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashCrowd {
    /// When it begins, in nanoseconds from the start of the load.
    pub at_ns: u64,
    /// How long it lasts, in nanoseconds, its rise and fall included.
    pub for_ns: u64,
    /// Share of the gets that it has at its height, 0 to 1.
    pub share: f64,
    /// Number of keys that it asks for, each equally often.
    pub keys: u64,
    /// How long it rises, and falls, in a straight line; in nanoseconds.
    pub ramp_ns: u64,
    /// Comes again after this many nanoseconds, to the same keys; 0 never.
    pub every_ns: u64,
}

impl FlashCrowd {
    /// Refuses numbers that make no sense together.
    ///
    /// # Errors
    /// With the reason.
    pub fn check(&self, keys: u64) -> Result<(), WorkloadError> {
        if !(0.0..=1.0).contains(&self.share) {
            return refuse(format!("share {} is not within 0 and 1", self.share));
        }
        if !(1..=keys).contains(&self.keys) {
            return refuse(format!(
                "a flash crowd of {} keys is not within 1 and {keys}",
                self.keys
            ));
        }
        if self.ramp_ns.saturating_mul(2) > self.for_ns {
            return refuse("a flash crowd is over before it has risen and fallen");
        }
        if self.every_ns > 0 && self.every_ns < self.for_ns {
            return refuse("a flash crowd comes again before it is over");
        }
        Ok(())
    }

    /// The share of the gets that it has at a time.
    pub fn share_at(&self, now_ns: u64) -> f64 {
        let Some(since) = now_ns.checked_sub(self.at_ns) else {
            return 0.0;
        };
        let since = match self.every_ns {
            0 => since,
            every => since % every,
        };
        if since >= self.for_ns {
            return 0.0;
        }
        let edge = since.min(self.for_ns - since);
        if edge < self.ramp_ns {
            self.share * edge as f64 / self.ramp_ns as f64
        } else {
            self.share
        }
    }
}

impl FromStr for FlashCrowd {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let mut term = Term::parse(text)?;
        if term.name() != "flash" {
            return term.unknown(
                "a flash crowd",
                "flash(at=TIME, for=TIME, share=SHARE, keys=COUNT)",
            );
        }
        let crowd = FlashCrowd {
            at_ns: term.required(0, "at", text::time_ns)?,
            for_ns: term.required(1, "for", text::time_ns)?,
            share: term.or(2, "share", 0.5, text::share)?,
            keys: term.or(3, "keys", 1, text::count)?,
            ramp_ns: term.or(4, "ramp", 0, text::time_ns)?,
            every_ns: term.or(5, "every", 0, text::time_ns)?,
        };
        term.finish()?;
        crowd.check(u64::MAX)?;
        Ok(crowd)
    }
}

impl fmt::Display for FlashCrowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, length) = (text::show_ns(self.at_ns), text::show_ns(self.for_ns));
        write!(
            f,
            "flash(at={at}, for={length}, share={}, keys={}",
            self.share, self.keys
        )?;
        for (name, ns) in [("ramp", self.ramp_ns), ("every", self.every_ns)] {
            if ns > 0 {
                write!(f, ", {name}={}", text::show_ns(ns))?;
            }
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_comes_rises_falls_and_comes_again() {
        let crowd: FlashCrowd = "flash(10s, 10s, 0.8, ramp=2s, every=60s)".parse().unwrap();
        let share = |ms: u64| crowd.share_at(ms * 1_000_000);
        for (ms, expected) in [
            (0, 0.0),
            (9_999, 0.0),
            (10_000, 0.0),
            (11_000, 0.4),
            (12_000, 0.8),
            (17_999, 0.8),
            (19_000, 0.4),
            (20_000, 0.0),
            (69_000, 0.0),
            (75_000, 0.8),
        ] {
            assert!(
                (share(ms) - expected).abs() < 1e-9,
                "{ms} ms: {}",
                share(ms)
            );
        }
        let once: FlashCrowd = "flash(1s, 1s)".parse().unwrap();
        assert_eq!(
            (once.share_at(1_000_000_000), once.share_at(2_000_000_000)),
            (0.5, 0.0)
        );
    }

    #[test]
    fn crowds_are_read_and_written() {
        for text in [
            "flash(at=30s, for=10s, share=0.5, keys=1)",
            "flash(at=30s, for=1min, share=1, keys=20, ramp=2s, every=5min)",
        ] {
            assert_eq!(text.parse::<FlashCrowd>().unwrap().to_string(), text);
        }
        for text in [
            "flash",
            "flash(1s)",
            "flash(1s, 1s, 2)",
            "flash(1s, 1s, keys=0)",
            "flash(1s, 1s, ramp=1s)",
            "flash(1s, 2s, every=1s)",
            "crowd(1s, 1s)",
        ] {
            assert!(text.parse::<FlashCrowd>().is_err(), "{text}");
        }
        let crowd: FlashCrowd = "flash(1s, 1s, keys=10)".parse().unwrap();
        assert!(crowd.check(9).is_err());
    }
}
