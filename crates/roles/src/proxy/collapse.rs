//! Identical gets that wait to be sent become one.
//!
//! Under load a turn of the worker brings many gets of a hot key from many connections. The first is put
//! into the queue of the key's server; while it has not been written, the others join it and are answered
//! with its answer. A get never joins one that was sent, nor one behind which something is queued that cannot be joined, a write or
//! a read in other words: the server carries the one out after the other was asked, as it would have carried out the other itself,
//! and no client has seen anything newer that it asked before. So nobody
//! reads anything older than without this. That costs the sharing among gets of different turns, and needs
//! no word about keys between workers and proxies when something is written.
//!
//! In pools of plain servers the gets of one key take part that go the quick way (see `quick.rs`), and whatever else is asked ends the
//! joining of what is before it. Workers of a cluster are asked by `question.rs`: there it does so for its own key alone, and each
//! of those who share an answer judges it by his own ticket.

use super::client::{Answered, State};
use super::in_flight::{Ask, Progress, Question, Tag};
use super::multi_get::key_of_get;
use super::show::{self, Tally, Unfit};
use super::{BackendId, ClientId, ProxyCore};
use core::{iter, mem};
use evenkeel_protocol::Reply;
use evenkeel_types::{Instant, KeyHash};

/// Places for gets that may be joined, of each connection to a server; a later one of the same place takes
/// over from an earlier.
const PLACES: usize = 64;

/// Where the gets stand that may be joined.
#[derive(Debug)]
pub(super) struct Joinable {
    /// By the hash of the key: the hash, and the number of the request on this connection. The latter is
    /// checked, so that nothing has to be cleared.
    places: Box<[(u64, u64); PLACES]>,
}

impl Default for Joinable {
    fn default() -> Self {
        Joinable {
            places: Box::new([(0, 0); PLACES]),
        }
    }
}

impl Joinable {
    /// The number of the latest request for a key of this hash, if no other took its place.
    #[inline]
    pub fn find(&self, hash: u64) -> Option<u64> {
        let (known, number) = self.places[hash as usize % PLACES];
        (known == hash).then_some(number)
    }

    /// No request for a key of this hash may be joined any more.
    #[inline]
    pub fn forget(&mut self, hash: u64) {
        let place = &mut self.places[hash as usize % PLACES];
        if place.0 == hash {
            *place = (0, 0);
        }
    }

    /// This request can be joined.
    #[inline]
    pub fn note(&mut self, hash: u64, number: u64) {
        self.places[hash as usize % PLACES] = (hash, number);
    }
}

/// How many reads joined others, of which their servers were not told: else a server would take a key for the less popular the more
/// reads of it wait. The next read of the key tells it. A later key of the same place takes over from an earlier.
#[derive(Debug, Default)]
pub(super) struct Untold {
    /// By the hash of the key: the hash, and the count. Empty until a read has joined another.
    places: Vec<(u64, u32)>,
}

impl Untold {
    /// How many of this key.
    #[inline]
    pub fn of(&self, hash: KeyHash) -> u32 {
        let place = self.places.get(hash.0 as usize % PLACES);
        place.map_or(0, |&(known, count)| match known == hash.0 {
            true => count,
            false => 0,
        })
    }

    /// One more has joined another.
    pub fn note(&mut self, hash: KeyHash) {
        let count = self.of(hash).saturating_add(1);
        self.places.resize(PLACES, (0, 0));
        self.places[hash.0 as usize % PLACES] = (hash.0, count);
    }

    /// The server is told.
    #[inline]
    pub fn forget(&mut self, hash: KeyHash) {
        if self.of(hash) > 0 {
            self.places[hash.0 as usize % PLACES] = (0, 0);
        }
    }
}

/// Whose the answer to a shared get is besides the one who asked first: connections, and the places among
/// their answers.
pub(super) type Others = Vec<(ClientId, u64)>;

impl Question {
    /// The same, asked by each for himself.
    pub fn split(mut self) -> impl Iterator<Item = Question> {
        let others = match &mut self.progress {
            Progress::Shared(others) => mem::take(&mut **others),
            _ => Others::new(),
        };
        if let Progress::Shared(_) = self.progress {
            self.progress = Progress::Nothing;
        }
        let (tag, bytes) = (self.tag, self.bytes.clone());
        let others = others.into_iter().map(move |(client, slot)| Question {
            tag: Tag {
                client,
                slot,
                ..tag
            },
            bytes: bytes.clone(),
            progress: Progress::Nothing,
        });
        iter::once(self).chain(others)
    }
}

impl ProxyCore {
    /// A line of the answer to a get that was asked for several.
    pub(super) fn shared_values(
        &mut self,
        now: Instant,
        id: BackendId,
        reply: &Reply<'_>,
        raw: &[u8],
    ) -> Result<(), Unfit> {
        let backend = self.backends.get_mut(id.0).ok_or(Unfit)?;
        let (question, request) = backend.awaited().ok_or(Unfit)?;
        debug_assert_eq!(request.tag.ask, Ask::Values);
        let is_value = match reply {
            Reply::Value(value) => {
                if key_of_get(question) != Some(value.key) {
                    return Err(Unfit);
                }
                true
            }
            Reply::End => false,
            reply if show::is_error(reply) => false,
            _ => return Err(Unfit),
        };
        let tag = request.tag;
        let Progress::Shared(others) = mem::replace(&mut request.progress, Progress::Answered)
        else {
            return Err(Unfit);
        };
        let outcome = match reply {
            Reply::Value(_) => Tally::GetHit,
            Reply::End => Tally::GetMiss,
            _ => Tally::Refused,
        };
        request.saw(raw.len(), outcome);
        if !is_value {
            self.done(id);
        }
        for (client, slot) in iter::once((tag.client, tag.slot)).chain(*others) {
            self.share(client, slot, reply, raw);
            self.release(now, client);
        }
        Ok(())
    }

    fn share(&mut self, id: ClientId, slot: u64, reply: &Reply<'_>, raw: &[u8]) {
        let Some(client) = self.clients.get_mut(id.0) else {
            return;
        };
        let answered = match reply {
            Reply::Value(_) => {
                client.saw_answer(raw.len());
                let mut bytes = self.spare.pop().unwrap_or_default();
                bytes.extend_from_slice(raw);
                Answered {
                    bytes,
                    is_error: false,
                    tally: Tally::GetHit,
                }
            }
            Reply::End => Answered::miss(),
            _ => Answered::refused(raw.to_vec()),
        };
        client.set_state(slot, State::Done(answered));
    }
}
