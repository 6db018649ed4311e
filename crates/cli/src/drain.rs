//! `evenkeel drain`: empties a server before it is taken away.

use crate::ask::{Format, ServerArgs};
use evenkeel_coordinator_core::{DrainRequest, DrainView, limits};
use evenkeel_member::client::ApiClient;
use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::time::Duration;

/// How often it is looked how far a drain has come.
const LOOK: Duration = Duration::from_millis(500);

/// Gives the cachelets of a server to the others, and ends when nobody asks it any more: then it can be stopped.
///
/// They take what is cached in them along where both ends can do that, and are filled again at the new owners where not.
/// The server stays drained, over restarts too, until --cancel.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Which, and the coordinator to ask
    #[command(flatten)]
    pub of: ServerArgs,

    /// Let the server take part again
    #[arg(long, conflicts_with_all = ["rate", "no_wait"])]
    pub cancel: bool,

    /// Cachelets that go in a second
    #[arg(long, value_name = "N", default_value_t = limits::DRAIN_RATE)]
    pub rate: u32,

    /// Do not wait until the server can be stopped
    #[arg(long)]
    pub no_wait: bool,

    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Says what is wanted, and waits until it is done.
///
/// # Errors
/// When the address is none, or the coordinator refuses or does not answer.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (client, server) = (args.of.client()?, &args.of.server);
    let mut view = client.drain(&DrainRequest {
        server: server.clone(),
        drain: !args.cancel,
        cachelets_per_second: args.rate,
    })?;
    let waits = !args.cancel && !args.no_wait;
    let shows = args.format == Format::Table && io::stderr().is_terminal();
    let mut waited = Waited::default();
    while waits && view.draining && !view.may_stop {
        waited.see(&view);
        if shows {
            eprint!("\r\x1b[K{}", progress(&view));
        }
        std::thread::sleep(LOOK);
        view = look(&client, server)?;
    }
    if shows && waits {
        eprint!("\r\x1b[K");
    }
    args.format
        .print_done(&view, |view| sentences(view, waits.then_some(&waited)))
}

/// How far the drain of a server has come.
fn look(client: &ApiClient, name: &str) -> anyhow::Result<DrainView> {
    Ok(client.drain_of(name)?.unwrap_or_else(|| DrainView {
        server: name.to_owned(),
        draining: false,
        cachelets: 0,
        awaited: Vec::new(),
        unheard: Vec::new(),
        may_stop: false,
    }))
}

/// What a drain was seen to wait for.
#[derive(Debug, Default)]
struct Waited {
    /// Most cachelets that it had still to give up.
    cachelets: usize,
    /// Members that had still to take over a map without it.
    members: BTreeSet<String>,
}

impl Waited {
    fn see(&mut self, view: &DrainView) {
        self.cachelets = self.cachelets.max(view.cachelets);
        self.members.extend(view.awaited.iter().cloned());
    }
}

/// What a drain waits for at present.
fn progress(view: &DrainView) -> String {
    match (view.cachelets, view.awaited.len()) {
        (0, 0) => "the coordinator has just begun: waiting for members to report".into(),
        (0, members) => format!("{members} members may still ask it"),
        (cachelets, _) => format!("{cachelets} cachelets left"),
    }
}

fn sentences(view: &DrainView, waited: Option<&Waited>) -> String {
    let DrainView {
        server,
        draining,
        cachelets,
        ..
    } = view;
    let Some(waited) = waited else {
        return match draining {
            true => format!("{server} is drained: {cachelets} cachelets are left"),
            false => format!("{server} takes part again"),
        };
    };
    if !draining {
        return format!("{server} takes part again: somebody has cancelled its drain");
    }
    let Waited { cachelets, members } = waited;
    let members = members.len();
    let mut said = format!(
        "waited for {cachelets} cachelets to go and for {members} members to take over the map without them\n"
    );
    for proxy in &view.unheard {
        said += &format!(
            "proxy {proxy} has not been heard of: if it runs, it may still ask {server}\n"
        );
    }
    said + &format!("{server} owns nothing any more and can be stopped")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(cachelets: usize, awaited: &[&str], unheard: &[&str]) -> DrainView {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        DrainView {
            server: "s2".into(),
            draining: true,
            cachelets,
            awaited: names(awaited),
            unheard: names(unheard),
            may_stop: cachelets == 0 && awaited.is_empty(),
        }
    }

    #[test]
    fn it_is_told_what_was_waited_for() {
        let mut waited = Waited::default();
        for seen in [
            view(9, &[], &[]),
            view(2, &[], &[]),
            view(0, &["p1", "p2"], &[]),
            view(0, &["p2"], &[]),
        ] {
            waited.see(&seen);
        }
        assert_eq!(
            sentences(&view(0, &[], &["p3"]), Some(&waited)),
            "waited for 9 cachelets to go and for 2 members to take over the map without them\n\
             proxy p3 has not been heard of: if it runs, it may still ask s2\n\
             s2 owns nothing any more and can be stopped"
        );
        assert_eq!(
            sentences(&view(3, &[], &[]), None),
            "s2 is drained: 3 cachelets are left"
        );
    }

    #[test]
    fn it_is_told_what_is_waited_for() {
        assert_eq!(progress(&view(9, &[], &[])), "9 cachelets left");
        assert_eq!(
            progress(&view(0, &["p1"], &[])),
            "1 members may still ask it"
        );
    }
}
