//! Which copies a request for many items reads, so that few servers are asked (Replicate and Bundle, section III).
//!
//! The fewest servers that together hold all keys of a request are hard to find; a greedy choice comes near
//! (section III-A). Again and again the server is chosen that holds most of the keys that are left. Of those that hold equally many it
//! is the one where most of them are at their *distinguished* place, then the one whose identity, mixed with the
//! smallest hash among the keys that are left, gives the largest number. So all proxies choose alike, and alike
//! for similar requests, which is what keeps few copies warm (section III-C); and no server is preferred, as the first
//! of a list would be. When no server holds two keys that are left, each goes to its distinguished place, the smallest
//! hash first.
//!
//! Then keys go home where that costs nothing: a key whose distinguished server is asked anyway is asked there, and so is a key that would be alone
//! at its server. Neither adds a transaction, and both keep copies from being read, and kept, for nothing.
//!
//! The paper has bit sets of keys. Here each server has a list of its places and a count of the keys that are left there, so
//! that a request takes time by what it holds: with sets each choice looks at all keys of all servers, and a
//! request for ten thousand keys has to be covered in parts, which bundles less.

use crate::jump::mix;

/// Most keys of a request: what a server holds is counted in 16 bits. More are to be covered in parts.
pub const KEYS_MAX: usize = (1 << COUNT_SHIFT) - 1;

/// A score has the keys at a server above these bits, and those of them that are distinguished there below, so that a
/// comparison of scores is one of both.
const COUNT_SHIFT: u32 = 16;
const ONE: u32 = 1 << COUNT_SHIFT;

/// No server, no place.
const NONE: u32 = u32::MAX;

/// Covers one request after the other; what it has allocated is used again.
///
/// [`clear`](Cover::clear), [`add`](Cover::add) for each key, [`choose`](Cover::choose), and then
/// [`server`](Cover::server) says who is asked.
#[derive(Clone, Debug, Default)]
pub struct Cover {
    /// Keys in the order in which they were added.
    keys: Vec<Key>,
    /// Places of keys, those of a key one after the other, its distinguished one first.
    places: Vec<Place>,
    /// Servers of this request, by their number in it.
    servers: Vec<Server>,
    /// The numbers in this request of all servers; [`NONE`] for those that are not in it.
    numbers: Vec<u32>,
    /// Hashes of distinct keys, ascending, and where each was added.
    order: Vec<(u64, u32)>,
    /// Servers that had the score `most` when they were looked for. No score is above it, and scores only fall.
    tied: Vec<u32>,
    most: u32,
}

#[derive(Clone, Copy, Debug)]
struct Key {
    hash: u64,
    /// Where its places begin.
    places: u32,
    /// How many they are.
    copies: u32,
    /// The server of the first, its distinguished one.
    home: u32,
    /// Who is asked, or [`NONE`].
    asked: u32,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    server: u32,
    key: u32,
    /// The place before it at the same server, or [`NONE`].
    before: u32,
}

#[derive(Clone, Copy, Debug)]
struct Server {
    /// What the caller calls it.
    id: u32,
    /// Keys that are left here, and how many of them are distinguished here.
    score: u32,
    /// The last of its places.
    last: u32,
    /// For how many distinct keys it is asked.
    load: u32,
}

impl Cover {
    /// Forgets the request before. O(servers of it).
    pub fn clear(&mut self) {
        for server in self.servers.drain(..) {
            self.numbers[server.id as usize] = NONE;
        }
        self.keys.clear();
        self.places.clear();
    }

    /// Adds a key by the hash of all of it, and the servers that may hold it, each once, its distinguished one first. A
    /// key that is added again is the same key.
    ///
    /// # Panics
    ///
    /// If nobody holds it, or there are [`KEYS_MAX`] already.
    pub fn add(&mut self, hash: u64, places: &[u32]) {
        assert!(!places.is_empty() && self.keys.len() < KEYS_MAX);
        let (key, first) = (self.keys.len() as u32, self.places.len());
        for &id in places {
            let number = self.number(id);
            let server = &mut self.servers[number as usize];
            server.score += ONE;
            let place = self.places.len() as u32;
            let before = std::mem::replace(&mut server.last, place);
            self.places.push(Place {
                server: number,
                key,
                before,
            });
        }
        let home = self.places[first].server;
        self.servers[home as usize].score += 1;
        self.keys.push(Key {
            hash,
            places: first as u32,
            copies: places.len() as u32,
            home,
            asked: NONE,
        });
    }

    /// Chooses, once for each request, who is asked for each key, or for at least `wanted` distinct ones (section
    /// III-F): the choice ends once this many are covered. No more servers are asked than hold the distinguished copies of all
    /// keys. `seeds` has a number for each server that differs from all others'
    /// ([`Copies::seeds`](crate::copies::Copies::seeds)).
    ///
    /// O(m log m + mk) for m keys of k places, and a look at each server that is tied for each one that is chosen.
    pub fn choose(&mut self, seeds: &[u64], wanted: usize) {
        self.drop_repeated();
        let plain = self
            .servers
            .iter()
            .filter(|server| server.score % ONE > 0)
            .count();
        self.bundle(seeds, wanted);
        while self.send_home() {}
        if self.transactions() > plain {
            self.ask_plainly();
        }
        self.ask_repeated();
    }

    /// Who is asked for the key that was added at this position: `None` if enough others are covered.
    pub fn server(&self, key: usize) -> Option<u32> {
        let number = self.keys[key].asked;
        (number != NONE).then(|| self.servers[number as usize].id)
    }

    /// Who is asked, each once, in no order. O(servers of the request).
    pub fn servers(&self) -> impl Iterator<Item = u32> {
        let asked = self.servers.iter().filter(|server| server.load > 0);
        asked.map(|server| server.id)
    }

    /// How many servers are asked. O(servers of the request).
    pub fn transactions(&self) -> usize {
        self.servers().count()
    }

    /// How many distinct keys were added; known once it was chosen.
    pub fn distinct(&self) -> usize {
        self.order.len()
    }

    /// The number of a server in this request.
    #[inline]
    fn number(&mut self, id: u32) -> u32 {
        let at = id as usize;
        if at >= self.numbers.len() {
            self.numbers.resize(at + 1, NONE);
        }
        if self.numbers[at] == NONE {
            self.numbers[at] = self.servers.len() as u32;
            self.servers.push(Server {
                id,
                score: 0,
                last: NONE,
                load: 0,
            });
        }
        self.numbers[at]
    }

    /// Puts distinct keys in order. One that was added again counts once.
    fn drop_repeated(&mut self) {
        self.order.clear();
        self.order
            .extend(self.keys.iter().map(|key| key.hash).zip(0..));
        self.order.sort_unstable_by_key(|&(hash, _)| hash);
        for at in 1..self.order.len() {
            if self.order[at].0 == self.order[at - 1].0 {
                let key = self.order[at].1;
                self.uncount(key);
                // Anybody: it is not to be chosen for.
                self.keys[key as usize].asked = 0;
            }
        }
        self.order.dedup_by_key(|&mut (hash, _)| hash);
    }

    /// Chooses servers until this many keys are covered.
    fn bundle(&mut self, seeds: &[u64], wanted: usize) {
        let mut left = wanted.min(self.order.len());
        let mut first = 0;
        self.tied.clear();
        while left > 0 {
            while self.keys[self.order[first].1 as usize].asked != NONE {
                first += 1;
            }
            let Some(server) = self.best(seeds, self.order[first].0) else {
                break;
            };
            left = left.saturating_sub(self.take(server));
        }
        for at in first..self.order.len() {
            let key = self.order[at].1;
            if left > 0 && self.keys[key as usize].asked == NONE {
                self.ask(key, self.keys[key as usize].home);
                left -= 1;
            }
        }
    }

    /// The server to be chosen next, by its number, if one holds two keys that are left.
    fn best(&mut self, seeds: &[u64], smallest: u64) -> Option<u32> {
        let (servers, most) = (&self.servers, self.most);
        self.tied
            .retain(|&number| servers[number as usize].score == most);
        if self.tied.is_empty() {
            let most = servers.iter().map(|server| server.score).max()?;
            let tied = (0..)
                .zip(servers)
                .filter(|(_, server)| server.score == most);
            self.tied.extend(tied.map(|(number, _)| number));
            self.most = most;
        }
        if self.most >> COUNT_SHIFT < 2 {
            return None;
        }
        let drawn = |&&number: &&u32| {
            let id = servers[number as usize].id;
            mix(seeds[id as usize] ^ smallest)
        };
        self.tied.iter().max_by_key(drawn).copied()
    }

    /// Asks a server for all that it holds of what is left, and says how many keys these are.
    fn take(&mut self, server: u32) -> usize {
        let mut next = self.servers[server as usize].last;
        while let Some(&Place { key, before, .. }) = self.places.get(next as usize) {
            if self.keys[key as usize].asked == NONE {
                self.uncount(key);
                self.ask(key, server);
            }
            next = before;
        }
        self.servers[server as usize].load as usize
    }

    /// A key is not left any more.
    fn uncount(&mut self, key: u32) {
        let Key {
            places,
            copies,
            home,
            ..
        } = self.keys[key as usize];
        self.servers[home as usize].score -= 1;
        for place in &self.places[places as usize..(places + copies) as usize] {
            self.servers[place.server as usize].score -= ONE;
        }
    }

    fn ask(&mut self, key: u32, server: u32) {
        self.keys[key as usize].asked = server;
        self.servers[server as usize].load += 1;
    }

    /// Keys go to their distinguished places where that adds no transaction. Whether one has gone: then
    /// others may. None ever leaves its distinguished place, so there is an end.
    fn send_home(&mut self) -> bool {
        let mut moved = false;
        for at in 0..self.order.len() {
            let key = self.order[at].1;
            let Key {
                asked: server,
                home,
                ..
            } = self.keys[key as usize];
            if server == home || server == NONE {
                continue;
            }
            let load = |server: u32| self.servers[server as usize].load;
            if load(home) > 0 || load(server) == 1 {
                self.servers[server as usize].load -= 1;
                self.ask(key, home);
                moved = true;
            }
        }
        moved
    }

    /// Asks for all keys as if there were no copies.
    fn ask_plainly(&mut self) {
        for server in &mut self.servers {
            server.load = 0;
        }
        for at in 0..self.order.len() {
            let key = self.order[at].1;
            self.ask(key, self.keys[key as usize].home);
        }
    }

    /// A key that was added again is asked where it is asked.
    fn ask_repeated(&mut self) {
        if self.order.len() == self.keys.len() {
            return;
        }
        for key in 0..self.keys.len() {
            let hash = self.keys[key].hash;
            let same = self.order.partition_point(|&(other, _)| other < hash);
            self.keys[key].asked = self.keys[self.order[same].1 as usize].asked;
        }
    }
}

#[cfg(test)]
mod tests;
