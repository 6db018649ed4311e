//! The command line of `evenkeel experiment`.

use crate::simulated::Fidelity;
use std::fmt;
use std::path::PathBuf;

/// What to do with experiments.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum ExperimentCommand {
    /// Lists them: name, ways to run it, what it shows and where it comes from
    List,
    /// Runs one, or all, and prints tables beside the paper's claims
    Run(RunArgs),
}

/// Which experiment, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// Its name, as `evenkeel experiment list` shows it; `all` for all of them
    pub name: String,

    /// How large: small for minutes on two cores, the paper's own size, or beyond it [default: small; of overload as much of
    /// the paper's size as an hour is enough for]
    #[arg(long, value_enum)]
    pub scale: Option<Scale>,

    /// By real processes or in the simulator; with `real,sim` by each that it has [default: the first that it has]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub mode: Vec<Mode>,

    /// How much of simulated servers is simulated
    #[arg(long, value_enum, default_value_t)]
    pub fidelity: Fidelity,

    /// Numbers of workers, in the experiments that compare them [default: powers of two up to one for each core]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: Option<Vec<u16>>,

    /// Of `overload`, `adaptive-moves` and `locality-switch`, only the cells whose names contain one of these words, such as `killed`, and the capacities and cells that they
    /// are compared with
    #[arg(long, value_name = "WORDS,…", value_delimiter = ',')]
    pub cells: Vec<String>,

    /// Fixes everything random in it
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Folder of the public data sets (docs/experiments.md); what is absent is generated instead
    #[arg(long, value_name = "FOLDER")]
    pub data: Option<PathBuf>,

    /// Folder for NAME-MODE.json and the plots (SVG); none are written without it
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,

    /// Of overload, go on with a run that was cut off: what it has left in the folder of --out is not measured again
    #[arg(long, requires = "out")]
    pub resume: bool,

    /// What is printed
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// How large an experiment is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Scale {
    /// Shows that everything runs. Its figures say little.
    #[value(hide = true)]
    Quick,
    /// A minute or two on two cores.
    #[default]
    Small,
    /// The paper's own numbers.
    Paper,
    /// Far beyond them.
    Beyond,
}

/// What stands for the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Processes, sockets and clocks.
    Real,
    /// The same decisions in virtual time, or worked out.
    Sim,
}

/// What is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// Tables for a terminal.
    #[default]
    Table,
    /// For programs: one JSON document for each experiment.
    Json,
    /// For documents.
    Markdown,
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scale::Quick => "quick",
            Scale::Small => "small",
            Scale::Paper => "paper",
            Scale::Beyond => "beyond",
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Real => "real",
            Mode::Sim => "sim",
        })
    }
}
