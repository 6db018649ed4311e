//! What a source keeps of its walk over the items, and its connection to the target.

use crate::links::LinkId;
use crate::shard::engine::Engine;
use crate::shard::time::{NEVER, Seconds};
use evenkeel_protocol::SentKey;
use evenkeel_protocol::compose::request;
use evenkeel_storage::WalkCursor;
use evenkeel_types::{CacheletId, Instant};
use std::collections::VecDeque;

/// How far the walk over the items has come.
#[derive(Debug, Default)]
pub(crate) struct Copy {
    cursor: WalkCursor,
    is_walked: bool,
    /// Keys of the walk's last step: each two bytes of length and itself.
    pub(crate) keys: Vec<u8>,
    /// How much of them was sent.
    done: usize,
}

impl Copy {
    pub(crate) fn next_key(&mut self) -> Option<core::ops::Range<usize>> {
        let (len, _) = self.keys.get(self.done..)?.split_first_chunk::<2>()?;
        let start = self.done + 2;
        self.done = start + usize::from(u16::from_le_bytes(*len));
        Some(start..self.done)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.is_walked && self.done == self.keys.len()
    }
}

/// The connection to the target, or the attempt at one.
#[derive(Debug)]
pub(crate) struct Link {
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
pub(crate) enum Asked {
    Hello,
    Begin,
    /// Whether everything up to this many bytes has come.
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
    pub(crate) fn unanswered(&self) -> u64 {
        self.sent - self.answered
    }

    /// Says something that will be answered.
    pub fn ask(&mut self, asked: Asked, now: Instant, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.out);
        self.asked.push_back((asked, now));
    }

    /// Composes what there is of a key. `is_news`: the target may have something else of it.
    pub(crate) fn send_key(
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

impl Copy {
    /// Takes the keys of some more items. False when there are no more.
    pub(crate) fn walk(&mut self, engine: &Engine, cachelet: CacheletId, now: Seconds) -> bool {
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
