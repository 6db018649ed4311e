//! Cachelets that change their worker: clients that know nothing of it must not notice.
//!
//! Each connection has keys of its own, so that its answers are those of a server with one worker, whatever
//! the others do. Messages between workers arrive in any order, but for those from one worker to another.

use crate::harness::{Client, Server, at, config};
use evenkeel_server_core::{
    ConnectionId, Counters, Deferred, LARGE_ANSWER, Message, OUT_PAUSE, Peer,
};
use evenkeel_types::{CacheletId, Now};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

const WORKERS: u16 = 4;
const CACHELETS: u16 = 16 * WORKERS;

/// How much is going on.
#[derive(Clone, Copy)]
struct Shape {
    talks: usize,
    /// Keys of each connection.
    keys: u64,
    /// What moves is what the keys are in, and words to one of the workers take long: it sends to where cachelets were.
    is_narrow: bool,
    /// Workers have no memory for large answers now and then, each connection has a large value besides, and there are visitors.
    is_scarce: bool,
}

/// Many keys in many cachelets, of which any move.
const WIDE: Shape = Shape {
    talks: 6,
    keys: 40,
    is_narrow: false,
    is_scarce: false,
};

/// Few keys, whose cachelets move again and again.
const NARROW: Shape = Shape {
    talks: 4,
    keys: 2,
    is_narrow: true,
    is_scarce: false,
};

/// The same, and what waits for memory is executed late.
const SCARCE: Shape = Shape {
    is_scarce: true,
    ..NARROW
};

/// One in this many steps a worker has memory that had none, or has none any more, and a visitor asks or goes.
const SCARCE_ONE_IN: u64 = 20;

/// The worker that hears late of everything there.
const LATE: u16 = 0;

/// One in this many words to it comes as soon as others.
const LATE_ONE_IN: u64 = 16;

struct Chance(Xoshiro256PlusPlus);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }
}

/// A connection, what it still has to say, and what it was answered.
struct Talk {
    worker: usize,
    id: ConnectionId,
    unsaid: VecDeque<u8>,
    input: Vec<u8>,
    answers: Vec<u8>,
    all: Vec<u8>,
    /// It has something to do: input came, it had no end of its turn, or its worker says so.
    is_due: bool,
}

/// A server whose queues between workers are in nobody's hands but ours.
struct World {
    server: Server,
    talks: Vec<Talk>,
    queues: BTreeMap<(u16, u16), VecDeque<Message>>,
    /// Of each worker, what waits for memory there.
    lines: Vec<Deferred>,
    /// Whether it has none.
    scarce: Vec<bool>,
    /// Connections that ask for the large values and read no answer. They have the names of others at other workers.
    visitors: Vec<(usize, ConnectionId)>,
    chance: Chance,
    ms: u64,
    shape: Shape,
}

impl World {
    fn new(seed: u64, shape: Shape) -> Self {
        let mut chance = Chance(Xoshiro256PlusPlus::seed_from_u64(seed));
        let mut config = config(WORKERS, false);
        config.limits.item_size_max = item_size_max(shape);
        let mut server = Server::new(config);
        let others = (0..usize::from(WORKERS)).filter(|worker| *worker != usize::from(LATE));
        let visitors = match shape.is_scarce {
            true => others
                .map(|worker| (worker, server.workers[worker].open(Peer::default())))
                .collect(),
            false => Vec::new(),
        };
        let talks = (0..shape.talks)
            .map(|number| {
                let worker = match shape.is_narrow {
                    true => usize::from(LATE),
                    false => chance.below(u64::from(WORKERS)) as usize,
                };
                let mut all = script(&mut chance, number, shape.keys);
                if shape.is_scarce {
                    add_large(&mut chance, number, &mut all);
                }
                Talk {
                    worker,
                    id: server.workers[worker].open(Peer::default()),
                    unsaid: all.iter().copied().collect(),
                    input: Vec::new(),
                    answers: Vec::new(),
                    all,
                    is_due: false,
                }
            })
            .collect();
        World {
            server,
            talks,
            queues: BTreeMap::new(),
            lines: (0..WORKERS).map(|_| Deferred::default()).collect(),
            scarce: vec![false; usize::from(WORKERS)],
            visitors,
            chance,
            ms: 0,
            shape,
        }
    }

    /// What is to move next.
    fn some_cachelet(&mut self) -> CacheletId {
        if self.shape.is_narrow {
            let talk = self.chance.below(self.shape.talks as u64);
            let large = u64::from(self.shape.is_scarce);
            let key = match self.chance.below(self.shape.keys + large) {
                key if key < self.shape.keys => format!("t{talk}-{key}"),
                _ => format!("t{talk}-large"),
            };
            return self.server.workers[0].cachelet_of(key.as_bytes());
        }
        // A few of them again and again.
        let among = if self.chance.below(2) == 0 {
            CACHELETS
        } else {
            3
        };
        CacheletId(self.chance.below(u64::from(among)) as u16)
    }

    fn now(&self) -> Now {
        at(self.ms)
    }

    /// Takes what a worker wants to say and to whom it has something to show.
    fn collect(&mut self, worker: usize) {
        let queues = &mut self.queues;
        let core = &mut self.server.workers[worker];
        core.flush_outbox(|to, message| {
            queues
                .entry((worker as u16, to))
                .or_default()
                .push_back(message);
            Ok(())
        });
        while let Some(id) = core.poll_touched() {
            let touched = self.talks.iter_mut();
            for talk in touched.filter(|talk| (talk.worker, talk.id) == (worker, id)) {
                talk.is_due = true;
            }
        }
    }

    fn serve(&mut self, number: usize) {
        let now = self.now();
        let talk = &mut self.talks[number];
        let worker = talk.worker;
        let core = &mut self.server.workers[worker];
        let before = core.counters().commands_waited;
        let progress = core.handle_input(now, talk.id, &talk.input);
        let waited = core.counters().commands_waited - before;
        // Who waits is not shown again before it is called.
        assert!(waited == 0 || waited == 1 && !progress.more);
        talk.input.drain(..progress.consumed);
        talk.is_due = progress.more;
        let session = core.session(talk.id).expect("it stands");
        talk.answers.append(&mut session.out);
        self.collect(worker);
    }

    /// A worker has memory for answers, or has none.
    fn set_scarce(&mut self, worker: usize, scarce: bool) {
        self.scarce[worker] = scarce;
        let core = &mut self.server.workers[worker];
        core.set_scarce(scarce);
        for talk in self.talks.iter_mut().filter(|talk| talk.worker == worker) {
            let session = core.session(talk.id).expect("it stands");
            if !scarce && session.lacks_room {
                session.set_room(OUT_PAUSE);
                talk.is_due = true;
            }
        }
    }

    /// A visitor asks for all that is large, or goes.
    fn visit(&mut self) {
        if self.visitors.is_empty() {
            return;
        }
        let number = self.chance.below(self.visitors.len() as u64) as usize;
        let (worker, id) = self.visitors[number];
        let core = &mut self.server.workers[worker];
        if core.session(id).is_some_and(|session| session.awaits()) {
            core.close(id);
            self.visitors.remove(number);
        } else {
            let question: String = (0..self.shape.talks)
                .map(|talk| format!("get t{talk}-large\r\n"))
                .collect();
            core.handle_input(at(self.ms), id, question.as_bytes());
        }
        self.collect(worker);
    }

    /// What came from another worker is executed, or waits, as in the server's event loop.
    fn take_message(&mut self, from: u16, to: usize, message: Message) {
        let now = self.now();
        let (core, line) = (&mut self.server.workers[to], &mut self.lines[to]);
        if let Message::Gone(id) = message {
            line.forget(from, id, |_| {});
        } else if line.is_behind(from, &message) {
            line.push(from, message);
        } else if !self.scarce[to] {
            core.handle_whole_message(now, from, message);
        } else if let Some(left) = core.handle_message(now, from, message) {
            line.push(from, left);
        }
    }

    /// Whether a message that waits may be gone on with.
    fn may_go(scarce: bool) -> impl Fn(&Message) -> bool {
        move |message| !scarce || matches!(message, Message::Follow(_))
    }

    /// Anything that can happen next. False when nothing is left to happen.
    fn step(&mut self, moves: Option<u64>) -> bool {
        if self.shape.is_scarce && moves.is_some() && self.chance.below(SCARCE_ONE_IN) == 0 {
            let worker = self.chance.below(u64::from(WORKERS)) as usize;
            self.set_scarce(worker, !self.scarce[worker]);
            self.visit();
        }
        if moves.is_some_and(|one_in| self.chance.below(one_in) == 0) {
            let cachelet = self.some_cachelet();
            let to = self.chance.below(u64::from(WORKERS)) as u16;
            let now = self.now();
            for worker in 0..usize::from(WORKERS) {
                self.server.workers[worker].order_move(now, cachelet, to);
                self.collect(worker);
            }
        }
        let mut choices = Vec::new();
        for (number, talk) in self.talks.iter().enumerate() {
            if talk.is_due {
                choices.push((0, number));
            }
            if !talk.unsaid.is_empty() {
                choices.push((1, number));
            }
        }
        let hears_late = self.shape.is_narrow && self.chance.below(LATE_ONE_IN) != 0;
        let mut late = Vec::new();
        for (number, ((_, to), queue)) in self.queues.iter().enumerate() {
            if queue.is_empty() {
                continue;
            }
            let choices = match hears_late && *to == LATE {
                true => &mut late,
                false => &mut choices,
            };
            choices.extend([(2, number); 2]);
        }
        let mut choices = if choices.is_empty() { late } else { choices };
        for (worker, line) in self.lines.iter().enumerate() {
            if line.has_next(World::may_go(self.scarce[worker])) {
                choices.push((3, worker));
            }
        }
        if choices.is_empty() {
            return false;
        }
        let (kind, number) = choices[self.chance.below(choices.len() as u64) as usize];
        match kind {
            0 => self.serve(number),
            1 => {
                let piece = 1 + self.chance.below(160) as usize;
                let talk = &mut self.talks[number];
                // What the large value consists of comes in large pieces.
                let is_large = talk.unsaid.front() == Some(&b'l');
                let piece = if is_large { LARGE_ANSWER } else { piece };
                let piece = piece.min(talk.unsaid.len());
                talk.input.extend(talk.unsaid.drain(..piece));
                talk.is_due = true;
            }
            2 => {
                let (&(from, to), queue) = self.queues.iter_mut().nth(number).expect("there");
                let message = queue.pop_front().expect("not empty");
                self.take_message(from, usize::from(to), message);
                self.collect(usize::from(to));
            }
            _ => {
                let now = self.now();
                let (core, line) = (&mut self.server.workers[number], &mut self.lines[number]);
                let next = line.take(World::may_go(self.scarce[number]));
                let (from, message) = next.expect("one may go");
                if let Some(left) = core.handle_message(now, from, message) {
                    line.put_back(from, left);
                }
                self.collect(number);
            }
        }
        true
    }

    fn run(&mut self) {
        for _ in 0..4000 {
            self.step(Some(12));
        }
        for worker in 0..usize::from(WORKERS) {
            self.set_scarce(worker, false);
        }
        while self.step(None) {}
        // Orders that had to wait.
        for _ in 0..4 {
            self.ms += 10;
            for worker in 0..usize::from(WORKERS) {
                let now = self.now();
                self.server.workers[worker].handle_timeout(now);
                self.collect(worker);
            }
            while self.step(None) {}
        }
    }

    /// What a connection was answered, what is not read yet included.
    fn answers(&mut self, number: usize) -> Vec<u8> {
        let talk = &self.talks[number];
        let session = self.server.workers[talk.worker].session(talk.id);
        [&talk.answers, session.expect("it stands").output()].concat()
    }

    fn counts(&mut self) -> Counters {
        let mut sum = Counters::default();
        for worker in &self.server.workers {
            let counts = worker.counts();
            sum.cachelets_given += counts.cachelets_given;
            sum.cachelets_taken += counts.cachelets_taken;
            sum.cachelets_refused += counts.cachelets_refused;
            sum.commands_waited += counts.commands_waited;
            sum.cachelet_waits += counts.cachelet_waits;
            sum.passed_on += counts.passed_on;
            sum.curr_items += counts.curr_items;
        }
        sum
    }
}

/// Commands on keys of one connection.
fn script(chance: &mut Chance, number: usize, keys: u64) -> Vec<u8> {
    let mut text = String::new();
    for command in 0..200 {
        let key = format!("t{number}-{}", chance.below(keys));
        let value = format!("{command:0width$}", width = 1 + chance.below(40) as usize);
        let len = value.len();
        let quiet = if chance.below(3) == 0 { " noreply" } else { "" };
        let _ = match chance.below(13) {
            0..=2 => write!(text, "set {key} {number} 0 {len}{quiet}\r\n{value}\r\n"),
            3 => write!(text, "append {key} 0 0 1{quiet}\r\nx\r\n"),
            4 => write!(text, "incr {key} 7{quiet}\r\n"),
            5 => write!(text, "delete {key}{quiet}\r\n"),
            6 => {
                let some: Vec<String> = (0..1 + chance.below(30))
                    .map(|_| format!("t{number}-{}", chance.below(keys)))
                    .collect();
                write!(text, "get {}\r\n", some.join(" "))
            }
            7 => write!(text, "mg {key} v f k\r\n"),
            8 => write!(text, "ms {key} {len} q\r\n{value}\r\n"),
            9 => write!(text, "gat 0 {key} t{number}-1\r\n"),
            10 if chance.below(4) == 0 => {
                // Refused, and what it was to replace goes.
                write!(text, "set {key} 0 0 5000\r\n{}\r\n", "y".repeat(5000))
            }
            _ => write!(text, "get {key}\r\n"),
        };
    }
    text.into_bytes()
}

/// Puts gets of a large value between commands, and before all of them what stores it.
fn add_large(chance: &mut Chance, number: usize, commands: &mut Vec<u8>) {
    let len = LARGE_ANSWER + 1;
    let mut text = format!("set t{number}-large 0 0 {len}\r\n{}\r\n", "l".repeat(len));
    let all = String::from_utf8(core::mem::take(commands)).expect("what was written above");
    let mut lines = all.split_inclusive("\r\n");
    while let Some(line) = lines.next() {
        if chance.below(12) == 0 {
            let _ = write!(text, "get t{number}-large\r\n");
        }
        text.push_str(line);
        // A block belongs to its line.
        if ["set", "append", "ms"]
            .iter()
            .any(|name| line.starts_with(name))
        {
            text.extend(lines.next());
        }
    }
    *commands = text.into_bytes();
}

/// Largest item, in bytes.
fn item_size_max(shape: Shape) -> usize {
    if shape.is_scarce {
        2 * LARGE_ANSWER
    } else {
        4096
    }
}

fn seeds() -> impl Iterator<Item = u64> {
    let first: u64 = std::env::var("EVENKEEL_SEED").map_or(20_261_122, |seed| {
        seed.parse().expect("EVENKEEL_SEED must be a number")
    });
    println!("EVENKEEL_SEED={first}, and those after it");
    first..first + 40
}

/// Runs that shape from all seeds, and compares each connection's answers with those of one worker.
fn compare(shape: Shape) -> Counters {
    let mut sum = Counters::default();
    for seed in seeds() {
        let mut world = World::new(seed, shape);
        world.run();
        for number in 0..world.talks.len() {
            let talk = &world.talks[number];
            let mut one = Server::standalone(1);
            let mut config = config(1, false);
            config.limits.item_size_max = item_size_max(shape);
            one.workers = Server::new(config).workers;
            let mut alone = Client::open(&mut one, 0);
            let expected = alone.ask_bytes(&mut one, at(0), &talk.all);
            assert!(
                talk.input.is_empty(),
                "seed {seed}: connection {number} is stuck"
            );
            let given = world.answers(number);
            if let Some(at) = (0..expected.len()).find(|at| given.get(*at) != expected.get(*at)) {
                let around = at.saturating_sub(60)..at;
                let show = |all: &[u8]| String::from_utf8_lossy(&all[around.clone()]).into_owned();
                panic!(
                    "seed {seed}, connection {number}: {:?}, not {:?}",
                    show(&given),
                    show(&expected)
                );
            }
            assert_eq!(
                given.len(),
                expected.len(),
                "seed {seed}, connection {number}"
            );
        }
        let counts = world.counts();
        assert_eq!(
            counts.cachelets_given, counts.cachelets_taken,
            "seed {seed}"
        );
        assert_eq!(counts.cachelets_refused, 0, "seed {seed}");
        sum.cachelets_given += counts.cachelets_given;
        sum.commands_waited += counts.commands_waited;
        sum.passed_on += counts.passed_on;
    }
    println!(
        "{} moves, {} commands passed on, {} waited",
        sum.cachelets_given, sum.passed_on, sum.commands_waited
    );
    sum
}

#[test]
fn nobody_notices_that_cachelets_move_between_workers() {
    let sum = compare(WIDE);
    assert!(sum.cachelets_given > 1000 && sum.passed_on > 100 && sum.commands_waited > 100);
}

/// A command can come to its host by way of a former one while the next command of its connection is sent there
/// straight, if the host was host before. So none moves again before everybody has followed.
#[test]
fn commands_keep_their_order_though_what_they_are_about_comes_back_to_where_it_was() {
    let sum = compare(NARROW);
    assert!(sum.cachelets_given > 1000 && sum.passed_on > 100 && sum.commands_waited > 100);
}

/// What waits for memory keeps its place, and nobody else's goes with a connection that is gone.
#[test]
fn nor_does_anybody_whose_large_answers_wait_for_memory() {
    let sum = compare(SCARCE);
    assert!(sum.cachelets_given > 1000 && sum.passed_on > 100 && sum.commands_waited > 100);
}

#[test]
fn a_flush_passes_no_cachelet_by() {
    let mut reached = 0;
    for seed in seeds() {
        let mut world = World::new(seed, WIDE);
        world.run();
        let before = world.counts().curr_items;
        assert!(before > 30, "seed {seed}: {before} items");
        world.talks[0].answers.clear();
        world.talks[0].unsaid.extend(b"flush_all\r\n");
        for _ in 0..100 {
            world.step(Some(2));
        }
        while world.step(None) {}
        assert_eq!(world.answers(0), b"OK\r\n", "seed {seed}");
        assert_eq!(world.counts().curr_items, 0, "seed {seed}");
        reached += world.counts().cachelets_given;
    }
    assert!(reached > 100, "{reached} moves");
}
