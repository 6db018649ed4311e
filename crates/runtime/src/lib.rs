//! What a role's core needs from the machine: a clock, sockets, an event loop's parts, threads and
//! the queues between them.
//!
//! A worker is one thread with one `mio::Poll`. Everything in here is either owned by one worker
//! ([`InputBuffer`], [`Stream`]) or made for crossing between two ([`mesh`], [`Notifier`], [`budget`]):
//!
//! ```text
//!   acceptor thread ── Stream ──> worker 0 ──┐ mesh: one bounded single-producer queue
//!        (listeners)  └─ Stream ─> worker 1 ─┘ for each ordered pair of workers
//!   control thread ── commands ──> each worker
//! ```

mod acceptor;
mod allocator;
pub mod budget;
mod buffer;
mod clock;
mod connections;
mod daemon;
mod descriptors;
mod exit;
mod http;
mod listen;
mod listen_spec;
mod log;
mod memory_room;
mod mesh;
pub mod names;
mod network;
mod notify;
mod options;
mod parent;
mod privileges;
mod process_metrics;
mod round_trip;
mod secrets;
mod signals;
mod stream;
mod threads;
mod tls;
mod units;
pub mod uring;
pub mod watchdog;
mod wire;

pub use acceptor::{
    ARRIVALS_PER_TURN, Accepted, AcceptorConfig, Arrival, EXHAUSTED_PAUSE, accept, accept_forever,
    last_until,
};
pub use allocator::{give_back_at_once, keep_huge_pages_whole, why_no_huge_pages};
pub use buffer::InputBuffer;
pub use clock::{Clock, TurnClock, since_boot};
pub use connections::{ConnectionCount, OverLimit};
pub use daemon::{Daemon, PidFile, daemonize, write_whole};
pub use descriptors::{
    RESERVED_DESCRIPTORS, raise_descriptor_limit, raise_descriptor_limit_if_allowed,
};
pub use exit::{ExitCode, UsageError, print_line, report};
pub use http::{HttpPort, Page, PageKind, PageRequest};
pub use listen::{Listener, bind_tcp, bind_unix, try_bind_tcp};
pub use listen_spec::{ListenSpec, ListenerProtocol, ListenerTls};
pub use log::{FOLDED_FOR, LogFormat, LogLevel, LogOptions};
pub use memory_room::MemoryRoom;
pub use mesh::{MeshPort, mesh};
pub use network::Interfaces;
pub use notify::{Attention, Notifier, WorkerHandle};
pub use options::{GivenOption, TlsOptions};
pub use parent::die_with_parent;
pub use privileges::{allow_core_files, become_user, is_root, lift_lock_limit, lock_memory};
pub use process_metrics::process_metrics;
pub use round_trip::shortest_round_trip;
pub use secrets::read_secret;
pub use signals::{ProcessSignal, ProcessSignals};
pub use stream::Stream;
pub use threads::{ProcessorTimes, pin_to_core, spawn_named};
pub use tls::{
    Certificates, ClientCertificates, PreparedCertificates, TlsClient, TlsClientFiles, TlsConfig,
    TlsContext, TlsContexts, TlsFailure, TlsFiles, TlsKind, TlsStream, TlsVersion,
};
pub use units::{
    parse_duration, parse_http_address, parse_megabytes, parse_permissions, parse_size, resolve,
    resolve_server, split_port,
};
pub use wire::Wire;
