//! The table against a dumb twin, and the routes that make no table.

use super::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

fn route(prefix: &str, commands: Commands, pool: usize) -> RouteConfig {
    RouteConfig {
        prefix: prefix.as_bytes().into(),
        commands,
        ..RouteConfig::to_pool(pool)
    }
}

/// Looks at every route.
fn twin(routes: &[RouteConfig], key: &[u8], class: CommandClass) -> usize {
    let matching = routes
        .iter()
        .enumerate()
        .filter(|(_, route)| key.starts_with(&route.prefix) && route.commands.contains(class));
    let longest = matching.max_by_key(|(_, route)| route.prefix.len());
    longest.expect("there is a default").0
}

#[test]
fn the_longest_prefix_wins_whatever_the_others_are() {
    for seed in 0..200 {
        println!("seed {seed}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut below = move |bound: usize| (random.next_u64() % bound as u64) as usize;
        let mut word = |len: usize| -> String {
            let len = below(len + 1);
            (0..len)
                .map(|_| ['a', 'b', 'z', '\u{e9}'][below(4)])
                .collect()
        };
        let mut routes = Vec::new();
        for i in 0..40 {
            let mut commands = Commands::NONE;
            for (bit, class) in CommandClass::ALL.into_iter().enumerate() {
                if (seed >> (i % 7 + bit)) & 1 == 0 {
                    commands = commands.with(class);
                }
            }
            let new = route(&word(6), commands, 0);
            let collides = routes.iter().any(|other: &RouteConfig| {
                other.prefix == new.prefix && !other.commands.and(commands).is_empty()
            });
            if !new.prefix.is_empty() && !commands.is_empty() && !collides {
                routes.push(new);
            }
        }
        routes.insert(routes.len() / 2, route("", Commands::READS, 0));
        routes.push(route("", Commands::WRITES, 0));
        let table = RouteTable::new(routes.clone(), 1).unwrap();
        for _ in 0..500 {
            let key = word(9);
            for class in CommandClass::ALL {
                let expected = twin(&routes, key.as_bytes(), class);
                let found = table.find(key.as_bytes(), class);
                assert_eq!(found, expected, "{key} {class:?} among {routes:?}");
            }
        }
    }
}

#[test]
fn without_prefixes_nothing_is_searched() {
    let table = RouteTable::all_to_first();
    assert!(table.nodes.is_empty());
    assert_eq!(table.find(b"any", CommandClass::Set), 0);
    let made = RouteTable::new(vec![RouteConfig::to_pool(0)], 1).unwrap();
    assert_eq!(made.routes(), table.routes());
    assert_eq!(made.default, table.default);
}

#[test]
fn routes_that_make_no_table_are_named() {
    let all = Commands::ALL;
    let get = CommandClass::Get;
    let default = || route("", all, 0);
    let stripping = |prefix: &str| RouteConfig {
        strip_prefix: true,
        ..route(prefix, all, 0)
    };
    let adding = |prefix: String| RouteConfig {
        add_prefix: prefix.into_bytes().into(),
        ..route("a", all, 0)
    };
    let duplicate = RouteError::Duplicate {
        route: 2,
        earlier: 1,
        class: get,
    };
    for (routes, error) in [
        (vec![], RouteError::NoDefault { class: get }),
        (
            vec![route("a", all, 0)],
            RouteError::NoDefault { class: get },
        ),
        (
            vec![route("", Commands::READS, 0)],
            RouteError::NoDefault {
                class: CommandClass::Set,
            },
        ),
        (
            vec![
                default(),
                route("a", all, 0),
                route("a", Commands::READS, 0),
            ],
            duplicate,
        ),
        (
            vec![default(), route("a", all, 1)],
            RouteError::NoPool { route: 1 },
        ),
        (
            vec![default(), route("a b", all, 0)],
            RouteError::BadPrefix { route: 1 },
        ),
        (
            vec![default(), route(&"a".repeat(251), all, 0)],
            RouteError::BadPrefix { route: 1 },
        ),
        (
            vec![default(), adding("x".repeat(250))],
            RouteError::BadAddPrefix { route: 1 },
        ),
        (
            vec![default(), adding("\n".into())],
            RouteError::BadAddPrefix { route: 1 },
        ),
        (vec![stripping("")], RouteError::NothingToStrip { route: 0 }),
        (
            vec![default(), route("a", Commands::NONE, 0)],
            RouteError::NoCommands { route: 1 },
        ),
        (
            vec![default(); ROUTES_MAX + 1],
            RouteError::TooMany {
                count: ROUTES_MAX + 1,
            },
        ),
    ] {
        assert_eq!(RouteTable::new(routes, 1).unwrap_err(), error);
    }
    let fits = vec![default(), stripping("a"), adding("x".repeat(249))];
    assert!(matches!(
        RouteTable::new(fits, 1),
        Err(RouteError::Duplicate { .. })
    ));
}
