//! `evenkeel experiment list` and `evenkeel experiment run`.

use crate::args::{ExperimentCommand, Mode, OutputFormat, RunArgs, Scale, SmallBy};
use crate::experiments::{ALL, Experiment};
use crate::report::{FORMAT_VERSION, Report};
use anyhow::Context;
use evenkeel_bench::BadUsage;
use evenkeel_bench::plot;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Exit codes, as for every command of Evenkeel.
const EXIT_FINE: u8 = 0;
const EXIT_FAILED: u8 = 1;
const EXIT_BAD_USAGE: u8 = 2;

/// The name that stands for all experiments.
const ALL_NAMES: &str = "all";

/// How an experiment is to be run.
#[derive(Debug)]
pub struct Run {
    /// How large.
    pub scale: Scale,
    /// By what.
    pub mode: Mode,
    /// What makes real servers small.
    pub small_by: SmallBy,
    /// Of everything random in it.
    pub seed: u64,
    /// Folder of the public data sets, if there is one.
    pub data: Option<PathBuf>,
    /// Shows how far it is.
    pub progress: Progress,
}

impl Run {
    /// One of four values, by the scale: quick, small, paper, beyond.
    pub fn by_scale<T>(&self, values: [T; 4]) -> T {
        let [quick, small, paper, beyond] = values;
        match self.scale {
            Scale::Quick => quick,
            Scale::Small => small,
            Scale::Paper => paper,
            Scale::Beyond => beyond,
        }
    }

    /// The name of a plot of an experiment that is run so, without an ending.
    pub fn plot_name(&self, experiment: &Experiment) -> String {
        format!("{}-{}", experiment.name, self.mode)
    }

    /// An empty report of an experiment that is run so.
    pub fn report(&self, experiment: &Experiment) -> Report {
        Report {
            format: FORMAT_VERSION,
            experiment: experiment.name,
            title: experiment.title,
            source: experiment.source,
            mode: self.mode.to_string(),
            scale: self.scale.to_string(),
            seed: self.seed,
            settings: Vec::new(),
            claims: Vec::new(),
            tables: Vec::new(),
            plots: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// A line that says what is being done; on a terminal only.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    fn new(name: &str) -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(
            ProgressStyle::with_template("{spinner} {prefix} {elapsed} {msg}")
                .expect("a sound template"),
        );
        bar.set_prefix(name.to_owned());
        bar.enable_steady_tick(Duration::from_millis(250));
        Progress(bar)
    }

    /// Says what is being done.
    pub fn say(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }
}

/// Carries out the command and returns the exit code: 0 fine, 1 failed, 2 bad usage. A claim that does not
/// hold is a result, not a failure.
pub fn execute(command: &ExperimentCommand) -> u8 {
    let done = match command {
        ExperimentCommand::List => list(),
        ExperimentCommand::Run(args) => run(args),
    };
    match done {
        Ok(()) => EXIT_FINE,
        Err(error) => {
            eprintln!("evenkeel experiment: {error:#}");
            match error.is::<BadUsage>() {
                true => EXIT_BAD_USAGE,
                false => EXIT_FAILED,
            }
        }
    }
}

fn list() -> anyhow::Result<()> {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_BORDERS_ONLY);
    table.set_header(["name", "by", "what it shows", "source"]);
    for experiment in ALL {
        let modes: Vec<_> = experiment.modes.iter().map(Mode::to_string).collect();
        table.add_row([
            experiment.name,
            &modes.join(", "),
            experiment.title,
            experiment.source,
        ]);
    }
    writeln!(io::stdout(), "{table}").context("printing the list")
}

fn run(args: &RunArgs) -> anyhow::Result<()> {
    let experiments: Vec<_> = ALL
        .iter()
        .filter(|experiment| args.name == ALL_NAMES || experiment.name == args.name)
        .collect();
    if experiments.is_empty() {
        let name = &args.name;
        return Err(BadUsage(format!(
            "there is no experiment '{name}'; evenkeel experiment list shows them"
        ))
        .into());
    }
    for experiment in experiments {
        let mode = match args.mode {
            None => experiment.modes[0],
            Some(mode) if experiment.modes.contains(&mode) => mode,
            // Of all of them, those that have this mode.
            Some(_) if args.name == ALL_NAMES => continue,
            Some(mode) => {
                let name = experiment.name;
                return Err(BadUsage(format!("{name} has no mode {mode}")).into());
            }
        };
        let run = Run {
            scale: args.scale,
            mode,
            small_by: args.small_by,
            seed: args.seed,
            data: args.data.clone(),
            progress: Progress::new(experiment.name),
        };
        let report = (experiment.run)(experiment, &run)
            .with_context(|| format!("running {}", experiment.name))?;
        run.progress.0.finish_and_clear();
        if let Some(folder) = &args.out {
            write_files(&report, folder)?;
        }
        let text = match args.format {
            OutputFormat::Table => report.to_text(),
            OutputFormat::Json => report.to_json()?,
            OutputFormat::Markdown => report.to_markdown(),
        };
        writeln!(io::stdout(), "{text}").context("printing the report")?;
    }
    Ok(())
}

fn write_files(report: &Report, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let write = |name: String, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    write(
        format!("{}-{}.json", report.experiment, report.mode),
        report.to_json()?,
    )?;
    for drawn in &report.plots {
        write(format!("{}.svg", drawn.name), plot::to_svg(drawn)?)?;
    }
    Ok(())
}
