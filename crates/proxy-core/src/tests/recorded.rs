//! What is to be recorded of commands, by what a server answers that is asked them directly and always answers.

use super::twin::Server;
use super::world::World;
use crate::{ProfileConfig, ProxyConfig};
use evenkeel_profile::{Head, Lifetime, NO_RACK, RECORD_LEN, Record, Sampling};
use evenkeel_schemes::locality::Outcome;
use evenkeel_types::KeyHash;
use std::sync::Arc;

/// Requests are recorded so, of all pools of the configuration.
pub fn recording(config: &mut ProxyConfig, sampling: Sampling) {
    let pools = config.pools.iter().map(|pool| pool.name.to_string());
    config.profile = Some(ProfileConfig {
        head: Arc::new(Head {
            record_len: RECORD_LEN,
            proxy: String::new(),
            sampling,
            racks: Vec::new(),
            own_rack: None,
            pools: pools.collect(),
        }),
        own_rack: NO_RACK,
    });
}

/// All that was recorded since the last look.
pub fn recorded(world: &mut World) -> Vec<Record> {
    world.core.end_profile();
    world.pump();
    std::mem::take(&mut world.recorded)
}

/// What is to be recorded of one key of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    pub command: String,
    pub key: u64,
    pub outcome: Outcome,
    /// Bytes that the application gets, unless they depend on CAS uniques.
    pub bytes: Option<usize>,
    /// It may get none of them.
    pub is_quiet: bool,
    pub lifetime: Lifetime,
}

impl Expected {
    pub fn is(&self, record: &Record) -> bool {
        let bytes = record.answer_bytes as usize;
        let is_quiet = self.is_quiet && bytes == 0;
        record.key == self.key
            && record.outcome == self.outcome
            && (is_quiet || self.bytes.is_none_or(|expected| bytes == expected))
            && record.lifetime == self.lifetime
            && record.latency().is_some()
    }
}

/// Panics if the records are not those that are expected, in their order.
pub fn assert_recorded(records: &[Record], expected: &[Expected]) {
    for (at, expected) in expected.iter().enumerate() {
        let record = records.get(at);
        let is_it = record.is_some_and(|record| expected.is(record));
        assert!(is_it, "{at}: {expected:?} of {}\n{record:?}", records.len());
    }
    assert_eq!(records.len(), expected.len(), "{records:?}");
}

/// What is to be recorded of a command, by what the server says that is asked it, loudly.
pub fn expected(witness: &mut Server, command: &str) -> Vec<Expected> {
    let (line, rest) = command.split_once("\r\n").expect("a line");
    let words: Vec<&str> = line.split(' ').collect();
    let is_quiet = words.contains(&"noreply") || words.contains(&"q");
    let loud = words.iter().filter(|word| !["noreply", "q"].contains(word));
    let loud = loud.copied().collect::<Vec<_>>().join(" ");
    witness.ask(format!("{loud}\r\n{rest}").as_bytes());
    let said = std::mem::take(&mut witness.output);
    let said = String::from_utf8(said).expect("text");
    let first = said.split(['\r', ' ']).next().unwrap_or_default();
    let one = |outcome, lifetime| {
        vec![Expected {
            command: command.to_owned(),
            key: KeyHash::of(words.get(1).unwrap_or(&"").as_bytes()).0,
            outcome,
            bytes: Some(said.len()),
            is_quiet,
            lifetime,
        }]
    };
    let has_stored = first == "STORED" || first == "HD";
    let hit_or_miss = |hit, miss| match first {
        "NOT_FOUND" | "NOT_STORED" | "NF" | "NS" | "EN" => miss,
        "CLIENT_ERROR" | "SERVER_ERROR" => Outcome::Other,
        _ => hit,
    };
    let is_refused = first == "ERROR"
        || said.starts_with("CLIENT_ERROR bad")
        || said.starts_with("CLIENT_ERROR invalid");
    let forever = Lifetime::FOREVER;
    match words[0] {
        _ if is_refused => Vec::new(),
        "get" | "gets" => values(command, &words[1..], &said, forever),
        "gat" => values(command, &words[2..], &said, lives(words[1])),
        "set" => one(
            hit_or_miss(Outcome::SetHit, Outcome::SetMiss),
            lives(words[3]),
        ),
        "add" => one(
            hit_or_miss(Outcome::AddHit, Outcome::AddMiss),
            lives(words[3]),
        ),
        "replace" => one(
            hit_or_miss(Outcome::ReplaceHit, Outcome::ReplaceMiss),
            lives(words[3]),
        ),
        "append" | "prepend" => one(
            hit_or_miss(Outcome::AppendHit, Outcome::AppendMiss),
            forever,
        ),
        "cas" => {
            let outcome = match first {
                "STORED" => Outcome::CasStored,
                "EXISTS" => Outcome::CasExists,
                _ => Outcome::CasNotFound,
            };
            one(outcome, lives(words[3]))
        }
        "delete" | "md" => {
            let lifetime = meta_lives(&words, 2);
            one(
                hit_or_miss(Outcome::DeleteHit, Outcome::DeleteMiss),
                lifetime,
            )
        }
        "touch" => one(
            hit_or_miss(Outcome::GetHit, Outcome::GetMiss),
            lives(words[2]),
        ),
        "incr" => one(hit_or_miss(Outcome::IncrHit, Outcome::IncrMiss), forever),
        "decr" => one(hit_or_miss(Outcome::DecrHit, Outcome::DecrMiss), forever),
        "ma" if words.contains(&"MD") => {
            one(hit_or_miss(Outcome::DecrHit, Outcome::DecrMiss), forever)
        }
        "ma" => one(hit_or_miss(Outcome::IncrHit, Outcome::IncrMiss), forever),
        "mg" => one(
            hit_or_miss(Outcome::GetHit, Outcome::GetMiss),
            meta_lives(&words, 2),
        ),
        "ms" => {
            let mode = words.iter().find_map(|word| word.strip_prefix('M'));
            let (hit, miss) = match mode {
                Some("E") => (Outcome::AddHit, Outcome::AddMiss),
                Some("R") => (Outcome::ReplaceHit, Outcome::ReplaceMiss),
                Some("A" | "P") => (Outcome::AppendHit, Outcome::AppendMiss),
                _ => (Outcome::SetHit, Outcome::SetMiss),
            };
            let outcome = if has_stored { hit } else { miss };
            one(outcome, meta_lives(&words, 3))
        }
        "flush_all" => {
            let mut flush = one(Outcome::Flush, forever);
            flush[0].key = KeyHash::of(b"").0;
            flush
        }
        _ => Vec::new(),
    }
}

/// A `get` has as many records as it has keys.
fn values(command: &str, keys: &[&str], said: &str, lifetime: Lifetime) -> Vec<Expected> {
    let mut left = said;
    let keys = keys.iter().filter(|key| !key.is_empty());
    let of_key = |key: &&str| {
        let mut value = left.strip_prefix("VALUE ").into_iter();
        let head = value.next().and_then(|rest| rest.split_once("\r\n"));
        let len = head.and_then(|(head, _)| {
            let words: Vec<&str> = head.split(' ').collect();
            let size: usize = words[2].parse().expect("a length");
            (words[0] == *key).then_some("VALUE ".len() + head.len() + 2 + size + 2)
        });
        left = &left[len.unwrap_or(0)..];
        Expected {
            command: command.to_owned(),
            key: KeyHash::of(key.as_bytes()).0,
            outcome: match len {
                Some(_) => Outcome::GetHit,
                None => Outcome::GetMiss,
            },
            bytes: (!command.starts_with("gets")).then_some(len.unwrap_or(0)),
            is_quiet: false,
            lifetime,
        }
    };
    keys.map(of_key).collect()
}

/// An exptime in seconds from now.
fn lives(exptime: &str) -> Lifetime {
    match exptime.parse::<i64>().expect("a number") {
        0 => Lifetime::FOREVER,
        seconds => Lifetime::of_seconds(u32::try_from(seconds).unwrap_or(0)),
    }
}

fn meta_lives(words: &[&str], first: usize) -> Lifetime {
    let flags = words.iter().skip(first);
    let exptime = flags.filter_map(|word| word.strip_prefix('T')).next();
    exptime.map_or(Lifetime::FOREVER, lives)
}
