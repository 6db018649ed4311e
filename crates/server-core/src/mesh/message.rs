//! What workers of one server say to each other.
//!
//! A key belongs to one worker. A command that arrives at another travels there, and its answer travels
//! back: see [`forward`](crate::mesh::forwarded). Commands about the whole server (`stats`, `flush_all`) go to
//! every worker.

use crate::mesh::forwarded::{Answers, Commands};
use crate::mesh::handed_over::{FlushGiven, Follow, Handover, Hosted};
use crate::observe::Lines;
use crate::session::ConnectionId;
use crate::session::address::ReturnAddress;
use crate::session::listing::ListStep;
use crate::shard::share::Share;
use evenkeel_protocol::admin::{DebugTime, Streams};

/// A message from one worker to another.
#[derive(Debug)]
pub enum Message {
    /// Execute commands on keys of yours.
    Commands(Commands),
    /// The answers to some of them.
    Answers(Answers),
    /// A connection is gone that awaits answers. A driver that keeps what is left of its commands drops it, unless the
    /// answers are on their way already: nobody will read them.
    Gone(ConnectionId),
    /// Do your share of a command about the whole server.
    Whole {
        /// Who waits; `None` when the client asked for no reply.
        to: Option<ReturnAddress>,
        /// What to do.
        task: Task,
    },
    /// One worker's share of the answer to a command about the whole server.
    Share {
        /// Who waits.
        to: ReturnAddress,
        /// How shares become one answer.
        task: Task,
        /// The share.
        share: Share,
    },
    /// Host this cachelet from now on.
    Handover(Box<Handover>),
    /// A cachelet is here now.
    Hosted(Hosted),
    /// The last that comes by a cachelet's former host.
    Follow(Follow),
    /// It has come to the host.
    Followed(Follow),
    /// Flush these, too, which were given away by who flushes.
    FlushGiven(FlushGiven),
    /// Lines for your watchers.
    Log(Lines),
    /// Your lines were taken; more may follow.
    LogTaken,
}

/// Bytes that a share carries from which on they are worth counting.
const WEIGHT_MIN: usize = 512;

impl Message {
    /// Whether a message that came from the worker `from` has to be handed in behind another that came before it, from
    /// `sender`, and is left over. What one connection asks is executed in order, and others do not wait for it. The last that an
    /// asker sends by a cachelet's former host is the last.
    pub fn goes_behind(&self, from: u16, earlier: &Message, sender: u16) -> bool {
        if let Message::Follow(follow) = self {
            return matches!(earlier, Message::Commands(commands)
                if commands.asking_worker(sender) == follow.asker && commands.are_about(follow.cachelet));
        }
        let asker = self.asker(from);
        asker.is_some() && asker == earlier.asker(sender)
    }

    /// The connection that is to be answered by anyone who gets the message from the worker `from`, and its worker: connections of two
    /// workers may have the same name.
    pub(crate) fn asker(&self, from: u16) -> Option<(u16, ConnectionId)> {
        match self {
            Message::Commands(commands) => {
                let worker = commands.asking_worker(from);
                commands.connection().map(|connection| (worker, connection))
            }
            Message::Whole { to, .. } => to.map(|to| (from, to.connection)),
            _ => None,
        }
    }

    /// Bytes of client's data that the message carries; zero for a small one, of which the queues hold
    /// a bounded number.
    #[inline]
    pub fn weight(&self) -> usize {
        match self {
            Message::Commands(commands) => commands.weight(),
            Message::Answers(answers) => answers.weight(),
            Message::Share { share, .. } if share.capacity() >= WEIGHT_MIN => share.capacity(),
            _ => 0,
        }
    }
}

/// What a worker contributes to a command, and how the contributions are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// `flush_all`: every item stored before `at_s` on the store's clock goes at that time.
    Flush {
        /// When, on the store's clock; `None` for at once.
        at_s: Option<u32>,
    },
    /// `stats`: counters are added up.
    Stats(CountersView),
    /// `stats items|slabs`: what is held and was evicted, by size, is added up.
    Classes(ClassesView),
    /// A step of a list of items, at one worker. The answer says where it has come to.
    List(ListStep),
    /// `stats conns`: lines are put one after the other.
    Connections,
    /// `stats detail on|off`.
    Detail(bool),
    /// `stats detail dump`: counts by prefix are added up.
    Prefixes,
    /// A worker's watchers want other lines from now on.
    Watch {
        /// The worker.
        worker: u16,
        /// What they want.
        streams: Streams,
        /// How many they are.
        watchers: u16,
    },
    /// `verbosity`.
    Verbosity(u32),
    /// `debugtime`.
    DebugTime(DebugTime),
    /// `stats hotkeys|hotlog|replicas|cachelets`: lines are put one after the other.
    Lines(LinesView),
    /// `stats reset`.
    ResetStats,
}

/// A way to show the summed counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountersView {
    /// `stats`, with memcached's names.
    General,
    /// `stats evenkeel`.
    Evenkeel,
}

/// A way to show what is held by size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassesView {
    /// `stats items`.
    Items,
    /// `stats slabs`.
    Slabs,
}

/// A list of which every worker holds a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinesView {
    /// `stats hotkeys`: keys that the home tracks.
    HotKeys,
    /// `stats hotlog`: what was done about hot keys, and what came of it.
    HotLog,
    /// `stats replicas`: what is held for other servers.
    Replicas,
    /// `stats cachelets`.
    Cachelets,
}
