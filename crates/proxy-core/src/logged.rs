//! A request as it is logged.

use crate::ids::ClientId;
use serde::Serialize;

/// A request as it is logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoggedRequest {
    /// The connection of the application; not told as it is.
    #[serde(skip)]
    pub client: ClientId,
    /// `sample`, or `slow`.
    pub why: &'static str,
    /// As it was sent to the server.
    pub command: &'static str,
    /// The key as servers know it; of several the first. Absent if it is no UTF-8, or only its hash is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A key that is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_base64: Option<String>,
    /// XXH3 of the key (64 bits, seed 0), in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_hash: Option<String>,
    /// How many keys the line has.
    #[serde(skip_serializing_if = "is_one")]
    pub keys: usize,
    /// How many of several keys were found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hits: Option<usize>,
    /// Position of the route, from 1 on, or `others`.
    pub route: String,
    /// Name of the pool.
    pub pool: String,
    /// The server that answered; absent if none was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What became of it, in a word.
    pub outcome: &'static str,
    /// The words of an error of the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Length of the request as it was sent to the server.
    pub request_bytes: usize,
    /// Length of the server's answer.
    pub answer_bytes: usize,
    /// Microseconds until it was written to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_us: Option<u64>,
    /// Microseconds from then until the answer was there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_us: Option<u64>,
    /// Both together, or how long an answer was waited for in vain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_us: Option<u64>,
    /// Identical gets that were answered with it.
    #[serde(skip_serializing_if = "is_zero")]
    pub collapsed: u32,
    /// How often it was put to a server again.
    #[serde(skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// It went to another server because its key's own is out of use.
    #[serde(skip_serializing_if = "is_false")]
    pub failover: bool,
    /// It was put to a replica of a hot key.
    #[serde(skip_serializing_if = "is_false")]
    pub replica: bool,
}

fn is_one(count: &usize) -> bool {
    *count == 1
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl LoggedRequest {
    /// One line of JSON, newline included. The time is in milliseconds since 1970; the client is where it
    /// comes from, if that is known.
    pub fn write(&self, unix_ms: u64, client: Option<&str>, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        struct Whole<'a> {
            /// Seconds since 1970.
            time: f64,
            #[serde(skip_serializing_if = "Option::is_none")]
            client: Option<&'a str>,
            #[serde(flatten)]
            request: &'a LoggedRequest,
        }
        let whole = Whole {
            time: unix_ms as f64 / 1000.0,
            client,
            request: self,
        };
        let before = out.len();
        if serde_json::to_writer(&mut *out, &whole).is_err() {
            // Nothing in it can fail; but half a line would spoil the next.
            out.truncate(before);
            return;
        }
        out.push(b'\n');
    }
}
