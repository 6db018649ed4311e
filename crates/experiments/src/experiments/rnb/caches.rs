//! Requests of a social graph to servers whose memory does not hold all copies (section III-D).
//!
//! Every server has room for the items whose home it is, and as much again for copies as the memory of the fleet is above
//! 1.0 times the items. All items are equally large and nothing is ever written, as in the paper. A copy that was
//! asked for and is not there is asked for at its home, in a second round, and then stored where it was asked for first.

use super::bundles::{Items, Tally};
use crate::experiments::lru::Lru;
use crate::run::Run;
use evenkeel_placement::cover::Cover;
use evenkeel_workload::{Graph, rng};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Setting {
    /// Copies of an item, the home's included.
    pub copies: usize,
    /// Memory of all servers, by what all items take once.
    pub memory: f64,
    pub rule: Rule,
    /// Whether an item that is asked for at a copy is also asked for at all other servers of its own that the request asks
    /// anyway (hitchhiking, section III-C).
    pub riders: bool,
    /// Users' requests that are covered as one (section III-E).
    pub merged: u32,
}

/// Whom copies share a server's memory with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Nobody: they take what ordinary items leave, and drop no other than each other.
    Apart,
    /// Ordinary items: both are dropped by when they were asked for last, as memcached does.
    Together,
}

/// What was found, after the caches had been warmed.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Transactions of reads, both rounds.
    pub tally: Tally,
    /// Those of second rounds.
    pub second: u64,
    /// Copies that were stored.
    pub fills: u64,
    /// Items that were not at home either: a database is asked.
    pub lost: u64,
    /// Items that were asked for, each as often as it was.
    pub items: u64,
}

impl Found {
    /// Transactions by this many for a request, and behind them in brackets the copies that are stored for one.
    pub fn shown(&self, plain: f64) -> String {
        let fills = self.by_request(self.fills);
        format!("{:.2} ({fills:.2})", self.tally.tpr() / plain)
    }

    /// How many of something a user's request has.
    pub fn by_request(&self, count: u64) -> f64 {
        count as f64 / self.tally.requests as f64
    }
}

/// By scale: requests that warm the caches, for each user; and for how many users there is one that counts.
pub(super) const WARMING: [u64; 4] = [1, 2, 4, 8];
pub(super) const COUNTED: [u64; 4] = [4, 2, 1, 1];

/// What the settings of a report say of the requests.
pub(super) fn requests(run: &Run) -> String {
    format!(
        "for the items of all friends of users drawn uniformly: {} for each user to warm the caches, then 1 for every {} users",
        run.by_scale(WARMING),
        run.by_scale(COUNTED)
    )
}

/// Measures a setting, unless this command has before. Users are drawn uniformly, those without friends too.
pub(super) fn measure(
    run: &Run,
    name: &str,
    (items, graph): (&Items, &Graph),
    setting: Setting,
) -> Found {
    let key = format!(
        "rnb caches, {name}, {}, {}, {setting:?}",
        run.scale, run.seed
    );
    if let Some(found) = run.measured.get(&key) {
        return found;
    }
    run.progress.say(format!("{name}: {setting:?}"));
    let warming = graph.users() * run.by_scale(WARMING);
    let measured = graph.users() / run.by_scale(COUNTED);
    let mut caches = Caches::new(items, setting);
    let mut random = rng::stream(run.seed, 8);
    let mut ask = |requests: u64, caches: &mut Caches| {
        for _ in 0..requests / u64::from(setting.merged) {
            let user = |_| rng::below(&mut random, graph.users()) as u32;
            let users: Vec<u32> = (0..setting.merged).map(user).collect();
            caches.ask(users.iter().flat_map(|&user| graph.friends(user)).copied());
        }
    };
    ask(warming, &mut caches);
    caches.found = Found::none(items.servers());
    ask(measured, &mut caches);
    run.measured.put(key, &caches.found);
    caches.found
}

/// Servers with caches.
struct Caches<'a> {
    items: &'a Items,
    setting: Setting,
    cover: Cover,
    servers: Vec<Lru>,
    found: Found,
    /// Rounds so far; and by server the round that asked it last.
    round: u64,
    asked: Vec<u64>,
    /// By item: the round whose request it came with last.
    wanted: Vec<u64>,
    request: Vec<u32>,
    /// Items that were not where they were asked for, and where that was.
    missed: Vec<(u32, u32)>,
}

impl Found {
    fn none(servers: usize) -> Found {
        Found {
            tally: Tally::new(servers),
            second: 0,
            fills: 0,
            lost: 0,
            items: 0,
        }
    }
}

impl<'a> Caches<'a> {
    fn new(items: &'a Items, setting: Setting) -> Self {
        let servers = items.servers();
        let spare = (setting.memory - 1.0) * items.len() as f64 / servers as f64;
        let mut rooms = vec![spare.round() as u64; servers];
        let all = 0..items.len() as u32;
        if setting.rule == Rule::Together {
            for item in all.clone() {
                rooms[items.places(item, 1)[0] as usize] += 1;
            }
        }
        let lru = |&room: &u64| Lru::new(items.len(), room);
        let mut caches = Caches {
            items,
            setting,
            cover: Cover::default(),
            servers: rooms.iter().map(lru).collect(),
            found: Found::none(servers),
            round: 0,
            asked: vec![0; servers],
            wanted: vec![0; items.len()],
            request: Vec::new(),
            missed: Vec::new(),
        };
        if setting.rule == Rule::Together {
            for item in all {
                caches.store(item, items.places(item, 1)[0]);
            }
        }
        caches
    }

    /// Executes a request for these items, in which some may come twice.
    fn ask(&mut self, wanted: impl Iterator<Item = u32>) {
        self.found.tally.requests += u64::from(self.setting.merged);
        self.round += 1;
        self.request.clear();
        for item in wanted {
            let before = std::mem::replace(&mut self.wanted[item as usize], self.round);
            if before != self.round {
                self.request.push(item);
            }
        }
        let copies = self.setting.copies;
        self.items
            .cover(&mut self.cover, &self.request, copies, usize::MAX);
        self.missed.clear();
        for at in 0..self.request.len() {
            let (item, server) = (self.request[at], self.cover.server(at));
            let server = server.expect("all are asked for");
            self.transaction(server);
            if !self.read(item, server) {
                self.missed.push((item, server));
            }
        }
        if self.setting.riders {
            self.ride();
        }
        self.ask_again();
    }

    /// Items ride along to further copies of theirs; those that are found are not missed.
    fn ride(&mut self) {
        for at in 0..self.request.len() {
            let (item, server) = (self.request[at], self.cover.server(at));
            let places = self.items.places(item, self.setting.copies);
            if server == Some(places[0]) {
                continue;
            }
            for &place in &places[1..] {
                if Some(place) != server
                    && self.asked[place as usize] == self.round
                    && self.read(item, place)
                {
                    self.missed.retain(|&(missed, _)| missed != item);
                }
            }
        }
    }

    /// Asks homes for what was not found at copies, and stores it there; what is nowhere is stored at home.
    fn ask_again(&mut self) {
        self.round += 1;
        for at in 0..self.missed.len() {
            let (item, server) = self.missed[at];
            let home = self.items.places(item, 1)[0];
            let mut is_found = false;
            if server != home {
                self.found.second += u64::from(self.transaction(home));
                is_found = self.read(item, home);
                self.store(item, server);
                self.found.fills += 1;
            }
            if !is_found {
                self.found.lost += 1;
                self.store(item, home);
            }
        }
    }

    /// Counts a transaction of this round with a server, unless it is counted.
    fn transaction(&mut self, server: u32) -> bool {
        let before = std::mem::replace(&mut self.asked[server as usize], self.round);
        let is_new = before != self.round;
        self.found.tally.transactions[server as usize] += u64::from(is_new);
        is_new
    }

    /// Whether a server has an item.
    fn read(&mut self, item: u32, server: u32) -> bool {
        self.found.items += 1;
        let is_safe = self.setting.rule == Rule::Apart && self.items.places(item, 1)[0] == server;
        is_safe || self.servers[server as usize].get(item, 0)
    }

    fn store(&mut self, item: u32, server: u32) {
        self.servers[server as usize].set(item, 0, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Mode, Scale};
    use crate::experiments::rnb::bundles::of_all_friends;
    use evenkeel_workload::PowerLaw;

    fn found(items: &Items, graph: &Graph, setting: Setting) -> Found {
        let run = Run::silent(Scale::Quick, Mode::Sim);
        measure(&run, "test", (items, graph), setting)
    }

    #[test]
    fn memory_for_copies_saves_transactions_and_its_lack_costs_some() {
        let law = PowerLaw {
            users: 2_000,
            exponent: 1.76,
            degree_max: 300,
        };
        let graph = law.generate(3).unwrap();
        let items = Items::new(2_000, 8, 3).unwrap();
        let apart = Setting {
            copies: 1,
            memory: 1.0,
            rule: Rule::Apart,
            riders: true,
            merged: 1,
        };
        let plain = found(&items, &graph, apart);
        assert_eq!((plain.second, plain.fills, plain.lost), (0, 0, 0));
        // Users are drawn, where the exact mean asks for each once.
        let exact = of_all_friends(&items, &graph, 1).tpr();
        assert!((plain.tally.tpr() / exact - 1.0).abs() < 0.1);

        let copies = |memory| Setting {
            copies: 3,
            memory,
            ..apart
        };
        let [none, some, all] = [1.0, 1.5, 8.0].map(|memory| found(&items, &graph, copies(memory)));
        let tpr = |found: &Found| found.tally.tpr();
        assert!(tpr(&all) < tpr(&some) && tpr(&some) < tpr(&none));
        assert!(all.fills < some.fills && some.fills < none.fills);
        assert_eq!(
            none.lost + some.lost + all.lost,
            0,
            "homes keep what is theirs"
        );
        let is_apart = |found: &Found| found.tally.tpr() - found.by_request(found.second);
        assert!(
            (is_apart(&none) / is_apart(&all) - 1.0).abs() < 1e-9,
            "the first round is the same"
        );
        let bound = of_all_friends(&items, &graph, 3).tpr() / exact;
        assert!((tpr(&all) / tpr(&plain) / bound - 1.0).abs() < 0.15);

        let together = Setting {
            rule: Rule::Together,
            ..copies(1.5)
        };
        assert!(
            found(&items, &graph, together).lost > 0,
            "copies drop ordinary items"
        );
        let [with, without] = [true, false].map(|riders| {
            let setting = Setting {
                riders,
                ..copies(1.25)
            };
            found(&items, &graph, setting)
        });
        assert!(without.items < with.items && without.second > with.second);
    }
}
