//! How the demo looks while it runs: a line a second. Who wants a screen opens `evenkeel top` beside it.

use super::measure::Sample;
use super::report::Phase;
use std::time::Duration;

/// The last second of a phase, in a line of 80 columns. `elapsed` is the time since the first phase began.
pub fn of_second(elapsed: Duration, phase: Phase, sample: &Sample) -> String {
    format!(
        "{:>3} s  {:<3}  {:>6.0} served/s  p50 {:>5.1}  p99 {:>6.1} ms  errors {:<4} max/mean {:.2}",
        elapsed.as_secs(),
        if phase.is_on() { "on" } else { "off" },
        sample.requests_per_second(),
        sample.load.latency_us(0.5) / 1e3,
        sample.load.latency_us(0.99) / 1e3,
        sample.load.counters.errors,
        sample.max_over_mean(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::sample;
    use super::*;

    #[test]
    fn a_second_fits_a_line() {
        let sample = sample(&[300, 100, 100], &[200]);
        let elapsed = Duration::from_millis(16_400);
        let line = of_second(elapsed, Phase::OnBeforeSwitch, &sample);
        assert!(line.starts_with(" 16 s  on "), "{line}");
        for words in ["500 served/s", "max/mean 1.80", "p50   0.2  p99"] {
            assert!(line.contains(words), "{words}: {line}");
        }
        assert!(line.len() <= 80, "{line}");
    }
}
