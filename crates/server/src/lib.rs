//! The cache server as a process: `evenkeel server`.
//!
//! [`evenkeel_server_core::WorkerCore`] is one worker without its thread and sockets; this crate
//! gives each of them a thread, a port and an event loop, and wires them to each other, to the
//! acceptor of the ordinary port and to the coordinator.

#![forbid(unsafe_code)]
// Event loops must not wait. Tests may.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod args;
mod balancer;
mod budget;
mod connection;
mod control;
mod credentials;
mod egress;
mod event_loop;
mod facts;
mod io;
mod lease;
mod link;
mod listeners;
mod member;
mod pages;
mod process;
mod service_time;
mod start;
mod transport;

pub use args::{Args, file_arguments};
pub use process::run;
