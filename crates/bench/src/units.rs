//! Durations as people write them: `250ms`, `10s`, `2m`.

use std::time::Duration;

/// Units with their length in nanoseconds; longer names first where one ends in another.
const UNITS: [(&str, u64); 5] = [
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Longest duration, so that sums of a few never overflow.
const HOURS_MAX: u64 = 1000;

/// Reads a duration: a number (fractions allowed) and a unit.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let unit_at = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let nanos = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|&(_, nanos)| nanos);
    match (number.parse::<f64>(), nanos) {
        (Ok(number), Some(nanos))
            if number >= 0.0 && number * nanos as f64 <= (HOURS_MAX * 3_600_000_000_000) as f64 =>
        {
            Ok(Duration::from_nanos((number * nanos as f64).round() as u64))
        }
        (Ok(_), Some(_)) => Err(format!("'{text}' is not within 0s and {HOURS_MAX}h")),
        _ => Err(format!(
            "'{text}' is not a duration such as 250ms, 10s or 2m"
        )),
    }
}

/// A duration as it is read: in seconds, milliseconds or microseconds, whichever takes no fraction.
pub(crate) fn show_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    match nanos {
        _ if nanos.is_multiple_of(1_000_000_000) => format!("{}s", nanos / 1_000_000_000),
        _ if nanos.is_multiple_of(1_000_000) => format!("{}ms", nanos / 1_000_000),
        _ => format!("{}us", nanos as f64 / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        for text in ["", "10", "s", "-1s", "1d", "NaNs", "infs", "1001h", "1s 2"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_shown_is_read_again() {
        for text in ["0s", "2s", "120s", "250ms", "1500us", "0.001us"] {
            assert_eq!(show_duration(parse_duration(text).unwrap()), text);
        }
    }
}
