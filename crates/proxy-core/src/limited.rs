//! Multi-gets of which the application wants a part: so many of the keys, or what is there in time (Replicate and Bundle, section III-F).
//!
//! The first key of a `get` or `gets` is then no key but says the limit: `limit:90%`, `limit:45`, `limit:5ms`, or both,
//! `limit:90%,5ms`. Its slot is the first of the request's, and its answer, which says what came of it, the last to be known: so nothing of the request is
//! shown before its end.

use crate::ids::{BackendId, ClientId, PoolId, RouteId};
use crate::limits::{LIMIT_MS_MAX, LIMIT_ROUNDS_MAX};
use core::mem;
use core::ops::Range;
use core::time::Duration;
use evenkeel_types::Instant;
use std::collections::BTreeSet;

/// What a key begins with that is a limit.
pub(crate) const LIMIT: &[u8] = b"limit:";

/// What is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// How many of the keys, if not all.
    pub enough: Option<Enough>,
    /// How long after the request was read it is answered with what is there.
    pub within: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enough {
    Percent(u32),
    Keys(u32),
}

impl Limit {
    /// What a pseudo key says; `None` if that is no limit.
    pub fn parse(said: &[u8]) -> Option<Limit> {
        let said = str::from_utf8(said.strip_prefix(LIMIT)?).ok()?;
        let mut limit = Limit {
            enough: None,
            within: None,
        };
        for part in said.split(',') {
            if let Some(ms) = part.strip_suffix("ms") {
                let ms = number(ms, LIMIT_MS_MAX)?;
                let within = Duration::from_millis(ms.into());
                if limit.within.replace(within).is_some() {
                    return None;
                }
                continue;
            }
            let enough = match part.strip_suffix('%') {
                Some(percent) => Enough::Percent(number(percent, 100)?),
                None => Enough::Keys(number(part, u32::MAX)?),
            };
            if limit.enough.replace(enough).is_some() {
                return None;
            }
        }
        Some(limit)
    }

    /// How many of so many keys are enough.
    pub fn wanted(&self, keys: usize) -> usize {
        match self.enough {
            None => keys,
            Some(Enough::Percent(percent)) => (keys * percent as usize).div_ceil(100),
            Some(Enough::Keys(wanted)) => keys.min(wanted as usize),
        }
    }
}

/// A decimal number from 1 on, without a sign.
fn number(digits: &str, most: u32) -> Option<u32> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u32 = digits.parse().ok().filter(|_| is_plain)?;
    (1..=most).contains(&number).then_some(number)
}

/// A request with a limit that is under way.
#[derive(Debug)]
pub(crate) struct Limited {
    /// The slot of its pseudo key. Those of its keys follow.
    pub first: u64,
    pub keys: usize,
    /// What the pseudo key says.
    pub said: Box<[u8]>,
    pub with_cas: bool,
    /// So many found keys are enough.
    pub wanted: usize,
    /// Keys that somebody was asked for, those of them whose answers are awaited, and those that were found.
    pub asked: usize,
    pub awaited: usize,
    pub found: usize,
    /// How often servers were asked.
    pub rounds: u8,
    /// Keys that nobody was asked for yet, and their bytes.
    rest: Vec<UnaskedKey>,
    bytes: Vec<u8>,
}

/// A key that nobody was asked for yet: of a list of servers, where it is dealt out by its hash.
#[derive(Clone, Debug)]
pub(crate) struct UnaskedKey {
    pub slot: u64,
    pub pool: PoolId,
    pub to: BackendId,
    pub hash: u64,
    pub route: RouteId,
    at: Range<usize>,
}

impl Limited {
    pub fn new(first: u64, said: &[u8], with_cas: bool) -> Self {
        Limited {
            first,
            keys: 0,
            said: said.into(),
            with_cas,
            wanted: 0,
            asked: 0,
            awaited: 0,
            found: 0,
            rounds: 0,
            rest: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Another key has the next slot, and nobody was asked for it.
    pub fn add_unasked(&mut self, mut key: UnaskedKey, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        key.at = start..self.bytes.len();
        self.rest.push(key);
    }

    /// Whether a slot is that of one of its keys.
    pub fn has(&self, slot: u64) -> bool {
        (1..=self.keys as u64).contains(&slot.wrapping_sub(self.first))
    }

    /// The answer about one of its keys has come.
    pub fn heard(&mut self, is_hit: bool) {
        self.awaited = self.awaited.saturating_sub(1);
        self.found += usize::from(is_hit);
    }

    /// Whether it goes on: to its end, or with another round.
    pub fn is_ripe(&self) -> bool {
        self.awaited == 0 || self.found >= self.wanted
    }

    /// How many keys are to be found yet, if others may be asked for.
    pub fn wants_more(&self) -> Option<usize> {
        let missing = self.wanted.checked_sub(self.found)?;
        (missing > 0 && !self.rest.is_empty()).then_some(missing)
    }

    /// A round begins. The keys from which it chooses, and whether all of them are asked for.
    pub fn begin_round(&mut self, missing: usize) -> (Vec<UnaskedKey>, Vec<u8>, bool) {
        self.rounds += 1;
        let all = self.rounds >= LIMIT_ROUNDS_MAX || missing >= self.rest.len();
        (mem::take(&mut self.rest), mem::take(&mut self.bytes), all)
    }

    /// So many keys are being asked for, and these are left.
    pub fn asking(&mut self, count: usize, rest: Vec<UnaskedKey>, bytes: Vec<u8>) {
        self.asked += count;
        self.awaited += count;
        (self.rest, self.bytes) = (rest, bytes);
    }

    /// What its pseudo key is answered, where so many keys that somebody was asked for are unanswered.
    pub fn told(&self, late: usize) -> Vec<u8> {
        let (asked, found, left) = (self.asked, self.found, self.left());
        let value = format!("asked={asked} found={found} left={left} late={late}");
        let mut told = b"VALUE ".to_vec();
        told.extend_from_slice(&self.said);
        let unique = if self.with_cas { " 0" } else { "" };
        told.extend_from_slice(format!(" 0 {}{unique}\r\n{value}\r\n", value.len()).as_bytes());
        told
    }

    /// How many keys nobody was asked for.
    pub fn left(&self) -> usize {
        self.rest.len()
    }
}

impl UnaskedKey {
    pub fn new(slot: u64, (pool, to): (PoolId, BackendId), hash: u64, route: RouteId) -> Self {
        UnaskedKey {
            slot,
            pool,
            to,
            hash,
            route,
            at: 0..0,
        }
    }

    pub fn of<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.at.clone()]
    }
}

/// Requests with a limit that are to go on: when their time is over, and those that have heard enough, or all that they asked for.
#[derive(Debug, Default)]
pub(crate) struct LimitedDue {
    /// By client and first slot.
    due: BTreeSet<(Instant, ClientId, u64)>,
    ripe: Vec<ClientId>,
}

impl LimitedDue {
    /// The time of one is over then. What has ended before stays here until then: no longer than [`LIMIT_MS_MAX`].
    pub fn add(&mut self, at: Instant, (client, first): (ClientId, u64)) {
        self.due.insert((at, client, first));
    }

    /// Something of this client goes on.
    pub fn ripen(&mut self, client: ClientId) {
        self.ripe.push(client);
    }

    /// The first time that is to come.
    pub fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|(at, ..)| *at)
    }

    /// The next one whose time is over.
    pub fn pop_due(&mut self, now: Instant) -> Option<(ClientId, u64)> {
        let (at, client, first) = *self.due.first()?;
        if at > now {
            return None;
        }
        self.due.pop_first();
        Some((client, first))
    }

    pub fn pop_ripe(&mut self) -> Option<ClientId> {
        self.ripe.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_a_share_a_time_or_a_time_and_one_of_these() {
        let limit = |said: &str| Limit::parse(format!("limit:{said}").as_bytes());
        let ms = |ms| Some(Duration::from_millis(ms));
        for (said, enough, within) in [
            ("90%", Some(Enough::Percent(90)), None),
            ("100%", Some(Enough::Percent(100)), None),
            ("45", Some(Enough::Keys(45)), None),
            ("5ms", None, ms(5)),
            ("90%,5ms", Some(Enough::Percent(90)), ms(5)),
            ("60000ms,1", Some(Enough::Keys(1)), ms(60_000)),
        ] {
            assert_eq!(limit(said), Some(Limit { enough, within }), "{said}");
        }
        for said in [
            "",
            "0",
            "0%",
            "101%",
            "-1ms",
            "0ms",
            "60001ms",
            "5s",
            "+5",
            "5,6",
            "5%,5",
            "5ms,5ms",
            "5,",
            ",",
            "5 ",
            "x",
            "99999999999",
        ] {
            assert_eq!(limit(said), None, "{said:?}");
        }
        assert_eq!(Limit::parse(b"limit"), None);
    }

    #[test]
    fn a_share_of_the_keys_is_rounded_up() {
        let wanted = |said: &[u8], keys| Limit::parse(said).unwrap().wanted(keys);
        assert_eq!(wanted(b"limit:90%", 50), 45);
        assert_eq!(wanted(b"limit:90%", 11), 10);
        assert_eq!(wanted(b"limit:1%", 1), 1);
        assert_eq!(wanted(b"limit:45", 30), 30);
        assert_eq!(wanted(b"limit:5ms", 30), 30);
    }
}
