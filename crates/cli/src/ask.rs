//! How commands ask the coordinator and print its answer.

use anyhow::Context;
use clap::ValueEnum;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Row, Table};
use evenkeel_coordinator::DEFAULT_LISTEN;
use evenkeel_member::access::{Access, AccessArgs};
use evenkeel_member::client::ApiClient;
use evenkeel_runtime::{UsageError, print_line};
use serde::Serialize;
use std::time::Duration;

/// Names the coordinators of this machine's servers and proxies, and of commands.
const COORDINATOR_VARIABLE: &str = "EVENKEEL_COORDINATOR";

/// Longest wait of a command for one answer. A coordinator answers what changes something once that is saved, which may take as long on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The coordinator that a command asks which has commands of its own.
#[derive(Clone, Debug, clap::Args)]
pub struct CoordinatorArgs {
    /// The coordinator to ask [default: the first of EVENKEEL_COORDINATOR, or 127.0.0.1:11210]
    #[arg(long, value_name = "URL", global = true)]
    pub coordinator: Option<String>,

    /// How the coordinator lets this command in
    #[command(flatten)]
    pub access: AccessArgs,
}

/// A server of a cluster that something is done to.
#[derive(Clone, Debug, clap::Args)]
pub struct ServerArgs {
    /// The server, by the name that `evenkeel top` shows
    pub server: String,

    #[command(flatten)]
    coordinator: CoordinatorArgs,
}

/// How figures are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

impl CoordinatorArgs {
    /// A client of that coordinator. Does not connect yet.
    ///
    /// # Errors
    /// The address is none, or a file cannot be used.
    pub fn client(&self) -> Result<ApiClient, UsageError> {
        client(&self.address(), &self.access)
    }

    /// Where it is.
    pub fn address(&self) -> String {
        self.coordinator.clone().unwrap_or_else(usual_coordinator)
    }
}

/// The coordinator that is asked where the command line names none: the first that the environment names, or one of this machine.
pub fn usual_coordinator() -> String {
    let named = std::env::var(COORDINATOR_VARIABLE).unwrap_or_default();
    first_of(&named).unwrap_or(DEFAULT_LISTEN).to_owned()
}

/// The first of addresses that commas separate.
fn first_of(list: &str) -> Option<&str> {
    list.split(',').map(str::trim).find(|one| !one.is_empty())
}

impl ServerArgs {
    /// A client of that coordinator. Does not connect yet.
    ///
    /// # Errors
    /// The address is none, or a file cannot be used.
    pub fn client(&self) -> Result<ApiClient, UsageError> {
        self.coordinator.client()
    }
}

/// A client of the coordinator at this address that shows what it is to show. Does not connect yet.
///
/// # Errors
/// The address is none, or a file cannot be used.
pub fn client(address: &str, access: &AccessArgs) -> Result<ApiClient, UsageError> {
    let (access, warning) = Access::load(access).map_err(UsageError)?;
    if let Some(warning) = warning {
        eprintln!("evenkeel: {warning}");
    }
    let client = ApiClient::with_access(address, &access);
    let client = client.map_err(|error| UsageError(error.to_string()))?;
    Ok(client.with_timeout(ANSWER_TIMEOUT))
}

impl Format {
    /// Prints a list or a table of facts: as `table`, or as JSON over several lines.
    ///
    /// # Errors
    /// Nobody reads it any more, or it cannot be stored.
    pub fn print<T: Serialize>(
        self,
        facts: &T,
        table: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        let text = match self {
            Format::Table => table(facts),
            Format::Json => serde_json::to_string_pretty(facts)?,
        };
        print_line(&text).context("failed to write the answer")
    }

    /// Prints what has become of a wish: in a `sentence`, or as JSON in a line.
    ///
    /// # Errors
    /// Likewise.
    pub fn print_done<T: Serialize>(
        self,
        done: &T,
        sentence: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        let text = match self {
            Format::Table => sentence(done),
            Format::Json => serde_json::to_string(done)?,
        };
        print_line(&text).context("failed to write the answer")
    }
}

/// A table with these heads, between which stand bars. All but the first column are numbers.
pub fn table<R: Into<Row>>(heads: &'static str, rows: impl IntoIterator<Item = R>) -> Table {
    let mut table = plain_table(heads.split('|'), rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A table of words.
pub fn plain_table<R: Into<Row>>(
    heads: impl IntoIterator<Item = &'static str>,
    rows: impl IntoIterator<Item = R>,
) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(heads);
    table.add_rows(rows);
    table
}
