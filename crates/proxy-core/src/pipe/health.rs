//! Whether a server is in use: its failures and greetings, counted so that one that is neither dead nor
//! well does not change sides with each of them.
//!
//! A server is taken *out of use* at once when it cannot be connected to, does not greet, or talks
//! nonsense, and otherwise after [`LATE_MAX`] late or lost answers in a row. Out of use it is greeted
//! again and again, with growing pauses while that fails. Once a greeting is answered it is *on trial*:
//! it must answer several in a row before it is used again, and twice as many each time that it failed
//! soon after it had come back.
//!
//! ```text
//!           broken, or late too often               greeted
//!   In use ───────────────────────────> Out of use ────────> On trial (1, 2, …)
//!      ▲                                    ▲                  │      │
//!      │                                    └── broken, late ──┘      │
//!      └────────────────── greeted often enough in a row ─────────────┘
//! ```
//!
//! Being in use is not being connected: a server in use whose connection was just lost is connected to
//! again, and is out of use only if that fails.

use core::time::Duration;
use evenkeel_types::Instant;

/// Late or lost answers in a row that take a server out of use: one slow answer, or one connection
/// closed in a restart, should not make all keys of a server look for another place.
const LATE_MAX: u32 = 3;

/// Greetings in a row that bring a server back which was not back for long before.
pub(crate) const TRIAL_GREETINGS: u32 = 3;

/// Pause between them. The trial is also the time that a server which was stopped has to finish what
/// it had received on connections that were given up.
pub(crate) const TRIAL_PAUSE: Duration = Duration::from_millis(50);

/// A server that fails within this time after it came back has had a relapse.
const STEADY_AFTER: Duration = Duration::from_secs(30);

/// Relapses that make a trial longer: the longest has 24 greetings, more than a second.
const RELAPSES_MAX: u32 = 3;

/// Where a server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthState {
    /// Requests go to it.
    InUse,
    /// None do.
    OutOfUse,
    /// None do, but it has answered this many greetings in a row.
    OnTrial(u32),
}

/// What was seen of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// It answered a greeting.
    Greeted,
    /// An answer was late, or its connection was lost before it had answered anything.
    Late,
    /// It could not be connected to, did not answer a greeting, or talked nonsense.
    Broken,
}

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Health {
    state: HealthState,
    /// Failures since it last answered a request.
    failures: u32,
    /// Greetings of an ordinary trial; at 1 there is none.
    trial: u32,
    relapses: u32,
    /// When it came back, if it ever did.
    back_at: Option<Instant>,
}

impl Health {
    /// A server that nothing speaks against.
    pub fn new(trial: u32) -> Self {
        Health {
            state: HealthState::InUse,
            failures: 0,
            trial,
            relapses: 0,
            back_at: None,
        }
    }

    /// It answered a request.
    #[inline]
    pub fn answered(&mut self) {
        self.failures = 0;
    }

    /// Failures since it last answered a request.
    #[inline]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether requests go to it.
    #[inline]
    pub fn is_in_use(&self) -> bool {
        self.state == HealthState::InUse
    }

    /// Where it stands, for people.
    pub fn state_name(&self) -> &'static str {
        match self.state {
            HealthState::InUse => "in use",
            HealthState::OutOfUse => "out of use",
            HealthState::OnTrial(_) => "on trial",
        }
    }

    /// When it came back, if it ever did.
    pub fn back_at(&self) -> Option<Instant> {
        self.back_at
    }

    /// Moves to the state that follows. True if it came into use or went out of it.
    pub fn see(&mut self, now: Instant, sign: Sign) -> bool {
        if sign != Sign::Greeted {
            self.failures = self.failures.saturating_add(1);
        }
        let next = next(self.state, sign, self.failures, self.trial_now());
        let before = core::mem::replace(&mut self.state, next);
        match (before, next) {
            (HealthState::InUse, HealthState::OutOfUse) => {
                let soon = self.back_at.is_some_and(|at| now < at + STEADY_AFTER);
                self.relapses = if soon {
                    (self.relapses + 1).min(RELAPSES_MAX)
                } else {
                    0
                };
            }
            (HealthState::OutOfUse | HealthState::OnTrial(_), HealthState::InUse) => {
                self.back_at = Some(now);
            }
            _ => {}
        }
        (before == HealthState::InUse) != (next == HealthState::InUse)
    }

    /// Greetings that the next trial takes.
    fn trial_now(&self) -> u32 {
        match self.trial {
            0 | 1 => 1,
            trial => trial << self.relapses,
        }
    }
}

/// All moves. `failures` includes the present one.
fn next(state: HealthState, sign: Sign, failures: u32, trial: u32) -> HealthState {
    match (state, sign) {
        (HealthState::InUse, Sign::Greeted) => HealthState::InUse,
        (HealthState::InUse, Sign::Late) if failures < LATE_MAX => HealthState::InUse,
        (_, Sign::Late | Sign::Broken) => HealthState::OutOfUse,
        (HealthState::OutOfUse, Sign::Greeted) => tried(1, trial),
        (HealthState::OnTrial(greetings), Sign::Greeted) => tried(greetings + 1, trial),
    }
}

fn tried(greetings: u32, trial: u32) -> HealthState {
    if greetings >= trial {
        HealthState::InUse
    } else {
        HealthState::OnTrial(greetings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn the_table_of_moves() {
        let mut table = String::new();
        for state in [
            HealthState::InUse,
            HealthState::OutOfUse,
            HealthState::OnTrial(1),
            HealthState::OnTrial(2),
        ] {
            for (sign, failures) in [
                (Sign::Greeted, 1),
                (Sign::Late, 1),
                (Sign::Late, 2),
                (Sign::Late, 3),
                (Sign::Broken, 1),
            ] {
                let next = next(state, sign, failures, TRIAL_GREETINGS);
                writeln!(table, "{state:?} + {sign:?} {failures} = {next:?}").unwrap();
            }
        }
        let expected = "\
InUse + Greeted 1 = InUse
InUse + Late 1 = InUse
InUse + Late 2 = InUse
InUse + Late 3 = OutOfUse
InUse + Broken 1 = OutOfUse
OutOfUse + Greeted 1 = OnTrial(1)
OutOfUse + Late 1 = OutOfUse
OutOfUse + Late 2 = OutOfUse
OutOfUse + Late 3 = OutOfUse
OutOfUse + Broken 1 = OutOfUse
OnTrial(1) + Greeted 1 = OnTrial(2)
OnTrial(1) + Late 1 = OutOfUse
OnTrial(1) + Late 2 = OutOfUse
OnTrial(1) + Late 3 = OutOfUse
OnTrial(1) + Broken 1 = OutOfUse
OnTrial(2) + Greeted 1 = InUse
OnTrial(2) + Late 1 = OutOfUse
OnTrial(2) + Late 2 = OutOfUse
OnTrial(2) + Late 3 = OutOfUse
OnTrial(2) + Broken 1 = OutOfUse
";
        assert_eq!(table, expected, "\n{table}");
    }

    /// Greetings that bring a server back.
    fn come_back(health: &mut Health, now: Instant) -> u32 {
        let mut greetings = 1;
        while !health.see(now, Sign::Greeted) {
            greetings += 1;
        }
        greetings
    }

    #[test]
    fn anyone_who_fails_soon_after_coming_back_is_tried_for_longer() {
        let mut health = Health::new(TRIAL_GREETINGS);
        let mut now = Instant::from_millis(0);
        for expected in [3, 6, 12, 24, 24] {
            assert!(health.see(now, Sign::Broken));
            assert!(!health.see(now, Sign::Broken), "it is out of use already");
            assert_eq!(come_back(&mut health, now), expected);
            now = now + STEADY_AFTER - Duration::from_nanos(1);
        }
        now = now + Duration::from_nanos(1);
        assert!(health.see(now, Sign::Broken));
        assert_eq!(
            come_back(&mut health, now),
            3,
            "it was well for long enough"
        );
        assert_eq!(health.back_at(), Some(now));
    }

    #[test]
    fn late_answers_count_only_in_a_row() {
        let mut health = Health::new(TRIAL_GREETINGS);
        let now = Instant::from_millis(0);
        for _ in 0..10 {
            assert!(!health.see(now, Sign::Late));
            assert!(!health.see(now, Sign::Greeted));
            assert!(!health.see(now, Sign::Late));
            health.answered();
        }
        for _ in 1..LATE_MAX {
            assert!(!health.see(now, Sign::Late));
        }
        assert!(health.see(now, Sign::Late) && !health.is_in_use());
    }

    #[test]
    fn who_needs_no_trial_is_back_at_the_first_greeting() {
        let mut health = Health::new(1);
        let now = Instant::from_millis(0);
        for _ in 0..10 {
            assert!(health.see(now, Sign::Broken));
            assert_eq!(come_back(&mut health, now), 1);
        }
    }
}
