//! How an item lies in memory.
//!
//! A small cache item (a 10-byte key, a 20-byte value) should not be outweighed by its description,
//! so the description is three words, and what most items do not need is only there when needed:
//!
//! ```text
//! word 0   key length 8 | value length 14 (unless an extra word has it) | which extra words 4 |
//!          frequency 2 | fetched | stale | win sent | dead
//! word 1   last access 24 (seconds, modulo 2^24) | version bits 32..40
//! word 2   version bits 0..32
//! extra    value length | expiry | client flags | version bits 40..64, each one word, if present
//! key, value, padding to the alignment
//! ```
//!
//! The upper 24 bits of versions rarely differ between items that were written at about the same
//! time, so a segment holds them once; an item of another origin has an extra word. The time of the
//! last access wraps after 194 days; it is only shown to clients, never decided upon.
//!
//! Rejected: chunks of fixed sizes with links (memcached's 48 to 56 bytes before the key), and the
//! frequency in the index (Segcache), since a hit reads the item's first line anyway.

use crate::Seconds;
use crate::same_bytes::same_bytes;
use evenkeel_types::{Version, copy};

/// The expiry of an item that never expires.
pub const NEVER: Seconds = 0;

/// What memcached adds to key and value when it compares an item with `-I`: a header of 48 bytes, a
/// CAS unique of 8, the key's terminator and the value's line end. Client flags that are not zero
/// add [`MEMCACHED_FLAGS_SIZE`].
pub const MEMCACHED_ITEM_OVERHEAD: usize = 48 + 8 + 1 + 2;
/// What memcached adds for client flags that are not zero.
pub const MEMCACHED_FLAGS_SIZE: usize = 4;

/// Bytes of a word.
const WORD: usize = 4;
/// Words that every item has.
pub(crate) const FIXED_BYTES: usize = 3 * WORD;

/// Most bytes that an item takes besides key and value: all extra words, and padding.
pub(crate) const BESIDES_BYTES_MAX: usize = FIXED_BYTES + 4 * WORD + 64;

const VALUE_LEN_SHIFT: u32 = 8;
/// Longest value whose length is in the first word; that of a longer one has an extra word.
const SHORT_VALUE_MAX: u32 = 0x3fff;
const HAS_SHIFT: u32 = 22;
const HAS_FLAGS: u32 = 1 << HAS_SHIFT;
const HAS_EXPIRY: u32 = 1 << (HAS_SHIFT + 1);
const WIDE_VERSION: u32 = 1 << (HAS_SHIFT + 2);
const LONG_VALUE: u32 = 1 << (HAS_SHIFT + 3);
const HAS_ANY: u32 = HAS_FLAGS | HAS_EXPIRY | WIDE_VERSION | LONG_VALUE;
const FREQUENCY_SHIFT: u32 = 26;
/// Highest frequency: two bits, as in S3-FIFO (section 4.1): more would only delay forgetting.
pub(crate) const FREQUENCY_MAX: u8 = 3;
const FETCHED: u32 = 1 << 28;
const STALE: u32 = 1 << 29;
const WIN_SENT: u32 = 1 << 30;
const DEAD: u32 = 1 << 31;

/// Bits of the last access that are kept.
const ACCESS_MASK: u32 = 0x00ff_ffff;
/// Bits of a version that every item has.
const VERSION_LOW_BITS: u32 = 40;

/// The bits of a version that a segment holds for all its items.
#[inline]
pub(crate) fn version_high(version: Version) -> u32 {
    // 24 bits remain, so nothing is lost.
    (version.0 >> VERSION_LOW_BITS) as u32
}

/// Whether an item with this expiry is gone at `now`.
#[inline]
pub(crate) fn is_expired(expires_at: Seconds, now: Seconds) -> bool {
    expires_at != NEVER && expires_at <= now
}

/// An item to store.
#[derive(Clone, Copy, Debug)]
pub struct NewItem<'a> {
    /// The key, decoded.
    pub key: &'a [u8],
    /// The value in two pieces that are joined, so that append and prepend copy once.
    pub value: [&'a [u8]; 2],
    /// The client's flags.
    pub flags: u32,
    /// When the item expires, or [`NEVER`].
    pub expires_at: Seconds,
    /// The item's version (CAS unique).
    pub version: Version,
}

/// Everything about an item but its key and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    pub flags: u32,
    pub expires_at: Seconds,
    pub version: Version,
    pub last_access: Seconds,
    /// Invariant: at most [`FREQUENCY_MAX`].
    pub frequency: u8,
    pub fetched: bool,
    pub stale: bool,
    pub win_sent: bool,
}

impl Meta {
    /// A new item that was written at `now`.
    #[inline]
    pub fn of(new: &NewItem<'_>, now: Seconds) -> Self {
        let NewItem {
            flags,
            expires_at,
            version,
            ..
        } = *new;
        Meta {
            flags,
            expires_at,
            version,
            last_access: now,
            ..Meta::default()
        }
    }
}

#[inline]
fn word(data: &[u8], at: usize) -> u32 {
    let bytes = data[at..]
        .first_chunk()
        .expect("an item does not end before its words do");
    u32::from_le_bytes(*bytes)
}

#[inline]
fn set_word(data: &mut [u8], at: usize, value: u32) {
    data[at..at + WORD].copy_from_slice(&value.to_le_bytes());
}

/// The first word of an item and the length of its value, from which follows where its parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    first: u32,
    value_len: u32,
}

/// Bytes before the key for each combination of the four bits that tell of an extra word.
const KEY_AT: [u8; 16] = {
    let mut key_at = [0; 16];
    let mut bits = 0;
    while bits < key_at.len() {
        key_at[bits] = (FIXED_BYTES + bits.count_ones() as usize * WORD) as u8;
        bits += 1;
    }
    key_at
};

/// Where the key stands: behind the words that the first one tells of.
#[inline]
fn key_at(first: u32) -> usize {
    usize::from(KEY_AT[(first >> HAS_SHIFT & 0xf) as usize])
}

/// Whether the item that `data` starts with has this key. What a lookup asks, so it looks at no more than
/// it must.
#[inline(always)]
pub(crate) fn has_key(data: &[u8], key: &[u8]) -> bool {
    let first = word(data, 0);
    // Keys in an index are shorter than 256 bytes, and so is what may be added to 24.
    let at = key_at(first);
    (first & 0xff) as usize == key.len()
        && data
            .get(at..at.wrapping_add(key.len()))
            .is_some_and(|other| same_bytes(other, key))
}

impl Layout {
    /// The layout of a new item in a segment whose versions have these upper bits.
    ///
    /// The caller has checked the lengths: a key has at most 255 bytes and a value fewer than 2^32.
    #[inline]
    pub fn of(meta: &Meta, key_len: usize, value_len: usize, segment_version_high: u32) -> Self {
        debug_assert!(key_len <= usize::from(u8::MAX) && u32::try_from(value_len).is_ok());
        // The store checks the value's length.
        let value_len = value_len as u32;
        let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        let is_long = value_len > SHORT_VALUE_MAX;
        let wide = version_high(meta.version) != segment_version_high;
        let first = key_len as u32
            | bit(!is_long, value_len << VALUE_LEN_SHIFT)
            | bit(is_long, LONG_VALUE)
            | bit(meta.flags != 0, HAS_FLAGS)
            | bit(meta.expires_at != NEVER, HAS_EXPIRY)
            | bit(wide, WIDE_VERSION)
            | u32::from(meta.frequency.min(FREQUENCY_MAX)) << FREQUENCY_SHIFT
            | bit(meta.fetched, FETCHED)
            | bit(meta.stale, STALE)
            | bit(meta.win_sent, WIN_SENT);
        Layout { first, value_len }
    }

    /// Reads the layout of the item that `data` starts with.
    #[inline]
    pub fn read(data: &[u8]) -> Self {
        let first = word(data, 0);
        let value_len = if first & LONG_VALUE == 0 {
            first >> VALUE_LEN_SHIFT & SHORT_VALUE_MAX
        } else {
            word(data, FIXED_BYTES)
        };
        Layout { first, value_len }
    }

    #[inline]
    fn has(self, bit: u32) -> bool {
        self.first & bit != 0
    }

    #[inline]
    fn is_long(self) -> bool {
        self.has(LONG_VALUE)
    }

    #[inline]
    pub fn key_len(self) -> usize {
        (self.first & 0xff) as usize
    }

    #[inline]
    pub fn value_len(self) -> usize {
        self.value_len as usize
    }

    #[inline]
    fn key_at(self) -> usize {
        key_at(self.first)
    }

    /// Where the extra words stand, in their order.
    #[inline]
    fn expiry_at(self) -> usize {
        FIXED_BYTES + usize::from(self.is_long()) * WORD
    }

    #[inline]
    fn flags_at(self) -> usize {
        self.expiry_at() + usize::from(self.has(HAS_EXPIRY)) * WORD
    }

    #[inline]
    fn version_at(self) -> usize {
        self.flags_at() + usize::from(self.has(HAS_FLAGS)) * WORD
    }

    #[inline]
    fn value_at(self) -> usize {
        // Neither comes near the end of the numbers.
        self.key_at().wrapping_add(self.key_len())
    }

    /// Bytes of the item without padding.
    #[inline]
    pub fn size(self) -> usize {
        self.value_at().wrapping_add(self.value_len())
    }

    #[inline]
    pub fn key(self, data: &[u8]) -> &[u8] {
        &data[self.key_at()..self.value_at()]
    }

    #[inline]
    pub fn value(self, data: &[u8]) -> &[u8] {
        &data[self.value_at()..self.size()]
    }

    #[inline]
    pub fn is_dead(self) -> bool {
        self.has(DEAD)
    }

    #[inline]
    pub fn frequency(self) -> u8 {
        ((self.first >> FREQUENCY_SHIFT) & u32::from(FREQUENCY_MAX)) as u8
    }

    /// Whether the item expires some day.
    #[inline]
    pub fn expires(self) -> bool {
        self.has(HAS_EXPIRY)
    }

    #[inline]
    pub fn fetched(self) -> bool {
        self.has(FETCHED)
    }

    #[inline]
    pub fn expires_at(self, data: &[u8]) -> Seconds {
        if self.has(HAS_EXPIRY) {
            word(data, self.expiry_at())
        } else {
            NEVER
        }
    }

    /// Everything about the item. `now` completes the time of the last access.
    pub fn meta(self, data: &[u8], segment_version_high: u32, now: Seconds) -> Meta {
        Meta {
            flags: if self.has(HAS_FLAGS) {
                word(data, self.flags_at())
            } else {
                0
            },
            expires_at: self.expires_at(data),
            version: self.version(data, segment_version_high),
            last_access: last_access(data, now),
            frequency: self.frequency(),
            fetched: self.has(FETCHED),
            stale: self.has(STALE),
            win_sent: self.has(WIN_SENT),
        }
    }

    #[inline]
    fn version(self, data: &[u8], segment_version_high: u32) -> Version {
        let wide = self.has(WIDE_VERSION);
        let high = if wide {
            word(data, self.version_at())
        } else {
            segment_version_high
        };
        let middle = word(data, WORD) >> 24;
        let low = word(data, 2 * WORD);
        let bits = u64::from(high) << VERSION_LOW_BITS | u64::from(middle) << 32 | u64::from(low);
        Version(bits)
    }

    /// Writes an item with this layout at the start of `data`.
    #[inline]
    pub fn write(self, data: &mut [u8], meta: &Meta, key: &[u8], value: [&[u8]; 2]) {
        self.write_words(data, meta);
        data[self.key_at()..self.value_at()].copy_from_slice(key);
        self.write_value(data, value);
    }

    /// As [`Layout::write`], over an older item of the same key that has the layout `old`.
    #[inline]
    pub fn write_over(self, old: Layout, data: &mut [u8], meta: &Meta, new: &NewItem<'_>) {
        self.write_words(data, meta);
        if self.key_at() != old.key_at() {
            data[self.key_at()..self.value_at()].copy_from_slice(new.key);
        }
        self.write_value(data, new.value);
    }

    #[inline]
    fn write_value(self, data: &mut [u8], value: [&[u8]; 2]) {
        let data = &mut data[self.value_at()..self.size()];
        if value[1].is_empty() {
            copy::replace(data, value[0]);
        } else {
            let (head, tail) = data.split_at_mut(value[0].len());
            copy::replace(head, value[0]);
            copy::replace(tail, value[1]);
        }
    }

    /// Writes everything before the key.
    #[inline(always)]
    fn write_words(self, data: &mut [u8], meta: &Meta) {
        set_word(data, 0, self.first);
        set_version_low(data, meta.last_access, meta.version);
        if self.first & HAS_ANY != 0 {
            self.write_extra_words(data, meta.expires_at, meta.flags, meta.version);
        }
    }

    /// Writes the words that not every item has.
    #[inline(never)]
    fn write_extra_words(self, data: &mut [u8], expires_at: Seconds, flags: u32, version: Version) {
        if self.is_long() {
            set_word(data, FIXED_BYTES, self.value_len);
        }
        if self.has(HAS_EXPIRY) {
            set_word(data, self.expiry_at(), expires_at);
        }
        if self.has(HAS_FLAGS) {
            set_word(data, self.flags_at(), flags);
        }
        if self.has(WIDE_VERSION) {
            set_word(data, self.version_at(), version_high(version));
        }
    }
}

#[inline]
fn set_version_low(data: &mut [u8], last_access: Seconds, version: Version) {
    // The casts keep the bits that belong into each word.
    let middle = (version.0 >> 32) as u32;
    set_word(data, WORD, last_access & ACCESS_MASK | middle << 24);
    set_word(data, 2 * WORD, version.0 as u32);
}

#[inline]
pub(crate) fn last_access(data: &[u8], now: Seconds) -> Seconds {
    let age = now.wrapping_sub(word(data, WORD)) & ACCESS_MASK;
    now.saturating_sub(age)
}

#[inline]
fn set_first_bit(data: &mut [u8], bit: u32, on: bool) {
    let first = word(data, 0);
    let changed = if on { first | bit } else { first & !bit };
    if changed != first {
        set_word(data, 0, changed);
    }
}

/// Marks an item as no longer in the index.
#[inline]
pub(crate) fn kill(data: &mut [u8]) {
    set_first_bit(data, DEAD, true);
}

/// Sets an item's frequency.
#[inline]
pub(crate) fn set_frequency(data: &mut [u8], frequency: u8) {
    let first = word(data, 0) & !(u32::from(FREQUENCY_MAX) << FREQUENCY_SHIFT);
    set_word(
        data,
        0,
        first | u32::from(frequency.min(FREQUENCY_MAX)) << FREQUENCY_SHIFT,
    );
}

/// Counts one more use, up to the maximum; writes nothing for an item that is there already.
#[inline]
pub(crate) fn bump_frequency(data: &mut [u8], layout: Layout) {
    if layout.frequency() < FREQUENCY_MAX {
        set_word(data, 0, layout.first + (1 << FREQUENCY_SHIFT));
    }
}

/// Marks or clears staleness.
pub(crate) fn set_stale(data: &mut [u8], stale: bool) {
    set_first_bit(data, STALE, stale);
}

/// Marks or clears that a client has won the right to refresh the item.
pub(crate) fn set_win_sent(data: &mut [u8], win_sent: bool) {
    set_first_bit(data, WIN_SENT, win_sent);
}

/// Notes a read. Writes nothing when nothing changes, so that a hot item's line stays clean.
#[inline]
pub(crate) fn touch_access(data: &mut [u8], now: Seconds) {
    set_first_bit(data, FETCHED, true);
    let old = word(data, WORD);
    let new = old & !ACCESS_MASK | now & ACCESS_MASK;
    if old != new {
        set_word(data, WORD, new);
    }
}

/// Notes an ordinary read: one more use, that it was fetched, and when. Returns the layout that it has
/// then. Writes nothing when nothing changes, so that a hot item's line stays clean.
#[inline]
pub(crate) fn note_read(data: &mut [u8], layout: Layout, now: Seconds) -> Layout {
    let uses = u32::from(layout.frequency() < FREQUENCY_MAX);
    let first = (layout.first | FETCHED).wrapping_add(uses << FREQUENCY_SHIFT);
    let old = word(data, WORD);
    let new = old & !ACCESS_MASK | now & ACCESS_MASK;
    if first != layout.first {
        set_word(data, 0, first);
    }
    if old != new {
        set_word(data, WORD, new);
    }
    Layout { first, ..layout }
}

/// Sets the expiry in place; false when the item has no word for it.
pub(crate) fn set_expires_at(data: &mut [u8], expires_at: Seconds) -> bool {
    let layout = Layout::read(data);
    if layout.has(HAS_EXPIRY) {
        set_word(data, layout.expiry_at(), expires_at);
    }
    layout.has(HAS_EXPIRY) || expires_at == NEVER
}

/// Sets the version in place; false when the item has no word for its upper bits.
pub(crate) fn set_version(data: &mut [u8], version: Version, segment_version_high: u32) -> bool {
    let layout = Layout::read(data);
    let fits = layout.has(WIDE_VERSION) || version_high(version) == segment_version_high;
    if fits {
        if layout.has(WIDE_VERSION) {
            set_word(data, layout.version_at(), version_high(version));
        }
        set_version_low(data, word(data, WORD), version);
    }
    fits
}

/// An item, read-only.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    pub(crate) data: &'a [u8],
    pub(crate) layout: Layout,
    pub(crate) segment_version_high: u32,
    pub(crate) now: Seconds,
    pub(crate) align: usize,
}

impl<'a> Item<'a> {
    /// The key.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        self.layout.key(self.data)
    }

    /// The value, in one piece.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        self.layout.value(self.data)
    }

    /// The client's flags.
    #[inline]
    pub fn flags(&self) -> u32 {
        let layout = self.layout;
        if layout.has(HAS_FLAGS) {
            word(self.data, layout.flags_at())
        } else {
            0
        }
    }

    /// The version (CAS unique).
    #[inline]
    pub fn version(&self) -> Version {
        self.layout.version(self.data, self.segment_version_high)
    }

    /// When the item expires, or [`NEVER`].
    #[inline]
    pub fn expires_at(&self) -> Seconds {
        self.layout.expires_at(self.data)
    }

    /// When the item was last read or written. Wrong by 194 days if that was as long ago.
    #[inline]
    pub fn last_access(&self) -> Seconds {
        last_access(self.data, self.now)
    }

    /// Whether the item has been read since it was written.
    #[inline]
    pub fn fetched(&self) -> bool {
        self.layout.has(FETCHED)
    }

    /// Whether the item was marked stale.
    #[inline]
    pub fn stale(&self) -> bool {
        self.layout.has(STALE)
    }

    /// Whether a client has won the right to refresh the item.
    #[inline]
    pub fn win_sent(&self) -> bool {
        self.layout.has(WIN_SENT)
    }

    /// Bytes that the item takes in its segment, padding included.
    pub fn size(&self) -> usize {
        self.layout.size().next_multiple_of(self.align)
    }

    pub(crate) fn meta(&self) -> Meta {
        self.layout
            .meta(self.data, self.segment_version_high, self.now)
    }
}

#[cfg(test)]
mod tests;
