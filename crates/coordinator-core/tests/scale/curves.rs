//! Loads over hours, for a pool whose servers share it evenly: how many servers there are, and how often that turns.
//!
//! A server takes 20 s to start, 12 s to join and 20 s to leave. Measures are those of the last second.

use evenkeel_coordinator_core::scale::{
    Act, Band, Outcome, Part, PoolServer, Scale, ScaleMode, ScaleSettings, Seen, decide,
};
use evenkeel_types::Instant;
use evenkeel_types::random::SplitMix64;

const START_S: u64 = 20;
const JOIN_S: u64 = 12;
const LEAVE_S: u64 = 20;

/// What became of a load.
struct Run {
    /// Servers of the ring at each second.
    servers: Vec<usize>,
    /// When each change had ended, and whether it added.
    changes: Vec<(u64, bool)>,
    /// Requests per second and server at each second.
    each: Vec<f64>,
}

impl Run {
    /// Changes that take back what the one before has brought.
    fn turns(&self) -> usize {
        let pairs = self.changes.windows(2);
        pairs.filter(|pair| pair[0].1 != pair[1].1).count()
    }

    fn at_minute(&self, minute: usize) -> usize {
        self.servers[minute * 60]
    }

    fn most(&self) -> usize {
        self.servers.iter().copied().max().expect("it has lasted")
    }

    /// Hours that all servers have run together.
    fn hours(&self) -> f64 {
        self.servers.iter().sum::<usize>() as f64 / 3_600.0
    }

    /// Seconds in which a server had more than the upper threshold.
    fn over(&self, upper: f64) -> usize {
        self.each.iter().filter(|each| **each > upper).count()
    }

    fn print(&self, name: &str) {
        let each_five = self.servers.iter().step_by(300);
        let line: Vec<String> = each_five.map(usize::to_string).collect();
        println!(
            "{name}: servers each 5 minutes {}; {} changes, {} turns, {} s above {UPPER}; {:.1} server hours, {:.1} by {} servers",
            line.join(" "),
            self.changes.len(),
            self.turns(),
            self.over(UPPER),
            self.hours(),
            (self.most() * self.servers.len()) as f64 / 3_600.0,
            self.most()
        );
    }
}

const LOWER: f64 = 12_000.0;
const UPPER: f64 = 30_000.0;

fn settings() -> ScaleSettings {
    ScaleSettings {
        mode: ScaleMode::Automatic,
        requests_per_server: Some(Band {
            lower: LOWER,
            upper: UPPER,
        }),
        max: 16,
        ..ScaleSettings::default()
    }
}

/// This many servers meet a load for some seconds: requests per second at each.
fn run(servers: usize, seconds: u64, load: impl FnMut(u64) -> f64) -> Run {
    run_with(settings(), servers, seconds, load)
}

fn run_with(
    settings: ScaleSettings,
    servers: usize,
    seconds: u64,
    mut load: impl FnMut(u64) -> f64,
) -> Run {
    let mut seen = Seen {
        listed: Some([].into()),
        ..Seen::default()
    };
    let owner = |part| PoolServer {
        part,
        is_unreached: false,
    };
    for number in 1..=servers {
        let name = format!("p-{number}");
        seen.pool.insert(name.clone(), owner(Part::Owns));
        seen.listed
            .get_or_insert_default()
            .insert(name.clone(), name);
    }
    let mut scale = Scale::new("p");
    let mut under_way: Option<(Act, u64)> = None;
    let mut ring_until: Option<(String, Part, u64)> = None;
    let mut result = Run {
        servers: Vec::new(),
        changes: Vec::new(),
        each: Vec::new(),
    };
    for second in 0..seconds {
        if let Some((address, part, _)) = ring_until.take_if(|(_, _, until)| *until == second) {
            match part {
                Part::Leaves => drop(seen.pool.remove(&address)),
                _ => drop(seen.pool.insert(address, owner(Part::Owns))),
            }
            result.changes.push((second, part == Part::Comes));
        }
        // Who comes or goes serves a half of it, and the others all.
        let servers = seen
            .pool
            .values()
            .filter(|it| it.part != Part::Comes)
            .count();
        let each = load(second) / servers as f64;
        result.servers.push(servers);
        result.each.push(each);
        seen.measures.requests_per_server = Some(each);
        let done = under_way.take_if(|(_, until)| *until <= second);
        seen.outcome = done.map(|(act, _)| match act {
            Act::Start { name } => {
                seen.listed
                    .get_or_insert_default()
                    .insert(name.clone(), name.clone());
                let address = name.clone();
                Outcome::Started { name, address }
            }
            Act::Stop { name } => {
                seen.listed.get_or_insert_default().remove(&name);
                Outcome::Done(Act::Stop { name })
            }
            act => Outcome::Done(act),
        });
        let decision = decide(
            Instant::from_millis(second * 1_000),
            &scale,
            &settings,
            &seen,
        );
        scale = decision.scale;
        match decision.act {
            Some(Act::Join { address }) => {
                seen.pool.insert(address.clone(), owner(Part::Comes));
                ring_until = Some((address, Part::Comes, second + JOIN_S));
            }
            Some(Act::Drain { address }) => {
                seen.pool.insert(address.clone(), owner(Part::Leaves));
                ring_until = Some((address, Part::Leaves, second + LEAVE_S));
            }
            Some(act) if under_way.is_none() => {
                let takes = match act {
                    Act::Start { .. } => START_S,
                    _ => 1,
                };
                under_way = Some((act, second + takes));
            }
            _ => {}
        }
    }
    result
}

/// From one load to another between two seconds.
fn ramp(second: u64, from: (u64, f64), to: (u64, f64)) -> f64 {
    let part = (second - from.0) as f64 / (to.0 - from.0) as f64;
    from.1 + part * (to.1 - from.1)
}

#[test]
fn a_ramp_is_followed_up_and_down_and_turns_once() {
    let load = |second: u64| match second {
        0..600 => 30_000.0,
        600..4_200 => ramp(second, (600, 30_000.0), (4_200, 140_000.0)),
        4_200..5_400 => 140_000.0,
        5_400..9_000 => ramp(second, (5_400, 140_000.0), (9_000, 30_000.0)),
        _ => 30_000.0,
    };
    let run = run(2, 14_400, load);
    run.print("ramp 30 K -> 140 K -> 30 K");
    assert_eq!(run.most(), 5);
    assert_eq!(run.at_minute(0), 2);
    assert_eq!(run.at_minute(239), 2);
    assert_eq!(run.turns(), 1);
    assert_eq!(run.changes.len(), 6);
    assert!(run.hours() < 0.75 * (run.most() * 4) as f64);
}

#[test]
fn a_load_that_sits_on_a_threshold_makes_no_flaps() {
    let mut random = SplitMix64::new(41);
    for (threshold, lasts) in [(UPPER, 1), (UPPER, 60), (LOWER, 1), (LOWER, 60)] {
        for servers in [2_usize, 3, 5, 8] {
            // Between 2 % less and 2 % more, for a second or a minute.
            let mut noise = 1.0;
            let run = run(servers, 6 * 3_600, |second| {
                if second % lasts == 0 {
                    noise = random.next_u64() as f64 / u64::MAX as f64 * 0.04 + 0.98;
                }
                threshold * servers as f64 * noise
            });
            run.print(&format!("{servers} servers around {threshold}, {lasts} s"));
            assert!(run.changes.len() <= 1, "{:?}", run.changes);
            assert_eq!(run.changes.len(), usize::from(lasts == 60));
        }
    }
}

/// Whatever a constant load is and whatever the thresholds are, servers come or go, and then none does.
#[test]
fn a_constant_load_comes_to_rest() {
    for lower in [1_000.0, 12_000.0, 24_000.0, 29_999.0] {
        for servers in [1, 3, 7] {
            for step in [1, 3] {
                for load in (1..=20).map(|it| f64::from(it) * 12_500.0) {
                    let settings = ScaleSettings {
                        requests_per_server: Some(Band {
                            lower,
                            upper: UPPER,
                        }),
                        step,
                        ..settings()
                    };
                    let run = run_with(settings, servers, 4 * 3_600, |_| load);
                    let last = run.changes.last().map_or(0, |(at, _)| *at);
                    let told = format!("{lower} {servers} {step} {load}: {:?}", run.changes);
                    assert!(last < 3 * 3_600, "{told}");
                    // A step of three may add one too many, which goes again.
                    assert!(run.turns() < step, "{told}");
                }
            }
        }
    }
}

/// A load that swings as fast as it likes: changes are a cooldown apart all the same.
#[test]
fn changes_are_a_cooldown_apart_whatever_the_load_does() {
    for seed in 0..50 {
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        let mut load = 60_000.0;
        let mut until = 0;
        let run = run(3, 6 * 3_600, |second| {
            if second >= until {
                load = (random.next_u64() % 300_000) as f64;
                until = second + random.next_u64() % 1_200;
            }
            load
        });
        for pair in run.changes.windows(2) {
            let [(before, added), (after, _)] = pair else {
                unreachable!("windows of two");
            };
            let cooldown = if *added { 180 } else { 600 };
            assert!(after - before >= cooldown, "{pair:?}");
        }
    }
}

#[test]
fn a_flash_crowd_gets_a_server_each_few_minutes() {
    let load = |second: u64| match second {
        0..600 => 30_000.0,
        600..610 => ramp(second, (600, 30_000.0), (610, 140_000.0)),
        610..2_400 => 140_000.0,
        _ => 30_000.0,
    };
    let one = run(2, 9_000, load);
    one.print("flash crowd, step 1");
    let by_step = ScaleSettings {
        step: 3,
        ..settings()
    };
    let three = run_with(by_step, 2, 9_000, load);
    three.print("flash crowd, step 3");
    for run in [&one, &three] {
        assert_eq!(run.most(), 5);
        assert_eq!(run.turns(), 1);
        assert_eq!(run.at_minute(149), 2);
    }
    assert!(three.over(UPPER) < one.over(UPPER) / 2);
}
