//! Plain requests: `get` and `set` in the one form that every client library writes them. Nearly all
//! traffic consists of them, so they go a short way of their own; the answers, counts and side
//! effects are those of the ordinary path, and a test holds the two against each other.
//!
//! A look-up waits for memory twice, for a line of the index and for the item. One that is carried
//! out alone waits for both in full. So `get`s that stand one behind the other in a connection's
//! input are taken as a run, a window of keys at a time, and so are `set`s: the keys of a window are
//! hashed and their index lines asked for, then their items, and only then are they carried out, one
//! after the other and in order, so that the waiting overlaps.
//!
//! Whatever is not plain ([`scan_get`] and [`scan_set`] say what is) is left to the ordinary path, and
//! so is the rest of a multi-get that had to stop in the middle. Of what is plain, keys that another
//! worker holds, or that somebody watches, or while answers may be held back or have no memory, take the
//! ordinary path key by key.

use super::commands::{get, store};
use super::connections::Progress;
use super::engine::{At, Engine};
use super::key_command::{GetForm, KeyCommand};
use super::session::{ConnectionId, Session};
use super::time::TimeBase;
use super::worker::{Located, WorkerCore};
use core::ops::Range;
use evenkeel_hotkeys::server::Reader;
use evenkeel_protocol::{KeyAt, SetAt, scan_get, scan_set};
use evenkeel_storage::{Hint, TableHash};
use evenkeel_types::{CacheletId, Epoch, KeyHash, Now};

/// Keys that are asked for ahead. Processors have room for ten to twenty lines on their way; more
/// would only push out of the first cache what was asked for first.
pub(super) const WINDOW: usize = 16;

/// Keys of a run beyond which the memory that held them is given back.
const KEYS_KEEP_MAX: usize = 4096;

/// Room for a run, kept between runs to spare allocations.
#[derive(Debug, Default)]
pub struct Run {
    keys: Vec<KeyAt>,
    sets: Vec<SetAt>,
    /// Where the keys of the window are.
    probes: Vec<Probe>,
}

impl Run {
    /// Asks ahead for keys in these places, at most [`WINDOW`].
    #[inline]
    pub(super) fn ask_ahead_for<'l>(
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
    pub(super) fn probe(&self, number: usize, located: &Located) -> Probe {
        Probe {
            hint: self.probes[number].hint,
            ..Probe::new(located)
        }
    }
}

/// Where this worker looks for a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    table: TableHash,
    /// What the store said of the key when its memory was asked for ahead.
    hint: Hint,
    cachelet: CacheletId,
}

impl Probe {
    #[inline]
    fn new(located: &Located) -> Self {
        Probe {
            table: located.table,
            hint: Hint::NONE,
            cachelet: located.place.cachelet,
        }
    }

    /// The place of a command that names no map.
    #[inline]
    fn at(&self, now: Now) -> At {
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

/// What became of a window.
struct Answered {
    /// Keys answered.
    keys: usize,
    /// Where the last request ends that is answered whole, if one is.
    end: Option<usize>,
}

impl WorkerCore {
    /// Carries out the plain reads at the front of `input`, at most `commands` of them. Gives what was
    /// consumed and how many commands that were; nothing when there are none. `more` is set when a
    /// multi-get stopped in the middle and can go on as soon as others had their turn.
    #[inline]
    pub(super) fn plain_reads(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        input: &[u8],
        commands: u32,
    ) -> Option<(Progress, u32)> {
        let keys = &mut self.run.keys;
        keys.clear();
        let (mut end, mut taken) = (0, 0);
        while taken < commands && keys.len() < WINDOW {
            let Some(next) = scan_get(input, end, &self.config.limits, keys) else {
                break;
            };
            end = next;
            taken += 1;
        }
        if taken == 0 {
            return None;
        }
        let progress = self.read_keys(now, id, session, input);
        if self.run.keys.capacity() > KEYS_KEEP_MAX {
            self.run.keys = Vec::new();
        }
        Some((progress, taken))
    }

    /// Answers the keys of the run, in order, until one has to wait.
    fn read_keys(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        input: &[u8],
    ) -> Progress {
        let mut consumed = 0;
        let mut at = 0;
        while at < self.run.keys.len() {
            let window = at..self.run.keys.len().min(at + WINDOW);
            let wanted = window.len();
            let is_direct = self.has_short_way() && !self.scarce && session.is_direct();
            let answered = if is_direct && self.locate_window(input, window.clone()) {
                self.read_here(now, session, input, window)
            } else {
                self.read_elsewhere(now, id, session, input, window)
            };
            consumed = answered.end.unwrap_or(consumed);
            if answered.keys < wanted {
                return Progress {
                    consumed,
                    more: self.outbox.is_full(),
                };
            }
            at += wanted;
        }
        Progress {
            consumed,
            more: false,
        }
    }

    /// Finds out where the keys of a window are. False when one of them is not here.
    #[inline]
    fn locate_window(&mut self, input: &[u8], window: Range<usize>) -> bool {
        let (store, me) = (&self.engine.store, self.config.index);
        let Run { keys, probes, .. } = &mut self.run;
        let mut are_here = true;
        probes.clear();
        probes.extend(keys[window].iter().map(|key| {
            let key = key.of(input);
            let table = store.hash(key);
            let (place, _) = self.placement.locate(key, table);
            are_here &= place.is_at(me);
            Probe {
                table,
                hint: Hint::NONE,
                cachelet: place.cachelet,
            }
        }));
        are_here
    }

    /// Answers a window of keys that are all here, and whose answers go straight to the output.
    #[inline]
    fn read_here(
        &mut self,
        now: Now,
        session: &mut Session,
        input: &[u8],
        window: Range<usize>,
    ) -> Answered {
        let engine = &mut self.engine;
        let Run { keys, probes, .. } = &mut self.run;
        ask_ahead(engine, probes);
        let room = session.room();
        let mut answered = Answered { keys: 0, end: None };
        for (sent, probe) in keys[window].iter().zip(probes) {
            if session.out.len() >= room {
                break;
            }
            let key = sent.of(input);
            read_probed(engine, now, probe, key, &mut session.out);
            answered.keys += 1;
            if sent.is_last() {
                session.end_get();
                answered.end = Some(sent.request_end());
            } else {
                session.keys_done += 1;
            }
        }
        answered
    }

    /// Answers a window key by key, of which some are at other workers, must wait for those, or are
    /// watched.
    #[cold]
    #[inline(never)]
    fn read_elsewhere(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        input: &[u8],
        window: Range<usize>,
    ) -> Answered {
        let mut answered = Answered { keys: 0, end: None };
        for place in window {
            if session.is_paused() || self.outbox.is_full() {
                break;
            }
            let sent = self.run.keys[place];
            let key = sent.of(input);
            let command = KeyCommand::Get(GetForm::PLAIN);
            if !self.one_key(now, id, session, key, command) {
                break;
            }
            answered.keys += 1;
            session.keys_done += 1;
            if sent.is_last() {
                session.end_get();
                answered.end = Some(sent.request_end());
            }
        }
        answered
    }

    /// Carries out the plain `set`s at the front of `input` whose keys are here, at most `commands` of
    /// them. Gives what was consumed and how many commands that were; nothing when there are none.
    #[inline]
    pub(super) fn plain_sets(
        &mut self,
        now: Now,
        session: &mut Session,
        input: &[u8],
        commands: u32,
    ) -> Option<(usize, u32)> {
        if !self.has_short_way() {
            return None;
        }
        let engine = &mut self.engine;
        let Run { sets, probes, .. } = &mut self.run;
        sets.clear();
        probes.clear();
        let window = WINDOW.min(commands as usize);
        let mut end = 0;
        while sets.len() < window {
            let Some(set) = scan_set(input, end, &self.config.limits) else {
                break;
            };
            let key = set.key(input);
            let table = engine.store.hash(key);
            let (place, _) = self.placement.locate(key, table);
            if !place.is_at(self.config.index) {
                break;
            }
            end = set.end();
            sets.push(set);
            probes.push(Probe {
                table,
                hint: Hint::NONE,
                cachelet: place.cachelet,
            });
        }
        if sets.is_empty() {
            return None;
        }
        if sets.len() > 1 {
            ask_ahead(engine, probes);
        }
        for (set, probe) in sets.iter().zip(probes) {
            let said = store::plain(engine, &probe.at(now), &set.of(input), probe.hint);
            session.sink().extend_from_slice(said);
        }
        Some((end, sets.len() as u32))
    }
}

/// Starts to load the index lines of the keys of a window, and then their items. What that finds
/// spares each read the way through the index.
#[inline]
fn ask_ahead(engine: &Engine, probes: &mut [Probe]) {
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
pub(super) fn read_probed(
    engine: &mut Engine,
    now: Now,
    probe: &Probe,
    key: &[u8],
    out: &mut Vec<u8>,
) {
    let place = (probe.cachelet, probe.table, probe.hint);
    let found = get::plain(engine, place, TimeBase::seconds(now), key, out);
    if !engine.hot.pass_read(found.unwrap_or(0)) {
        // A classic client knows nothing of leases: whatever the advice, it is not told.
        let (hash, reader) = (KeyHash::of(key), Reader::Unaware);
        let hot = &mut engine.hot;
        let _ = hot.handle_read(now.monotonic, hash, key, reader, found);
    }
}
