//! `evenkeel drain`: empties a server before it is taken away.

use crate::ask::client;
use crate::top::Format;
use evenkeel_coordinator::access::AccessArgs;
use evenkeel_coordinator::api::{DrainRequest, DrainView, limits};
use evenkeel_coordinator::client::ApiClient;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// How often it is looked how far a drain has come.
const LOOK: Duration = Duration::from_millis(500);

/// Gives the cachelets of a server to the others, and ends when it owns none: then it can be stopped.
///
/// They take what is cached in them along where both ends can do that, and are filled again at the new owners where not.
/// The server stays drained, over restarts too, until --cancel.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The server, by the name that `evenkeel top` shows
    pub server: String,

    /// Whom to ask
    #[arg(long, value_name = "URL")]
    pub coordinator: String,

    /// How the coordinator lets this command in
    #[command(flatten)]
    pub access: AccessArgs,

    /// Let the server take part again
    #[arg(long, conflicts_with_all = ["rate", "no_wait"])]
    pub cancel: bool,

    /// Cachelets that go in a second
    #[arg(long, value_name = "N", default_value_t = limits::DRAIN_RATE)]
    pub rate: u32,

    /// Do not wait until the server is empty
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
    let client = client(&args.coordinator, &args.access)?;
    let mut view = client.drain(&DrainRequest {
        server: args.server.clone(),
        drain: !args.cancel,
        cachelets_per_second: args.rate,
    })?;
    let waits = !args.cancel && !args.no_wait;
    let shows = args.format == Format::Table && io::stderr().is_terminal();
    while waits && view.draining && view.cachelets > 0 {
        if shows {
            eprint!("\r{} cachelets left ", view.cachelets);
        }
        std::thread::sleep(LOOK);
        view = look(&client, &args.server)?;
    }
    if shows && waits {
        eprintln!();
    }
    let text = match args.format {
        Format::Table => sentence(&view, waits),
        Format::Json => serde_json::to_string(&view)? + "\n",
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// How far the drain of a server has come.
fn look(client: &ApiClient, name: &str) -> anyhow::Result<DrainView> {
    let servers = client.servers()?.servers;
    let server = servers.into_iter().find(|server| server.name == name);
    let server = server.ok_or_else(|| anyhow::anyhow!("the coordinator knows {name} no more"))?;
    Ok(DrainView {
        server: server.name,
        draining: server.draining,
        cachelets: server.cachelets + server.released,
    })
}

fn sentence(view: &DrainView, waited: bool) -> String {
    let DrainView {
        server,
        draining,
        cachelets,
    } = view;
    match (draining, waited) {
        (true, true) => format!("{server} owns nothing any more and can be stopped\n"),
        (true, false) => format!("{server} is drained: {cachelets} cachelets are left\n"),
        (false, true) => format!("{server} takes part again: somebody has cancelled its drain\n"),
        (false, false) => format!("{server} takes part again\n"),
    }
}
