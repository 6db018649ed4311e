//! Items with copies, requests for them, and how many transactions those make when all copies are there.

use super::{placement, servers};
use evenkeel_placement::copies::Copies;
use evenkeel_placement::cover::Cover;
use evenkeel_types::KeyHash;
use evenkeel_workload::Graph;
use evenkeel_workload::rng::{self, WorkloadRng};

/// Items by number, and where their copies are: what ships decides it.
#[derive(Debug)]
pub(super) struct Items {
    copies: Copies,
    servers: u32,
    hashes: Vec<u64>,
    /// `copies_max` places of each item, the home first.
    places: Vec<u32>,
    copies_max: usize,
}

impl Items {
    /// This many items on this many servers, with up to this many copies: at most as many as there are servers.
    pub fn new(items: u32, servers_count: u32, copies_max: usize) -> anyhow::Result<Items> {
        let pool = placement(servers_count)?;
        let members: Vec<(String, u32)> = servers(servers_count)
            .iter()
            .map(|server| (server.identity(), server.weight))
            .collect();
        let copies = Copies::new(&members);
        let copies_max = copies_max.min(servers_count as usize);
        let mut hashes = Vec::with_capacity(items as usize);
        let mut places = vec![0; items as usize * copies_max];
        for (item, places) in places.chunks_exact_mut(copies_max).enumerate() {
            let key = format!("user:{item}");
            let hash = KeyHash::of(key.as_bytes());
            copies.places(hash, pool.server(key.as_bytes()), places);
            hashes.push(hash.0);
        }
        Ok(Items {
            copies,
            servers: servers_count,
            hashes,
            places,
            copies_max,
        })
    }

    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    pub fn servers(&self) -> usize {
        self.servers as usize
    }

    /// The places of the first this many copies of an item, the home first; fewer if there are fewer servers.
    pub fn places(&self, item: u32, copies: usize) -> &[u32] {
        let begin = item as usize * self.copies_max;
        &self.places[begin..begin + copies.min(self.copies_max)]
    }

    /// Covers a request for these items, of this many copies each, or for at least `wanted` of them.
    pub fn cover(&self, cover: &mut Cover, request: &[u32], copies: usize, wanted: usize) {
        cover.clear();
        for &item in request {
            cover.add(self.hashes[item as usize], self.places(item, copies));
        }
        cover.choose(self.copies.seeds(), wanted);
    }
}

/// What servers were asked, for some requests.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub requests: u64,
    /// By server.
    pub transactions: Vec<u64>,
}

impl Tally {
    pub fn new(servers: usize) -> Tally {
        Tally {
            requests: 0,
            transactions: vec![0; servers],
        }
    }

    /// Counts a request that asks these servers, each once.
    pub fn add(&mut self, asked: impl Iterator<Item = u32>) {
        self.requests += 1;
        for server in asked {
            self.transactions[server as usize] += 1;
        }
    }

    /// Transactions of a request, on average.
    pub fn tpr(&self) -> f64 {
        self.sum() / self.requests.max(1) as f64
    }

    /// The busiest server's transactions by the mean of all.
    pub fn busiest(&self) -> f64 {
        let most = self.transactions.iter().copied().max().unwrap_or(0);
        most as f64 * self.transactions.len() as f64 / self.sum()
    }

    fn sum(&self) -> f64 {
        self.transactions.iter().sum::<u64>() as f64
    }
}

/// A request of each user for the items of all friends, with this many copies of each item.
pub(super) fn of_all_friends(items: &Items, graph: &Graph, copies: usize) -> Tally {
    let mut cover = Cover::default();
    let mut tally = Tally::new(items.servers());
    for &user in graph.readers() {
        items.cover(&mut cover, graph.friends(user), copies, usize::MAX);
        tally.add(cover.servers());
    }
    // Who has no friends asks nobody.
    tally.requests = graph.users();
    tally
}

/// Requests for distinct items, all equally likely.
#[derive(Debug)]
pub(super) struct Uniform {
    random: WorkloadRng,
    /// By item: the request that had it last.
    drawn: Vec<u32>,
    request: u32,
}

impl Uniform {
    pub fn new(items: &Items, seed: u64) -> Uniform {
        Uniform {
            random: rng::stream(seed, 0),
            drawn: vec![0; items.len()],
            request: 0,
        }
    }

    /// Draws the next request for this many items, fewer than there are.
    pub fn draw(&mut self, count: usize, request: &mut Vec<u32>) {
        request.clear();
        self.request += 1;
        while request.len() < count {
            let item = rng::below(&mut self.random, self.drawn.len() as u64);
            let last = std::mem::replace(&mut self.drawn[item as usize], self.request);
            if last != self.request {
                request.push(item as u32);
            }
        }
    }
}

/// This many requests for this many uniform items with this many copies, or for at least `wanted` of them. The same
/// seed gives the same requests.
pub(super) fn of_uniform(
    items: &Items,
    seed: u64,
    requests: u32,
    (count, wanted): (usize, usize),
    copies: usize,
) -> Tally {
    let (mut uniform, mut request) = (Uniform::new(items, seed), Vec::new());
    let mut cover = Cover::default();
    let mut tally = Tally::new(items.servers());
    for _ in 0..requests {
        uniform.draw(count, &mut request);
        items.cover(&mut cover, &request, copies, wanted);
        tally.add(cover.servers());
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_placement::cost;

    #[test]
    fn without_copies_transactions_are_those_of_the_model() {
        let items = Items::new(20_000, 16, 1).unwrap();
        for count in [1, 10, 50] {
            let found = of_uniform(&items, 1, 2_000, (count, count), 1).tpr();
            let exact = cost::transactions(16, count as u32);
            assert!((found / exact - 1.0).abs() < 0.03, "{found} of {exact}");
        }
    }

    #[test]
    fn copies_and_limits_save_transactions_and_no_server_is_preferred() {
        let items = Items::new(20_000, 16, 4).unwrap();
        let tally = |wanted, copies| of_uniform(&items, 1, 2_000, (50, wanted), copies);
        let [plain, two, four] = [1, 2, 4].map(|copies| tally(50, copies));
        assert!(four.tpr() < 0.5 * plain.tpr() && two.tpr() < 0.8 * plain.tpr());
        assert!(tally(45, 4).tpr() < four.tpr());
        assert!(four.busiest() < 1.15, "{}", four.busiest());
    }

    #[test]
    fn friends_of_one_user_are_one_request() {
        let items = Items::new(4, 3, 3).unwrap();
        let graph = Graph::of_edges(4, &[(0, 1), (0, 2), (0, 3), (1, 2)]);
        let tally = of_all_friends(&items, &graph, 3);
        assert_eq!(
            (tally.requests, tally.tpr()),
            (4, 0.5),
            "everybody has everything"
        );
    }
}
