//! How far something is that is said once on each connection, before its greeting: who we are, or what the peer is asked of itself.

/// How far it is on one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// Nothing was said.
    #[default]
    Unsaid,
    /// It was said; the answer is to come.
    Said,
    /// The peer has answered.
    Answered,
}

impl Handshake {
    /// Whether it is to be said now, as it was not yet. From now on it was.
    pub fn say(&mut self) -> bool {
        let is_to_be = *self == Handshake::Unsaid;
        if is_to_be {
            *self = Handshake::Said;
        }
        is_to_be
    }

    /// Whether the answer is to come.
    pub fn is_said(self) -> bool {
        self == Handshake::Said
    }

    /// The answer has come.
    pub fn answered(&mut self) {
        *self = Handshake::Answered;
    }
}
