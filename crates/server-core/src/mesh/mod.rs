//! What the workers of a server tell each other, and what waits until they have.

pub(crate) mod deferred;
pub(crate) mod forwarded;
pub(crate) mod handed_over;
pub(crate) mod held;
pub(crate) mod message;
pub(crate) mod outbox;
