//! `evenkeel changes`: how pools pass from former servers to their own, seen and steered.

use crate::ask::{self, CoordinatorArgs, Format};
use clap::{Subcommand, ValueEnum};
use evenkeel_coordinator_core::{
    BeginRequest, ChangeEvent, ChangeEventsBody, ChangeView, ChangesView, PlanServerView, PlanView,
    ServerOrder, Stage,
};
use std::time::{SystemTime, UNIX_EPOCH};

/// Shows how pools pass from former memcached servers to their own, and what that waits for.
///
/// A pool with warm_from and pool_coordinator in the files of its proxies goes through the stages former, quiesced, warming,
/// closing and done, all proxies together: none goes on before all have followed. In quiesced its requests wait, for milliseconds.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The coordinator to ask
    #[command(flatten)]
    pub coordinator: CoordinatorArgs,

    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table, global = true)]
    pub format: Format,

    /// What to do; without it, show them
    #[command(subcommand)]
    pub command: Option<What>,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum What {
    /// Shows each pool with its proxies, and what it waits for
    Show,
    /// Lets a pool go on, and returns when that is accepted: the proxies follow by themselves
    Begin {
        /// Which
        pool: String,
        /// How far it is to go
        #[arg(long, value_enum)]
        to: Goal,
        /// How many proxies have the pool in their files, as you know: one that the coordinator does not know of would be left behind
        #[arg(long, value_name = "N")]
        proxies: usize,
        /// Wait in warming until the former servers answer less than 0.1 % of what reads find, and only then go on to done
        #[arg(long)]
        when_warm: bool,
        /// Longest time for that, in seconds
        #[arg(
            long,
            value_name = "SECONDS",
            default_value_t = 86_400,
            requires = "when_warm"
        )]
        at_most: u64,
    },
    /// Takes the change of a pool back, as long as it is not warming
    Withdraw {
        /// Which
        pool: String,
    },
    /// Forgets a pool that no proxy has in its file any more
    Forget {
        /// Which
        pool: String,
    },
    /// Shows the last events, the newest first
    History,
}

/// Where a change can be told to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Goal {
    /// What is not here is brought from the former servers
    Warming,
    /// The former servers are not asked any more
    Done,
}

impl From<Goal> for Stage {
    fn from(goal: Goal) -> Self {
        match goal {
            Goal::Warming => Stage::Warming,
            Goal::Done => Stage::Done,
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
    match args.command.as_ref().unwrap_or(&What::Show) {
        What::Show => format.print(&client.changes()?, overview),
        What::Begin {
            pool,
            to,
            proxies,
            when_warm,
            at_most,
        } => {
            let request = BeginRequest {
                goal: (*to).into(),
                proxies: *proxies,
                when_warm_s: when_warm.then_some(*at_most),
            };
            format.print_done(&client.begin_change(pool, &request)?, begun)
        }
        What::Withdraw { pool } => format.print_done(&client.withdraw_change(pool)?, withdrawn),
        What::Forget { pool } => format.print_done(&client.forget_change(pool)?, |forgotten| {
            format!("pool {} is forgotten", forgotten.pool)
        }),
        What::History => {
            let events = client.change_events()?;
            let now = now_unix_s();
            format.print(&ChangeEventsBody { events }, |body| history(body, now))
        }
    }
}

/// Seconds since 1970.
pub(crate) fn now_unix_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since_1970| since_1970.as_secs())
}

/// A paragraph for each pool.
fn overview(view: &ChangesView) -> String {
    if view.changes.is_empty() {
        return "no proxy follows a pool here".to_owned();
    }
    let changes = view.changes.iter().map(details);
    changes.collect::<Vec<_>>().join("\n\n")
}

/// How far a pool is, what it waits for, and who follows it.
pub fn details(change: &ChangeView) -> String {
    let mut text = format!(
        "pool {}: {}, step {}, for {}",
        change.pool,
        way(change),
        change.version,
        seconds(change.since_ms)
    );
    if let Some(plan) = &change.ring {
        let PlanView {
            number,
            moves,
            server: of,
            ..
        } = plan;
        let what = of
            .as_ref()
            .map_or_else(|| format!("parts: {moves}"), server);
        text += &format!(", plan {number} of its ring ({what})");
    }
    text += &format!("\n{}", change.hint);
    if change.proxies.is_empty() {
        return text;
    }
    let rows = change.proxies.iter().map(|proxy| {
        [
            proxy.name.clone(),
            state(change, &proxy.name).to_owned(),
            proxy.acknowledged.to_string(),
            format!("{} ago", seconds(proxy.silent_ms)),
        ]
    });
    let heads = "proxy|state|acknowledged|heard".split('|');
    format!("{text}\n{}", ask::plain_table(heads, rows))
}

/// Whether a proxy has followed the present step.
pub fn state(change: &ChangeView, proxy: &str) -> &'static str {
    match change.waits_for.iter().any(|name| name == proxy) {
        true => "behind",
        false => "followed",
    }
}

/// Where a change is, and where it goes.
fn way(change: &ChangeView) -> String {
    match change.stage == change.goal {
        true => change.stage.to_string(),
        false => format!("{} on the way to {}", change.stage, change.goal),
    }
}

/// A server that comes or goes.
pub fn server(of: &PlanServerView) -> String {
    let name = &of.name;
    match of.what {
        ServerOrder::Add => format!("server {name} comes"),
        ServerOrder::Drain => format!("server {name} is drained"),
        ServerOrder::Lose => format!("server {name} is lost"),
    }
}

/// Milliseconds, in seconds.
pub fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1_000.0)
}

fn begun(change: &ChangeView) -> String {
    let ChangeView { pool, goal, .. } = change;
    let count = change.proxies.len();
    format!(
        "pool {pool} goes to {goal}, with {count} proxies; to watch: evenkeel changes show, evenkeel changes history"
    )
}

/// What has become of a pool whose change was taken back.
pub fn withdrawn(change: &ChangeView) -> String {
    match change.ring {
        Some(_) => format!("the ring of pool {} stays as it is", change.pool),
        None => format!("pool {} stays with its former servers", change.pool),
    }
}

/// A line for each event.
fn history(body: &ChangeEventsBody, now_unix_s: u64) -> String {
    if body.events.is_empty() {
        return "nothing has happened since the coordinator was started".to_owned();
    }
    let rows = body.events.iter().rev().map(|event| {
        let ChangeEvent {
            step, goal, plan, ..
        } = event;
        let goal = goal.map(|goal| format!("to {goal}"));
        let plan = plan.map(|plan| format!("plan {plan}"));
        [
            format!("{} s ago", now_unix_s.saturating_sub(event.unix_s.into())),
            event.pool.clone(),
            event.what.to_string(),
            step.version.to_string(),
            step.stage.to_string(),
            goal.or(plan).unwrap_or_else(|| event.proxies.join(", ")),
        ]
    });
    let heads = "when|pool|what|step|stage|who, where to, or by what";
    ask::plain_table(heads.split('|'), rows).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_coordinator_core::{ChangeNews, FollowerView, Step};
    use evenkeel_types::BootId;

    fn change() -> ChangeView {
        let proxy = |name: &str, acknowledged| FollowerView {
            name: name.into(),
            boot: BootId(1),
            acknowledged,
            silent_ms: 12_340,
            end_would_show: true,
            gone_after_ms: None,
        };
        ChangeView {
            pool: "main".into(),
            stage: Stage::Quiesced,
            goal: Stage::Warming,
            version: 2,
            since_ms: 60,
            former_hits_ppm: None,
            proxies: vec![proxy("p1", 2), proxy("p2", 1)],
            ring: None,
            waits_for: vec!["p2".into()],
            hint: "waits for proxy p2".into(),
        }
    }

    #[test]
    fn a_change_is_told_with_what_it_waits_for() {
        let text = overview(&ChangesView {
            changes: vec![change(), change()],
        });
        let first =
            "pool main: quiesced on the way to warming, step 2, for 0.1 s\nwaits for proxy p2\n";
        assert!(text.starts_with(first), "{text}");
        let row = |name: &str| {
            let mut lines = text.lines();
            lines
                .find(|line| line.trim().starts_with(name))
                .expect("a row")
        };
        assert!(row("p1").contains("followed"), "{text}");
        assert!(row("p2 ").contains("behind"), "{text}");
        assert!(row("p2 ").contains("12.3 s ago"), "{text}");
        let nobody = ChangesView { changes: vec![] };
        assert_eq!(overview(&nobody), "no proxy follows a pool here");
    }

    #[test]
    fn the_newest_event_stands_above() {
        let event = |what, goal, proxies: &[&str]| ChangeEvent {
            unix_s: 1_700_000_000,
            pool: "main".into(),
            what,
            step: Step::FIRST,
            goal,
            plan: None,
            proxies: proxies.iter().map(|name| (*name).to_owned()).collect(),
        };
        let events = vec![
            event(ChangeNews::GoalSet, Some(Stage::Warming), &[]),
            event(ChangeNews::WithdrawnUnacknowledged, None, &["p1", "p2"]),
        ];
        let text = history(&ChangeEventsBody { events }, 1_700_000_012);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("withdrawn_unacknowledged"), "{text}");
        assert!(lines[1].contains("p1, p2"), "{text}");
        assert!(lines[1].contains(" 12 s ago"), "{text}");
        assert!(lines[2].contains("to warming"), "{text}");
    }

    #[test]
    fn what_was_wished_is_told_with_what_to_watch() {
        let said = begun(&change());
        let words = "pool main goes to warming, with 2 proxies; to watch: evenkeel changes show";
        assert!(said.starts_with(words), "{said}");
    }
}
