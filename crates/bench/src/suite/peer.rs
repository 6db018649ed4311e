//! Who is measured.

use serde::Serialize;

/// A server that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Peer {
    /// What the sockets allow, by epoll.
    Echo,
    /// The newest memcached that could be had.
    Memcached,
    /// An older memcached, which most people run.
    MemcachedOlder,
    /// Evenkeel's server as it runs by default.
    EvenkeelEpoll,
    /// Evenkeel's server on io_uring.
    EvenkeelUring,
    /// The proxy that is built into memcached.
    BuiltinProxy,
    /// twemproxy.
    Twemproxy,
    /// Evenkeel's proxy.
    EvenkeelProxy,
    /// The servers themselves, without a proxy before them.
    Direct,
    /// A loop that does next to nothing, in the generator's place.
    MinimalLoop,
    /// The load generator with prepared requests.
    Generator,
    /// The load generator that draws its requests.
    GeneratorDrawing,
}

impl Peer {
    /// A word for the head of a column.
    pub(crate) fn short(self) -> &'static str {
        match self {
            Peer::Echo => "echo",
            Peer::Memcached => "memcached",
            Peer::MemcachedOlder => "older memcached",
            Peer::EvenkeelEpoll => "Evenkeel",
            Peer::EvenkeelUring => "io_uring",
            Peer::BuiltinProxy => "memcached's proxy",
            Peer::Twemproxy => "twemproxy",
            Peer::EvenkeelProxy => "Evenkeel proxy",
            Peer::Direct => "direct",
            Peer::MinimalLoop => "minimal loop",
            Peer::Generator => "prepared",
            Peer::GeneratorDrawing => "drawn",
        }
    }

    pub(crate) fn is_ours(self) -> bool {
        matches!(
            self,
            Peer::EvenkeelEpoll
                | Peer::EvenkeelUring
                | Peer::EvenkeelProxy
                | Peer::Generator
                | Peer::GeneratorDrawing
        )
    }
}
