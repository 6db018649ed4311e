use super::*;
use evenkeel_testkit::seed;
use evenkeel_types::random::SplitMix64;
use std::collections::{BTreeMap, BTreeSet};

/// A request: hashes of keys and their places.
type Request = Vec<(u64, Vec<u32>)>;

/// Keys that are drawn from a few, so that some come twice; each has up to `k` of the servers.
fn request(random: &mut SplitMix64, servers: u64, k: usize, keys: u64) -> Request {
    let mut known: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    let key = |_| {
        let hash = mix(random.below(4 * keys));
        let places = known.entry(hash).or_insert_with(|| {
            let mut places = Vec::new();
            while places.len() < k.min(servers as usize) {
                let server = random.below(servers) as u32;
                if !places.contains(&server) {
                    places.push(server);
                }
            }
            places
        });
        (hash, places.clone())
    };
    (0..keys).map(key).collect()
}

fn seeds(servers: u64) -> Vec<u64> {
    (0..servers).map(|n| mix(n + 1)).collect()
}

fn add_all(cover: &mut Cover, request: &Request) {
    cover.clear();
    for (hash, places) in request {
        cover.add(*hash, places);
    }
}

/// Who is asked for each key.
fn chosen(cover: &Cover, request: &Request) -> BTreeMap<u64, Option<u32>> {
    let key = |(at, (hash, _)): (usize, &(u64, Vec<u32>))| (*hash, cover.server(at));
    request.iter().enumerate().map(key).collect()
}

/// Twin: the same rules over sets.
fn twin(request: &Request, seeds: &[u64], wanted: usize) -> BTreeMap<u64, Option<u32>> {
    let places: &BTreeMap<u64, Vec<u32>> = &request.iter().cloned().collect();
    let homes: BTreeMap<u64, Option<u32>> =
        places.iter().map(|(&key, at)| (key, Some(at[0]))).collect();
    let mut left: BTreeSet<u64> = places.keys().copied().collect();
    let wanted = wanted.min(left.len());
    let mut asked: BTreeMap<u64, Option<u32>> = left.iter().map(|&key| (key, None)).collect();
    while places.len() - left.len() < wanted {
        let smallest = *left.first().unwrap();
        let keys_left = &left;
        let held = |server: u32| {
            keys_left
                .iter()
                .filter(move |key| places[*key].contains(&server))
        };
        let score = |server: u32| {
            let at_home = held(server).filter(|key| places[*key][0] == server).count();
            let drawn = mix(seeds[server as usize] ^ smallest);
            (held(server).count(), at_home, drawn)
        };
        let best = (0..seeds.len() as u32)
            .max_by_key(|&server| score(server))
            .unwrap();
        let keys: Vec<u64> = match score(best).0 {
            0 | 1 => vec![smallest],
            _ => held(best).copied().collect(),
        };
        for key in &keys {
            asked.insert(
                *key,
                Some(if keys.len() == 1 {
                    places[key][0]
                } else {
                    best
                }),
            );
            left.remove(key);
        }
    }
    let load = |asked: &BTreeMap<u64, Option<u32>>, server| {
        asked.values().filter(|&&at| at == Some(server)).count()
    };
    loop {
        let before = asked.clone();
        for (&key, at) in places {
            let Some(server) = asked[&key] else { continue };
            if load(&asked, at[0]) > 0 || load(&asked, server) == 1 {
                asked.insert(key, Some(at[0]));
            }
        }
        if asked == before {
            break;
        }
    }
    match servers_of(&asked).len() > servers_of(&homes).len() {
        true => homes,
        false => asked,
    }
}

fn servers_of(asked: &BTreeMap<u64, Option<u32>>) -> BTreeSet<u32> {
    asked.values().flatten().copied().collect()
}

#[test]
fn it_chooses_what_its_twin_chooses_and_keeps_its_laws() {
    let mut random = SplitMix64::new(seed(0xc0f3));
    let mut cover = Cover::default();
    for round in 0..3_000 {
        let servers = 1 + random.below(if round % 3 == 0 { 60 } else { 12 });
        let (k, keys) = (1 + random.below(6) as usize, 1 + random.below(60));
        let request = request(&mut random, servers, k, keys);
        let seeds = seeds(servers);
        let distinct = request
            .iter()
            .map(|key| key.0)
            .collect::<BTreeSet<_>>()
            .len();
        let wanted = match round % 2 {
            0 => usize::MAX,
            _ => random.below(distinct as u64 + 1) as usize,
        };
        add_all(&mut cover, &request);
        cover.choose(&seeds, wanted);
        let asked = chosen(&cover, &request);
        assert_eq!(asked, twin(&request, &seeds, wanted), "round {round}");

        assert_eq!((asked.len(), cover.distinct()), (distinct, distinct));
        let covered = asked.values().flatten().count();
        assert!(covered >= wanted.min(distinct), "{covered} of {wanted}");
        let all = servers_of(&asked);
        assert_eq!(all.len(), cover.transactions());
        let homes: BTreeSet<u32> = request.iter().map(|key| key.1[0]).collect();
        assert!(all.len() <= homes.len(), "more than without copies");
        for (key, places) in &request {
            let Some(server) = asked[key] else { continue };
            assert!(places.contains(&server), "it is not there");
            if server != places[0] {
                assert!(!all.contains(&places[0]), "it could be asked at home");
                let beside = asked.values().filter(|&&at| at == Some(server)).count();
                assert!(beside > 1, "it is alone at a copy");
            }
        }

        // Neither the order of keys nor a key that comes again changes anything.
        let mut other: Request = request.iter().rev().cloned().collect();
        other.push(request[random.below(keys) as usize].clone());
        add_all(&mut cover, &other);
        cover.choose(&seeds, wanted);
        assert_eq!(chosen(&cover, &other), asked);
    }
}

#[test]
fn sending_keys_home_adds_no_transaction() {
    let mut random = SplitMix64::new(seed(0x40e));
    let mut cover = Cover::default();
    let mut fewer = 0;
    for _ in 0..3_000 {
        let servers = 2 + random.below(40);
        let (k, keys) = (2 + random.below(3) as usize, 1 + random.below(40));
        let request = request(&mut random, servers, k, keys);
        add_all(&mut cover, &request);
        cover.drop_repeated();
        cover.bundle(&seeds(servers), usize::MAX);
        let mut before = cover.transactions();
        while cover.send_home() {
            let after = cover.transactions();
            assert!(after <= before);
            fewer += before - after;
            before = after;
        }
    }
    assert!(fewer > 0, "some servers are spared by it");
}

#[test]
fn greed_may_lose_against_no_copies_and_is_not_followed_then() {
    // Homes are 0 and 1; each of 2, 3 and 4 holds more of what is left than either.
    let mut request = Request::new();
    for (home, copies) in [(0, [2, 2, 2, 2, 3, 3, 4]), (1, [2, 2, 2, 2, 3, 3, 4])] {
        for copy in copies {
            request.push((mix(request.len() as u64), vec![home, copy]));
        }
    }
    let mut cover = Cover::default();
    add_all(&mut cover, &request);
    cover.drop_repeated();
    cover.bundle(&seeds(5), usize::MAX);
    assert_eq!(cover.transactions(), 3);
    add_all(&mut cover, &request);
    cover.choose(&seeds(5), usize::MAX);
    assert_eq!(cover.transactions(), 2);
    assert!(
        request
            .iter()
            .enumerate()
            .all(|(at, key)| cover.server(at) == Some(key.1[0]))
    );
}

#[test]
fn single_keys_go_to_their_distinguished_places() {
    let mut cover = Cover::default();
    for request in [
        vec![(7, vec![3, 1, 2])],
        vec![(7, vec![3, 1, 2]), (7, vec![3, 1, 2])],
    ] {
        add_all(&mut cover, &request);
        cover.choose(&seeds(4), usize::MAX);
        assert_eq!(cover.server(request.len() - 1), Some(3));
        assert_eq!((cover.transactions(), cover.distinct()), (1, 1));
    }
    cover.clear();
    cover.choose(&[], usize::MAX);
    assert_eq!(cover.transactions(), 0);
}

#[test]
fn ten_thousand_keys_are_covered_by_few_of_many_servers() {
    let mut random = SplitMix64::new(seed(0x10_000));
    let request = request(&mut random, 10_000, 4, 10_000);
    let mut cover = Cover::default();
    add_all(&mut cover, &request);
    cover.choose(&seeds(10_000), usize::MAX);
    let asked = chosen(&cover, &request);
    assert!(
        request
            .iter()
            .all(|(key, places)| places.contains(&asked[key].unwrap()))
    );
    let homes: BTreeSet<u32> = request.iter().map(|key| key.1[0]).collect();
    let (ours, plain) = (cover.transactions(), homes.len());
    assert!(ours * 10 < plain * 7, "{ours} of {plain}");
}
