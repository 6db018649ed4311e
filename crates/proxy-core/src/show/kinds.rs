//! How applications want to see answers.

use evenkeel_protocol::binary::Echo;

/// How the application wants to see an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// Nothing: `noreply`.
    Nothing,
    /// `VALUE` of `get`, `gets`, `gat` and `gats`; nothing for a miss.
    Value { with_cas: bool, last: bool },
    /// The line of a meta command. Only a get is `quiet` here: the others leave it to the server.
    Meta {
        verb: Verb,
        quiet: bool,
        unasked: Unasked,
    },
    /// A line of `set` and its kin.
    Store { is_cas: bool },
    /// A line of `delete`.
    Delete,
    /// A line of `incr` and `decr`.
    Number { up: bool },
    /// A line of `touch`.
    Touch,
    /// `OK` once all backends have said so.
    Flush,
    /// A packet of the binary protocol, or nothing, as the opcode says.
    Binary(Echo),
}

impl Show {
    /// Whether the application has asked for the version of what it stores.
    pub fn tells_version(self) -> bool {
        match self {
            Show::Meta { unasked, .. } => !unasked.cas,
            Show::Binary(_) => true,
            _ => false,
        }
    }
}

/// What the proxy has asked of an item besides what the application did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unasked {
    /// Its CAS unique.
    pub cas: bool,
    /// Its client flags.
    pub flags: bool,
    /// Its value.
    pub value: bool,
}

/// A meta command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Set,
    Delete,
    Arithmetic { up: bool },
    Debug,
}
