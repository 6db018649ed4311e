//! Three coordinators and a store in one random story: requests and answers that are late or lost, processes
//! that are stopped for seconds, and times in which the store does nothing. At no moment do two lead, no write
//! comes after a newer leader's key, none builds on another state than the last, and once all is well somebody
//! leads again. `EVENKEEL_SEED=n` replays a story.

use std::collections::BTreeMap;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::*;

const CANDIDATES: usize = 3;

/// Length of the part with faults, and of the one without, in milliseconds.
const FAULTY_MS: u64 = 60_000;
const HEALTHY_MS: u64 = 9_000;

/// What is broken on purpose, to see that the model notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// Leaders believe in a lease for longer than it lives.
    LongBelief,
    /// The store executes writes no matter who has the key.
    NoFence,
    /// The leader goes on after a write of unknown end, from the state that it wanted to write.
    GoesOnUnsaved,
}

/// What the store keeps. Requests are executed one after the other.
#[derive(Debug, Default)]
struct Store {
    revision: u64,
    next_lease: LeaseId,
    /// End of each lease; the store may notice it late.
    leases: BTreeMap<LeaseId, u64>,
    leader: Option<(LeaseId, Leader)>,
    /// Number of the last write.
    version: u64,
    newest_token: u64,
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Do(Action),
    Save { token: u64, base: u64 },
}

/// The end of a question as its asker hears it.
#[derive(Clone, Debug)]
enum Heard {
    Input(Input),
    /// The state as it was read with this token.
    State {
        token: u64,
        version: u64,
    },
    Saved {
        token: u64,
        version: u64,
    },
}

#[derive(Debug)]
enum Event {
    Arrives {
        who: usize,
        asked: u64,
        ask: Ask,
        question: u64,
    },
    Heard {
        who: usize,
        question: u64,
        heard: Heard,
    },
}

#[derive(Debug)]
struct Candidate {
    election: Election,
    paused_until: u64,
    /// Questions whose end is not known; a time-out answers them, too.
    open: BTreeMap<u64, Ask>,
    /// The state's number by which this leader goes on.
    version: u64,
    is_saving: bool,
}

struct Story {
    random: Xoshiro256PlusPlus,
    mutant: Mutant,
    now: u64,
    store: Store,
    candidates: Vec<Candidate>,
    events: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    outage_until: u64,
    /// Moments in which somebody led, writes executed, and former leaders' writes that were refused.
    led: u64,
    writes: u64,
    fenced: u64,
    terms: u64,
}

impl Story {
    fn new(seed: u64, mutant: Mutant) -> Self {
        let candidate = |n: usize| {
            let mut election = Election::new(&format!("c{n}:1"), Instant(0));
            if mutant == Mutant::LongBelief {
                election.belief = (3, 2);
            }
            Candidate {
                election,
                paused_until: 0,
                open: BTreeMap::new(),
                version: 0,
                is_saving: false,
            }
        };
        Story {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            mutant,
            now: 0,
            store: Store::default(),
            candidates: (0..CANDIDATES).map(candidate).collect(),
            events: BTreeMap::new(),
            sequence: 0,
            outage_until: 0,
            led: 0,
            writes: 0,
            fenced: 0,
            terms: 0,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn is_faulty(&self) -> bool {
        self.now < FAULTY_MS
    }

    fn at(&self) -> Instant {
        Instant::from_millis(self.now)
    }

    fn schedule(&mut self, in_ms: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + in_ms, self.sequence), event);
    }

    /// Time on the way: mostly short, sometimes longer than anybody waits. `None` is lost.
    fn delay(&mut self) -> Option<u64> {
        let short = 1 + self.below(30);
        if !self.is_faulty() {
            return Some(short);
        }
        match self.below(100) {
            0..3 => None,
            3..10 => Some(short + self.below(4_000)),
            _ => Some(short),
        }
    }

    /// Runs the story, one step for each millisecond.
    fn run(&mut self) -> Result<(), String> {
        while self.now < FAULTY_MS + HEALTHY_MS {
            self.now += 1;
            self.stir();
            while let Some(entry) = self.events.first_entry()
                && entry.key().0 <= self.now
            {
                let event = entry.remove();
                self.happen(event)?;
            }
            for who in 0..CANDIDATES {
                self.drive(who);
            }
            self.check_leaders()?;
        }
        match self.leaders().len() {
            1 => Ok(()),
            _ => Err("nobody leads although all has been well for long".to_owned()),
        }
    }

    /// Now and then something goes wrong.
    fn stir(&mut self) {
        if !self.is_faulty() {
            self.outage_until = self.outage_until.min(FAULTY_MS);
            return;
        }
        if self.below(2_000) == 0 {
            let who = self.below(CANDIDATES as u64) as usize;
            let until = (self.now + 1 + self.below(5_000)).min(FAULTY_MS);
            self.candidates[who].paused_until = until;
        }
        if self.below(10_000) == 0 {
            self.outage_until = self.now + self.below(6_000);
        }
    }

    fn drive(&mut self, who: usize) {
        let now = self.at();
        if self.candidates[who].paused_until > self.now {
            return;
        }
        self.candidates[who].election.handle_timeout(now);
        while let Some(action) = self.candidates[who].election.poll_action(now) {
            self.ask(who, Ask::Do(action));
        }
        let leads = self.candidates[who].election.leads(now);
        if let Some(token) = leads
            && !self.candidates[who].is_saving
            && self.below(200) == 0
        {
            self.candidates[who].is_saving = true;
            let base = self.candidates[who].version;
            self.ask(who, Ask::Save { token, base });
        }
    }

    fn ask(&mut self, who: usize, ask: Ask) {
        self.sequence += 1;
        let question = self.sequence;
        self.candidates[who].open.insert(question, ask);
        let asked = self.now;
        if let Some(delay) = self.delay() {
            let arrives = Event::Arrives {
                who,
                asked,
                ask,
                question,
            };
            self.schedule(delay, arrives);
        }
        let unknown = match ask {
            Ask::Do(Action::Look) => Input::NotSeen,
            Ask::Do(Action::Grant) => Input::NotGranted,
            Ask::Do(Action::Campaign { .. }) => Input::NotKnown,
            Ask::Do(Action::Load { token }) => Input::NotLoaded { token },
            Ask::Do(Action::Renew { lease, .. }) => Input::NotRenewed { lease },
            Ask::Do(Action::Revoke { .. }) => Input::Revoked,
            Ask::Save { token, .. } => Input::Unsaved { token },
        };
        let heard = Heard::Input(unknown);
        let timeout = ACTION_TIMEOUT.as_millis() as u64;
        self.schedule(
            timeout,
            Event::Heard {
                who,
                question,
                heard,
            },
        );
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Arrives {
                who,
                asked,
                ask,
                question,
            } => {
                if self.now < self.outage_until {
                    return Ok(());
                }
                let heard = self.execute(who, asked, ask)?;
                if let Some(delay) = self.delay() {
                    self.schedule(
                        delay,
                        Event::Heard {
                            who,
                            question,
                            heard,
                        },
                    );
                }
            }
            Event::Heard {
                who,
                question,
                heard,
            } => {
                let paused = self.candidates[who].paused_until.saturating_sub(self.now);
                if paused > 0 {
                    self.schedule(
                        paused,
                        Event::Heard {
                            who,
                            question,
                            heard,
                        },
                    );
                    return Ok(());
                }
                self.handle(who, question, heard);
            }
        }
        Ok(())
    }

    fn handle(&mut self, who: usize, question: u64, heard: Heard) {
        let now = self.at();
        let mutant = self.mutant;
        let candidate = &mut self.candidates[who];
        // The first end of a question counts.
        let Some(ask) = candidate.open.remove(&question) else {
            return;
        };
        if let Ask::Save { .. } = ask {
            candidate.is_saving = false;
        }
        let input = match heard {
            Heard::Input(Input::Unsaved { .. }) if mutant == Mutant::GoesOnUnsaved => {
                candidate.version += 1;
                return;
            }
            Heard::Input(input) => input,
            Heard::State { token, version } => {
                if candidate.election.writes(now) == Some(token) {
                    candidate.version = version;
                    self.terms += 1;
                }
                Input::Loaded { token }
            }
            Heard::Saved { token, version } => {
                if candidate.election.token() == token {
                    candidate.version = version;
                }
                return;
            }
        };
        candidate.election.handle(now, input);
    }

    /// What the store does with a question.
    fn execute(&mut self, who: usize, asked: u64, ask: Ask) -> Result<Heard, String> {
        self.expire();
        let store = &mut self.store;
        let ttl = LEASE;
        let ends = self.now + LEASE.as_millis() as u64;
        let asked = Instant::from_millis(asked);
        let current = |store: &Store| store.leader.as_ref().map(|(_, leader)| leader.clone());
        Ok(Heard::Input(match ask {
            Ask::Do(Action::Look) => Input::Seen(current(store)),
            Ask::Do(Action::Grant) => {
                store.next_lease += 1;
                store.leases.insert(store.next_lease, ends);
                let lease = store.next_lease;
                Input::Granted { lease, ttl, asked }
            }
            Ask::Do(Action::Campaign { lease }) => match current(store) {
                Some(leader) => Input::Beaten(leader),
                None if !store.leases.contains_key(&lease) => Input::LeaseGone { lease },
                None => {
                    store.revision += 1;
                    let token = store.revision;
                    store.newest_token = token;
                    let address = format!("c{who}:1");
                    store.leader = Some((lease, Leader { address, token }));
                    Input::Won { token }
                }
            },
            Ask::Do(Action::Load { token }) => {
                let version = store.version;
                return Ok(Heard::State { token, version });
            }
            Ask::Do(Action::Renew { lease, token }) => match store.leases.get_mut(&lease) {
                Some(_)
                    if token != 0
                        && store.leader.as_ref().is_none_or(|(_, l)| l.token != token) =>
                {
                    Input::LeaseGone { lease }
                }
                Some(end) => {
                    *end = ends;
                    Input::Renewed { lease, ttl, asked }
                }
                None => Input::LeaseGone { lease },
            },
            Ask::Do(Action::Revoke { lease }) => {
                store.leases.remove(&lease);
                if store.leader.as_ref().is_some_and(|(of, _)| *of == lease) {
                    store.leader = None;
                }
                Input::Revoked
            }
            Ask::Save { token, base } => {
                let has_key = current(store).is_some_and(|leader| leader.token == token);
                if !has_key && self.mutant != Mutant::NoFence {
                    self.fenced += 1;
                    return Ok(Heard::Input(Input::Unsaved { token }));
                }
                if token < store.newest_token {
                    return Err(format!("token {token} writes after {}", store.newest_token));
                }
                if base != store.version {
                    return Err(format!("a write on {base} comes after {}", store.version));
                }
                store.revision += 1;
                store.version += 1;
                self.writes += 1;
                let version = store.version;
                return Ok(Heard::Saved { token, version });
            }
        }))
    }

    /// Leases end when they are over or somewhat later, never earlier.
    fn expire(&mut self) {
        let late = self.below(600);
        let now = self.now;
        let store = &mut self.store;
        store.leases.retain(|_, end| *end + late > now);
        if let Some((lease, _)) = &store.leader
            && !store.leases.contains_key(lease)
        {
            store.leader = None;
        }
    }

    fn leaders(&self) -> Vec<usize> {
        let now = self.at();
        let leads = |who: &usize| self.candidates[*who].election.leads(now).is_some();
        (0..CANDIDATES).filter(leads).collect()
    }

    fn check_leaders(&mut self) -> Result<(), String> {
        let leaders = self.leaders();
        self.led += leaders.len() as u64;
        match leaders.len() {
            0 | 1 => Ok(()),
            _ => Err(format!("{leaders:?} lead at {} ms", self.now)),
        }
    }
}

fn seed() -> Option<u64> {
    std::env::var("EVENKEEL_SEED").ok()?.parse().ok()
}

#[test]
fn never_two_lead_and_no_write_is_lost() {
    let seeds: Vec<u64> = seed().map_or_else(|| (0..150).collect(), |seed| vec![seed]);
    println!("seeds {seeds:?}");
    let (mut led, mut writes, mut fenced, mut terms) = (0, 0, 0, 0);
    for &seed in &seeds {
        let mut story = Story::new(seed, Mutant::None);
        if let Err(what) = story.run() {
            panic!("EVENKEEL_SEED={seed}: {what}");
        }
        led += story.led;
        writes += story.writes;
        fenced += story.fenced;
        terms += story.terms;
    }
    println!("{led} ms led in {terms} terms, {writes} writes, {fenced} of former leaders refused");
    if seeds.len() > 1 {
        let total = seeds.len() as u64 * (FAULTY_MS + HEALTHY_MS);
        assert!(
            led > total / 2,
            "mostly somebody leads: {led} of {total} ms"
        );
        assert!(
            terms > 500 && writes > 5_000 && fenced > 10,
            "{terms} {writes} {fenced}"
        );
    }
}

#[test]
fn what_is_broken_on_purpose_is_noticed() {
    for (mutant, expected) in [
        (Mutant::LongBelief, "lead at"),
        (Mutant::NoFence, "writes after"),
        (Mutant::GoesOnUnsaved, "comes after"),
    ] {
        let found = (0..150).find_map(|seed| {
            let what = Story::new(seed, mutant).run().err()?;
            println!("{mutant:?}, seed {seed}: {what}");
            Some(what)
        });
        let what = found.unwrap_or_else(|| panic!("{mutant:?} goes unnoticed"));
        assert!(what.contains(expected), "{mutant:?}: {what}");
    }
}
