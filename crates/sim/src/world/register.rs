//! What each home must hold, told from the commands that it executes and checked with its answers.
//!
//! Each command is seen before it is executed and its answer after, so the truth about a key is
//! known without a hook in any core. A key's home executes one command after the other; so if each
//! answer is what a register with `cas`, `incr` and expiry would give in that order, what reaches the
//! home is linearizable. What clients are told is compared with the same order by
//! [`crate::history`].

use super::units::SECOND;
use crate::history::{Applied, Lapse, Nanos, WriteId};
use evenkeel_server_core::TARGET_TIMEOUT;
use std::collections::HashMap;

/// How far a server's count of seconds may be off over an item's life, besides its clock's rate: it
/// counts whole seconds.
pub(super) const EXPIRY_SLACK: Nanos = SECOND;

/// How far a source can be wrong about a target's clock, besides whole seconds.
pub(super) const ON_THE_LINK_MAX: Nanos = TARGET_TIMEOUT.as_nanos() as Nanos;

/// Stands for the worker of what is between two.
pub(super) const ON_THE_WAY: u16 = u16::MAX;

/// Hundredths by which a lifetime by any simulated clock may differ from the true one.
pub(super) const EXPIRY_DRIFT: u64 = 1;

/// When an item expires, as exactly as can be told from outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expiry {
    /// Not before.
    pub from: Nanos,
    /// It must be gone by then.
    pub by: Nanos,
}

impl Expiry {
    pub fn new(now: Nanos, exptime: i64) -> Option<Self> {
        let life = u64::try_from(exptime).ok().filter(|&life| life > 0)? * SECOND;
        let drift = life / 100 * EXPIRY_DRIFT;
        Some(Expiry {
            from: now + (life - drift).saturating_sub(EXPIRY_SLACK),
            by: now + life + drift + EXPIRY_SLACK,
        })
    }
}

/// What a key's home holds.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub server: usize,
    pub worker: u16,
    pub content: Vec<u8>,
    pub expiry: Option<Expiry>,
    /// The home has said that it expired.
    pub lapsed: bool,
    /// Its version, once an answer told.
    pub version: Option<u64>,
}

/// Whether a key has a value at its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum There {
    Yes,
    No,
    /// It may have expired.
    Perhaps,
}

/// The numbers that increments add, and counters begin with: large and each of its own, so that each
/// sum tells what it is the sum of.
pub(super) fn number_of(id: WriteId) -> u64 {
    let mixed = (id.0 ^ (id.0 << 21)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 24) | 1
}

/// The same, in such disorder that no few of them make the sum of others (after splitmix64): where many are added.
pub(super) fn scattered_number_of(id: WriteId) -> u64 {
    let mut mixed = id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 16) | 1
}

/// The truth about all keys.
#[derive(Debug)]
pub(super) struct Register {
    pub held: Vec<Option<Held>>,
    /// Which write made a value, for each key.
    pub named: Vec<HashMap<Vec<u8>, WriteId>>,
    /// Which write a number belongs to.
    pub numbers: HashMap<u64, WriteId>,
    /// Which write each version of a key was given to.
    pub versions: Vec<HashMap<u64, WriteId>>,
    /// Everything that homes executed.
    pub log: Vec<Applied>,
    /// When values may have expired.
    pub lapses: Vec<Lapse>,
}

impl Register {
    pub fn new(keys: usize) -> Self {
        Register {
            held: vec![None; keys],
            named: vec![HashMap::new(); keys],
            numbers: HashMap::new(),
            versions: vec![HashMap::new(); keys],
            log: Vec::new(),
            lapses: Vec::new(),
        }
    }

    /// A write will use this number.
    pub fn announce(&mut self, id: WriteId, number: u64) -> u64 {
        self.numbers.insert(number, id);
        number
    }

    /// The write that made a key what it is when it has this value.
    pub fn write_of(&self, key: usize, content: &[u8]) -> Option<WriteId> {
        self.named[key].get(content).copied()
    }

    /// The server that holds a key.
    pub fn home_of(&self, key: usize) -> Option<usize> {
        self.held[key].as_ref().map(|held| held.server)
    }

    /// The write whose own value this is, before homes put values together.
    pub fn sender_of(&self, value: &[u8]) -> Option<WriteId> {
        let text = core::str::from_utf8(value).ok()?;
        match text.strip_suffix(';') {
            Some(text) => {
                let digits = text.split('.').next()?;
                Some(WriteId(digits.parse().ok()?))
            }
            None => self.numbers.get(&text.parse().ok()?).copied(),
        }
    }

    pub fn there(&self, key: usize, now: Nanos) -> There {
        match &self.held[key] {
            None => There::No,
            Some(held) if held.lapsed => There::No,
            Some(held) => match held.expiry {
                Some(expiry) if now >= expiry.from => There::Perhaps,
                _ => There::Yes,
            },
        }
    }

    /// Notes what has expired for certain.
    pub fn expire(&mut self, key: usize, now: Nanos) {
        let expiry = self.held[key].as_ref().and_then(|held| held.expiry);
        if let Some(expiry) = expiry.filter(|expiry| expiry.by <= now) {
            self.may_have_lapsed(key, expiry.by);
            self.held[key] = None;
            self.note(key, expiry.by, None);
        }
    }

    /// What a key holds is about to become something else: until now it may have expired.
    pub fn may_have_lapsed(&mut self, key: usize, to: Nanos) {
        let expiry = self.held[key].as_ref().and_then(|held| held.expiry);
        if let Some(from) = expiry.map(|expiry| expiry.from).filter(|&from| from <= to) {
            let key = key as u16;
            self.lapses.push(Lapse { key, from, to });
        }
    }

    pub fn note(&mut self, key: usize, at: Nanos, state: Option<WriteId>) {
        let key = key as u16;
        self.log.push(Applied { key, at, state });
    }

    /// The log in the order of time and the lapses, once nothing more will happen.
    pub fn finish(mut self, now: Nanos) -> (Vec<Applied>, Vec<Lapse>) {
        for key in 0..self.held.len() {
            self.expire(key, now);
            self.may_have_lapsed(key, now);
        }
        let mut log = self.log;
        // What expired was noted when it was looked for; each key's own order is right already.
        log.sort_by_key(|applied| applied.at);
        (log, self.lapses)
    }
}
