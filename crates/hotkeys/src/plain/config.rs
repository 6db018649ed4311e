//! Settings of hot keys in front of plain memcached servers.

use core::time::Duration;

use crate::config::{
    ConfigError, GAMMA_MAX_DEFAULT, check_amounts, check_heat, check_lease, check_shares,
};

/// Counters of the summary by which one worker finds hot keys, about 60 KB with keys of usual length.
/// A count misses less than 0.2 % of the reads, a third of what makes a key hot among eight servers.
pub const COUNTERS: usize = 512;

/// Keys that one worker may replicate for each server, and at least. Of a million keys by Zipf's law with an exponent of
/// 1.2 the first 64 get about 65 % of the reads, and the next one 0.1 %: less than a hundredth of what one of eight servers carries,
/// but a sixteenth of what one of sixty-four does.
const REPLICATED_PER_SERVER: usize = 8;
const REPLICATED_MIN: usize = 64;

/// Most of all: what is counted is exact enough for half of the counters.
const REPLICATED_MAX: usize = COUNTERS / 2;

const _: () = assert!(REPLICATED_MAX <= crate::client::CSM_ENTRIES_MAX);

/// Most keys that one worker replicates at a time before this many servers: 64 before up to 8, 256 before 32 and more.
pub(super) fn replicated_max(servers: usize) -> usize {
    (REPLICATED_PER_SERVER * servers).clamp(REPLICATED_MIN, REPLICATED_MAX)
}

/// Whether hot keys are looked for, and whether they are replicated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainMode {
    /// Nothing is counted.
    #[default]
    Off,
    /// They are found and reported; every request is executed as if they were not.
    Observe,
    /// They are replicated.
    On,
}

/// Settings of [`PlainHotKeys`](super::PlainHotKeys).
#[derive(Clone, Debug, PartialEq)]
pub struct PlainConfig {
    /// What to do.
    pub mode: PlainMode,
    /// How long what the home server said of a key may stand for it: the bound of staleness.
    pub lease: Duration,
    /// Probability with which a read or a write is counted, if it is not to follow from how many reads there are
    /// ([`SAMPLES_PER_SLOT`](crate::config::SAMPLES_PER_SLOT)).
    pub sampling: Option<f64>,
    /// How many reads a write outweighs. With 9, a key with nine reads to a write counts zero.
    pub write_weight: f64,
    /// Part of a server's fair share of the pool's reads from which on a key is hot.
    pub hot_share: f64,
    /// The part below which a replicated key has cooled.
    pub cold_share: f64,
    /// Part of a server's fair share that one copy of a key should carry at most; decides γ.
    pub copy_share: f64,
    /// Most replicas of a key besides what its home holds.
    pub gamma_max: u8,
}

impl Default for PlainConfig {
    fn default() -> Self {
        PlainConfig {
            mode: PlainMode::Off,
            lease: Duration::from_secs(1),
            sampling: None,
            write_weight: 9.0,
            hot_share: 0.05,
            cold_share: 0.025,
            copy_share: 0.05,
            gamma_max: GAMMA_MAX_DEFAULT,
        }
    }
}

impl PlainConfig {
    /// Checks that the settings make sense together.
    ///
    /// # Errors
    ///
    /// The first setting that does not, as its author should read it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_shares(&[
            ("sampling", self.sampling.unwrap_or(1.0)),
            ("hot_share", self.hot_share),
            ("cold_share", self.cold_share),
            ("copy_share", self.copy_share),
        ])?;
        check_amounts(&[("write_weight", self.write_weight)])?;
        check_heat(self.copy_share, self.hot_share, self.cold_share)?;
        check_lease(self.lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_each_bad_setting_is_named() {
        let good = PlainConfig::default();
        assert_eq!(good.validate(), Ok(()));
        type Break = fn(&mut PlainConfig);
        let cases: [(Break, &str); 6] = [
            (|c| c.sampling = Some(1.5), "sampling = 1.5"),
            (|c| c.hot_share = f64::NAN, "hot_share = NaN"),
            (|c| c.write_weight = -1.0, "write_weight = -1"),
            (|c| c.copy_share = 0.0, "copy_share = 0"),
            (|c| c.cold_share = 0.2, "cold_share = 0.2"),
            (|c| c.lease = Duration::from_secs(11), "lease of 11s"),
        ];
        for (break_it, expected) in cases {
            let mut bad = good.clone();
            break_it(&mut bad);
            let error = bad.validate().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
