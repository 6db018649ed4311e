//! Reactive internal key renaming: where the replicas of a hot key live (SPORE, section 3.1).
//!
//! Home servers and clients must agree on the shadow servers of a key while all they tell each other
//! is a number, γ. So shadow *i* is found by placing the *renamed* key: the key followed by a suffix
//! in decimal. Only the place is taken from the renamed key; what is stored and asked for there is
//! the original key, so that a real key of that name is never meant.
//!
//! A renamed key can fall on the home server, on a server already chosen, on one that is down or about to be
//! taken away, or on nobody. Then the next suffix is tried. When chance alone would take too many tries to find the
//! last few servers, they follow in ascending order of id. Hence for every γ up to the number of other
//! servers that are up and stay there are γ distinct shadow servers, and those of γ are the first of those of
//! γ + 1.
//!
//! The paper's servers have one thread. Here a key may need more copies than there are servers, because each worker
//! carries one: then a second worker of each shadow server follows, in the same order, and so on.
//!
//! In a pool of plain memcached servers ([`plain_shadows`]) the same is done with the placement of the
//! pool, and the last few servers follow in the order in which the key would look for another home. So
//! it is, too, where a hash tag makes all renamed keys fall on the home.

use evenkeel_types::limits::{GAMMA_MAX, KEY_LEN_MAX};
use evenkeel_types::{KeyHash, ServerId, WorkerRef};

use super::pool::Placement;
use evenkeel_types::map::{ClusterMap, ServerEntry};

/// Suffixes tried for each replica wanted before the remaining servers are taken in order of id.
/// On four equal servers a try finds the last one with probability 1/4, and misses it 32 times in a
/// row for one key in 10,000.
pub const TRIES_PER_REPLICA: u32 = 32;

/// The shadow workers of `key`, best known as suffixes 1, 2, … γ. Fewer than `gamma` only if servers besides
/// the home that are up and stay have fewer workers. O(γ²) plus about γ hashes of the key.
///
/// `key` is the key as it stands in the protocol (decoded), `home` the server of its home worker.
pub fn shadows(map: &ClusterMap, key: &[u8], home: ServerId, gamma: u8) -> Vec<WorkerRef> {
    let mut renamed = RenamedKey::new(key);
    let hosts = map.replica_hosts_besides(home).count();
    let wanted = usize::from(gamma).min(hosts);
    let mut found: Vec<WorkerRef> = Vec::with_capacity(wanted);
    let mut suffix = 0;
    while found.len() < wanted {
        suffix += 1;
        // A budget that grows with what is found depends on no γ, so that prefixes agree.
        if suffix > TRIES_PER_REPLICA * (found.len() as u32 + 1) {
            break;
        }
        let Some(worker) = map.locate(renamed.hash(suffix)).worker else {
            continue;
        };
        let taken = worker.server == home || found.iter().any(|w| w.server == worker.server);
        let takes = |server: &ServerEntry| server.takes_replicas();
        if !taken && map.server(worker.server).is_some_and(takes) {
            found.push(worker);
        }
    }
    complete(map, KeyHash::of(key), home, wanted, &mut found);
    add_workers(map, usize::from(gamma), &mut found);
    found
}

/// The shadow servers of `key` in a pool of plain servers, by position in its list, best known as
/// suffixes 1, 2, … γ; fewer only if there are fewer others. O(γ²) plus about γ hashes of the key.
pub fn plain_shadows(placement: &Placement, key: &[u8], gamma: u8) -> Vec<usize> {
    let mut renamed = RenamedKey::new(key);
    let home = placement.server(key);
    let wanted = usize::from(gamma).min(placement.len() - 1);
    let mut found: Vec<usize> = Vec::with_capacity(wanted);
    let mut suffix = 0;
    while found.len() < wanted {
        suffix += 1;
        if suffix > TRIES_PER_REPLICA * (found.len() as u32 + 1) {
            break;
        }
        let server = placement.server(renamed.with(suffix));
        if server != home && !found.contains(&server) {
            found.push(server);
        }
    }
    for server in placement.candidates(key) {
        if found.len() < wanted && server != home && !found.contains(&server) {
            found.push(server);
        }
    }
    found
}

/// Appends the servers not found by renaming, in ascending order of id.
fn complete(
    map: &ClusterMap,
    hash: KeyHash,
    home: ServerId,
    wanted: usize,
    found: &mut Vec<WorkerRef>,
) {
    for server in map.replica_hosts_besides(home) {
        if found.len() >= wanted {
            return;
        }
        if !found.iter().any(|w| w.server == server.id) {
            // Keys differ in the worker they use, so that the first does not get them all.
            let worker = (hash.0 % server.worker_ports.len() as u64) as u16;
            found.push(WorkerRef {
                server: server.id,
                worker,
            });
        }
    }
}

/// Appends the other workers of the servers found, while there are fewer than `wanted`: the next one of each, again and again.
fn add_workers(map: &ClusterMap, wanted: usize, found: &mut Vec<WorkerRef>) {
    let firsts = found.clone();
    let workers_of = |first: &WorkerRef| map.server(first.server).map_or(0, ServerEntry::workers);
    let most = firsts.iter().map(workers_of).max().unwrap_or(0);
    for round in 1..most {
        for first in firsts.iter().filter(|first| round < workers_of(first)) {
            if found.len() >= wanted {
                return;
            }
            found.push(WorkerRef {
                server: first.server,
                worker: (first.worker + round) % workers_of(first),
            });
        }
    }
}

/// A key with room for a suffix behind it.
struct RenamedKey {
    bytes: [u8; KEY_LEN_MAX + SUFFIX_DIGITS_MAX],
    len: usize,
}

/// Digits of the largest suffix ever tried.
const SUFFIX_DIGITS_MAX: usize = 4;

const _: () =
    assert!(TRIES_PER_REPLICA * (GAMMA_MAX as u32 + 1) < 10_u32.pow(SUFFIX_DIGITS_MAX as u32));

impl RenamedKey {
    /// A key longer than the protocol allows is cut, which only matters for where it would live.
    fn new(key: &[u8]) -> Self {
        let len = key.len().min(KEY_LEN_MAX);
        let mut bytes = [0; KEY_LEN_MAX + SUFFIX_DIGITS_MAX];
        bytes[..len].copy_from_slice(&key[..len]);
        RenamedKey { bytes, len }
    }

    /// Hash of the renamed key.
    fn hash(&mut self, suffix: u32) -> KeyHash {
        KeyHash::of(self.with(suffix))
    }

    /// The key followed by the suffix in decimal, without leading zeros.
    fn with(&mut self, suffix: u32) -> &[u8] {
        let digits = suffix.checked_ilog10().unwrap_or(0) as usize + 1;
        let mut rest = suffix;
        for i in (self.len..self.len + digits).rev() {
            self.bytes[i] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        &self.bytes[..self.len + digits]
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use evenkeel_types::map::MapDocument;
    use evenkeel_types::random::SplitMix64;

    /// A map of `servers` servers of 1 to 3 workers, cachelets distributed at random, `down` of them down.
    fn random_map(random: &mut SplitMix64, servers: u16, down: u16) -> ClusterMap {
        let mut list: Vec<ServerEntry> = (0..servers)
            .map(|i| ServerEntry::new(3 * i + 1, "h", 1, vec![2; 1 + random.below(3) as usize]))
            .collect();
        for _ in 0..down {
            let i = random.below(u64::from(servers)) as usize;
            list[i].up = false;
        }
        if random.below(2) > 0 {
            let i = random.below(u64::from(servers)) as usize;
            list[i].leaving = true;
        }
        let cachelets = (0..64)
            .map(|_| {
                let server = &list[random.below(list.len() as u64) as usize];
                let worker = random.below(server.worker_ports.len() as u64) as u16;
                (random.below(20) > 0).then_some(WorkerRef {
                    server: server.id,
                    worker,
                })
            })
            .collect();
        ClusterMap::new(MapDocument::new(1, list, 256, cachelets)).unwrap()
    }

    /// The rule as told in the module's documentation, without any cleverness.
    fn brute_force(map: &ClusterMap, key: &str, home: ServerId, gamma: u8) -> Vec<WorkerRef> {
        let mut found: Vec<WorkerRef> = Vec::new();
        let usable = |found: &[WorkerRef], server: ServerId| {
            map.servers()
                .iter()
                .any(|s| s.id == server && s.up && !s.leaving)
                && server != home
                && found.iter().all(|w| w.server != server)
        };
        let mut suffix = 1;
        while suffix <= 32 * (found.len() + 1) && found.len() < usize::from(gamma) {
            let renamed = format!("{key}{suffix}");
            if let Some(worker) = map.locate(KeyHash::of(renamed.as_bytes())).worker
                && usable(&found, worker.server)
            {
                found.push(worker);
            }
            suffix += 1;
        }
        for server in map.servers() {
            if found.len() < usize::from(gamma) && usable(&found, server.id) {
                let workers = server.worker_ports.len() as u64;
                let worker = (KeyHash::of(key.as_bytes()).0 % workers) as u16;
                found.push(WorkerRef {
                    server: server.id,
                    worker,
                });
            }
        }
        let firsts = found.clone();
        for round in 1..3 {
            for first in &firsts {
                let workers = map.server(first.server).unwrap().worker_ports.len() as u16;
                let worker = (first.worker + round) % workers;
                if round < workers && found.len() < usize::from(gamma) {
                    found.push(WorkerRef { worker, ..*first });
                }
            }
        }
        found
    }

    #[test]
    fn renaming_agrees_with_brute_force_and_keeps_its_laws() {
        let seed = 0x5eed_0001;
        println!("seed {seed:#x}");
        let mut random = SplitMix64::new(seed);
        for round in 0..400 {
            let servers = 1 + random.below(if round % 20 == 0 { 300 } else { 12 }) as u16;
            let down = random.below(u64::from(servers) / 2 + 1) as u16;
            let map = random_map(&mut random, servers, down);
            let key = format!("key:{}", random.next_u64());
            let home = map.servers()[random.below(u64::from(servers)) as usize].id;
            let gamma = random.below(256) as u8;
            let found = shadows(&map, key.as_bytes(), home, gamma);
            assert_eq!(found, brute_force(&map, &key, home, gamma), "round {round}");
            let others = map.replica_hosts_besides(home).count();
            let workers = map.replica_workers_besides(home);
            assert_eq!(
                found.len(),
                workers.min(usize::from(gamma)),
                "every worker is reachable"
            );
            let mut servers: Vec<ServerId> = found.iter().map(|w| w.server).collect();
            assert!(servers.iter().all(|&s| s != home && map.is_up(s)));
            assert!(found.iter().all(|&w| map.address(w).is_some()));
            servers.truncate(others);
            let firsts = servers.len();
            servers.sort();
            servers.dedup();
            assert_eq!(servers.len(), firsts, "servers first");
            let mut workers = found.clone();
            workers.sort();
            workers.dedup();
            assert_eq!(workers.len(), found.len(), "all are distinct");
            for smaller in 0..gamma.min(9) {
                let prefix = shadows(&map, key.as_bytes(), home, smaller);
                assert!(
                    found.starts_with(&prefix),
                    "a smaller γ gives the first of them"
                );
            }
        }
    }

    #[test]
    fn shadow_servers_of_plain_pools_are_distinct_and_found_by_renaming_first() {
        use crate::config::{Distribution, HashTag, PlacementConfig, Server};
        let mut random = SplitMix64::new(11);
        let distributions = [
            Distribution::Ketama,
            Distribution::KetamaWeighted,
            Distribution::Modula,
            Distribution::Jump,
            Distribution::Rendezvous,
        ];
        for distribution in distributions {
            for servers in [1, 2, 3, 8, 20] {
                let list = (0..servers).map(|i| Server::new("h", 1000 + i));
                let mut config = PlacementConfig {
                    servers: list.collect(),
                    distribution,
                    ..PlacementConfig::default()
                };
                let placement = Placement::new(&config).unwrap();
                config.hash_tag = Some("{}".parse::<HashTag>().unwrap());
                let tagged = Placement::new(&config).unwrap();
                for _ in 0..40 {
                    let key = format!("{{tag}}key:{}", random.next_u64());
                    for (placement, is_tagged) in [(&placement, false), (&tagged, true)] {
                        let all = plain_shadows(placement, key.as_bytes(), 255);
                        let home = placement.server(key.as_bytes());
                        let mut sorted = all.clone();
                        sorted.push(home);
                        sorted.sort_unstable();
                        assert!(sorted.into_iter().eq(0..usize::from(servers)));
                        for gamma in 0..5 {
                            let some = plain_shadows(placement, key.as_bytes(), gamma);
                            assert!(all.starts_with(&some));
                        }
                        let renamed = (1..=32u32)
                            .map(|i| placement.server(format!("{key}{i}").as_bytes()))
                            .find(|&server| server != home);
                        match renamed {
                            Some(first) => assert_eq!(all[0], first),
                            None => assert!(is_tagged || servers <= 2, "{servers}"),
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_suffix_is_written_in_decimal_behind_the_key() {
        let mut renamed = RenamedKey::new(b"foo");
        assert_eq!(renamed.hash(1), KeyHash::of(b"foo1"));
        assert_eq!(renamed.hash(10), KeyHash::of(b"foo10"));
        assert_eq!(renamed.hash(9), KeyHash::of(b"foo9"));
        assert_eq!(renamed.hash(8192), KeyHash::of(b"foo8192"));
    }

    #[test]
    fn the_longest_key_has_room_for_its_suffix() {
        let key = [b'k'; KEY_LEN_MAX];
        let longer = [b'k'; KEY_LEN_MAX + 1];
        let mut with_suffix = key.to_vec();
        with_suffix.extend_from_slice(b"8191");
        assert_eq!(RenamedKey::new(&key).hash(8191), KeyHash::of(&with_suffix));
        assert_eq!(
            RenamedKey::new(&longer).hash(8191),
            KeyHash::of(&with_suffix)
        );
    }

    #[test]
    fn shadow_servers_of_many_keys_are_spread_evenly() {
        let mut random = SplitMix64::new(9);
        let map = random_map(&mut random, 4, 0);
        let home = map.servers()[0].id;
        let mut counts = [0u32; 4];
        for i in 0..6000 {
            let key = format!("key-{i}");
            let first = shadows(&map, key.as_bytes(), home, 1)[0];
            let position = map
                .servers()
                .iter()
                .position(|s| s.id == first.server)
                .unwrap();
            counts[position] += 1;
        }
        assert_eq!(counts[0], 0);
        assert!(counts[1..].iter().all(|&n| n > 1000), "{counts:?}");
    }
}
