//! How parameters are written: `zipf(0.99)`, `hotspot(0.9, keys=0.05)`, `100M`, `90s`.
//!
//! A *term* is a name or a number, or a name with arguments in parentheses. Arguments go by position
//! or by name, and may be terms themselves. Every description of a workload is made of terms, so that
//! command lines, TOML and JSON say the same thing in the same words.

use crate::{WorkloadError, refuse};
use core::fmt::{self, Write as _};
use core::str::FromStr;

/// A term taken apart. What is asked of it is remembered, so that a word too many is an error.
pub(crate) struct Term<'a> {
    text: &'a str,
    name: &'a str,
    arguments: Vec<(Option<&'a str>, &'a str)>,
    taken: Vec<bool>,
}

impl<'a> Term<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, WorkloadError> {
        let text = text.trim();
        let (name, inside) = match text.split_once('(') {
            None => (text, None),
            Some((name, rest)) => match rest.strip_suffix(')') {
                Some(inside) => (name.trim_end(), Some(inside)),
                None => return refuse(format!("'{text}' has no ')' at its end")),
            },
        };
        let mut arguments = Vec::new();
        if let Some(inside) = inside.filter(|inside| !inside.trim().is_empty()) {
            for argument in split(inside, |c| c == ',')? {
                let argument = argument.trim();
                if argument.is_empty() {
                    return refuse(format!("'{text}' has an empty argument"));
                }
                arguments.push(match argument.split_once('=') {
                    // An equals sign within parentheses belongs to an inner term.
                    Some((name, value)) if !name.contains('(') => (Some(name.trim()), value.trim()),
                    _ => (None, argument),
                });
            }
        }
        Ok(Term {
            text,
            name,
            taken: vec![false; arguments.len()],
            arguments,
        })
    }

    pub(crate) fn name(&self) -> &'a str {
        self.name
    }

    pub(crate) fn has_arguments(&self) -> bool {
        !self.arguments.is_empty()
    }

    /// The argument of this name, or else at this position among those without names.
    pub(crate) fn optional(&mut self, position: usize, name: &str) -> Option<&'a str> {
        let named = |(index, _): &(usize, _)| self.arguments[*index].0 == Some(name);
        let by_name = self.arguments.iter().enumerate().find(named);
        let (index, &(_, value)) = by_name.or_else(|| {
            let mut plain = self.arguments.iter().enumerate();
            plain.nth(position).filter(|(_, (name, _))| name.is_none())
        })?;
        self.taken[index] = true;
        Some(value)
    }

    /// As [`Term::optional`], read; `default` where it is absent.
    pub(crate) fn or<T>(
        &mut self,
        position: usize,
        name: &str,
        default: T,
        read: impl FnOnce(&str) -> Result<T, WorkloadError>,
    ) -> Result<T, WorkloadError> {
        match self.optional(position, name) {
            Some(text) => read(text).map_err(|error| self.within(name, error)),
            None => Ok(default),
        }
    }

    /// As [`Term::optional`], read; refused where it is absent.
    pub(crate) fn required<T>(
        &mut self,
        position: usize,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, WorkloadError>,
    ) -> Result<T, WorkloadError> {
        match self.optional(position, name) {
            Some(text) => read(text).map_err(|error| self.within(name, error)),
            None => refuse(format!("'{}' lacks its {name}", self.text)),
        }
    }

    /// All arguments of the form `name=value`.
    pub(crate) fn pairs(&mut self) -> Result<Vec<(&'a str, &'a str)>, WorkloadError> {
        self.taken.fill(true);
        self.arguments
            .iter()
            .map(|&(name, value)| match name {
                Some(name) => Ok((name, value)),
                None => refuse(format!("'{value}' in '{}' is not NAME=SHARE", self.text)),
            })
            .collect()
    }

    /// Refuses arguments that nobody asked for.
    pub(crate) fn finish(self) -> Result<(), WorkloadError> {
        match self.taken.iter().position(|taken| !taken) {
            None => Ok(()),
            Some(index) => {
                let (name, value) = self.arguments[index];
                let shown = name.map_or(value.to_owned(), |name| format!("{name}={value}"));
                refuse(format!("'{}' takes no '{shown}'", self.text))
            }
        }
    }

    /// Refuses a name that is not among `forms`.
    pub(crate) fn unknown<T>(&self, what: &str, forms: &str) -> Result<T, WorkloadError> {
        refuse(format!("'{}' is not {what}: {forms}", self.text))
    }

    fn within(&self, name: &str, error: WorkloadError) -> WorkloadError {
        WorkloadError(format!("{name} of '{}': {error}", self.text))
    }
}

/// Splits at separators outside parentheses.
pub(crate) fn split(
    text: &str,
    separates: impl Fn(char) -> bool,
) -> Result<Vec<&str>, WorkloadError> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return refuse(format!("'{text}' has a ')' too many")),
            ')' => depth -= 1,
            c if depth == 0 && separates(c) => {
                parts.push(&text[start..at]);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    if depth > 0 {
        return refuse(format!("'{text}' lacks a ')'"));
    }
    parts.push(&text[start..]);
    Ok(parts)
}

/// A finite number.
pub(crate) fn number(text: &str) -> Result<f64, WorkloadError> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => refuse(format!("'{text}' is not a number")),
    }
}

/// A number from 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, WorkloadError> {
    match number(text)? {
        share if (0.0..=1.0).contains(&share) => Ok(share),
        _ => refuse(format!("{text} is not within 0 and 1")),
    }
}

/// Multiples that a count may be written in.
const COUNT_UNITS: [(&str, f64); 3] = [("k", 1e3), ("M", 1e6), ("G", 1e9)];

/// A number of at least 0, such as `200000`, `200_000`, `200k`, `1.5M` or `1G`.
pub(crate) fn amount(text: &str) -> Result<f64, WorkloadError> {
    let plain = text.replace('_', "");
    let (digits, factor) = COUNT_UNITS
        .iter()
        .find_map(|(unit, factor)| Some((plain.strip_suffix(unit)?, *factor)))
        .unwrap_or((&plain, 1.0));
    match digits.parse::<f64>() {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number * factor),
        _ => refuse(format!(
            "'{text}' is not an amount such as 200000, 200k or 1.5M"
        )),
    }
}

/// A whole number of at least 0, written as an [`amount`]; exact up to 2⁵³.
pub(crate) fn count(text: &str) -> Result<u64, WorkloadError> {
    if let Ok(count) = text.parse::<u64>() {
        return Ok(count);
    }
    match amount(text)? {
        number if number.fract() == 0.0 && number <= 2f64.powi(53) => Ok(number as u64),
        _ => refuse(format!("'{text}' is not a whole number")),
    }
}

const NS_PER_S: f64 = 1e9;

/// Units of time in nanoseconds, longest first, so that each is written in the largest that fits.
const TIME_UNITS: [(&str, f64); 7] = [
    ("d", 86_400.0 * NS_PER_S),
    ("h", 3600.0 * NS_PER_S),
    ("min", 60.0 * NS_PER_S),
    ("s", NS_PER_S),
    ("ms", 1e6),
    ("us", 1e3),
    ("ns", 1.0),
];

/// Longest time that can be written, in nanoseconds: a century, far below what 64 bits hold.
const TIME_NS_MAX: f64 = 36_525.0 * 86_400.0 * NS_PER_S;

/// A length of time with its unit (`d`, `h`, `min`, `s`, `ms`, `us`, `ns`), in nanoseconds.
pub(crate) fn time_ns(text: &str) -> Result<u64, WorkloadError> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic());
    let (digits, unit) = text.split_at(unit_at.unwrap_or(text.len()));
    let factor = TIME_UNITS
        .iter()
        .find_map(|&(name, factor)| (name == unit).then_some(factor));
    match (digits.parse::<f64>(), factor) {
        (Ok(_), None) if unit.is_empty() => {
            refuse(format!("'{text}' lacks its unit, as in {text}s"))
        }
        (Ok(number), Some(factor)) if number >= 0.0 && number * factor <= TIME_NS_MAX => {
            Ok((number * factor).round() as u64)
        }
        _ => refuse(format!(
            "'{text}' is not a length of time such as 90s, 1.5h or 250ms"
        )),
    }
}

/// Writes a length of time so that [`time_ns`] reads it.
pub(crate) fn show_ns(ns: u64) -> String {
    let (name, factor) = TIME_UNITS
        .iter()
        .find(|(_, factor)| ns >= *factor as u64 && ns.is_multiple_of(*factor as u64))
        .unwrap_or(&("s", NS_PER_S));
    format!("{}{name}", ns / *factor as u64)
}

/// A value's name and its text, as [`list`] joins them.
pub(crate) fn pairs_text<T: fmt::Display>(pairs: &[(T, f64)]) -> String {
    let mut text = String::new();
    for (index, (name, share)) in pairs.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{name}={share}");
    }
    text
}

/// Reads a value by its own rules.
pub(crate) fn parsed<T: FromStr<Err = WorkloadError>>(text: &str) -> Result<T, WorkloadError> {
    text.parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_taken_apart() {
        let mut term = Term::parse("flash(10s, share = 0.5, inner(a=1, 2))").unwrap();
        assert_eq!(term.name(), "flash");
        assert_eq!(term.optional(0, "start"), Some("10s"));
        assert_eq!(term.optional(9, "share"), Some("0.5"));
        assert_eq!(term.optional(9, "absent"), None);
        assert_eq!(term.optional(2, "other"), Some("inner(a=1, 2)"));
        term.finish().unwrap();
        assert_eq!(Term::parse("uniform").unwrap().name(), "uniform");
        assert!(!Term::parse("uniform()").unwrap().has_arguments());
    }

    #[test]
    fn what_is_wrong_with_a_term_is_told() {
        let message = |text: &str| -> String {
            let read = || {
                let mut term = Term::parse(text)?;
                term.required(0, "exponent", number)?;
                term.finish()
            };
            read().unwrap_err().to_string()
        };
        for (text, expected) in [
            ("zipf", "'zipf' lacks its exponent"),
            ("zipf(x)", "exponent of 'zipf(x)': 'x' is not a number"),
            ("zipf(1, 2)", "'zipf(1, 2)' takes no '2'"),
            ("zipf(1, n=2)", "'zipf(1, n=2)' takes no 'n=2'"),
            ("zipf(1", "'zipf(1' has no ')' at its end"),
            ("zipf(1,)", "'zipf(1,)' has an empty argument"),
            ("zipf((1)", "'(1' lacks a ')'"),
            ("zipf(1))", "'1)' has a ')' too many"),
        ] {
            assert_eq!(message(text), expected, "{text}");
        }
    }

    #[test]
    fn amounts_and_times_are_read() {
        assert_eq!(count("200_000").unwrap(), 200_000);
        assert_eq!(count("1.5M").unwrap(), 1_500_000);
        assert_eq!(count("1G").unwrap(), 1_000_000_000);
        assert_eq!(count("18446744073709551615").unwrap(), u64::MAX);
        assert_eq!(amount("2.5k").unwrap(), 2500.0);
        for text in ["", "k", "-1", "1.5", "1e400", "NaN", "1T", "0.0001k"] {
            assert!(count(text).is_err(), "{text}");
        }
        for (text, ns) in [
            ("90s", 90_000_000_000),
            ("1.5min", 90_000_000_000),
            ("250ms", 250_000_000),
            ("2d", 172_800_000_000_000),
            ("0s", 0),
        ] {
            assert_eq!(time_ns(text).unwrap(), ns);
            assert_eq!(time_ns(&show_ns(ns)).unwrap(), ns);
        }
        assert_eq!(show_ns(90_000_000_000), "90s");
        assert_eq!(
            time_ns("5").unwrap_err().to_string(),
            "'5' lacks its unit, as in 5s"
        );
        for text in ["", "s", "5x", "-1s", "1e30d", "NaNs"] {
            assert!(time_ns(text).is_err(), "{text}");
        }
        assert!(share("1.1").is_err() && share("NaN").is_err() && share("0.5").is_ok());
    }
}
