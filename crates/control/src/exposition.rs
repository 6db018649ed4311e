//! Prometheus's text format, as far as counts and histograms need it, and metrics that are declared with what they show.

use evenkeel_hotkeys::ages::Ages;
pub use evenkeel_types::shown::Metric;
use evenkeel_types::shown::Shown;
use std::fmt::{Display, Write};

/// A metric of `T` that has labels, or is no count.
pub struct Family<T> {
    /// Its name, from which the whole one follows.
    pub name: &'static str,
    /// Its kind, and its whole name if that does not follow.
    pub metric: Metric,
    /// What tells its samples apart.
    pub labels: &'static [&'static str],
    /// What it says, for people.
    pub help: &'static str,
    /// Reads its samples.
    pub samples: fn(&T, &mut Samples<'_>),
}

impl<T> Family<T> {
    /// The row of docs/statistics.md. Names begin with `prefix`.
    pub fn row(&self, prefix: &str) -> String {
        let name = self.metric.full_name(prefix, self.name);
        let labels = match self.labels {
            [] => String::new(),
            labels => format!("{{{}}}", labels.join(", ")),
        };
        format!("| `{name}{labels}` | {} |\n", self.help)
    }
}

/// Declares lists of families. `name => kind, "help", samples;` is one without labels, and `name[label, label]` one with
/// some; behind the kind may stand another whole name.
#[macro_export]
macro_rules! families {
    (@name) => { None };
    (@name $name:literal) => { Some($name) };
    ($(
        $(#[$meta:meta])*
        $vis:vis $LIST:ident of $T:ty {
            $($name:ident $([$($label:ident),*])? => $kind:ident $($metric:literal)?, $help:literal, $samples:expr;)*
        }
    )*) => {$(
        $(#[$meta])*
        $vis const $LIST: &[$crate::exposition::Family<$T>] = &[
            $($crate::exposition::Family {
                name: stringify!($name),
                metric: $crate::exposition::Metric {
                    kind: stringify!($kind),
                    name: $crate::families!(@name $($metric)?),
                },
                labels: &[$($(stringify!($label)),*)?],
                help: $help,
                samples: $samples,
            },)*
        ];
    )*};
}

/// Labels with what they say.
pub type Labels<'t> = Vec<(&'t str, &'t str)>;

/// Where a family puts its samples.
pub struct Samples<'t> {
    text: &'t mut Text,
    name: &'t str,
    labels: &'static [&'static str],
}

impl Samples<'_> {
    /// The value of a metric without labels.
    pub fn one(&mut self, value: impl Display) {
        self.of(&[], value);
    }

    /// Values of a metric with one label, each with what that says.
    pub fn by<'l, V: Display>(&mut self, values: impl IntoIterator<Item = (&'l str, V)>) {
        for (label, value) in values {
            self.of(&[label], value);
        }
    }

    /// A value; the labels say this.
    pub fn of(&mut self, labels: &[&str], value: impl Display) {
        let names = self.labels.iter().copied();
        let labels: Vec<_> = names.zip(labels.iter().copied()).collect();
        self.text.sample(self.name, &labels, value);
    }
}

/// Times that are shown, in statistics and as a histogram.
pub struct ShownAges {
    /// Their name in statistics.
    pub name: &'static str,
    /// What they are, for people.
    pub help: &'static str,
}

impl ShownAges {
    /// What statistics show of them.
    pub fn rows(&self, ages: &Ages) -> Vec<(String, u64)> {
        let name = self.name;
        let within = ages
            .within()
            .map(|(bound, count)| (format!("{name}_within_us:{bound}"), count));
        let sums = [
            (name.to_owned(), ages.count()),
            (format!("{name}_us_sum"), ages.sum_us()),
            (format!("{name}_us_max"), ages.max_us()),
        ];
        sums.into_iter().chain(within).collect()
    }

    /// The row of docs/statistics.md.
    pub fn row(&self, prefix: &str) -> String {
        let ShownAges { name, help } = self;
        format!(
            "| `{name}`, `{name}_us_sum`, `{name}_us_max`, `{name}_within_us:BOUND` | `{prefix}{name}_seconds` | {help} \
             How many, their sum, the longest, and how many were at most this long. |\n"
        )
    }
}

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

    /// The metrics of numbers that are declared with one. `of` is whose numbers, each with its labels.
    pub fn shown<'t, T: 't>(
        &mut self,
        prefix: &str,
        list: &[Shown<T>],
        of: impl IntoIterator<Item = (Labels<'t>, &'t T)> + Clone,
    ) {
        for shown in list {
            let Some(metric) = &shown.metric else {
                continue;
            };
            let name = metric.full_name(prefix, shown.name);
            self.kind(&name, metric.kind, shown.help);
            for (labels, it) in of.clone() {
                self.sample(&name, &labels, (shown.value)(it));
            }
        }
    }

    /// Families of metrics.
    pub fn families<T>(&mut self, prefix: &str, list: &[Family<T>], of: &T) {
        for family in list {
            let name = family.metric.full_name(prefix, family.name);
            self.kind(&name, family.metric.kind, family.help);
            let mut samples = Samples {
                text: self,
                name: &name,
                labels: family.labels,
            };
            (family.samples)(of, &mut samples);
        }
    }

    /// A histogram.
    pub fn ages(&mut self, prefix: &str, shown: &ShownAges, ages: &Ages) {
        let name = format!("{prefix}{}_seconds", shown.name);
        self.kind(&name, "histogram", shown.help);
        let bucket = format!("{name}_bucket");
        for (bound, count) in ages.within() {
            self.sample(&bucket, &[("le", &seconds(bound))], count);
        }
        self.sample(&bucket, &[("le", "+Inf")], ages.count());
        self.sample(&format!("{name}_sum"), &[], seconds(ages.sum_us()));
        self.sample(&format!("{name}_count"), &[], ages.count());
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
