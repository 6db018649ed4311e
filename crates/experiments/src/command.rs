//! `evenkeel experiment list` and `evenkeel experiment run`.

use crate::args::{ExperimentCommand, Mode, OutputFormat, RunArgs};
use crate::experiments::ALL;
use crate::report::Report;
use crate::run::{Experiment, Progress, Run};
use anyhow::Context;
use evenkeel_bench::BadUsage;
use evenkeel_bench::plot;
use evenkeel_runtime::print_line;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Exit codes, as for every command of Evenkeel.
const EXIT_FINE: u8 = 0;
const EXIT_FAILED: u8 = 1;
const EXIT_BAD_USAGE: u8 = 2;

/// The name that stands for all experiments.
const ALL_NAMES: &str = "all";

/// Executes the command and returns the exit code: 0 fine, 1 failed, 2 bad usage. A claim that does not
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
    print_line(&table.to_string()).context("printing the list")
}

fn run(args: &RunArgs) -> anyhow::Result<()> {
    let chosen = chosen(args)?;
    let measured = Rc::default();
    let mut took = Vec::new();
    for &(experiment, mode) in &chosen {
        let begun = Instant::now();
        let run = Run {
            scale: args.scale.unwrap_or_default(),
            is_scale_told: args.scale.is_some(),
            mode,
            fidelity: args.fidelity,
            workers: args.workers.clone(),
            cells: args.cells.clone(),
            seed: args.seed,
            data: args.data.clone(),
            out: args.out.clone(),
            resume: args.resume,
            measured: Rc::clone(&measured),
            progress: Progress::new(format!("{} {mode}", experiment.name)),
        };
        let report = (experiment.run)(experiment, &run)
            .with_context(|| format!("running {} {mode}", experiment.name))?;
        run.progress.end();
        if let Some(folder) = &args.out {
            write_files(&report, folder)?;
        }
        let text = match args.format {
            OutputFormat::Table => report.to_text(),
            OutputFormat::Json => report.to_json()?,
            OutputFormat::Markdown => report.to_markdown(),
        };
        print_line(&text).context("printing the report")?;
        took.push((experiment.name, mode, begun.elapsed()));
        if chosen.len() > 1 {
            let (done, seconds) = (took.len(), begun.elapsed().as_secs_f64());
            let (name, all) = (experiment.name, chosen.len());
            eprintln!("{name} {mode}: {seconds:.0} s ({done} of {all})");
        }
    }
    if took.len() > 1 {
        eprintln!("{}", times(&took));
    }
    Ok(())
}

/// The experiments that are meant, each with the modes that are meant.
fn chosen(args: &RunArgs) -> anyhow::Result<Vec<(&'static Experiment, Mode)>> {
    let name = &args.name;
    let meant = |experiment: &&Experiment| name == ALL_NAMES || experiment.name == name;
    let mut chosen = Vec::new();
    for experiment in ALL.iter().filter(meant) {
        if args.mode.is_empty() {
            chosen.push((experiment, experiment.modes[0]));
        }
        let has = |mode: &&Mode| experiment.modes.contains(mode);
        chosen.extend(args.mode.iter().filter(has).map(|&mode| (experiment, mode)));
        // Of all experiments, those that have a mode.
        if name != ALL_NAMES
            && let Some(mode) = args.mode.iter().find(|mode| !has(mode))
        {
            return Err(BadUsage(format!("{name} has no mode {mode}")).into());
        }
    }
    match chosen.is_empty() {
        true => Err(BadUsage(format!(
            "there is no experiment '{name}'; evenkeel experiment list shows them"
        ))
        .into()),
        // All of one mode, then all of the next: what figures share is measured close together.
        false => {
            let place = |mode: &Mode| args.mode.iter().position(|other| other == mode);
            chosen.sort_by_key(|(_, mode)| place(mode));
            Ok(chosen)
        }
    }
}

/// A table of what took how long.
fn times(took: &[(&str, Mode, Duration)]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_BORDERS_ONLY);
    table.set_header(["experiment", "mode", "seconds"]);
    let seconds = |duration: Duration| format!("{:.0}", duration.as_secs_f64());
    for (name, mode, duration) in took {
        table.add_row([(*name).to_owned(), mode.to_string(), seconds(*duration)]);
    }
    let sum = took.iter().map(|(_, _, duration)| *duration).sum();
    table.add_row(["all".to_owned(), String::new(), seconds(sum)]);
    table
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
