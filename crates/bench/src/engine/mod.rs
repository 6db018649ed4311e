//! The engine: threads that put load on one server.
//!
//! Each thread has its own event loop, connections, random stream and histograms; threads meet only
//! where a trace is handed out (a batch at a time) and where figures are published (ten times a
//! second). In the loop nothing is allocated: requests in flight come from a pool and keep their
//! buffers.

pub(crate) mod answer;
pub(crate) mod connection;
pub(crate) mod encode;
pub(crate) mod feed;
pub(crate) mod resp;
pub(crate) mod stats;
pub(crate) mod thread;
