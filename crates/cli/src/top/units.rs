//! Numbers as a narrow column shows them.

/// From nothing to the highest value beside it.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// `812`, `12.3k`, `4.56M`.
pub fn count(number: f64) -> String {
    match number {
        n if n >= 1e6 => format!("{:.2}M", n / 1e6),
        n if n >= 1e4 => format!("{:.1}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

/// `97.3 %`, or `-` where there is nothing to tell.
pub fn ratio(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.1} %", share * 100.0))
}

/// `870K`, `64M`, `1.5G`.
pub fn bytes(number: u64) -> String {
    match number {
        n if n >= 1 << 30 => format!("{:.1}G", n as f64 / (1u64 << 30) as f64),
        n if n >= 1 << 20 => format!("{:.0}M", n as f64 / (1u64 << 20) as f64),
        n => format!("{}K", n >> 10),
    }
}

/// A letter for each value, the last ones that fit, by the highest that is shown anywhere.
pub fn sparkline(values: &[f64], highest: f64, width: usize) -> String {
    let newest = values.len().saturating_sub(width);
    let bar = |value: &f64| {
        let step = value / highest.max(f64::MIN_POSITIVE) * (BARS.len() - 1) as f64;
        BARS[(step.round() as usize).min(BARS.len() - 1)]
    };
    values[newest..].iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [812.0, 12_345.0, 4_560_000.0].map(count),
            ["812", "12.3k", "4.56M"]
        );
        assert_eq!(
            [870 << 10, 64 << 20, 3 << 29].map(bytes),
            ["870K", "64M", "1.5G"]
        );
        assert_eq!(
            (ratio(Some(0.973)), ratio(None)),
            ("97.3 %".into(), "-".into())
        );
    }

    #[test]
    fn a_sparkline_ends_with_the_newest() {
        assert_eq!(sparkline(&[9.0, 0.0, 5.0, 10.0], 10.0, 3), "▁▅█");
        assert_eq!(sparkline(&[0.0, 0.0], 0.0, 10), "▁▁");
        assert_eq!(sparkline(&[], 1.0, 10), "");
    }
}
