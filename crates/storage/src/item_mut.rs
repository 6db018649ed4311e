//! An item that was asked for, and what a command may change about it.

use crate::Seconds;
use crate::cachelet::{Entry, Place};
use crate::hash::TableHash;
use crate::item::{self, Item, Layout, Meta};
use crate::segment::QueueName;
use crate::store::{Store, StoreError};
use evenkeel_types::{CacheletId, Version};

/// Scratch space above this many bytes is not kept.
const SCRATCH_KEPT_MAX: usize = 64 << 10;
/// Not the upper bits of any version, so that an item in the scratch space carries its own.
const NO_VERSION_HIGH: u32 = u32::MAX;

/// Where the item is now.
#[derive(Clone, Copy, Debug)]
enum Spot {
    Segment(Place),
    /// It was evicted for a larger version of itself, but can be read until the borrow ends.
    Scratch,
}

/// An item found by [`Store::get`].
#[derive(Debug)]
pub struct ItemMut<'a> {
    store: &'a mut Store,
    slot: usize,
    spot: Spot,
    now: Seconds,
}

impl Store {
    /// Finds an item and counts the use. An expired item is removed and not found.
    ///
    /// `fetched` and `last_access` stay as they were, so that the caller can show them; an ordinary
    /// read goes on with [`ItemMut::touch_access`].
    #[inline]
    pub fn get(&mut self, id: CacheletId, key: &[u8], now: Seconds) -> Option<ItemMut<'_>> {
        let hash = self.hash(key);
        self.get_hashed(id, key, hash, now)
    }

    /// As [`Store::get`], with the key's hash.
    #[inline]
    pub fn get_hashed(
        &mut self,
        id: CacheletId,
        key: &[u8],
        hash: TableHash,
        now: Seconds,
    ) -> Option<ItemMut<'_>> {
        let slot = usize::from(id.0);
        let inner = &mut *self.cachelets.get_mut(slot)?.as_mut()?.inner;
        inner.reads = inner.reads.wrapping_add(1);
        let Some(place) = inner.find(key, hash) else {
            inner.misses = inner.misses.wrapping_add(1);
            return None;
        };
        let data = inner.data_mut(place);
        let layout = Layout::read(data);
        if layout.expires() && item::is_expired(layout.expires_at(data), now) {
            inner.expire_read(hash, place, &mut self.context);
            return None;
        }
        item::bump_frequency(data, layout);
        inner.bytes_out = inner.bytes_out.wrapping_add(layout.value_len() as u64);
        Some(ItemMut::new(self, slot, place, now))
    }

    /// As [`Store::get_hashed`], for a command that reads an item only to change it: it counts as a write
    /// of the cachelet, by what it does with the item or, if there is none, here.
    pub fn find_hashed(
        &mut self,
        id: CacheletId,
        key: &[u8],
        hash: TableHash,
        now: Seconds,
    ) -> Option<ItemMut<'_>> {
        let slot = usize::from(id.0);
        let inner = &mut *self.cachelets.get_mut(slot)?.as_mut()?.inner;
        let Some(place) = inner.find(key, hash) else {
            inner.writes += 1;
            return None;
        };
        let data = inner.data_mut(place);
        let layout = Layout::read(data);
        if layout.expires() && item::is_expired(layout.expires_at(data), now) {
            inner.writes += 1;
            inner.expire_found(hash, place, &mut self.context);
            return None;
        }
        item::bump_frequency(data, layout);
        Some(ItemMut::new(self, slot, place, now))
    }
}

impl<'a> ItemMut<'a> {
    #[inline]
    fn new(store: &'a mut Store, slot: usize, place: Place, now: Seconds) -> Self {
        ItemMut {
            store,
            slot,
            spot: Spot::Segment(place),
            now,
        }
    }

    /// A read-only view that lives as long as the borrow of the store.
    #[inline]
    pub fn into_item(self) -> Item<'a> {
        view(self.store, self.slot, self.spot, self.now)
    }

    #[inline]
    fn item(&self) -> Item<'_> {
        view(self.store, self.slot, self.spot, self.now)
    }

    #[inline]
    fn data_mut(&mut self) -> &mut [u8] {
        match self.spot {
            Spot::Segment(place) => {
                let cachelet = self.store.cachelets[self.slot].as_mut();
                cachelet
                    .expect("the borrow keeps the cachelet here")
                    .inner
                    .data_mut(place)
            }
            Spot::Scratch => &mut self.store.scratch,
        }
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.item().key()
    }

    /// The value, in one piece.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.item().value()
    }

    /// The client's flags.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.item().flags()
    }

    /// The version (CAS unique).
    #[inline]
    pub fn version(&self) -> Version {
        self.item().version()
    }

    /// When the item expires, or [`NEVER`](crate::NEVER).
    #[inline]
    pub fn expires_at(&self) -> Seconds {
        self.item().expires_at()
    }

    /// When the item was last read or written, not counting this read before
    /// [`ItemMut::touch_access`].
    #[inline]
    pub fn last_access(&self) -> Seconds {
        self.item().last_access()
    }

    /// Whether the item has been read since it was written, not counting this read before
    /// [`ItemMut::touch_access`].
    #[inline]
    pub fn fetched(&self) -> bool {
        self.item().fetched()
    }

    /// Whether the item was marked stale.
    #[inline]
    pub fn stale(&self) -> bool {
        self.item().stale()
    }

    /// Whether a client has won the right to refresh the item.
    #[inline]
    pub fn win_sent(&self) -> bool {
        self.item().win_sent()
    }

    /// Bytes that the item takes in its segment, padding included.
    pub fn size(&self) -> usize {
        self.item().size()
    }

    /// Notes this read: sets `fetched`, and `now` as the time of the last access.
    #[inline]
    pub fn touch_access(&mut self, now: Seconds) {
        item::touch_access(self.data_mut(), now);
    }

    /// Marks the item stale, or fresh again.
    pub fn set_stale(&mut self, stale: bool) {
        item::set_stale(self.data_mut(), stale);
    }

    /// Notes whether a client has won the right to refresh the item.
    pub fn set_win_sent(&mut self, win_sent: bool) {
        item::set_win_sent(self.data_mut(), win_sent);
    }

    /// Sets the expiry.
    ///
    /// An item that never expired has no room to say when it does, and is written anew.
    ///
    /// # Errors
    ///
    /// [`StoreError::OutOfMemory`] if there is no memory for that and nothing can or may be evicted;
    /// the item is then unchanged. A store that evicts may evict the item itself: that is no error.
    pub fn set_expires_at(&mut self, expires_at: Seconds) -> Result<(), StoreError> {
        self.count_write();
        if !item::set_expires_at(self.data_mut(), expires_at) {
            let meta = Meta {
                expires_at,
                ..self.item().meta()
            };
            return self.rewrite(&meta);
        }
        if let Spot::Segment(place) = self.spot
            && let Some(cachelet) = self.store.cachelets[self.slot].as_mut()
        {
            cachelet.inner.segments[place.segment as usize].widen_expiry(expires_at);
        }
        Ok(())
    }

    /// Sets the version.
    ///
    /// # Errors
    ///
    /// As for [`ItemMut::set_expires_at`]; rare, since a version of about the same origin fits.
    pub fn set_version(&mut self, version: Version) -> Result<(), StoreError> {
        self.count_write();
        let high = self.item().segment_version_high;
        if item::set_version(self.data_mut(), version, high) {
            return Ok(());
        }
        let meta = Meta {
            version,
            ..self.item().meta()
        };
        self.rewrite(&meta)
    }

    /// Counts a write of the cachelet.
    fn count_write(&mut self) {
        if let Some(cachelet) = self.store.cachelets[self.slot].as_mut() {
            cachelet.inner.writes += 1;
        }
    }

    /// Writes the item anew with another description, elsewhere, and removes it here.
    fn rewrite(&mut self, meta: &Meta) -> Result<(), StoreError> {
        let ItemMut {
            ref mut store,
            slot,
            now,
            ..
        } = *self;
        let mut scratch = core::mem::take(&mut store.scratch);
        let item = view(store, slot, self.spot, now);
        let layout = Layout::of(meta, item.key().len(), item.value().len(), NO_VERSION_HIGH);
        scratch.clear();
        scratch.resize(layout.size(), 0);
        layout.write(&mut scratch, meta, item.key(), [item.value(), &[]]);
        let (key, value) = (layout.key(&scratch), layout.value(&scratch));
        let hash = store.hash(key);
        // Two entries of the key for a moment; the older one goes below.
        let queue = match (store.context.is_copy)(key) {
            true => QueueName::Copies,
            false => QueueName::Main,
        };
        let entry = Entry {
            hash,
            meta: *meta,
            key,
            value: [value, &[]],
            queue,
        };
        let written = store.append(slot, &entry, now);
        self.spot = locate_rewritten(store, slot, key, hash, written.ok());
        let gone = matches!(self.spot, Spot::Scratch);
        if gone || scratch.capacity() <= SCRATCH_KEPT_MAX {
            store.scratch = scratch;
        }
        if gone { Ok(()) } else { written.map(|_| ()) }
    }
}

/// Where a rewritten item is: at its new place, or still at the old one, or evicted.
fn locate_rewritten(
    store: &mut Store,
    slot: usize,
    key: &[u8],
    hash: TableHash,
    written: Option<Place>,
) -> Spot {
    let cachelet = store.cachelets[slot].as_mut();
    let inner = &mut cachelet.expect("the borrow keeps the cachelet here").inner;
    match written {
        Some(place) => {
            if let Some(old) = inner.find_other(key, hash, place) {
                inner.remove(hash, old, &mut store.context);
            }
            Spot::Segment(place)
        }
        None => inner.find(key, hash).map_or(Spot::Scratch, Spot::Segment),
    }
}

#[inline]
fn view(store: &Store, slot: usize, spot: Spot, now: Seconds) -> Item<'_> {
    match spot {
        Spot::Segment(place) => store
            .inner(slot)
            .expect("the borrow keeps the cachelet here")
            .item(place, now),
        Spot::Scratch => Item {
            data: &store.scratch,
            layout: Layout::read(&store.scratch),
            segment_version_high: NO_VERSION_HIGH,
            now,
            align: 1,
        },
    }
}
