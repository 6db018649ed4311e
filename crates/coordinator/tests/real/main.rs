//! The coordinator and its members over real sockets and in real processes.

mod changes;
mod http;
mod members;
mod plans;
mod process;
mod stream;
mod support;
