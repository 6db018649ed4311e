//! What a server costs: how much it misses and how much it is used, of which the paper balances the sum.
//!
//! c = α(1 − h) + (1 − α)r, with the hit rate h and the usage ratio r, its requests by those of the most used server; both
//! averaged over the slots (section 3.3).
//!
//! The paper's average is h(t) = h(t − 1)/t0 + x. Of a steady x that becomes x/(1 − 1/t0), which is more than 1 where x is; with
//! a t0 of 1 it grows without end. Here it is divided by 1 + 1/t0, so that it stays between the least and the largest x, and
//! the first slot counts as it is. t0 is in seconds: with 60 a slot before weighs a 61st.

use super::report::GrainCounts;

/// How costs are weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostSettings {
    /// Length of a slot in seconds: above 0.
    pub slot_seconds: f64,
    /// Weight of misses against use: 0 to 1.
    pub alpha: f64,
}

impl Default for CostSettings {
    /// The paper's: a minute, both alike.
    fn default() -> Self {
        CostSettings {
            slot_seconds: 60.0,
            alpha: 0.5,
        }
    }
}

/// A setting out of its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is {given}, not {range}")]
pub struct BadWeight {
    /// Which.
    pub name: &'static str,
    /// What it was set to.
    pub given: f64,
    /// What it may be.
    pub range: &'static str,
}

/// The costs of servers, from slot to slot.
#[derive(Clone, Debug)]
pub struct Costs {
    settings: CostSettings,
    servers: Vec<Averages>,
}

/// Of one server; nothing before its first slot.
#[derive(Clone, Copy, Debug, Default)]
struct Averages {
    hit_rate: Option<f64>,
    usage: Option<f64>,
}

impl Costs {
    /// Costs of servers of which nothing is known yet.
    ///
    /// # Errors
    ///
    /// If a setting is out of its range.
    pub fn new(settings: CostSettings) -> Result<Self, BadWeight> {
        let CostSettings {
            slot_seconds,
            alpha,
        } = settings;
        in_range("slot_seconds", slot_seconds, "above 0", |s| {
            s.is_finite() && s > 0.0
        })?;
        in_range("alpha", alpha, "within 0 and 1", |a| {
            (0.0..=1.0).contains(&a)
        })?;
        Ok(Costs {
            settings,
            servers: Vec::new(),
        })
    }

    /// The cost of each server after another slot, 0 to 1. One that nobody asked keeps its hit rate; one that was never asked
    /// misses nothing. O(n).
    pub fn after(&mut self, slot: &[GrainCounts]) -> Vec<f64> {
        let CostSettings {
            slot_seconds,
            alpha,
        } = self.settings;
        self.servers.resize(slot.len(), Averages::default());
        let used = |counts: &GrainCounts| (counts.gets + counts.sets) as f64;
        let most = slot.iter().map(used).fold(0.0, f64::max);
        let costs = self.servers.iter_mut().zip(slot).map(|(server, counts)| {
            if counts.gets > 0 {
                let hit_rate = 1.0 - counts.sets as f64 / counts.gets as f64;
                let hit_rate = hit_rate.clamp(0.0, 1.0);
                server.hit_rate = Some(average(server.hit_rate, hit_rate, slot_seconds));
            }
            let usage = if most > 0.0 { used(counts) / most } else { 0.0 };
            let usage = average(server.usage, usage, slot_seconds);
            server.usage = Some(usage);
            alpha * (1.0 - server.hit_rate.unwrap_or(1.0)) + (1.0 - alpha) * usage
        });
        costs.collect()
    }
}

/// The paper's average, divided by 1 + 1/t0.
fn average(before: Option<f64>, now: f64, t0: f64) -> f64 {
    match before {
        Some(before) => (before / t0 + now) / (1.0 + 1.0 / t0),
        None => now,
    }
}

pub(super) fn in_range(
    name: &'static str,
    given: f64,
    range: &'static str,
    holds: impl Fn(f64) -> bool,
) -> Result<(), BadWeight> {
    match holds(given) {
        true => Ok(()),
        false => Err(BadWeight { name, given, range }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(gets: u64, sets: u64) -> GrainCounts {
        GrainCounts {
            gets,
            sets,
            ..GrainCounts::default()
        }
    }

    fn costs(slot_seconds: f64, alpha: f64) -> Costs {
        let settings = CostSettings {
            slot_seconds,
            alpha,
        };
        Costs::new(settings).unwrap()
    }

    #[test]
    fn misses_and_use_are_weighed_by_alpha() {
        let slot = [counts(900, 100), counts(400, 100), counts(0, 0)];
        let near = |alpha: f64, expected: [f64; 3]| {
            let found = costs(60.0, alpha).after(&slot);
            let off = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
            assert!(off.fold(0.0, f64::max) < 1e-12, "{found:?}");
        };
        near(1.0, [1.0 / 9.0, 0.25, 0.0]);
        near(0.0, [1.0, 0.5, 0.0]);
        near(0.5, [5.0 / 9.0, 0.375, 0.0]);
    }

    #[test]
    fn averages_stay_where_steady_slots_are() {
        for t0 in [0.5, 1.0, 5.0, 60.0] {
            let mut costs = costs(t0, 0.5);
            for _ in 0..1_000 {
                let found = costs.after(&[counts(100, 100), counts(100, 0)]);
                assert!((found[0] - 1.0).abs() < 1e-9, "{t0}: {found:?}");
                assert!((found[1] - 0.25).abs() < 1e-9, "{t0}: {found:?}");
            }
        }
    }

    #[test]
    fn a_slot_before_weighs_one_by_t0_plus_one() {
        let mut costs = costs(4.0, 1.0);
        costs.after(&[counts(100, 0)]);
        let found = costs.after(&[counts(100, 50)])[0];
        assert!((found - 0.5 * 0.8).abs() < 1e-12, "{found}");
        assert_eq!(costs.after(&[counts(0, 9)])[0], found, "nobody asked");
        let more_sets = costs.after(&[counts(1, 9)])[0];
        assert!(more_sets <= 1.0, "{more_sets}");
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let refused = |slot_seconds, alpha| {
            let settings = CostSettings {
                slot_seconds,
                alpha,
            };
            Costs::new(settings).unwrap_err().to_string()
        };
        assert_eq!(refused(60.0, 1.5), "alpha is 1.5, not within 0 and 1");
        assert_eq!(refused(60.0, f64::NAN), "alpha is NaN, not within 0 and 1");
        assert_eq!(refused(0.0, 0.5), "slot_seconds is 0, not above 0");
        assert_eq!(
            refused(f64::INFINITY, 0.5),
            "slot_seconds is inf, not above 0"
        );
    }
}
