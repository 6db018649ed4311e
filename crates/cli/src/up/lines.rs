//! Where it is told what a load does, line by line.

use evenkeel_bench::OutputFormat;
use std::io::{self, Write};

/// Where progress is told: standard output, unless that is for a report that programs read.
pub struct Lines(Box<dyn Write>);

impl Lines {
    /// Beside a report in this format.
    pub fn beside(format: OutputFormat) -> Lines {
        Lines(match format {
            OutputFormat::Table => Box::new(io::stdout()),
            OutputFormat::Json => Box::new(io::stderr()),
        })
    }

    /// Says something in a line.
    ///
    /// # Errors
    /// When the output cannot be written to.
    pub fn say(&mut self, words: &str) -> io::Result<()> {
        let words: String = words.chars().filter(|c| !c.is_control()).collect();
        writeln!(self.0, "{words}")
    }
}
