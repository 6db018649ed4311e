//! Runs of plain reads: `get`s that stand one behind the other in a connection's input, and the keys
//! of each.
//!
//! A look-up waits for memory twice, for a line of the index and for the item. One that is carried
//! out alone waits for both in full. So a run is taken a window at a time: the keys of a window are
//! hashed and their index lines asked for, then their items, and only then are they answered, one
//! after the other and in order, so that the waiting overlaps. Asking changes nothing that can be
//! seen, so the answers are those of the same requests one by one; a test compares the two.
//!
//! Whatever is not plain ([`scan_get`] says what is) is left to the ordinary path, and so is the rest
//! of a multi-get that had to stop in the middle.

use super::dispatch::GetForm;
use super::session::{ConnectionId, Session};
use super::worker::{Located, Progress, WorkerCore};
use evenkeel_policy::hot_keys::server::Reader;
use evenkeel_protocol::{KeyAt, scan_get, text};
use evenkeel_types::Now;

/// Keys that are asked for ahead. Processors have room for ten to twenty lines on their way; more
/// would only push out of the first cache what was asked for first.
const WINDOW: usize = 16;

/// Room for a run, kept between runs to spare allocations.
#[derive(Debug, Default)]
pub struct Run {
    keys: Vec<KeyAt>,
    /// Where the keys of the window are.
    located: Vec<Located>,
}

/// Keys of a run beyond which the memory that held them is given back.
const KEYS_KEEP_MAX: usize = 4096;

impl WorkerCore {
    /// Carries out the plain reads at the front of `input`, at most `commands` of them. Gives what was
    /// consumed and how many commands that were; nothing when there are none. `more` is set when a
    /// multi-get stopped in the middle and can go on as soon as others had their turn.
    pub(super) fn plain_reads(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        input: &[u8],
        commands: u32,
    ) -> Option<(Progress, u32)> {
        let mut run = core::mem::take(&mut self.run);
        run.keys.clear();
        let (mut end, mut taken) = (0, 0);
        while taken < commands && run.keys.len() < WINDOW {
            let Some(next) = scan_get(input, end, &self.config.limits, &mut run.keys) else {
                break;
            };
            end = next;
            taken += 1;
        }
        let progress = (taken > 0).then(|| self.read_keys(now, id, session, input, &mut run));
        if run.keys.capacity() <= KEYS_KEEP_MAX {
            self.run = run;
        }
        progress.map(|progress| (progress, taken))
    }

    fn read_keys(
        &mut self,
        now: Now,
        id: ConnectionId,
        session: &mut Session,
        input: &[u8],
        run: &mut Run,
    ) -> Progress {
        let mut consumed = 0;
        for window in run.keys.chunks(WINDOW) {
            let located = &mut run.located;
            located.clear();
            located.extend(window.iter().map(|key| self.locate(key.of(input))));
            if window.len() > 1 {
                self.ask_ahead(located);
            }
            for (key, located) in window.iter().zip(located) {
                if session.is_paused() || self.outbox.is_full() {
                    return Progress {
                        consumed,
                        more: self.outbox.is_full(),
                    };
                }
                let at = located.at(now, Reader::Unaware);
                let worker = located.place.worker;
                self.read_key(id, session, &at, worker, key.of(input), GetForm::PLAIN);
                session.keys_done += 1;
                if key.is_last() {
                    session.sink().extend_from_slice(text::END);
                    session.keys_done = 0;
                    consumed = key.request_end();
                }
            }
        }
        Progress {
            consumed,
            more: false,
        }
    }

    /// Starts to load the index lines of the keys that are here, and then their items. What that finds
    /// spares each read the way through the index.
    fn ask_ahead(&self, located: &mut [Located]) {
        let (store, me) = (&self.engine.store, self.config.index);
        for key in located.iter().filter(|key| key.place.worker == me) {
            store.prefetch(key.place.cachelet, key.table);
        }
        for key in located.iter_mut().filter(|key| key.place.worker == me) {
            key.hint = store.prefetch_item(key.place.cachelet, key.table);
        }
    }
}
