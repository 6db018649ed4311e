//! The steps of a case.
//!
//! | an application `a` | |
//! |---|---|
//! | `a sends get k`, `a sends bytes get` | lines; bytes without a line's end |
//! | `a sends packets noop`, `a is told 0x0 0 [] =` | in the binary protocol, see `packets.rs` |
//! | `a is read`, `a is not read` | whether the proxy wants more of it |
//! | `a puts get k`, `turn ends` | the proxy reads it, and sends nothing to servers before the turn ends |
//! | `a receives END` | since the last look |
//! | `a is closed`, `a is open`, `a ends`, `a closes` | by the proxy; `ends` closes its own side only |
//! | `b has the place of a` | that has closed |
//!
//! | a server `s1` | |
//! |---|---|
//! | `s1 is asked get k`, `s1 replies END` | greetings left out |
//! | `s1 replies bytes EN`, `s1 replies in bytes EN` | without a line's end; a line, byte by byte |
//! | `s1 always replies EN`, `s1 has replied 3 times` | to whatever key it is asked for, while time passes |
//! | `someone is asked get k`, `that one replies END` | one server and no other, and the same again |
//! | `s1 refuses`, `hangs`, `is silent`, `greets` | what it does when it is connected to, see [`Connecting`] |
//! | `s1 breaks off`, `takes no bytes` | its connection ends, or stands still |
//! | `s1 comes back` | it greets again, and time passes until it is in use |
//! | `s1 is connected`, `is unconnected`, `is up`, `is down` | |
//! | `s1 was tried 2` | this many times a connection was asked for |
//! | `s1 is worker of 2`, `is at epoch 7`, `leases for 500` | which server it is, what map it knows, how many ms a lease is |
//! | `s1 is version 1.5.22`, `has no uniques` | a memcached without meta commands; one that was started with `-C` |
//! | `s1 has 1000 bytes`, `has no statistics` | of memory, as it says; it does not say that |
//!
//! `s1 is asked get k => END` is `s1 is asked get k` and then `s1 replies END`; `a sends get k => END` is to receive that.
//!
//! | everybody | |
//! |---|---|
//! | `wait 100` | milliseconds, deadline by deadline |
//! | `map 2: all at s2, s2 anew at s12` | see [`document`] |
//! | `maps wanted 2 7` | epochs, since the last look |
//! | `step 2 quiesced`, `step none`, `acknowledged 2` | what the coordinator of the first pool says, and is told since the last look |
//! | `plan 1`, `plan 2 k>s2 l>s1`, `plan 3 instead of 2 k>s1` | the plan of the first pool's ring that steps are of from now on: the ring
//!   that its list is, and then these keys move; the ring behind the plan before, or the same in its stead |
//! | `plan 2 joins`, `plan 2 s1 goes`, `plan 2 s1 is lost` | a server more gets half of all; one gives all it has |
//! | `unreached s1`, `unreached nobody` | what the coordinator is told of servers that are out of use |
//! | `room is 1000` | bytes that there are for copies of answers |
//! | `now allow_flush` | the configuration changes |
//! | `count get_misses 2`, `count timeouts 1 at s1` | counts since the start |
//! | `the proxy knows 2 servers`, `no time is waited for`, `the proxy shows its statistics` | |

use super::keys::{INCARNATION, Keys, is_count, is_like, lines, unescape};
use super::packets::{request, told};
use super::setup::{Setup, change, port};
use crate::tests::world::{Connecting, World, map, placement};
use crate::{ClientId, ProcessStats, ProxyStats};
use core::fmt::Debug;
use evenkeel_control::rings::{RingMove, RingPlan, ServerChange};
use evenkeel_placement::pool::Placement;
use evenkeel_placement::ring::{Ring, RingDocument};
use evenkeel_schemes::stage::Step;
use evenkeel_types::map::{ClusterMap, MapDocument, Migration};
use evenkeel_types::{BootId, CacheletId, ServerId, WorkerRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Ports that servers may have.
const PORTS: core::ops::RangeInclusive<u16> = 101..=299;

/// A case that is being told.
pub struct Stage {
    world: World,
    keys: Keys,
    clients: BTreeMap<String, ClientId>,
    /// Where those were that have closed.
    gone: BTreeMap<String, ClientId>,
    /// The server that was asked as `someone`.
    someone: Option<u16>,
    /// What servers always reply, and how often they did.
    habits: BTreeMap<u16, (String, u64)>,
}

impl Stage {
    /// The beginning.
    pub fn new(setup: Setup) -> Self {
        let (world, keys) = setup.build();
        Stage {
            world,
            keys,
            clients: BTreeMap::new(),
            gone: BTreeMap::new(),
            someone: None,
            habits: BTreeMap::new(),
        }
    }

    /// Does what a step says, or says what was expected and what came.
    pub fn step(&mut self, step: &str) -> Result<(), String> {
        let step = self.keys.expand(step)?;
        let Some((first, then)) = step.split_once(" => ") else {
            return self.one(&step);
        };
        self.one(first)?;
        let words: Vec<&str> = first.split_whitespace().collect();
        match words[..] {
            ["someone", "is", "asked", ..] | ["that", "one", "is", "asked", ..] => {
                self.one(&format!("that one replies {then}"))
            }
            [who, "is", "asked", ..] => self.one(&format!("{who} replies {then}")),
            [who, "sends", "packets", ..] => self.one(&format!("{who} is told {then}")),
            [who, "sends", ..] => self.one(&format!("{who} receives {then}")),
            _ => Err("  what is behind this arrow?".to_owned()),
        }
    }

    fn one(&mut self, step: &str) -> Result<(), String> {
        let (first, rest) = step.split_once(' ').ok_or("half a step")?;
        let rest = rest.trim_start();
        let words: Vec<&str> = rest.split_whitespace().collect();
        match (first, &words[..]) {
            ("wait", [ms]) => self.wait(ms.parse().map_err(|_| "how long?")?),
            ("map", _) => {
                let document = document(rest, self.keys.servers)?;
                let map = ClusterMap::new(document).map_err(|error| format!("{error:?}"))?;
                self.world.set_map(&Arc::new(map));
            }
            ("maps", ["wanted", epochs @ ..]) => {
                let wanted = std::mem::take(&mut self.world.wanted);
                let wanted: Vec<String> = wanted.iter().map(|epoch| epoch.0.to_string()).collect();
                same(&wanted.join(" "), &epochs.join(" "))?;
            }
            ("step", ["none"]) => self.world.set_step(None),
            ("step", [version, stage]) => {
                let version = version.parse().map_err(|_| "which version?")?;
                let mut stages = evenkeel_schemes::stage::Stage::ALL.into_iter();
                let stage = stages.find(|it| it.as_str() == *stage);
                let stage = stage.ok_or("which stage?")?;
                self.world.set_step(Some(Step { version, stage }));
            }
            ("plan", [number, words @ ..]) => {
                let number = number.parse().map_err(|_| "which number?")?;
                let plan = plan(self.world.plan.take(), self.keys.servers, number, words)?;
                self.world.plan = Some(plan);
            }
            ("acknowledged", versions) => {
                let acknowledged = std::mem::take(&mut self.world.acknowledged);
                let acknowledged: Vec<String> =
                    acknowledged.iter().map(ToString::to_string).collect();
                let versions = versions.iter().filter(|word| **word != "nothing");
                same(
                    acknowledged.join(" "),
                    versions.copied().collect::<Vec<_>>().join(" "),
                )?;
            }
            ("unreached", servers) => {
                let unreached = self.world.unreached.iter();
                let unreached: Vec<String> = unreached.map(|at| format!("s{}", at + 1)).collect();
                let servers = servers.iter().filter(|word| **word != "nobody");
                same(
                    unreached.join(" "),
                    servers.copied().collect::<Vec<_>>().join(" "),
                )?;
            }
            ("now", words) => {
                let mut changed = Ok(());
                let change = |config: &mut _| changed = change(config, words);
                self.world.configure(change);
                changed?;
            }
            ("room", ["is", bytes]) => {
                let bytes = bytes.parse().map_err(|_| "how many bytes?")?;
                self.world.core.set_room(bytes);
            }
            ("turn", ["ends"]) => self.world.pump(),
            ("count", [name, count]) => {
                let mut shown = ProxyStats::MEMCACHED.iter().chain(ProxyStats::PROXY);
                let shown = shown.find(|it| it.name == *name).ok_or("  no such count")?;
                expect_count((shown.value)(self.world.core.stats()), count)?;
            }
            ("count", [name, count, "at", server]) => {
                expect_count(self.count_at(port(server)?, name)?, count)?;
            }
            ("the", ["proxy", "knows", count, "server" | "servers"]) => {
                expect_count(self.world.core.backends().len() as u64, count)?;
            }
            ("the", ["proxy", "shows", "its", "statistics"]) => self.show_statistics(),
            ("no", ["time", "is", "waited", "for"]) => {
                let deadline = self.world.core.poll_deadline();
                same(deadline, None)?;
            }
            ("someone", ["is", "asked", ..]) => {
                let asked: Vec<u16> = PORTS.filter(|port| self.world.has_asked(*port)).collect();
                let [port] = asked[..] else {
                    return Err(format!("  one server was to be asked, and {asked:?} were"));
                };
                self.someone = Some(port);
                self.server(port, rest, &words)?;
            }
            ("that", ["one", words @ ..]) => {
                let port = self.someone.ok_or("  which one?")?;
                self.server(port, behind(rest, 1), words)?;
            }
            (name, _) => match port(name) {
                Ok(port) => self.server(port, rest, &words)?,
                Err(_) => self.client(name, rest, &words)?,
            },
        }
        Ok(())
    }

    fn server(&mut self, port: u16, step: &str, words: &[&str]) -> Result<(), String> {
        let world = &mut self.world;
        let number = |word: &str| word.parse::<u16>().map_err(|_| format!("  {word:?}?"));
        match words {
            ["is", "asked", ..] => expect(&world.asked(port), behind(step, 2))?,
            ["always", "replies", ..] => {
                self.habits.insert(port, (lines(behind(step, 2))?, 0));
            }
            ["has", "replied", count, "times"] => {
                let (_, replied) = self.habits.get(&port).ok_or("  it has no habit")?;
                expect_count(*replied, count)?;
            }
            ["replies", "bytes", ..] => world.reply(port, unescape(behind(step, 2))?),
            ["replies", "in", "bytes", ..] => {
                let reply = lines(behind(step, 3))?;
                reply.bytes().for_each(|byte| world.reply(port, [byte]));
            }
            ["replies", ..] => world.reply(port, lines(behind(step, 1))?),
            ["refuses"] => world.connecting(port, Connecting::Refuses),
            ["hangs"] => world.connecting(port, Connecting::Hangs),
            ["greets"] => world.connecting(port, Connecting::Greets),
            ["is", "silent"] => world.connecting(port, Connecting::Silent),
            ["breaks", "off"] => world.drop_connection(port),
            ["takes", "no", "bytes"] => world.stop_writing(port),
            ["comes", "back"] => world.come_back(port),
            ["is", "connected"] => same(world.is_connected(port), true)?,
            ["is", "unconnected"] => same(world.is_connected(port), false)?,
            ["is", state @ ("up" | "down")] => same(world.state(port), *state)?,
            ["was", "tried", count] => expect_count(world.attempts(port).into(), count)?,
            ["is", "worker", "of", server] => world.worker(port, number(server)?),
            ["leases", "for", ms] => world.lease_ms(port, ms.parse().map_err(|_| "how long?")?),
            ["is", "at", "epoch", epoch] => world.epoch(port, number(epoch)?.into()),
            ["is", "version", "1.5.22"] => world.version(port, "1.5.22"),
            ["has", "no", "uniques"] => world.version(port, "without uniques"),
            ["has", "no", "statistics"] => world.statistics(port, "ERROR\r\n".to_owned()),
            ["has", bytes, "bytes"] => {
                let stats = format!("STAT limit_maxbytes {bytes}\r\nEND\r\n");
                world.statistics(port, stats);
            }
            _ => return Err("  no server does this".to_owned()),
        }
        Ok(())
    }

    fn client(&mut self, name: &str, step: &str, words: &[&str]) -> Result<(), String> {
        let world = &mut self.world;
        let known = self.clients.entry(name.to_owned());
        let id = *known.or_insert_with(|| world.client());
        match words {
            ["sends", "bytes", ..] => world.send(id, unescape(behind(step, 2))?),
            ["sends", "packets", ..] => {
                let packets = unescape(behind(step, 2))?;
                let packets: Result<Vec<_>, _> = packets.split(" | ").map(request).collect();
                world.send(id, packets?.concat());
            }
            ["sends", ..] => world.send(id, lines(behind(step, 1))?),
            ["is", "told", ..] => expect(&told(&world.received_bytes(id))?, behind(step, 2))?,
            ["is", "read"] => same(world.core.client_wants_input(id), true)?,
            ["is", "not", "read"] => same(world.core.client_wants_input(id), false)?,
            ["puts", ..] => world.put(id, lines(behind(step, 1))?),
            ["receives", ..] => expect(&world.received(id), behind(step, 1))?,
            ["is", "closed"] => same(world.is_closed(id), true)?,
            ["is", "open"] => same(world.is_closed(id), false)?,
            ["ends"] => world.end(id),
            ["closes"] => {
                world.close(id);
                self.clients.remove(name);
                self.gone.insert(name.to_owned(), id);
            }
            ["has", "the", "place", "of", other] => {
                let other = self.gone.get(*other).ok_or("  it has not closed")?;
                same(id.0.slot, other.0.slot)?;
            }
            _ => return Err("  there is no such step".to_owned()),
        }
        Ok(())
    }

    fn count_at(&self, port: u16, name: &str) -> Result<u64, String> {
        let servers = self.world.core.backends();
        let server = servers.iter().find(|server| server.port == port);
        let server = server.ok_or("  the proxy does not know it")?;
        let counters = format!("{:?}", server.counters);
        let mut words = counters.split([' ', ',']);
        words.find(|word| word.strip_suffix(':') == Some(name));
        let count = words.next().and_then(|count| count.parse().ok());
        count.ok_or("  no such count".to_owned())
    }

    fn show_statistics(&mut self) {
        let core = &mut self.world.core;
        let process = ProcessStats {
            totals: *core.stats(),
            backends: core.backends(),
            ..ProcessStats::default()
        };
        for ticket in std::mem::take(&mut self.world.stats_asked) {
            core.answer_stats(self.world.now, ticket, &process);
        }
        self.world.pump();
    }

    /// Time passes, and who always replies the same does so every 20 ms.
    fn wait(&mut self, ms: u64) {
        let mut left = ms;
        loop {
            self.reply_as_always();
            let step = if self.habits.is_empty() {
                left
            } else {
                left.min(20)
            };
            self.world.wait_ms(step);
            left -= step;
            if left == 0 {
                return self.reply_as_always();
            }
        }
    }

    fn reply_as_always(&mut self) {
        for (port, (reply, count)) in &mut self.habits {
            let asked = self.world.asked(*port);
            let is_for_a_key = |line: &&str| line.starts_with("mg ") || line.starts_with("ms ");
            for _ in asked.lines().filter(is_for_a_key) {
                self.world.reply(*port, &reply);
                *count += 1;
            }
        }
    }

    /// Nothing is left that nobody has looked at.
    pub fn end(&mut self) -> Result<(), String> {
        for port in PORTS {
            let asked = self.world.asked(port);
            expect(&asked, "nothing")
                .map_err(|why| format!("  asked of s{}:\n{why}", port - 100))?;
        }
        for (name, id) in &self.clients {
            let received = self.world.received(*id);
            expect(&received, "nothing").map_err(|why| format!("  received by {name}:\n{why}"))?;
        }
        Ok(())
    }
}

/// What comes behind this many words.
fn behind(step: &str, words: usize) -> &str {
    (0..words).fold(step, |rest, _| {
        rest.split_once(' ')
            .map_or("", |(_, rest)| rest.trim_start())
    })
}

fn expect(came: &str, expected: &str) -> Result<(), String> {
    let is_expected = match expected {
        "" => return Err("  expected what?".to_owned()),
        "whatever" => true,
        "something" => !came.is_empty(),
        _ => is_like(&lines(expected)?, came),
    };
    if is_expected {
        Ok(())
    } else {
        Err(differs(expected, came))
    }
}

fn same<T: PartialEq + Debug>(came: T, expected: T) -> Result<(), String> {
    if came == expected {
        Ok(())
    } else {
        Err(differs(expected, came))
    }
}

fn differs(expected: impl Debug, came: impl Debug) -> String {
    format!("  expected {expected:?}\n  came     {came:?}")
}

fn expect_count(count: u64, expected: &str) -> Result<(), String> {
    match is_count(expected, count)? {
        true => Ok(()),
        false => Err(differs(expected, count.to_string())),
    }
}

/// A map: `EPOCH: CLAUSE, …`. Cachelet n is at server n % servers + 1 unless a clause says otherwise: `3 servers`, `all at s2`,
/// `nobody owns anything`, `nobody owns 7`, `7 is quarantined`, `s2 anew at s12` (another process, at that port), `s3 is down`,
/// `0 migrates to s3`.
fn document(text: &str, mut servers: u16) -> Result<MapDocument, String> {
    let (epoch, clauses) = text.split_once(':').ok_or("map EPOCH: …")?;
    let epoch = epoch.parse().map_err(|_| "which epoch?")?;
    let clauses: Vec<Vec<&str>> = clauses
        .split(',')
        .map(|clause| clause.split_whitespace().collect())
        .collect();
    let number = |text: &str| {
        text.parse::<u16>()
            .map_err(|_| format!("{text:?} is no number"))
    };
    let (mut all_at, mut later) = (None, Vec::new());
    for clause in &clauses {
        match clause[..] {
            [count, "server" | "servers"] => servers = number(count)?,
            ["all", "at", server] => all_at = Some(port(server)? - 100),
            _ => later.push(&clause[..]),
        }
    }
    let owner = |cachelet| all_at.unwrap_or(cachelet % servers + 1);
    let mut document = map(epoch, servers, owner).document().clone();
    for clause in later {
        match *clause {
            ["nobody", "owns", "anything"] => document.cachelets.fill(None),
            ["nobody", "owns", cachelet] => {
                document.cachelets[usize::from(number(cachelet)?)] = None
            }
            [cachelet, "is", "quarantined"] => {
                let cachelet = number(cachelet)?;
                document.cachelets[usize::from(cachelet)] = None;
                document.quarantined.push(CacheletId(cachelet));
            }
            [server, "anew", "at", place] => {
                let entry = &mut document.servers[usize::from(port(server)? - 101)];
                (entry.worker_ports, entry.boot) = (vec![port(place)?], BootId(2));
            }
            [server, "is", "down"] => {
                document.servers[usize::from(port(server)? - 101)].up = false;
            }
            [cachelet, "migrates", "to", server] => document.migrations.push(Migration {
                cachelet: CacheletId(number(cachelet)?),
                to: WorkerRef {
                    server: ServerId(port(server)? - 100),
                    worker: 0,
                },
                began: document.epoch,
                cancelled: false,
                bytes_per_second: 0,
            }),
            _ => return Err(format!("  what of the map is {clause:?}?")),
        }
    }
    Ok(document)
}

/// The plan of a ring behind another one.
fn plan(
    before: Option<RingPlan>,
    servers: u16,
    number: u64,
    words: &[&str],
) -> Result<RingPlan, String> {
    let known = before
        .as_ref()
        .map_or(servers, |before| before.placement.servers.len() as u16);
    let comes = u16::from(matches!(words, ["joins"]));
    let placement = placement(101..=100 + known + comes);
    let (ring, words) = match (before, words) {
        (None, []) => (Ring::adopt(&placement).map_err(|e| e.to_string())?, words),
        (Some(before), ["instead", "of", _, words @ ..]) => {
            let skipped = before.moved().map_err(|error| error.to_string())?;
            let document = RingDocument {
                generation: skipped.generation(),
                ..before.ring.into()
            };
            let ring = Ring::try_from(document).map_err(|error| error.to_string())?;
            (ring, words)
        }
        (Some(before), words) => (before.moved().map_err(|error| error.to_string())?, words),
        (None, _) => return Err("the first plan moves nothing".to_owned()),
    };
    let list = Placement::new(&placement).map_err(|error| error.to_string())?;
    let server = match words {
        ["joins"] => Some(ServerChange::Joins {
            server: known,
            gives: vec![5_000; known.into()],
        }),
        [gone, "goes"] | [gone, "is", "lost"] => Some(ServerChange::Leaves {
            server: port(gone)? - 101,
            costs: vec![1; known.into()],
            is_lost: words.len() > 2,
        }),
        _ => None,
    };
    let words = if server.is_some() { &[] } else { words };
    let moves = words.iter().map(|word| {
        let (key, to) = word.split_once('>').ok_or("KEY>SERVER")?;
        let hash = list.hashed(unescape(key)?.as_bytes()).1 as u32;
        Ok(RingMove {
            first: hash,
            last: hash,
            to: port(to)? - 101,
        })
    });
    Ok(RingPlan {
        number,
        incarnation: INCARNATION,
        moves: moves.collect::<Result<_, String>>()?,
        placement,
        ring,
        server,
    })
}
