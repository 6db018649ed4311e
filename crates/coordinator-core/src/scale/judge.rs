//! What measures say of the number of a pool's servers.
//!
//! Each measure is turned into a *pressure*, of which more means that more servers are wanted: hits become misses, the others stay as they
//! are. A pressure is taken to be inverse to the number of servers. That is so of requests, roughly so of the busiest server, and a guess
//! on the safe side for the others.

use super::limits::{ALL_HOT, LEFT_BELOW};
use super::measure::{Band, Measure, Measures};
use super::settings::ScaleSettings;

/// What the measures say of the number of servers, each with one sentence.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Judgement {
    /// Something is not known.
    Unknown(String),
    /// It is right.
    Enough(String),
    /// Some measure is past its upper threshold.
    TooFew(String),
    /// All are below their lower one, and would stay low with a server fewer.
    TooMany(String),
}

/// More of it asks for more servers.
struct Pressure {
    value: f64,
    lower: f64,
    upper: f64,
}

/// What measures of `servers` servers say if there were `counted` of them: another number where decisions are only observed. Both are at
/// least 1.
pub(super) fn judge(
    settings: &ScaleSettings,
    measures: &Measures,
    servers: usize,
    counted: usize,
) -> Judgement {
    if counted < settings.min {
        let min = settings.min;
        return Judgement::TooFew(format!(
            "there are {counted} servers, and at least {min} wanted"
        ));
    }
    let set = Measure::ALL.map(|measure| (measure, settings.band(measure)));
    let set = set
        .into_iter()
        .filter_map(|(measure, band)| Some((measure, band?)));
    let mut pressures = Vec::new();
    for (measure, band) in set {
        let Some(value) = measure.of(measures) else {
            return Judgement::Unknown(format!("{measure} is not known"));
        };
        pressures.push((measure, measure.pressure(value, band)));
    }
    let present = servers as f64 / counted as f64;
    let fewer = servers as f64 / (counted as f64 - 1.0);
    let used = measures.utilization.filter(|used| used.is_finite());
    let used_by = |factor: f64| used.map_or(0.0, |used| used * factor);
    if used_by(present) > ALL_HOT {
        let used = used_by(present);
        return Judgement::TooFew(format!(
            "all servers are hot: they use {used:.3} of what they can do together, above {ALL_HOT}"
        ));
    }
    let past = pressures
        .iter()
        .find(|(_, it)| it.value * present > it.upper);
    if let Some((measure, it)) = past {
        let (side, value) = (measure.words(true), measure.shown(it.value * present));
        let threshold = measure.shown(it.upper);
        return Judgement::TooFew(format!("{measure} is {value}, {side} {threshold}"));
    }
    let not_below = pressures
        .iter()
        .find(|(_, it)| it.value * present >= it.lower);
    if let Some((measure, it)) = not_below {
        let value = measure.shown(it.value * present);
        return Judgement::Enough(format!("{measure} is {value}, between its thresholds"));
    }
    let left_high = pressures
        .iter()
        .find(|(_, it)| it.value * fewer >= LEFT_BELOW * it.upper);
    if let Some((measure, it)) = left_high {
        let (value, upper) = (measure.shown(it.value * fewer), measure.shown(it.upper));
        return Judgement::Enough(format!(
            "with a server fewer, {measure} would be about {value}, too near to {upper}"
        ));
    }
    if used_by(fewer) >= LEFT_BELOW * ALL_HOT {
        let used = used_by(fewer);
        return Judgement::Enough(format!(
            "with a server fewer, all would use about {used:.3} of what they can do together, too near to {ALL_HOT}"
        ));
    }
    let Some((measure, it)) = pressures.first() else {
        return Judgement::Unknown("no threshold is set".into());
    };
    let (side, value) = (measure.words(false), measure.shown(it.value * present));
    let threshold = measure.shown(it.lower);
    Judgement::TooMany(format!("{measure} is {value}, {side} {threshold}"))
}

impl Measure {
    fn pressure(self, value: f64, band: Band) -> Pressure {
        match self {
            Measure::HitRate => Pressure {
                value: 1.0 - value,
                lower: 1.0 - band.upper,
                upper: 1.0 - band.lower,
            },
            _ => Pressure {
                value,
                lower: band.lower,
                upper: band.upper,
            },
        }
    }

    /// On which side of a threshold it is, with more pressure or less.
    fn words(self, is_more: bool) -> &'static str {
        match is_more == (self == Measure::HitRate) {
            true => "below",
            false => "above",
        }
    }

    /// A pressure as people know the measure.
    fn shown(self, pressure: f64) -> String {
        match self {
            Measure::RequestsPerServer | Measure::P99Us => format!("{pressure:.0}"),
            Measure::BusiestShare => format!("{pressure:.3}"),
            Measure::HitRate => format!("{:.3}", 1.0 - pressure),
        }
    }
}
