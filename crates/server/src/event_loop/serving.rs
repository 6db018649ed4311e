//! Whose turn it is: those whose last answers were small come first, in turn. Behind them come those who are new and those who
//! were given much, no more of them than a turn allows: nobody waits until hundreds of large values were written.

use super::weight::is_scarce;
use super::{SCRATCH_BYTES, Worker};
use crate::budget::TIGHT_READ;
use crate::connection::Demand;
use crate::transport::Served;
use evenkeel_runtime::budget::Level;
use evenkeel_server_core::{ConnectionId, OUT_PAUSE};
use evenkeel_types::Now;
use std::collections::VecDeque;

/// Times that a connection with more to do is served between two polls, as long as others with more
/// to do are served as often: a pipeline deeper than `-R` need not wait for a poll in between.
const ROUNDS_PER_TURN: usize = 4;

/// Once this many bytes were written to connections that are new or were given much, the others of them wait for the next turn. One
/// of them is served in any case, and may have as much unread.
const BYTES_PER_TURN: u64 = OUT_PAUSE as u64;

impl Worker {
    pub(super) fn enqueue(&mut self, id: ConnectionId) {
        let Some(client) = self.client(id).filter(|client| !client.queued) else {
            return;
        };
        client.queued = true;
        let list = match client.demand {
            _ if client.socket.is_opening() => &mut self.opening,
            Demand::Small => &mut self.ready,
            Demand::Unknown => &mut self.newcomers,
            Demand::Large => &mut self.heavy,
        };
        list.push_back(id);
    }

    /// Whether somebody is to be served, or to be let in.
    pub(super) fn has_work(&self) -> bool {
        !self.ready.is_empty() || self.arrivals_left || self.has_others()
    }

    #[inline]
    fn has_others(&self) -> bool {
        !self.newcomers.is_empty() || !self.heavy.is_empty() || !self.opening.is_empty()
    }

    /// Serves the connections in the list, in turn.
    pub(super) fn serve_ready(&mut self, now: Now) {
        for _ in 0..ROUNDS_PER_TURN {
            if self.ready.is_empty() {
                return;
            }
            self.serve_once(now);
        }
    }

    /// Serves each connection in the list once.
    fn serve_once(&mut self, now: Now) {
        for _ in 0..self.ready.len() {
            let Some(id) = self.ready.pop_front() else {
                return;
            };
            self.serve_client(now, id);
        }
        self.take_touched();
    }

    /// Serves each connection that is new, and each that was given much, once, as far as the turn allows.
    #[inline]
    pub(super) fn serve_others(&mut self, now: Now) {
        if self.has_others() {
            self.serve_some_of_others(now);
        }
    }

    fn serve_some_of_others(&mut self, now: Now) {
        let mut left = BYTES_PER_TURN;
        let mut lists: [fn(&mut Self) -> &mut VecDeque<ConnectionId>; 2] =
            [|worker| &mut worker.newcomers, |worker| &mut worker.heavy];
        if self.heavy_first {
            lists.reverse();
        }
        if !self.serve_within(now, &mut left, lists[0])
            || !self.serve_within(now, &mut left, lists[1])
        {
            // Who was left over may begin the next turn.
            self.heavy_first = !self.heavy_first;
        }
        self.take_touched();
    }

    /// Serves each connection in a list once, until as many bytes were written as are left. False when that was before its end.
    fn serve_within(
        &mut self,
        now: Now,
        left: &mut u64,
        list: fn(&mut Self) -> &mut VecDeque<ConnectionId>,
    ) -> bool {
        for _ in 0..list(self).len() {
            let Some(id) = list(self).pop_front() else {
                return true;
            };
            *left = left.saturating_sub(self.serve_client(now, id));
            if *left == 0 {
                return false;
            }
        }
        true
    }

    /// Gives how many bytes were written to it.
    pub(super) fn serve_client(&mut self, now: Now, id: ConnectionId) -> u64 {
        let before = self.parts.core.counters().bytes_written;
        let place = self.clients.get_mut(id.slot as usize);
        let Some(client) = place
            .and_then(Option::as_mut)
            .filter(|client| client.connection.id() == id)
        else {
            return 0;
        };
        client.queued = false;
        let (socket, connection) = (&mut client.socket, &mut client.connection);
        let parts = &mut self.parts;
        let level = self.levels.answers;
        if connection.answer_level() != level {
            connection.set_answer_level(&mut parts.core, level);
        }
        if level >= Level::Full {
            let scarce = is_scarce(level, connection.reads_well());
            parts.core.set_scarce(scarce);
        }
        let most = match self.levels.input {
            Level::Easy => SCRATCH_BYTES,
            _ => connection.room().clamp(TIGHT_READ, SCRATCH_BYTES),
        };
        let scratch = &mut self.scratch[..most];
        let (core, egress) = (&mut parts.core, &mut parts.egress);
        let served = (parts.transport).serve(socket, connection, core, now, scratch, egress);
        // `stats reset` has them begin anew.
        let written = core.counters().bytes_written.saturating_sub(before);
        client.demand = client.demand.after(written);
        if level >= Level::Full
            && connection.lacks_room(core)
            && !core::mem::replace(&mut client.held_back, true)
        {
            core.counters().response_obj_waits += 1;
            self.held_back.push_back(id);
        }
        let unsettled = connection.held() != client.counted || connection.asks() > 0;
        match served {
            Served::Idle => {}
            Served::More => self.enqueue(id),
            Served::Closed => {
                self.close(id);
                return written;
            }
        }
        if unsettled {
            self.account(now, id);
        }
        written
    }
}
