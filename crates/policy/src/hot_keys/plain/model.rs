//! A small deployment in one thread, made of nothing but [`PlainHotKeys`], [`ClientLeases`] and maps of
//! values, on a fake clock, with every answer checked.
//!
//! Three plain servers; two workers with one connection to each of them, which keeps order and nothing
//! else; two applications at each worker, which pipeline reads, writes and deletes of two keys; and a
//! writer that uses no proxy, and recaches. Requests and answers take any time. Items are evicted, connections break
//! (what was under way may still be carried out later), replicas come back from the dead.
//!
//! What is checked whenever an application is shown an answer: it is not older than one that this
//! connection was shown before or wrote itself, and it was the truth at the home not more than a lease
//! before the read was sent. Reads show the value, or the CAS unique with it, or besides that whether
//! somebody recaches the item; all that they show must have been true together.

use super::tests::placement;
use super::*;
use crate::hot_keys::client::{self, Answer, ClientLeases, ReadTicket, Verdict};
use crate::hot_keys::plain::reads::ReadRoute;
use crate::random::{SplitMix64, test_seed};
use evenkeel_types::Epoch;
use std::collections::{BTreeMap, VecDeque};

const SERVERS: usize = 3;
const WORKERS: usize = 2;
const CLIENTS: usize = 4;
const KEYS: [&[u8]; 2] = [b"k0", b"k1"];
const PIPELINE: usize = 5;
const STEPS: u32 = 4000;
const RUNS: u64 = 300;
const MUTANT_RUNS: u64 = 600;

/// What a server holds under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    value: u32,
    cas: u64,
    /// Whether somebody won the right to recache it, which changes no unique.
    recached: bool,
}

impl Item {
    /// Whether a read that shows what it `wants` cannot tell this from what it has found.
    fn looks_like(&self, found: &Item, wants: Wants) -> bool {
        self.value == found.value
            && (!wants.cas || self.cas == found.cas)
            && (!wants.recaching || self.recached == found.recached)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Worker(Mutant),
    Client(client::Mutant),
    /// Writes are not told to the worker's hot keys.
    WritesUntold,
    /// Replicas go by the key alone, not by their content.
    UnnamedReplicas,
}

#[derive(Clone, Debug)]
enum Ask {
    Read { name: Vec<u8>, home: bool },
    Write { name: Vec<u8>, value: Option<u32> },
    Fill { name: Vec<u8>, value: u32 },
}

#[derive(Clone, Debug)]
struct Sent {
    ask: Ask,
    client: usize,
    slot: u64,
}

#[derive(Debug, Default)]
struct Link {
    asked: VecDeque<Sent>,
    /// Requests and what they found, or the place in the history that they made.
    answered: VecDeque<(Sent, Option<Item>, usize)>,
}

#[derive(Debug)]
enum State {
    Waiting,
    Read { answer: Answer, item: Option<Item> },
    Written { place: Option<usize> },
}

#[derive(Debug)]
struct Slot {
    key: usize,
    sent_at: Instant,
    wants: Wants,
    ticket: Option<ReadTicket>,
    state: State,
}

#[derive(Debug)]
struct Client {
    slots: VecDeque<Slot>,
    first: u64,
    /// By key: the newest place in the history that was shown or written.
    newest: [usize; KEYS.len()],
}

/// Homes do not change by themselves; what they held, with the time at which they began to.
type History = Vec<(Instant, Option<Item>)>;

struct World {
    random: SplitMix64,
    now: Instant,
    epoch: Epoch,
    placement: Placement,
    servers: Vec<BTreeMap<Vec<u8>, Item>>,
    histories: [History; KEYS.len()],
    workers: Vec<PlainHotKeys>,
    /// Of each worker.
    leases: Vec<ClientLeases>,
    links: Vec<Vec<Link>>,
    clients: Vec<Client>,
    /// Writes whose connection broke and that are carried out all the same.
    ghosts: Vec<(usize, Ask)>,
    next_value: u32,
    next_cas: u64,
    fault: Option<Fault>,
    copy_reads: u64,
    asked_again: u64,
}

fn bytes(value: u32) -> [u8; 4] {
    value.to_le_bytes()
}

impl World {
    fn new(seed: u64, fault: Option<Fault>) -> Self {
        let mut random = SplitMix64::new(seed);
        let config = PlainConfig {
            mode: PlainMode::On,
            sampling: Some(1.0),
            write_weight: 1.0,
            cold_share: 0.04,
            ..PlainConfig::default()
        };
        let workers = (0..WORKERS as u64).map(|i| {
            let mut worker = PlainHotKeys::new(config.clone(), seed ^ i, Instant(0)).unwrap();
            if let Some(Fault::Worker(mutant)) = fault {
                worker.mutant = Some(mutant);
            }
            worker
        });
        let leases = (0..WORKERS).map(|_| {
            let mut leases = ClientLeases::new(random.next_u64());
            if let Some(Fault::Client(mutant)) = fault {
                leases.mutants.push(mutant);
            }
            leases
        });
        let leases = leases.collect();
        let clients = (0..CLIENTS).map(|_| Client {
            slots: VecDeque::new(),
            first: 0,
            newest: [0; KEYS.len()],
        });
        World {
            now: Instant::from_millis(1),
            epoch: Epoch(1),
            placement: placement(SERVERS as u16),
            servers: vec![BTreeMap::new(); SERVERS],
            histories: [const { Vec::new() }; KEYS.len()]
                .map(|_: History| vec![(Instant(0), None)]),
            workers: workers.collect(),
            leases,
            links: (0..WORKERS)
                .map(|_| (0..SERVERS).map(|_| Link::default()).collect())
                .collect(),
            clients: clients.collect(),
            ghosts: Vec::new(),
            next_value: 1,
            next_cas: 0,
            fault,
            copy_reads: 0,
            asked_again: 0,
            random,
        }
    }

    fn run(mut self) -> Result<(u64, u64), String> {
        for _ in 0..STEPS {
            self.step()?;
        }
        Ok((self.copy_reads, self.asked_again))
    }

    fn step(&mut self) -> Result<(), String> {
        // Long pauses now and then, so that leases end and keys cool.
        let ms = [0, 0, 0, 1, 1, 3][self.random.below(6) as usize];
        self.now = self.now + Duration::from_millis(ms);
        if self.random.below(300) == 0 {
            self.now = self.now + Duration::from_millis(self.random.below(1200));
        }
        for worker in &mut self.workers {
            worker.handle_timeout(self.now, &self.placement);
        }
        let (worker, server) = (self.below(WORKERS), self.below(SERVERS));
        match self.random.below(100) {
            0..30 => {
                let client = self.below(CLIENTS);
                if self.clients[client].slots.len() < PIPELINE {
                    self.ask(client);
                }
            }
            30..62 => self.execute(worker, server),
            62..95 => return self.answer(worker, server),
            95 if self.random.below(3) == 0 => {
                let key = self.below(KEYS.len());
                let value = (self.random.below(6) > 0).then(|| self.value(key));
                self.write_home(KEYS[key], value);
            }
            96 if self.random.below(3) == 0 => {
                let items: Vec<Vec<u8>> = self.servers[server].keys().cloned().collect();
                if !items.is_empty() {
                    let name = items[self.below(items.len())].clone();
                    self.store(server, &name, None);
                }
            }
            97 if self.random.below(8) == 0 => return self.break_link(worker, server),
            98 if self.random.below(3) == 0 => self.recache(),
            98 => self.haunt(),
            99 if self.random.below(8) == 0 => {
                self.epoch.0 += 1;
                self.workers
                    .iter_mut()
                    .for_each(PlainHotKeys::forget_truths);
            }
            _ => {}
        }
        Ok(())
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    /// A new value, or the one that the key has already.
    fn value(&mut self, key: usize) -> u32 {
        let home = self.home(KEYS[key]);
        match self.servers[home].get(KEYS[key]) {
            Some(item) if self.random.below(5) == 0 => item.value,
            _ => {
                self.next_value += 1;
                self.next_value
            }
        }
    }

    fn home(&self, key: &[u8]) -> usize {
        self.placement.server(key)
    }

    fn worker_of(client: usize) -> usize {
        client % WORKERS
    }

    fn ask(&mut self, client: usize) {
        let key = self.below(KEYS.len());
        let hash = KeyHash::of(KEYS[key]);
        let at = Self::worker_of(client);
        let (worker, leases) = (&mut self.workers[at], &mut self.leases[at]);
        let wants = [Wants::VALUE, Wants::VALUE, Wants::CAS, Wants::META];
        let wants = wants[self.random.below(4) as usize];
        let (mut ticket, mut server) = (None, self.placement.server(KEYS[key]));
        let home_read = Ask::Read {
            name: KEYS[key].to_vec(),
            home: true,
        };
        let ask = if self.random.below(20) == 0 {
            if self.fault != Some(Fault::WritesUntold) {
                worker.handle_write(self.now, KEYS[key]);
            }
            leases.write_sent_by_any(hash);
            let value = (self.random.below(6) > 0).then(|| self.value(key));
            Ask::Write {
                name: KEYS[key].to_vec(),
                value,
            }
        } else {
            worker.handle_read(KEYS[key]);
            let (now, epoch) = (self.now, self.epoch);
            let links = &self.links[at];
            let load = |server: usize| Some(links[server].asked.len());
            let route = match self.random.below(10) {
                0 => worker.route_home_read(leases, now, epoch, hash, KEYS[key]),
                _ => worker.route_read((leases, load), now, epoch, (hash, KEYS[key]), wants),
            };
            match route {
                ReadRoute::Ordinary => home_read,
                ReadRoute::Home(home) => {
                    ticket = Some(home);
                    home_read
                }
                ReadRoute::Copy {
                    ticket: copy,
                    server: at,
                    name,
                } => {
                    self.copy_reads += 1;
                    (ticket, server) = (Some(copy), at);
                    Ask::Read {
                        name: replica(name, KEYS[key]),
                        home: false,
                    }
                }
            }
        };
        let found = &mut self.clients[client];
        let slot = found.first + found.slots.len() as u64;
        found.slots.push_back(Slot {
            key,
            sent_at: self.now,
            wants,
            ticket,
            state: State::Waiting,
        });
        self.links[at][server]
            .asked
            .push_back(Sent { ask, client, slot });
    }

    /// A server carries out what it was asked first.
    fn execute(&mut self, worker: usize, server: usize) {
        let Some(sent) = self.links[worker][server].asked.pop_front() else {
            return;
        };
        let (item, place) = self.carry_out(server, &sent.ask);
        self.links[worker][server]
            .answered
            .push_back((sent, item, place));
    }

    fn carry_out(&mut self, server: usize, ask: &Ask) -> (Option<Item>, usize) {
        match ask {
            Ask::Read { name, .. } => {
                let name = self.stored_name(name);
                (self.servers[server].get(&name).copied(), 0)
            }
            Ask::Write { name, value } => (None, self.write_home(name, *value)),
            Ask::Fill { name, value } => {
                let name = self.stored_name(name);
                self.store(server, &name, Some(*value));
                (None, 0)
            }
        }
    }

    fn stored_name(&self, name: &[u8]) -> Vec<u8> {
        if self.fault == Some(Fault::UnnamedReplicas) && name[0] == NAME_MARK {
            return [b"replica ", &name[NAME_PREFIX_LEN..]].concat();
        }
        name.to_vec()
    }

    /// The place in the history that this makes.
    fn write_home(&mut self, key: &[u8], value: Option<u32>) -> usize {
        let home = self.home(key);
        self.store(home, key, value);
        self.histories[index(key).unwrap()].len() - 1
    }

    fn store(&mut self, server: usize, name: &[u8], value: Option<u32>) {
        self.next_cas += 1;
        let item = value.map(|value| Item {
            value,
            cas: self.next_cas,
            recached: false,
        });
        self.put(server, name, item);
    }

    fn put(&mut self, server: usize, name: &[u8], item: Option<Item>) {
        match item {
            Some(item) => self.servers[server].insert(name.to_vec(), item),
            None => self.servers[server].remove(name),
        };
        if let Some(key) = index(name)
            && self.histories[key].last().unwrap().1 != item
        {
            self.histories[key].push((self.now, item));
        }
    }

    /// Somebody wins the right to recache a key, or gives it up.
    fn recache(&mut self) {
        let key = self.below(KEYS.len());
        let home = self.home(KEYS[key]);
        if let Some(&item) = self.servers[home].get(KEYS[key]) {
            let recached = !item.recached;
            self.put(home, KEYS[key], Some(Item { recached, ..item }));
        }
    }

    /// A worker gets the next answer of a server.
    fn answer(&mut self, at: usize, server: usize) -> Result<(), String> {
        let Some((sent, item, place)) = self.links[at][server].answered.pop_front() else {
            return Ok(());
        };
        self.settle(at, sent, Some((item, place)))
    }

    /// What became of a request; `None` is not known.
    fn settle(
        &mut self,
        at: usize,
        sent: Sent,
        outcome: Option<(Option<Item>, usize)>,
    ) -> Result<(), String> {
        if matches!(sent.ask, Ask::Fill { .. }) {
            return Ok(());
        }
        let (epoch, now) = (self.epoch, self.now);
        let client = &mut self.clients[sent.client];
        let leases = &mut self.leases[at];
        let worker = &mut self.workers[at];
        let slot = &mut client.slots[(sent.slot - client.first) as usize];
        match sent.ask {
            Ask::Write { .. } => {
                let place = outcome.map(|(_, place)| place);
                slot.state = State::Written { place };
            }
            Ask::Read { name, home } => {
                let mut item = outcome.and_then(|(item, _)| item);
                let value = item.map(|item| item.value);
                let written = bytes(value.unwrap_or(0));
                let found = match item {
                    // As by a command that does not ask for the value, nor for the unique.
                    Some(Item { value, .. }) if value % 16 == 0 && home => Found::Unknown,
                    Some(item) if slot.wants.recaching && sent.slot.is_multiple_of(8) => {
                        Found::Unique {
                            cas: Version(item.cas),
                            recaching: match item.recached {
                                false => Recaching::No,
                                true => Recaching::Yes,
                            },
                        }
                    }
                    Some(item) => Found::Value {
                        flags: 0,
                        value: &written,
                        // As by one that does not ask for the unique.
                        cas: (slot.wants.cas || value.unwrap_or(0) % 16 != 1)
                            .then_some(Version(item.cas)),
                        recaching: match (slot.wants.recaching, item.recached) {
                            (false, _) => Recaching::Untold,
                            (true, false) => Recaching::No,
                            (true, true) => Recaching::Yes,
                        },
                    },
                    None => Found::Absent,
                };
                let answer = match (&slot.ticket, outcome) {
                    (_, None) => Answer::Failed,
                    (None, _) => Answer::Hit(Version(0)),
                    (Some(ticket), _) if home => {
                        let is_current = leases.is_of(epoch, ticket);
                        worker.answer_of_home(is_current, ticket, &name, found)
                    }
                    (Some(ticket), _) => {
                        let name = &name[..NAME_PREFIX_LEN];
                        let is_found = item.is_some();
                        let (answer, cas) =
                            worker.answer_of_copy(ticket, name, is_found, slot.wants);
                        // The replica's own unique and recaching are nobody's business.
                        item = value.map(|value| Item {
                            value,
                            cas: cas.map_or(0, |cas| cas.0),
                            recached: false,
                        });
                        answer
                    }
                };
                slot.state = State::Read { answer, item };
                if home && slot.ticket.is_some() && matches!(found, Found::Value { .. }) {
                    self.fill(at, slot_key(&name), value);
                }
            }
            Ask::Fill { .. } => {}
        }
        self.release(sent.client, now)
    }

    fn fill(&mut self, at: usize, key: usize, value: Option<u32>) {
        let hash = KeyHash::of(KEYS[key]);
        while let Some(fill) = self.workers[at].poll_fill(self.now, hash) {
            let value = value.expect("only a value is stored");
            assert_eq!(
                fill.name,
                NamePrefix::of(0, &bytes(value)),
                "what was just told"
            );
            self.links[at][fill.server].asked.push_back(Sent {
                ask: Ask::Fill {
                    name: replica(fill.name, KEYS[key]),
                    value,
                },
                client: usize::MAX,
                slot: 0,
            });
        }
    }

    /// Shows an application what its turn has come for.
    fn release(&mut self, id: usize, now: Instant) -> Result<(), String> {
        loop {
            let leases = &mut self.leases[Self::worker_of(id)];
            let client = &mut self.clients[id];
            let Some(front) = client.slots.front() else {
                return Ok(());
            };
            if matches!(front.state, State::Waiting) {
                return Ok(());
            }
            let Some(mut slot) = client.slots.pop_front() else {
                return Ok(());
            };
            client.first += 1;
            let (answer, item) = match slot.state {
                State::Written { place } => {
                    let newest = &mut client.newest[slot.key];
                    *newest = place.map_or(*newest, |place| (*newest).max(place));
                    continue;
                }
                State::Read { answer, item } => (answer, item),
                State::Waiting => unreachable!("only answered slots are taken"),
            };
            let verdict = match slot.ticket.take() {
                Some(ticket) => leases.release(now, self.epoch, ticket, answer),
                None => Verdict::Show,
            };
            match verdict {
                Verdict::Show if answer == Answer::Failed => {}
                Verdict::Show => self.check(id, &slot, item)?,
                Verdict::ShowKept(..) => unreachable!("nothing is kept of plain pools"),
                Verdict::AskHome(ticket) => {
                    self.asked_again += 1;
                    let key = slot.key;
                    slot.ticket = Some(ticket);
                    slot.state = State::Waiting;
                    client.slots.push_front(slot);
                    client.first -= 1;
                    let (slot, home) = (client.first, self.home(KEYS[key]));
                    let name = KEYS[key].to_vec();
                    self.links[Self::worker_of(id)][home].asked.push_back(Sent {
                        ask: Ask::Read { name, home: true },
                        client: id,
                        slot,
                    });
                    return Ok(());
                }
            }
        }
    }

    fn check(&mut self, id: usize, slot: &Slot, item: Option<Item>) -> Result<(), String> {
        let history = &self.histories[slot.key];
        let newest = self.clients[id].newest[slot.key];
        let lease = PlainConfig::default().lease;
        let is_fresh = |place: usize| {
            let end = history
                .get(place + 1)
                .map_or(Instant(u64::MAX), |next| next.0);
            end + lease >= slot.sent_at
        };
        let looks_so = |place: &usize| match (history[*place].1, item) {
            (Some(held), Some(item)) => held.looks_like(&item, slot.wants),
            (held, item) => held == item,
        };
        let mut places = (0..history.len()).filter(looks_so);
        let found = places.find(|&place| place >= newest && is_fresh(place));
        match found {
            Some(place) => {
                self.clients[id].newest[slot.key] = place;
                Ok(())
            }
            None => Err(format!(
                "application {id} read {item:?} of key {} at {:?}, asked at {:?}; it had seen place \
                 {newest} of {history:?}",
                slot.key, self.now, slot.sent_at
            )),
        }
    }

    /// A connection breaks. What was not carried out is lost, or is carried out later.
    fn break_link(&mut self, worker: usize, server: usize) -> Result<(), String> {
        let link = std::mem::take(&mut self.links[worker][server]);
        for sent in &link.asked {
            if !matches!(sent.ask, Ask::Read { .. }) && self.random.below(2) == 0 {
                self.ghosts.push((server, sent.ask.clone()));
            }
        }
        let answered = link.answered.into_iter().map(|(sent, ..)| sent);
        for sent in answered.chain(link.asked) {
            self.settle(worker, sent, None)?;
        }
        Ok(())
    }

    fn haunt(&mut self) {
        if !self.ghosts.is_empty() {
            let at = self.below(self.ghosts.len());
            let (server, ask) = self.ghosts.swap_remove(at);
            self.carry_out(server, &ask);
        }
    }
}

fn replica(name: NamePrefix, key: &[u8]) -> Vec<u8> {
    [name.as_bytes(), key].concat()
}

fn index(name: &[u8]) -> Option<usize> {
    KEYS.iter().position(|key| *key == name)
}

fn slot_key(name: &[u8]) -> usize {
    index(name).expect("homes are asked for keys by their own names")
}

#[test]
fn nobody_sees_time_run_backwards_or_stand_still_for_more_than_a_lease() {
    let first = test_seed();
    let (mut copy_reads, mut asked_again) = (0, 0);
    for seed in first..first + RUNS {
        let (copies, again) = World::new(seed, None)
            .run()
            .unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        copy_reads += copies;
        asked_again += again;
    }
    println!("{copy_reads} reads of replicas, {asked_again} asked again");
    assert!(copy_reads > 20 * RUNS, "{copy_reads}");
    assert!(asked_again > RUNS, "{asked_again}");
}

#[test]
fn every_fault_is_noticed() {
    let first = test_seed();
    let faults = [
        Fault::Worker(Mutant::LeaseForEver),
        Fault::Worker(Mutant::TruthPastWrites),
        Fault::Worker(Mutant::AnyReplicaCounts),
        Fault::Worker(Mutant::UniqueOfContent),
        Fault::Worker(Mutant::ClassicTellsRecaching),
        Fault::Client(client::Mutant::ShowAnything),
        Fault::Client(client::Mutant::NewestForgotten),
        Fault::WritesUntold,
        Fault::UnnamedReplicas,
    ];
    for fault in faults {
        let caught = (first..first + MUTANT_RUNS)
            .find_map(|seed| Some((seed, World::new(seed, Some(fault)).run().err()?)));
        match caught {
            Some((seed, violation)) => println!("{fault:?}: seed {seed}: {violation:.120}"),
            None => panic!("{fault:?} is not noticed"),
        }
    }
}
