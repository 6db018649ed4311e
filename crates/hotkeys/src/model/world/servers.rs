//! Servers: homes and shadows of keys, and the connections between them.

use super::*;
use crate::replication::REPLICA_LIFETIME;
use crate::shadow::{Stamp, Verdict};

impl World {
    pub(super) fn serve(&mut self, server: usize, request: Request) -> Reply {
        let (time, fault) = (self.time, self.plan.fault);
        let s = &mut self.servers[server];
        if !s.alive {
            return FAILED;
        }
        let now = s.clock.read(time);
        let (Request::Read { key, epoch, .. } | Request::Write { key, epoch, .. }) = request;
        let hash = KeyHash::of(KEYS[key]);
        // Who sent a request by an older map may have been answered by another home since.
        let any_epoch = fault == Some(Fault::OldEpochsServed);
        let at_home = s.home_since[key].is_some_and(|since| since <= epoch || any_epoch);
        let position = self.histories[key].position();
        let reply = match request {
            Request::Read { replica: true, .. } => {
                let replica = s
                    .replicas
                    .get(&key)
                    .filter(|replica| time < replica.expires_at);
                let hit = |r: &Replica| Reply {
                    answer: Answer::Hit(r.item.version),
                    position: r.item.position,
                    grant: None,
                };
                replica.map_or(
                    Reply {
                        answer: Answer::Miss(None),
                        position,
                        grant: None,
                    },
                    hit,
                )
            }
            _ if !at_home => FAILED,
            Request::Read { epoch, .. } => {
                let item = s.items.get(&key);
                let reader = Reader::Aware { epoch };
                let advice = s
                    .hot
                    .handle_read(now, hash, KEYS[key], reader, item.map(|_| 1));
                let answer = match item {
                    Some(item) => Answer::Hit(item.version),
                    None => Answer::Miss(advice.replicated.then_some(Version(s.counter))),
                };
                let position = item.map_or(position, |item| item.position);
                Reply {
                    answer,
                    position,
                    grant: advice.grant(Duration::from_nanos(LEASE)),
                }
            }
            Request::Write { kind, .. } => {
                s.counter += 1;
                let version = Version(s.counter);
                self.histories[key].since.push(time);
                let position = position + 1;
                match kind {
                    WriteKind::Update => s.items.insert(key, Item { version, position }),
                    WriteKind::Delete => s.items.remove(&key),
                };
                if fault != Some(Fault::WritesUntold) {
                    s.hot.handle_write(now, hash, KEYS[key], kind);
                }
                Reply {
                    answer: match kind {
                        WriteKind::Update => Answer::Hit(version),
                        WriteKind::Delete => Answer::Miss(Some(version)),
                    },
                    position,
                    grant: None,
                }
            }
        };
        self.pump(server);
        reply
    }

    /// Executes what the hot keys of a server want.
    pub(super) fn pump(&mut self, server: usize) {
        loop {
            let s = &mut self.servers[server];
            let now = s.clock.read(self.time);
            let Some(output) = s.hot.poll_output() else {
                break;
            };
            let (Output::Store(m) | Output::Block(m) | Output::Remove(m)) = output;
            let key = KEYS
                .iter()
                .position(|key| *key == m.key)
                .expect("the key is one of ours");
            let (target, epoch, tag) = (m.target, m.epoch, m.tag);
            let shadow = usize::from(target.server.0);
            let item = match output {
                Output::Store(_) => match s.items.get(&key) {
                    Some(&item) => Some(item),
                    None => {
                        s.hot.handle_absent(now, target, tag);
                        continue;
                    }
                },
                Output::Block(_) | Output::Remove(_) => None,
            };
            let version = item.map_or(Version(s.counter), |item| item.version);
            self.send(
                server,
                shadow,
                Propagation {
                    key,
                    item,
                    epoch,
                    version,
                    tag,
                },
            );
        }
        self.arm(server);
    }

    pub(super) fn send(&mut self, home: usize, shadow: usize, message: Propagation) {
        let boot = self.servers[home].boot;
        if !self.servers[home].links[shadow].up {
            self.generations += 1;
            let reachable = self.servers[shadow].alive && !self.chance(1, 5);
            let link = &mut self.servers[home].links[shadow];
            link.generation = self.generations;
            link.up = true;
            link.broken = !reachable;
            link.busy_until = [0; 2];
            if !reachable {
                let generation = link.generation;
                self.after(
                    MS,
                    20 * MS,
                    Event::LinkLost {
                        home,
                        shadow,
                        boot,
                        generation,
                    },
                );
            }
        }
        let delay = self.delay();
        let time = self.time;
        let link = &mut self.servers[home].links[shadow];
        if link.broken {
            return;
        }
        let generation = link.generation;
        let at = queue_up(&mut link.busy_until[0], time + delay);
        self.at(
            at,
            Event::Propagate {
                home,
                shadow,
                generation,
                boot,
                message,
            },
        );
    }

    pub(super) fn receive(
        &mut self,
        home: usize,
        shadow: usize,
        generation: u64,
        boot: u64,
        m: Propagation,
    ) {
        let full = self.chance(1, 60);
        let time = self.time;
        let s = &mut self.servers[shadow];
        // A newer connection from the same peer closes the older ones unread.
        if !s.alive || generation < s.heard[home] {
            return;
        }
        s.heard[home] = generation;
        let accepted = s.apply(time, m, full, self.plan.fault);
        if !accepted {
            self.report.count(if full {
                "replicas refused: full"
            } else {
                "replicas refused: old"
            });
        }
        let of = if self.plan.turmoil == Turmoil::Links {
            5
        } else {
            100
        };
        if self.chance(1, of) {
            self.servers[shadow].replicas.remove(&m.key);
            self.report.count("replicas evicted");
        }
        let delay = self.delay();
        let h = &mut self.servers[home];
        if h.boot == boot && h.links[shadow].generation == generation {
            let at = queue_up(&mut h.links[shadow].busy_until[1], time + delay);
            self.at(
                at,
                Event::Confirm {
                    home,
                    shadow,
                    generation,
                    tag: m.tag,
                    accepted,
                },
            );
        }
    }

    pub(super) fn new_server(&mut self, server: usize) -> Server {
        // A counter starts from the wall clock, which differs between servers.
        let counter = (self.time / MS + self.random.below(2000)) << 20;
        let config = HotKeysConfig {
            lease: Duration::from_nanos(LEASE),
            sampling: Some(1.0),
            write_weight: 3.0,
            copy_share: 0.05,
            entries_max: 2,
            replicated_max: 2,
            trigger: TriggerConfig {
                absolute_rps: Some(10.0),
                ..TriggerConfig::default()
            },
            ..HotKeysConfig::default()
        };
        let clock = Clock::random(&mut self.random);
        let now = clock.read(self.time);
        let mut hot = HotKeys::new(config, self.random.next_u64(), now).unwrap();
        if let Some(Fault::Server(mutant)) = self.plan.fault {
            hot.mutant = Some(mutant);
        }
        hot.handle_map(now, self.map(), worker(server));
        // Nobody can have learned of this life from an older map.
        let home = |key: &[u8]| self.map().locate(KeyHash::of(key)).worker == Some(worker(server));
        let home_since = KEYS.map(|key| home(key).then_some(self.map().epoch()));
        Server {
            boot: self.time,
            alive: true,
            clock,
            map: self.map(),
            hot,
            items: BTreeMap::new(),
            home_since,
            replicas: BTreeMap::new(),
            counter,
            links: (0..SERVERS).map(|_| Link::default()).collect(),
            heard: [0; SERVERS],
            newest_heard: NewestHeard::default(),
            tick_at: u64::MAX,
        }
    }

    pub(super) fn arm(&mut self, server: usize) {
        let s = &mut self.servers[server];
        let at = s.clock.time_of(s.hot.poll_deadline()).max(self.time);
        if at < s.tick_at {
            s.tick_at = at;
            let boot = s.boot;
            self.at(at, Event::Tick { server, boot });
        }
    }
}

impl Server {
    /// What comes of an order by the shadow's rule. A replica that cannot be held is not kept older.
    pub(super) fn apply(
        &mut self,
        time: u64,
        m: Propagation,
        full: bool,
        fault: Option<Fault>,
    ) -> bool {
        let by_epoch = fault != Some(Fault::EpochIgnored);
        let stamp = |epoch, version| Stamp {
            epoch: if by_epoch { epoch } else { Epoch(0) },
            version,
        };
        let held = self.replicas.get(&m.key);
        let held = held.map(|held| stamp(held.epoch, held.item.version));
        let mut forgetful = NewestHeard::default();
        let heard = match fault {
            Some(Fault::FormerHomesHeard) => &mut forgetful,
            _ => &mut self.newest_heard,
        };
        match heard.judge(stamp(m.epoch, m.version), held) {
            Verdict::Applies => {}
            Verdict::FormerMap => return false,
            Verdict::Outdated => return !by_epoch,
        }
        if full && fault == Some(Fault::RefusalsIgnored) {
            return true;
        }
        self.replicas.remove(&m.key);
        let expires_at = time + REPLICA_LIFETIME.as_nanos() as u64;
        match m.item {
            Some(_) if full => return false,
            Some(item) => {
                self.replicas.insert(
                    m.key,
                    Replica {
                        expires_at,
                        epoch: m.epoch,
                        item,
                    },
                );
            }
            None => {}
        }
        true
    }
}
