//! The engine: threads that put load on one server.
//!
//! Each thread has its own event loop, connections, random stream and histograms; threads meet only
//! where a trace is handed out (a batch at a time) and where figures are published (ten times a
//! second). In the loop nothing is allocated: requests in flight keep their places and buffers.
//!
//! What a connection carries is drawn and encoded request by request ([`drawn`]), or was made before the
//! load began ([`ring`]) and is sent round and round ([`prepared`]).

pub(crate) mod alike;
pub(crate) mod answer;
pub(crate) mod connection;
pub(crate) mod drawn;
pub(crate) mod encode;
pub(crate) mod feed;
mod parsed;
pub(crate) mod prepared;
mod request;
pub(crate) mod resp;
pub(crate) mod ring;
pub(crate) mod stats;
pub(crate) mod thread;
mod wire;
pub(crate) mod work;
