//! Leaders, the place where they save, an actuator and a ring.
//!
//! A tick is half a minute; acts take no time. The leader by the newest token can save, and orders of a ring are saved with the rest.
//! What an actuator is asked can be done, fail, be done without an answer, or be done much later.

use evenkeel_coordinator_core::scale::{
    Act, After, Band, Measures, Outcome, Part, Phase, PoolServer, Scale, ScaleMode, ScaleSettings,
    Seen, decide, limits,
};
use evenkeel_types::Instant;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const TICK_MS: u64 = 30_000;

/// A server that an operator has started.
const BY_HAND: &str = "by-hand";

/// How much is searched.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    pub ticks: u8,
    /// Times that a leader is killed.
    pub kills: u8,
    /// Leaders that begin while another goes on.
    pub seconds: u8,
    /// Times that an actuator, a server or the ring fails.
    pub failures: u8,
    /// Acts that are done after their failure was said.
    pub late: u8,
    /// Answers that come twice.
    pub repeats: u8,
    /// Servers that end by themselves.
    pub deaths: u8,
    pub fault: Option<Fault>,
}

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    ActsBeforeItSaves,
    NameIsNotSaved,
    StopsBeforeItIsDrained,
    CooldownIsForgotten,
    CountsWhatTheActuatorKnows,
}

type Ring = BTreeMap<String, Part>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Leader {
    token: u8,
    scale: Scale,
    ring: Ring,
    /// What the actuator runs, as it said at the last tick.
    listed: BTreeSet<String>,
    /// What it has asked the actuator, or a new server.
    act: Option<Act>,
    outcome: Option<Outcome>,
    /// The last outcome that was used.
    former: Option<Outcome>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    tick: u8,
    saved: (Scale, Ring),
    /// The newest leader's.
    token: u8,
    /// The older one first.
    leaders: Vec<Leader>,
    /// Names that the actuator runs. A server's address is its name.
    running: BTreeSet<String>,
    /// What the actuator does later.
    late: Option<Act>,
    unreached: Option<String>,
    /// No change may begin before.
    rests_until: u8,
    wrong: Option<String>,
    kills: u8,
    seconds: u8,
    failures: u8,
    lates: u8,
    repeats: u8,
    deaths: u8,
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
enum Load {
    High,
    Fine,
    Low,
    Unknown,
}

fn settings() -> ScaleSettings {
    ScaleSettings {
        mode: ScaleMode::Automatic,
        requests_per_server: Some(Band {
            lower: 20.0,
            upper: 60.0,
        }),
        min: 1,
        max: 3,
        sustain_ms: TICK_MS,
        cooldown_added_ms: 2 * TICK_MS,
        cooldown_removed_ms: 3 * TICK_MS,
        ..ScaleSettings::default()
    }
}

/// A state in which things stand that the machine would not let stand there.
fn rewritten(scale: &Scale, rewrite: impl FnOnce(&mut Value)) -> Scale {
    let mut json = serde_json::to_value(scale).expect("it can be written");
    rewrite(&mut json);
    serde_json::from_value(json).expect("it can be read")
}

impl Leader {
    fn new(world: &World, fault: Option<Fault>) -> Leader {
        let (scale, ring) = world.saved.clone();
        let written = serde_json::to_vec(&scale).expect("it can be written");
        let read: Scale = serde_json::from_slice(&written).expect("it can be read");
        assert_eq!(read.contradiction(), None);
        let mut scale = read.restored(world.now());
        if fault == Some(Fault::NameIsNotSaved) && matches!(scale.phase(), Phase::Starting { .. }) {
            let other = scale.named() + 1;
            scale = rewritten(&scale, |json| {
                json["named"] = other.into();
                json["phase"]["name"] = format!("m-{other}").into();
            });
        }
        Leader {
            token: world.token,
            scale,
            ring,
            listed: world.running.clone(),
            act: None,
            outcome: None,
            former: None,
        }
    }

    fn seen(&self, world: &World, load: Load, fault: Option<Fault>) -> Seen {
        let value = match load {
            Load::High => Some(100.0),
            Load::Fine => Some(40.0),
            Load::Low => Some(1.0),
            Load::Unknown => None,
        };
        let mut ring = self.ring.clone();
        if fault == Some(Fault::StopsBeforeItIsDrained) {
            ring.retain(|_, part| *part != Part::Leaves);
        }
        if fault == Some(Fault::CountsWhatTheActuatorKnows) {
            let only_listed = self
                .listed
                .iter()
                .filter(|name| !self.ring.contains_key(*name));
            ring.extend(only_listed.map(|name| (name.clone(), Part::Owns)));
        }
        let server = |(at, part): (String, Part)| {
            let is_unreached = world.unreached.as_ref() == Some(&at);
            (at, PoolServer { part, is_unreached })
        };
        let listed = self.listed.iter().map(|name| (name.clone(), name.clone()));
        Seen {
            measures: Measures {
                requests_per_server: value,
                ..Measures::default()
            },
            pool: ring.into_iter().map(server).collect(),
            listed: Some(listed.collect()),
            outcome: self.outcome.clone(),
            is_approved: false,
        }
    }
}

impl World {
    /// Two servers own the ring. One of them is the actuator's.
    pub fn new(scope: &Scope) -> World {
        let ring = [BY_HAND, "m-1"].map(|name| (name.to_owned(), Part::Owns));
        let ring = Ring::from(ring);
        let scale = rewritten(&Scale::new("m"), |json| json["named"] = 1.into());
        let mut world = World {
            tick: 0,
            saved: (scale, ring),
            token: 0,
            leaders: Vec::new(),
            running: BTreeSet::from(["m-1".to_owned()]),
            late: None,
            unreached: None,
            rests_until: 0,
            wrong: None,
            kills: scope.kills,
            seconds: scope.seconds,
            failures: scope.failures,
            lates: scope.late,
            repeats: scope.repeats,
            deaths: scope.deaths,
        };
        world.lead(scope);
        world
    }

    /// What is wrong, if anything is.
    pub fn wrong(&self, scope: &Scope) -> Option<String> {
        self.wrong.clone().or_else(|| self.stays_wrong(scope))
    }

    fn now(&self) -> Instant {
        Instant::from_millis(u64::from(self.tick) * TICK_MS)
    }

    fn lead(&mut self, scope: &Scope) {
        self.token += 1;
        let leader = Leader::new(self, scope.fault);
        self.leaders.push(leader);
    }

    fn passes(&mut self) {
        self.tick += 1;
        for leader in &mut self.leaders {
            leader.listed = self.running.clone();
        }
    }

    /// A leader decides, saves, and acts. One that cannot save leads no more.
    fn decide(&mut self, at: usize, load: Load, scope: &Scope) {
        let (mut act, is_to_save) = self.weigh(at, load, scope);
        if is_to_save && !self.save(at) {
            return;
        }
        let leader = &mut self.leaders[at];
        let order = match &act {
            Some(Act::Join { address }) => Some((address.clone(), Part::Comes)),
            Some(Act::Drain { address }) => Some((address.clone(), Part::Leaves)),
            _ => None,
        };
        if let Some((address, part)) = order {
            act = None;
            leader.ring.insert(address, part);
            self.save(at);
        }
        if let (Some(act), Some(leader)) = (act, self.leaders.get_mut(at)) {
            leader.act.get_or_insert(act);
        }
    }

    fn weigh(&mut self, at: usize, load: Load, scope: &Scope) -> (Option<Act>, bool) {
        let leader = &self.leaders[at];
        let seen = leader.seen(self, load, scope.fault);
        let decided = decide(self.now(), &leader.scale, &settings(), &seen);
        let leader = &mut self.leaders[at];
        leader.former = leader.outcome.take().or(leader.former.take());
        leader.scale = decided.scale;
        let is_cooling = matches!(leader.scale.phase(), Phase::Cooling { .. });
        if scope.fault == Some(Fault::CooldownIsForgotten) && is_cooling {
            let steady = serde_json::json!({"is": "steady"});
            leader.scale = rewritten(&leader.scale, |json| json["phase"] = steady);
        }
        (decided.act, decided.is_to_save)
    }

    /// False if another one leads, and this one is gone.
    fn save(&mut self, at: usize) -> bool {
        let leader = &self.leaders[at];
        if leader.token != self.token {
            self.leaders.remove(at);
            return false;
        }
        let next = (leader.scale.clone(), leader.ring.clone());
        self.judge_saved(&next.0);
        self.saved = next;
        true
    }

    /// Changes are apart.
    fn judge_saved(&mut self, next: &Scale) {
        let (before, after) = (self.saved.0.phase(), next.phase());
        if before.name() == after.name() {
            return;
        }
        match after {
            Phase::Starting { .. } | Phase::Draining { .. } => {
                if self.tick < self.rests_until {
                    self.wrong =
                        Some("a change begins before the cooldown of the last is over".into());
                }
                self.rests_until = u8::MAX;
            }
            Phase::Cooling { after, .. } => {
                let rest = match after {
                    After::Removed | After::Kept => 3,
                    After::Added | After::Failed => 2,
                };
                self.rests_until = self.tick + rest;
            }
            _ => {}
        }
        let keep = |part: &&Part| **part == Part::Owns;
        let owners = self.saved.1.values().filter(keep).count();
        if matches!(after, Phase::Draining { .. }) && owners <= settings().min {
            self.wrong = Some("a server leaves of which there are too few".into());
        }
    }

    /// The actuator does something, be it asked now or long ago.
    fn execute(&mut self, act: &Act) {
        match act {
            Act::Start { name } => {
                let number = name.strip_prefix("m-").and_then(|it| it.parse().ok());
                if number.is_none_or(|it: u64| it > self.saved.0.named()) {
                    self.wrong = Some(format!("{name} is started, which nobody has saved"));
                }
                self.running.insert(name.clone());
            }
            Act::Stop { name } => {
                if self.saved.1.contains_key(name) {
                    self.wrong = Some(format!("{name} is stopped, and owns a slice"));
                }
                self.running.remove(name);
            }
            _ => {}
        }
    }

    /// What is asked is done, and answered.
    fn answer(&mut self, at: usize, scope: &Scope) {
        let Some(act) = self.leaders[at].act.take() else {
            return;
        };
        self.execute(&act);
        let leader = &mut self.leaders[at];
        leader.outcome = Some(match &act {
            Act::Start { name } => Outcome::Started {
                name: name.clone(),
                address: name.clone(),
            },
            Act::Try { address } if !self.running.contains(address) => fails(&act),
            _ => Outcome::Done(act.clone()),
        });
        if matches!(
            (&act, &leader.outcome),
            (Act::Try { .. }, Some(Outcome::Done(_)))
        ) {
            for _ in 1..limits::TRIALS {
                let token = self.leaders[at].token;
                self.decide(at, Load::Fine, scope);
                // It may have had to save, and lead no more.
                let Some(leader) = self.leaders.get_mut(at).filter(|it| it.token == token) else {
                    return;
                };
                leader.act = None;
                leader.outcome = Some(Outcome::Done(act.clone()));
            }
        }
    }

    /// The ring goes on, as its newest leader decides.
    fn change_ring(&mut self, at: usize, change: impl FnOnce(&mut Ring)) {
        change(&mut self.leaders[at].ring);
        self.save(at);
    }

    /// All that can happen next.
    pub fn successors(&self, scope: &Scope) -> Vec<(World, String)> {
        let mut next = Vec::new();
        let mut push = |what: String, change: &dyn Fn(&mut World)| {
            let mut world = self.clone();
            change(&mut world);
            next.push((world, what));
        };
        for at in 0..self.leaders.len() {
            let leader = &self.leaders[at];
            let token = leader.token;
            if self.tick < scope.ticks {
                for load in [Load::High, Load::Fine, Load::Low, Load::Unknown] {
                    push(
                        format!("leader {token} decides at load {load:?}"),
                        &|world| {
                            world.passes();
                            world.decide(at, load, scope);
                        },
                    );
                }
            }
            if leader.outcome.is_some() {
                push(format!("leader {token} decides at once"), &|world| {
                    world.decide(at, Load::Fine, scope);
                });
            }
            if scope.fault == Some(Fault::ActsBeforeItSaves) && self.tick < scope.ticks {
                push(
                    format!("leader {token} acts, and ends before it saves"),
                    &|world| {
                        world.passes();
                        let (act, _) = world.weigh(at, Load::High, scope);
                        world.leaders.remove(at);
                        if let Some(act) = act {
                            world.execute(&act);
                        }
                    },
                );
            }
            if let Some(act) = &leader.act {
                push(format!("{act:?} of leader {token} is done"), &|world| {
                    world.answer(at, scope);
                });
                if self.failures > 0 {
                    push(format!("{act:?} of leader {token} fails"), &|world| {
                        world.failures -= 1;
                        world.leaders[at].act = None;
                        world.leaders[at].outcome = Some(fails(act));
                    });
                    push(
                        format!("{act:?} of leader {token} is done without an answer"),
                        &|world| {
                            world.failures -= 1;
                            world.leaders[at].act = None;
                            world.leaders[at].outcome = Some(fails(act));
                            world.execute(act);
                        },
                    );
                }
                if self.lates > 0 && self.late.is_none() {
                    push(
                        format!("{act:?} of leader {token} fails, and is done later"),
                        &|world| {
                            world.lates -= 1;
                            world.leaders[at].act = None;
                            world.leaders[at].outcome = Some(fails(act));
                            world.late = Some(act.clone());
                        },
                    );
                }
            }
            if let (Some(former), None, true) = (&leader.former, &leader.outcome, self.repeats > 0)
            {
                push(format!("leader {token} hears {former:?} again"), &|world| {
                    world.repeats -= 1;
                    world.leaders[at].outcome = Some(former.clone());
                });
            }
            if self.kills > 0 {
                push(format!("leader {token} is killed"), &|world| {
                    world.kills -= 1;
                    let act = world.leaders.remove(at).act;
                    // What it had begun goes on.
                    world.late = world.late.take().or(act);
                });
            }
            if token == self.token {
                self.push_ring(at, &mut push);
            }
        }
        if self.leaders.is_empty() {
            push("another leader begins".into(), &|world| world.lead(scope));
        } else if self.leaders.len() == 1 && self.seconds > 0 {
            push("a second leader begins".into(), &|world| {
                world.seconds -= 1;
                world.lead(scope);
            });
        }
        if let Some(late) = &self.late {
            push(format!("{late:?} is done at last"), &|world| {
                world.late = None;
                world.execute(late);
            });
        }
        if self.deaths > 0 && self.unreached.is_none() {
            // A ring keeps its last server, be it dead.
            let owners = self.saved.1.values().filter(|part| **part == Part::Owns);
            let is_last = owners.count() < 2;
            let by_hand = BY_HAND.to_owned();
            let owns = |name: &&String| self.saved.1.contains_key(*name);
            let names = self.running.iter().chain([&by_hand]);
            for name in names.filter(|name| !(is_last && owns(name))) {
                push(format!("{name} ends by itself"), &|world| {
                    world.deaths -= 1;
                    world.running.remove(name);
                    world.unreached = world.saved.1.contains_key(name).then(|| name.clone());
                });
            }
        }
        next.retain(|(world, _)| world != self);
        next
    }

    fn push_ring(&self, at: usize, push: &mut impl FnMut(String, &dyn Fn(&mut World))) {
        for (name, part) in &self.leaders[at].ring {
            match part {
                Part::Owns => {}
                Part::Leaves => push(format!("{name} has left the ring"), &|world| {
                    world.change_ring(at, |ring| {
                        ring.remove(name);
                    });
                }),
                Part::Comes if self.running.contains(name) => {
                    push(format!("{name} has come into the ring"), &|world| {
                        world.change_ring(at, |ring| {
                            ring.insert(name.clone(), Part::Owns);
                        });
                    });
                }
                Part::Comes => push(format!("{name} is not reached, and taken back"), &|world| {
                    world.unreached = None;
                    world.change_ring(at, |ring| {
                        ring.remove(name);
                    });
                }),
            }
        }
        if let Some(name) = &self.unreached {
            push(format!("the ring loses {name}"), &|world| {
                world.unreached = None;
                world.change_ring(at, |ring| {
                    ring.remove(name);
                });
            });
        }
    }

    /// When nothing goes wrong any more, all comes to rest, and what runs is what the ring has.
    fn stays_wrong(&self, scope: &Scope) -> Option<String> {
        let mut world = self.clone();
        if let Some(late) = world.late.take() {
            world.execute(&late);
        }
        world.leaders.retain(|leader| leader.token == world.token);
        if world.leaders.is_empty() {
            world.lead(scope);
        }
        for _ in 0..60 {
            world.passes();
            // Thrice is as often as acts follow each other: a decision, its act, and what comes of it.
            for _ in 0..3 {
                world.decide(0, Load::Fine, scope);
                world.answer(0, scope);
                world.finish_ring();
            }
            if world.wrong.is_some() {
                return world.wrong;
            }
            if world.is_well() {
                return None;
            }
        }
        let phase = world.saved.0.phase();
        let (ring, running) = (&world.saved.1, &world.running);
        Some(format!("it stays wrong: {phase:?}, {ring:?}, {running:?}"))
    }

    fn finish_ring(&mut self) {
        let lost = self.unreached.take();
        let running = self.running.clone();
        self.change_ring(0, |ring| {
            ring.retain(|name, part| {
                let runs = name == BY_HAND || running.contains(name);
                *part != Part::Leaves && lost.as_ref() != Some(name) && runs
            });
            ring.values_mut().for_each(|part| *part = Part::Owns);
        });
    }

    fn is_well(&self) -> bool {
        let leader = &self.leaders[0];
        let rests = matches!(leader.scale.phase(), Phase::Steady);
        let mut owners = leader.ring.keys().filter(|name| *name != BY_HAND);
        rests
            && owners.all(|name| self.running.contains(name))
            && self
                .running
                .iter()
                .all(|name| leader.ring.contains_key(name))
    }
}

fn fails(act: &Act) -> Outcome {
    Outcome::Failed(act.clone(), "no".into())
}
