//! Going round the segments of a store, a few at a time.

use crate::cachelet::Cachelet;
use evenkeel_types::CacheletId;

/// A place in an endless round over all segments of a store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundCursor {
    /// Position in the store's list of cachelets.
    position: usize,
    segment: usize,
    /// Whether the last step began a new round.
    began: bool,
}

impl RoundCursor {
    /// Whether the last step began a new round.
    #[inline]
    pub fn began(&self) -> bool {
        self.began
    }

    /// The next slot of a segment table, used or not; `None` when there is no segment at all.
    pub fn advance(
        &mut self,
        ids: &[CacheletId],
        cachelets: &[Option<Cachelet>],
    ) -> Option<(usize, u32)> {
        self.began = false;
        // One more than all, because the first may have been left in the middle.
        for _ in 0..=ids.len() {
            if let Some(id) = ids.get(self.position) {
                let slot = usize::from(id.0);
                let len = cachelets[slot]
                    .as_ref()
                    .map_or(0, |c| c.inner.segments.len());
                if self.segment < len {
                    self.segment += 1;
                    // Less than `slots_max`, which fits.
                    return Some((slot, (self.segment - 1) as u32));
                }
            }
            self.segment = 0;
            self.position += 1;
            if self.position >= ids.len() {
                self.position = 0;
                self.began = true;
            }
        }
        None
    }
}
