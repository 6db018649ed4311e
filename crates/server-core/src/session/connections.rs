//! The connections of a worker, by slots that are used again; who has something to write by other means than its own input.

use crate::session::{ConnectionId, OUT_PAUSE, Session};
use evenkeel_types::rooms::Rooms;
use std::collections::VecDeque;

/// An emptied output larger than this, in bytes, is not kept for the next connection. Twice what a
/// connection may have unread, so that answers with large items find room without asking for it.
const SPARE_MAX: usize = 2 * OUT_PAUSE;

/// How far a connection's input was executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of input that are done with.
    pub consumed: usize,
    /// Complete commands are left for the next turn: the connection had its share of this one.
    pub more: bool,
}

/// A place in the table of connections.
#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    /// Boxed, so that it can be taken out while a command works on it, and put back, by pointer.
    session: Option<Box<Session>>,
}

/// The connections of a worker.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    slots: Vec<Slot>,
    free: Vec<u32>,
    touched: VecDeque<ConnectionId>,
    /// An emptied output, for the next connection that has something to say: idle ones hold none.
    spare: Vec<u8>,
    /// Emptied input of large commands, for the next ones.
    pub(crate) rooms: Rooms,
    /// What the driver holds of input that was not executed: connections and bytes.
    pub(crate) input_held: (u64, u64),
    /// Whether there is no memory for the large answers of anyone who is served next.
    pub(crate) scarce: bool,
}

impl Connections {
    /// A connection begins.
    pub fn open(&mut self, mut session: Session) -> ConnectionId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let entry = &mut self.slots[slot as usize];
        let id = ConnectionId {
            slot,
            generation: entry.generation,
        };
        session.id = id;
        entry.session = Some(Box::new(session));
        id
    }

    /// A connection that stands is over; its slot will have another name.
    pub fn close(&mut self, id: ConnectionId) {
        let entry = &mut self.slots[id.slot as usize];
        entry.session = None;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(id.slot);
    }

    /// A connection's state, if it still stands.
    pub fn get(&mut self, id: ConnectionId) -> Option<&mut Session> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.session
            .as_deref_mut()
            .filter(|_| slot.generation == id.generation)
    }

    /// The connections that stand, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Session)> {
        self.slots.iter().enumerate().filter_map(|(slot, entry)| {
            let id = ConnectionId {
                slot: slot as u32,
                generation: entry.generation,
            };
            Some((id, entry.session.as_deref()?))
        })
    }

    /// Takes a connection's state out, so that commands can borrow it beside the rest of the worker, with room for what it
    /// is to say. Anyone who takes it [gives it back](Self::give_back).
    pub fn take(&mut self, id: ConnectionId) -> Option<Box<Session>> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation == id.generation {
            slot.session.take()
        } else {
            None
        }
    }

    /// Gives a connection's state back. No command opens or closes connections, so its place is free.
    pub fn give_back(&mut self, session: Box<Session>) {
        let slot = session.id.slot as usize;
        self.slots[slot].session = Some(session);
    }

    /// An emptied output, perhaps with room, for a connection that has something to say.
    pub fn take_spare(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.spare)
    }

    /// Keeps the larger of two emptied outputs for the next connection, and drops the other.
    pub fn keep_spare(&mut self, emptied: &mut Vec<u8>) {
        let emptied = core::mem::take(emptied);
        if emptied.capacity() > self.spare.capacity() && emptied.capacity() <= SPARE_MAX {
            self.spare = emptied;
        }
    }

    /// A connection has something to write, or is to be looked at again.
    pub fn touch(&mut self, id: ConnectionId) {
        self.touched.push_back(id);
    }

    /// Lets answers in that come to a connection from elsewhere, if it still stands.
    pub fn deliver(&mut self, to: ConnectionId, answers: impl FnOnce(&mut Session)) {
        if let Some(session) = self.get(to) {
            answers(session);
            self.touch(to);
        }
    }

    /// The next one that was touched.
    pub fn poll_touched(&mut self) -> Option<ConnectionId> {
        self.touched.pop_front()
    }
}
