//! Measured distributions from files: LinkBench's `Distribution.dat` and tables of counts.
//!
//! Two formats, told apart by their first line, plain or compressed:
//!
//! * sections, each opened by a line with its name, then lines `value cumulative_percent`
//!   (Armstrong et al., "LinkBench", SIGMOD 2013);
//! * tab-separated with the header `histogram value count`, the first column naming the section
//!   (BenchBase's Wikipedia benchmark; Difallah et al., PVLDB 7(4), 2013).

use crate::input::{self, LINE_LEN_MAX};
use crate::{WorkloadError, refuse};
use std::io::{BufRead, Read};
use std::path::Path;

/// Most values of a section. The largest published one has some ten thousand.
pub const HISTOGRAM_VALUES_MAX: usize = 1 << 20;

/// First line of a table of counts.
const COUNTS_HEADER: &str = "histogram\tvalue\tcount";

/// The values of a section with their weights, in the order of the file.
///
/// # Errors
/// When the file cannot be read, a line of the section is malformed, or the section is not there.
pub fn read(path: &Path, section: &str) -> Result<Vec<(u32, f64)>, WorkloadError> {
    let shown = path.display();
    let open = |error: std::io::Error| WorkloadError(format!("{shown}: {error}"));
    let mut input = input::open(path).map_err(open)?;
    let mut values = Vec::new();
    let mut sections: Vec<String> = Vec::new();
    let (mut counts, mut inside, mut before) = (false, false, 0.0);
    let mut line = String::new();
    for number in 1u64.. {
        line.clear();
        let mut limited = (&mut input).take(LINE_LEN_MAX as u64);
        if limited.read_line(&mut line).map_err(open)? == 0 {
            break;
        }
        let text = line.trim_end();
        let bad = || {
            WorkloadError(format!(
                "{shown}, line {number}: not a value and its weight"
            ))
        };
        if number == 1 && text == COUNTS_HEADER {
            counts = true;
            continue;
        }
        let fields: Vec<&str> = text.split([' ', '\t']).collect();
        let (value, weight) = match (counts, &fields[..]) {
            (true, [name, value, count]) => {
                inside = *name == section;
                remember(&mut sections, name);
                (value, count)
            }
            (false, [name]) => {
                inside = *name == section;
                before = 0.0;
                remember(&mut sections, name);
                continue;
            }
            (false, [value, percent]) => (value, percent),
            _ => return Err(bad()),
        };
        if !inside {
            continue;
        }
        let value: u32 = value.parse().map_err(|_| bad())?;
        let mut weight: f64 = weight.parse().map_err(|_| bad())?;
        if !counts {
            (before, weight) = (weight, weight - before);
        }
        if !(weight.is_finite() && weight >= 0.0) {
            return Err(bad());
        }
        if values.len() == HISTOGRAM_VALUES_MAX {
            return refuse(format!(
                "{shown}: section '{section}' has more than {HISTOGRAM_VALUES_MAX} values"
            ));
        }
        values.push((value, weight));
    }
    if values.is_empty() {
        return refuse(format!(
            "{shown} has no section '{section}': {}",
            sections.join(", ")
        ));
    }
    Ok(values)
}

/// Sections named in an error message.
const SECTIONS_SHOWN: usize = 20;

fn remember(sections: &mut Vec<String>, name: &str) {
    if sections.len() < SECTIONS_SHOWN && sections.last().is_none_or(|last| last != name) {
        sections.push(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        file
    }

    #[test]
    fn sections_of_cumulative_percents_become_weights() {
        let file = file("a\n0 25\n1 75\n3 100\nb\n7 100\n");
        assert_eq!(
            read(file.path(), "a").unwrap(),
            [(0, 25.0), (1, 50.0), (3, 25.0)]
        );
        assert_eq!(read(file.path(), "b").unwrap(), [(7, 100.0)]);
        let message = read(file.path(), "c").unwrap_err().to_string();
        assert!(message.ends_with("has no section 'c': a, b"), "{message}");
    }

    #[test]
    fn tables_of_counts_are_read_by_name() {
        let file = file("histogram\tvalue\tcount\nx\t1\t5\nx\t2\t6\ny\t-3\t7\n");
        assert_eq!(read(file.path(), "x").unwrap(), [(1, 5.0), (2, 6.0)]);
        let message = read(file.path(), "y").unwrap_err().to_string();
        assert!(message.contains("line 4: not a value"), "{message}");
    }

    #[test]
    fn damage_is_told_with_its_line() {
        for content in ["a\n1 2 3\n", "a\nx 1\n", "a\n1 50\n2 40\n", "a\n1 NaN\n"] {
            let file = file(content);
            let message = read(file.path(), "a").unwrap_err().to_string();
            assert!(message.contains(", line "), "{message}");
        }
    }
}
