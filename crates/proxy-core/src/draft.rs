//! A request about one key that is about to be asked for the first time.

use crate::ids::{BackendId, ClientId, PoolId, RouteId};
use crate::pipe::in_flight::Ask;
use crate::profile::Class;
use crate::routes::RenameId;
use crate::routes::way::{WayKey, WayTo};
use crate::show::kinds::Show;
use evenkeel_protocol::{StoreMode, text};

/// What a request does with its key, as far as leases and repetition are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// A read that a replica can answer.
    Read,
    /// A read that only the home can answer.
    ReadAtHome,
    /// A read that changes the item, or may, but not its value.
    ReadAndWrite,
    /// What gives the key a value, or takes it.
    Write,
    /// Sets an exptime and nothing else.
    Touch,
    /// Neither reads a value nor changes one, and has no room for our own flags: `me`.
    Look,
}

/// What the answer to a write tells of the version that the key has then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tells {
    /// Nothing that could be made use of.
    Nothing,
    /// Of an `ms`: that of what it stored, if it is asked for it.
    Stored,
    /// Of an `md`: how new the miss is, if the key has replicas.
    Removed,
}

impl Tells {
    /// Of a store in this mode. The version of what was put together at the server says nothing without the value.
    pub fn of_store(mode: StoreMode) -> Self {
        match mode {
            StoreMode::Append | StoreMode::Prepend => Tells::Nothing,
            _ => Tells::Stored,
        }
    }
}

/// A request that is about to be asked for the first time.
#[derive(Debug)]
pub(crate) struct Draft<'k> {
    pub client: ClientId,
    /// The pool that it goes to.
    pub pool: PoolId,
    /// The server that it goes to instead of its key's own.
    pub place: Option<BackendId>,
    /// What the servers call the key.
    pub rename: RenameId,
    pub route: RouteId,
    /// The key as it is stored.
    pub key: &'k [u8],
    pub show: Show,
    pub ask: Ask,
    pub intent: Intent,
    /// Whether it is an `mg` that a copy of a hot key of a plain pool can answer.
    pub copies: bool,
    /// What the answer to a write tells of the version that the key has then.
    pub tells: Tells,
    /// What is recorded that it asks, and with which exptime, if it has one.
    pub class: Class,
    pub exptime: Option<i64>,
    /// Bytes of the request behind our own flags: the end of the line, and what follows it.
    pub behind_flags: usize,
}

impl Draft<'_> {
    /// Whether it is a read whose answer is the same for all who ask for it in the same words.
    pub(crate) fn is_shared(&self) -> bool {
        self.intent == Intent::Read && matches!(self.show, Show::Value { .. } | Show::Binary(_))
    }
}

impl<'k> Draft<'k> {
    /// A request of one line about one key, whose answer nobody gets to see. It counts as a read, until something else is said of it.
    #[inline]
    pub fn line(client: ClientId, way: &WayTo, key: WayKey<'k>, intent: Intent) -> Self {
        Draft {
            client,
            pool: way.pool,
            rename: way.rename,
            route: way.route,
            place: way.place,
            key: key.stored,
            show: Show::Nothing,
            ask: Ask::Single,
            intent,
            copies: false,
            tells: Tells::Nothing,
            class: match intent {
                Intent::Look => Class::Other,
                _ => Class::Get,
            },
            exptime: None,
            behind_flags: text::CRLF.len(),
        }
    }
}
