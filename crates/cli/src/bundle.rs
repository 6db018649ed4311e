//! `evenkeel bundle`: copies of pools' items, seen and switched on and off.

use crate::ask::{self, CoordinatorArgs, Format};
use crate::changes::{seconds, state};
use anyhow::ensure;
use clap::Subcommand;
use evenkeel_coordinator_core::{BundleSwitchRequest, BundleView, BundlesView, Stage};

/// Shows the pools whose proxies keep copies of items, so that wide multi-gets ask few servers, and switches copies on and off.
///
/// Copies of a pool are off, clearing or on, for all its proxies together: none reads copies before all delete them with each write. All
/// proxies have to say the same of copies in their files.
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
    /// Shows each pool with its proxies and what their files say, and what it waits for
    Show {
        /// Which; without it, all
        pool: Option<String>,
    },
    /// Switches copies of a pool on, and returns when that is accepted: the proxies follow by themselves
    On {
        /// Which
        pool: String,
        /// How many proxies have the pool in their files, as you know: one that the coordinator does not know of would be left behind
        #[arg(long, value_name = "N")]
        proxies: usize,
    },
    /// Switches copies of a pool off, likewise; those that are there are not read again, and go by their time to live
    Off {
        /// Which
        pool: String,
        /// How many proxies have the pool in their files, as you know
        #[arg(long, value_name = "N")]
        proxies: usize,
    },
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
            let mut view = client.bundles()?;
            if let Some(pool) = pool {
                view.bundles.retain(|bundle| bundle.change.pool == *pool);
                ensure!(
                    !view.bundles.is_empty(),
                    "no pool {pool:?} keeps copies here"
                );
            }
            format.print(&view, overview)
        }
        What::On { pool, proxies } => {
            let request = BundleSwitchRequest { proxies: *proxies };
            format.print_done(&client.switch_bundle_on(pool, &request)?, switched)
        }
        What::Off { pool, proxies } => {
            let request = BundleSwitchRequest { proxies: *proxies };
            format.print_done(&client.switch_bundle_off(pool, &request)?, switched)
        }
    }
}

/// A paragraph for each pool.
fn overview(view: &BundlesView) -> String {
    if view.bundles.is_empty() {
        return "no pool keeps copies here".to_owned();
    }
    let bundles = view.bundles.iter().map(details);
    bundles.collect::<Vec<_>>().join("\n\n")
}

/// How far a pool is, what it waits for, and what its proxies say.
fn details(bundle: &BundleView) -> String {
    let change = &bundle.change;
    let mut text = format!("pool {}: copies {}", change.pool, bundle.switch);
    if change.stage != change.goal {
        text += &format!(", to be switched {}", goal(bundle));
    }
    text += &format!(
        ", stage {}, step {}, for {}",
        change.stage,
        change.version,
        seconds(change.since_ms)
    );
    if let Some(plan) = &bundle.plan {
        text += &format!(", plan {}: {}", plan.number, plan.of);
    }
    text += &format!("\n{}", change.hint);
    if change.proxies.is_empty() {
        return text;
    }
    let rows = change.proxies.iter().map(|proxy| {
        let wish = bundle.wishes.iter().find(|it| it.proxy == proxy.name);
        let fits = wish.map_or("-", |it| if it.fits { "fits" } else { "other" });
        [
            proxy.name.clone(),
            state(change, &proxy.name).to_owned(),
            proxy.acknowledged.to_string(),
            format!("{} ago", seconds(proxy.silent_ms)),
            fits.to_owned(),
            wish.map_or_else(|| "-".to_owned(), |it| it.wish.to_string()),
        ]
    });
    let heads = "proxy|state|acknowledged|heard|file|says".split('|');
    format!("{text}\n{}", ask::plain_table(heads, rows))
}

fn goal(bundle: &BundleView) -> &'static str {
    match bundle.change.goal {
        Stage::Quiesced | Stage::Warming => "on",
        Stage::Former | Stage::Closing | Stage::Done => "off",
    }
}

fn switched(bundle: &BundleView) -> String {
    let pool = &bundle.change.pool;
    let count = bundle.change.proxies.len();
    format!(
        "copies of pool {pool} are switched {}, with {count} proxies; to watch: evenkeel bundle show {pool}, evenkeel changes history",
        goal(bundle)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_control::bundles::{BundlePlan, BundleWish};
    use evenkeel_coordinator_core::{BundleWishView, ChangeView, FollowerView};
    use evenkeel_types::BootId;

    fn bundle() -> BundleView {
        let wish = |copies| BundleWish {
            copies,
            servers: 4,
            fingerprint: 0xbeef,
        };
        let proxy = |name: &str, acknowledged| FollowerView {
            name: name.into(),
            boot: BootId(1),
            acknowledged,
            silent_ms: 12_340,
            end_would_show: true,
            gone_after_ms: None,
        };
        let said = |proxy: &str, copies, fits| BundleWishView {
            proxy: proxy.into(),
            wish: wish(copies),
            fits,
        };
        BundleView {
            change: ChangeView {
                pool: "main".into(),
                stage: Stage::Quiesced,
                goal: Stage::Warming,
                version: 3,
                since_ms: 60,
                proxies: vec![proxy("p1", 3), proxy("p2", 2), proxy("p3", 0)],
                former_hits_ppm: None,
                ring: None,
                waits_for: vec!["p2".into(), "p3".into()],
                hint: "the file says otherwise of proxy p2".into(),
            },
            switch: "clearing".into(),
            plan: Some(BundlePlan {
                number: 1,
                token: 7,
                of: wish(2),
            }),
            wishes: vec![said("p1", 2, true), said("p2", 3, false)],
        }
    }

    #[test]
    fn copies_are_told_with_who_says_what_of_them() {
        let text = overview(&BundlesView {
            bundles: vec![bundle(), bundle()],
        });
        let first = "pool main: copies clearing, to be switched on, stage quiesced, step 3, for 0.1 s, plan 1: 2 copies on 4 servers \
                     (000000000000beef)\nthe file says otherwise of proxy p2\n";
        assert!(text.starts_with(first), "{text}");
        let row = |name: &str| {
            let mut lines = text.lines();
            lines
                .find(|line| line.trim().starts_with(name))
                .expect("a row")
        };
        let fits = row("p1 ");
        assert!(fits.contains("followed") && fits.contains("fits"), "{text}");
        for word in ["behind", "12.3 s ago", "other", "3 copies on 4 servers"] {
            assert!(row("p2 ").contains(word), "{word} in {text}");
        }
        assert!(row("p3 ").trim_end().ends_with('-'), "{text}");
        let nobody = BundlesView { bundles: vec![] };
        assert_eq!(overview(&nobody), "no pool keeps copies here");
    }

    #[test]
    fn what_rests_is_told_without_a_goal() {
        let mut off = bundle();
        (off.change.stage, off.change.goal) = (Stage::Former, Stage::Former);
        (off.switch, off.plan) = ("off".into(), None);
        off.change.proxies.clear();
        let text = details(&off);
        assert!(
            text.starts_with("pool main: copies off, stage former, step 3, for 0.1 s\n"),
            "{text}"
        );
        assert!(!text.contains("acknowledged"), "{text}");
    }

    #[test]
    fn what_was_ordered_is_told_with_what_to_watch() {
        let words = "copies of pool main are switched on, with 3 proxies; to watch: evenkeel bundle show main, evenkeel changes history";
        assert_eq!(switched(&bundle()), words);
        let mut off = bundle();
        off.change.goal = Stage::Done;
        assert!(switched(&off).starts_with("copies of pool main are switched off"));
    }
}
