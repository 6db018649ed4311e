//! What a worker does about the memory of its applications' connections, by the rules of
//! [`runtime::budget`](evenkeel_runtime::budget).
//!
//! One pool for the process (`--buffer-memory`) holds what has come of requests and what was not read of
//! answers. An application that has nothing unread may always ask for something: how large the answer is,
//! only its server knows, and it comes on a connection that all applications share. So nobody waits here.
//! While the pool is short of memory, anyone who has much unread asks no more, and who hardly moves is closed;
//! beyond its top the slowest are closed at once.

use super::Worker;
use evenkeel_proxy_core::ClientId;
use evenkeel_runtime::budget::{Level, who_goes};
use evenkeel_types::Instant;
use std::time::Duration;

/// How often what all connections hold is looked at: answers that wait for earlier ones grow unseen. Also
/// how often those are looked for that hardly move, while memory is short.
pub(super) const SWEEP: Duration = Duration::from_millis(100);

/// After how many reads of all that a turn allows (256 KiB) it is looked at in between: large answers grow
/// faster than time passes.
pub(super) const SWEEP_READS: u32 = 4;

/// With less room for answers than this, in bytes, it is looked at before any are read.
const ROOM_MIN: usize = 2 << 20;

impl Worker {
    /// Counts what a connection holds now. At a pool that is over its top somebody goes at once.
    #[inline]
    pub(super) fn account(&mut self, now: Instant, id: ClientId) {
        let place = self.applications.get_mut(id.0.slot as usize);
        let Some(application) = place.and_then(Option::as_mut).filter(|a| a.id == id) else {
            return;
        };
        let held = application.held(&self.parts.core);
        if held != application.counted {
            self.recount(now, id, held);
        }
    }

    #[cold]
    fn recount(&mut self, now: Instant, id: ClientId, held: usize) {
        let Some(Some(application)) = self.applications.get_mut(id.0.slot as usize) else {
            return;
        };
        let before = application.counted;
        application.count(held, now);
        self.portion.change(&self.parts.buffers, before, held);
        self.look_at_level();
        if self.level == Level::Over {
            self.close_slow(now);
        }
    }

    /// A connection that held this many bytes is gone.
    pub(super) fn release(&mut self, held: usize) {
        self.portion.change(&self.parts.buffers, held, 0);
    }

    fn look_at_level(&mut self) {
        self.level = self.parts.buffers.level();
        self.parts
            .core
            .set_short_of_memory(self.level > Level::Easy);
    }

    /// Has what all connections hold counted before the room that is known of is used up.
    #[inline]
    pub(super) fn make_room(&mut self, now: Instant) {
        if self.parts.core.room() < ROOM_MIN {
            self.sweep(now);
        }
    }

    /// Counts what all connections hold, and closes those that hold much and hardly move, if memory is short.
    pub(super) fn sweep(&mut self, now: Instant) {
        let all: Vec<ClientId> = (self.applications.iter().flatten())
            .map(|application| application.id)
            .collect();
        for id in all {
            self.account(now, id);
        }
        self.look_at_level();
        if self.level > Level::Easy {
            self.close_slow(now);
        }
        self.parts.core.set_room(self.parts.buffers.room());
    }

    fn close_slow(&mut self, now: Instant) {
        self.portion.trim(&self.parts.buffers);
        let excess = self.parts.buffers.excess(self.portion.used());
        let applications = self.applications.iter().flatten();
        let holders = applications.map(|application| (application.id, application.holding()));
        for id in who_goes(now, self.parts.buffers.level(), 0, excess, holders) {
            if self.forget_application(id) {
                self.parts.core.client_too_slow(id);
            }
        }
        self.look_at_level();
    }
}
