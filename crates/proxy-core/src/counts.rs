//! What one worker counts: of all requests, and of each route; and what it records of some.

use crate::hottest::{HottestKeys, PickedId};
use crate::ids::{PoolId, RouteId};
use crate::pages::Visit;
use crate::profile::{Heard, NoteId, Profiler};
use crate::stats::counters::{ProxyStats, Tally};
use crate::stats::per_route::PerRoute;

/// What one worker counts.
#[derive(Debug)]
pub(crate) struct Counts {
    /// Of all requests.
    pub stats: ProxyStats,
    /// Of each route.
    pub routes: PerRoute,
    /// Of keys.
    pub hottest: HottestKeys,
    /// `None` while no requests are recorded.
    pub profiler: Option<Box<Profiler>>,
}

/// What is noted of a request that has its place among the answers, until it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    /// For the profile.
    pub record: NoteId,
    /// For the hottest keys.
    pub picked: PickedId,
}

impl Noted {
    /// Nothing is.
    pub const NONE: Noted = Noted {
        record: NoteId::NONE,
        picked: PickedId::NONE,
    };
}

impl Counts {
    /// Nothing was counted. The seed decides which requests are looked at for the hottest keys.
    pub fn new(seed: u64) -> Self {
        Counts {
            stats: ProxyStats::default(),
            routes: PerRoute::default(),
            hottest: HottestKeys::new(seed),
            profiler: None,
        }
    }

    /// A plain `get` gets its place, whose key servers know as the application does.
    #[inline]
    pub fn note_get(
        &mut self,
        visit: Option<&Visit>,
        pool: PoolId,
        key: &[u8],
        hash: u64,
    ) -> Noted {
        let record = match &mut self.profiler {
            None => NoteId::NONE,
            Some(profiler) => profiler.note_get(visit, pool, key, hash),
        };
        let picked = match self.hottest.picks() {
            false => PickedId::NONE,
            true => self.hottest.note_read(pool, key),
        };
        Noted { record, picked }
    }

    /// A slot of a request on this route was shown, this many bytes of it. That ends its note.
    #[inline]
    pub fn shown(&mut self, route: RouteId, note: Noted, tally: Tally, bytes: usize) {
        self.routes.count(&mut self.stats, route, tally, bytes);
        self.end_note(note, tally, bytes);
    }

    /// What has this note was shown.
    #[inline]
    pub fn end_note(&mut self, note: Noted, tally: Tally, bytes: usize) {
        if note.record != NoteId::NONE
            && let Some(profiler) = &mut self.profiler
        {
            profiler.shown(note.record, tally, bytes);
        }
        if note.picked != PickedId::NONE {
            let is_value = matches!(tally, Tally::GetHit | Tally::TouchHit);
            self.hottest
                .shown(note.picked, if is_value { bytes } else { 0 });
        }
    }

    /// What has this note has no answer.
    pub fn forget(&mut self, note: Noted) {
        if let Some(profiler) = &mut self.profiler {
            profiler.forget(note.record);
        }
        self.hottest.forget(note.picked);
    }

    /// A server has answered what has this note, to a request of this many bytes.
    #[inline]
    pub fn heard(&mut self, note: Noted, request_bytes: usize, heard: &Heard) {
        if note.record != NoteId::NONE
            && let Some(profiler) = &mut self.profiler
        {
            profiler.heard(note.record, request_bytes, heard);
        }
    }
}
