//! Random commands through a proxy that keeps copies of items, while these are switched on and off, and several real server cores, against one
//! server core that is asked directly: an application cannot tell the difference.

use super::recorded::{Expected, assert_recorded, expected, recorded, recording};
use super::twin::{
    SERVERS, Server, answer_in_part, command, flushing, lines_without_uniques, numbers, servers,
};
use super::world::{SOURCE, World};
use crate::*;
use evenkeel_control::bundles::BundlePlan;
use evenkeel_profile::{Flags, Sampling};
use evenkeel_schemes::generation::name_prefix;
use evenkeel_schemes::stage::{Stage, Step};
use std::sync::Arc;

/// What comes last, and its answers, which are those to nothing else.
const LAST_WORDS: &str = "set last 0 0 0\r\n\r\nget last\r\n";
const LAST_ANSWERS: &str = "STORED\r\nVALUE last 0 0\r\n\r\nEND\r\n";

/// What a coordinator says of the copies, whose only follower the proxy is.
struct Coordinator {
    plan: BundlePlan,
    step: Step,
}

impl Coordinator {
    /// The next step, if there may be one; copies are switched off before they are on, now and then.
    fn go_on(&mut self, world: &mut World, below: &mut impl FnMut(usize) -> usize) {
        if !world.acknowledged.contains(&self.step.version) {
            return;
        }
        let stage = match self.step.stage {
            Stage::Quiesced if below(4) == 0 => Stage::Former,
            // Most of the time they are on.
            Stage::Warming if below(8) > 0 => return,
            Stage::Done => Stage::Former,
            stage => stage.next().unwrap(),
        };
        if stage == Stage::Former {
            self.plan.number += 1;
            self.plan.token += 1;
        }
        self.step = Step {
            version: self.step.version + 1,
            stage,
        };
        self.tell(world);
    }

    fn tell(&self, world: &mut World) {
        world.wait_ms(1);
        world.tell(Some(PoolUpdate {
            step: self.step,
            ring: None,
            bundle: Some(BundleUpdate {
                plan: self.plan,
                fillers: 1,
            }),
        }));
        world.wait_ms(1);
    }
}

/// A command of any dialect but the binary one, or a multi-get.
fn any_command(below: &mut impl FnMut(usize) -> usize) -> String {
    match below(3) {
        0 => command(below),
        _ => {
            let verb = ["get", "get", "gets"][below(3)];
            let keys = (0..2 + below(9)).map(|_| format!("k{}", below(12)));
            format!("{verb} {}\r\n", keys.collect::<Vec<_>>().join(" "))
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
    let mut left = sent.as_bytes();
    while !received.ends_with(LAST_ANSWERS) {
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

#[test]
fn servers_with_copies_are_one_memcached() {
    let mut counts = BundleCounts::default();
    for seed in 0..150 {
        let mut below = numbers(seed);
        let mut world = World::memcached_with(SERVERS, |config| {
            flushing(config);
            recording(config, Sampling::FULL);
            let pool = &mut config.pools[0];
            pool.settings.follows = Some(SOURCE);
            let PoolKind::Memcached(list) = &pool.kind else {
                unreachable!("a list");
            };
            let bundles = Bundles::new(list, 2 + seed as u8 % 2, Some(Keeping::default()), None);
            // Some have names of the pool's own.
            let is_named = seed % 3 == 0;
            pool.settings.name_prefix = name_prefix(1, 1).filter(|_| is_named);
            pool.bundles = Some(Arc::new(bundles.of_named(is_named)));
        });
        let (mut twin, mut servers) = (Server::new(1, false), servers(false));
        let (mut witness, mut copies) = (Server::new(1, false), 0);
        let of = world.bundles().expect("copies").wish();
        let (number, token) = (1, 1);
        let mut coordinator = Coordinator {
            plan: BundlePlan { number, token, of },
            step: Step::FIRST,
        };
        coordinator.tell(&mut world);
        let client = world.client();
        for _ in 0..60 {
            let commands = (0..1 + below(12)).map(|nth| (nth, any_command(&mut below)));
            // What is not at a copy is read at home behind a flush that was asked after it: a miss.
            let commands = commands.filter(|(nth, it)| *nth == 0 || !it.starts_with("flush_all"));
            let commands: Vec<String> = commands.map(|(_, command)| command).collect();
            let all = commands.iter().map(String::as_str);
            let all = all.chain(["set last 0 0 0\r\n\r\n", "get last\r\n"]);
            let records: Vec<Expected> = all.flat_map(|it| expected(&mut witness, it)).collect();
            let pipeline = commands.concat() + LAST_WORDS;
            twin.ask(pipeline.as_bytes());
            let all = (&mut world, &mut coordinator);
            let received = exchange(all, &mut servers, client, &pipeline, &mut below);
            let expected = String::from_utf8(std::mem::take(&mut twin.output)).unwrap();
            let (received, expected) = (
                lines_without_uniques(&received),
                lines_without_uniques(&expected),
            );
            let step = coordinator.step;
            assert!(
                received == expected,
                "seed {seed} {step:?} {pipeline}\n{received:#?}\n{expected:#?}"
            );
            let found = recorded(&mut world);
            assert_recorded(&found, &records);
            let of_copies = found.iter().filter(|it| it.flags.has(Flags::COPY));
            copies += of_copies.count() as u64;
            // What is done behind answers comes to its end, or not.
            (0..below(300)).for_each(|_| answer_in_part(&mut world, &mut servers, &mut below));
        }
        let counted = world.core.pool_stats()[0].bundles.expect("counts");
        assert_eq!(copies, counted.copies_hit, "each is told");
        counts.copies_hit += counted.copies_hit;
        counts.copies_absent += counted.copies_absent;
        counts.fills += counted.fills;
        counts.deletes += counted.deletes;
        assert!(coordinator.plan.number > 1, "they were switched off");
        assert_eq!(counted.deletes_unconfirmed, 0);
    }
    println!("{counts:?}");
    for count in [
        counts.copies_hit,
        counts.copies_absent,
        counts.fills,
        counts.deletes,
    ] {
        assert!(count > 100, "{counts:?}");
    }
}
