//! Limits of autoscaling, with the reason for each value.

use core::time::Duration;

/// Distance of decisions that no act asks for.
pub const LOOK: Duration = Duration::from_secs(1);

/// What is measured in a slot of a ring is used for this many slots. In one in which the ring changes nothing is measured, and the one after it
/// has to end.
pub const MEASURED_SLOTS: u32 = 3;

/// Distance of questions what an actuator runs: a server that ends by itself counts no more when the pool loses it, so this is for strays.
pub const LIST_EVERY: Duration = Duration::from_secs(30);

/// How long a threshold is passed before anything is done, where an operator says nothing: the paper's "predefined period". Bursts of a few
/// seconds are over by then.
pub const SUSTAIN: Duration = Duration::from_secs(30);

/// Rest after servers were added, where an operator says nothing: a newcomer fills, and measures show what it has brought.
pub const COOLDOWN_ADDED: Duration = Duration::from_secs(3 * 60);

/// Rest after a server was removed or was about to be: too few servers cost more than too many.
pub const COOLDOWN_REMOVED: Duration = Duration::from_secs(10 * 60);

/// Longest of these times that may be set.
pub const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Part of an upper threshold under which everything is to stay without the server that is removed. Above it the next burst would bring
/// the server back.
pub const LEFT_BELOW: f64 = 0.8;

/// Part of what all servers of a cluster can do together, past which they are hot as a whole and some are added: plans find nobody then who could
/// take from another ([`ClusterConfig::busy_all_hot`](evenkeel_balance::cluster::ClusterConfig::busy_all_hot) is the same).
pub const ALL_HOT: f64 = 0.85;

/// Answers in a row after which a new server may join.
pub const TRIALS: u32 = 10;

/// Time for these, from when the actuator has said where the server is.
pub const TRIAL_WITHIN: Duration = Duration::from_secs(60);

/// First wait after a server was started in vain. It doubles with each further one.
pub const BACK_OFF: Duration = Duration::from_secs(60);

/// Longest such wait: an actuator that works again is noticed within half an hour.
pub const BACK_OFF_MAX: Duration = Duration::from_secs(30 * 60);

/// For this long a pool may refuse to begin with a server, because it is changing or a proxy is unknown. Then the change is given up.
pub const ORDER_WITHIN: Duration = Duration::from_secs(10 * 60);

/// Wait before an actuator that could not stop a server is asked again.
pub const STOP_AGAIN: Duration = Duration::from_secs(60);
