//! A proxy's log of requests, read as if it were a profile.
//!
//! A log has no sessions, pages, racks or lifetimes. So a session is a client's address, and what a connection asks for after a pause of
//! 50 ms is its next page. Of a request for several keys it has the first; the others are taken to belong to the same sessions as that
//! one.

use super::{Shown, open, wrong};
use evenkeel_profile::{
    Curves, Flags, Head, Lifetime, NO_LATENCY, NO_RACK, RECORD_LEN, Record, Report, Sampling,
};
use evenkeel_protocol::base64;
use evenkeel_runtime::UsageError;
use evenkeel_schemes::locality::Outcome;
use evenkeel_types::KeyHash;
use serde::Deserialize;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// What a connection asks for after such a pause is its next page.
const PAUSE_US: u64 = 50_000;

/// Connections beyond this are looked through for such as have paused, which are forgotten.
const CONNECTIONS_WORTH_A_LOOK: usize = 1 << 16;

/// Most bytes of a line: a key and names are far shorter.
const LINE_LEN_MAX: u64 = 64 << 10;

/// A line; see docs/proxy.md, "Log of requests".
#[derive(Debug, Deserialize)]
struct Line {
    time: f64,
    #[serde(default)]
    client: String,
    why: String,
    command: String,
    key: Option<String>,
    key_base64: Option<String>,
    key_hash: Option<String>,
    #[serde(default = "one")]
    keys: u32,
    hits: Option<u32>,
    pool: String,
    outcome: String,
    request_bytes: u64,
    answer_bytes: u64,
    took_us: Option<u64>,
    #[serde(default)]
    retries: u32,
    #[serde(default)]
    replica: bool,
}

fn one() -> u32 {
    1
}

/// Most keys of a line that are counted, so that a damaged one does not stand for billions.
const KEYS_MAX: u32 = 10_000;

/// What a log says.
///
/// # Errors
/// It cannot be read, or a line is not a line of a log.
pub(super) fn report(path: &Path) -> Result<Shown, UsageError> {
    // A head has the names of pools, which are in the lines.
    let mut pools: Vec<String> = Vec::new();
    each_line(path, |line| {
        if !pools.contains(&line.pool) && pools.len() < usize::from(u8::MAX) {
            pools.push(line.pool);
        }
    })?;
    let head = Head {
        record_len: RECORD_LEN,
        proxy: path.display().to_string(),
        sampling: Sampling::FULL,
        racks: Vec::new(),
        own_rack: None,
        pools: pools.clone(),
    };
    let mut curves = Curves::new(&head, |_| None);
    let mut report = Report::new(head);
    let (mut slow, mut several) = (0u64, 0u64);
    let mut pages = Pages::default();
    let mut number = 0;
    let is_cut_off = each_line(path, |line| {
        slow += u64::from(line.why == "slow");
        several += u64::from(line.keys > 1);
        let pool = pools.iter().position(|pool| *pool == line.pool);
        let pool = pool.map_or(u8::MAX, |pool| pool as u8);
        number += 1;
        line.each_record(pool, number, &mut pages, |record| {
            report.add(record);
            curves.add(record);
        });
    })?;
    let mut summary = report.summary();
    summary.remarks.push(
        "this is a log of requests: it is right if it has them all (--request-log-sample 1); of a sample by chance, pages look smaller than they are, and ps larger".to_owned(),
    );
    if slow > 0 {
        summary.remarks.push(format!(
            "{slow} lines are there because they were slow: they are more than their share unless all requests are logged"
        ));
    }
    if several > 0 {
        summary.remarks.push(format!(
            "{several} lines are of several keys, of which the log has the first: the others are taken to belong to the same sessions"
        ));
    }
    if is_cut_off {
        summary
            .remarks
            .push("the log is cut off within its last line".to_owned());
    }
    Ok(Shown {
        summary,
        curves: curves.curves(),
    })
}

/// Shows each line; whether there was the beginning of another at the end.
fn each_line(path: &Path, mut show: impl FnMut(Line)) -> Result<bool, UsageError> {
    let mut source = BufReader::new(open(path)?);
    let mut text = Vec::new();
    let mut number = 0;
    loop {
        text.clear();
        number += 1;
        let mut bounded = std::io::Read::take(&mut source, LINE_LEN_MAX);
        let read = bounded.read_until(b'\n', &mut text);
        if read.map_err(|error| wrong(path, &error))? == 0 {
            return Ok(false);
        }
        match serde_json::from_slice(&text) {
            Ok(line) => show(line),
            Err(_) if !text.ends_with(b"\n") && (text.len() as u64) < LINE_LEN_MAX => {
                return Ok(true);
            }
            Err(error) => {
                return Err(UsageError(format!(
                    "{}, line {number}: no line of a log of requests: {error}",
                    path.display()
                )));
            }
        }
    }
}

impl Line {
    /// A record for each key. `number` is the line's, from 1 on.
    fn each_record(&self, pool: u8, number: u64, pages: &mut Pages, mut take: impl FnMut(&Record)) {
        // A log has milliseconds; lines are told apart by what is below that.
        let unix_us = (self.time.max(0.0) * 1000.0).round() as u64 * 1000 + number % 1000;
        let address = self.client.rsplit_once(':');
        let address = address.map_or(&self.client[..], |(address, _)| address);
        let session = KeyHash::of(address.as_bytes()).0;
        let page = pages.page(&self.client, unix_us);
        let keys = self.keys.clamp(1, KEYS_MAX);
        let hits = match self.outcome.as_str() {
            "hit" => keys,
            _ => self.hits.unwrap_or_default().min(keys),
        };
        let (outcome, first_key) = (self.outcome(), self.key());
        let share = |bytes: u64| u32::try_from(bytes / u64::from(keys)).unwrap_or(u32::MAX);
        // What answers a get of several keys is in the answers of those that were found.
        let of_hits = self.answer_bytes / u64::from(hits.max(1));
        for place in 0..keys {
            let outcome = match outcome {
                Outcome::GetHit | Outcome::GetMiss if place < hits => Outcome::GetHit,
                Outcome::GetHit | Outcome::GetMiss => Outcome::GetMiss,
                outcome => outcome,
            };
            let answer_bytes = match outcome {
                Outcome::GetHit => u32::try_from(of_hits).unwrap_or(u32::MAX),
                Outcome::GetMiss if hits > 0 => 0,
                _ => share(self.answer_bytes),
            };
            let latency_us = self.took_us.and_then(|took| u32::try_from(took).ok());
            take(&Record {
                unix_us,
                lifetime: Lifetime::FOREVER,
                key: first_key.wrapping_add(u64::from(place)),
                session,
                page,
                client: session as u32 & 0xff_ffff,
                pool,
                request_bytes: share(self.request_bytes),
                answer_bytes,
                latency_us: latency_us.unwrap_or(NO_LATENCY),
                own_rack: NO_RACK,
                answering_rack: NO_RACK,
                outcome,
                flags: Flags::OF_PAGES
                    .and(Flags::OF_KEYS)
                    .and(Flags::REPLICA.when(self.replica))
                    .and(Flags::RETRIED.when(self.retries > 0)),
            });
        }
    }

    /// Hash of the first key.
    fn key(&self) -> u64 {
        if let Some(hash) = &self.key_hash {
            return u64::from_str_radix(hash, 16).unwrap_or_default();
        }
        let key = match (&self.key, &self.key_base64) {
            (Some(key), _) => key.clone().into_bytes(),
            (None, Some(encoded)) => {
                let mut decoded = vec![0; encoded.len()];
                // What is no base64 is a key without bytes.
                let len = base64::decode(encoded.as_bytes(), &mut decoded);
                decoded.truncate(len.unwrap_or_default());
                decoded
            }
            (None, None) => Vec::new(),
        };
        KeyHash::of(&key).0
    }

    /// Of gets, the one that means misses. A meta command does not say its mode: `ms` is taken for a `set`, `ma` for an `incr`.
    fn outcome(&self) -> Outcome {
        let command = match self.command.as_str() {
            "mg" | "gets" | "gat" | "gats" => "get",
            "ms" => "set",
            "md" => "delete",
            "ma" => "incr",
            "prepend" => "append",
            command => command,
        };
        match (command, self.outcome.as_str()) {
            ("get", "hit" | "some" | "miss" | "unavailable" | "touched" | "not_found") => {
                Outcome::GetMiss
            }
            ("set", "stored") => Outcome::SetHit,
            ("set", "not_stored" | "server_error") => Outcome::SetMiss,
            ("add", "stored") => Outcome::AddHit,
            ("add", "not_stored") => Outcome::AddMiss,
            ("replace", "stored") => Outcome::ReplaceHit,
            ("replace", "not_stored") => Outcome::ReplaceMiss,
            ("append", "stored") => Outcome::AppendHit,
            ("append", "not_stored") => Outcome::AppendMiss,
            ("cas", "stored") => Outcome::CasStored,
            ("cas" | "set", "exists") => Outcome::CasExists,
            ("cas" | "set", "not_found") => Outcome::CasNotFound,
            ("delete", "deleted") => Outcome::DeleteHit,
            ("delete", "not_found") => Outcome::DeleteMiss,
            ("incr", "counted") => Outcome::IncrHit,
            ("incr", "not_found") => Outcome::IncrMiss,
            ("decr", "counted") => Outcome::DecrHit,
            ("decr", "not_found") => Outcome::DecrMiss,
            _ => Outcome::Other,
        }
    }
}

/// Which page each connection is at.
#[derive(Debug, Default)]
struct Pages {
    /// When it was heard of last, and its page.
    connections: HashMap<String, (u64, u32)>,
    begun: u32,
}

impl Pages {
    fn page(&mut self, client: &str, now_us: u64) -> u32 {
        if self.connections.len() > CONNECTIONS_WORTH_A_LOOK {
            self.connections
                .retain(|_, (last_us, _)| now_us.saturating_sub(*last_us) < PAUSE_US);
        }
        match self.connections.get_mut(client) {
            Some((last_us, page)) if now_us.saturating_sub(*last_us) < PAUSE_US => {
                *last_us = now_us;
                *page
            }
            _ => {
                self.begun = self.begun.wrapping_add(1);
                let page = (now_us, self.begun);
                self.connections.insert(client.to_owned(), page);
                self.begun
            }
        }
    }
}
