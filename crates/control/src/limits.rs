//! Limits of what is told: lengths, counts and rates beyond which a message is refused.

use crate::hot_keys::{NEWS_EVENT_BYTES_MAX, NEWS_KEY_BYTES_MAX};
use crate::loads::NEWS_LOAD_BYTES_MAX;
use crate::rings::RING_MOVES_MAX;
use crate::times::BUCKETS;
use evenkeel_placement::ring::{GRAINS_OF_RING, SLICES_MAX};
use evenkeel_types::map::{MIGRATIONS_MAX, NAME_LEN_MAX, SERVERS_MAX, VIRTUAL_NODES, WORKERS_MAX};

/// New names of servers that are taken in a minute once the initial servers are there: more than anybody starts by hand, and
/// few enough that invented ones are forgotten before [`SERVERS_MAX`] is reached.
pub const JOINS_PER_MINUTE: usize = 32;

/// Most proxies that are members at one time: one for each application process of a large site.
pub const PROXIES_MAX: usize = 4096;

/// Most pools whose changes one proxy follows at one coordinator, and most that a coordinator leads.
pub const FOLLOWED_POOLS_MAX: usize = 64;

/// Most workers of all servers together. Bounds the size of a map and what a heartbeat costs.
pub const WORKERS_TOTAL_MAX: usize = 1 << 16;

/// Largest load of one worker that is believed, in requests per second: ten times what the fastest
/// published cache does on a core. More is a broken report and refused.
pub const LOAD_RPS_MAX: f64 = 1e8;

/// Largest part of its capacity that a cluster may be said to use. What is measured comes out as a little more than 1 at most.
pub const UTILIZATION_MAX: f64 = 4.0;

/// Longest heartbeat in bytes: five names, a port and a load of up to 26 bytes each worker, what is
/// new of hot keys, the loads of workers and cachelets, what there is to say of migrations, what was counted of one ring, and how long
/// a proxy's requests took.
pub const HEARTBEAT_LEN_MAX: usize = 512 * 1024 + RING_COUNTS_LEN_MAX;

/// Longest list of what was counted of a ring in bytes: for each grain five numbers, four of which have up to 16 digits.
const RING_COUNTS_LEN_MAX: usize = (SLICES_MAX + GRAINS_OF_RING as usize) * 80;

/// Longest list of counted times in bytes: numbers of up to 3 and 20 digits.
const TIMES_LEN_MAX: usize = BUCKETS * 32;

/// Longest report on a migration in bytes: five numbers of up to 20 digits with their names.
const MIGRATION_REPORT_LEN_MAX: usize = 160;

/// Longest slice of a ring in bytes: four numbers of up to 10 digits with their names.
const SLICE_LEN_MAX: usize = 80;

/// Longest answer to a heartbeat in bytes, dominated by a map of [`SERVERS_MAX`] servers with the
/// longest names and [`WORKERS_TOTAL_MAX`] workers, and by the plan of a ring of [`SLICES_MAX`] slices, of which an answer has one at most.
/// A member reads no more than that.
pub const ANSWER_LEN_MAX: usize = 24 << 20;

/// Most cachelets of the maps that a coordinator makes: a cachelet without a virtual node would
/// never hold a key.
pub const CACHELETS_MAX: usize = VIRTUAL_NODES;

/// One of this many cachelets is quarantined at most. What one of four servers owned is, at its second death; beyond that
/// too much would be without an owner for what a key may have done.
pub const QUARANTINED_PART: usize = 4;

const _: () = assert!(
    HEARTBEAT_LEN_MAX
        >= 5 * NAME_LEN_MAX
            + WORKERS_MAX * (6 + 26)
            + NEWS_KEY_BYTES_MAX
            + NEWS_EVENT_BYTES_MAX
            + NEWS_LOAD_BYTES_MAX
            + MIGRATIONS_MAX * MIGRATION_REPORT_LEN_MAX
            + RING_COUNTS_LEN_MAX
            + TIMES_LEN_MAX
            + 1024
);
const _: () = assert!(
    ANSWER_LEN_MAX
        >= SERVERS_MAX * (3 * NAME_LEN_MAX + 256)
            + WORKERS_TOTAL_MAX * 6
            + VIRTUAL_NODES * 6
            + CACHELETS_MAX * (32 + 17)
            + CACHELETS_MAX / QUARANTINED_PART * 6
            + MIGRATIONS_MAX * 160
            + SLICES_MAX * SLICE_LEN_MAX
            + RING_MOVES_MAX * SLICE_LEN_MAX
            // A plan's servers, which were in a heartbeat.
            + HEARTBEAT_LEN_MAX
            + 1024
);
