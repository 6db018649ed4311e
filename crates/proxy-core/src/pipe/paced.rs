//! Who waits for one server because it is far behind with writes.

use crate::ids::ClientId;
use std::collections::VecDeque;

/// What waits for longer than this part of the request timeout has whoever writes wait, too: 100 ms of a second.
pub const PACE_DIVISOR: u32 = 10;

/// The applications that wait for one server, and their writes, in the order asked. Some may have been answered.
#[derive(Debug, Default)]
pub(crate) struct Paced(pub(crate) VecDeque<(ClientId, u64)>);
