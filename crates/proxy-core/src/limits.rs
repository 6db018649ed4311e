//! What one proxy worker may hold, and for how long. Each limit is counted in `stats proxy` when it
//! is reached.

use core::time::Duration;

/// Copies that a worker fills and refreshes at once. Reads that find nothing beyond that fill nothing.
pub const FILLS_MAX: usize = 1024;

/// This long a part of the request timeout the copies' deletes are waited for behind a write.
pub const DELETION_PER_REQUEST_TIMEOUT: u32 = 4;

/// Bytes of answers, unread by an application or held for it, above which its requests wait: it
/// covers a burst of several of the largest ordinary values (1 MiB) without holding a connection's
/// memory hostage to one slow reader.
pub const OUT_PAUSE: usize = 8 << 20;

/// The same while the process is short of memory for what applications do not read: each does one thing after the other,
/// unless its answers are small.
pub const OUT_PAUSE_SHORT: usize = 64 << 10;

/// Bytes of answers above which an application's connection is closed. Reached only by answers that
/// were asked for before [`OUT_PAUSE`] stopped the asking.
pub const OUT_CLOSE: usize = 64 << 20;

/// Requests of one application that may await their answers; a key of a multi-get counts as one.
pub const PIPELINE_MAX: usize = 1024;

/// Keys of one multi-get with a limit, which is asked for as a whole.
pub const LIMIT_KEYS_MAX: usize = PIPELINE_MAX - 1;

/// Longest time, in milliseconds, that a limit of a multi-get may say: several of the longest timeouts of requests.
pub const LIMIT_MS_MAX: u32 = 60_000;

/// How often servers are asked for keys of a multi-get with a limit until all are asked that are left (Replicate and Bundle, section III-F:
/// what is not found competes again).
pub const LIMIT_ROUNDS_MAX: u8 = 3;

/// Bytes that an answer is expected to have before a connection has seen any. Each awaited answer
/// reserves the size of the largest recent one, so that a pipeline of large values is asked for a
/// few at a time. At this value the first burst is [`OUT_PAUSE`] / this = 64 requests, which fit
/// below [`OUT_CLOSE`] even if each fetches a value of 1 MiB.
pub const ANSWER_RESERVE_START: usize = 128 << 10;

/// Bytes of requests queued for or awaited from one backend connection. They are kept until they
/// are answered, so that a read can be asked again elsewhere without a copy.
pub const BACKEND_BYTES_MAX: usize = 64 << 20;

/// Requests queued for or awaited from one backend connection: with a request timeout of one second
/// a slower backend could not answer more in time anyway.
pub const BACKEND_REQUESTS_MAX: usize = 64 << 10;

/// Bytes of one grouped multi-get line to a memcached server; below the 2,048 bytes of a line that
/// every version of memcached and every proxy takes.
pub const GROUP_LINE_MAX: usize = 2000;

/// Bytes of a value from which on it is passed on to the application as it arrives: what is read from a
/// socket at once is whole more often than not.
pub const STREAM_MIN: usize = 64 << 10;

/// How often a request may be put to a server again after its connection was lost. More than once,
/// because the first new connection may find the server on its way down.
pub const RETRIES_MAX: u8 = 2;

/// How long connecting and greeting may take together unless configured.
pub const CONNECT_TIMEOUT: Duration = Duration::from_millis(250);

/// How long an answer may take unless configured.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Longest lease that a server's word is taken for: the paper's 10 s (SPORE, section 5).
pub const LEASE_MAX: Duration = Duration::from_secs(10);

/// Pause before a request whose key is between two owners is tried again, and before a server that
/// has no map yet is greeted again; a newer map ends it earlier for requests.
pub const MOVE_PAUSE: Duration = Duration::from_millis(20);

/// How often to look whether a pool that is no longer configured can be forgotten.
pub const LEAVING_LOOK: Duration = Duration::from_millis(50);

/// Requests that may wait for a move to end, or for reads.
pub const PARKED_MAX: usize = 16 << 10;

/// Bytes of them.
pub const PARKED_BYTES_MAX: usize = 64 << 20;

/// Operations that a worker may have under way: commands that take several requests to servers. Beyond, they are answered
/// `SERVER_ERROR overloaded`.
pub const OPERATIONS_MAX: usize = 64 << 10;

/// Bytes of their requests, and of what they have fetched.
pub const OPERATION_BYTES_MAX: usize = 64 << 20;

/// Keys that a server out of reach has missed and that are remembered for it, by each worker: some
/// seconds of writes. To delete this many takes a fraction of a second.
pub const INVALIDATION_KEYS_MAX: usize = 32 << 10;

/// Bytes of them.
pub const INVALIDATION_BYTES_MAX: usize = 2 << 20;

/// How long an item lives at most that is stored in another place than its server, unless configured.
pub const FAILOVER_TTL: Duration = Duration::from_secs(10);

/// Longest configured [`FAILOVER_TTL`]: what another place holds is not brought up to date once the
/// server is back, so the server may not fail again for that long without its keys being unavailable.
pub const FAILOVER_TTL_MAX: Duration = Duration::from_secs(60 * 60);

/// Requests of one connection that are executed before others have their turn (memcached's `-R`).
pub const REQUESTS_PER_TURN: u32 = 20;

/// Pause before the first attempt to reach a lost backend again; doubles with each failure.
pub const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(50);

/// How often servers of a ring are looked at of which nothing is asked: a fifth of the time, unless an operator says otherwise, after which one that
/// no proxy reaches is dead.
pub const IDLE_LOOK: Duration = Duration::from_secs(2);

/// Servers that a pool has had and that are remembered, in case they come back. With more, each new
/// one is taken for one that comes back.
pub(crate) const LEFT_SERVERS_MAX: usize = 4096;

/// Longest pause between two such attempts: recovery is noticed within a second or so.
pub const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Composed answers that wait for earlier ones come from a store of this many spare buffers: as many as
/// one application may wait for.
pub(crate) const SPARE_BUFFERS_MAX: usize = PIPELINE_MAX;

/// Spare buffers larger than this are given back to the allocator; beside copying this much, asking it for
/// another costs little.
pub(crate) const SPARE_BUFFER_KEEP_MAX: usize = 2 << 10;

/// Columns of a second that the page's history has at most: an hour.
pub const DASHBOARD_SECONDS: usize = 3600;

/// Servers in all of its columns together. One takes 24 bytes, so that the history takes 12 MiB at most: with more than 145 servers it goes
/// back for less than an hour.
pub const DASHBOARD_CELLS_MAX: usize = 1 << 19;

/// Keys that the page is told, the hottest.
pub const DASHBOARD_KEYS_MAX: usize = 32;

/// Events that the page is told, the newest.
pub const DASHBOARD_EVENTS_MAX: usize = 256;

const _: () = assert!(OUT_PAUSE < OUT_CLOSE);

const _: () = assert!(OUT_PAUSE / ANSWER_RESERVE_START * (1 << 20) <= OUT_CLOSE);

const _: () = assert!(INVALIDATION_KEYS_MAX < BACKEND_REQUESTS_MAX);

const _: () = assert!(INVALIDATION_BYTES_MAX + INVALIDATION_KEYS_MAX * 16 < BACKEND_BYTES_MAX);

const _: () = assert!(RECONNECT_PAUSE_MIN.as_nanos() < RECONNECT_PAUSE_MAX.as_nanos());
