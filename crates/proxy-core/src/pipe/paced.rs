//! Who waits for one server because it is far behind with writes.

use crate::ids::ClientId;
use core::mem;
use std::collections::VecDeque;

/// What waits for longer than this part of the request timeout has anyone who writes wait, too: 100 ms of a second.
pub const PACE_DIVISOR: u32 = 10;

/// The applications that wait for one server, and their writes, in the order asked. Some may have been answered.
#[derive(Debug, Default)]
pub(crate) struct Paced(VecDeque<(ClientId, u64)>);

impl Paced {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An application waits until this write of its is answered, or less waits before it. Those at the front that do not wait any more
    /// go, so that there are no more than writes in the queue.
    pub fn push(&mut self, write: (ClientId, u64), waits: impl Fn(ClientId, u64) -> bool) {
        while let Some(&(id, slot)) = self.0.front()
            && !waits(id, slot)
        {
            self.0.pop_front();
        }
        self.0.push_back(write);
    }

    /// Takes out all.
    pub fn take(&mut self) -> impl Iterator<Item = (ClientId, u64)> + use<> {
        mem::take(&mut self.0).into_iter()
    }
}
