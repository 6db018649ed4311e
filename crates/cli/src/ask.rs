//! How commands ask the coordinator and print its answer.

use anyhow::Context;
use evenkeel_coordinator::access::{Access, AccessArgs};
use evenkeel_coordinator::client::ApiClient;
use evenkeel_runtime::UsageError;
use std::io::{self, Write};

/// The coordinator that a command asks which has commands of its own.
#[derive(Clone, Debug, clap::Args)]
pub struct CoordinatorArgs {
    /// Whom to ask
    #[arg(long, value_name = "URL", global = true)]
    pub coordinator: Option<String>,

    /// How the coordinator lets this command in
    #[command(flatten)]
    pub access: AccessArgs,
}

impl CoordinatorArgs {
    /// A client of that coordinator. Does not connect yet.
    ///
    /// # Errors
    /// The address is missing or none, or a file cannot be used.
    pub fn client(&self) -> Result<ApiClient, UsageError> {
        // An option that stands behind commands of a command, too, cannot be required.
        let address = self.coordinator.as_deref();
        let address =
            address.ok_or_else(|| UsageError("--coordinator URL is missing".to_owned()))?;
        client(address, &self.access)
    }
}

/// A client of the coordinator at this address that shows what it is to show. Does not connect yet.
///
/// # Errors
/// The address is none, or a file cannot be used.
pub fn client(address: &str, access: &AccessArgs) -> Result<ApiClient, UsageError> {
    let access = Access::load(access).map_err(UsageError)?;
    ApiClient::with_access(address, &access).map_err(|error| UsageError(error.to_string()))
}

/// Prints an answer.
///
/// # Errors
/// Nobody reads it any more, or it cannot be stored.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("failed to write the answer")
}
