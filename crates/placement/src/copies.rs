//! Where the copies of an item live that Replicate and Bundle keeps (Raindel and Birk, IPDPS 2013, section IV).
//!
//! A pool may keep an item on several servers, so that a request for many items can be answered by few of them. The first
//! place is the *distinguished* one: the home that the pool has anyway, by its own distribution or map, so that
//! a fleet that is warm stays warm. The others follow by ranged consistent hashing: from the key's hash along a ring of
//! all members, gathering servers until there are enough besides the home.
//!
//! The ring is one of its own, and not the pool's ketama: with 160 points a server the pairs of home and first copy
//! hold between 0.14 and 2.2 of an even share, so that what a dead server carried would fall on a few. Only
//! membership moves a copy. Members that stand together, as in a rack, have one copy of an item among them ([`Copies::apart`]).
//! [`renaming`](crate::renaming) finds places for copies of hot keys, by a
//! rule of SPORE's that looks up each one anew; it needs no ring, and a walk needs one hash for all places.

use evenkeel_types::KeyHash;
use evenkeel_types::random::SplitMix64;
use std::collections::BTreeSet;

use super::config::SERVERS_MAX;
use super::jump::mix;
use super::points::Points;

/// Mean points of a member. A member's share varies by one in the square root of this, 3 %.
const POINTS_PER_MEMBER: u64 = 1_024;

/// The ring along which copies are placed. Equal members are placed equally, in every process and whatever their order.
#[derive(Clone, Debug)]
pub struct Copies {
    ring: Points,
    /// By member: what its points are drawn from, and what ties between members are broken by.
    seeds: Vec<u64>,
    /// By member: with whom it stands.
    groups: Vec<u16>,
    /// How many groups there are.
    group_count: usize,
}

impl Copies {
    /// A ring of members, each with its identity and its weight of at least 1; identities are distinct. O(p log p) for p
    /// points, 1,024 a member on average. A member added or taken away moves no copy between two others, but where
    /// weights differ and the mean changes.
    ///
    /// # Panics
    ///
    /// Without a member, with more than [`SERVERS_MAX`], or with a weight of 0.
    pub fn new(members: &[(String, u32)]) -> Copies {
        let each = 0..u16::try_from(members.len()).expect("so few");
        Copies::apart(members, &each.collect::<Vec<_>>())
    }

    /// The same where members stand in groups: places of one item are in different ones. `groups` has each member's. Of a group's members each has its
    /// share of what falls to the group. O(p log p).
    ///
    /// # Panics
    ///
    /// As [`Copies::new`], or where there are not as many groups given as members.
    pub fn apart(members: &[(String, u32)], groups: &[u16]) -> Copies {
        assert_eq!(members.len(), groups.len());
        assert!((1..=SERVERS_MAX).contains(&members.len()));
        let total: u64 = members.iter().map(|&(_, weight)| u64::from(weight)).sum();
        let all = POINTS_PER_MEMBER * members.len() as u64;
        let seed = |(identity, _): &(String, u32)| KeyHash::of(identity.as_bytes()).0;
        let seeds: Vec<u64> = members.iter().map(seed).collect();
        // Where points coincide, the least seed's wins, whatever the order of the list.
        let mut order: Vec<u16> = (0u16..=u16::MAX).take(members.len()).collect();
        order.sort_unstable_by_key(|&member| seeds[usize::from(member)]);
        let mut points = Vec::with_capacity(all as usize + members.len());
        for member in order {
            let weight = u64::from(members[usize::from(member)].1);
            assert!(weight > 0, "a member of weight 0");
            let mut random = SplitMix64::new(seeds[usize::from(member)]);
            // A member of next to no weight has a point too: a walk around the ring meets all members.
            let count = ((all * weight + total / 2) / total).max(1);
            points.extend((0..count).map(|_| ((random.next_u64() >> 32) as u32, member)));
        }
        let distinct: BTreeSet<u16> = groups.iter().copied().collect();
        Copies {
            ring: Points::new(points),
            seeds,
            groups: groups.to_vec(),
            group_count: distinct.len(),
        }
    }

    /// What stands for each member where ties are broken: a hash of its identity.
    pub fn seeds(&self) -> &[u64] {
        &self.seeds
    }

    /// Fills `places` with the positions of members of distinct groups, the home first, and says how many they are: fewer than
    /// asked for only where there are fewer groups. `hash` is that of the part of the key that decides
    /// ([`Placement::hashed`](crate::pool::Placement::hashed)), so that keys of one tag have all places in common. O(k²) plus
    /// the points that are passed, about k among many members. Allocates nothing.
    #[inline]
    pub fn places(&self, hash: KeyHash, home: usize, places: &mut [u32]) -> usize {
        let wanted = places.len().min(self.group_count);
        if wanted == 0 {
            return 0;
        }
        places[0] = home as u32;
        let mut found = 1;
        // The home is often found by the same hash; mixed, it says nothing of where the walk begins.
        let mut walk = self.ring.walk((mix(hash.0) >> 32) as u32);
        while found < wanted {
            let member = walk.next().expect("every member has a point");
            let group = self.groups[member];
            let mut taken = places[..found].iter();
            if !taken.any(|&at| self.groups[at as usize] == group) {
                places[found] = member as u32;
                found += 1;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{HashTag, PlacementConfig, Server};
    use crate::pool::Placement;
    use evenkeel_testkit::seed;

    fn members(count: usize) -> Vec<(String, u32)> {
        (0..count).map(|n| (format!("cache-{n}"), 1)).collect()
    }

    /// The pool of the same members, by its default distribution.
    fn pool(members: &[(String, u32)]) -> Placement {
        let server = |(name, weight): &(String, u32)| Server {
            name: Some(name.clone()),
            weight: *weight,
            ..Server::new("h", 1)
        };
        let hash_tag: HashTag = "{}".parse().unwrap();
        Placement::new(&PlacementConfig {
            servers: members.iter().map(server).collect(),
            hash_tag: Some(hash_tag),
            ..PlacementConfig::default()
        })
        .unwrap()
    }

    fn places(pool: &Placement, copies: &Copies, key: &str, k: usize) -> Vec<u32> {
        let (part, _) = pool.hashed(key.as_bytes());
        let mut places = vec![0; k];
        let home = pool.server(key.as_bytes());
        let found = copies.places(KeyHash::of(part), home, &mut places);
        places.truncate(found);
        places
    }

    const VECTORS: &str = include_str!("../tests/fixtures/copies_vectors.txt");

    /// What was published once stays: copies of a running fleet lie where they lie.
    #[test]
    fn places_are_those_of_the_golden_vectors() {
        let members: Vec<(String, u32)> = (0..16)
            .map(|n| (format!("cache-{n}"), 1 + u32::from(n >= 12)))
            .collect();
        let (pool, copies) = (pool(&members), Copies::new(&members));
        let mut seen = 0;
        for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
            let (key, expected) = line.split_once(' ').unwrap();
            let found: Vec<String> = places(&pool, &copies, key, 5)
                .iter()
                .map(u32::to_string)
                .collect();
            assert_eq!(found.join(" "), expected, "{key}");
            seen += 1;
        }
        assert_eq!(seen, 20);
    }

    /// Twin: the points in a sorted list, once around from the first at or behind the hash.
    #[test]
    fn a_walk_gathers_what_a_plain_search_gathers() {
        let mut random = SplitMix64::new(seed(0xc0de));
        for _ in 0..40 {
            let count = 1 + random.below(9) as usize;
            let members: Vec<(String, u32)> = (0..count)
                .map(|n| {
                    (
                        format!("m{}-{n}", random.next_u64()),
                        1 + random.below(4) as u32,
                    )
                })
                .collect();
            let total: u32 = members.iter().map(|&(_, weight)| weight).sum();
            let mut points = Vec::new();
            for (member, (identity, weight)) in members.iter().enumerate() {
                let mut draws = SplitMix64::new(KeyHash::of(identity.as_bytes()).0);
                let share = 1_024.0 * count as f64 * f64::from(*weight) / f64::from(total);
                for _ in 0..(share.round() as u32).max(1) {
                    points.push(((draws.next_u64() >> 32) as u32, member as u32));
                }
            }
            points.sort_unstable();
            // Everybody by himself, or some together.
            let groups: Vec<u16> = match random.below(2) {
                0 => (0..count as u16).collect(),
                _ => (0..count).map(|_| random.below(4) as u16).collect(),
            };
            let all_groups = groups.iter().collect::<BTreeSet<_>>().len();
            let copies = Copies::apart(&members, &groups);
            for _ in 0..50 {
                let (hash, home) = (random.next_u64(), random.below(count as u64) as u32);
                let wanted = 1 + random.below(10) as usize;
                let at = (mix(hash) >> 32) as u32;
                let behind = points.iter().filter(|point| point.0 >= at);
                let before = points.iter().filter(|point| point.0 < at);
                let mut expected = vec![home];
                for &(_, member) in behind.chain(before) {
                    let is_near = |at: &u32| groups[*at as usize] == groups[member as usize];
                    if expected.len() < wanted && !expected.iter().any(is_near) {
                        expected.push(member);
                    }
                }
                let mut found = vec![0; wanted];
                let len = copies.places(KeyHash(hash), home as usize, &mut found);
                assert_eq!(found[..len], expected);
                assert_eq!(len, wanted.min(all_groups));
            }
        }
    }

    #[test]
    fn the_order_of_members_and_tags_of_keys_change_no_place() {
        let forth = members(7);
        let back: Vec<_> = forth.iter().rev().cloned().collect();
        let (pool_forth, pool_back) = (pool(&forth), pool(&back));
        let (ring_forth, ring_back) = (Copies::new(&forth), Copies::new(&back));
        for n in 0..500 {
            let key = format!("user:{{{n}}}:name");
            let there = places(&pool_forth, &ring_forth, &key, 4);
            let here = places(&pool_back, &ring_back, &key, 4);
            assert_eq!(there, here.iter().map(|at| 6 - at).collect::<Vec<_>>());
            let other = format!("user:{{{n}}}:photo");
            assert_eq!(there, places(&pool_forth, &ring_forth, &other, 4));
        }
    }

    /// Of 16 equal servers each has its share of every further place within 10 %, and pairs of home and first copy
    /// hold between 1/1.5 and 1.5 of an even share. Homes are distributed evenly here: how even they are is the pool's affair.
    #[test]
    fn places_and_pairs_are_even() {
        const KEYS: u32 = 400_000;
        let copies = Copies::new(&members(16));
        let mut shares = [[0u32; 16]; 5];
        let mut pairs = [[0u32; 16]; 16];
        for n in 0..KEYS {
            let hash = KeyHash::of(format!("item:{n}").as_bytes());
            let mut places = [0; 5];
            copies.places(hash, (hash.0 % 16) as usize, &mut places);
            for (share, &at) in shares.iter_mut().zip(&places) {
                share[at as usize] += 1;
            }
            pairs[places[0] as usize][places[1] as usize] += 1;
        }
        for (n, share) in shares.iter().enumerate() {
            for &count in share {
                let by_even = f64::from(count) * 16.0 / f64::from(KEYS);
                assert!((0.9..1.1).contains(&by_even), "place {n}: {by_even}");
            }
        }
        for (home, first) in (0..16).flat_map(|home| (0..16).map(move |first| (home, first))) {
            let by_even = f64::from(pairs[home][first]) * 240.0 / f64::from(KEYS);
            match home == first {
                true => assert_eq!(by_even, 0.0),
                false => assert!(
                    (1.0 / 1.5..1.5).contains(&by_even),
                    "{home} {first}: {by_even}"
                ),
            }
        }
    }

    /// A server that comes to n takes its share of the pairs of key and place, and moves hardly any other.
    #[test]
    fn a_new_server_moves_few_copies() {
        for (n, k) in [(4, 2), (8, 4), (16, 3), (31, 5)] {
            let (few, more) = (members(n), members(n + 1));
            let (pool_few, pool_more) = (pool(&few), pool(&more));
            let (ring_few, ring_more) = (Copies::new(&few), Copies::new(&more));
            let keys = 20_000;
            let mut gone = 0;
            for key in 0..keys {
                let key = format!("item:{key}");
                let before = places(&pool_few, &ring_few, &key, k);
                let after = places(&pool_more, &ring_more, &key, k);
                let after: BTreeSet<u32> = after.into_iter().collect();
                gone += before.iter().filter(|at| !after.contains(at)).count();
            }
            let part = gone as f64 / (keys * k) as f64 * (n + 1) as f64;
            assert!(
                (0.7..1.3).contains(&part),
                "{n} and one, {k} copies: {part}"
            );
        }
    }

    #[test]
    fn weights_are_shares() {
        let mut members = members(8);
        members[0].1 = 3;
        members[1].1 = 1_000_000;
        let copies = Copies::new(&members[..1]);
        let mut alone = [9; 3];
        assert_eq!(copies.places(KeyHash(7), 0, &mut alone), 1);
        assert_eq!(copies.places(KeyHash(7), 0, &mut []), 0);
        // One server that outweighs all the others is on every walk, and the others are found behind it.
        let copies = Copies::new(&members);
        let mut places = [0; 8];
        assert_eq!(copies.places(KeyHash(7), 0, &mut places), 8);
        assert_eq!(places[1], 1);
        places.sort_unstable();
        assert_eq!(places, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
