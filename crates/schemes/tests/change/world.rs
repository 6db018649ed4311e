//! A leader, and two who follow it.

use evenkeel_schemes::change::{Change, Followed};
use evenkeel_schemes::stage::{Stage, Step};
use evenkeel_types::BootId;

const FOLLOWERS: usize = 2;
const NAMES: [&str; FOLLOWERS] = ["p0", "p1"];

/// How much is searched.
#[derive(Clone, Copy)]
pub struct Scope {
    /// Commands that are begun.
    pub commands: u8,
    /// Times that the leader is started anew with what it had saved.
    pub leader_crashes: u8,
    /// Times that it is started anew with nothing.
    pub state_losses: u8,
    /// Followers that are killed, and started again under their name.
    pub kills: u8,
    pub withdrawals: u8,
    /// Whether what a follower says may arrive later.
    pub is_late: bool,
    pub fault: Option<Fault>,
}

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    AcknowledgedWithCommandsUnderWay,
    NobodyIsAwaited,
    ToldBeforeSaved,
    FollowersAreNotSaved,
    GoesOnAfterLoss,
}

/// A process that follows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    boot: u64,
    told: Option<Step>,
    /// By which steps the commands were begun that are under way.
    commands: Vec<Step>,
    /// What it has said and is yet to be heard.
    late: Option<Followed>,
}

impl Process {
    fn new(boot: u64) -> Self {
        Process {
            boot,
            told: None,
            commands: Vec::new(),
            late: None,
        }
    }

    fn says(&self, fault: Option<Fault>) -> Followed {
        let told = self.told.map_or(0, |step| step.version);
        let is_settled = self.commands.iter().all(|begun| begun.version >= told)
            || fault == Some(Fault::AcknowledgedWithCommandsUnderWay);
        Followed {
            boot: BootId(self.boot),
            told: self.told,
            // Nothing older is under way than what is one behind: that is what it has waited for before.
            acknowledged: if is_settled { told } else { told - 1 },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    leader: Change,
    saved: Change,
    processes: [Process; FOLLOWERS],
    commands: u8,
    leader_crashes: u8,
    state_losses: u8,
    kills: u8,
    withdrawals: u8,
    /// All steps that were ever told.
    told: Vec<Step>,
}

impl World {
    pub fn new(scope: &Scope) -> Self {
        World {
            leader: Change::default(),
            saved: Change::default(),
            processes: core::array::from_fn(|_| Process::new(1)),
            commands: scope.commands,
            leader_crashes: scope.leader_crashes,
            state_losses: scope.state_losses,
            kills: scope.kills,
            withdrawals: scope.withdrawals,
            told: Vec::new(),
        }
    }

    /// What is wrong, if anything is.
    pub fn wrong(&self) -> Option<String> {
        let means_two = |one: &Step| {
            let mut others = self.told.iter();
            others.any(|other| one.version == other.version && one.stage != other.stage)
        };
        if self.told.iter().any(means_two) {
            return Some("a version means two stages".into());
        }
        let under_way = || self.processes.iter().flat_map(|process| &process.commands);
        let is_apart =
            |one: &Step| under_way().any(|other| one.stage as usize > other.stage as usize + 1);
        under_way()
            .any(is_apart)
            .then(|| "commands are under way that are two stages apart".into())
    }

    /// The leader hears a follower, saves what is new, and tells it the present step.
    fn handle(&mut self, at: usize, said: Followed, is_answered: bool, scope: &Scope) {
        let Ok(is_news) = self.leader.handle(NAMES[at], said) else {
            return;
        };
        self.leader.note_hurried(NAMES[at]);
        if is_news {
            self.save(scope);
        }
        let process = &mut self.processes[at];
        let step = self.leader.step();
        let is_newer = process.told.is_none_or(|told| step.version > told.version);
        if is_answered && is_newer && process.boot == said.boot.0 {
            process.told = Some(step);
            if !self.told.contains(&step) {
                self.told.push(step);
            }
        }
    }

    fn save(&mut self, scope: &Scope) {
        if scope.fault == Some(Fault::ToldBeforeSaved) {
            return;
        }
        self.saved = self.leader.clone();
        if scope.fault == Some(Fault::FollowersAreNotSaved) {
            let names: Vec<String> = self.saved.followers().keys().cloned().collect();
            for name in names {
                self.saved.forget(&name);
            }
        }
    }

    /// A leader is started with what is saved: what is not is heard anew.
    fn restart(&mut self, saved: Change) {
        let json = serde_json::to_vec(&saved).expect("it can be written");
        self.leader = serde_json::from_slice(&json).expect("it can be read");
        self.saved = self.leader.clone();
    }

    /// All that can happen next.
    pub fn successors(&self, scope: &Scope) -> Vec<(World, String)> {
        let mut next = Vec::new();
        let mut push = |what: String, change: &dyn Fn(&mut World)| {
            let mut world = self.clone();
            change(&mut world);
            next.push((world, what));
        };
        for at in 0..FOLLOWERS {
            let process = &self.processes[at];
            let said = process.says(scope.fault);
            push(format!("{at} is heard and told"), &|world| {
                world.handle(at, said, true, scope);
            });
            if scope.is_late {
                if process.late.is_none() {
                    push(format!("{at} speaks"), &|world| {
                        world.processes[at].late = Some(said);
                    });
                } else {
                    push(format!("{at} is heard late"), &|world| {
                        if let Some(said) = world.processes[at].late.take() {
                            world.handle(at, said, false, scope);
                        }
                    });
                }
            }
            if let (Some(step), true) = (process.told, self.commands > 0) {
                push(format!("{at} begins a command, {}", step.stage), &|world| {
                    world.commands -= 1;
                    world.processes[at].commands.push(step);
                });
            }
            for index in 0..process.commands.len() {
                push(format!("{at} ends a command"), &|world| {
                    world.processes[at].commands.remove(index);
                });
            }
            if self.kills > 0 {
                push(format!("{at} is killed and started again"), &|world| {
                    world.kills -= 1;
                    world.processes[at] = Process::new(process.boot + 1);
                });
            }
        }
        let goal = Stage::Closing;
        if !self.leader.is_under_way() && self.leader.step().stage < goal {
            push("the change is to go on".into(), &|world| {
                // An operator knows how many there are.
                if world.leader.set_goal(goal, FOLLOWERS).is_ok() {
                    world.save(scope);
                }
            });
        }
        if self.withdrawals > 0 {
            push("the change is withdrawn".into(), &|world| {
                world.withdrawals -= 1;
                if world.leader.withdraw().is_ok() {
                    world.save(scope);
                }
            });
        }
        push("the next step".into(), &|world| {
            if scope.fault == Some(Fault::NobodyIsAwaited) {
                world.pretend_all_followed();
            }
            if world.leader.advance() {
                world.save(scope);
            }
        });
        if self.leader_crashes > 0 {
            push("the leader is started anew".into(), &|world| {
                world.leader_crashes -= 1;
                world.restart(world.saved.clone());
            });
        }
        if self.state_losses > 0 {
            push("the leader has lost its state".into(), &|world| {
                world.state_losses -= 1;
                world.restart(Change::default());
                if scope.fault == Some(Fault::GoesOnAfterLoss) {
                    let _ = world.leader.set_goal(goal, 0);
                }
            });
        }
        next.retain(|(world, _)| world != self);
        next
    }

    fn pretend_all_followed(&mut self) {
        let step = self.leader.step();
        let followers = self.leader.followers().clone();
        for (name, follower) in followers {
            let said = Followed {
                boot: follower.boot,
                told: Some(step),
                acknowledged: step.version,
            };
            let _ = self.leader.handle(&name, said);
            self.leader.note_hurried(&name);
        }
    }
}
