//! Why a request is answered by the proxy itself, with an error: the words, and what they mean.

use crate::outage::Cause;
use core::fmt;
use evenkeel_protocol::{Quarantined, compose};
use evenkeel_types::CacheletId;

/// Why a request has no answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There is no map yet.
    NoMap,
    /// The map names no server for the key.
    NoOwner,
    /// Nobody is to own the key's cachelet before an operator says so.
    Quarantined(CacheletId),
    /// The server is down; it was not asked. With why, if that is known.
    Unavailable(String, Option<Cause>),
    /// Too much is queued for the server; it was not asked.
    Busy(String),
    /// The connection was lost before the answer.
    Lost(String),
    /// The answer did not come in time.
    Late(String),
    /// The server's answers make no sense.
    Confused(String),
    /// The key found no owner in time.
    Moving,
    /// What was asked before it on the same connection was not answered in time; it was not asked.
    BehindReads,
    /// Too many requests are parked.
    TooManyParked,
    /// Its pool asked nobody for too long, since it is about to change its servers.
    Quiesced,
    /// The former pool, which its own is warmed from, could not be asked.
    Former,
    /// Its steps took longer than a request may.
    ManySteps,
    /// It was executed, and this server may still have a copy of what was there before.
    CopyLeft(String),
    /// The server does not take what a command needs there.
    Refused(String),
    /// Others change its key all the time.
    Contended,
    /// It waited too long for a server that cannot keep up; it was not asked.
    Overloaded,
}

impl Failure {
    /// Whether a get may be answered as a miss. Not where we are at our own limits: that would turn
    /// a burst of requests into a burst of requests to the database behind the cache. Nor where it will stay one for as long
    /// as it takes somebody to look.
    pub(crate) fn is_absence(&self) -> bool {
        !matches!(
            self,
            Failure::Busy(_)
                | Failure::TooManyParked
                | Failure::Overloaded
                | Failure::Quarantined(_)
        )
    }

    /// Whether a server was asked, and did not answer as it should.
    pub fn was_asked(&self) -> bool {
        matches!(
            self,
            Failure::Lost(_) | Failure::Late(_) | Failure::Confused(_)
        )
    }

    /// The server that did not answer.
    pub fn server(&self) -> Option<&str> {
        match self {
            Failure::Unavailable(name, _)
            | Failure::Busy(name)
            | Failure::Lost(name)
            | Failure::Late(name)
            | Failure::Confused(name)
            | Failure::Refused(name)
            | Failure::CopyLeft(name) => Some(name),
            Failure::NoMap
            | Failure::NoOwner
            | Failure::Quarantined(_)
            | Failure::Moving
            | Failure::BehindReads
            | Failure::TooManyParked
            | Failure::Quiesced
            | Failure::Former
            | Failure::ManySteps
            | Failure::Contended
            | Failure::Overloaded => None,
        }
    }

    pub fn line(&self) -> Vec<u8> {
        server_error(format_args!("{self}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NoMap => f.write_str("no map of the cluster yet"),
            Failure::NoOwner => f.write_str("no server owns this key"),
            Failure::Quarantined(cachelet) => Quarantined(*cachelet).fmt(f),
            Failure::Unavailable(name, Some(cause)) => {
                write!(f, "backend {name} unavailable: {cause}")
            }
            Failure::Unavailable(name, None) => write!(f, "backend {name} unavailable"),
            Failure::Busy(name) => write!(f, "backend {name} has too many requests queued"),
            Failure::Lost(name) => write!(f, "backend {name} lost, outcome unknown"),
            Failure::Late(name) => write!(f, "backend {name} timed out, outcome unknown"),
            Failure::Confused(name) => write!(f, "backend {name} answered nonsense"),
            Failure::Moving => f.write_str("key is moving to another server"),
            Failure::BehindReads => f.write_str("requests before it were not answered in time"),
            Failure::TooManyParked => f.write_str("too many requests wait for moves and reads"),
            Failure::Quiesced => f.write_str("the pool waits for its coordinator"),
            Failure::Former => f.write_str("former pool unavailable"),
            Failure::ManySteps => f.write_str("its steps took too long together"),
            Failure::CopyLeft(name) => {
                write!(f, "backend {name} may have an old copy, outcome unknown")
            }
            Failure::Refused(name) => write!(
                f,
                "backend {name} takes no note of the key, outcome unknown"
            ),
            Failure::Contended => f.write_str("busy: others keep changing this key"),
            Failure::Overloaded => f.write_str("overloaded"),
        }
    }
}

/// What a request is answered whose route denies it.
pub(crate) const DENIED: &[u8] =
    b"CLIENT_ERROR denied: no route of the proxy takes this command for this key\r\n";

/// What a request that changes something is answered where it may not.
pub(crate) const READ_ONLY: &[u8] =
    b"CLIENT_ERROR read-only: the proxy's route for this key takes no writes\r\n";

/// What is said instead of asking a server for what it has no words for.
pub(crate) const NO_META: &[u8] =
    b"SERVER_ERROR the key's server knows no meta commands, which this needs\r\n";

/// What a compare-and-swap is answered while its key's server is out of use and others stand in.
pub(crate) const NO_CAS_ELSEWHERE: &[u8] =
    b"SERVER_ERROR the key's server is out of use, and another cannot compare its unique\r\n";

/// What a store is answered whose client flags say that its item is one of ours, in a pool that has such.
pub(crate) const MARK_FLAGS: &[u8] = b"CLIENT_ERROR client flags 1163283276 are the proxy's\r\n";

/// What a request is answered whose key pretends to be one of ours, in a pool that has such.
pub(crate) const RESERVED_KEY: &[u8] =
    b"CLIENT_ERROR keys that begin with byte 0x01 are the proxy's\r\n";

/// What a request is answered whose key leaves no room for the name of a ring's generation.
pub(crate) const NO_NAME: &[u8] =
    b"CLIENT_ERROR key too long: the name of its item takes 15 bytes more\r\n";

/// What a request is answered whose key leaves no room for the name of its note in a directory.
pub(crate) const NO_NOTE: &[u8] =
    b"CLIENT_ERROR key too long: the name of its note in the pool's directory takes 15 bytes\r\n";

/// What a command is answered that cannot be executed where another rack may hold the item.
pub(crate) const NO_CROSSING: &[u8] =
    b"CLIENT_ERROR flag N of mg and ms, E, and I of a set without C, do not go with architecture snoop or dir\r\n";

/// What a multi-get is answered whose first key begins as a limit does, and is none.
pub(crate) const BAD_LIMIT: &[u8] =
    b"CLIENT_ERROR bad limit: say limit:N, limit:N%, limit:Nms, or two of these with a comma, from 1 on, to 100% and 60000ms\r\n";

/// What a multi-get with a limit is answered that has more than [`LIMIT_KEYS_MAX`](crate::limits::LIMIT_KEYS_MAX) keys.
pub(crate) const LIMIT_TOO_LONG: &[u8] = b"CLIENT_ERROR a limit is for 1023 keys at most\r\n";

/// What `flush_all` is answered while a pool asks nobody.
pub(crate) const QUIESCED: &[u8] = b"SERVER_ERROR the pool waits for its coordinator\r\n";

/// `SERVER_ERROR` in the proxy's own words.
fn server_error(words: core::fmt::Arguments<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    compose::answer::server_error(&mut line, &words.to_string());
    line
}
