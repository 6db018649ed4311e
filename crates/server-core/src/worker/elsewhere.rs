//! Counts requests for keys that are not this server's, and finds out whose they are.

use crate::WorkerCore;
use crate::session::elsewhere::Elsewhere;
use evenkeel_types::KeyHash;

impl WorkerCore {
    /// Counts that a key was asked for here that is not this server's, and says why.
    #[cold]
    pub(crate) fn refuse_elsewhere(&mut self, key: &[u8]) -> Elsewhere {
        self.engine.counters.keys_of_others += 1;
        let map = self.map.as_deref();
        let cachelet = map.map(|map| map.locate(KeyHash::of(key)).cachelet);
        match cachelet.filter(|it| map.is_some_and(|map| map.is_quarantined(*it))) {
            Some(cachelet) => Elsewhere::Quarantined(cachelet),
            None => Elsewhere::OfAnother,
        }
    }
}
