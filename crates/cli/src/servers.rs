//! `evenkeel servers`: what an operator knows of servers and the coordinator cannot.

use crate::ask::{Format, ServerArgs};
use evenkeel_coordinator_core::RemovedView;

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
    /// Which, and the coordinator to ask
    #[command(flatten)]
    pub of: ServerArgs,

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
    let removed = args.of.client()?.remove_server(&args.of.server)?;
    args.format.print_done(&removed, sentence)
}

fn sentence(removed: &RemovedView) -> String {
    let RemovedView { server, cachelets } = removed;
    match cachelets {
        0 => format!("{server} is removed; it owned nothing."),
        _ => format!("{server} is removed; its {cachelets} cachelets go to others, empty."),
    }
}
