//! How far the autoscaling of a pool is, and which phase may follow which.

use core::fmt;
use core::time::Duration;

use evenkeel_types::Instant;
use serde::{Deserialize, Serialize};

use super::limits;
use super::settings::ScaleSettings;

/// How far the autoscaling of one pool is. It is saved whole before an act that it leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    pub(super) pool: String,
    /// Names given so far. The last is the pool's with this number; none is given twice.
    pub(super) named: u64,
    pub(super) phase: Phase,
    /// Servers started in vain since the last that joined.
    pub(super) failures: u32,
    /// Servers that there would be more than there are if what was only observed had been done; fewer if negative.
    pub(super) would: i64,
    pub(super) account: Account,
}

/// What it does at present.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is", deny_unknown_fields)]
pub enum Phase {
    /// Nothing is to be done.
    Steady,
    /// Thresholds are passed, and it has to last. Another leader begins at [`Phase::Steady`].
    Past {
        /// Which.
        side: Side,
        /// Since when.
        #[serde(skip)]
        since: Instant,
    },
    /// A server is started, and tried.
    Starting {
        /// Its name.
        name: String,
        /// Servers that are to be added after it.
        more: usize,
        /// How it does; none before the actuator has said where it is. Another leader asks again.
        #[serde(skip)]
        trial: Option<Trial>,
    },
    /// A server joins the pool.
    Joining {
        /// Its name.
        name: String,
        /// Where it is.
        address: String,
        /// Servers that are to be added after it; none where it is one that was to leave and stays.
        more: Option<usize>,
        /// The pool has begun with it.
        #[serde(skip)]
        is_ordered: bool,
        /// Since when the pool does not begin.
        #[serde(skip)]
        since: Instant,
    },
    /// A server leaves the pool.
    Draining {
        /// Its name.
        name: String,
        /// Where it is.
        address: String,
        /// Since when the pool does not begin.
        #[serde(skip)]
        since: Instant,
    },
    /// A server is stopped that owns nothing. It never joins again.
    Stopping {
        /// Its name.
        name: String,
        /// Where it is, as far as that is known.
        address: Option<String>,
        /// Why.
        why: Why,
        /// The actuator is not asked before.
        #[serde(skip)]
        not_before: Instant,
    },
    /// Nothing is decided for a while. It begins anew under another leader.
    Cooling {
        /// What has happened.
        after: After,
        /// Since when.
        #[serde(skip)]
        since: Instant,
    },
}

/// Which thresholds are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// There are too few servers.
    Upper,
    /// There are too many.
    Lower,
}

/// How a new server answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Trial {
    /// Where it is.
    pub address: String,
    /// When it was first known.
    pub since: Instant,
    /// Answers in a row.
    pub answered: u32,
}

/// Why a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It was removed from the pool.
    Drained,
    /// It was started in vain.
    Vain,
    /// The actuator runs it, and nobody waits for it.
    Stray,
}

/// After what it rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum After {
    /// Servers were added.
    Added,
    /// One was removed.
    Removed,
    /// One was to be removed, and stays.
    Kept,
    /// One was started in vain.
    Failed,
}

/// Server hours, as far as leaders have counted them: what passes between two leaders is not in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// Milliseconds that servers of the pool have run, all together.
    pub server_ms: u64,
    /// The same of servers that observed decisions would have added, less those of servers that they would have removed.
    pub would_ms: i64,
    /// Milliseconds that were counted.
    pub counted_ms: u64,
    /// The most servers that there were at a time.
    pub most: u64,
    #[serde(skip)]
    counted_until: Option<Instant>,
}

/// A phase without what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseName {
    /// See [`Phase::Steady`].
    Steady,
    /// [`Phase::Past`] on the upper side.
    PastUpper,
    /// [`Phase::Past`] on the lower side.
    BelowLower,
    /// See [`Phase::Starting`].
    Starting,
    /// See [`Phase::Joining`].
    Joining,
    /// See [`Phase::Draining`].
    Draining,
    /// See [`Phase::Stopping`].
    Stopping,
    /// See [`Phase::Cooling`].
    Cooling,
}

impl PhaseName {
    /// All of them, in order.
    pub const ALL: [PhaseName; 8] = [
        PhaseName::Steady,
        PhaseName::PastUpper,
        PhaseName::BelowLower,
        PhaseName::Starting,
        PhaseName::Joining,
        PhaseName::Draining,
        PhaseName::Stopping,
        PhaseName::Cooling,
    ];

    /// Whether a phase may follow.
    pub fn may_become(self, next: PhaseName) -> bool {
        use PhaseName::{
            BelowLower, Cooling, Draining, Joining, PastUpper, Starting, Steady, Stopping,
        };
        match self {
            Steady => matches!(next, PastUpper | BelowLower | Stopping),
            // What is only observed rests without having done anything.
            PastUpper => matches!(next, Steady | BelowLower | Starting | Stopping | Cooling),
            BelowLower => matches!(next, Steady | PastUpper | Draining | Stopping | Cooling),
            // At an address that the pool has, nothing is stopped.
            Starting => matches!(next, Joining | Stopping | Cooling),
            // Another one is to be added, too.
            Joining => matches!(next, Starting | Stopping | Cooling),
            // Given up: it joins again.
            Draining => matches!(next, Stopping | Joining),
            Stopping => matches!(next, Steady | Cooling),
            Cooling => matches!(next, Steady | PastUpper | BelowLower | Stopping),
        }
    }

    /// Its name everywhere; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            PhaseName::Steady => "steady",
            PhaseName::PastUpper => "past_upper",
            PhaseName::BelowLower => "below_lower",
            PhaseName::Starting => "starting",
            PhaseName::Joining => "joining",
            PhaseName::Draining => "draining",
            PhaseName::Stopping => "stopping",
            PhaseName::Cooling => "cooling",
        }
    }
}

impl fmt::Display for PhaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Phase {
    /// Its name.
    pub fn name(&self) -> PhaseName {
        match self {
            Phase::Steady => PhaseName::Steady,
            Phase::Past {
                side: Side::Upper, ..
            } => PhaseName::PastUpper,
            Phase::Past {
                side: Side::Lower, ..
            } => PhaseName::BelowLower,
            Phase::Starting { .. } => PhaseName::Starting,
            Phase::Joining { .. } => PhaseName::Joining,
            Phase::Draining { .. } => PhaseName::Draining,
            Phase::Stopping { .. } => PhaseName::Stopping,
            Phase::Cooling { .. } => PhaseName::Cooling,
        }
    }

    /// The name of the server that it is about.
    pub fn server(&self) -> Option<&str> {
        match self {
            Phase::Starting { name, .. }
            | Phase::Joining { name, .. }
            | Phase::Draining { name, .. }
            | Phase::Stopping { name, .. } => Some(name),
            Phase::Steady | Phase::Past { .. } | Phase::Cooling { .. } => None,
        }
    }
}

impl Scale {
    /// Of a pool of which nothing was decided yet.
    pub fn new(pool: &str) -> Self {
        Scale {
            pool: pool.to_owned(),
            named: 0,
            phase: Phase::Steady,
            failures: 0,
            would: 0,
            account: Account::default(),
        }
    }

    /// The pool's name.
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// What it does at present.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Names given so far.
    pub fn named(&self) -> u64 {
        self.named
    }

    /// Server hours so far.
    pub fn account(&self) -> Account {
        self.account
    }

    /// Servers more, or fewer where negative, that there would be if what was only observed had been done.
    pub fn would(&self) -> i64 {
        self.would
    }

    /// What a former leader has saved, as another goes on with it: it has seen nothing yet, and waits begin anew.
    pub fn restored(mut self, now: Instant) -> Self {
        self.account.counted_until = None;
        match &mut self.phase {
            Phase::Steady => {}
            Phase::Past { .. } => self.phase = Phase::Steady,
            Phase::Starting { trial, .. } => *trial = None,
            Phase::Joining {
                is_ordered, since, ..
            } => (*is_ordered, *since) = (false, now),
            Phase::Draining { since, .. } | Phase::Cooling { since, .. } => *since = now,
            Phase::Stopping { not_before, .. } => *not_before = now,
        }
        self
    }

    /// What about it contradicts itself, if anything.
    pub fn contradiction(&self) -> Option<&'static str> {
        let is_known = self.phase.server().is_none_or(|name| self.has_given(name));
        (!is_known).then_some("autoscaling is about a server whose name it has not given")
    }

    /// Whether another leader would go on otherwise than from what was before. Hours alone are no reason to save.
    pub(super) fn has_news(&self, before: &Scale) -> bool {
        let read = |scale: &Scale| Scale {
            account: Account::default(),
            ..scale.clone().restored(Instant::default())
        };
        read(self) != read(before)
    }

    /// The only place where a phase follows another.
    ///
    /// # Panics
    ///
    /// If it may not: going on could stop a server that is in use.
    pub(super) fn enter(&mut self, next: Phase) {
        let (from, to) = (self.phase.name(), next.name());
        assert!(
            from == to || from.may_become(to),
            "autoscaling may not go from {from} to {to}"
        );
        self.phase = next;
    }

    /// Whether this name was given to a server of this pool.
    pub(crate) fn has_given(&self, name: &str) -> bool {
        self.number_of(name).is_some_and(|it| it <= self.named)
    }

    /// The number in a name that may be one of those that were given to servers of this pool.
    pub(super) fn number_of(&self, name: &str) -> Option<u64> {
        let number = name.strip_prefix(self.pool.as_str())?.strip_prefix('-')?;
        let number: u64 = number.parse().ok().filter(|it| *it > 0)?;
        (name == self.name(number)).then_some(number)
    }

    pub(super) fn name(&self, number: u64) -> String {
        format!("{}-{number}", self.pool)
    }

    /// How long it rests after something.
    pub(super) fn rest(&self, after: After, settings: &ScaleSettings) -> Duration {
        match after {
            After::Added => Duration::from_millis(settings.cooldown_added_ms),
            After::Removed | After::Kept => Duration::from_millis(settings.cooldown_removed_ms),
            After::Failed => {
                let doublings = self.failures.saturating_sub(1).min(u32::BITS - 1);
                (limits::BACK_OFF.saturating_mul(1 << doublings)).min(limits::BACK_OFF_MAX)
            }
        }
    }
}

impl Account {
    /// Milliseconds that servers would have run more if there had always been as many as there were at most.
    pub fn saved_ms(&self) -> u64 {
        let of_most = self.most.saturating_mul(self.counted_ms);
        of_most.saturating_sub(self.server_ms)
    }

    /// Time has passed with this many servers.
    pub(super) fn count(&mut self, now: Instant, servers: usize, would: i64) {
        let since = self.counted_until.replace(now).unwrap_or(now);
        let passed = u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX);
        let servers = servers as u64;
        self.counted_ms = self.counted_ms.saturating_add(passed);
        self.most = self.most.max(servers);
        self.server_ms = self
            .server_ms
            .saturating_add(passed.saturating_mul(servers));
        let passed = i64::try_from(passed).unwrap_or(i64::MAX);
        self.would_ms = self.would_ms.saturating_add(passed.saturating_mul(would));
    }
}
