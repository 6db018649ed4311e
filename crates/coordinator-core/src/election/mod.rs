//! Who of several coordinators leads: the decisions of one of them, apart from all I/O.
//!
//! All coordinators of a cluster share a store (etcd) that keeps one key, the *leader's key*, for as long as
//! the lease lives that it hangs on. Anyone who creates the key leads, and the revision in which it was created is
//! the *token*: tokens only grow, and every write is executed by the store only while the key with the
//! writer's token is there. So what a former leader sends late is refused by the store, and what it tells
//! members late is refused by them, who know of a greater token.
//!
//! ```text
//!               nobody leads             granted               won                   loaded
//!   Following ───────────────> Granting ─────────> Campaigning ─────> Preparing ─────────────> Leading
//!       ^                         │ failed              │ beaten          │ lease over,            │ lease over, gone,
//!       │<────────────────────────┘                     │ or not known    │ cannot load            │ save of unknown end
//!       │                     revoked, or not           v                 v                        v
//!       └────────────────────────────────────────── Resigning <──────────┴────────────────────────┘
//! ```
//!
//! A lease counts from the moment when its grant or renewal was *asked for*, which is before the store began
//! to count, and the leader believes in it for three quarters of its time only. A clock is read for each
//! answer ([`Election::leads`]), so that a process that was stopped in between finds its lease over before it
//! tells anybody anything.
//!
//! A leader that does not know whether a write was executed resigns. It could only guess on which state the
//! next write would build, and the write may still be on its way: with another token it can do no harm.
//!
//! Rejected: following the key by a watch. A watch tells of a dead leader a tenth of a second earlier, has to be
//! taken up again after a compaction, and may fall silent without a word; reading one small key ten times a second
//! does not. Rejected, too: to go on leading by a lease that was once not renewed in time, and lives on.

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use core::time::Duration;

use evenkeel_types::Instant;
use evenkeel_types::serving::SERVING_LEASE;

/// Shortest lease that is asked for. etcd grants no shorter one than one and a half of its election timeouts
/// (a second by default), in whole seconds.
pub const LEASE: Duration = Duration::from_secs(2);

/// Part of a lease for which the leader believes in it: the rest is room for clocks that run apart and for
/// answers on their way.
const BELIEF: (u32, u32) = (3, 4);

/// A lease is renewed this many times while it is believed in, so that one or two renewals may fail.
const RENEWALS_PER_BELIEF: u32 = 4;

/// A follower looks so often whether there is a leader.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a follower knows of the leader counts for this long.
const LOOK_BELIEF: Duration = Duration::from_secs(3);

/// A coordinator that could not use the state, or was not granted a lease, waits for this long, and lets others try.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Longest wait for the answer to one of the actions but [`Action::Load`].
pub const ACTION_TIMEOUT: Duration = Duration::from_millis(700);

const _: () = assert!(LOOK_EVERY.as_millis() * 3 < LOOK_BELIEF.as_millis());
// Operators are told that a dead leader's successor leads, and has heard from the members, within three seconds: its lease
// ends, somebody looks, and servers speak twice in a serving lease.
const _: () =
    assert!(LEASE.as_millis() + LOOK_EVERY.as_millis() + SERVING_LEASE.as_millis() / 2 < 3_000);

/// A lease's number, as the store gives it.
pub type LeaseId = i64;

/// A leader, as its key says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Where it is reached.
    pub address: String,
    /// Fencing token: greater than that of every leader before.
    pub token: u64,
}

/// Where a coordinator stands in the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Looks whether somebody leads.
    Following,
    /// Asks for a lease.
    Granting,
    /// Tries to create the leader's key.
    Campaigning,
    /// Has the key and reads the state.
    Preparing,
    /// Decides and answers.
    Leading,
    /// Gives its lease back, and the key with it.
    Resigning,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Phase; 6] = [
        Phase::Following,
        Phase::Granting,
        Phase::Campaigning,
        Phase::Preparing,
        Phase::Leading,
        Phase::Resigning,
    ];

    /// Its name in metrics and answers; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::Following => "following",
            Phase::Granting => "granting",
            Phase::Campaigning => "campaigning",
            Phase::Preparing => "preparing",
            Phase::Leading => "leading",
            Phase::Resigning => "resigning",
        }
    }

    /// Whether the election may go from here to there in one step.
    const fn may_become(self, next: Phase) -> bool {
        matches!(
            (self, next),
            (Phase::Following, Phase::Granting)
                | (Phase::Granting, Phase::Campaigning | Phase::Following)
                | (Phase::Campaigning, Phase::Preparing | Phase::Resigning)
                | (Phase::Preparing, Phase::Leading | Phase::Resigning)
                | (Phase::Leading, Phase::Resigning)
                | (Phase::Resigning, Phase::Following)
        )
    }
}

/// Why a coordinator gave up leading, or trying to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Another was faster.
    Beaten,
    /// The store did not say whether it has created the key.
    NotKnown,
    /// The lease was not renewed in time.
    LeaseOver,
    /// The store does not know the lease any more, or somebody has deleted the key.
    LeaseGone,
    /// The state could not be read or used.
    Unusable,
    /// A write was refused, or nobody knows whether it was executed.
    Unsaved,
    /// It was told to stop.
    Stopped,
}

impl Cause {
    /// All of them, in order.
    pub const ALL: [Cause; 7] = [
        Cause::Beaten,
        Cause::NotKnown,
        Cause::LeaseOver,
        Cause::LeaseGone,
        Cause::Unusable,
        Cause::Unsaved,
        Cause::Stopped,
    ];

    /// Its name in metrics and messages; stable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Cause::Beaten => "beaten",
            Cause::NotKnown => "not_known",
            Cause::LeaseOver => "lease_over",
            Cause::LeaseGone => "lease_gone",
            Cause::Unusable => "unusable_state",
            Cause::Unsaved => "unsaved",
            Cause::Stopped => "stopped",
        }
    }
}

/// What the driver is to do. Each is answered by one [`Input`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read the leader's key: [`Input::Seen`] or [`Input::NotSeen`].
    Look,
    /// Ask for a lease: [`Input::Granted`] or [`Input::NotGranted`].
    Grant,
    /// Create the leader's key, if there is none, on this lease: [`Input::Won`], [`Input::Beaten`] or
    /// [`Input::NotKnown`].
    Campaign {
        /// The lease.
        lease: LeaseId,
    },
    /// Read the state: [`Input::Loaded`] or [`Input::NotLoaded`].
    Load {
        /// The token of the key.
        token: u64,
    },
    /// Renew the lease, and see that the key with this token is there (0: there is none yet):
    /// [`Input::Renewed`], [`Input::NotRenewed`] or [`Input::LeaseGone`].
    Renew {
        /// The lease.
        lease: LeaseId,
        /// The token.
        token: u64,
    },
    /// Give the lease back, and the key with it: [`Input::Revoked`], whatever came of it.
    Revoke {
        /// The lease.
        lease: LeaseId,
    },
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The leader's key was read.
    Seen(Option<Leader>),
    /// It could not be read.
    NotSeen,
    /// There is a lease.
    Granted {
        /// Its number.
        lease: LeaseId,
        /// How long it lives.
        ttl: Duration,
        /// When it was asked for.
        asked: Instant,
    },
    /// There is none, or nobody knows.
    NotGranted,
    /// This coordinator has the leader's key.
    Won {
        /// Revision in which the key was created.
        token: u64,
    },
    /// Another has it.
    Beaten(Leader),
    /// Nobody knows whether the key was created.
    NotKnown,
    /// The state was read with this token, and can be used.
    Loaded {
        /// The token.
        token: u64,
    },
    /// It cannot.
    NotLoaded {
        /// The token.
        token: u64,
    },
    /// The lease was renewed.
    Renewed {
        /// Which.
        lease: LeaseId,
        /// How long it lives.
        ttl: Duration,
        /// When the renewal was asked for.
        asked: Instant,
    },
    /// It was not, or nobody knows.
    NotRenewed {
        /// Which.
        lease: LeaseId,
    },
    /// The store does not know the lease, or the key is not there any more.
    LeaseGone {
        /// Which.
        lease: LeaseId,
    },
    /// A write of the leader with this token was refused, or has no known end.
    Unsaved {
        /// The token.
        token: u64,
    },
    /// The lease was given back, or that has failed.
    Revoked,
    /// The process is about to end.
    Stop,
}

/// Counts since the process started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElectionCounts {
    /// Times that this coordinator became the leader.
    pub won: u64,
    /// Times that it gave up, by [`Cause::ALL`].
    pub given_up: [u64; Cause::ALL.len()],
}

/// One coordinator's part in the election. Told the time and what has happened, it says what to do.
#[derive(Clone, Debug)]
pub struct Election {
    /// Where this coordinator is reached.
    address: String,
    phase: Phase,
    /// From the grant to the end of [`Phase::Resigning`].
    lease: Option<LeaseId>,
    /// 0 when this coordinator has no key.
    token: u64,
    /// End of the belief in the lease.
    until: Instant,
    renew_at: Instant,
    is_renewing: bool,
    /// Whether the phase's own action is under way.
    is_busy: bool,
    /// When the next action of [`Phase::Following`] is due.
    next_look: Instant,
    /// Not before then does this coordinator try to lead.
    may_lead_at: Instant,
    is_stopped: bool,
    /// What was last seen, and when.
    seen: Option<(Option<Leader>, Instant)>,
    belief: (u32, u32),
    counts: ElectionCounts,
    /// Why it last gave up.
    last_cause: Option<Cause>,
}

impl Election {
    /// A coordinator that is reached at `address` and knows of nobody.
    pub fn new(address: &str, now: Instant) -> Self {
        Election {
            address: address.to_owned(),
            phase: Phase::Following,
            lease: None,
            token: 0,
            until: now,
            renew_at: now,
            is_renewing: false,
            is_busy: false,
            next_look: now,
            may_lead_at: now,
            is_stopped: false,
            seen: None,
            belief: BELIEF,
            counts: ElectionCounts::default(),
            last_cause: None,
        }
    }

    /// The token by which this coordinator may decide and answer at this moment, if it may. To be asked before a
    /// decision, and again before what came of it is told.
    pub fn leads(&self, now: Instant) -> Option<u64> {
        (self.phase == Phase::Leading && now < self.until).then_some(self.token)
    }

    /// The token by which states may be read and written now, be it to get ready.
    pub fn writes(&self, now: Instant) -> Option<u64> {
        let has_key = matches!(self.phase, Phase::Preparing | Phase::Leading);
        (has_key && now < self.until).then_some(self.token)
    }

    /// The other coordinator that leads, as far as is known.
    pub fn leader(&self, now: Instant) -> Option<&Leader> {
        let (leader, at) = self.seen.as_ref()?;
        let leader = leader.as_ref()?;
        // A former life of this process, or its own key that is not yet gone, is nobody to send others to.
        let is_other = leader.address != self.address;
        (is_other && now.since(*at) < LOOK_BELIEF).then_some(leader)
    }

    /// Where it stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Token of the key that this coordinator has; 0 without one.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// How much longer it may lead without a renewal.
    pub fn lease_left(&self, now: Instant) -> Duration {
        match self.writes(now) {
            Some(_) => self.until.since(now),
            None => Duration::ZERO,
        }
    }

    /// Counts since the process started.
    pub fn counts(&self) -> &ElectionCounts {
        &self.counts
    }

    /// Why it last gave up, if it ever did.
    pub fn last_cause(&self) -> Option<Cause> {
        self.last_cause
    }

    /// Whether it was stopped and has given everything back.
    pub fn is_over(&self) -> bool {
        self.is_stopped && self.phase == Phase::Following
    }

    /// Tells what has happened. What belongs to a former phase, lease or token changes nothing.
    pub fn handle(&mut self, now: Instant, input: Input) {
        match (self.phase, input) {
            (_, Input::Stop) => {
                self.is_stopped = true;
                if self.phase == Phase::Preparing || self.phase == Phase::Leading {
                    self.give_up(Cause::Stopped);
                }
            }
            (Phase::Following, Input::Seen(leader)) => {
                self.is_busy = false;
                let is_vacant = leader.is_none();
                self.seen = Some((leader, now));
                self.next_look = now + LOOK_EVERY;
                if is_vacant && now >= self.may_lead_at && !self.is_stopped {
                    self.enter(Phase::Granting);
                }
            }
            (Phase::Following, Input::NotSeen) => {
                self.is_busy = false;
                self.next_look = now + LOOK_EVERY;
            }
            (Phase::Granting, Input::Granted { lease, ttl, asked }) => {
                self.lease = Some(lease);
                self.is_renewing = false;
                self.believe(asked, ttl);
                self.enter(Phase::Campaigning);
                if self.is_stopped {
                    self.give_up(Cause::Stopped);
                }
            }
            (Phase::Granting, Input::NotGranted) => {
                self.may_lead_at = now + PAUSE_AFTER_FAILURE;
                self.enter(Phase::Following);
            }
            (Phase::Campaigning, Input::Won { token }) => {
                self.token = token;
                self.enter(Phase::Preparing);
                if self.is_stopped {
                    self.give_up(Cause::Stopped);
                }
            }
            (Phase::Campaigning, Input::Beaten(leader)) => {
                self.seen = Some((Some(leader), now));
                self.give_up(Cause::Beaten);
            }
            (Phase::Campaigning, Input::NotKnown) => self.give_up(Cause::NotKnown),
            (Phase::Preparing, Input::Loaded { token }) if token == self.token => {
                self.counts.won += 1;
                self.enter(Phase::Leading);
            }
            (Phase::Preparing, Input::NotLoaded { token }) if token == self.token => {
                self.may_lead_at = now + PAUSE_AFTER_FAILURE;
                self.give_up(Cause::Unusable);
            }
            (_, Input::Renewed { lease, ttl, asked }) if Some(lease) == self.lease => {
                self.is_renewing = false;
                // A belief that is over stays over, and a late answer takes nothing from it.
                if now < self.until && asked + self.part_of(ttl) > self.until {
                    self.believe(asked, ttl);
                }
            }
            (_, Input::NotRenewed { lease }) if Some(lease) == self.lease => {
                self.is_renewing = false;
            }
            (
                Phase::Campaigning | Phase::Preparing | Phase::Leading,
                Input::LeaseGone { lease },
            ) if Some(lease) == self.lease => self.give_up(Cause::LeaseGone),
            (Phase::Leading | Phase::Preparing, Input::Unsaved { token })
                if token == self.token =>
            {
                self.give_up(Cause::Unsaved);
            }
            (Phase::Resigning, Input::Revoked) => {
                self.lease = None;
                self.next_look = now;
                self.enter(Phase::Following);
            }
            (_, _) => {}
        }
        self.handle_timeout(now);
    }

    /// Tells that its deadline may have passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        let has_key = matches!(self.phase, Phase::Preparing | Phase::Leading);
        if has_key && now >= self.until {
            self.give_up(Cause::LeaseOver);
        }
    }

    /// Next thing for the driver to do. Call until `None`.
    pub fn poll_action(&mut self, now: Instant) -> Option<Action> {
        let believes = matches!(
            self.phase,
            Phase::Campaigning | Phase::Preparing | Phase::Leading
        );
        if let Some(lease) = self.lease
            && believes
            && !self.is_renewing
            && now >= self.renew_at
        {
            self.is_renewing = true;
            // What fails is tried again after the same time.
            self.renew_at = now + self.part_of(LEASE) / RENEWALS_PER_BELIEF;
            let token = self.token;
            return Some(Action::Renew { lease, token });
        }
        if self.is_busy {
            return None;
        }
        let action = match (self.phase, self.lease) {
            (Phase::Following, _) if self.is_stopped || now < self.next_look => return None,
            (Phase::Following, _) => Action::Look,
            (Phase::Granting, _) => Action::Grant,
            (Phase::Campaigning, Some(lease)) => Action::Campaign { lease },
            (Phase::Preparing, _) => Action::Load { token: self.token },
            (Phase::Resigning, Some(lease)) => Action::Revoke { lease },
            (Phase::Leading, _) => return None,
            (Phase::Campaigning | Phase::Resigning, None) => {
                unreachable!("both phases follow a grant and end before the lease is forgotten")
            }
        };
        self.is_busy = true;
        Some(action)
    }

    /// When [`handle_timeout`](Self::handle_timeout) and [`poll_action`](Self::poll_action) should next be called.
    pub fn poll_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Following if self.is_stopped || self.is_busy => None,
            Phase::Following => Some(self.next_look),
            Phase::Granting | Phase::Resigning => None,
            Phase::Campaigning | Phase::Preparing | Phase::Leading if self.is_renewing => {
                Some(self.until)
            }
            Phase::Campaigning | Phase::Preparing | Phase::Leading => {
                Some(self.until.min(self.renew_at))
            }
        }
    }

    /// The lease lives for `ttl` from `asked` on, at least.
    fn believe(&mut self, asked: Instant, ttl: Duration) {
        self.until = asked + self.part_of(ttl);
        self.renew_at = asked + self.part_of(ttl) / RENEWALS_PER_BELIEF;
    }

    /// How long a lease of that length is believed in.
    fn part_of(&self, ttl: Duration) -> Duration {
        let (part, whole) = self.belief;
        ttl * part / whole
    }

    fn give_up(&mut self, cause: Cause) {
        self.counts.given_up[cause as usize] += 1;
        self.last_cause = Some(cause);
        self.token = 0;
        self.enter(Phase::Resigning);
    }

    /// The only place where the phase moves.
    fn enter(&mut self, next: Phase) {
        assert!(
            self.phase.may_become(next),
            "no way leads from {:?} to {next:?}",
            self.phase
        );
        self.phase = next;
        self.is_busy = false;
    }
}
