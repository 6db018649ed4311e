//! `evenkeel advise`: which architecture an application should have, by its profile.

mod show;

use crate::ask::Format;
use crate::profile;
use anyhow::Context;
use clap::ValueEnum;
use evenkeel_bench::plot;
use evenkeel_experiments::experiments::locality;
use evenkeel_profile::{Head, Measured, Section, Summary};
use evenkeel_runtime::UsageError;
use evenkeel_schemes::locality::advice::{self, Advice, Inputs, Objective, Question, Today};
use evenkeel_schemes::locality::model::{Architecture, Distances, Network, Racks, Usage};
use serde::Serialize;
use std::fs;
use std::path::PathBuf;

/// Bytes that TCP and IP add to a message.
const TCP_IP_BYTES: f64 = 70.0;

/// Copies of an item in SDR unless told otherwise: as the paper has it.
const COPIES: u32 = 2;

/// Says which architecture an application should have, by a profile of it: central servers, spread ones, replicated, snooping, or
/// with a directory.
///
/// A profile is what a proxy writes with --profile FILE. Nothing is switched, and the command that would is told. docs/locality.md has the model.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Profiles; several are read as one, such as those of all proxies
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    pub profile: Vec<PathBuf>,

    /// The pool to advise on, where the profile has several
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,

    /// What is to be small
    #[arg(long, value_enum, default_value_t = ObjectiveArg::Latency)]
    pub objective: ObjectiveArg,

    /// Racks, without a central one [default: those of the profile]
    #[arg(long, value_name = "N")]
    pub racks: Option<u32>,

    /// Copies of an item where it is replicated [default: 2]
    #[arg(long, value_name = "N")]
    pub copies: Option<u32>,

    /// Round trips in ms to servers of the own rack, on the backbone and in another rack: 0.4,0.9,1.4, or 5,-,40 where nothing is
    /// central [default: as the profile has measured them]
    #[arg(long, value_name = "OWN,CENTRAL,OTHER", value_parser = distances)]
    pub distances: Option<Distances>,

    /// Folder for plots of what would be if switches, reads and whose keys are were others
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,

    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// See [`Objective`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ObjectiveArg {
    /// The mean latency of a command
    Latency,
    /// Bytes across the central switch
    Network,
    /// Memory that an item takes, copies and notes included
    Space,
    /// The product of all three, each by what it is today
    Mixed,
}

impl From<ObjectiveArg> for Objective {
    fn from(given: ObjectiveArg) -> Self {
        match given {
            ObjectiveArg::Latency => Objective::Latency,
            ObjectiveArg::Network => Objective::Network,
            ObjectiveArg::Space => Objective::Space,
            ObjectiveArg::Mixed => Objective::Mixed,
        }
    }
}

/// Reads round trips; a `-` in the middle is no central rack.
fn distances(text: &str) -> Result<Distances, String> {
    let form =
        || "give three numbers of ms: OWN,CENTRAL,OTHER, with - for no central rack".to_owned();
    let number = |text: &str| text.parse::<f64>().map_err(|_| form());
    let [own, central, other] = *text.split(',').collect::<Vec<_>>() else {
        return Err(form());
    };
    Ok(Distances {
        own: number(own)?,
        central: (central != "-").then(|| number(central)).transpose()?,
        other: number(other)?,
    })
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Advised {
    pool: Option<String>,
    racks: Racks,
    today: Today,
    inputs: Inputs,
    /// Commands of a page, if the profile says it.
    commands_per_page: Option<f64>,
    advice: Advice,
    /// The command by which that is done.
    command: Option<String>,
    /// What the profile cannot say, and what bends what it says.
    remarks: Vec<String>,
    /// Plots that were made.
    plots: Vec<PathBuf>,
}

/// Advises, and prints that.
///
/// # Errors
/// A file is no profile or cannot be read, the profile does not say what advice needs, or a plot cannot be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (head, summary) = profile::summary(&args.profile)?;
    let advised = advised(args, &head, &summary)?;
    args.format.print(&advised, show::text)
}

fn advised(args: &Args, head: &Head, summary: &Summary) -> anyhow::Result<Advised> {
    let section = section(args.pool.as_deref(), summary)?;
    let racks = racks(args, head);
    let has_central = head.racks.iter().any(|rack| rack.is_central);
    let measured = |of: &Measured| inputs(of, args.distances, has_central);
    let whole = measured(&section.measured)?;
    let samples = section.resamples.iter().map(measured);
    // A resample may have nothing of what all together have.
    let samples: Vec<Inputs> = samples.filter_map(Result::ok).collect();
    let commands_per_page = section.measured.commands_per_page;
    let question = Question {
        objective: args.objective.into(),
        today: today(section)?,
        racks,
        requests_per_page: commands_per_page.unwrap_or(1.0),
    };
    let advice = advice::advise(&question, &whole, &samples);
    let advice = advice.map_err(|bad| UsageError(bad.to_string()))?;
    Ok(Advised {
        pool: section.pool.clone(),
        racks,
        today: question.today,
        inputs: whole,
        commands_per_page,
        command: advice
            .choice
            .map(|choice| command(section.pool.as_deref(), choice)),
        advice,
        remarks: summary.remarks.clone(),
        plots: plots(args, &whole, racks)?,
    })
}

/// The command that changes a pool to what is advised; what is in capitals is to be filled in.
fn command(pool: Option<&str>, choice: Architecture) -> String {
    let pool = pool.unwrap_or("POOL");
    let more = match choice {
        Architecture::Dir => " --directory POOL",
        Architecture::Sdc => " --servers SERVER,SERVER",
        Architecture::Sds | Architecture::Snoop | Architecture::Sdr => "",
    };
    format!(
        "evenkeel locality switch {pool} --to {choice}{more} --config FILE --proxies N --coordinator URL"
    )
}

/// The pool's part of what a profile says.
fn section<'s>(pool: Option<&str>, summary: &'s Summary) -> Result<&'s Section, UsageError> {
    let named = || {
        summary
            .sections
            .iter()
            .filter_map(|section| section.pool.as_deref())
    };
    let found = match pool {
        Some(pool) => summary
            .sections
            .iter()
            .find(|section| section.pool.as_deref() == Some(pool)),
        None if summary.sections.len() == 1 => summary.sections.first(),
        None => None,
    };
    let names = || named().collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| match pool {
        Some(pool) => UsageError(format!(
            "--pool: the profile has no pool {pool:?}; there are {}",
            names()
        )),
        None => UsageError(format!("--pool: say which, of {}", names())),
    })
}

fn racks(args: &Args, head: &Head) -> Racks {
    let known = head.racks.iter().filter(|rack| !rack.is_central).count();
    let racks = args.racks.unwrap_or(known as u32);
    Racks {
        racks,
        copies: args.copies.unwrap_or(COPIES.min(racks)),
    }
}

/// What there is: central servers if most commands were answered by some.
fn today(section: &Section) -> Result<Today, UsageError> {
    let commands = |switches: Option<u8>| {
        let racks = section
            .racks
            .iter()
            .filter(|rack| switches.is_none() || rack.switches == switches);
        racks.map(|rack| rack.commands).sum::<u64>()
    };
    let is_central = 2 * commands(Some(2)) > commands(None);
    Ok(Today {
        architecture: match is_central {
            true => Architecture::Sdc,
            false => Architecture::Sds,
        },
        latency_ms: said(section.measured.latency_ms, "how long commands take")?,
    })
}

/// What the model needs of what was measured.
fn inputs(
    measured: &Measured,
    given: Option<Distances>,
    has_central: bool,
) -> Result<Inputs, UsageError> {
    let distances = match (given, measured.switch_ms.zip(measured.base_ms)) {
        (Some(given), _) => given,
        (None, Some((switch, base))) => {
            let measured = Distances::from(Network { switch, base });
            Distances {
                central: measured.central.filter(|_| has_central),
                ..measured
            }
        }
        (None, None) => {
            let what = "the profile has not seen two distances: give --distances OWN,CENTRAL,OTHER";
            return Err(UsageError(what.into()));
        }
    };
    Ok(Inputs {
        usage: Usage {
            shares: measured.shares,
            ps: said(measured.ps, "whose keys are (ps)")?,
            rw_net: said(measured.rw_net, "how large requests are")?,
            object_bytes: said(measured.network_bytes, "how large requests are")?,
            message_bytes: said(measured.message_bytes, "how large keys are")? + TCP_IP_BYTES,
        },
        distances,
    })
}

fn said(value: Option<f64>, what: &str) -> Result<f64, UsageError> {
    value.ok_or_else(|| {
        UsageError(format!(
            "the profile does not say {what}: it has no commands for that"
        ))
    })
}

fn plots(args: &Args, inputs: &Inputs, racks: Racks) -> anyhow::Result<Vec<PathBuf>> {
    let Some(folder) = &args.plots else {
        return Ok(Vec::new());
    };
    let failed = || format!("failed to write plots to {}", folder.display());
    fs::create_dir_all(folder).with_context(failed)?;
    let plots = locality::plots(&inputs.usage, inputs.distances, racks);
    let paths = plots.iter().map(|plot| {
        let path = folder.join(format!("{}.svg", plot.name));
        fs::write(&path, plot::to_svg(plot)?).with_context(failed)?;
        Ok(path)
    });
    paths.collect()
}
