//! Names of connections, and of the answers that they await.

/// Names a connection of a worker. The generation tells a reused slot from its former holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    /// Position in the worker's table.
    pub slot: u32,
    /// How many connections had the position before.
    pub generation: u32,
}

/// Names an answer that a connection awaits.
pub type Ticket = u32;

/// Who waits for an answer, and where in the order of a connection's answers it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnAddress {
    /// The connection, at the worker that sent the message.
    pub connection: ConnectionId,
    /// The awaited answer.
    pub ticket: Ticket,
}
