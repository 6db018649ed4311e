//! The profile: which requests of applications are recorded, and what of them.
//!
//! A request, or each key of a `get`, has a place among the answers to its application. With that place is noted, when it is
//! taken, who asks for what; when a server has answered it, which one and after how long; and when it is shown, and so leaves its place,
//! what came of it. Then the note is a record. So each key is recorded once, whichever way it went and however often servers were asked; and what no
//! server was asked for leaves its place without a record.
//!
//! Records gather in a chunk, which is the driver's when it is full or a second old. Without a profile there is one
//! look at [`Counts`](crate::counts::Counts) for each request.

use crate::config::ProfileConfig;
use crate::ids::PoolId;
use crate::pages::Visit;
use crate::stats::counters::Tally;
use core::mem;
use core::time::Duration;
use evenkeel_profile::{Flags, Head, Lifetime, NO_LATENCY, NO_RACK, Record, Sampling};
use evenkeel_protocol::{Direction, StoreMode, StoreVerb};
use evenkeel_schemes::locality::Outcome;
use evenkeel_types::limits::EXPTIME_RELATIVE_MAX_S;
use evenkeel_types::{Instant, KeyHash, UnixSeconds};
use std::sync::Arc;

/// Records of a chunk: some 70 KiB in memory, so that handing one over costs next to nothing for each.
const CHUNK_RECORDS: usize = 1024;

/// How long records wait for their chunk to be full.
const CHUNK_AGE: Duration = Duration::from_secs(1);

const LATENCY_MAX: u32 = NO_LATENCY - 1;

/// Records of a worker, in the order in which they were shown.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileChunk {
    /// By which head they are to be understood.
    pub head: Arc<Head>,
    /// At least one.
    pub records: Vec<Record>,
}

/// Where the note of a request is kept while its answer is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoteId(u32);

impl NoteId {
    /// It is not recorded.
    pub const NONE: NoteId = NoteId(u32::MAX);
}

/// What an application asks, in the classes of the paper on locality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Also what touches.
    Get,
    Set,
    /// A store that was refused since its value is too large; what was there is deleted.
    TooLarge,
    Add,
    Replace,
    /// Or `prepend`.
    Append,
    Cas,
    Delete,
    Incr,
    Decr,
    Flush,
    Other,
}

impl Class {
    /// That of a store.
    pub fn of_store(verb: StoreVerb) -> Self {
        match verb {
            StoreVerb::Set => Class::Set,
            StoreVerb::Add => Class::Add,
            StoreVerb::Replace => Class::Replace,
            StoreVerb::Append | StoreVerb::Prepend => Class::Append,
            StoreVerb::Cas(_) => Class::Cas,
        }
    }

    /// The same in other words: in this mode, on condition that the item has a unique or not.
    pub fn of_mode(mode: StoreMode, compares: bool) -> Self {
        match mode {
            _ if compares => Class::Cas,
            StoreMode::Set => Class::Set,
            StoreMode::Add => Class::Add,
            StoreMode::Replace => Class::Replace,
            StoreMode::Append | StoreMode::Prepend => Class::Append,
        }
    }

    /// That of arithmetic.
    pub fn of_direction(direction: Direction) -> Self {
        match direction {
            Direction::Incr => Class::Incr,
            Direction::Decr => Class::Decr,
        }
    }

    /// What a command is whose answer counts as this.
    fn outcome(self, tally: Tally) -> Outcome {
        use Tally::{Exists, NotFound, NotStored, Nothing, Refused, Stored};
        match (self, tally) {
            // The answer is a miss.
            (_, Tally::GetUnavailable) => Outcome::GetMiss,
            // Of what is not told it is only known that it was done.
            (Class::Get, Tally::GetHit | Tally::TouchHit | Nothing) => Outcome::GetHit,
            (Class::Get, Tally::GetMiss | Tally::TouchMiss | NotFound) => Outcome::GetMiss,
            (Class::Set, Stored | Nothing) => Outcome::SetHit,
            // For want of memory.
            (Class::Set, NotStored | Refused) => Outcome::SetMiss,
            (Class::Add, Stored | Nothing) => Outcome::AddHit,
            (Class::Add, NotStored) => Outcome::AddMiss,
            (Class::Replace, Stored | Nothing) => Outcome::ReplaceHit,
            (Class::Replace, NotStored) => Outcome::ReplaceMiss,
            (Class::Append, Stored | Nothing) => Outcome::AppendHit,
            (Class::Append, NotStored) => Outcome::AppendMiss,
            (Class::Cas, Tally::CasHit | Stored | Nothing) => Outcome::CasStored,
            (Class::Cas, Tally::CasBad | Exists) => Outcome::CasExists,
            (Class::Cas, Tally::CasMiss | NotFound) => Outcome::CasNotFound,
            (Class::Delete, Tally::DeleteHit | Nothing) => Outcome::DeleteHit,
            (Class::Delete, Tally::DeleteMiss | NotFound) => Outcome::DeleteMiss,
            (Class::Incr, Tally::IncrHit | Nothing) => Outcome::IncrHit,
            (Class::Incr, Tally::IncrMiss | NotFound) => Outcome::IncrMiss,
            (Class::Decr, Tally::DecrHit | Nothing) => Outcome::DecrHit,
            (Class::Decr, Tally::DecrMiss | NotFound) => Outcome::DecrMiss,
            (Class::TooLarge, Nothing | NotFound) => Outcome::SetMiss,
            (Class::Flush, Nothing) => Outcome::Flush,
            _ => Outcome::Other,
        }
    }
}

/// A request that gets its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'k> {
    pub pool: Option<PoolId>,
    /// The key as servers know it, without names of ours.
    pub key: &'k [u8],
    pub class: Class,
    pub lifetime: Lifetime,
}

/// What a server's answer tells, whatever it says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub rack: u8,
    pub flags: Flags,
}

/// A request that awaits its answer: its record, as far as it is known. Its time is that at which it was asked, until it is answered.
#[derive(Debug)]
struct Note {
    record: Record,
    class: Class,
    /// Why it is recorded.
    sampled: Flags,
}

/// What one worker records.
#[derive(Debug)]
pub(crate) struct Profiler {
    config: ProfileConfig,
    /// As the head has it.
    pub sampling: Sampling,
    /// In the order of the head.
    pools: Vec<PoolId>,
    /// Wall-clock time of `Instant(0)`, in microseconds since 1970.
    pub origin_us: u64,
    /// When the present turn began.
    pub now: Instant,
    notes: Vec<Note>,
    /// Places of `notes` that are free.
    free: Vec<u32>,
    chunk: Vec<Record>,
    /// When the chunk got its first record.
    begun: Instant,
    full: Vec<Vec<Record>>,
}

impl Profiler {
    pub fn new(config: &ProfileConfig, pools: Vec<PoolId>, origin_us: u64, now: Instant) -> Self {
        Profiler {
            config: config.clone(),
            sampling: config.head.sampling,
            pools,
            origin_us,
            now,
            notes: Vec::new(),
            free: Vec::new(),
            chunk: Vec::new(),
            begun: now,
            full: Vec::new(),
        }
    }

    /// Whether it records in this way, of these pools.
    pub fn is_by(&self, config: &ProfileConfig, pools: &[PoolId]) -> bool {
        self.config == *config && self.pools == pools
    }

    /// In which samples a request of this connection is, for a key that is distributed by this hash. Lists and rings look at 32 bits of it.
    #[inline]
    pub fn picks(&self, visit: &Visit, hash: u64) -> Flags {
        let is_picked = self.sampling.picks_key(hash & u64::from(u32::MAX));
        visit.flags.and(Flags::OF_KEYS.when(is_picked))
    }

    /// [`Profiler::note`] of a plain `get` whose key servers know as the application does.
    #[inline(never)]
    pub fn note_get(
        &mut self,
        visit: Option<&Visit>,
        pool: PoolId,
        key: &[u8],
        hash: u64,
    ) -> NoteId {
        let Some(visit) = visit else {
            return NoteId::NONE;
        };
        let flags = self.picks(visit, hash);
        if flags == Flags::default() {
            return NoteId::NONE;
        }
        let asked = Asked {
            pool: Some(pool),
            key,
            class: Class::Get,
            lifetime: Lifetime::FOREVER,
        };
        self.note(visit, &asked, flags)
    }

    /// A request that is in these samples gets its place.
    #[inline(never)]
    pub fn note(&mut self, visit: &Visit, asked: &Asked<'_>, sampled: Flags) -> NoteId {
        let position = |pool| self.pools.iter().position(|known| *known == pool);
        let position = asked.pool.and_then(position).unwrap_or_default();
        let note = Note {
            record: Record {
                unix_us: self.unix_us(),
                lifetime: asked.lifetime,
                key: KeyHash::of(asked.key).0,
                session: visit.session,
                page: visit.page,
                client: visit.client(),
                pool: u8::try_from(position).unwrap_or(u8::MAX),
                request_bytes: 0,
                answer_bytes: 0,
                latency_us: NO_LATENCY,
                own_rack: self.config.own_rack,
                answering_rack: NO_RACK,
                outcome: Outcome::Other,
                flags: sampled,
            },
            class: asked.class,
            sampled,
        };
        match self.free.pop() {
            Some(place) => {
                self.notes[place as usize] = note;
                NoteId(place)
            }
            None => {
                let place = u32::try_from(self.notes.len()).expect("of requests under way");
                self.notes.push(note);
                NoteId(place)
            }
        }
    }

    fn unix_us(&self) -> u64 {
        self.origin_us + self.now.0 / 1000
    }

    /// A server has answered a request for the key, of this many bytes.
    #[inline(never)]
    pub fn heard(&mut self, id: NoteId, request_bytes: usize, heard: &Heard) {
        let answered_us = self.unix_us();
        let Some(note) = self.notes.get_mut(id.0 as usize) else {
            return;
        };
        let record = &mut note.record;
        // Asked again, it is measured from the first time.
        let before_us = u64::from(record.latency().unwrap_or(0));
        let latency_us = answered_us.saturating_sub(record.unix_us) + before_us;
        record.unix_us = answered_us;
        record.latency_us = u32::try_from(latency_us).map_or(LATENCY_MAX, |us| us.min(LATENCY_MAX));
        record.request_bytes = u32::try_from(request_bytes).unwrap_or(u32::MAX);
        record.answering_rack = heard.rack;
        record.flags = note.sampled.and(heard.flags);
    }

    /// The application is shown this many bytes, and the place is free.
    #[inline(never)]
    pub fn shown(&mut self, id: NoteId, tally: Tally, bytes: usize) {
        let shown_us = self.unix_us();
        let Some(note) = self.notes.get_mut(id.0 as usize) else {
            return;
        };
        self.free.push(id.0);
        let record = &mut note.record;
        if matches!(tally, Tally::Failed | Tally::GetUnavailable) {
            // What was heard of a part, or of another server, is not its answer.
            record.unix_us = shown_us;
            record.latency_us = NO_LATENCY;
            record.answering_rack = NO_RACK;
            record.flags = note.sampled;
        } else if record.latency_us == NO_LATENCY {
            return;
        }
        record.outcome = note.class.outcome(tally);
        record.answer_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if self.chunk.is_empty() {
            self.chunk.reserve_exact(CHUNK_RECORDS);
            self.begun = self.now;
        }
        self.chunk.push(*record);
        if self.chunk.len() >= CHUNK_RECORDS {
            self.full.push(mem::take(&mut self.chunk));
        }
    }

    /// The connection of a request is gone.
    pub fn forget(&mut self, id: NoteId) {
        if id != NoteId::NONE {
            self.free.push(id.0);
        }
    }

    /// Whether there are chunks that are full, or a second old.
    #[inline]
    pub fn is_due(&self) -> bool {
        let is_old = !self.chunk.is_empty() && self.now.since(self.begun) >= CHUNK_AGE;
        is_old || !self.full.is_empty()
    }

    /// All that there is.
    pub fn take(&mut self) -> impl Iterator<Item = ProfileChunk> {
        if !self.chunk.is_empty() {
            self.full.push(mem::take(&mut self.chunk));
        }
        let head = &self.config.head;
        let chunks = self.full.drain(..);
        chunks.map(|records| ProfileChunk {
            head: Arc::clone(head),
            records,
        })
    }

    /// Requests that await their answers.
    #[cfg(test)]
    pub fn noted(&self) -> usize {
        self.notes.len() - self.free.len()
    }
}

/// How long an item is to live that is stored with this exptime, if any.
pub(crate) fn lifetime(exptime: Option<i64>, unix: UnixSeconds) -> Lifetime {
    let seconds = match exptime {
        None | Some(0) => return Lifetime::FOREVER,
        Some(exptime) if exptime > EXPTIME_RELATIVE_MAX_S => exptime - i64::from(unix),
        Some(exptime) => exptime,
    };
    // What has ended already counts as a second.
    Lifetime::of_seconds(u32::try_from(seconds.max(1)).unwrap_or(u32::MAX))
}
