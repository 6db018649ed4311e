//! What the page is told, as JSON.

use evenkeel_types::UnixSeconds;
use serde::Serialize;

/// The state of now: rates are those of the second before.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DashboardView {
    /// When, in seconds since 1970.
    pub unix_s: UnixSeconds,
    /// Requests of applications a second.
    pub requests_per_s: f64,
    /// Keys that were read, a second.
    pub reads_per_s: f64,
    /// Those of them that were found.
    pub hits_per_s: f64,
    /// Writes, deletes and touches a second.
    pub writes_per_s: f64,
    /// Bytes to servers and from them, a second.
    pub bytes_per_s: f64,
    /// What half of the requests took at most, waiting in the proxy included; absent where none was answered.
    pub p50_us: Option<u64>,
    /// The same of 99 of 100.
    pub p99_us: Option<u64>,
    /// Requests that were refused because a server has too much to do, a second.
    pub shed_per_s: f64,
    /// Connections of applications.
    pub clients: u64,
    /// By name.
    pub servers: Vec<ServerView>,
    /// The keys that get most, the hottest first.
    pub hottest: Vec<KeyView>,
    /// The newest, oldest first.
    pub events: Vec<EventView>,
    /// The newest column of the history, of each measure.
    pub heat: Vec<HeatView>,
}

/// A server: all workers' connections to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerView {
    /// As error messages name it; a worker of an Evenkeel server with its number.
    pub name: String,
    /// A pool that it is of.
    pub pool: String,
    /// `idle`, `connecting`, `up` or `down`: of several workers' what an operator should know first.
    pub state: &'static str,
    /// Why it is not reached; absent where it is.
    pub cause: Option<String>,
    /// Answers a second. A line for many keys has one.
    pub load: f64,
    /// Bytes to it and from it, a second.
    pub bytes_per_s: f64,
    /// From when a request was sent to when it was answered, half of them; absent where none was.
    pub p50_us: Option<u64>,
    /// The same of 99 of 100.
    pub p99_us: Option<u64>,
    /// Requests that wait to be sent, or to be answered.
    pub queued: u64,
    /// Requests that were refused because it has too much to do, a second.
    pub shed_per_s: f64,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyView {
    /// As applications know it; other bytes than letters, digits and signs as `%XX`.
    pub key: String,
    /// Its pool.
    pub pool: String,
    /// Its server, where it has one and no route renames it.
    pub home: Option<String>,
    /// Reads a second.
    pub gets_per_s: f64,
    /// Writes a second.
    pub sets_per_s: f64,
    /// Bytes of values a second.
    pub bytes_per_s: f64,
    /// The part of all requests that is for it.
    pub share: f64,
    /// Copies at other servers.
    pub copies: u8,
    /// Why there are none.
    pub why: &'static str,
}

/// A server that went out of use, or came back.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventView {
    /// When, in seconds since 1970.
    pub unix_s: UnixSeconds,
    /// Its name.
    pub server: String,
    /// Whether it is in use now.
    pub is_up: bool,
    /// Why not; empty where it is.
    pub cause: String,
}

/// What the history tells of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HeatMeasure {
    /// Answers a second.
    #[default]
    Load,
    /// Bytes to it and from it, a second.
    Bytes,
}

impl HeatMeasure {
    /// All of them.
    pub const ALL: [HeatMeasure; 2] = [HeatMeasure::Load, HeatMeasure::Bytes];

    /// By its name.
    pub fn named(name: &str) -> Option<HeatMeasure> {
        match name {
            "load" => Some(HeatMeasure::Load),
            "bytes" => Some(HeatMeasure::Bytes),
            _ => None,
        }
    }
}

/// The last columns, as a coordinator tells them of workers: there are no cachelets here. All numbers but means are whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeatView {
    /// What the numbers are.
    pub of: HeatMeasure,
    /// Milliseconds between two columns.
    pub interval_ms: u64,
    /// The servers that were there in any of the columns, by name.
    pub workers: Vec<HeatRow>,
    /// 0.
    pub cachelets: usize,
    /// The oldest first.
    pub columns: Vec<HeatColumn>,
}

/// A row: a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeatRow {
    /// Its name.
    pub server: String,
    /// None of its workers is meant.
    pub worker: Option<u16>,
}

/// A second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeatColumn {
    /// When, in seconds since 1970.
    pub unix_s: UnixSeconds,
    /// Keys that were read, a second.
    pub reads: u64,
    /// Those of them that were found.
    pub hits: u64,
    /// See [`DashboardView::p50_us`].
    pub p50_us: Option<u64>,
    /// See [`DashboardView::p99_us`].
    pub p99_us: Option<u64>,
    /// See [`DashboardView::shed_per_s`].
    pub shed_per_s: f64,
    /// All servers together.
    pub sum: u64,
    /// That by server.
    pub mean: f64,
    /// Each of [`HeatView::workers`]; absent where it was not there.
    pub workers: Vec<Option<u64>>,
    /// Empty.
    pub cachelets: Vec<Option<u64>>,
    /// Empty.
    pub owners: Vec<Option<u16>>,
}
