//! A server that comes or goes: what each phase of it waits for, and what it becomes.

use std::collections::BTreeMap;

use evenkeel_types::Instant;

use super::limits;
use super::seen::{Act, Outcome, Part, Seen};
use super::settings::ScaleSettings;
use super::state::{After, Phase, Scale, Trial, Why};

/// A server that joins: see [`Phase::Joining`].
pub(super) struct Joins {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) more: Option<usize>,
    pub(super) is_ordered: bool,
    pub(super) since: Instant,
}

impl Scale {
    /// A server gets a name, and is started.
    pub(super) fn start(&mut self, more: usize) -> String {
        self.named += 1;
        let name = self.name(self.named);
        let trial = None;
        self.enter(Phase::Starting {
            name: name.clone(),
            more,
            trial,
        });
        name
    }

    pub(super) fn await_start(
        &mut self,
        now: Instant,
        seen: &Seen,
        name: &str,
        more: usize,
    ) -> String {
        if let Some(why) = seen.failure(|act| matches!(act, Act::Start { name: of } if of == name))
        {
            let stops = self.stop(now, name.to_owned(), None, Why::Vain);
            return format!("the actuator could not start it: {why}; {stops}");
        }
        let Some(Outcome::Started { name: of, address }) = &seen.outcome else {
            return format!("{name} is being started");
        };
        if of != name {
            return format!("{name} is being started");
        }
        if seen.part(address).is_some() {
            // Whatever runs there is in use.
            return self.fail(
                now,
                format!("the actuator says that {name} is {address}, which the pool has already"),
            );
        }
        let trial = Some(Trial {
            address: address.clone(),
            since: now,
            answered: 0,
        });
        self.enter(Phase::Starting {
            name: name.to_owned(),
            more,
            trial,
        });
        format!("{name} runs at {address}, and is tried")
    }

    pub(super) fn await_trial(
        &mut self,
        now: Instant,
        seen: &Seen,
        name: &str,
        more: usize,
        mut trial: Trial,
    ) -> String {
        let is_it = |act: &Act| matches!(act, Act::Try { address } if *address == trial.address);
        let failure = seen.failure(is_it);
        if seen.is_done(is_it) {
            trial.answered += 1;
        } else if failure.is_some() {
            trial.answered = 0;
        }
        if trial.answered >= limits::TRIALS {
            let address = trial.address;
            let why = format!("{name} answers, and joins");
            self.join(now, name.to_owned(), address, Some(more));
            return why;
        }
        if now.since(trial.since) >= limits::TRIAL_WITHIN {
            let stops = self.stop(now, name.to_owned(), Some(trial.address), Why::Vain);
            let failure = failure.unwrap_or("it does not answer for long enough");
            return format!("{failure}; {stops}");
        }
        let why = match failure {
            Some(why) => format!("{name} is tried: {why}"),
            None => format!(
                "{name} is tried: it has answered {} times in a row",
                trial.answered
            ),
        };
        let trial = Some(trial);
        self.enter(Phase::Starting {
            name: name.to_owned(),
            more,
            trial,
        });
        why
    }

    pub(super) fn await_join(
        &mut self,
        now: Instant,
        settings: &ScaleSettings,
        seen: &Seen,
        joins: Joins,
    ) -> String {
        let Joins {
            name,
            address,
            more,
            is_ordered,
            since,
        } = joins;
        match seen.part(&address) {
            Some(Part::Owns) => return self.joined(now, settings, seen, &name, more),
            Some(part) => {
                let is_ordered = is_ordered || part == Part::Comes;
                let why = format!("{name} joins the pool");
                self.enter(Phase::Joining {
                    name,
                    address,
                    more,
                    is_ordered,
                    since: now,
                });
                return why;
            }
            None => {}
        }
        if is_ordered {
            let stops = self.stop(now, name, Some(address), Why::Vain);
            return format!("the pool has taken it back; {stops}");
        }
        let is_it = |act: &Act| matches!(act, Act::Join { address: of } if *of == address);
        let refused = seen
            .failure(is_it)
            .unwrap_or("it was not asked yet")
            .to_owned();
        if now.since(since) >= limits::ORDER_WITHIN {
            let stops = self.stop(now, name, Some(address), Why::Vain);
            return format!("the pool does not take it: {refused}; {stops}");
        }
        format!("{name} waits for the pool: {refused}")
    }

    fn joined(
        &mut self,
        now: Instant,
        settings: &ScaleSettings,
        seen: &Seen,
        name: &str,
        more: Option<usize>,
    ) -> String {
        let Some(more) = more else {
            let after = After::Kept;
            self.enter(Phase::Cooling { after, since: now });
            return format!("{name} stays");
        };
        self.failures = 0;
        if more > 0 && seen.servers() < settings.max {
            let next = self.start(more - 1);
            return format!("{name} has joined; {next} is started");
        }
        let after = After::Added;
        self.enter(Phase::Cooling { after, since: now });
        format!("{name} has joined")
    }

    pub(super) fn await_drain(
        &mut self,
        now: Instant,
        settings: &ScaleSettings,
        seen: &Seen,
        (name, address, since): (String, String, Instant),
    ) -> String {
        let Some(part) = seen.part(&address) else {
            return self.stop(now, name, Some(address), Why::Drained);
        };
        let others = seen.servers() - usize::from(part == Part::Owns);
        if others < settings.min {
            let min = settings.min;
            let why =
                format!("{name} stays, for there are {others} others, and at least {min} wanted");
            self.join(now, name, address, None);
            return why;
        }
        if let Some(other) = seen.unreached_besides(&address) {
            let why = format!("{name} stays, for {other} is not reached");
            self.join(now, name, address, None);
            return why;
        }
        let is_it = |act: &Act| matches!(act, Act::Drain { address: of } if *of == address);
        let refused = seen.failure(is_it).map(str::to_owned);
        match (part, refused) {
            (Part::Leaves, _) => {
                let why = format!("{name} leaves the pool");
                self.enter(Phase::Draining {
                    name,
                    address,
                    since: now,
                });
                why
            }
            (_, refused) if now.since(since) >= limits::ORDER_WITHIN => {
                let refused = refused.unwrap_or_else(|| "the pool does not begin".into());
                let why = format!("{name} stays: {refused}");
                self.join(now, name, address, None);
                why
            }
            (_, Some(refused)) => format!("{name} waits for the pool: {refused}"),
            (_, None) => format!("{name} waits for the pool"),
        }
    }

    pub(super) fn await_stop(
        &mut self,
        now: Instant,
        seen: &Seen,
        name: String,
        address: Option<String>,
        why: Why,
    ) -> String {
        let is_it = |act: &Act| matches!(act, Act::Stop { name: of } if *of == name);
        let is_used = seen.is_used(&name, address.as_deref());
        let is_gone = |listed: &BTreeMap<String, String>| !listed.contains_key(&name);
        if seen.is_done(is_it) || is_used && seen.listed.as_ref().is_some_and(is_gone) {
            return self.stopped(now, &name, why);
        }
        if is_used {
            return format!("{name} is not stopped: the pool has something at its address");
        }
        match seen.failure(is_it) {
            None => format!("{name} is being stopped"),
            Some(failure) => {
                let words = format!("the actuator could not stop {name}: {failure}");
                let not_before = now + limits::STOP_AGAIN;
                self.enter(Phase::Stopping {
                    name,
                    address,
                    why,
                    not_before,
                });
                words
            }
        }
    }

    fn stopped(&mut self, now: Instant, name: &str, why: Why) -> String {
        match why {
            Why::Vain => return self.fail(now, format!("{name} is stopped")),
            Why::Drained => {
                let after = After::Removed;
                self.enter(Phase::Cooling { after, since: now });
            }
            Why::Stray => self.enter(Phase::Steady),
        }
        format!("{name} is stopped")
    }

    /// A server was started in vain.
    fn fail(&mut self, now: Instant, why: String) -> String {
        self.failures = self.failures.saturating_add(1);
        let after = After::Failed;
        self.enter(Phase::Cooling { after, since: now });
        why
    }

    fn join(&mut self, now: Instant, name: String, address: String, more: Option<usize>) {
        self.enter(Phase::Joining {
            name,
            address,
            more,
            is_ordered: false,
            since: now,
        });
    }

    pub(super) fn stop(
        &mut self,
        now: Instant,
        name: String,
        address: Option<String>,
        why: Why,
    ) -> String {
        let words = format!("{name} is stopped, {}", why.words());
        let not_before = now;
        self.enter(Phase::Stopping {
            name,
            address,
            why,
            not_before,
        });
        words
    }
}

impl Seen {
    /// Whether a server must not be stopped: the pool has something where it is, or where the actuator says it is now; or nothing is
    /// known of the pool.
    pub(super) fn is_used(&self, name: &str, address: Option<&str>) -> bool {
        let listed = self.listed.as_ref().and_then(|listed| listed.get(name));
        let listed = listed.map(String::as_str);
        let has_part = |at: &str| self.part(at).is_some();
        self.pool.is_empty() || address.into_iter().chain(listed).any(has_part)
    }
}

impl Why {
    fn words(self) -> &'static str {
        match self {
            Why::Drained => "for it owns nothing any more",
            Why::Vain => "for it was started in vain",
            Why::Stray => "for the pool does not have it and nobody waits for it",
        }
    }
}
