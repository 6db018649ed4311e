//! What is wrong in a configuration file, and where, as a compiler says it.

use serde_json::{Value, json};
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;

/// How alike two names must be (Jaro-Winkler, 0 to 1) for one to be taken for a slip of the other.
const LIKENESS_MIN: f64 = 0.85;

/// Something that is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The bytes at fault.
    pub span: Range<usize>,
    /// What is wrong, and what is allowed.
    pub what: String,
}

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The file's name as it was given.
    pub file: String,
    /// What stands in it; empty if it could not be read.
    pub text: String,
    /// What is wrong, in the order of the file. At least one.
    pub problems: Vec<Problem>,
    /// How many more there are.
    pub unsaid: usize,
}

impl Rejection {
    /// The file cannot be read at all.
    pub fn unreadable(path: &Path, what: String) -> Self {
        Rejection {
            file: path.display().to_string(),
            text: String::new(),
            problems: vec![Problem { span: 0..0, what }],
            unsaid: 0,
        }
    }

    /// How many problems there are.
    pub fn count(&self) -> usize {
        self.problems.len() + self.unsaid
    }

    /// Line and column of a place, from 1; columns are characters.
    pub fn position(&self, at: usize) -> (usize, usize) {
        let before = &self.text[..at.min(self.text.len())];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = 1 + before.matches('\n').count();
        (line, 1 + before[start..].chars().count())
    }

    /// `FILE:LINE:COLUMN: what`, without a place if there is no text.
    fn headline(&self, problem: &Problem) -> String {
        if self.text.is_empty() {
            return format!("{}: {}", self.file, problem.what);
        }
        let (line, column) = self.position(problem.span.start);
        format!("{}:{line}:{column}: {}", self.file, problem.what)
    }

    /// The first problem in one line.
    pub fn line(&self) -> String {
        let first = self.problems.first().map(|problem| self.headline(problem));
        let mut line = first.unwrap_or_default();
        if let more @ 1.. = self.count().saturating_sub(1) {
            // Writing into memory cannot fail.
            let _ = write!(
                line,
                " (and {more} more; `evenkeel proxy check {}`)",
                self.file
            );
        }
        line
    }

    /// All problems, each with the line it stands in and a mark below what is meant.
    pub fn report(&self) -> String {
        let mut report = String::new();
        for problem in &self.problems {
            // Writing into memory cannot fail.
            let _ = writeln!(report, "{}", self.headline(problem));
            let (line, column) = self.position(problem.span.start);
            let Some(text) = self.text.lines().nth(line - 1) else {
                continue;
            };
            let number = line.to_string();
            let margin = " ".repeat(number.len());
            let meant = self.text.get(problem.span.clone()).unwrap_or_default();
            let meant = meant.lines().next().unwrap_or_default().chars().count();
            let indent = " ".repeat(column - 1);
            let mark = "^".repeat(meant.max(1));
            let _ = writeln!(
                report,
                "{margin} |\n{number} | {text}\n{margin} | {indent}{mark}"
            );
        }
        if self.unsaid > 0 {
            let _ = writeln!(report, "{}: and {} more", self.file, self.unsaid);
        }
        report
    }

    /// For anyone who looks at the log: all that is wrong, with its lines.
    pub fn log_line(&self) -> String {
        format!("{}\n{}", self.line(), self.report().trim_end())
    }

    /// The problems for programs.
    pub fn json(&self) -> Value {
        let problems = self.problems.iter().map(|problem| {
            let (line, column) = self.position(problem.span.start);
            json!({ "line": line, "column": column, "message": problem.what })
        });
        let problems: Vec<Value> = problems.collect();
        json!({ "file": self.file, "ok": false, "problems": problems })
    }
}

/// The words `; did you mean "NAME"?` for the known name that is most like `given`, or none.
pub fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let likenesses = known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(given, name), name));
    likenesses
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(String::new, |(_, name)| {
            format!("; did you mean \"{name}\"?")
        })
}

/// What a text is that is no TOML, if it looks like another proxy's.
pub fn foreign(text: &str) -> Option<String> {
    let first = text.lines().map(str::trim).find(|line| {
        let is_comment = line.starts_with('#') || line.starts_with("//");
        !line.is_empty() && !is_comment && *line != "---"
    })?;
    let of = match first {
        first if first.starts_with('{') => "mcrouter's (JSON)",
        first if first.ends_with(':') && !first.contains(['=', '[']) => "twemproxy's (YAML)",
        _ => return None,
    };
    Some(format!(
        "this looks like a file of {of}; README, \"twemproxy or mcrouter in front\", shows what to write in its place"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_shown_below_its_line() {
        let rejection = Rejection {
            file: "p.toml".into(),
            text: "a = 1\n  é = \"xyz\"\n".into(),
            problems: vec![
                Problem {
                    span: 13..18,
                    what: "wrong".into(),
                },
                Problem {
                    span: 0..0,
                    what: "missing".into(),
                },
            ],
            unsaid: 0,
        };
        assert_eq!(
            rejection.report(),
            "p.toml:2:7: wrong\n  |\n2 |   é = \"xyz\"\n  |       ^^^^^\n\
             p.toml:1:1: missing\n  |\n1 | a = 1\n  | ^\n"
        );
        assert_eq!(
            rejection.line(),
            "p.toml:2:7: wrong (and 1 more; `evenkeel proxy check p.toml`)"
        );
        assert_eq!(
            rejection.json()["problems"][0],
            json!({ "line": 2, "column": 7, "message": "wrong" })
        );
    }

    #[test]
    fn files_of_other_proxies_are_recognized() {
        let twemproxy = "# ours\n---\nbeta:\n  listen: 127.0.0.1:22122\n";
        let told = foreign(twemproxy).expect("it is YAML");
        assert!(told.contains("twemproxy's (YAML)"), "{told}");
        let told = foreign("// pools\n{\"pools\": {}}\n").expect("it is JSON");
        assert!(told.contains("mcrouter's (JSON)"), "{told}");
        for ours in ["", "[proxy]\nthreads 2\n", "a = 1\n", "threads: 2\n"] {
            assert_eq!(foreign(ours), None, "{ours}");
        }
    }
}
