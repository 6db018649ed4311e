//! A client of the coordinator for commands that ask it.

use evenkeel_coordinator::access::{Access, AccessArgs};
use evenkeel_coordinator::client::ApiClient;
use evenkeel_runtime::UsageError;

/// A client of the coordinator at this address that shows what it is to show. Does not connect yet.
///
/// # Errors
/// The address is none, or a file cannot be used.
pub fn client(address: &str, access: &AccessArgs) -> Result<ApiClient, UsageError> {
    let access = Access::load(access).map_err(UsageError)?;
    ApiClient::with_access(address, &access).map_err(|error| UsageError(error.to_string()))
}
