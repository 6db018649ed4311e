//! Prometheus's text format, as far as counts and histograms need it.

use evenkeel_hotkeys::ages::Ages;
use std::fmt::{Display, Write};

/// A text under way. Writing into memory cannot fail, so the results carry nothing.
#[derive(Debug, Default)]
pub struct Text(pub String);

impl Text {
    /// Begins a metric of one kind.
    pub fn kind(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One value of the metric begun.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.0.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"");
            for c in text.chars() {
                match c {
                    '\n' => self.0.push_str("\\n"),
                    '"' | '\\' => self.0.extend(['\\', c]),
                    _ => self.0.push(c),
                }
            }
            self.0.push('"');
        }
        let _ = writeln!(
            self.0,
            "{} {value}",
            if labels.is_empty() { "" } else { "}" }
        );
    }

    /// A metric of one value.
    pub fn one(&mut self, kind: &str, name: &str, help: &str, value: impl Display) {
        self.kind(name, kind, help);
        self.sample(name, &[], value);
    }

    /// A metric of one value that may fall.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.one("gauge", name, help, value);
    }

    /// A histogram.
    pub fn ages(&mut self, name: &str, help: &str, ages: &Ages) {
        self.kind(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (bound, count) in ages.within() {
            self.sample(&bucket, &[("le", &seconds(bound))], count);
        }
        self.sample(&bucket, &[("le", "+Inf")], ages.count());
        self.sample(&format!("{name}_sum"), &[], seconds(ages.sum_us()));
        self.sample(&format!("{name}_count"), &[], ages.count());
    }

    /// A metric of one value that only grows.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.one("counter", name, help, value);
    }
}

/// Microseconds in seconds, exactly.
pub fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_labels_say_cannot_end_them() {
        let mut text = Text::default();
        text.sample("a", &[("b", "x\"} 1\n\\"), ("c", "d")], 7);
        assert_eq!(text.0, "a{b=\"x\\\"} 1\\n\\\\\",c=\"d\"} 7\n");
        assert_eq!(seconds(1_000_016), "1.000016");
    }
}
