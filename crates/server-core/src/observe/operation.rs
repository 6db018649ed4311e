//! What a command does to its key, and what a key held, as the log names them.

use crate::shard::classes::class_of;
use crate::shard::engine::{At, Engine, ttl};
use evenkeel_protocol::binary::{self, Command};
use evenkeel_protocol::{Meta, Request, StoreMode, StoreVerb};
use evenkeel_types::Version;

/// What a key held at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Class, length of the value, version and seconds left of the item, if there is one.
    pub(crate) item: Option<(usize, usize, Version, u32)>,
}

impl Seen {
    /// Looks without leaving a trace.
    pub fn of(engine: &Engine, at: &At, key: &[u8]) -> Self {
        let item = engine.store.peek(at.cachelet, key, at.seconds);
        Seen {
            item: item.map(|item| {
                (
                    class_of(item.size()),
                    item.value().len(),
                    item.version(),
                    ttl(&item, at.seconds).unwrap_or(0),
                )
            }),
        }
    }

    pub(crate) fn found(&self) -> bool {
        self.item.is_some()
    }

    /// Class and length of the value; zeros without an item.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.item.map_or((0, 0), |(class, len, ..)| (class, len))
    }

    pub(crate) fn version(&self) -> Option<Version> {
        self.item.map(|(_, _, version, _)| version)
    }

    /// Seconds left; 0 for ever.
    pub(crate) fn ttl(&self) -> u32 {
        self.item.map_or(0, |(.., ttl)| ttl)
    }
}

/// What a command does to its key, as the log names it.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    /// Reads it.
    Read,
    /// Stores a value of this length.
    Store(&'static str, usize),
    /// Deletes it.
    Delete(&'static str),
    /// Counts up or down; may begin a number.
    Count,
    /// Something else that looks it up.
    Other,
}

impl Operation {
    /// What a command of the text protocol does.
    pub fn of(request: &Request<'_>) -> Self {
        match request {
            Request::Store(store) => {
                let command = match store.verb {
                    StoreVerb::Set => "set",
                    StoreVerb::Add => "add",
                    StoreVerb::Replace => "replace",
                    StoreVerb::Append => "append",
                    StoreVerb::Prepend => "prepend",
                    StoreVerb::Cas(_) => "cas",
                };
                Operation::Store(command, store.value.len())
            }
            Request::MetaSet(Meta { flags, value, .. }) => {
                let command = if flags.has(b'C') {
                    "cas"
                } else {
                    mode_name(flags.store_mode())
                };
                Operation::Store(command, value.len())
            }
            Request::Delete { .. } => Operation::Delete("delete"),
            Request::MetaDelete(_) => Operation::Delete("md"),
            Request::MetaGet(_) => Operation::Read,
            Request::Arithmetic { .. } | Request::MetaArithmetic(_) => Operation::Count,
            _ => Operation::Other,
        }
    }

    /// What a command of the binary protocol does.
    pub fn of_binary(request: &binary::Request<'_>) -> Self {
        match request.command {
            Command::Get { .. } | Command::GetAndTouch { .. } => Operation::Read,
            Command::Store { value, .. } if request.cas != 0 => {
                Operation::Store("cas", value.len())
            }
            Command::Store { mode, value, .. } => Operation::Store(mode_name(mode), value.len()),
            Command::Join {
                before: true,
                value,
                ..
            } => Operation::Store("prepend", value.len()),
            Command::Join { value, .. } => Operation::Store("append", value.len()),
            Command::Delete { .. } => Operation::Delete("delete"),
            Command::Arithmetic { .. } => Operation::Count,
            _ => Operation::Other,
        }
    }
}

fn mode_name(mode: StoreMode) -> &'static str {
    match mode {
        StoreMode::Set => "set",
        StoreMode::Add => "add",
        StoreMode::Replace => "replace",
        StoreMode::Append => "append",
        StoreMode::Prepend => "prepend",
    }
}
