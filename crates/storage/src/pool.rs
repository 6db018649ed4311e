//! The process's memory budget, and each store's account with it.
//!
//! Think of a bank. The [`SegmentPool`] knows one number, how many bytes are lent out, and never
//! lends beyond its limit: the limit is strict at every moment, not on average. Each worker's store
//! has an [`Account`]; it borrows about a segment at a time and lends on to its cachelets, so the
//! shared number is touched when memory changes hands and never on the path of a get or a set that
//! finds room.
//!
//! The bytes themselves come from the process's allocator. A pool that carved them out of one large
//! mapping was rejected: items larger than a segment need right-sized blocks, which is what an allocator
//! is for, and a budget of bytes serves both kinds alike.
//!
//! ## Balance between workers
//!
//! Once the pool is lent out, every worker lives by evicting its own items, and the split stays as
//! it was. A worker that came late would then starve. Two rules stop that. Each store keeps a small
//! reserve from its birth. And a store that holds less than half of its fair share asks the pool
//! ([`SegmentPool::want`]); stores above their fair share see the wish when they next need memory
//! or are maintained, give a segment back, and borrow nothing while a wish is open.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Smallest segment. Smaller ones would spend more than one per cent on their own description.
pub(crate) const SEGMENT_BYTES_MIN: usize = 8 << 10;
/// Largest segment. What one step of eviction or expiry works through is bounded by it.
pub(crate) const SEGMENT_BYTES_MAX: usize = 1 << 20;
/// Segments that a cachelet should have when all have the same share: each cachelet keeps about two
/// half-filled segments open, so this many keep the idle space below half a per cent.
const SEGMENTS_PER_CACHELET: usize = 256;
/// An item larger than this part of a segment gets a block of its own: at this part, the unusable
/// end of a segment is 6 % at worst on average, as is the description of a block of its own.
pub(crate) const SEGMENT_PARTS_PER_ITEM_MAX: usize = 8;
/// A cachelet can address this many times its even share of the pool, or all of it if that is less.
const CACHELET_SKEW_MAX: usize = 4;
/// Bits of the narrowest and widest item alignment: 4 and 64 bytes.
const ALIGN_SHIFTS: core::ops::RangeInclusive<u32> = 2..=6;
/// A new store reserves at most this part of what is not lent yet.
const RESERVE_PART: usize = 8;
/// An account keeps at most this many segments of unused credit; what is beyond goes back.
const CREDIT_SEGMENTS_MAX: usize = 4;
/// What the stores together give back in one step of maintenance under a lowered limit: some thousand
/// small items, well below a millisecond of work.
const SHRINK_BYTES_PER_STEP: usize = 512 << 10;
/// Empty segments that an account keeps, so that eviction and reuse do not go through the allocator.
const SPARE_SEGMENTS_MAX: usize = 2;

const _: () = assert!(SPARE_SEGMENTS_MAX <= CREDIT_SEGMENTS_MAX);
const _: () = assert!(SEGMENT_BYTES_MIN.is_power_of_two() && SEGMENT_BYTES_MAX.is_power_of_two());

/// What a [`SegmentPool`] is made of.
#[derive(Clone, Copy, Debug)]
pub struct PoolConfig {
    /// Most bytes that all stores of the process may hold: items, their segments' descriptions and
    /// indexes (memcached's `-m`).
    pub limit_bytes: usize,
    /// Largest item in bytes, as memcached counts it (its `-I`); see [`SegmentPool::item_size_max`].
    pub item_size_max: usize,
    /// How many cachelets will share the pool. Only sizes segments; more or fewer do work.
    pub cachelets_expected: usize,
}

/// How the 32 bits of an item's location are divided, and what size segments have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Size of an ordinary segment; a power of two.
    pub segment_bytes: usize,
    /// Items start at multiples of `1 << align_shift` bytes.
    pub align_shift: u32,
    /// The same in bytes.
    pub align: usize,
    /// Low bits of a location that say where in the segment the item starts.
    pub offset_bits: u32,
    /// These bits.
    pub offset_mask: u32,
}

impl Geometry {
    /// The largest power-of-two segment that leaves each cachelet enough of them, and the finest
    /// alignment with which a cachelet can still address its share many times over even when every
    /// item has a block of its own.
    fn of(config: &PoolConfig) -> Self {
        let cachelets = config.cachelets_expected.max(1);
        let share = config.limit_bytes / cachelets;
        let segment_bytes = 1usize << (share / SEGMENTS_PER_CACHELET).max(1).ilog2();
        let segment_bytes = segment_bytes.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        let reach_wanted = config
            .limit_bytes
            .min(share.saturating_mul(CACHELET_SKEW_MAX));
        let with_shift = |align_shift: u32| Geometry {
            segment_bytes,
            align_shift,
            align: 1 << align_shift,
            offset_bits: segment_bytes.ilog2() - align_shift,
            offset_mask: (segment_bytes >> align_shift) as u32 - 1,
        };
        ALIGN_SHIFTS
            .map(with_shift)
            .find(|geometry| {
                geometry
                    .slots_max()
                    .saturating_mul(geometry.item_bytes_max())
                    >= reach_wanted
            })
            .unwrap_or(with_shift(*ALIGN_SHIFTS.end()))
    }

    /// Most segments and blocks that a cachelet can address.
    pub fn slots_max(&self) -> usize {
        1 << (32 - self.offset_bits)
    }

    /// Largest item that goes into an ordinary segment.
    pub fn item_bytes_max(&self) -> usize {
        self.segment_bytes / SEGMENT_PARTS_PER_ITEM_MAX
    }

    /// Rounds an item's size up to the alignment.
    #[inline]
    pub fn align_up(&self, bytes: usize) -> usize {
        let mask = self.align.wrapping_sub(1);
        // Sizes of items are far from the end of the numbers.
        bytes.wrapping_add(mask) & !mask
    }
}

/// The memory budget that all stores of a process share. The limit is strict.
#[derive(Debug)]
pub struct SegmentPool {
    limit_bytes: AtomicUsize,
    /// The limit before the last change; the invariants need it.
    lowered_from: AtomicUsize,
    item_size_max: usize,
    geometry: Geometry,
    /// Bytes lent to accounts. Invariant: grows only up to `limit_bytes`, which may be lowered
    /// below it.
    used: AtomicUsize,
    /// Stores without a cap of their own.
    stores: AtomicUsize,
    /// Bytes that starving stores ask the others for.
    wanted: AtomicUsize,
    /// Orders segments of all stores by age, so that eviction can compare cachelets that moved.
    stamp: AtomicU64,
}

impl SegmentPool {
    /// Makes a pool of which nothing is lent. Allocates no item memory.
    pub fn new(config: PoolConfig) -> Arc<Self> {
        Arc::new(SegmentPool {
            limit_bytes: AtomicUsize::new(config.limit_bytes),
            lowered_from: AtomicUsize::new(0),
            item_size_max: config.item_size_max,
            geometry: Geometry::of(&config),
            used: AtomicUsize::new(0),
            stores: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
            stamp: AtomicU64::new(0),
        })
    }

    /// Most bytes that may be lent.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// Changes the limit while stores are at work (memcached's `cache_memlimit`).
    ///
    /// A higher limit counts at once. Under a lower one nothing more is lent, and the stores evict
    /// step by step as they are maintained ([`Store::maintain`](crate::Store::maintain)) until
    /// [`SegmentPool::used_bytes`] is below it. Stores that may not evict give back what deletion
    /// and expiry free.
    pub fn set_limit_bytes(&self, limit_bytes: usize) {
        let before = self.limit_bytes.swap(limit_bytes, Ordering::Relaxed);
        // Lowered twice in a row, the memory may still be that of the first limit.
        let lent_under = if self.used_bytes() > before {
            self.lowered_from()
        } else {
            before
        };
        self.lowered_from.store(lent_under, Ordering::Relaxed);
    }

    /// The highest limit under which what is lent now may have been lent.
    pub(crate) fn lowered_from(&self) -> usize {
        self.lowered_from.load(Ordering::Relaxed)
    }

    /// Bytes lent to stores now, whether they use them or keep them at hand. Above the limit only
    /// between [`SegmentPool::set_limit_bytes`] and the maintenance that follows it.
    pub fn used_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Size of an ordinary segment in bytes.
    pub fn segment_bytes(&self) -> usize {
        self.geometry.segment_bytes
    }

    /// Largest item in bytes, counted as memcached counts (`item_make_header`): key, value, and
    /// [`MEMCACHED_ITEM_OVERHEAD`](crate::MEMCACHED_ITEM_OVERHEAD).
    pub fn item_size_max(&self) -> usize {
        self.item_size_max
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub(crate) fn next_stamp(&self) -> u64 {
        self.stamp.fetch_add(1, Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> bool {
        let limit_bytes = self.limit_bytes();
        let lend = |used: usize| {
            used.checked_add(bytes)
                .filter(|&total| total <= limit_bytes)
        };
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, lend)
            .is_ok()
    }

    pub(crate) fn give(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "more memory came back than was lent");
    }

    /// Asks stores above their fair share for memory.
    fn want(&self, bytes: usize) {
        self.wanted.fetch_max(bytes, Ordering::Relaxed);
    }

    fn wanted(&self) -> usize {
        self.wanted.load(Ordering::Relaxed)
    }

    fn wish_granted(&self, bytes: usize) {
        let less = |wanted: usize| Some(wanted.saturating_sub(bytes));
        // Never fails: the closure always gives a value.
        let _ = self
            .wanted
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Bytes lent beyond the limit, because it was lowered.
    fn excess(&self) -> usize {
        self.used_bytes().saturating_sub(self.limit_bytes())
    }

    fn fair_share(&self) -> usize {
        self.limit_bytes() / self.stores.load(Ordering::Relaxed).max(1)
    }
}

/// What one store has borrowed of the pool.
#[derive(Debug)]
pub(crate) struct Account {
    pool: Arc<SegmentPool>,
    /// Bytes borrowed: what the cachelets here hold, plus `credit`.
    held: usize,
    /// Bytes borrowed and not in use.
    credit: usize,
    /// `held` stays at or below this.
    cap: usize,
    /// `held` is not returned below this.
    reserve: usize,
    /// Whether the store has a cap of its own and so no claim to a fair share.
    capped: bool,
    /// Whether other stores may be asked for what is missing now: not for a copy.
    pub asks: bool,
    /// Empty segments, part of `credit`.
    spare: Vec<Box<[u8]>>,
}

impl Account {
    pub fn new(pool: Arc<SegmentPool>, bytes_max: Option<usize>) -> Self {
        let segment = pool.segment_bytes();
        let free = pool.limit_bytes().saturating_sub(pool.used_bytes());
        let reserve = match bytes_max {
            None => (free / RESERVE_PART).min(pool.item_size_max.saturating_add(2 * segment)),
            Some(cap) => (cap / RESERVE_PART)
                .min(2 * segment)
                .min(free / RESERVE_PART),
        };
        if bytes_max.is_none() {
            pool.stores.fetch_add(1, Ordering::Relaxed);
        }
        let reserve = if pool.take(reserve) { reserve } else { 0 };
        Account {
            held: reserve,
            credit: reserve,
            cap: bytes_max.unwrap_or(usize::MAX),
            reserve,
            capped: bytes_max.is_some(),
            asks: true,
            spare: Vec::new(),
            pool,
        }
    }

    pub fn pool(&self) -> &Arc<SegmentPool> {
        &self.pool
    }

    pub fn held(&self) -> usize {
        self.held
    }

    pub fn credit(&self) -> usize {
        self.credit
    }

    /// Reserves memory for use; false when the pool, the cap or another store's wish forbids it.
    pub fn charge(&mut self, bytes: usize) -> bool {
        if !self.has_room_for(bytes) {
            return false;
        }
        self.spend(bytes);
        true
    }

    fn spend(&mut self, bytes: usize) {
        self.credit -= bytes;
        self.drop_uncovered();
    }

    /// Spare segments are credit that has been allocated: what the credit no longer covers goes.
    fn drop_uncovered(&mut self) {
        while self.spare.len() * self.pool.segment_bytes() > self.credit {
            self.spare.pop();
        }
    }

    /// Whether [`Account::charge`] would succeed now; borrows what it takes.
    pub fn has_room_for(&mut self, bytes: usize) -> bool {
        bytes <= self.credit || self.borrow(bytes - self.credit)
    }

    fn borrow(&mut self, missing: usize) -> bool {
        let room = self.cap.saturating_sub(self.held);
        if missing > room || (self.pool.wanted() > 0 && self.owes()) {
            return false;
        }
        let generous = missing.max(self.pool.segment_bytes()).min(room);
        let granted = [generous, missing]
            .into_iter()
            .find(|&bytes| self.pool.take(bytes));
        match granted {
            Some(bytes) => {
                self.held += bytes;
                self.credit += bytes;
                true
            }
            None => {
                if self.asks && self.held < self.fair_share() / 2 {
                    self.pool.want(missing);
                }
                false
            }
        }
    }

    fn fair_share(&self) -> usize {
        self.pool.fair_share().min(self.cap)
    }

    fn owes(&self) -> bool {
        !self.capped && self.held > self.pool.fair_share()
    }

    /// Bytes that this store should free for others.
    pub fn owed(&self) -> usize {
        let wanted = self.pool.wanted();
        if wanted > 0 && self.owes() { wanted } else { 0 }
    }

    /// Bytes that this store should give back next because the pool's limit was lowered: of what all
    /// stores together give in a step, the part of the lent memory that this one has, so that they
    /// shrink alike.
    pub fn excess(&self) -> usize {
        let excess = self.pool.excess().min(SHRINK_BYTES_PER_STEP);
        if excess == 0 {
            return 0;
        }
        let part = self.held as f64 / self.pool.used_bytes().max(1) as f64;
        // Rounded up, so that the last bytes are somebody's.
        let bytes = (excess as f64 * part).ceil() as usize;
        bytes.min(self.held.saturating_sub(self.reserve()))
    }

    /// Gives credit back that the pool's lowered limit no longer covers. Returns how much.
    pub fn pay_excess(&mut self) -> usize {
        let bytes = self.excess().min(self.credit);
        if bytes > 0 {
            self.give_back(bytes);
        }
        bytes
    }

    /// Gives credit to the stores that ask for it.
    pub fn pay_owed(&mut self) {
        let bytes = self
            .owed()
            .min(self.credit)
            .min(self.held.saturating_sub(self.reserve()));
        if bytes > 0 {
            self.give_back(bytes);
            self.pool.wish_granted(bytes);
        }
    }

    /// What this store keeps even when others ask: the reserve that it was born with, or less under
    /// a limit that was lowered since.
    fn reserve(&self) -> usize {
        self.reserve.min(self.pool.fair_share() / RESERVE_PART)
    }

    /// Takes memory that is no longer in use.
    pub fn refund(&mut self, bytes: usize) {
        self.credit += bytes;
        debug_assert!(self.credit <= self.held);
    }

    /// Accounts for something that took `before` bytes and takes `after` bytes now.
    /// [`Account::has_room_for`] has answered for the growth.
    pub fn adjust(&mut self, before: usize, after: usize) {
        if after > before {
            assert!(
                self.charge(after - before),
                "growth follows a check that there is room"
            );
        } else {
            self.refund(before - after);
        }
    }

    /// Returns credit beyond what is worth keeping at hand.
    #[inline]
    pub fn trim(&mut self) {
        let high = CREDIT_SEGMENTS_MAX * self.pool.segment_bytes();
        if self.credit > high {
            let returnable = self.held.saturating_sub(self.reserve());
            // Half stays, so that the next need does not go to the pool at once.
            let bytes = (self.credit - high / 2).min(returnable);
            self.give_back(bytes);
        }
    }

    fn give_back(&mut self, bytes: usize) {
        self.held -= bytes;
        self.spend(bytes);
        self.pool.give(bytes);
    }

    /// Memory of a cachelet that leaves or comes with its memory.
    pub fn hand_over(&mut self, bytes: usize) {
        self.held -= bytes;
    }

    pub fn take_over(&mut self, bytes: usize) {
        self.held += bytes;
    }

    /// Charges for a block and gives it; its contents are arbitrary. `None` when there is no room, or
    /// the process gets no memory.
    pub fn block(&mut self, bytes: usize) -> Option<Box<[u8]>> {
        if !self.has_room_for(bytes) {
            return None;
        }
        // Before the credit that stands for it is spent.
        let spare = if bytes == self.pool.segment_bytes() {
            self.spare.pop()
        } else {
            None
        };
        let block = match spare {
            Some(block) => block,
            None => new_block(bytes)?,
        };
        self.spend(bytes);
        Some(block)
    }

    /// Takes a block back and its bytes as credit.
    pub fn release(&mut self, block: Box<[u8]>) {
        self.refund(block.len());
        if block.len() == self.pool.segment_bytes() && self.spare.len() < SPARE_SEGMENTS_MAX {
            self.spare.push(block);
        }
    }
}

/// This many bytes; `None` when the process gets no memory.
fn new_block(bytes: usize) -> Option<Box<[u8]>> {
    let mut block = Vec::new();
    block.try_reserve_exact(bytes).ok()?;
    // By the thread that will use it, so that the kernel takes it from that thread's memory node.
    block.resize(bytes, 0);
    Some(block.into_boxed_slice())
}

impl Drop for Account {
    fn drop(&mut self) {
        self.pool.give(self.credit);
        if !self.capped {
            self.pool.stores.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(limit_bytes: usize, cachelets_expected: usize) -> PoolConfig {
        PoolConfig {
            limit_bytes,
            item_size_max: 1 << 20,
            cachelets_expected,
        }
    }

    #[test]
    fn segments_grow_with_the_share_of_a_cachelet() {
        let segment = |limit, cachelets| Geometry::of(&config(limit, cachelets)).segment_bytes;
        assert_eq!(segment(0, 0), SEGMENT_BYTES_MIN);
        assert_eq!(segment(16 << 20, 64), SEGMENT_BYTES_MIN);
        assert_eq!(segment(256 << 20, 16), 64 << 10);
        assert_eq!(segment(512 << 30, 256), SEGMENT_BYTES_MAX);
    }

    #[test]
    fn a_location_reaches_a_skewed_share_even_of_large_items() {
        for (limit_gib, cachelets) in [(1, 16), (64, 64), (512, 256)] {
            let geometry = Geometry::of(&config(limit_gib << 30, cachelets));
            let reach = geometry.slots_max() * geometry.item_bytes_max();
            assert!(
                reach >= (limit_gib << 30) / cachelets * CACHELET_SKEW_MAX,
                "{geometry:?}"
            );
        }
        assert_eq!(Geometry::of(&config(256 << 20, 16)).align_shift, 2);
    }

    #[test]
    fn the_limit_is_strict_and_what_is_dropped_comes_back() {
        let pool = SegmentPool::new(config(100_000, 1));
        let mut account = Account::new(pool.clone(), None);
        let mut charged = 0;
        while account.charge(700) {
            charged += 700;
            assert!(pool.used_bytes() <= 100_000);
        }
        assert!(charged > 99_000, "{charged}");
        account.refund(charged);
        drop(account);
        assert_eq!(pool.used_bytes(), 0);
    }

    #[test]
    fn a_starving_store_is_fed_by_one_that_has_more_than_its_share() {
        let pool = SegmentPool::new(config(1 << 20, 1));
        let segment = pool.segment_bytes();
        let mut rich = Account::new(pool.clone(), None);
        let mut charged = 0;
        while rich.charge(segment) {
            charged += segment;
        }
        // The second store comes when nothing is left, not even for a reserve.
        let mut poor = Account::new(pool.clone(), None);
        assert!(!poor.charge(segment));
        assert!(rich.owed() >= segment);
        rich.refund(2 * segment);
        charged -= 2 * segment;
        rich.pay_owed();
        assert_eq!(rich.owed(), 0);
        assert!(poor.charge(segment));
        poor.refund(segment);
        rich.refund(charged);
    }
}
