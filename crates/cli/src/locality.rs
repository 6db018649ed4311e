//! `evenkeel locality`: pools over racks, of which one holds each item.

mod check;

use clap::Subcommand;

/// Pools with architecture = "snoop" or "dir". docs/locality.md says how they work.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What to do
    #[command(subcommand)]
    pub command: What,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum What {
    /// Says where keys stand, which of them two racks hold, and which notes lead nowhere
    ///
    /// The exit code is 1 where two racks hold a key, a note leads to no item, or a server cannot be asked. A key with a fault is looked at five
    /// times within a second; what each look has shown alike is a fault.
    Check(Box<check::Args>),
}

/// Does it.
///
/// # Errors
/// See the commands.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        What::Check(args) => check::run(args),
    }
}
