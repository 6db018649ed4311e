//! Reads values out of a parsed TOML file and notes everything that is wrong with them, instead of
//! giving up at the first.

use super::diagnostic::{Problem, did_you_mean};
use std::ops::Range;
use std::path::PathBuf;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and where it stands.
#[derive(Clone, Debug)]
pub struct At<T> {
    pub value: T,
    pub span: Range<usize>,
}

/// A table whose keys are known.
#[derive(Clone, Debug)]
pub struct Section<'a> {
    table: &'a DeTable<'a>,
    /// Its header, or the whole of an inline table.
    pub span: Range<usize>,
}

impl Section<'_> {
    /// Whether a key stands in it.
    pub fn has(&self, key: &str) -> bool {
        self.table.iter().any(|(name, _)| name.get_ref() == key)
    }

    /// The text of a key, whether or not it can be used.
    pub fn text_of(&self, key: &str) -> Option<&str> {
        let mut entries = self.table.iter();
        let (_, value) = entries.find(|(name, _)| name.get_ref() == key)?;
        value.get_ref().as_str()
    }

    /// Where a key stands; where the section begins if it does not.
    pub fn place_of(&self, key: &str) -> Range<usize> {
        let mut entries = self.table.iter();
        let entry = entries.find(|(name, _)| name.get_ref() == key);
        entry.map_or(self.span.clone(), |(_, value)| value.span())
    }
}

/// Most problems of a text that are noted: nobody reads more, and a text of a megabyte can have a
/// hundred thousand, each with a list of what is allowed.
pub const PROBLEMS_MAX: usize = 100;

/// Collects problems.
#[derive(Debug)]
pub struct Reader {
    /// Relative paths begin here.
    folder: PathBuf,
    /// At most [`PROBLEMS_MAX`].
    pub problems: Vec<Problem>,
    /// How many there are besides.
    pub unsaid: usize,
}

impl Reader {
    pub fn new(folder: PathBuf) -> Self {
        Reader {
            folder,
            problems: Vec::new(),
            unsaid: 0,
        }
    }

    /// The problems in the order of the text, and how many more there are.
    pub fn sorted(mut self) -> (Vec<Problem>, usize) {
        self.problems.sort_by_key(|problem| problem.span.start);
        (self.problems, self.unsaid)
    }

    pub fn fail(&mut self, span: Range<usize>, what: impl Into<String>) {
        if self.problems.len() == PROBLEMS_MAX {
            self.unsaid += 1;
            return;
        }
        let what = what.into();
        self.problems.push(Problem { span, what });
    }

    /// A table of which only these keys are known; `name` is what it is called in messages.
    pub fn section<'a>(
        &mut self,
        name: &str,
        value: &'a Spanned<DeValue<'a>>,
        known: &[&str],
    ) -> Option<Section<'a>> {
        let Some(table) = value.get_ref().as_table() else {
            let kind = value.get_ref().type_str();
            self.fail(value.span(), format!("{name} is a table, not a {kind}"));
            return None;
        };
        self.keys(name, table, known);
        Some(Section {
            table,
            span: value.span(),
        })
    }

    /// Notes the keys that are not known.
    pub fn keys(&mut self, name: &str, table: &DeTable<'_>, known: &[&str]) {
        for (key, _) in table {
            let given = &**key.get_ref();
            if !known.contains(&given) {
                let suggestion = did_you_mean(given, known.iter().copied());
                let known = known.join(", ");
                self.fail(
                    key.span(),
                    format!("{name} has no key \"{given}\"{suggestion} (it has {known})"),
                );
            }
        }
    }

    fn get<'a>(section: &Section<'a>, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        let mut entries = section.table.iter();
        let entry = entries.find(|(name, _)| name.get_ref() == key)?;
        Some(entry.1)
    }

    fn wrong_kind(&mut self, key: &str, wanted: &str, value: &Spanned<DeValue<'_>>) {
        let kind = value.get_ref().type_str();
        self.fail(value.span(), format!("{key} is {wanted}, not a {kind}"));
    }

    /// A text.
    pub fn text(&mut self, section: &Section<'_>, key: &str) -> Option<At<String>> {
        let value = Self::get(section, key)?;
        match value.get_ref().as_str() {
            Some(text) => Some(At {
                value: text.to_owned(),
                span: value.span(),
            }),
            None => {
                self.wrong_kind(key, "a text in quotes", value);
                None
            }
        }
    }

    /// The path of another file.
    pub fn path(&mut self, section: &Section<'_>, key: &str) -> Option<At<PathBuf>> {
        let At { value, span } = self.text(section, key)?;
        if value.is_empty() {
            self.fail(span, format!("{key}: give the path of a file"));
            return None;
        }
        Some(At {
            value: self.folder.join(value),
            span,
        })
    }

    /// A text that means something.
    pub fn parsed<T, E: std::fmt::Display>(
        &mut self,
        section: &Section<'_>,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<At<T>> {
        let text = self.text(section, key)?;
        match parse(&text.value) {
            Ok(value) => Some(At {
                value,
                span: text.span,
            }),
            Err(error) => {
                self.fail(text.span, format!("{key}: {error}"));
                None
            }
        }
    }

    /// One text, or several in brackets.
    pub fn texts(&mut self, section: &Section<'_>, key: &str) -> Option<Vec<At<String>>> {
        let value = Self::get(section, key)?;
        if let Some(text) = value.get_ref().as_str() {
            return Some(vec![At {
                value: text.to_owned(),
                span: value.span(),
            }]);
        }
        let Some(array) = value.get_ref().as_array() else {
            self.wrong_kind(key, "a text in quotes or a list of them", value);
            return None;
        };
        let mut texts = Vec::new();
        for entry in array {
            match entry.get_ref().as_str() {
                Some(text) => texts.push(At {
                    value: text.to_owned(),
                    span: entry.span(),
                }),
                None => self.wrong_kind(key, "a list of texts in quotes", entry),
            }
        }
        Some(texts)
    }

    /// What stands in the brackets of a list.
    pub fn list<'a>(
        &mut self,
        section: &Section<'a>,
        key: &str,
    ) -> Option<Vec<&'a Spanned<DeValue<'a>>>> {
        let value = Self::get(section, key)?;
        match value.get_ref().as_array() {
            Some(array) => Some(array.iter().collect()),
            None => {
                self.wrong_kind(key, "a list in brackets", value);
                None
            }
        }
    }

    /// `true` or `false`; false where it does not stand.
    pub fn flag(&mut self, section: &Section<'_>, key: &str) -> bool {
        self.flag_or(section, key, false)
    }

    /// `true` or `false`; the default where it does not stand.
    pub fn flag_or(&mut self, section: &Section<'_>, key: &str, default: bool) -> bool {
        let Some(value) = Self::get(section, key) else {
            return default;
        };
        value.get_ref().as_bool().unwrap_or_else(|| {
            self.wrong_kind(key, "true or false", value);
            default
        })
    }

    /// A whole number within bounds.
    pub fn number(
        &mut self,
        section: &Section<'_>,
        key: &str,
        bounds: std::ops::RangeInclusive<u64>,
    ) -> Option<At<u64>> {
        let value = Self::get(section, key)?;
        let Some(integer) = value.get_ref().as_integer() else {
            self.wrong_kind(key, "a whole number", value);
            return None;
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        match number.filter(|number| bounds.contains(number)) {
            Some(number) => Some(At {
                value: number,
                span: value.span(),
            }),
            None => {
                let (least, most) = (bounds.start(), bounds.end());
                self.fail(value.span(), format!("{key} is {least} to {most}"));
                None
            }
        }
    }

    /// A part, of 0 at least and 1 at most.
    pub fn fraction(
        &mut self,
        section: &Section<'_>,
        key: &str,
        bounds: std::ops::RangeInclusive<f64>,
    ) -> Option<f64> {
        let value = Self::get(section, key)?;
        let read = value.get_ref();
        let text = read.as_float().map(|float| float.as_str().to_owned());
        let text = text.or_else(|| read.as_integer().map(|integer| integer.as_str().to_owned()));
        let number = text.and_then(|text| text.parse::<f64>().ok());
        let number = number.filter(|number| bounds.contains(number));
        if number.is_none() {
            let (least, most) = (bounds.start(), bounds.end());
            let what = format!("{key} is a fraction, {least} to {most}");
            self.fail(value.span(), what);
        }
        number
    }

    /// Seconds as a whole number, or a text with a unit.
    pub fn seconds(&mut self, section: &Section<'_>, key: &str, most: u32) -> Option<At<u32>> {
        let value = Self::get(section, key)?;
        let read = match value.get_ref() {
            DeValue::Integer(integer) => {
                u64::from_str_radix(integer.as_str(), integer.radix()).ok()
            }
            DeValue::String(text) => parse_seconds(text),
            _ => None,
        };
        let read = read.and_then(|seconds| u32::try_from(seconds).ok());
        match read.filter(|seconds| (1..=most).contains(seconds)) {
            Some(seconds) => Some(At {
                value: seconds,
                span: value.span(),
            }),
            None => {
                self.fail(
                    value.span(),
                    format!(
                        "{key} is a time of 1 to {most} seconds: a number of them, or a number with \
                         suffix s, m, h or d in quotes"
                    ),
                );
                None
            }
        }
    }
}

/// Reads a whole number with suffix `s`, `m`, `h` or `d`.
fn parse_seconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.len().checked_sub(1)?);
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}
