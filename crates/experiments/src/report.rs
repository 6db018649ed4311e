//! What an experiment has found: tables beside the paper's claims, curves, and how it was measured.

use evenkeel_bench::plot::Plot;
use evenkeel_bench::table::framed;
use serde::Serialize;
use std::fmt::Write;

/// Version of the JSON form; a reader that knows another one should refuse it.
pub const FORMAT_VERSION: u32 = 1;

/// The outcome of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this form.
    pub format: u32,
    /// Name of the experiment.
    pub experiment: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Where it comes from: paper and figure.
    pub source: &'static str,
    /// `real` or `sim`.
    pub mode: String,
    /// `small`, `paper` or `beyond`.
    pub scale: String,
    /// Seed of everything random in it.
    pub seed: u64,
    /// What was set, in words: numbers with their units.
    pub settings: Vec<(&'static str, String)>,
    /// What the paper claims, beside what was found.
    pub claims: Vec<Claim>,
    /// Figures.
    pub tables: Vec<Table>,
    /// Curves.
    pub plots: Vec<Plot>,
    /// What a reader must know to judge the figures.
    pub notes: Vec<String>,
}

/// A claim of the paper and what became of it here.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// What is claimed.
    pub what: String,
    /// The paper's figure.
    pub paper: String,
    /// Ours.
    pub ours: String,
    /// Whether it holds here, where that can be said.
    pub holds: Option<bool>,
}

/// A table. The first column names the row.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Its title.
    pub title: String,
    /// Names of the columns, with units.
    pub columns: Vec<String>,
    /// Rows, each as long as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows yet. Bars stand between the names of its columns.
    pub fn new(title: &str, columns: &str) -> Table {
        Table {
            title: title.to_owned(),
            columns: columns.split('|').map(str::to_owned).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn to_terminal(&self) -> comfy_table::Table {
        framed(&self.columns.join("|"), self.rows.clone(), 1..usize::MAX)
    }
}

impl Claim {
    /// A claim with our figure beside it.
    pub fn new(what: &str, paper: &str, ours: String, holds: Option<bool>) -> Claim {
        Claim {
            what: what.to_owned(),
            paper: paper.to_owned(),
            ours,
            holds,
        }
    }

    fn verdict(&self) -> &'static str {
        match self.holds {
            Some(true) => "holds",
            Some(false) => "does not hold",
            None => "",
        }
    }
}

impl Report {
    /// Adds what a reader must know.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// For a terminal.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}: {} ({})\n", self.experiment, self.title, self.source);
        let _ = writeln!(
            text,
            "{}, scale {}, seed {}: {}",
            self.mode,
            self.scale,
            self.seed,
            self.settings_text()
        );
        for table in &self.tables {
            let _ = write!(text, "\n{}\n{}\n", table.title, table.to_terminal());
        }
        if !self.claims.is_empty() {
            let mut table = Table::new("", "claim|paper|here|");
            for claim in &self.claims {
                table.row([
                    claim.what.clone(),
                    claim.paper.clone(),
                    claim.ours.clone(),
                    claim.verdict().to_owned(),
                ]);
            }
            let _ = write!(text, "\n{}\n", table.to_terminal());
        }
        for note in &self.notes {
            let _ = writeln!(text, "* {note}");
        }
        text
    }

    fn settings_text(&self) -> String {
        let settings: Vec<_> = self
            .settings
            .iter()
            .map(|(what, value)| format!("{what} {value}"))
            .collect();
        settings.join("; ")
    }

    /// For programs; units are in the names.
    ///
    /// # Errors
    /// Never in practice; serialising has an error type.
    pub fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// For the documentation: command, tables and claims in Markdown, plots by the names of their files.
    pub fn to_markdown(&self) -> String {
        let mut text = format!(
            "`evenkeel experiment run {} --mode {} --scale {} --seed {}`: {}.\n\n",
            self.experiment,
            self.mode,
            self.scale,
            self.seed,
            self.settings_text()
        );
        if !self.claims.is_empty() {
            text += "| claim | paper | here | |\n|---|---:|---:|---|\n";
            for claim in &self.claims {
                let verdict = claim.verdict();
                let _ = writeln!(
                    text,
                    "| {} | {} | {} | {verdict} |",
                    claim.what, claim.paper, claim.ours
                );
            }
            text += "\n";
        }
        for table in &self.tables {
            let _ = writeln!(
                text,
                "{}:\n\n| {} |",
                table.title,
                table.columns.join(" | ")
            );
            let ruler = "|---|".to_owned() + &"---:|".repeat(table.columns.len() - 1);
            let _ = writeln!(text, "{ruler}");
            for row in &table.rows {
                let _ = writeln!(text, "| {} |", row.join(" | "));
            }
            text += "\n";
        }
        for plot in &self.plots {
            let _ = writeln!(text, "![{}]({}.svg)\n", plot.title, plot.name);
        }
        for note in &self.notes {
            let _ = writeln!(text, "* {note}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut table = Table::new("Loads", "server|requests/s");
        table.row(["0".into(), "100".into()]);
        Report {
            format: FORMAT_VERSION,
            experiment: "x",
            title: "Of nothing",
            source: "Nobody, Figure 0",
            mode: "sim".into(),
            scale: "small".into(),
            seed: 7,
            settings: vec![("servers", "1".into())],
            claims: vec![Claim::new("it is even", "1.0", "1.2".into(), Some(false))],
            tables: vec![table],
            plots: Vec::new(),
            notes: vec!["Made up.".into()],
        }
    }

    #[test]
    fn each_form_tells_everything() {
        let report = report();
        for text in [report.to_text(), report.to_markdown()] {
            for part in [
                "Loads",
                "requests/s",
                "100",
                "it is even",
                "1.2",
                "does not hold",
                "Made up.",
            ] {
                assert!(text.contains(part), "{part} in {text}");
            }
        }
        let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        assert_eq!(json["claims"][0]["holds"], false);
        assert_eq!(json["format"], 1);
    }
}
