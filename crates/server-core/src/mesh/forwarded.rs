//! Commands on keys that another worker of this server holds.
//!
//! They travel there as the bytes they were sent in and their answers come back to the connection that
//! waits for them. What one connection has for one worker travels together, as long as the message has
//! not left: so a pipeline or a multi-get costs one message each way and worker, and the worker that
//! holds the keys asks for their memory ahead as it does for its own clients.

use crate::placement::Located;
use crate::session::address::Ticket;
use crate::session::connections::Connections;
use crate::session::{ConnectionId, Session};
use evenkeel_types::{CacheletId, copy};

/// Most commands that travel together.
const TOGETHER_MAX: usize = 64;

/// Bytes of commands from which on the next ones travel by themselves.
const TOGETHER_BYTES: usize = 16 << 10;

/// What an answer is expected to take, in bytes.
const ANSWER_BYTES: usize = 192;

/// Bytes that one message carries from which on they are worth counting.
const WEIGHT_MIN: usize = 1024;

/// In which form a command travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As it stood in the protocol, complete; of a multi-get one key, whose answer lacks the closing
    /// `END`.
    Frame,
    /// Nothing but a key to be got, likewise without an `END`.
    Key,
}

/// One command on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// The answer that is awaited; `None` when the client asked for no reply.
    pub(crate) ticket: Option<Ticket>,
    /// Length of its bytes.
    pub(crate) len: u32,
    pub(crate) form: Form,
    /// Where the sender's map says that its key is.
    pub(crate) located: Located,
}

/// Who asks for commands to be executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Whose {
    /// The connection that waits; `None` when nobody does.
    pub(crate) connection: Option<ConnectionId>,
    /// The worker of that connection, if it is not the one that sent the message: its keys have moved, and
    /// the former host has passed them on.
    pub(crate) asker: Option<u16>,
    /// See [`Session::reads_well`].
    pub(crate) reads_well: bool,
}

impl Whose {
    /// A connection of the worker that sends the message.
    pub(crate) fn of(session: &Session) -> Self {
        Whose {
            connection: Some(session.id),
            asker: None,
            reads_well: session.reads_well,
        }
    }
}

/// Commands for the worker that holds their keys, in the order in which they are to be executed.
#[derive(Debug)]
pub struct Commands {
    pub(crate) whose: Whose,
    pub(crate) list: Vec<Command>,
    /// Their bytes, one after the other.
    pub(crate) bytes: Vec<u8>,
}

/// Answers to [`Commands`].
#[derive(Debug)]
pub struct Answers {
    /// The connection that waits.
    pub(crate) connection: ConnectionId,
    /// Each answer's ticket and length.
    pub(crate) list: Vec<(Ticket, u32)>,
    /// The answers, one after the other.
    pub(crate) bytes: Vec<u8>,
}

impl Commands {
    /// Whether a command of these may join.
    pub(crate) fn takes(&self, whose: Whose) -> bool {
        self.whose == whose && self.list.len() < TOGETHER_MAX && self.bytes.len() < TOGETHER_BYTES
    }

    /// What is left after the first this many, whose bytes were read.
    pub(crate) fn rest(&self, done: usize, unread: &[u8]) -> Commands {
        Commands {
            whose: self.whose,
            list: self.list[done..].to_vec(),
            bytes: unread.to_vec(),
        }
    }

    /// The connection that waits, at the worker that asks; `None` when nobody does.
    pub fn connection(&self) -> Option<ConnectionId> {
        self.whose.connection
    }

    /// The worker of that connection, where `from` has sent the message.
    pub(crate) fn asking_worker(&self, from: u16) -> u16 {
        self.whose.asker.unwrap_or(from)
    }

    /// Whether the key of one of them is in a cachelet.
    pub(crate) fn are_about(&self, cachelet: CacheletId) -> bool {
        let mut list = self.list.iter();
        list.any(|command| command.located.place.cachelet == cachelet)
    }

    /// Whether its client had read large answers to their end when it asked.
    pub fn asker_reads_well(&self) -> bool {
        self.whose.reads_well
    }

    /// Bytes of memory that it holds; zero if they are few, of which the queues hold a bounded number.
    pub fn weight(&self) -> usize {
        weight(self.bytes.capacity() + self.list.capacity() * size_of::<Command>())
    }
}

impl Answers {
    /// None yet, with room for this many.
    pub(crate) fn new(connection: ConnectionId, count: usize) -> Self {
        Answers {
            connection,
            list: Vec::with_capacity(count),
            bytes: Vec::with_capacity(count * ANSWER_BYTES),
        }
    }

    /// One answer, later than those of the commands that came with its own.
    pub(crate) fn one(connection: ConnectionId, ticket: Ticket, answer: &[u8]) -> Self {
        let mut answers = Answers::new(connection, 1);
        answers.list.push((ticket, answer.len() as u32));
        copy::append(&mut answers.bytes, answer);
        answers
    }

    /// Lets them in at the connection that waits.
    pub(crate) fn deliver(&self, connections: &mut Connections) {
        connections.deliver(self.connection, |session| {
            let mut unread = &self.bytes[..];
            for &(ticket, len) in &self.list {
                let (answer, rest) = unread.split_at(len as usize);
                unread = rest;
                session.answered(ticket, answer);
            }
        });
    }

    /// The connection that waits, at the worker that gets the message.
    pub fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// As [`Commands::weight`].
    pub fn weight(&self) -> usize {
        weight(self.bytes.capacity() + self.list.capacity() * size_of::<(Ticket, u32)>())
    }
}

fn weight(bytes: usize) -> usize {
    if bytes < WEIGHT_MIN { 0 } else { bytes }
}
