//! `evenkeel servers`: what an operator knows of servers and the coordinator cannot.

use crate::ask::{client, print};
use crate::top::Format;
use evenkeel_coordinator::access::AccessArgs;
use evenkeel_coordinator::api::RemovedView;

/// What is said of a server.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Removes a server that will not come back: its cachelets go to others, and its name is forgotten
    Remove(Box<RemoveArgs>),
}

/// The server has to be down, and its process must have ended: one that is only cut off could go on serving what others get.
/// A server that is alive is ended by SIGTERM, which hands over what it has.
#[derive(Clone, Debug, clap::Args)]
pub struct RemoveArgs {
    /// The server, by the name that `evenkeel top` shows
    pub server: String,

    /// Whom to ask
    #[arg(long, value_name = "URL")]
    pub coordinator: String,

    /// How the coordinator lets this command in
    #[command(flatten)]
    pub access: AccessArgs,

    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Removes the server.
///
/// # Errors
/// When the address is none, or the coordinator refuses or does not answer.
pub fn run(command: &Command) -> anyhow::Result<()> {
    let Command::Remove(args) = command;
    let removed = client(&args.coordinator, &args.access)?.remove_server(&args.server)?;
    let text = match args.format {
        Format::Table => sentence(&removed),
        Format::Json => serde_json::to_string(&removed)? + "\n",
    };
    print(&text)
}

fn sentence(removed: &RemovedView) -> String {
    let RemovedView { server, cachelets } = removed;
    match cachelets {
        0 => format!("{server} is removed; it owned nothing.\n"),
        _ => format!("{server} is removed; its {cachelets} cachelets go to others, empty.\n"),
    }
}
