//! What requests to the coordinator's API and its errors look like.

use serde::{Deserialize, Serialize};

/// What a request that changes something has to be sent as.
pub const JSON: &str = "application/json";

/// By which programs of Evenkeel show that they are no web page: pages cannot set headers that begin with `sec-`
/// (forbidden request-headers of the Fetch standard).
pub const NO_PAGE: &str = "sec-evenkeel";

/// An error as the API tells it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What is wrong.
    pub error: ErrorDetail,
}

/// What is wrong, for programs and people.
#[derive(Debug, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// One of a fixed set of words.
    pub reason: String,
    /// One line for people.
    pub message: String,
    /// Address of the coordinator that leads, from one that does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
}

/// Reason of every error of a coordinator that does not lead.
pub const NOT_LEADER: &str = "not_leader";

/// Longest text of a peer's error that is repeated to people, in characters.
pub const SHOWN_ERROR_LEN: usize = 300;

/// One line of bounded length, whatever a peer sent.
pub fn shortened(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(SHOWN_ERROR_LEN).map(printable).collect()
}
