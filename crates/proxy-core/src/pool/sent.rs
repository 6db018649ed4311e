//! A read of a key that is tracked, and the names of copies.

use crate::ids::BackendId;
use crate::show::kinds::Show;
use evenkeel_hotkeys::client::ReadTicket;
use evenkeel_hotkeys::plain::{NAME_PREFIX_LEN, NamePrefix, Wants};

/// Where a tracked read goes, and what is known of it.
pub(crate) struct Sent {
    pub ticket: ReadTicket,
    pub to: BackendId,
    /// Of a replica.
    pub name: Option<NamePrefix>,
    /// Of the key's place in the pool, by which gets that wait for its home are found.
    pub place_hash: u64,
}

/// What is before the key of an `mg`.
const MG: &[u8] = b"mg ";

impl Sent {
    /// Puts the name of the copy in front of the key of the `mg` that begins at `start`.
    #[inline]
    pub fn put_name(name: Option<&NamePrefix>, out: &mut Vec<u8>, start: usize) {
        if let Some(name) = name {
            let at = start + MG.len();
            debug_assert!(out[start..].starts_with(MG));
            out.splice(at..at, name.as_bytes().iter().copied());
        }
    }

    /// The question to a copy becomes that to the home.
    pub fn take_name(question: &mut Vec<u8>) {
        question.drain(MG.len()..MG.len() + NAME_PREFIX_LEN);
    }
}

/// What the application sees of the answer to a classic read, or to one of the binary protocol.
pub(crate) fn wants_of(show: Show) -> Wants {
    match show {
        Show::Value { with_cas: true, .. } | Show::Binary(_) => Wants::CAS,
        _ => Wants::VALUE,
    }
}

/// How a copy is asked in classic commands.
pub(crate) const GET: &[u8] = b"get ";

/// How the home is, no matter who asks, for the truth has the CAS unique, too.
pub(crate) const GETS: &[u8] = b"gets ";
