//! The `flush_all`s under way: what each still waits for, and what comes next.
//!
//! See `under_way/flush.rs` for why a flush may need several rounds.

use crate::ids::{ClientId, PoolId};
use evenkeel_types::{Epoch, Instant};
use std::collections::BTreeMap;

/// What a flush is answered while servers go by a map that does not come.
const MAP_MISSING: &[u8] =
    b"SERVER_ERROR not all servers flushed: their newer map has not come in time\r\n";

/// The answer slot of an application that waits for the end of a flush.
pub(crate) type FlushId = (ClientId, u64);

/// A `flush_all` that is under way.
#[derive(Debug)]
pub(crate) struct Flush {
    pub delay: Option<i64>,
    /// The application's further requests wait for it.
    pub holds_back: bool,
    /// Rounds that come behind this one in any case: where a pool is warmed from another, that one is emptied first, and then this one
    /// twice. What was fetched there before finds no placeholder here any more.
    pub rounds_left: u8,
    /// No further round begins from then on.
    give_up: Instant,
    /// Servers that owe an answer in this round. None of them while it waits for a map.
    missing: usize,
    /// The first thing that went wrong in this round.
    failure: Option<Vec<u8>>,
    /// Of pools that follow a map: the one that this round goes by, and the newest that is known to a worker.
    maps: BTreeMap<PoolId, (Epoch, Epoch)>,
}

/// What comes behind a round that is over.
#[derive(Debug)]
pub(crate) enum Next {
    /// Its end.
    End(Flush, Result<(), Vec<u8>>),
    /// Another round, by newer maps.
    Round(Flush),
    /// The round that comes next in any case.
    Further(Flush),
}

impl Flush {
    pub fn new(delay: Option<i64>, holds_back: bool, rounds_left: u8, give_up: Instant) -> Self {
        Flush {
            delay,
            holds_back,
            rounds_left,
            give_up,
            missing: 0,
            failure: None,
            maps: BTreeMap::new(),
        }
    }

    /// Newer maps that servers go by.
    fn newer_maps(&self) -> impl Iterator<Item = (PoolId, Epoch)> {
        let newer = self.maps.iter().filter(|(_, (sent, known))| known > sent);
        newer.map(|(pool, (_, known))| (*pool, *known))
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    under_way: BTreeMap<FlushId, Flush>,
}

impl Flushes {
    /// Whether none is under way.
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// A round begins, in which this many servers owe an answer, by these maps.
    pub fn begin_round(
        &mut self,
        id: FlushId,
        flush: Flush,
        missing: usize,
        maps: &BTreeMap<PoolId, Epoch>,
    ) {
        let maps = maps
            .iter()
            .map(|(&pool, &epoch)| (pool, (epoch, epoch)))
            .collect();
        let flush = Flush {
            missing,
            maps,
            ..flush
        };
        self.under_way.insert(id, flush);
    }

    /// A server has not flushed, or it is not known whether.
    pub fn failed(&mut self, id: FlushId, line: Vec<u8>) {
        if let Some(flush) = self.under_way.get_mut(&id) {
            flush.failure.get_or_insert(line);
        }
    }

    /// A server owes nothing more in this round; a worker goes by that map.
    pub fn answered(&mut self, id: FlushId, known: Option<(PoolId, Epoch)>) {
        let Some(flush) = self.under_way.get_mut(&id) else {
            return;
        };
        if let Some((pool, epoch)) = known
            && let Some((_, newest)) = flush.maps.get_mut(&pool)
        {
            *newest = epoch.max(*newest);
        }
        flush.missing -= 1;
    }

    /// If no server owes anything more in the round: the newer maps that are wanted, and until when.
    pub fn awaited_maps(&self, id: FlushId) -> Option<(Vec<(PoolId, Epoch)>, Instant)> {
        let flush = self.under_way.get(&id)?;
        (flush.missing == 0).then(|| (flush.newer_maps().collect(), flush.give_up))
    }

    /// Those whose round is over, and which wait for a map.
    pub fn waiting(&self) -> Vec<FlushId> {
        let waiting = self
            .under_way
            .iter()
            .filter(|(_, flush)| flush.missing == 0);
        waiting.map(|(id, _)| *id).collect()
    }

    /// Takes out a flush whose round is over, if it can end or go on. `has_map` says whether a map is there.
    pub fn go_on(
        &mut self,
        now: Instant,
        id: FlushId,
        has_map: impl Fn(PoolId, Epoch) -> bool,
    ) -> Option<Next> {
        let flush = self.under_way.get(&id)?;
        let is_done = flush.failure.is_some() || flush.newer_maps().next().is_none();
        let has_maps = flush.newer_maps().all(|(pool, epoch)| has_map(pool, epoch));
        let is_late = now >= flush.give_up;
        if !is_done && !has_maps && !is_late {
            return None;
        }
        let mut flush = self.under_way.remove(&id)?;
        Some(match flush.failure.take() {
            Some(line) => Next::End(flush, Err(line)),
            None if is_done && flush.rounds_left > 0 => {
                flush.rounds_left -= 1;
                Next::Further(flush)
            }
            None if is_done => Next::End(flush, Ok(())),
            None if is_late => Next::End(flush, Err(MAP_MISSING.to_vec())),
            None => Next::Round(flush),
        })
    }

    /// When the first flush that waits for a map is given up. O(flushes under way).
    pub fn deadline(&self) -> Option<Instant> {
        let waiting = self.under_way.values().filter(|flush| flush.missing == 0);
        waiting.map(|flush| flush.give_up).min()
    }
}
