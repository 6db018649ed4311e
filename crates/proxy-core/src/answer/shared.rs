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
//! In pools of plain servers the gets of one key take part that go the quick way (see `quick.rs`) or are of a replicated key (`hot/`),
//! and whatever else is asked ends the joining of what is before it. Workers of a cluster are asked by `question.rs`: there it does so
//! for its own key alone. Each of those who share the answer to a replicated key's read judges it by his own ticket.

use crate::client::{Answered, State};
use crate::limits::STREAM_MIN;
use crate::pipe::in_flight::{Ask, Progress, Question, Tag};
use crate::request::multi_get::key_of_get;
use crate::show::{Tally, Unfit};
use crate::{BackendId, ClientId, ProxyCore, show};
use core::iter;
use core::mem;
use evenkeel_protocol::Reply;
use evenkeel_protocol::text;
use evenkeel_types::Instant;

/// What comes before how many others were answered with what was read before: the last of our own flags. It makes two reads no less
/// identical.
pub(crate) const COUNT_FLAG: &[u8] = b" H";

/// A number for each of some keys, by hash; a later key of the same place takes over from an earlier.
///
/// Of a connection to a server: the number of the latest request for the key that may be joined. It is checked, so that nothing has to
/// be cleared. Of a pool: how many reads of the key joined others or went to replicas and its home was not told, which the next read there
/// tells; else the home would take a key for the less popular the more reads of it wait, or go elsewhere.
#[derive(Debug)]
pub(crate) struct Places<const COUNT: usize>(Box<[(u64, u64); COUNT]>);

impl<const COUNT: usize> Default for Places<COUNT> {
    fn default() -> Self {
        Places(Box::new([(0, 0); COUNT]))
    }
}

impl<const COUNT: usize> Places<COUNT> {
    /// What was last noted for the hash, if no other took its place.
    #[inline]
    pub fn find(&self, hash: u64) -> Option<u64> {
        let (known, number) = self.0[hash as usize % COUNT];
        (known == hash).then_some(number)
    }

    /// Nothing is noted for the hash any more.
    #[inline]
    pub fn forget(&mut self, hash: u64) {
        let place = &mut self.0[hash as usize % COUNT];
        if place.0 == hash {
            *place = (0, 0);
        }
    }

    /// Notes this number.
    #[inline]
    pub fn note(&mut self, hash: u64, number: u64) {
        self.0[hash as usize % COUNT] = (hash, number);
    }

    /// Counts one more.
    #[inline]
    pub fn count(&mut self, hash: u64) {
        self.note(hash, self.find(hash).unwrap_or(0) + 1);
    }
}

/// A request without what tells of others that were answered: what is before that, and behind.
#[inline]
pub(crate) fn words<'r>(request: &'r [u8], tag: &Tag) -> (&'r [u8], &'r [u8]) {
    let (start, end) = tag.flags;
    let mut places = request[start..end].windows(COUNT_FLAG.len());
    let count = places.position(|place| place == COUNT_FLAG);
    let before = count.map_or(end, |count| start + count);
    (&request[..before], &request[end..])
}

/// What those are answered for whom there is no memory: [`text::OUT_OF_MEMORY_WRITING`].
pub(crate) const NO_MEMORY: Reply<'static> =
    Reply::ServerError(b"out of memory writing get response");

/// Whose the answer to a shared get is besides the one who asked first: connections, and the places among
/// their answers.
pub(crate) type Others = Vec<(ClientId, u64)>;

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
    pub(crate) fn shared_values(
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
        self.share(tag.client, tag.slot, reply, raw);
        self.release(now, tag.client);
        for (client, slot) in *others {
            match self.has_room_for_copy(raw.len()) {
                true => self.share(client, slot, reply, raw),
                false => self.share(client, slot, &NO_MEMORY, text::OUT_OF_MEMORY_WRITING),
            }
            self.release(now, client);
        }
        Ok(())
    }

    /// Whether there is memory for another copy of an answer. One answer, asked for once, can become thousands of
    /// copies before the driver has a chance to look; each of those who get none is told so.
    pub(crate) fn has_room_for_copy(&mut self, len: usize) -> bool {
        if len < STREAM_MIN {
            return true;
        }
        // An output that grows takes twice as much.
        let has_room = 2 * len <= self.room;
        if has_room {
            self.room -= 2 * len;
        } else {
            self.stats.proxy_copies_refused += 1;
        }
        has_room
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
