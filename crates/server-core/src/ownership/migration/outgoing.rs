//! A cachelet on its way to another server: how far it has come, and what is sent in one turn.

use crate::mesh::forwarded::Commands;
use crate::ownership::migration::copying::{Asked, Copy, Link};
use crate::ownership::migration::pace::Pace;
use crate::ownership::migration::volume::Volume;
use crate::shard::engine::Engine;
use crate::shard::time::TimeBase;
use core::time::Duration;
use evenkeel_protocol::Migrate;
use evenkeel_protocol::compose::request;
use evenkeel_types::map::Migration;
use evenkeel_types::{Instant, Now};

/// For how long a target may say that it cannot begin yet: longer than
/// [`FLUSH_REACH`](crate::FLUSH_REACH), and than a map takes to come.
pub const BEGIN_TIME: Duration = Duration::from_secs(30);

/// A target that leaves anything unanswered for this long is given up.
pub const TARGET_TIMEOUT: Duration = Duration::from_secs(5);

/// The same while clients wait for it to answer whether it serves the cachelet.
pub const PASS_TIMEOUT: Duration = Duration::from_millis(250);

/// How many bytes may be on their way when the cachelet passes: clients wait for them.
const LAST_BYTES: u64 = 64 << 10;

/// Bytes that may be on their way to the target unanswered.
const WINDOW_BYTES: u64 = 1 << 20;

/// Bytes that are copied in a turn of the worker, so that its clients wait for no more. An item larger than that
/// has a turn for itself.
const STEP_BYTES: usize = 32 << 10;

/// What a step of copying came to.
pub(crate) enum Progress {
    /// There is more to send, and it can be sent at once.
    More,
    /// There is nothing to do before then, unless the target answers.
    At(Instant),
    /// All was copied but for the last writes.
    LittleLeft,
}

/// A cachelet that goes to another server.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub order: Migration,
    pub stage: Stage,
    pub sent: Volume,
    pub link: Option<Link>,
    pub copy: Copy,
    pub pace: Pace,
    /// When to go on.
    pub(crate) next_at: Instant,
    /// When the last step was, if the next was wanted at once.
    pub(crate) stepped_at: Option<Instant>,
    /// Commands of other workers that came while the cachelet passes.
    pub(crate) held: Vec<(u16, Commands)>,
}

/// How far an outgoing cachelet has come.
///
/// ```text
///  Waiting ──> Beginning ──OK──> Copying ──little left──> Passing ──OK──> Moved
///     └────────────┴────────────────┴───── lost, cancelled, flushed, late ───┴──> Aborted
/// ```
#[derive(Debug)]
pub(crate) enum Stage {
    /// Its turn has not come.
    Waiting,
    /// The target was asked whether it takes part, until then.
    Beginning { until: Instant },
    /// Items are sent.
    Copying,
    /// Nobody serves the cachelet: the target was asked to.
    Passing { since: Instant },
    /// The target serves it. Final.
    Moved,
    /// Nothing came of it. Final.
    Aborted,
}

impl Outgoing {
    pub fn new(order: Migration, now: Instant) -> Self {
        Outgoing {
            order,
            stage: Stage::Waiting,
            sent: Volume::default(),
            link: None,
            copy: Copy::default(),
            pace: Pace::new(order.bytes_per_second, now),
            next_at: now,
            stepped_at: None,
            held: Vec::new(),
        }
    }

    /// Says a word to the target that will be answered.
    pub(crate) fn ask(&mut self, asked: Asked, now: Instant, word: Migrate) {
        if let Some(link) = &mut self.link {
            link.ask(asked, now, |out| request::migrate(out, word));
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Moved | Stage::Aborted)
    }

    /// Since when the target owes an answer for longer than it may.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        let oldest = self.link.as_ref().and_then(|link| link.asked.front());
        let waits = oldest.is_some_and(|(_, at)| now.since(*at) >= TARGET_TIMEOUT);
        match self.stage {
            Stage::Passing { since } => now.since(since) >= PASS_TIMEOUT,
            _ => waits,
        }
    }

    /// When it should be looked at.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let oldest = self.link.as_ref().and_then(|link| link.asked.front());
        let late = oldest.map(|(_, at)| *at + TARGET_TIMEOUT);
        match self.stage {
            Stage::Waiting => Some(self.next_at),
            Stage::Beginning { .. } | Stage::Copying => {
                Some(late.map_or(self.next_at, |late| late.min(self.next_at)))
            }
            Stage::Passing { since } => Some(since + PASS_TIMEOUT),
            Stage::Moved | Stage::Aborted => None,
        }
    }
}

impl Outgoing {
    /// Sends what one turn has room for: what was written first, then more of the walk.
    pub fn send_some(&mut self, engine: &mut Engine, now: Now) -> Progress {
        let seconds = TimeBase::seconds(now);
        let cachelet = self.order.cachelet;
        let idle = Progress::At(now.monotonic + TARGET_TIMEOUT);
        let Some(link) = &mut self.link else {
            return idle;
        };
        if link.unanswered() >= WINDOW_BYTES {
            return idle;
        }
        let (mut bytes, mut waits) = (0, None);
        while bytes < STEP_BYTES {
            if let Some(key) = engine.rewritten.take() {
                let len = link.send_key(engine, cachelet, &key, true, seconds);
                self.sent.add(engine, len);
                bytes += len.max(1);
            } else if !self.pace.may_send(now.monotonic) {
                waits = Some(self.pace.next(now.monotonic));
                break;
            } else if let Some(key) = self.copy.next_key() {
                let len = link.send_key(engine, cachelet, &self.copy.keys[key], false, seconds);
                self.sent.add(engine, len);
                self.pace.sent(len);
                bytes += len.max(1);
            } else if !self.copy.walk(engine, cachelet, seconds) {
                break;
            }
        }
        if bytes > 0 {
            let sent = link.sent;
            link.ask(Asked::Batch(sent), now.monotonic, request::meta_noop);
        }
        if let Some(waits) = waits {
            return Progress::At(waits);
        }
        if !self.copy.is_done() || !engine.rewritten.is_empty() {
            return Progress::More;
        }
        if link.unanswered() > LAST_BYTES {
            return idle;
        }
        Progress::LittleLeft
    }
}
