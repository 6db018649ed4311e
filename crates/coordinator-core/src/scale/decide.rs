//! One decision: what is seen makes a phase follow another, and the phase says what is to be done.

use std::collections::BTreeMap;

use evenkeel_types::Instant;

use super::judge::{Judgement, judge};
use super::seen::{Act, Part, Seen};
use super::settings::{ScaleMode, ScaleSettings};
use super::state::{After, Phase, Scale, Side, Why};
use super::under_way::Joins;

/// What was decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// How far it is now.
    pub scale: Scale,
    /// That is to be saved before the act, and before the next decision.
    pub is_to_save: bool,
    /// What is to be done, which may be under way already: then it is not begun again.
    pub act: Option<Act>,
    /// Why, in one sentence.
    pub why: String,
}

/// Decides what is done next. It is asked about once a second, and after each act. `now` is a time of this process. O(servers · log servers).
pub fn decide(now: Instant, scale: &Scale, settings: &ScaleSettings, seen: &Seen) -> Decision {
    let mut next = scale.clone();
    if settings.mode != ScaleMode::Observe {
        next.would = 0;
    }
    next.account.count(now, seen.servers(), next.would);
    let why = next.advance(now, settings, seen);
    Decision {
        is_to_save: next.has_news(scale),
        act: next.act(now, seen),
        scale: next,
        why,
    }
}

impl Scale {
    /// What the present phase asks for. It is asked for until what is seen says that it is done, so that nothing is lost with a leader.
    fn act(&self, now: Instant, seen: &Seen) -> Option<Act> {
        match &self.phase {
            Phase::Starting {
                name, trial: None, ..
            } => Some(Act::Start { name: name.clone() }),
            Phase::Starting {
                trial: Some(trial), ..
            } => Some(Act::Try {
                address: trial.address.clone(),
            }),
            Phase::Joining {
                address,
                is_ordered: false,
                ..
            } if seen.part(address).is_none() => Some(Act::Join {
                address: address.clone(),
            }),
            Phase::Draining { address, .. } if seen.part(address) == Some(Part::Owns) => {
                Some(Act::Drain {
                    address: address.clone(),
                })
            }
            Phase::Stopping {
                name,
                address,
                not_before,
                ..
            } => {
                let may_stop = now >= *not_before && !seen.is_used(name, address.as_deref());
                may_stop.then(|| Act::Stop { name: name.clone() })
            }
            _ => None,
        }
    }

    /// Goes on, by one phase at most but for a rest that is over. Says why.
    fn advance(&mut self, now: Instant, settings: &ScaleSettings, seen: &Seen) -> String {
        match self.phase.clone() {
            Phase::Steady => self.look(now, settings, seen, None),
            Phase::Past { side, since } => self.look(now, settings, seen, Some((side, since))),
            Phase::Starting { name, more, trial } => match trial {
                None => self.await_start(now, seen, &name, more),
                Some(trial) => self.await_trial(now, seen, &name, more, trial),
            },
            Phase::Joining {
                name,
                address,
                more,
                is_ordered,
                since,
            } => {
                let joins = Joins {
                    name,
                    address,
                    more,
                    is_ordered,
                    since,
                };
                self.await_join(now, settings, seen, joins)
            }
            Phase::Draining {
                name,
                address,
                since,
            } => self.await_drain(now, settings, seen, (name, address, since)),
            Phase::Stopping {
                name, address, why, ..
            } => self.await_stop(now, seen, name, address, why),
            Phase::Cooling { after, since } => {
                let left = self.rest(after, settings).saturating_sub(now.since(since));
                match left.is_zero() {
                    true => self.look(now, settings, seen, None),
                    false => format!("rests for {} s more {}", left.as_secs() + 1, after.words()),
                }
            }
        }
    }

    /// Nothing is under way: is there anything to do?
    fn look(
        &mut self,
        now: Instant,
        settings: &ScaleSettings,
        seen: &Seen,
        past: Option<(Side, Instant)>,
    ) -> String {
        let servers = seen.servers();
        let stands = |scale: &mut Scale, why: String| {
            scale.enter(Phase::Steady);
            why
        };
        if settings.mode == ScaleMode::Off {
            return stands(self, "autoscaling is off".into());
        }
        if servers == 0 {
            return stands(self, "no server of the pool is known".into());
        }
        if settings.mode != ScaleMode::Observe
            && let Some((name, address)) = self.stray(seen)
        {
            let address = Some(address);
            return self.stop(now, name, address, Why::Stray);
        }
        let counted = (servers as i64 + self.would).max(1) as usize;
        let (side, why) = match judge(settings, &seen.measures, servers, counted) {
            Judgement::TooFew(why) => (Side::Upper, why),
            Judgement::TooMany(why) => (Side::Lower, why),
            Judgement::Enough(why) => return stands(self, why),
            Judgement::Unknown(why) => return stands(self, format!("no decision: {why}")),
        };
        let is_at_bound = match side {
            Side::Upper => counted >= settings.max,
            Side::Lower => counted <= settings.min,
        };
        if is_at_bound {
            return stands(
                self,
                format!("{why}, but there are {counted} servers, {}", side.bound()),
            );
        }
        let since = past
            .filter(|(was, _)| *was == side)
            .map_or(now, |(_, since)| since);
        let lasting = now.since(since);
        self.enter(Phase::Past { side, since });
        if lasting < settings.sustain() {
            return format!("{why}, for {} s", lasting.as_secs());
        }
        match (settings.mode, side) {
            (ScaleMode::Observe, _) => self.observe(now, settings, side, counted, &why),
            (ScaleMode::Approve, _) if !seen.is_approved => {
                format!("{why}: waits for approval to {}", side.words())
            }
            _ if seen.is_changing() => {
                format!("{why}: waits until the pool has ended its change")
            }
            (_, Side::Upper) => self.begin_start(settings, seen, &why),
            (_, Side::Lower) => self.begin_drain(now, seen, &why),
        }
    }

    /// What would be done is counted, and nothing else.
    fn observe(
        &mut self,
        now: Instant,
        settings: &ScaleSettings,
        side: Side,
        counted: usize,
        why: &str,
    ) -> String {
        let (by, after) = match side {
            Side::Upper => (
                settings.step.min(settings.max - counted) as i64,
                After::Added,
            ),
            Side::Lower => (-1, After::Removed),
        };
        self.would += by;
        self.enter(Phase::Cooling { after, since: now });
        format!("{why}: would {}, by {}", side.words(), by.unsigned_abs())
    }

    /// Servers are to be added. The first is named.
    fn begin_start(&mut self, settings: &ScaleSettings, seen: &Seen, why: &str) -> String {
        let Some(listed) = &seen.listed else {
            return format!("{why}: waits until the actuator says what it runs");
        };
        self.handle_names(listed);
        let room = settings.max.saturating_sub(seen.servers());
        let more = settings.step.min(room).saturating_sub(1);
        let name = self.start(more);
        format!("{why}: {name} is started")
    }

    /// A leader whose state was lost has named servers, too.
    fn handle_names(&mut self, listed: &BTreeMap<String, String>) {
        let numbers = listed.keys().filter_map(|name| self.number_of(name));
        self.named = numbers.fold(self.named, u64::max);
    }

    /// A server is to be removed: the last that came, of those that the actuator can stop and the pool has.
    fn begin_drain(&mut self, now: Instant, seen: &Seen, why: &str) -> String {
        if let Some(unreached) = seen.unreached_besides("") {
            return format!("{why}: removes nothing while {unreached} is not reached");
        }
        let Some(listed) = &seen.listed else {
            return format!("{why}: waits until the actuator says what it runs");
        };
        let is_ours = |(name, address): &(&String, &String)| {
            self.number_of(name).is_some() && seen.part(address) == Some(Part::Owns)
        };
        let ours = listed.iter().filter(is_ours);
        let Some((name, address)) = ours.max_by_key(|(name, _)| self.number_of(name)) else {
            return format!("{why}, but the actuator runs no server of the pool");
        };
        let (name, address) = (name.clone(), address.clone());
        self.handle_names(listed);
        let why = format!("{why}: {name} leaves");
        self.enter(Phase::Draining {
            name,
            address,
            since: now,
        });
        why
    }

    /// A server that the actuator runs by a name that was given, and that the pool does not have.
    fn stray(&self, seen: &Seen) -> Option<(String, String)> {
        let mut listed = seen.listed.iter().flatten();
        let is_stray = |(name, address): &(&String, &String)| {
            self.has_given(name) && seen.part(address).is_none()
        };
        let stray = listed.find(is_stray);
        stray.map(|(name, address)| (name.clone(), address.clone()))
    }
}

impl Side {
    fn words(self) -> &'static str {
        match self {
            Side::Upper => "add servers",
            Side::Lower => "remove a server",
        }
    }

    fn bound(self) -> &'static str {
        match self {
            Side::Upper => "the most that there may be",
            Side::Lower => "the least that there may be",
        }
    }
}

impl After {
    fn words(self) -> &'static str {
        match self {
            After::Added => "after a server was added",
            After::Removed => "after a server was removed",
            After::Kept => "after a server was to be removed and stayed",
            After::Failed => "after a server was started in vain",
        }
    }
}
