//! Flags of `evenkeel top`.

use crate::ask::Format;
use evenkeel_member::access::AccessArgs;

/// Shows servers, their load and their hot keys, live.
///
/// ? on the screen tells its keys, and what the columns mean.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Servers to watch, HOST or HOST:PORT; memcached's own servers, too
    #[arg(value_name = "SERVER")]
    pub servers: Vec<String>,

    /// Watch all servers of this coordinator's cluster [default: the first of EVENKEEL_COORDINATOR, or 127.0.0.1:11210]
    #[arg(long, value_name = "URL", conflicts_with = "servers")]
    pub coordinator: Option<String>,

    /// Watch the servers of this Evenkeel proxy as it sees them: what waits for each, what is refused
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with_all = ["servers", "coordinator"])]
    pub proxy: Option<String>,

    /// How the coordinator lets this command in
    #[command(flatten)]
    pub access: AccessArgs,

    /// Time between two looks, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub interval: f64,

    /// Look twice, print what came between, and end: for scripts
    #[arg(long)]
    pub once: bool,

    /// How to print; JSON is printed once
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}
