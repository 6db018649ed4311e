//! Other routes, pools and clusters, and what is told of them; the other stories of reloads are in `scripts/reload.txt`.

use super::routing::{pool, route, routes};
use super::world::{SOURCE, World, key_of, map, memcached};
use crate::*;

#[test]
fn routes_change_for_the_next_request_and_answers_keep_their_names() {
    let mut world = World::memcached_with(1, |config| {
        let mut old = route("app:", RouteTarget::Pool(0));
        old.strip_prefix = true;
        old.add_prefix = b"old/".as_slice().into();
        routes(config, vec![RouteConfig::to_pool(0), old]);
    });
    let client = world.client();
    let other = world.client();
    world.send(client, "mg app:1 k\r\n");
    world.configure(|config| {
        let mut new = route("app:", RouteTarget::Pool(0));
        new.strip_prefix = true;
        new.add_prefix = b"new/".as_slice().into();
        routes(config, vec![RouteConfig::to_pool(0), new]);
    });
    // Yet another one, so that numbers of renamings that are no longer used are used again.
    world.configure(|config| {
        let mut new = route("app:", RouteTarget::Pool(0));
        new.add_prefix = b"newer/".as_slice().into();
        routes(config, vec![RouteConfig::to_pool(0), new]);
    });
    world.send(other, "mg app:1 k\r\n");
    assert_eq!(world.asked(101), "mg old/1 k\r\nmg newer/app:1 k\r\n");
    world.reply(101, "HD kold/1\r\nHD knewer/app:1\r\n");
    assert_eq!(world.received(client), "HD kapp:1\r\n");
    assert_eq!(world.received(other), "HD kapp:1\r\n");
}

#[test]
fn a_pool_that_goes_finishes_what_it_was_asked_moves_included() {
    let mut world = World::evenkeel(2);
    let (key, _) = key_of(1, 2);
    let client = world.client();
    world.send(client, format!("set {key} 0 0 1\r\nx\r\n"));
    world.configure(|config| {
        config.pools = vec![pool("plain", memcached([111]))];
    });
    assert_eq!(world.core.stats().maps, 1);
    // The key has moved meanwhile: its new home is asked although the pool is gone for new requests.
    world.reply(101, "MOVED 2 2 0\r\n");
    assert_eq!(world.asked(102), format!("ms {key} 1 F0 T0 Y1\r\nx\r\n"));
    world.send(client, format!("get {key}\r\n"));
    assert!(
        !world.has_asked(111),
        "it may have to wait for its own write"
    );
    world.reply(102, "HD\r\n");
    assert_eq!(world.received(client), "STORED\r\n");
    assert_eq!(world.asked(111), format!("get {key}\r\n"));
    world.reply(111, "END\r\n");
    world.wait_ms(100);
    assert_eq!(world.core.backends().len(), 1, "the other pool's are gone");
    assert!(!world.is_connected(101) && !world.is_connected(102));
    assert_eq!(
        world.core.poll_deadline(),
        None,
        "nothing is left to look after"
    );
}

#[test]
fn a_pool_that_follows_another_cluster_is_another_pool() {
    let mut world = World::evenkeel(1);
    let client = world.client();
    world.send(client, "get a\r\n");
    world.configure(|config| config.pools[0].kind = PoolKind::Evenkeel(MapSource(2)));
    world
        .core
        .set_map(world.now, MapSource(2), &map(1, 1, |_| 1));
    // A late map of the former cluster concerns only what is left of its pool.
    world.core.set_map(world.now, SOURCE, &map(7, 1, |_| 1));
    assert_eq!(world.core.epoch(MapSource(2)).0, 1);
    assert_eq!(world.core.epoch(SOURCE).0, 0);
    assert_eq!(world.attempts(101), 1);
    let other = world.client();
    world.send(other, "get a\r\n");
    assert_eq!(world.attempts(101), 2, "a connection of its own");
}

#[test]
fn a_long_multi_get_goes_on_by_the_new_configuration_once_the_old_answers_have_come() {
    let mut world = World::memcached_with(1, |config| config.requests_per_turn = 1_000_000);
    let client = world.client();
    let keys: Vec<String> = (0..3000).map(|i| format!("k{i}")).collect();
    world.send(client, format!("get {}\r\n", keys.join(" ")));
    world.configure(|config| config.pools[0].kind = memcached([111]));
    let mut shown = String::new();
    let mut by_old = 0;
    for _ in 0..1000 {
        for port in [101, 111] {
            let asked = world.asked(port);
            for line in asked.lines() {
                let mut answer = String::new();
                for key in line.split(' ').skip(1) {
                    answer.push_str(&format!("VALUE {key} 0 1\r\nx\r\n"));
                    by_old += usize::from(port == 101);
                }
                world.reply(port, answer + "END\r\n");
            }
        }
        shown.push_str(&world.received(client));
        if shown.ends_with("END\r\n") {
            break;
        }
    }
    let expected: String = keys
        .iter()
        .map(|k| format!("VALUE {k} 0 1\r\nx\r\n"))
        .collect();
    assert_eq!(shown, expected + "END\r\n");
    assert!((1..keys.len()).contains(&by_old), "{by_old}");
}

#[test]
fn statistics_tell_which_configuration_is_active() {
    let mut world = World::memcached(1);
    world.configure(|config| config.revision.digest = "d1".into());
    let client = world.client();
    world.send(client, "stats proxy\r\nstats settings\r\nstats\r\n");
    let process = ProcessStats {
        facts: ProcessFacts {
            config_reloads: 3,
            config_reload_failures: 4,
            ..ProcessFacts::default()
        },
        config_refusal: "p.toml:2:1: no".into(),
        ..ProcessStats::default()
    };
    for ticket in std::mem::take(&mut world.stats_asked) {
        world.core.answer_stats(world.now, ticket, &process);
    }
    world.send(client, "");
    let text = world.received(client);
    for line in [
        "STAT config_generation 2\r\nSTAT config_digest d1\r\nSTAT config_reloads 3\r\n\
         STAT config_reload_failures 4\r\nSTAT config_refusal p.toml:2:1: no\r\n\
         STAT default:state serving\r\nSTAT default:kind memcached\r\n",
        "STAT proxy_config_generation 2\r\nSTAT proxy_config_digest d1\r\n",
        "STAT proxy_config_reloads 3\r\nSTAT proxy_config_reload_failures 4\r\n",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
}

#[test]
fn metrics_tell_the_fingerprint_and_whether_a_newer_file_was_refused_but_not_why() {
    let mut process = ProcessStats {
        config_digest: "d1".into(),
        ..ProcessStats::default()
    };
    let text = render_metrics(&process);
    assert!(
        text.contains("evenkeel_proxy_config_info{md5=\"d1\"} 1\n"),
        "{text}"
    );
    assert!(text.contains("evenkeel_proxy_config_refused 0\n"), "{text}");
    process.config_refusal = "p.toml:2:1: no".into();
    let text = render_metrics(&process);
    assert!(text.contains("evenkeel_proxy_config_refused 1\n"), "{text}");
    assert!(!text.contains("p.toml"), "{text}");
}
