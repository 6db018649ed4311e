//! Random commands through a proxy whose ring passes from plan to plan, steps coming in the middle of them, and several real server cores,
//! against one server core that is asked directly: an application cannot tell the difference, but for misses while items are brought.

use super::recorded::{Expected, assert_recorded, expected, recorded, recording};
use super::twin::{
    SERVERS, Server, answer_in_part, flushing, lines_without_uniques, numbers, servers,
};
use super::world::{SOURCE, World, placement};
use crate::*;
use evenkeel_control::rings::{RingMove, RingPlan};
use evenkeel_placement::ring::Ring;
use evenkeel_profile::Sampling;
use evenkeel_schemes::stage::{Stage, Step};

/// Keys of values and of numbers.
const KEYS: usize = 12;
const NUMBERS: usize = 3;

/// What a coordinator says of the ring, whose only follower the proxy is.
struct Coordinator {
    list: ServerList,
    plan: RingPlan,
    step: Step,
    /// All items of the parts that move have been asked for since they are brought.
    has_brought: bool,
}

impl Coordinator {
    fn new() -> Self {
        let placement = placement(101..=100 + SERVERS);
        Coordinator {
            list: ServerList::new(placement.clone()).unwrap(),
            plan: RingPlan {
                number: 1,
                incarnation: 7,
                ring: Ring::adopt(&placement).unwrap(),
                placement,
                moves: Vec::new(),
                server: None,
            },
            step: Step::FIRST,
            has_brought: false,
        }
    }

    /// Whether items may be elsewhere than they are looked for.
    fn brings(&self) -> bool {
        self.step.stage == Stage::Warming && !self.has_brought
    }

    /// The next step, if there may be one: all keys stay, or pass on; a plan is taken back now and then.
    fn go_on(&mut self, world: &mut World, below: &mut impl FnMut(usize) -> usize) {
        if !world.acknowledged.contains(&self.step.version) || self.brings() {
            return;
        }
        let stage = match self.step.stage {
            Stage::Quiesced if below(4) == 0 => {
                let spent = self.plan.moved().unwrap().generation();
                let ring = self.plan.ring.clone().with_spent(spent);
                self.begin(ring, below);
                Stage::Former
            }
            Stage::Done => {
                self.begin(self.plan.moved().unwrap(), below);
                Stage::Former
            }
            stage => stage.next().unwrap(),
        };
        self.has_brought = false;
        self.step = Step {
            version: self.step.version + 1,
            stage,
        };
        self.tell(world);
    }

    fn tell(&self, world: &mut World) {
        world.wait_ms(1);
        world.plan = Some(self.plan.clone());
        world.set_step(Some(self.step));
        world.wait_ms(1);
    }

    /// Half of the keys change hands by the next plan.
    fn begin(&mut self, ring: Ring, below: &mut impl FnMut(usize) -> usize) {
        let all: Vec<String> = keys().collect();
        let chosen = all.iter().filter(|_| below(2) == 0);
        let moves = chosen.map(|key| {
            let hash = self.list.hashed(key.as_bytes()).1 as u32;
            RingMove {
                first: hash,
                last: hash,
                to: (ring.owner(hash) + 1) % SERVERS,
            }
        });
        self.plan.moves = moves.collect();
        self.plan.number += 1;
        self.plan.ring = ring;
    }
}

fn keys() -> impl Iterator<Item = String> {
    let values = (0..KEYS).map(|i| format!("k{i}"));
    values.chain((0..NUMBERS).map(|i| format!("n{i}")))
}

fn command(below: &mut impl FnMut(usize) -> usize) -> String {
    let key = format!("k{}", below(KEYS));
    let number = format!("n{}", below(NUMBERS));
    let noreply = ["", " noreply"][below(2)];
    let value = "v".repeat(below(50));
    let size = value.len();
    let exptime = ["0", "0", "100", "-1"][below(4)];
    match below(24) {
        0..4 => format!("set {key} {size} {exptime} {size}{noreply}\r\n{value}\r\n"),
        4 => format!("add {key} 1 {exptime} {size}{noreply}\r\n{value}\r\n"),
        5 => format!("replace {key} 1 {exptime} {size}{noreply}\r\n{value}\r\n"),
        6 => format!("append {key} 1 0 {size}{noreply}\r\n{value}\r\n"),
        7 => format!("cas {key} 1 0 {size} 1{noreply}\r\n{value}\r\n"),
        8 => format!("delete {key}{noreply}\r\n"),
        9 => format!("touch {key} {exptime}{noreply}\r\n"),
        10 => format!("set {number} 0 0 2{noreply}\r\n{}\r\n", 10 + below(90)),
        11 => format!("incr {number} {}{noreply}\r\n", below(1000)),
        12 => format!("gat {exptime} {key} {number}\r\n"),
        13..17 => format!("get {key}\r\n"),
        17 => format!("gets {key}\r\n"),
        18 => format!("set {key} 4294967295 0 1\r\nx\r\n"),
        _ => {
            let verb = ["get", "get", "gets"][below(3)];
            let keys = (0..2 + below(12)).map(|_| format!("k{}", below(KEYS)));
            format!("{verb} {number} {}\r\n", keys.collect::<Vec<_>>().join(" "))
        }
    }
}

/// The application sends all of it, and gets all answers, while steps come in between.
fn exchange(
    (world, coordinator): (&mut World, &mut Coordinator),
    servers: &mut [Server],
    client: ClientId,
    sent: &str,
    below: &mut impl FnMut(usize) -> usize,
) -> String {
    let mut received = String::new();
    // The last word is told when all others are.
    let sent = format!("{sent}mn\r\n");
    let mut left = sent.as_bytes();
    while !received.ends_with("MN\r\n") {
        if !left.is_empty() && below(3) == 0 {
            let (piece, rest) = left.split_at(1 + below(left.len()));
            world.send(client, piece);
            left = rest;
        }
        answer_in_part(world, servers, below);
        match below(40) {
            0..2 => coordinator.go_on(world, below),
            // What waits for its turn is looked at.
            2..4 => world.wait_ms(1),
            _ => {}
        }
        received += &world.received(client);
    }
    received
}

/// Whether nothing was received that is not expected, and nothing but values is missing.
fn is_but_for_misses(received: &[String], expected: &[String]) -> bool {
    let mut rest = received.iter().peekable();
    let mut expected = expected.iter();
    while let Some(line) = expected.next() {
        if rest.next_if_eq(&line).is_some() {
            continue;
        }
        if !line.starts_with("VALUE ") {
            return false;
        }
        // What it has.
        expected.next();
    }
    rest.next().is_none()
}

#[test]
fn a_ring_whose_parts_change_hands_is_one_memcached() {
    let mut stages = std::collections::BTreeMap::new();
    for seed in 0..40 {
        let mut below = numbers(seed);
        let mut world = World::memcached_with(SERVERS, |config| {
            flushing(config);
            recording(config, Sampling::FULL);
            config.pools[0].settings.adaptive = true;
            config.pools[0].settings.follows = Some(SOURCE);
        });
        let (mut twin, mut servers) = (Server::new(1, false), servers(false));
        let mut witness = Server::new(1, false);
        let mut coordinator = Coordinator::new();
        coordinator.tell(&mut world);
        let client = world.client();
        for _ in 0..60 {
            let brought = coordinator.brings();
            let commands: Vec<String> = match brought {
                true => vec![format!("get {}\r\n", keys().collect::<Vec<_>>().join(" "))],
                false => (0..1 + below(30)).map(|_| command(&mut below)).collect(),
            };
            let records = commands.iter().flat_map(|it| expected(&mut witness, it));
            let records: Vec<Expected> = records.collect();
            let pipeline = commands.concat();
            *stages.entry(coordinator.step.stage).or_insert(0) += 1;
            twin.ask(format!("{pipeline}mn\r\n").as_bytes());
            let all = (&mut world, &mut coordinator);
            let received = exchange(all, &mut servers, client, &pipeline, &mut below);
            let expected = String::from_utf8(std::mem::take(&mut twin.output)).unwrap();
            let (received, expected) = (
                lines_without_uniques(&received),
                lines_without_uniques(&expected),
            );
            // Of several gets of a key one brings the item, and the others may meet its placeholder.
            let is_right = match coordinator.brings() && !brought {
                true => is_but_for_misses(&received, &expected),
                false => received == expected,
            };
            let step = coordinator.step;
            assert!(
                is_right,
                "{step:?} {pipeline}\n{received:#?}\n{expected:#?}"
            );
            let found = recorded(&mut world);
            match received == expected {
                true => assert_recorded(&found, &records),
                false => assert_eq!(found.len(), records.len()),
            }
            coordinator.has_brought |= brought;
        }
        assert!(coordinator.plan.ring.generation() > 1, "it has moved");
    }
    assert_eq!(stages.len(), Stage::ALL.len(), "{stages:?}");
}
