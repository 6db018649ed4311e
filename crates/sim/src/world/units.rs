//! Units of time.

use crate::history::Nanos;

/// One millisecond.
pub(super) const MS: Nanos = 1_000_000;

/// One second.
pub(super) const SECOND: Nanos = 1_000 * MS;
