//! `evenkeel locality check POOL KEY…`: how keys stand that one of several racks holds.
//!
//! A core that nobody connects to says which places a key has and what each is asked, as with [`explain`](crate::explain), so that it is what
//! a proxy with this file does. Then the places are asked, all of a key side by side: [`links`]. What their answers come to is
//! said by the core's [`KeyReport`].
//!
//! That is not one instant: a key that moves meanwhile may look wrong. A key with a fault is looked at again, and what each of
//! [`LOOKS_MAX`] looks has shown alike is a fault. One that moves to and fro in step with the looks may still be taken for faulty.

mod links;

use crate::args::Args;
use crate::config::{PoolPlan, Settings};
use crate::explain::{core, keys, refusal};
use crate::tls::TlsWays;
use clap::Args as ClapArgs;
use evenkeel_protocol::Limits;
use evenkeel_proxy_core::{HeldKey, KeyReport, RouteTable};
use evenkeel_runtime::UsageError;
use links::Links;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How often a key is looked at before something is called a fault. A command that moves a key takes some round trips.
const LOOKS_MAX: u32 = 5;

/// Between two looks: all pauses together take 0.8 s, whatever the number of keys.
const PAUSE: Duration = Duration::from_millis(200);

/// Which keys are looked at, and by which configuration.
#[derive(Clone, Debug, ClapArgs)]
pub struct KeyCheckArgs {
    /// A pool with architecture = "snoop" or "dir"
    #[arg(value_name = "POOL")]
    pub pool: String,

    /// The keys, as they leave the proxy's routes; `-` reads more from standard input, one a line
    #[arg(value_name = "KEY", required = true)]
    pub keys: Vec<String>,

    /// The file that the proxies are given
    #[arg(long, value_name = "FILE", env = "EVENKEEL_PROXY_CONFIG")]
    pub config: PathBuf,

    /// As a proxy's, where the file does not say it; whichever it is, all racks are asked
    #[arg(long, value_name = "NAME", env = "EVENKEEL_PROXY_RACK")]
    pub rack: Option<String>,
}

/// Looks how keys stand, each with what its places have shown. Waits for servers and between looks.
///
/// # Errors
/// [`UsageError`] when the file cannot be used, there is no such pool, or something is no key of it; then nobody is asked. What servers do not
/// answer is no error: it stands in their places.
pub fn look_at_keys(args: &KeyCheckArgs) -> anyhow::Result<Vec<KeyReport>> {
    let settings = Settings::read(&Args {
        config: Some(args.config.clone()),
        rack: args.rack.clone(),
        ..Args::default()
    });
    let settings = settings.map_err(|error| UsageError(error.line()))?;
    let settings = only(&args.pool, settings)?;
    let ways = TlsWays::default();
    let core = core(&settings, &ways)?;
    let mut held: Vec<(HeldKey, KeyReport)> = Vec::new();
    let mut refused = Vec::new();
    for key in keys(&args.keys)? {
        let shown = String::from_utf8_lossy(&key).into_owned();
        match core.held_key(&args.pool, &key) {
            Ok(found) => held.push((found, KeyReport::new(shown))),
            Err(words) => refused.push(format!("{shown:?}: {}", refusal(words))),
        }
    }
    if !refused.is_empty() {
        return Err(UsageError(refused.join("; ")).into());
    }
    let limits = Limits {
        item_size_max: settings.max_item_size,
        ..Limits::default()
    };
    look(&mut held, Links::new(ways, limits));
    Ok(held.into_iter().map(|(_, report)| report).collect())
}

/// Looks at all keys, and again at those with a fault as long as it is there.
fn look(held: &mut [(HeldKey, KeyReport)], mut links: Links) {
    for (key, report) in &mut *held {
        report.look(links.look_at(key));
    }
    for _ in 1..LOOKS_MAX {
        let mut faulty = held.iter_mut().filter(|(_, it)| !it.faults.is_empty());
        let Some(first) = faulty.next() else { return };
        pause();
        for (key, report) in [first].into_iter().chain(faulty) {
            report.look(links.look_at(key));
        }
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "a command of its own, which waits for others to be done"
)]
fn pause() {
    std::thread::sleep(PAUSE);
}

/// The settings of one pool of which one rack holds each item, and of its directory. Nothing else of a file is asked: there may be pools in it
/// whose servers a proxy has to look for.
fn only(pool: &str, mut settings: Settings) -> Result<Settings, UsageError> {
    let plans = settings.pools.iter();
    let over_racks = plans.filter_map(|plan| Some((&plan.name, plan.holding.as_ref()?)));
    let over_racks: Vec<_> = over_racks.collect();
    let Some((name, holding)) = over_racks.iter().find(|(name, _)| ***name == *pool) else {
        let there = match over_racks.as_slice() {
            [] => "no pool has".to_owned(),
            [(one, _)] => format!("pool {one} has"),
            several => {
                let names: Vec<&str> = several.iter().map(|(name, _)| &***name).collect();
                format!("pools {} have", names.join(", "))
            }
        };
        return Err(UsageError(format!(
            "there is no pool {pool:?} with architecture = \"snoop\" or \"dir\": {there} one of these"
        )));
    };
    let (name, directory) = (Arc::clone(name), holding.directory.clone());
    let is_kept = |plan: &PoolPlan| plan.name == name || directory.as_ref() == Some(&plan.name);
    settings.pools.retain(is_kept);
    settings.routes = Arc::new(RouteTable::all_to_first());
    Ok(settings)
}
