//! Where keys live, against the programs that placed them before, and against what each distribution
//! promises.

use super::super::config::Server;
use super::*;

/// Printed by libmemcached and by twemproxy; the programs that print them stand beside the files.
const LIBMEMCACHED: &str = include_str!("../../tests/fixtures/ketama_vectors.txt");
const TWEMPROXY: &str = include_str!("../../tests/fixtures/twemproxy_vectors.txt");

/// Those whose order of servers says where keys go when one is lost.
const CONSISTENT: [Distribution; 4] = [
    Distribution::Ketama,
    Distribution::KetamaWeighted,
    Distribution::TwemproxyKetama,
    Distribution::Rendezvous,
];

fn servers(list: &str) -> Vec<Server> {
    list.split(' ')
        .map(|server| server.parse().unwrap())
        .collect()
}

/// A distribution under a hash that spreads numbered keys evenly, as not all of the older ones do: what
/// is uneven then is the distribution's doing.
fn placement(distribution: Distribution, servers: Vec<Server>) -> Placement {
    Placement::new(&PlacementConfig {
        distribution,
        servers,
        hash: Some(Hash::Xxh3),
        hash_tag: None,
    })
    .unwrap()
}

fn keys(count: u32) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(|i| format!("key:{i}").into_bytes())
}

/// How many of 40,000 keys each server has.
fn counts(placement: &Placement) -> Vec<u32> {
    let mut counts = vec![0; placement.len()];
    for key in keys(40_000) {
        counts[placement.server(&key)] += 1;
    }
    counts
}

#[test]
fn every_key_lives_where_libmemcached_puts_it() {
    let mut lines = LIBMEMCACHED.lines();
    let mut pools = 0;
    while let (Some(pool), Some(expected)) = (lines.next(), lines.next()) {
        let mut words = pool.splitn(3, ' ');
        let [distribution, hash, list] = [0; 3].map(|_| words.next().unwrap());
        let placement = Placement::new(&PlacementConfig {
            distribution: distribution.parse().unwrap(),
            hash: Some(hash.parse().unwrap()),
            servers: servers(list),
            hash_tag: None,
        })
        .unwrap();
        for (key, expected) in keys(600).zip(expected.chars()) {
            let expected = expected.to_digit(36).unwrap() as usize;
            assert_eq!(placement.server(&key), expected, "{key:?} in {pool}");
        }
        assert_eq!(expected.len(), 600);
        pools += 1;
    }
    assert_eq!(pools, 40);
}

#[test]
fn every_key_lives_where_twemproxy_puts_it() {
    let mut lines = TWEMPROXY.lines();
    let mut pools = 0;
    while let (Some(pool), Some(expected)) = (lines.next(), lines.next()) {
        let mut words = pool.split('|');
        let [distribution, hash, tag] = [0; 3].map(|_| words.next().unwrap());
        let hash_tag = (tag != "-").then(|| tag.parse().unwrap());
        let placement = Placement::new(&PlacementConfig {
            distribution: format!("twemproxy_{distribution}").parse().unwrap(),
            hash: Some(hash.parse().unwrap()),
            servers: words.map(|server| server.parse().unwrap()).collect(),
            hash_tag,
        })
        .unwrap();
        for (i, expected) in expected.chars().enumerate() {
            let key = match tag.as_bytes() {
                [open, close] => format!("{}{i}{}:key:{i}", *open as char, *close as char),
                _ => format!("key:{i}"),
            };
            let expected = expected.to_digit(36).unwrap() as usize;
            assert_eq!(
                placement.server(key.as_bytes()),
                expected,
                "{key} in {pool}"
            );
        }
        assert_eq!(expected.len(), 300);
        pools += 1;
    }
    assert_eq!(pools, 32);
}

/// Nobody else computes them as we do, so nothing but a test keeps a later version from moving keys.
/// The values are those of a second implementation, in Python.
#[test]
fn our_own_scores_never_change() {
    let placement = placement(
        Distribution::Rendezvous,
        servers("a:1:1 b:2:2 c:3:3 d:4:10"),
    );
    let found: String = keys(100)
        .map(|key| placement.server(&key).to_string())
        .collect();
    assert_eq!(found, OWN_RENDEZVOUS);
}

const OWN_RENDEZVOUS: &str = "3233332333323133113313310333303333333323203122233211223303333320333312330331333333333331333332303331";

#[test]
fn candidates_are_all_servers_once_from_the_home_on() {
    for &distribution in Distribution::ALL {
        let list: Vec<Server> = (1..=7).map(|i| Server::new("a", i)).collect();
        let (one, other) = (
            placement(distribution, list.clone()),
            placement(distribution, list),
        );
        for key in keys(2000) {
            let mut all: Vec<usize> = one.candidates(&key).collect();
            assert!(other.candidates(&key).eq(all.iter().copied()));
            assert_eq!(all[0], one.server(&key));
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4, 5, 6], "{distribution}");
        }
        let alone = placement(distribution, servers("a:1"));
        assert!(alone.candidates(b"k").eq([0]));
    }
}

#[test]
fn keys_of_a_lost_server_go_to_their_second_candidates_and_no_other_key_moves() {
    for distribution in CONSISTENT {
        let all = placement(distribution, servers("a b c d"));
        let without = placement(distribution, servers("a b d"));
        let mut heirs = [0; 4];
        for key in keys(4000) {
            let home = all.server(&key);
            let expected = all.candidates(&key).find(|&server| server != 2).unwrap();
            let now = [0, 1, 3][without.server(&key)];
            assert_eq!(now, expected, "{distribution}");
            assert!(now == home || home == 2);
            heirs[now] += u32::from(home == 2);
        }
        assert!(
            [0, 1, 3].iter().all(|&server| heirs[server] > 100),
            "{distribution}: {heirs:?}"
        );
    }
}

#[test]
fn no_other_key_moves_at_the_end_of_a_jump_list() {
    let all = placement(Distribution::Jump, servers("a b c d"));
    let without = placement(Distribution::Jump, servers("a b c"));
    for key in keys(4000) {
        let (home, now) = (all.server(&key), without.server(&key));
        assert!(now == home || home == 3);
    }
}

#[test]
fn servers_get_their_shares() {
    for &distribution in Distribution::ALL {
        let equal = placement(
            distribution,
            (1..=10).map(|i| Server::new("a", i)).collect(),
        );
        // Rings are as uneven as their points are few: with 100 to 160 points the standard deviation
        // of a share is about a tenth of it. The others are even but for chance.
        let slack = match distribution {
            Distribution::Ketama | Distribution::KetamaWeighted | Distribution::TwemproxyKetama => {
                0.4
            }
            _ => 0.1,
        };
        for count in counts(&equal) {
            let off = (f64::from(count) / 4000.0 - 1.0).abs();
            assert!(off < slack, "{distribution}: {count} keys instead of 4000");
        }
    }
    for distribution in [
        Distribution::KetamaWeighted,
        Distribution::TwemproxyKetama,
        Distribution::TwemproxyModula,
        Distribution::Rendezvous,
    ] {
        let weighted = placement(distribution, servers("a:1:1 b:1:2 c:1:3 d:1:4"));
        for (count, weight) in counts(&weighted).into_iter().zip([1.0, 2.0, 3.0, 4.0]) {
            let off = (f64::from(count) / (4000.0 * weight) - 1.0).abs();
            assert!(
                off < 0.3,
                "{distribution}: {count} keys for weight {weight}"
            );
        }
    }
}

#[test]
fn a_weight_that_grows_takes_keys_from_all_and_gives_none_away() {
    let before = placement(Distribution::Rendezvous, servers("a:1:2 b:1:2 c:1:3"));
    let after = placement(Distribution::Rendezvous, servers("a:1:2 b:1:3 c:1:3"));
    for key in keys(5000) {
        let (was, is) = (before.server(&key), after.server(&key));
        assert!(is == was || is == 1);
    }
}

#[test]
fn a_server_without_points_is_the_last_resort() {
    let placement = placement(Distribution::KetamaWeighted, servers("a:1:1000000 b:1:1"));
    for key in keys(500) {
        assert!(placement.candidates(&key).eq([0, 1]));
    }
}

#[test]
fn keys_with_equal_tags_live_together() {
    let mut config = PlacementConfig {
        servers: (1..=9).map(|i| Server::new("a", i)).collect(),
        hash_tag: Some("{}".parse().unwrap()),
        ..PlacementConfig::default()
    };
    let tagged = Placement::new(&config).unwrap();
    config.hash_tag = None;
    let whole = Placement::new(&config).unwrap();
    let mut apart = 0;
    for i in 0..500 {
        let (tag, key) = (format!("u{i}"), format!("a:{{u{i}}}:{}", i * 7));
        assert_eq!(tagged.server(key.as_bytes()), whole.server(tag.as_bytes()));
        apart += u32::from(tagged.server(key.as_bytes()) != whole.server(key.as_bytes()));
        assert_eq!(tagged.server(tag.as_bytes()), whole.server(tag.as_bytes()));
    }
    assert!(apart > 300, "{apart}");
}
