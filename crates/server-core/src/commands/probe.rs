//! Keys that are asked for ahead.
//!
//! A look-up waits for memory twice, for a line of the index and for the item. One that is executed alone waits for both
//! in full. So keys are taken a window at a time: they are hashed and their index lines asked for, then their items, and
//! only then are the commands executed, one after the other and in order, so that the waiting overlaps.

use crate::commands::get;
use crate::placement::Located;
use crate::shard::engine::{At, Engine};
use crate::shard::time::TimeBase;
use evenkeel_hotkeys::server::Reader;
use evenkeel_protocol::{KeyAt, SetAt};
use evenkeel_storage::{Hint, TableHash};
use evenkeel_types::{CacheletId, Epoch, KeyHash, Now};

/// Keys that are asked for ahead. Processors have room for ten to twenty lines on their way; more
/// would only push out of the first cache what was asked for first.
pub(crate) const WINDOW: usize = 16;

/// Room for a run, kept between runs to spare allocations.
#[derive(Debug, Default)]
pub struct Run {
    pub(crate) keys: Vec<KeyAt>,
    pub(crate) sets: Vec<SetAt>,
    /// Where the keys of the window are.
    pub(crate) probes: Vec<Probe>,
}

impl Run {
    /// Asks ahead for keys in these places, at most [`WINDOW`].
    #[inline]
    pub(crate) fn ask_ahead_for<'l>(
        &mut self,
        engine: &Engine,
        places: impl Iterator<Item = &'l Located>,
    ) {
        self.probes.clear();
        self.probes.extend(places.map(Probe::new));
        ask_ahead(engine, &mut self.probes);
    }

    /// What asking ahead for a key said, which is in this place.
    #[inline]
    pub(crate) fn probe(&self, number: usize, located: &Located) -> Probe {
        Probe {
            hint: self.probes[number].hint,
            ..Probe::new(located)
        }
    }
}

/// Where this worker looks for a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    table: TableHash,
    /// What the store said of the key when its memory was asked for ahead.
    pub(crate) hint: Hint,
    cachelet: CacheletId,
}

impl Probe {
    #[inline]
    pub(crate) fn new(located: &Located) -> Self {
        Probe {
            table: located.table,
            hint: Hint::NONE,
            cachelet: located.place.cachelet,
        }
    }

    /// The place of a command that names no map.
    #[inline]
    pub(crate) fn at(&self, now: Now) -> At {
        At {
            now,
            seconds: TimeBase::seconds(now),
            cachelet: self.cachelet,
            table: self.table,
            placement: None,
            reader: Reader::Unaware,
            // What is probed is here, and what is here is owned.
            owned: true,
            since: Epoch(0),
        }
    }
}

/// Starts to load the index lines of the keys of a window, and then their items. What that finds
/// spares each read the way through the index.
#[inline]
pub(crate) fn ask_ahead(engine: &Engine, probes: &mut [Probe]) {
    if probes.len() > 1 {
        for probe in probes.iter() {
            engine.store.prefetch(probe.cachelet, probe.table);
        }
    }
    for probe in probes {
        probe.hint = engine.store.prefetch_item(probe.cachelet, probe.table);
    }
}

/// Answers a key of a plain `get` that is here and that nobody watches.
#[inline(always)]
pub(crate) fn read_probed(
    engine: &mut Engine,
    now: Now,
    probe: &Probe,
    key: &[u8],
    out: &mut Vec<u8>,
) {
    let place = (probe.cachelet, probe.table, probe.hint);
    let found = get::plain(engine, place, TimeBase::seconds(now), key, out);
    engine.hottest.read(key, found.unwrap_or(0));
    if !engine.hot.pass_read(found.unwrap_or(0)) {
        // A classic client knows nothing of leases: whatever the advice, it is not told.
        let (hash, reader) = (KeyHash::of(key), Reader::Unaware);
        let hot = &mut engine.hot;
        let _ = hot.handle_read(now.monotonic, hash, key, reader, found);
    }
}
