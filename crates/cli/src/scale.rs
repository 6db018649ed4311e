//! `evenkeel scale`: servers of a cluster or of rings that come and go by themselves, seen and steered.

use crate::ask::{self, CoordinatorArgs, Format};
use crate::changes::now_unix_s;
use anyhow::{Context, ensure};
use clap::Subcommand;
use evenkeel_coordinator_core::scale::{Band, Measure, Phase, ScaleMode, ScaleSettings};
use evenkeel_coordinator_core::{ScaleEvent, ScaleEventsBody, ScaleTryView, ScaleView, ScalesView};
use evenkeel_member::client::ApiClient;

/// Shows how the numbers of servers follow what is measured, and steers it.
///
/// A cluster, or a pool whose hash space follows the load, gets a server when a threshold has been passed for a while, and gives one up when it
/// needs it no more. The coordinator starts and stops servers by the file that it was started with: --scaler FILE. POOL is a pool's name, or the
/// cluster's.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The coordinator to ask
    #[command(flatten)]
    pub coordinator: CoordinatorArgs,

    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table, global = true)]
    pub format: Format,

    /// What to do; without it, show all
    #[command(subcommand)]
    pub command: Option<What>,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum What {
    /// Shows what each pool does, why, and what that costs in server hours
    Show {
        /// Which; without it, all
        pool: Option<String>,
    },
    /// Says when servers come and go; what is not said stays
    Settings {
        /// Which
        pool: String,
        /// What is to be otherwise
        #[command(flatten)]
        choices: Choices,
    },
    /// Says what would be decided at this moment by other settings, which are not set
    Try {
        /// Which
        pool: String,
        /// What were otherwise
        #[command(flatten)]
        choices: Choices,
    },
    /// Lets a pool do what waits for approval
    Approve {
        /// Which
        pool: String,
    },
    /// Shows the last decisions, the newest first
    Events,
}

/// What an operator chooses.
#[derive(Clone, Debug, clap::Args)]
pub struct Choices {
    /// What becomes of decisions: none is made (off), they are shown (observe), wait for approval (approve), or are executed (automatic)
    #[arg(long)]
    mode: Option<ScaleMode>,
    /// Thresholds of requests per second and server, as LOWER..UPPER, or off
    #[arg(long, value_name = "BAND", value_parser = band)]
    requests_per_server: Option<Choice>,
    /// Thresholds of what the busiest server carries, as a part of what it can do; of a cluster alone
    #[arg(long, value_name = "BAND", value_parser = band)]
    busiest_share: Option<Choice>,
    /// Thresholds of the 99th percentile of what requests take at the proxies, in microseconds
    #[arg(long, value_name = "BAND", value_parser = band)]
    p99_us: Option<Choice>,
    /// Thresholds of the part of gets that are hits, 0 to 1
    #[arg(long, value_name = "BAND", value_parser = band)]
    hit_rate: Option<Choice>,
    /// Servers that are added by one decision
    #[arg(long, value_name = "N")]
    step: Option<usize>,
    /// Servers at least
    #[arg(long, value_name = "N")]
    min: Option<usize>,
    /// Servers at most
    #[arg(long, value_name = "N")]
    max: Option<usize>,
    /// For how long a threshold is passed before anything is done, in milliseconds
    #[arg(long, value_name = "MS")]
    sustain_ms: Option<u64>,
    /// Rest after servers were added, in milliseconds
    #[arg(long, value_name = "MS")]
    cooldown_added_ms: Option<u64>,
    /// Rest after one was removed, in milliseconds
    #[arg(long, value_name = "MS")]
    cooldown_removed_ms: Option<u64>,
}

/// Thresholds, or that there are none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice(Option<Band>);

/// Reads `LOWER..UPPER`. What it may be is the coordinator's affair.
fn band(text: &str) -> Result<Choice, String> {
    if text == "off" {
        return Ok(Choice(None));
    }
    let numbers = text.split_once("..").and_then(|(lower, upper)| {
        Some(Band {
            lower: lower.parse().ok()?,
            upper: upper.parse().ok()?,
        })
    });
    let band = numbers.ok_or("it should be LOWER..UPPER, such as 12000..30000, or off")?;
    Ok(Choice(Some(band)))
}

impl Choices {
    fn changed(&self, present: ScaleSettings) -> ScaleSettings {
        let band = |choice: Option<Choice>, present| choice.map_or(present, |choice| choice.0);
        ScaleSettings {
            mode: self.mode.unwrap_or(present.mode),
            requests_per_server: band(self.requests_per_server, present.requests_per_server),
            busiest_share: band(self.busiest_share, present.busiest_share),
            p99_us: band(self.p99_us, present.p99_us),
            hit_rate: band(self.hit_rate, present.hit_rate),
            step: self.step.unwrap_or(present.step),
            min: self.min.unwrap_or(present.min),
            max: self.max.unwrap_or(present.max),
            sustain_ms: self.sustain_ms.unwrap_or(present.sustain_ms),
            cooldown_added_ms: self.cooldown_added_ms.unwrap_or(present.cooldown_added_ms),
            cooldown_removed_ms: self
                .cooldown_removed_ms
                .unwrap_or(present.cooldown_removed_ms),
        }
    }
}

/// Asks, or says what is wanted, and prints the answer.
///
/// # Errors
/// When the address is none, or the coordinator refuses or does not answer.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let client = args.coordinator.client()?;
    let format = args.format;
    match args.command.as_ref().unwrap_or(&What::Show { pool: None }) {
        What::Show { pool } => {
            let mut view = client.scales()?;
            if let Some(pool) = pool {
                view.pools.retain(|scale| scale.pool == *pool);
                ensure!(!view.pools.is_empty(), "pool {pool:?} is not scaled here");
            }
            format.print(&view, overview)
        }
        What::Settings { pool, choices } => {
            let settings = choices.changed(settings(&client, pool)?);
            format.print_done(&client.set_scale(pool, &settings)?, details)
        }
        What::Try { pool, choices } => {
            let settings = choices.changed(settings(&client, pool)?);
            let said = |tried: &ScaleTryView| format!("pool {}: {}", tried.pool, tried.why);
            format.print_done(&client.try_scale(pool, &settings)?, said)
        }
        What::Approve { pool } => format.print_done(&client.approve_scale(pool)?, details),
        What::Events => {
            let events = client.scale_events()?;
            let body = ScaleEventsBody { events };
            format.print(&body, |body| history(&body.events, now_unix_s()))
        }
    }
}

/// What a pool has, or begins with.
fn settings(client: &ApiClient, pool: &str) -> anyhow::Result<ScaleSettings> {
    let view = client.scales().context("failed to ask what is set")?;
    let mut pools = view.pools.into_iter();
    let known = pools.find(|scale| scale.pool == pool);
    Ok(known.map_or_else(ScaleSettings::default, |scale| scale.settings))
}

fn overview(view: &ScalesView) -> String {
    let runs = match &view.listed {
        None => "no actuator has said what it runs; a coordinator has one by --scaler FILE".into(),
        Some(listed) if listed.is_empty() => "the actuator runs nothing".to_owned(),
        Some(listed) => {
            let listed = listed.iter().map(|(name, at)| format!("{name} at {at}"));
            format!(
                "the actuator runs {}",
                listed.collect::<Vec<_>>().join(", ")
            )
        }
    };
    if view.pools.is_empty() {
        return format!("no pool is scaled here; {runs}");
    }
    let pools = view.pools.iter().map(details);
    format!("{}\n\n{runs}", pools.collect::<Vec<_>>().join("\n\n"))
}

/// A paragraph about a pool.
fn details(scale: &ScaleView) -> String {
    let settings = &scale.settings;
    let mut text = format!(
        "pool {}: {} {}, {} wanted ({} to {}); mode {}; {}",
        scale.pool,
        scale.servers,
        if scale.servers == 1 {
            "server"
        } else {
            "servers"
        },
        scale.wanted,
        settings.min,
        settings.max,
        settings.mode,
        phase(&scale.phase),
    );
    if !scale.why.is_empty() {
        text += &format!("\n{}", scale.why);
    }
    text += &format!(
        "\n{:.1} server hours, {:.1} fewer than with as many servers as there were at most, {:+.1} by what was only observed",
        scale.server_hours, scale.saved_hours, scale.would_hours
    );
    let rows = Measure::ALL.into_iter().filter_map(|measure| {
        let band = settings.band(measure)?;
        let value = measure.of(&scale.measures);
        let value = value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        Some([
            measure.to_string(),
            value,
            band.lower.to_string(),
            band.upper.to_string(),
        ])
    });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        text += &format!("\n{}", ask::table("measure|is|lower|upper", rows));
    }
    text
}

/// How far it is.
fn phase(phase: &Phase) -> String {
    match phase.server() {
        Some(server) => format!("{} {server}", phase.name()),
        None => phase.name().to_string(),
    }
}

fn history(events: &[ScaleEvent], now_unix_s: u64) -> String {
    if events.is_empty() {
        return "nothing was decided yet".to_owned();
    }
    let rows = events.iter().rev().map(|event| {
        let seconds = now_unix_s.saturating_sub(event.unix_s.into());
        let what = phase(&event.phase);
        [
            format!("{seconds} s ago"),
            event.pool.clone(),
            what,
            event.why.clone(),
        ]
    });
    ask::plain_table(["when", "pool", "phase", "why"], rows).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_coordinator_core::scale::Measures;

    #[test]
    fn thresholds_are_two_numbers() {
        let read = Band {
            lower: 0.5,
            upper: 30_000.0,
        };
        assert_eq!(band("0.5..30000"), Ok(Choice(Some(read))));
        assert_eq!(band("off"), Ok(Choice(None)));
        for bad in ["", "1", "1..", "..2", "a..b", "1-2"] {
            assert!(band(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_pool_is_told_with_its_measures_and_what_it_costs() {
        let scale = ScaleView {
            pool: "main".into(),
            settings: ScaleSettings {
                mode: ScaleMode::Automatic,
                requests_per_server: Some(Band {
                    lower: 12_000.0,
                    upper: 30_000.0,
                }),
                max: 8,
                ..ScaleSettings::default()
            },
            phase: Phase::Steady,
            why: "requests_per_server is 20000, between its thresholds".into(),
            waits_for_approval: false,
            measures: Measures {
                requests_per_server: Some(20_000.0),
                ..Measures::default()
            },
            servers: 3,
            wanted: 3,
            server_hours: 7.25,
            would_hours: -1.5,
            saved_hours: 2.0,
        };
        let text = details(&scale);
        for part in [
            "pool main: 3 servers, 3 wanted (1 to 8); mode automatic; steady\nrequests_per_server is",
            "7.2 server hours, 2.0 fewer",
            "-1.5 by what was only observed",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let mut lines = text.lines();
        let row = lines.find(|line| line.trim_start().starts_with("requests_per_server  "));
        let row = row.unwrap_or_else(|| panic!("no row in {text}"));
        assert!(row.contains("20000") && row.contains("12000"), "{row}");
        let view = ScalesView::default();
        assert!(overview(&view).starts_with("no pool is scaled here; no actuator has said"));
    }
}
