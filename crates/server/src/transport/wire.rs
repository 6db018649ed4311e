//! The carrier of a connection's bytes as what sockets are served by.

use super::epoll::Bytes;
use evenkeel_runtime::{TlsFailure, Wire};

impl Bytes for Wire {
    #[inline]
    fn may_have_more(&self, count: usize, wanted: usize) -> bool {
        self.may_have_more(count, wanted)
    }

    #[inline]
    fn is_opening(&self) -> bool {
        self.is_opening()
    }

    fn finish(&mut self) {
        self.finish();
    }

    fn failure(&self) -> Option<TlsFailure> {
        self.failure()
    }
}
