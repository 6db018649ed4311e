//! `evenkeel proxies`: who speaks for applications, and what an operator knows of proxies and the coordinator cannot.

use crate::ask::{self, CoordinatorArgs, Format};
use crate::cachelets::whole;
use clap::Subcommand;
use evenkeel_coordinator_core::{ProxiesView, RemovedProxyView};

/// Shows the proxies that the coordinator has heard of.
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
    /// Lists them
    List,
    /// Removes a proxy whose process has ended without a word: changes of pools do not wait for it any more
    ///
    /// Its process must have ended: one that is only cut off would go on by a former step of a pool's change, and its clients would
    /// read what others have overwritten.
    Remove {
        /// Which
        name: String,
    },
}

/// Asks, or says what is wanted, and prints the answer.
///
/// # Errors
/// When the address is none, or the coordinator refuses or does not answer.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let client = args.coordinator.client()?;
    match args.command.as_ref().unwrap_or(&What::List) {
        What::List => args.format.print(&client.proxies()?, table),
        What::Remove { name } => args
            .format
            .print_done(&client.remove_proxy(name)?, sentence),
    }
}

fn table(view: &ProxiesView) -> String {
    if view.proxies.is_empty() {
        return "no proxies".to_owned();
    }
    let rows = view.proxies.iter().map(|proxy| {
        // The sum of nothing is -0.
        let load = proxy.requests_per_second.iter().fold(0.0, |a, b| a + b);
        [
            proxy.name.clone(),
            format!("{}:{}", proxy.host, proxy.port),
            if proxy.up { "up" } else { "silent" }.to_owned(),
            format!("{:.1} s ago", proxy.silent_ms as f64 / 1_000.0),
            proxy.epoch.to_string(),
            whole(load),
            proxy.config_hash.clone().unwrap_or_default(),
        ]
    });
    let heads = "proxy|at|state|heard|map|requests/s|file";
    ask::plain_table(heads.split('|'), rows).to_string()
}

fn sentence(removed: &RemovedProxyView) -> String {
    let RemovedProxyView { proxy, pools } = removed;
    match pools.len() {
        0 => format!("{proxy} is removed; it followed no pool."),
        _ => format!(
            "{proxy} is removed; no change waits for it any more, of {}.",
            pools.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_coordinator_core::{ProxyView, ServedView};
    use evenkeel_types::{BootId, Epoch};

    #[test]
    fn a_proxy_is_a_row() {
        let proxy = ProxyView {
            name: "p1".into(),
            host: "h".into(),
            port: 11211,
            rack: None,
            boot: BootId(1),
            up: false,
            epoch: Epoch(7),
            requests_per_second: vec![10.0, 20.4],
            served: ServedView::default(),
            silent_ms: 12_340,
            config_hash: Some("c0ffee".into()),
        };
        let view = ProxiesView {
            epoch: Epoch(7),
            proxies: vec![proxy],
        };
        let text = table(&view);
        for word in ["p1", "h:11211", "silent", "12.3 s ago", "30", "c0ffee"] {
            assert!(text.contains(word), "{word} in {text}");
        }
    }

    #[test]
    fn what_was_removed_is_told() {
        let removed = |pools: &[&str]| RemovedProxyView {
            proxy: "p1".into(),
            pools: pools.iter().map(|pool| (*pool).to_owned()).collect(),
        };
        assert!(sentence(&removed(&[])).ends_with("followed no pool."));
        assert!(sentence(&removed(&["a", "b"])).ends_with("of a, b."));
    }
}
