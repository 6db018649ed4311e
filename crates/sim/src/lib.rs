//! Virtual time and network that drive the cores that ship, with faults and checkers.
//!
//! A whole cluster in one thread: the server's and the proxy's cores, the coordinator's core, and
//! applications that ask at random. Nothing in it looks at a clock or opens a socket; what happens,
//! and when, follows from a seed alone, so that a run that went wrong can be run again, one event at
//! a time, until it is understood.
//!
//! ```text
//!  applications ── bytes ──> proxies ── bytes ──> workers ── links ──> workers of other servers
//!       │                       │                    │
//!       │                       └──── heartbeats ────┴───> coordinator
//!       ▼                                            ▼
//!    operations ─────────────> history <───── what each home executed
//! ```
//!
//! - [`history`] judges what applications were told. It knows nothing of the simulator, and judges
//!   recordings of real processes as well.
//! - [`world`] runs a [`Plan`](world::Plan): its network delays, splits, loses and repeats nothing
//!   that TCP would not; its processes crash, pause and restart; its coordinator goes away.
//! - [`load`] runs load without faults, for throughput, latency and balance: on the whole cores, or on
//!   queues and decisions alone.
//! - [`many`] runs many plans, on all cores; [`command`] is all of it from the command line.
//!
//! The simulator breaks things where the outside world would: bytes, connections, processes and
//! clocks. The cores are driven through the same calls as in the real processes, and have no hooks
//! for it.
#![forbid(unsafe_code)]

pub mod command;
pub mod history;
pub mod load;
pub mod many;
mod random;
pub mod world;
