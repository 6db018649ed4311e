//! What a source sends to its target: item after item of a cachelet, and what is written meanwhile behind.

use super::Volume;
use super::source::{Outgoing, TARGET_TIMEOUT};
use crate::engine::Engine;
use crate::links::LinkId;
use crate::time::{NEVER, Seconds, TimeBase};
use evenkeel_protocol::SentKey;
use evenkeel_protocol::compose::request;
use evenkeel_storage::WalkCursor;
use evenkeel_types::{CacheletId, Instant, Now};
use std::collections::VecDeque;

/// Bytes that are copied in a turn of the worker, so that its clients wait for no more. An item larger than that
/// has a turn for itself.
const STEP_BYTES: usize = 32 << 10;

/// Bytes that may be on their way to the target unanswered.
const WINDOW_BYTES: u64 = 1 << 20;

/// How many bytes may be on their way when the cachelet passes: clients wait for them.
const LAST_BYTES: u64 = 64 << 10;

/// How far the walk over the items has come.
#[derive(Debug, Default)]
pub(super) struct Copy {
    cursor: WalkCursor,
    is_walked: bool,
    /// Keys of the walk's last step: each two bytes of length and itself.
    keys: Vec<u8>,
    /// How much of them was sent.
    done: usize,
}

impl Copy {
    fn next_key(&mut self) -> Option<core::ops::Range<usize>> {
        let (len, _) = self.keys.get(self.done..)?.split_first_chunk::<2>()?;
        let start = self.done + 2;
        self.done = start + usize::from(u16::from_le_bytes(*len));
        Some(start..self.done)
    }

    fn is_done(&self) -> bool {
        self.is_walked && self.done == self.keys.len()
    }
}

/// The connection to the target, or the attempt at one.
#[derive(Debug)]
pub(super) struct Link {
    pub id: LinkId,
    pub out: Vec<u8>,
    /// What was asked, oldest first, and when.
    pub asked: VecDeque<(Asked, Instant)>,
    /// What the target's clock shows more than this server's, in seconds: at least that, so that nothing
    /// expires later there than here.
    pub ahead: i64,
    /// Bytes composed and bytes answered.
    pub sent: u64,
    pub answered: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    Hello,
    Begin,
    /// Whether everything up to so many bytes has come.
    Batch(u64),
    Activate,
    Confirm,
}

impl Link {
    /// Nothing was said on it.
    pub fn new(id: LinkId) -> Self {
        Link {
            id,
            out: Vec::new(),
            asked: VecDeque::new(),
            ahead: 0,
            sent: 0,
            answered: 0,
        }
    }

    /// Bytes on their way.
    fn unanswered(&self) -> u64 {
        self.sent - self.answered
    }

    /// Says something that will be answered.
    pub fn ask(&mut self, asked: Asked, now: Instant, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.out);
        self.asked.push_back((asked, now));
    }

    /// Composes what there is of a key. `is_news`: the target may have something else of it.
    fn send_key(
        &mut self,
        engine: &mut Engine,
        cachelet: CacheletId,
        key: &[u8],
        is_news: bool,
        now: Seconds,
    ) -> usize {
        let mut encoded = Vec::new();
        let Some(sent_key) = SentKey::of(key, &mut encoded) else {
            // No line can hold it, so the target never had it.
            engine.counters.migration_items_unsendable += 1;
            return 0;
        };
        let before = self.out.len();
        let item = engine.store.peek(cachelet, key, now);
        let expires_there = |at: Seconds| i64::from(at) + self.ahead;
        let lives = |at: Seconds| at == NEVER || at > now && expires_there(at) > 0;
        match item.filter(|item| lives(item.expires_at())) {
            Some(item) => {
                let mut line = request::meta_set(&mut self.out, sent_key, item.value().len())
                    .flag(b'G')
                    .flag(b'q')
                    .number(b'E', item.version().0)
                    .number(b'F', item.flags());
                if item.expires_at() != NEVER {
                    line = line.number(b'T', expires_there(item.expires_at()));
                }
                for (letter, is_set) in [
                    (b'b', sent_key.base64),
                    (b'X', item.stale()),
                    (b'I', item.win_sent()),
                ] {
                    if is_set {
                        line = line.flag(letter);
                    }
                }
                line.end_with(item.value());
            }
            None if is_news => {
                let mut line = request::meta_delete(&mut self.out, sent_key)
                    .flag(b'G')
                    .flag(b'q');
                if sent_key.base64 {
                    line = line.flag(b'b');
                }
                line.end();
            }
            None => {}
        }
        let len = self.out.len() - before;
        self.sent += len as u64;
        len
    }
}

/// What a step of copying came to.
pub(super) enum Progress {
    /// There is more to send, and it can be sent at once.
    More,
    /// There is nothing to do before then, unless the target answers.
    At(Instant),
    /// All was copied but for the last writes.
    LittleLeft,
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

impl Copy {
    /// Takes the keys of some more items. False when there are no more.
    fn walk(&mut self, engine: &Engine, cachelet: CacheletId, now: Seconds) -> bool {
        if self.is_walked {
            return false;
        }
        self.keys.clear();
        self.done = 0;
        let keys = &mut self.keys;
        let next = engine.store.walk(cachelet, self.cursor, now, |item| {
            let key = item.key();
            // Keys have 250 bytes at most.
            keys.extend_from_slice(&(key.len() as u16).to_le_bytes());
            keys.extend_from_slice(key);
        });
        match next {
            Some(next) => self.cursor = next,
            None => self.is_walked = true,
        }
        true
    }
}

impl Volume {
    fn add(&mut self, engine: &mut Engine, bytes: usize) {
        self.items += 1;
        self.bytes += bytes as u64;
        engine.counters.migration_items_sent += 1;
        engine.counters.migration_bytes_sent += bytes as u64;
    }
}
