//! Mishaps: everything that goes wrong, or changes.

use super::*;
use crate::config::Mode;

impl World {
    pub(super) fn mishap(&mut self) {
        let (least, most) = match self.plan.turmoil {
            _ if self.is_long() => (600, 15_000),
            Turmoil::Mixed => (10, 250),
            Turmoil::Links | Turmoil::Maps => (5, 50),
        };
        self.after(least * MS, most * MS, Event::Mishap);
        let server = self.random.below(SERVERS as u64) as usize;
        let key = self.random.below(KEYS.len() as u64) as usize;
        let any = self.chance(1, 8);
        let kind = match self.plan.turmoil {
            Turmoil::Links if !any => 5,
            Turmoil::Maps if !any => 16,
            _ => self.random.below(20),
        };
        match kind {
            0..3 => {
                let home = self.map().locate(KeyHash::of(KEYS[key])).worker;
                let home = home.map_or(server, |home| usize::from(home.server.0));
                if self.servers[home].items.remove(&key).is_some() {
                    self.report.count("items evicted");
                }
            }
            3..5 => {
                self.servers[server].replicas.remove(&key);
            }
            5..9 => self.break_link(server),
            9..12 => self.break_connection(server),
            12..14 => self.crash(server),
            14 => self.flush(server),
            15 => self.change_map(|_, _| {}),
            16..18 => {
                let alive: Vec<usize> = (0..SERVERS).filter(|&s| self.servers[s].alive).collect();
                let to = alive[self.random.below(alive.len() as u64) as usize];
                self.change_map(|document, random| {
                    let cachelet = random.below(document.cachelets.len() as u64) as usize;
                    document.cachelets[cachelet] = Some(worker(to));
                });
            }
            18 => self.switch_mode(server),
            _ => {}
        }
    }

    pub(super) fn break_link(&mut self, home: usize) {
        let shadow = self.random.below(SERVERS as u64) as usize;
        let swallow = self.chance(1, 2);
        let link = &mut self.servers[home].links[shadow];
        if !link.up || link.broken {
            return;
        }
        link.broken = true;
        let (generation, boot) = (link.generation, self.servers[home].boot);
        if swallow {
            self.drop_events(
                |event| matches!(event, Event::Propagate { generation: g, .. } if *g == generation),
            );
        }
        self.after(
            0,
            150 * MS,
            Event::LinkLost {
                home,
                shadow,
                boot,
                generation,
            },
        );
    }

    /// A proxy loses a connection; what is under way fails, though the server may still do it.
    pub(super) fn break_connection(&mut self, server: usize) {
        let proxies = self.plan.proxies();
        let proxy = self.random.below(proxies as u64) as usize;
        let swallow = self.chance(1, 2);
        let p = &mut self.proxies[proxy];
        let old = p.connections[server].generation;
        p.connections[server] = Connection {
            generation: old + 1,
            busy_until: [0; 2],
        };
        let concerned = move |event: &Event, asks: bool| match event {
            Event::Ask {
                client: c,
                server: s,
                generation,
                ..
            } => asks && (*c % proxies, *s, *generation) == (proxy, server, old),
            Event::Answer {
                client: c,
                server: s,
                generation,
                ..
            } => !asks && (*c % proxies, *s, *generation) == (proxy, server, old),
            _ => false,
        };
        let mut failed: Vec<(usize, u64)> = Vec::new();
        for event in self.events.iter().flatten() {
            if let Event::Ask { client, number, .. } | Event::Answer { client, number, .. } = event
                && (concerned(event, true) || concerned(event, false))
            {
                failed.push((*client, *number));
            }
        }
        if swallow {
            self.drop_events(|event| concerned(event, true));
        }
        self.drop_events(|event| concerned(event, false));
        for (client, number) in failed {
            let event = Event::Answer {
                client,
                server,
                generation: old + 1,
                number,
                reply: FAILED,
            };
            self.after(0, MS, event);
        }
    }

    pub(super) fn crash(&mut self, server: usize) {
        if !self.servers[server].alive || self.servers.iter().filter(|s| s.alive).count() < 3 {
            return;
        }
        self.servers[server].alive = false;
        let hot = &self.servers[server].hot;
        self.report.take_moves(hot);
        self.report.count("crashes");
        for home in (0..SERVERS).filter(|&home| home != server) {
            let link = &mut self.servers[home].links[server];
            if link.up && !link.broken {
                link.broken = true;
                let (generation, boot) = (link.generation, self.servers[home].boot);
                let event = Event::LinkLost {
                    home,
                    shadow: server,
                    boot,
                    generation,
                };
                self.after(0, 100 * MS, event);
            }
        }
        // Noticed by the coordinator, or back before it notices.
        self.after(50 * MS, 400 * MS, Event::MoveAway { server });
        self.after(30 * MS, 900 * MS, Event::Restart { server });
    }

    pub(super) fn flush(&mut self, server: usize) {
        let s = &mut self.servers[server];
        if !s.alive {
            return;
        }
        s.counter += 1;
        s.items.clear();
        for key in 0..KEYS.len() {
            if s.home_since[key].is_some() {
                self.histories[key].since.push(self.time);
            }
        }
        s.hot.handle_flush(s.clock.read(self.time));
        self.pump(server);
    }

    pub(super) fn switch_mode(&mut self, server: usize) {
        let s = &mut self.servers[server];
        if s.alive {
            let now = s.clock.read(self.time);
            s.hot.set_mode(now, Mode::Off);
            s.hot.set_mode(now, Mode::On);
            self.pump(server);
        }
    }

    /// Every server learns of a new map at once, so that no key ever has two homes; clients later.
    pub(super) fn change_map(&mut self, edit: impl FnOnce(&mut MapDocument, &mut SplitMix64)) {
        let mut document = self.map().document().clone();
        document.epoch.0 += 1;
        edit(&mut document, &mut self.random);
        let epoch = document.epoch;
        self.maps.push(Arc::new(ClusterMap::new(document).unwrap()));
        let map = self.map();
        for server in 0..SERVERS {
            let s = &mut self.servers[server];
            if !s.alive {
                continue;
            }
            for (key, since) in s.home_since.iter_mut().enumerate() {
                let home = map.locate(KeyHash::of(KEYS[key])).worker == Some(worker(server));
                *since = home.then_some(since.unwrap_or(map.epoch()));
                if !home {
                    // It must not be served when this server is its home again.
                    s.items.remove(&key);
                }
            }
            s.map = map.clone();
            s.hot
                .handle_map(s.clock.read(self.time), map.clone(), worker(server));
            self.pump(server);
        }
        for proxy in 0..self.plan.proxies() {
            self.after(0, 300 * MS, Event::LearnMap { proxy, epoch });
        }
        self.report.count("maps");
    }
}

/// Gives the cachelets of a server to others that are up.
pub(super) fn move_cachelets(document: &mut MapDocument, random: &mut SplitMix64, server: usize) {
    let up: Vec<ServerId> = document
        .servers
        .iter()
        .filter(|s| s.up)
        .map(|s| s.id)
        .collect();
    for owner in &mut document.cachelets {
        if *owner == Some(worker(server)) {
            let to = up[random.below(up.len() as u64) as usize];
            *owner = Some(WorkerRef {
                server: to,
                worker: 0,
            });
        }
    }
}
