//! What one worker counts: of all requests, and of each route; and what it records of some.

use crate::ids::RouteId;
use crate::profile::{Heard, NoteId, Profiler};
use crate::stats::counters::{ProxyStats, Tally};
use crate::stats::per_route::PerRoute;

/// What one worker counts.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Of all requests.
    pub stats: ProxyStats,
    /// Of each route.
    pub routes: PerRoute,
    /// `None` while no requests are recorded.
    pub profiler: Option<Box<Profiler>>,
}

impl Counts {
    /// A slot of a request on this route was shown, so many bytes of it. That ends its note.
    #[inline]
    pub fn shown(&mut self, route: RouteId, note: NoteId, tally: Tally, bytes: usize) {
        self.routes.count(&mut self.stats, route, tally, bytes);
        self.end_note(note, tally, bytes);
    }

    /// What has this note was shown.
    #[inline]
    pub fn end_note(&mut self, note: NoteId, tally: Tally, bytes: usize) {
        if note != NoteId::NONE
            && let Some(profiler) = &mut self.profiler
        {
            profiler.shown(note, tally, bytes);
        }
    }

    /// A server has answered what has this note, to a request of so many bytes.
    #[inline]
    pub fn heard(&mut self, note: NoteId, request_bytes: usize, heard: &Heard) {
        if note != NoteId::NONE
            && let Some(profiler) = &mut self.profiler
        {
            profiler.heard(note, request_bytes, heard);
        }
    }
}
