//! `evenkeel plans`: how load is evened out between servers, seen and steered.

use crate::ask::{self, CoordinatorArgs, Format};
use crate::cachelets::{mib, whole};
use clap::Subcommand;
use evenkeel_coordinator_core::plans::{
    Hold, MoveState, Plan, PlanMode, PlansExplained, PlansView, Spread, Verdict,
};
use evenkeel_coordinator_core::{MigrationRequest, MigrationsView, WorkerName, limits};
use evenkeel_types::CacheletId;
use std::collections::BTreeMap;

/// Shows the coordinator's plans to even out load between servers, and what is moving.
///
/// A plan is a list of cachelets that move from server to server with their contents. The mode says what becomes of
/// plans: observe shows them, approve waits until `evenkeel plans approve`, automatic executes them.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The coordinator to ask
    #[command(flatten)]
    pub coordinator: CoordinatorArgs,

    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table, global = true)]
    pub format: Format,

    /// What to do; without it, list
    #[command(subcommand)]
    pub command: Option<What>,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum What {
    /// Lists the newest plans, and what the coordinator thinks of the loads
    List {
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Shows a plan with its moves
    Show {
        /// Which
        id: u64,
    },
    /// Says why loads are as they are: what each move of a plan did, or why nothing moves now
    Explain {
        /// Which plan; without it, what keeps things as they are now
        id: Option<u64>,
    },
    /// Lets a proposed plan be executed
    Approve {
        /// Which
        id: u64,
    },
    /// Gives a plan up; what has moved stays where it is
    Cancel {
        /// Which
        id: u64,
    },
    /// Says what becomes of plans: observe, approve or automatic
    Mode {
        /// Which
        mode: PlanMode,
    },
    /// Moves one cachelet to another server, by hand
    Move {
        /// Which; `evenkeel cachelets` shows their numbers
        cachelet: u16,
        /// The worker that is to own it, as SERVER/WORKER
        #[arg(value_parser = parse_worker)]
        to: WorkerName,
        /// Megabytes (2^20) that are copied in a second; 0 for no limit
        #[arg(long, value_name = "MIB", default_value_t = limits::MIGRATION_BYTES_PER_SECOND >> 20)]
        rate: u64,
    },
    /// Gives up the move of a cachelet
    Stay {
        /// Which
        cachelet: u16,
    },
    /// Shows which cachelets are moving, and the last that have moved
    Moves,
}

/// Reads `SERVER/WORKER`.
fn parse_worker(text: &str) -> Result<WorkerName, String> {
    let worker = text.rsplit_once('/').and_then(|(server, worker)| {
        Some(WorkerName {
            server: server.to_owned(),
            worker: worker.parse().ok()?,
        })
    });
    let named = worker.filter(|worker| !worker.server.is_empty());
    named.ok_or_else(|| "it should be SERVER/WORKER, such as s2/0".to_owned())
}

/// Asks, or says what is wanted, and prints the answer.
///
/// # Errors
/// When the address is none, or the coordinator refuses or does not answer.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let client = args.coordinator.client()?;
    let format = args.format;
    match args.command.as_ref().unwrap_or(&What::List { limit: 20 }) {
        What::List { limit } => format.print(&client.plans(*limit)?, overview),
        What::Show { id } => format.print(&client.plan(*id)?, details),
        What::Explain { id: Some(id) } => format.print(&client.plan(*id)?, told_by_moves),
        What::Explain { id: None } => format.print(&client.explain_plans()?, explained),
        What::Approve { id } => format.print(&client.approve_plan(*id)?, details),
        What::Cancel { id } => format.print(&client.cancel_plan(*id)?, details),
        What::Mode { mode } => {
            let mut settings = client.plan_settings()?;
            settings.mode = *mode;
            let settings = client.put_plan_settings(settings)?;
            format.print(&settings, |settings| settings.mode.to_string())
        }
        What::Move { cachelet, to, rate } => {
            let begun = client.begin_migration(&MigrationRequest {
                cachelet: CacheletId(*cachelet),
                to: to.clone(),
                bytes_per_second: rate.saturating_mul(1 << 20),
            })?;
            format.print(&begun, |begun| {
                let (cachelet, from, to) = (begun.cachelet, &begun.from, &begun.to);
                format!("cachelet {cachelet} is on its way from {from} to {to}")
            })
        }
        What::Stay { cachelet } => {
            format.print(&client.cancel_migration(CacheletId(*cachelet))?, moves)
        }
        What::Moves => format.print(&client.migrations()?, moves),
    }
}

/// What is done about uneven loads, and what the coordinator thinks of them.
pub fn mode_and_opinion(view: &PlansView) -> String {
    let opinion = match (view.verdict, view.servers_wanted) {
        (Verdict::AddServers, Some(servers)) => {
            format!("the whole cluster is hot: {servers} more servers are needed")
        }
        (Verdict::Waiting, _) => format!(
            "workers have been overloaded for {} of {} looks, or the last plan is not long ago",
            view.lasting_intervals, view.settings.intervals
        ),
        (verdict, _) => opinion(verdict).to_owned(),
    };
    format!("mode {}, loads: {opinion}", view.settings.mode)
}

fn overview(view: &PlansView) -> String {
    let mut text = format!("{}\n", mode_and_opinion(view));
    if let Some(spread) = &view.spread {
        text += &format!("{}\n", of_spread(spread));
    }
    if view.plans.is_empty() {
        return text + "no plans yet";
    }
    let plans = view.plans.iter().map(|plan| {
        [
            plan.id.to_string(),
            plan.state.to_string(),
            plan.moves.to_string(),
            plan.moved.to_string(),
            mib(plan.bytes),
            over_mean(&plan.before),
            over_mean(&plan.predicted),
            plan.measured.as_ref().map_or_else(String::new, over_mean),
            plan.note.clone().unwrap_or_default(),
        ]
    });
    let heads = "plan|state|moves|moved|copies|max/mean|predicted|measured|why";
    format!("{text}\n{}", ask::table(heads, plans))
}

fn opinion(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Unknown => "too little is known of them",
        Verdict::Even => "nobody is overloaded",
        Verdict::Waiting => "workers are overloaded",
        Verdict::Planned => "there is a plan",
        Verdict::NoRoom => "workers are overloaded, and no move within the limits helps",
        Verdict::TooSmall => "the best plan would gain too little",
        Verdict::AddServers => "the whole cluster is hot: only more servers help",
    }
}

/// Why nothing moves.
fn explained(view: &PlansExplained) -> String {
    let mut text = format!("loads: {}\n", opinion(view.verdict));
    if let Some(spread) = &view.spread {
        text += &format!("{}\n", of_spread(spread));
    }
    for wait in &view.waits {
        text += &format!("{wait}\n");
    }
    if view.kept.is_empty() {
        return text + "no worker would keep more than it should";
    }
    let rows = view.kept.iter().map(|kept| {
        let holds = kept.holds.iter();
        let holds: Vec<String> = holds
            .map(|(hold, count)| format!("{count} {}", why(*hold)))
            .collect();
        [
            kept.worker.to_string(),
            whole(kept.load),
            whole(kept.permissible),
            holds.join(", "),
        ]
    });
    format!(
        "{text}\n{}",
        ask::table(
            "worker|would keep|should have|its cachelets stay: this many",
            rows
        )
    )
}

/// What keeps cachelets where they are, behind their number.
fn why(hold: Hold) -> &'static str {
    match hold {
        Hold::Rests => "are lent or moved less than 30 s ago",
        Hold::Drained => "have nowhere to go: no other server takes any",
        Hold::Moves => "are more than a plan may move",
        Hold::Bytes => "are more than a plan may copy",
        Hold::Memory => "find no memory elsewhere",
        Hold::Load => "would be too much for anybody else",
        Hold::Gain => "would gain too little",
    }
}

/// What each move of a plan was to do, one after the other.
fn told_by_moves(plan: &Plan) -> String {
    let mut loads: BTreeMap<&WorkerName, f64> = BTreeMap::new();
    loads.extend(
        plan.changes
            .iter()
            .map(|change| (&change.worker, change.before)),
    );
    let mut text = format!(
        "plan {} is {}: {} overloaded, mean {}, {} to copy\n",
        plan.id,
        plan.state,
        plan.before.overloaded,
        whole(plan.before.load_mean),
        mib(plan.bytes),
    );
    if let Some(note) = &plan.note {
        text += &format!("{note}\n");
    }
    let rows = plan.moves.iter().map(|it| {
        let mut step = |worker, more: f64| {
            let load = loads.entry(worker).or_default();
            let before = *load;
            // What is skipped changes nothing.
            *load += if it.state == MoveState::Skipped {
                0.0
            } else {
                more
            };
            format!("{worker} {} -> {}", whole(before), whole(*load))
        };
        let (from, to) = (step(&it.from, -it.load), step(&it.to, it.load));
        let note = it.note.clone().unwrap_or_default();
        [
            it.cachelet.to_string(),
            from,
            to,
            mib(it.bytes),
            it.state.as_str().to_owned(),
            note,
        ]
    });
    let rows: Vec<_> = rows.collect();
    format!(
        "{text}\n{}",
        ask::table("cachelet|relieves|loads|copies|state|why", rows.into_iter())
    )
}

fn of_spread(spread: &Spread) -> String {
    format!(
        "most loaded worker {:.0}, mean {:.0} small requests/s, {:.0} % of the capacity used, {} overloaded",
        spread.load_max,
        spread.load_mean,
        100.0 * spread.utilization.0,
        spread.overloaded
    )
}

/// The most loaded worker by the mean.
pub fn over_mean(spread: &Spread) -> String {
    format!(
        "{:.2}",
        spread.load_max / spread.load_mean.max(f64::MIN_POSITIVE)
    )
}

fn details(plan: &Plan) -> String {
    let mut text = format!(
        "plan {} is {}: {} moves, {} done, {} to copy\n",
        plan.id,
        plan.state,
        plan.moves.len(),
        plan.moves_in(MoveState::Moved),
        mib(plan.bytes),
    );
    if let Some(note) = &plan.note {
        text += &format!("{note}\n");
    }
    text += &format!("before: {}\n", of_spread(&plan.before));
    text += &format!("predicted: {}\n", of_spread(&plan.predicted));
    if let Some(measured) = &plan.measured {
        text += &format!("measured: {}\n", of_spread(measured));
    }
    let moves = plan.moves.iter().map(|it| {
        [
            it.cachelet.to_string(),
            it.from.to_string(),
            it.to.to_string(),
            whole(it.load),
            mib(it.bytes),
            it.state.as_str().to_owned(),
            it.note.clone().unwrap_or_default(),
        ]
    });
    let moves = ask::table("cachelet|from|to|load|copies|state|why", moves);
    let workers = plan.changes.iter().map(|change| {
        [
            change.worker.to_string(),
            whole(change.before),
            whole(change.after),
        ]
    });
    let workers = ask::table("worker|load|predicted", workers);
    format!("{text}\n{moves}\n\n{workers}")
}

fn moves(view: &MigrationsView) -> String {
    let under_way = view.migrations.iter().map(|it| {
        let (copied, seconds) = (mib(it.bytes), format!("{:.1}", it.seconds));
        let (from, to) = (it.from.to_string(), it.to.to_string());
        let stage = it.stage.as_str().to_owned();
        let (cachelet, items) = (it.cachelet.to_string(), it.items.to_string());
        [cachelet, from, to, stage, items, copied, seconds]
    });
    // The newest first, below those under way.
    let ended = view.ended.iter().rev().take(20).map(|it| {
        let (copied, seconds) = (mib(it.bytes), format!("{:.1}", it.seconds));
        let (from, to) = (it.from.to_string(), it.to.to_string());
        let end = it.end.as_str().to_owned();
        let (cachelet, items) = (it.cachelet.to_string(), it.items.to_string());
        [cachelet, from, to, end, items, copied, seconds]
    });
    let heads = "cachelet|from|to|stage|items|copied|seconds";
    ask::table(heads, under_way.chain(ended)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_named_by_server_and_number() {
        let worker = parse_worker("a/b/12").unwrap();
        assert_eq!((worker.server.as_str(), worker.worker), ("a/b", 12));
        for bad in ["", "s1", "s1/", "/1", "s1/x", "s1/70000"] {
            assert!(parse_worker(bad).is_err(), "{bad}");
        }
    }
}
