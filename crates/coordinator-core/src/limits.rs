//! Every limit of the control plane, with the reason for its value; those of messages stand in [`evenkeel_control::limits`].
//!
//! The limits of a map itself (servers, workers of a server, lengths of names) stand in
//! [`evenkeel_types::map`]; a heartbeat that would lead to a map beyond them is refused.

use core::time::Duration;

pub use evenkeel_balance::load::{LOAD_CLAMP, LOAD_CLAMP_FLOOR_RPS};
pub use evenkeel_control::limits::*;
use evenkeel_types::limits::KEY_LEN_MAX;

/// A member that has not been heard of for this long is taken to be down, unless configured
/// otherwise. Long enough to ride out a lost heartbeat or two and a long pause of a busy machine;
/// proxies notice a dead server by themselves much earlier.
pub const SERVER_SILENT: Duration = Duration::from_secs(3);

/// Shortest configurable silence: below it, ordinary scheduling delays would look like deaths.
pub const SILENT_MIN: Duration = Duration::from_millis(300);

/// Longest configurable silence.
pub const SILENT_MAX: Duration = Duration::from_secs(600);

/// Heartbeats that a member sends in one silence, so that several may be lost before it counts as
/// dead. With the default silence a member reports every 500 ms.
pub const HEARTBEATS_PER_SILENCE: u32 = 6;

/// Who was heard within the silence after which a server is down, divided by this, keeps its name: three heartbeats. A server
/// that was killed and is started again waits for this long.
pub const NAME_HELD_PER_SILENCE: u32 = 2;

/// Who was not heard of for the silence after which a server is down, divided by this, is said hello to, and an answer counts for as long.
pub const REACH_PER_SILENCE: u32 = 2;

/// How much longer than a silence a server stays up that only answers hellos: longer than a switch or a firewall takes to come
/// back, and shorter than an operator waits for a move.
pub const UNHEARD_MAX: Duration = Duration::from_secs(30);

/// Longest time between heartbeats while something waits for the members: the first map, or
/// cachelets that change hands. Makes a start and a move quick without costing anything later.
pub const INTERVAL_EAGER: Duration = Duration::from_millis(100);

/// Longest time between a proxy's heartbeats while the change of a pool that it follows is under way: requests of the pool wait until
/// all proxies have heard of a step and acknowledged it.
pub const INTERVAL_CHANGING: Duration = Duration::from_millis(5);

/// Heartbeats in a second that members are asked for at most by the two above, all members together: a core has time for several times as
/// many, and more than it has time for would keep new members out.
pub const HURRIED_HEARTBEATS_PER_S: u32 = 2_000;

/// For this long after its start a coordinator that has no state tells no proxy that a pool is at its beginning: proxies that were told more
/// call again within two seconds of its return.
pub const YOUNG_FOR: Duration = Duration::from_secs(3);

/// Shortest time for which a pool's change stands at `closing`: placeholders live for two seconds, by clocks that count whole ones.
pub const CLOSING_MIN: Duration = Duration::from_secs(3);

/// Longest time for which a pool's change waits for the pool to be warm: 30 days, in seconds.
pub const WHEN_WARM_MAX_S: u64 = 30 * 86_400;

/// A pool's change that lets requests wait for longer is withdrawn: several times what proxies that report [often](INTERVAL_CHANGING) and a
/// coordinator that saves to a slow disk need, and less than clients wait for an answer.
pub const PAUSE_MAX: Duration = Duration::from_millis(200);

/// How long a slot is in which a ring's load is measured, where an operator says nothing.
pub const RING_SLOT: Duration = Duration::from_secs(5);

/// Plans of a ring of which it is told what came of them.
pub const RING_OUTCOMES_MAX: usize = 8;

/// Shortest slot: proxies report twice a second.
pub const RING_SLOT_MIN: Duration = Duration::from_secs(1);

/// Longest slot.
pub const RING_SLOT_MAX: Duration = Duration::from_secs(600);

/// How long a plan of a ring stands at `warming`, where an operator says nothing: most of what is read often has been read by then.
pub const RING_WARMING: Duration = Duration::from_secs(10);

/// Longest time for which it may.
pub const RING_WARMING_MAX: Duration = Duration::from_secs(600);

/// Most keys that are copied in a second while a part of a ring moves.
pub const RING_COPY_KEYS_MAX: u32 = 100_000;

/// For this long a plan by which a server comes stands at its beginning: anyone who cannot connect to it says so by then. Longer than a proxy waits before it
/// tries a server again, and says what came of it.
pub const RING_JOIN_LOOK: Duration = Duration::from_secs(2);

/// For how long no proxy has reached a server of a ring before it is dead, where an operator says nothing.
pub const RING_DEAD_AFTER: Duration = Duration::from_secs(10);

/// Shortest such time: proxies report twice a second.
pub const RING_DEAD_AFTER_MIN: Duration = Duration::from_secs(1);

/// Longest.
pub const RING_DEAD_AFTER_MAX: Duration = Duration::from_secs(600);

/// Of this many servers of a ring one is lost without an order within [`RING_LOSSES_SPAN`], and one in any case. More at once are rather a
/// network that fails.
pub const RING_LOSSES_OF: usize = 3;

/// See [`RING_LOSSES_OF`].
pub const RING_LOSSES_SPAN: Duration = Duration::from_secs(600);

/// Nothing is planned for a ring on less than this many fifths of the proxies that follow it.
pub const RING_TOLD_OF_FIVE: usize = 4;

/// Counts of a ring over a shorter time say little, and are not used.
pub const RING_TOLD_SPAN_MIN: Duration = Duration::from_millis(200);

/// Events of pools' changes kept to be shown.
pub const CHANGE_EVENTS_MAX: usize = 1000;

/// Cachelets that a server gives up in a second while it is drained, unless the operator says otherwise: one of
/// four workers with [as many as there may be](evenkeel_types::map::CACHELETS_PER_WORKER_MAX) is empty in 16 seconds.
pub const DRAIN_RATE: u32 = 16;

/// Most of them.
pub const DRAIN_RATE_MAX: u32 = CACHELETS_MAX as u32;

/// What one migration copies in a second, unless somebody says otherwise: a tenth of what a link of 10 Gbit/s
/// carries, so that a cachelet of 64 MB passes in half a second and the ends have room for their clients.
pub const MIGRATION_BYTES_PER_SECOND: u64 = 128 << 20;

/// Migrations of one cachelet for the sake of even shares that may come to nothing in a row, because a connection breaks or
/// somebody flushes: then it is released, and its contents begin anew elsewhere.
pub const SHARE_MIGRATIONS_MAX: u32 = 3;

/// Migrations that are over and are kept to be shown.
pub const ENDED_MIGRATIONS_MAX: usize = 1000;

/// The coordinator looks at loads this often. They are told twice as often, and averaged over seconds.
pub const PLAN_LOOK: Duration = Duration::from_secs(1);

/// Loads that are older count as unknown.
pub const LOADS_AGE_MAX: Duration = Duration::from_secs(3);

/// Time between two columns of the history by seconds: loads are averaged over a second and a half, so that more would show nothing new.
pub const HISTORY_SECOND: Duration = Duration::from_secs(1);

/// Columns by seconds that are kept at most: an hour.
pub const HISTORY_SECONDS: usize = 3600;

/// Time between two columns of the history by minutes.
pub const HISTORY_MINUTE: Duration = Duration::from_secs(60);

/// Columns by minutes that are kept at most: a day.
pub const HISTORY_MINUTES: usize = 1440;

/// Cachelets and workers in all columns by seconds together, and again in those by minutes; a worker counts as two. One takes 24 bytes, so
/// that the history takes 64 MB at most: with more than 388 the seconds go back for less than an hour, with more than 970 the minutes for less
/// than a day.
pub const HISTORY_CELLS_MAX: usize = (32 << 20) / 24;

/// Workers that have rows of their own in the history. Where there are more, each server has one row: no screen has more lines, and the
/// history would be short.
pub const HISTORY_WORKERS_MAX: usize = 1024;

/// Cachelets and workers in all columns of one answer, so that it stays under [`ANSWER_LEN_MAX`].
pub const HEAT_CELLS_TOLD_MAX: usize = 1 << 19;

/// Changes of settings kept to be shown.
pub const SETTINGS_EVENTS_MAX: usize = 30;

/// Events of each kind that a [snapshot](crate::Snapshot) tells: what is new since the one before, with room for seconds that a viewer
/// has missed. All that are kept are told by calls of their own.
pub const SNAPSHOT_EVENTS_MAX: usize = 30;

/// Workers that a snapshot tells. Where there are more, it has [`SNAPSHOT_WORKERS_FEW`] of them.
pub const SNAPSHOT_WORKERS_MAX: usize = 1024;

/// Workers that a snapshot tells where there are too many: all of the servers that stand out, of one server at least. More are not read one by
/// one.
pub const SNAPSHOT_WORKERS_FEW: usize = 160;

/// A worker that does not sleep for this part of its time is full: it has no room for a burst.
pub const WORKER_FULL: f64 = 0.9;

/// Plans that a snapshot tells.
pub const SNAPSHOT_PLANS_MAX: usize = 10;

/// Looks in a row for which workers have to be overloaded before there is a plan (MBal, section 3: four epochs). A
/// server that can help itself does so in half of that time.
pub const PLAN_INTERVALS: u32 = 4;

/// Most of them: an hour.
pub const PLAN_INTERVALS_MAX: u32 = 3600;

/// Time between the end of a plan and the next: twice the time constant of loads. What a cachelet carries moves with it, so that only
/// what full workers could not serve before has to show.
pub const PLAN_PAUSE: Duration = Duration::from_secs(3);

/// Plans that follow one that was asked for. A full worker does not show how much it is asked for before it is relieved; more than
/// these would move hot keys away from their copies because loads waver.
pub const PLAN_FOLLOW_UPS: u32 = 2;

/// Longest such time.
pub const PLAN_PAUSE_MAX: Duration = Duration::from_secs(86_400);

/// From the end of a plan until its effect is measured.
pub const PLAN_SETTLE: Duration = PLAN_PAUSE;

/// Parts of all data that one plan may copy.
pub const PLAN_BYTES_RATIO_MAX: f64 = 0.01;

/// How long one migration may copy for the sake of one plan, whatever part of all data that is.
pub const PLAN_COPIES_FOR: Duration = Duration::from_secs(1);

/// Migrations at one time.
pub const PLAN_MIGRATIONS: usize = 16;

/// Migrations at one time of which one server is an end: one that copies and one that is about to begin.
pub const PLAN_MIGRATIONS_PER_SERVER: usize = 2;

/// A cachelet that has moved stays for this long at least.
pub const MOVED_REST: Duration = Duration::from_secs(30);

/// A proposed plan that nobody has approved is dropped after this long: loads are others by then.
pub const PROPOSAL_AGE_MAX: Duration = Duration::from_secs(600);

/// Plans that are over and are kept to be shown.
pub const PLANS_MAX: usize = 1000;

/// Changes of who is up that are remembered for servers that have not confirmed them. A server that has
/// missed more of them keeps its cachelets while it is down.
pub const ELECTORATES_MAX: usize = 64;

/// Members report [eagerly](INTERVAL_EAGER) for this long after a server went down, so that it is soon known whether
/// its cachelets can be given to others.
pub const FENCE_HURRY: Duration = Duration::from_secs(5);

/// The core looks for silent members this many times in one silence.
pub const TICKS_PER_SILENCE: u32 = 8;

/// When the core itself was not called for a silence divided by this, then it was the coordinator
/// that slept (stopped process, suspended machine), and its members get a fresh start instead of
/// being declared dead all at once. Must leave room for a late tick.
pub const PAUSE_PER_SILENCE: u32 = 2;

/// A proxy is forgotten after this many silences; it owns nothing, so nothing is lost.
pub const PROXY_FORGET_SILENCES: u32 = 20;

/// The time in which new names are counted.
pub const MINUTE: Duration = Duration::from_secs(60);

/// The name of a server that is down and owns nothing is forgotten after this long; a coordinator that was started anew
/// counts anew. Long enough to be seen by anyone who is called, and for any restart.
pub const FORGET_AFTER: Duration = Duration::from_secs(3_600);

/// Deaths of servers count for this long towards the quarantine of what they owned: a key that is asked for every few minutes goes from
/// owner to owner within that time, and two servers that die of something else seldom do.
pub const DEATHS_COUNT_FOR: Duration = Duration::from_secs(600);

/// Epochs that are left out when a map is taken over from servers: more changes than a predecessor can have made that none of
/// those who were asked has heard of.
pub const TAKEOVER_EPOCHS: u64 = 1_000_000;

/// Former lives of a server or proxy that are remembered, so that a process that was replaced under its name
/// stays replaced. More lives than that within one silence would be a crash loop.
pub const FORMER_LIVES_MAX: usize = 16;

/// Largest epoch of a saved state that is believed: every JSON reader can tell epochs up to here
/// apart, and a million map changes a second would take three centuries to get there.
pub const EPOCH_MAX: u64 = 1 << 53;

/// Map changes kept to be shown.
pub const EVENTS_MAX: usize = 1000;

/// The cluster's mean load is computed at most this often; members report more slowly than that.
pub const LOAD_REFRESH: Duration = Duration::from_millis(250);

/// Events of hot keys kept to be shown.
pub const HOT_EVENTS_MAX: usize = 1000;

/// Keys without replicas that are told of all servers together.
pub const HOTTEST_MAX: usize = 32;

/// Longest text in what a server tells of hot keys: a key of which each byte is escaped.
pub const HOT_KEY_TEXT_LEN_MAX: usize = 3 * KEY_LEN_MAX;

const _: () = assert!(HEARTBEATS_PER_SILENCE >= 3, "a lost heartbeat is no death");
const _: () = assert!(TICKS_PER_SILENCE >= 4 * PAUSE_PER_SILENCE);
