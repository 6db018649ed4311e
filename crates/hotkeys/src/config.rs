//! Settings of the server's side of hot keys, and how many replicas a key deserves.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use evenkeel_balance::load::TriggerConfig;
use evenkeel_types::promise::{Consistency, LEASE_MAX, LEASE_MIN, Promise};

/// Keys that the SSM caches of a whole server track, about 60 KB with keys of usual length (S1).
pub const SSM_ENTRIES_PER_SERVER: usize = 512;

/// Fewest keys that a worker tracks. A key with 2 % of a worker's reads comes up once in 50 samples
/// and stays in an LRU list of this length with a probability of nine tenths until the next time.
pub const SSM_ENTRIES_PER_WORKER_MIN: usize = 128;

/// Most keys that a worker tracks: positions in the table are 16 bits, and larger is of no use.
pub const SSM_ENTRIES_MAX: usize = 4096;

/// How many keys each of `workers` workers of a server tracks.
pub fn ssm_entries(workers: usize) -> usize {
    (SSM_ENTRIES_PER_SERVER / workers.max(1)).max(SSM_ENTRIES_PER_WORKER_MIN)
}

/// Reads that a worker looks at in a slot if it has this many, unless its sampling is fixed. A key with a
/// hundredth of them is then seen ten times, and 4,000 looks a second cost a busy worker nothing.
pub const SAMPLES_PER_SLOT: f64 = 1000.0;

/// Share of reads that a worker looks at at least, unless its sampling is fixed (S2).
pub const SAMPLING_MIN: f64 = 0.03;

/// Longest rest of a key's replicas between stores, as a part of a lease: what a rest adds to how stale a read can be
/// stays small beside what is promised.
pub const REST_DIVISOR: u32 = 20;

/// How many reads each copy serves for a value that it is sent.
const READS_PER_STORE: f64 = 3.0;

/// Shortest rest: below it a timer costs more than the stores that it spares.
pub const REST_MIN: Duration = Duration::from_millis(1);

/// Most replicas of a key unless it is said. How many there are follows from how hot the key is; with this bound one that
/// takes half of all reads is spread over 64 workers, and a value that is written is sent to 63.
pub const GAMMA_MAX_DEFAULT: u8 = 63;

/// Whether hot keys are replicated. Ordered by how much is done, so that of two wishes the lesser wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The server is plain memcached.
    Off,
    /// Hot keys of loaded workers are found, and the log tells what would be done about them; nothing
    /// is replicated and no lease granted.
    Observe,
    /// Hot keys of loaded workers are replicated.
    #[default]
    On,
}

/// How many reads a write outweighs (S3). The paper's nine where each write is held until no copy can be read. With leases a
/// written value is sent to a copy once for as many reads as [`HotKeysConfig::reads_per_store`] says, so that a key with this many
/// reads to a write still gains.
pub fn write_weight(consistency: Consistency) -> f64 {
    match consistency {
        Consistency::Lease => READS_PER_STORE,
        Consistency::Atomic => 9.0,
    }
}

impl Mode {
    /// All of them, the one that does least first.
    pub const ALL: [Mode; 3] = [Mode::Off, Mode::Observe, Mode::On];
}

impl core::fmt::Display for Mode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(match self {
            Mode::Off => "off",
            Mode::Observe => "observe",
            Mode::On => "on",
        })
    }
}

/// Settings of [`HotKeys`](super::server::HotKeys).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HotKeysConfig {
    /// Whether to replicate at first.
    pub mode: Mode,
    /// What readers of replicated keys are promised.
    pub consistency: Consistency,
    /// How long a client may read a replica after the read that brought the lease was sent: the
    /// bound of staleness.
    pub lease: Duration,
    /// Probability with which a read of a key without replicas is looked at (S2). `None` for what gives
    /// [`SAMPLES_PER_SLOT`].
    pub sampling: Option<f64>,
    /// How many reads a write outweighs (S3): with 3, a key with three reads to a write counts zero. See
    /// [`write_weight`].
    pub write_weight: f64,
    /// Share of the worker's undiverted load from which on a key is hot.
    pub hot_share: f64,
    /// Share of the worker's undiverted load below which a replicated key has cooled.
    pub cold_share: f64,
    /// Standard errors of its estimated popularity by which a key has to be above `hot_share` to be hot, and below
    /// `cold_share` to have cooled; see `server/worth.rs`. With 2, chance alone does either to one key of forty.
    pub certainty: f64,
    /// How much of a worker's fair load one copy of a key should carry at most; decides γ.
    pub copy_share: f64,
    /// How many reads each copy is to serve for a value that it is sent, on average: a key that is written more often has
    /// its replicas rest between stores, for a [`REST_DIVISOR`]th of a lease at most. 0 for no rests. Not with
    /// [`Consistency::Atomic`], where writes wait for the replicas.
    pub reads_per_store: f64,
    /// Most replicas of a key besides its home copy.
    pub gamma_max: u8,
    /// Keys that this worker tracks; see [`ssm_entries`].
    pub entries_max: usize,
    /// Keys that this worker replicates at the same time.
    pub replicated_max: usize,
    /// When the worker is loaded enough.
    pub trigger: TriggerConfig,
}

impl Default for HotKeysConfig {
    fn default() -> Self {
        HotKeysConfig {
            mode: Mode::On,
            consistency: Consistency::Lease,
            lease: Consistency::Lease.lease_default(),
            sampling: None,
            write_weight: write_weight(Consistency::Lease),
            hot_share: 0.01,
            cold_share: 0.005,
            certainty: 2.0,
            copy_share: 0.2,
            reads_per_store: READS_PER_STORE,
            gamma_max: GAMMA_MAX_DEFAULT,
            entries_max: 256,
            replicated_max: 64,
            trigger: TriggerConfig::default(),
        }
    }
}

impl HotKeysConfig {
    /// What readers are promised by a worker of this configuration.
    pub(crate) fn promise(&self) -> Promise {
        Promise {
            consistency: self.consistency,
            lease_ms: u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Checks that the settings make sense together.
    ///
    /// # Errors
    ///
    /// The first setting that does not, as its author should read it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let shares = [
            ("sampling", self.sampling.unwrap_or(SAMPLING_MIN)),
            ("hot_share", self.hot_share),
            ("cold_share", self.cold_share),
            ("copy_share", self.copy_share),
            ("trigger.busy_min", self.trigger.busy_min),
        ];
        check_shares(&shares)?;
        let amounts = [
            ("write_weight", self.write_weight),
            ("certainty", self.certainty),
            ("reads_per_store", self.reads_per_store),
            ("trigger.ratio", self.trigger.ratio),
            (
                "trigger.absolute_rps",
                self.trigger.absolute_rps.unwrap_or(0.0),
            ),
        ];
        check_amounts(&amounts)?;
        check_heat(self.copy_share, self.hot_share, self.cold_share)?;
        check_lease(self.lease)?;
        if self.entries_max == 0 || self.entries_max > SSM_ENTRIES_MAX {
            return Err(ConfigError::BadEntriesMax {
                count: self.entries_max,
            });
        }
        if self.replicated_max > self.entries_max {
            let (replicated, entries) = (self.replicated_max, self.entries_max);
            return Err(ConfigError::MoreReplicatedThanTracked {
                replicated,
                entries,
            });
        }
        Ok(())
    }
}

/// A setting that makes no sense. The user's fault.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// Not between 0 and 1.
    #[error("accept {name} = {value}: a share is between 0 and 1")]
    NotAShare {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// Negative, infinite or not a number.
    #[error("accept {name} = {value}: it must be a number that is not negative")]
    NotAnAmount {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// A copy that carries nothing needs infinitely many others.
    #[error("accept copy_share = 0: a copy has to carry something")]
    CopyShareZero,
    /// Keys would be hot and cold at once.
    #[error("accept cold_share = {cold}: it must not exceed hot_share = {hot}")]
    ColdAboveHot {
        /// `hot_share`.
        hot: f64,
        /// `cold_share`.
        cold: f64,
    },
    /// Outside [`LEASE_MIN`] and [`LEASE_MAX`].
    #[error("accept a lease of {lease:?}: it must be {LEASE_MIN:?} to {LEASE_MAX:?}")]
    BadLease {
        /// The lease.
        lease: Duration,
    },
    /// Zero, or more than [`SSM_ENTRIES_MAX`].
    #[error("accept entries_max = {count}: it must be 1 to {SSM_ENTRIES_MAX}")]
    BadEntriesMax {
        /// `entries_max`.
        count: usize,
    },
    /// Replicated keys are tracked keys.
    #[error("accept replicated_max = {replicated}: it must not exceed entries_max = {entries}")]
    MoreReplicatedThanTracked {
        /// `replicated_max`.
        replicated: usize,
        /// `entries_max`.
        entries: usize,
    },
}

/// Probability with which to look at a read when there were this many requests in a slot.
pub(super) fn sampling_for(fixed: Option<f64>, requests: f64) -> f64 {
    fixed.unwrap_or_else(|| (SAMPLES_PER_SLOT / requests.max(1.0)).clamp(SAMPLING_MIN, 1.0))
}

/// How many replicas a key deserves besides its home copy: enough that no copy carries more than
/// `copy_share` of a worker's fair load, at least one, at most `gamma_max` and one on each of the `others`: the
/// workers of other servers that are up.
///
/// `heat` is the rate of the key over the fair load of a worker.
pub fn gamma_for(heat: f64, copy_share: f64, others: usize, gamma_max: u8) -> u8 {
    let others = u8::try_from(others).unwrap_or(u8::MAX);
    let copies = (heat / copy_share).ceil().max(2.0);
    // Casts from f64 saturate.
    ((copies - 1.0) as u8).min(gamma_max).min(others)
}

/// How long the replicas of a key rest after a store, if at all: until each copy has served `reads` more. `rate`: reads
/// of all `copies` in a second, less the weight of writes, so that what is written much rests longer.
pub(super) fn rest_for(reads: f64, copies: f64, rate: f64, lease: Duration) -> Option<Duration> {
    let longest = lease / REST_DIVISOR;
    let rest = reads * copies / rate.max(f64::MIN_POSITIVE);
    let rest = longest.mul_f64((rest / longest.as_secs_f64()).min(1.0));
    (rest >= REST_MIN).then_some(rest)
}

/// Parts of a whole, by the names of their settings.
pub(super) fn check_shares(shares: &[(&'static str, f64)]) -> Result<(), ConfigError> {
    let wrong = shares
        .iter()
        .find(|(_, value)| !(0.0..=1.0).contains(value));
    match wrong {
        Some(&(name, value)) => Err(ConfigError::NotAShare { name, value }),
        None => Ok(()),
    }
}

/// Numbers from zero up, likewise.
pub(super) fn check_amounts(amounts: &[(&'static str, f64)]) -> Result<(), ConfigError> {
    let is_amount = |value: f64| value.is_finite() && value >= 0.0;
    let wrong = amounts.iter().find(|(_, value)| !is_amount(*value));
    match wrong {
        Some(&(name, value)) => Err(ConfigError::NotAnAmount { name, value }),
        None => Ok(()),
    }
}

/// The parts that say when a key is hot, when it has cooled, and what one copy carries.
pub(super) fn check_heat(copy: f64, hot: f64, cold: f64) -> Result<(), ConfigError> {
    if copy == 0.0 {
        return Err(ConfigError::CopyShareZero);
    }
    if cold > hot {
        return Err(ConfigError::ColdAboveHot { hot, cold });
    }
    Ok(())
}

/// How long a lease may last.
pub(super) fn check_lease(lease: Duration) -> Result<(), ConfigError> {
    if (LEASE_MIN..=LEASE_MAX).contains(&lease) {
        Ok(())
    } else {
        Err(ConfigError::BadLease { lease })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hotter_keys_get_more_replicas_within_their_bounds() {
        let gamma = |heat, others| gamma_for(heat, 0.03, others, 15);
        assert_eq!(gamma(0.10, 3), 3);
        assert_eq!(gamma(3.70, 3), 3);
        assert_eq!(gamma(0.01, 3), 1);
        assert_eq!(gamma(0.06, 3), 1);
        assert_eq!(gamma(0.07, 3), 2);
        assert_eq!(gamma(0.50, 100), 15);
        assert_eq!(gamma_for(1e9, 0.03, 1000, 255), 255);
        assert_eq!(gamma(0.50, 0), 0, "nobody else is there");
        assert_eq!(gamma_for(f64::INFINITY, 0.03, 4, 2), 2);
        assert_eq!(gamma_for(f64::NAN, 0.03, 4, 15), 1);
    }

    #[test]
    fn replicas_rest_until_each_copy_was_read_and_no_longer_than_a_part_of_a_lease() {
        let rest = |copies, rate| rest_for(8.0, copies, rate, Duration::from_secs(1));
        assert_eq!(rest(16.0, 12_800.0), Some(Duration::from_millis(10)));
        assert_eq!(rest(16.0, 100.0), Some(Duration::from_millis(50)));
        assert_eq!(rest(2.0, 100_000.0), None, "not worth a timer");
        for rate in [0.0, -1e9, f64::MIN_POSITIVE] {
            assert_eq!(rest(2.0, rate), Some(Duration::from_millis(50)));
        }
        assert_eq!(rest_for(0.0, 16.0, 100.0, LEASE_MAX), None);
        assert_eq!(
            rest_for(8.0, 16.0, 100.0, LEASE_MIN),
            Some(LEASE_MIN / REST_DIVISOR)
        );
    }

    #[test]
    fn slow_workers_look_at_all_reads_and_fast_ones_at_a_few() {
        let sampling = |requests| sampling_for(None, requests);
        assert_eq!([0.0, 500.0, 1000.0].map(sampling), [1.0; 3]);
        assert_eq!(sampling(10_000.0), 0.1);
        assert_eq!([33_334.0, 1e9].map(sampling), [SAMPLING_MIN; 2]);
        assert_eq!(sampling_for(Some(0.0), 1.0), 0.0);
        assert_eq!(sampling_for(Some(1.0), 1e9), 1.0);
    }

    #[test]
    fn a_server_of_many_workers_still_lets_each_track_enough_keys() {
        assert_eq!(ssm_entries(1), 512);
        assert_eq!(ssm_entries(2), 256);
        assert_eq!(ssm_entries(64), SSM_ENTRIES_PER_WORKER_MIN);
        assert_eq!(ssm_entries(0), 512);
    }

    #[test]
    fn defaults_are_valid_and_each_bad_setting_is_named() {
        let good = HotKeysConfig::default();
        assert_eq!(good.validate(), Ok(()));
        type Break = fn(&mut HotKeysConfig);
        let cases: [(Break, &str); 11] = [
            (|c| c.sampling = Some(1.5), "sampling = 1.5"),
            (|c| c.hot_share = f64::NAN, "hot_share = NaN"),
            (|c| c.write_weight = -1.0, "write_weight = -1"),
            (|c| c.trigger.busy_min = 30.0, "trigger.busy_min = 30"),
            (
                |c| c.trigger.absolute_rps = Some(f64::INFINITY),
                "trigger.absolute_rps = inf",
            ),
            (|c| c.copy_share = 0.0, "copy_share = 0"),
            (|c| c.cold_share = 0.02, "cold_share = 0.02"),
            (|c| c.lease = Duration::from_secs(11), "lease of 11s"),
            (|c| c.lease = Duration::ZERO, "lease of 0ns"),
            (|c| c.entries_max = 0, "entries_max = 0"),
            (|c| c.replicated_max = 257, "replicated_max = 257"),
        ];
        for (break_it, expected) in cases {
            let mut bad = good.clone();
            break_it(&mut bad);
            let error = bad.validate().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
