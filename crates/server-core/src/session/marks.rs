//! What `MOVED` leaves behind on a connection.

use evenkeel_types::CacheletId;
use std::collections::BTreeMap;

/// What keeps the requests of a connection in order when one of them is answered `MOVED`.
///
/// Others may be on their way behind it. Were they executed, because the worker has got the cachelet in between,
/// the first would be asked again after them. So the answer brings a mark, and from then on the cachelet's
/// requests are executed on this connection only if they carry it or a newer one: those that were sent after the
/// answer was read.
#[derive(Debug, Default)]
pub struct Marks {
    /// The newest mark of each cachelet that has one.
    of: BTreeMap<CacheletId, u64>,
    newest: u64,
}

impl Marks {
    /// Whether there is none: asked for every request.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Whether a request of a cachelet with this mark was sent before an answer was read.
    #[cold]
    pub fn hold_back(&self, cachelet: CacheletId, mark: Option<u64>) -> bool {
        let marked = self.of.get(&cachelet);
        marked.is_some_and(|newest| mark < Some(*newest))
    }

    /// A request of a cachelet with this mark is not executed. The mark that its answer brings: a new one, unless it
    /// lacks the present one.
    pub fn add(&mut self, cachelet: CacheletId, mark: Option<u64>) -> u64 {
        if let Some(present) = self.of.get(&cachelet)
            && self.hold_back(cachelet, mark)
        {
            return *present;
        }
        self.newest += 1;
        self.of.insert(cachelet, self.newest);
        self.newest
    }

    /// The client has nothing under way.
    pub fn clear(&mut self) {
        self.of.clear();
    }
}
