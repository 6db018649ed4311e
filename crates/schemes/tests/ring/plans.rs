//! A slice that moves, plan after plan: who leads, who follows, and by what each of them works.

use crate::commands::{self, Event, Fault, Key, State};
use crate::register::Kind;
use crate::servers::Place;
use crate::world;
use evenkeel_schemes::change::{Change, Followed};
use evenkeel_schemes::stage::{Stage, Step};
use evenkeel_types::BootId;
use std::rc::Rc;

const NAMES: [&str; 3] = ["p0", "p1", "p2"];

/// How much is searched.
#[derive(Clone, Copy)]
pub struct Scope {
    pub commands: commands::Scope,
    pub proxies: usize,
    /// The servers that have the slice one after the other. The first has it without a plan.
    pub route: &'static [u8],
    pub withdrawals: u8,
    /// Times that the slice is taken from a server that is lost, at any time, and given to the last one.
    pub losses: u8,
}

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum Happening {
    Begins((Kind, Option<u64>), State),
    /// A proxy that works by this is told the newest.
    Told(State),
    Published,
    Withdrawn,
    Lost,
    Key(Event),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    key: Key,
    leader: Rc<Change>,
    newest: State,
    /// By what the proxies work, in order. Which of them has begun a command makes no difference: the next step begins when the commands
    /// of all have ended.
    proxies: Vec<State>,
    /// Of the servers of the route that the slice has left, or is to leave by a plan that is under way.
    left: usize,
    /// The last that was given.
    generation: u8,
    withdrawals: u8,
    losses: u8,
}

impl World {
    pub fn new(scope: &Scope) -> Self {
        let first = Place {
            server: scope.route[0],
            generation: 0,
        };
        let newest = State {
            version: Step::FIRST.version,
            stage: Some(Step::FIRST.stage),
            former: first,
            here: first,
        };
        let mut world = World {
            key: Key::new(&scope.commands, first),
            leader: Rc::default(),
            newest,
            proxies: vec![newest; scope.proxies],
            left: 0,
            generation: 0,
            withdrawals: scope.withdrawals,
            losses: scope.losses,
        };
        let mut leader = world.heard(false);
        if scope.route.len() > 1 {
            world.plan(&mut leader, scope);
        }
        world.proxies = vec![world.newest; scope.proxies];
        world.leader = Rc::new(leader);
        world
    }

    /// Another plan, for which the leader has begun a change: the slice is to go on to the next server of the route.
    fn plan(&mut self, leader: &mut Change, scope: &Scope) {
        let goal = leader.set_goal(Stage::Done, scope.proxies);
        goal.expect("all follow, and it has just begun");
        let former = self.present();
        let here = self.next_place(scope.route[self.left + 1], scope);
        self.left += 1;
        self.newest = State {
            version: leader.step().version,
            stage: Some(leader.step().stage),
            former,
            here,
        };
    }

    fn next_place(&mut self, server: u8, scope: &Scope) -> Place {
        self.generation = match scope.commands.fault {
            Some(Fault::GenerationIsReused) => 1,
            Some(Fault::NamesHaveNoGeneration) => 0,
            _ => self.generation + 1,
        };
        Place {
            server,
            generation: self.generation,
        }
    }

    /// Where the slice is when no change is under way.
    fn present(&self) -> Place {
        match self.newest.stage {
            Some(Stage::Done) => self.newest.here,
            _ => self.newest.former,
        }
    }

    /// Whether all work by the newest state. What they began by an earlier one may be under way.
    fn all_know(&self) -> bool {
        self.proxies.iter().all(|proxy| *proxy == self.newest)
    }

    /// Whether nothing is under way that was begun by an earlier state.
    fn is_settled(&self, state: State) -> bool {
        let mut running = self.key.running();
        running.all(|running| running.state.version >= state.version)
    }

    /// The leader, when it has heard all proxies.
    fn heard(&self, is_pretended: bool) -> Change {
        let mut leader = (*self.leader).clone();
        for (name, proxy) in NAMES.iter().zip(&self.proxies) {
            let told = match is_pretended {
                true => leader.step(),
                false => Step {
                    version: proxy.version,
                    stage: proxy.stage.expect("no server was lost yet"),
                },
            };
            let is_settled = is_pretended || self.is_settled(*proxy);
            let said = Followed {
                boot: BootId(1),
                told: Some(told),
                // What is one behind was waited for before.
                acknowledged: told.version - u64::from(!is_settled),
            };
            leader.handle(name, said).expect("it makes sense");
            leader.note_hurried(name);
        }
        leader
    }

    /// The leader publishes what is next, if it may.
    fn publish(&mut self, scope: &Scope) -> Option<()> {
        if self.newest.stage.is_none() {
            // The lost server was the last that had the slice: a new one has it, without a plan.
            let server = *scope.route.last()?;
            let here = self.next_place(server, scope);
            self.newest = State {
                version: self.newest.version + 1,
                stage: Some(Stage::Former),
                former: here,
                here,
            };
            return Some(());
        }
        let fault = scope.commands.fault;
        let mut leader = self.heard(fault == Some(Fault::CommandsAreNotAwaited));
        if leader.is_under_way() {
            // Placeholders live for two seconds, and the last stage begins later.
            let has_mark = self.key.servers.has_mark(self.newest.here);
            if self.newest.is_at(Stage::Closing) && has_mark {
                return None;
            }
            leader.advance().then_some(())?;
            self.newest.version = leader.step().version;
            self.newest.stage = Some(leader.step().stage);
        } else {
            if fault == Some(Fault::PlanBeginsUnawaited) {
                leader = self.heard(true);
            }
            let is_there = self.newest.is_at(Stage::Done);
            let is_last = is_there || self.left == 0;
            if is_last && self.left + 1 == scope.route.len() {
                return None;
            }
            leader.begin_next().then_some(())?;
            // A plan that was withdrawn is tried again, under another generation.
            self.left -= usize::from(!is_there);
            self.plan(&mut leader, scope);
        }
        self.leader = Rc::new(leader);
        Some(())
    }

    fn withdraw(&mut self) {
        let leader = Rc::make_mut(&mut self.leader);
        leader.withdraw().expect("it is not too late");
        self.newest.version = leader.step().version;
        self.newest.stage = Some(leader.step().stage);
    }

    /// The server that has the slice is lost: nobody is asked. Who knows that acknowledges it at once.
    fn lose(&mut self, scope: &Scope) {
        self.newest.version += 1;
        self.newest.stage = None;
        if scope.commands.fault == Some(Fault::NobodyIsLeftOut) {
            self.publish(scope);
        }
    }

    /// Whether something can be published.
    fn may_publish(&self, scope: &Scope) -> bool {
        match self.newest.stage {
            None => self.all_know(),
            Some(_) if self.losses < scope.losses => false,
            Some(_) => self.clone().publish(scope).is_some(),
        }
    }
}

impl world::World for World {
    type Scope = Scope;
    type Event = Happening;

    fn events(&self, scope: &Scope) -> Vec<Happening> {
        let mut next = Vec::new();
        let mut proxies = self.proxies.clone();
        proxies.dedup();
        for &state in &proxies {
            if state != self.newest {
                next.push(Happening::Told(state));
            }
            // In `quiesced` commands wait. Where nobody is asked a read is a miss, and a write is refused: neither has an effect.
            if state.stage.is_some_and(|stage| stage != Stage::Quiesced) {
                let beginners = self.key.beginners(&scope.commands).into_iter();
                next.extend(beginners.map(|asked| Happening::Begins(asked, state)));
            }
        }
        if self.may_publish(scope) {
            next.push(Happening::Published);
        }
        if self.withdrawals > 0 && self.newest.is_at(Stage::Quiesced) {
            next.push(Happening::Withdrawn);
        }
        if self.losses > 0 {
            next.push(Happening::Lost);
        }
        next.extend(self.key.events().into_iter().map(Happening::Key));
        next
    }

    fn happen(&mut self, what: Happening, scope: &Scope) -> bool {
        match what {
            Happening::Begins(asked, state) => self.key.begin(asked, state, &scope.commands),
            Happening::Told(state) => {
                let at = self.proxies.iter().position(|proxy| *proxy == state);
                self.proxies[at.expect("it works by this")] = self.newest;
                self.proxies.sort_unstable();
            }
            Happening::Published => {
                self.publish(scope).expect("it may be published");
            }
            Happening::Withdrawn => {
                self.withdrawals -= 1;
                self.withdraw();
            }
            Happening::Lost => {
                self.losses -= 1;
                self.lose(scope);
            }
            Happening::Key(event) => return self.key.happen(event, &scope.commands),
        }
        true
    }

    fn describe(&self, what: Happening) -> String {
        match what {
            Happening::Begins((kind, unique), state) => {
                let unique = unique.map_or(String::new(), |unique| format!(" with {unique}"));
                format!("begins: {kind:?}{unique}, {}", of(state))
            }
            Happening::Told(state) => format!("who is {} is told {}", of(state), of(self.newest)),
            Happening::Published => format!("published: what is behind {}", of(self.newest)),
            Happening::Withdrawn => "withdrawn".to_owned(),
            Happening::Lost => "the server is lost".to_owned(),
            Happening::Key(event) => self.key.describe(event),
        }
    }
}

/// A state, in words.
fn of(state: State) -> String {
    let place = |place: Place| format!("{}.{}", place.server, place.generation);
    let stage = state.stage.map_or("nobody", Stage::as_str);
    let (former, here) = (place(state.former), place(state.here));
    format!("v{} {stage} {former} to {here}", state.version)
}

/// How likely something is to happen next in a random search. Rare things are rare, else all of them happened at the beginning.
pub fn weight(what: &Happening) -> u64 {
    match what {
        Happening::Key(Event::Step(_)) => 40,
        Happening::Told(_) | Happening::Published => 16,
        Happening::Key(Event::Late(_)) => 6,
        Happening::Key(Event::Evict(_)) => 2,
        Happening::Key(Event::GiveUp(_) | Event::Restart(_)) => 2,
        Happening::Begins(..) | Happening::Withdrawn | Happening::Lost => 1,
    }
}
