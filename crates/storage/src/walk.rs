//! Walks over a cachelet's items, for migration and dumps.

use crate::Seconds;
use crate::item::{self, Item};
use crate::store::Store;
use evenkeel_types::CacheletId;

/// Where a walk has come to: a point in the space of hashes. The default is the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkCursor(u64);

impl WalkCursor {
    /// The start of a cachelet.
    pub const START: WalkCursor = WalkCursor(0);
}

impl Store {
    /// Every item of a cachelet that has not expired, in no particular order; none when the
    /// cachelet is not here.
    pub fn items(&self, id: CacheletId, now: Seconds) -> impl Iterator<Item = Item<'_>> {
        let inner = self.inner(usize::from(id.0));
        inner.into_iter().flat_map(move |inner| {
            let items = inner
                .index
                .locations()
                .map(move |at| inner.item(inner.place(at), now));
            items.filter(move |item| !item::is_expired(item.expires_at(), now))
        })
    }

    /// Visits some hundred items, one shard of the index, and says where to go on; `None` at the end.
    ///
    /// Items may be written, moved and removed between two steps: an item that is there all the time
    /// is visited exactly once.
    pub fn walk(
        &self,
        id: CacheletId,
        cursor: WalkCursor,
        now: Seconds,
        visit: impl FnMut(Item<'_>),
    ) -> Option<WalkCursor> {
        let inner = self.inner(usize::from(id.0))?;
        let (locations, next) = inner.index.locations_from(cursor.0);
        let items = locations.map(|at| inner.item(inner.place(at), now));
        items
            .filter(|item| !item::is_expired(item.expires_at(), now))
            .for_each(visit);
        next.map(WalkCursor)
    }
}
