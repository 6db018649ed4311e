//! Items that come along though nobody asks for them.

use super::ring_servers::Proxies;
use super::*;

const WARMING_MS: u64 = limits::RING_WARMING.as_millis() as u64;
const WARMING_MAX_MS: u64 = limits::RING_WARMING_MAX.as_millis() as u64;
const CLOSING_MS: u64 = limits::CLOSING_MIN.as_millis() as u64;
const DEAD_MS: u64 = limits::RING_DEAD_AFTER.as_millis() as u64;

/// Keys in a second.
const KEYS: u32 = 500;

fn set(proxies: &mut Proxies, keys_per_second: u32) -> Result<RingView, ChangeRefusal> {
    let request = RingSettingsRequest {
        copy_keys_per_second: Some(keys_per_second),
        ..RingSettingsRequest::default()
    };
    let now = proxies.world.now;
    proxies.world.core.set_ring(now, "main", &request)
}

/// A server is drained whose items are to be copied, and the pool is warming.
fn drained() -> Proxies {
    let mut proxies = Proxies::of(2, 3, RingMode::Automatic);
    set(&mut proxies, KEYS).unwrap();
    assert!(work(&proxies).is_none());
    proxies.order(ServerOrder::Drain, "m2").unwrap();
    proxies.pass(1000);
    assert_eq!(stage(&proxies), Stage::Warming);
    proxies
}

fn work(proxies: &Proxies) -> Option<CopyWork> {
    let work = proxies.world.core.copy_work(proxies.world.now.monotonic);
    assert!(work.len() < 2);
    work.into_iter().next()
}

fn stage(proxies: &Proxies) -> Stage {
    proxies.view().change.stage
}

/// What was copied of a server of a plan.
fn copied(plan: u64, is_over: bool, failed: Option<&str>) -> RingCopy {
    RingCopy {
        plan,
        is_over,
        servers: vec![CopiedServer {
            server: "m2".into(),
            listed: 10,
            moving: 10,
            found: 10,
            failed: failed.map(str::to_owned),
            ..CopiedServer::default()
        }],
        failed: None,
    }
}

fn tell(proxies: &mut Proxies, copy: RingCopy) {
    let now = proxies.world.now;
    proxies.world.core.handle_copy(now, "main", copy);
}

#[test]
fn a_plan_warms_until_all_is_copied() {
    let mut proxies = drained();
    let asked = work(&proxies).expect("items are to be copied");
    assert_eq!((asked.pool.as_str(), asked.keys_per_second), ("main", KEYS));
    assert_eq!(asked.plan, proxies.plan());
    let (_, port) = asked.proxy.expect("both are heard");
    assert!(port > 0);
    proxies.pass(2 * WARMING_MS);
    assert_eq!(stage(&proxies), Stage::Warming);
    tell(&mut proxies, copied(2, false, None));
    proxies.pass(1000);
    let view = proxies.view();
    assert_eq!(view.copy, Some(copied(2, false, None)));
    let hint = &view.change.hint;
    assert!(
        hint.starts_with("asks for all items that move, 10 by now"),
        "{hint}"
    );
    assert!(work(&proxies).is_some());
    // Of another plan it says nothing.
    tell(&mut proxies, copied(1, true, None));
    proxies.pass(1000);
    assert_eq!(stage(&proxies), Stage::Warming);
    tell(&mut proxies, copied(2, true, None));
    assert!(work(&proxies).is_none());
    proxies.pass(1000);
    assert_eq!(stage(&proxies), Stage::Closing);
    proxies.pass(CLOSING_MS + 1000);
    assert_eq!(stage(&proxies), Stage::Done);
    assert_eq!(proxies.view().copy, Some(copied(2, true, None)));
    // Each key is counted once, however often it is told.
    let counted = proxies.world.core.change_counts().copied;
    assert_eq!((counted.found, counted.refused), (10, 0));
    // The next one is copied anew.
    proxies.order(ServerOrder::Drain, "m3").unwrap();
    proxies.pass(1000);
    assert_eq!(proxies.view().copy, None);
    assert_eq!(work(&proxies).map(|it| it.plan.number), Some(3));
}

#[test]
fn what_cannot_be_copied_comes_along_as_long_as_without() {
    let mut proxies = drained();
    tell(&mut proxies, copied(2, true, Some("it lists nothing")));
    assert!(work(&proxies).is_none());
    proxies.pass(WARMING_MS - 2000);
    assert_eq!(stage(&proxies), Stage::Warming);
    proxies.pass(2000);
    assert_eq!(stage(&proxies), Stage::Closing);
}

#[test]
fn a_plan_goes_on_without_what_takes_too_long_to_copy() {
    let mut proxies = drained();
    proxies.pass(WARMING_MAX_MS - 2000);
    assert_eq!(stage(&proxies), Stage::Warming);
    proxies.pass(2000);
    assert_eq!(stage(&proxies), Stage::Closing);
    assert!(work(&proxies).is_none());
}

#[test]
fn nothing_is_copied_while_a_server_is_dead_or_nobody_wants_it() {
    let mut proxies = drained();
    set(&mut proxies, 0).unwrap();
    assert!(work(&proxies).is_none());
    set(&mut proxies, KEYS).unwrap();
    assert!(work(&proxies).is_some());
    proxies.lose(0, |_| true);
    proxies.pass(DEAD_MS + 1000);
    assert!(work(&proxies).is_none());
    let much = set(&mut proxies, limits::RING_COPY_KEYS_MAX + 1);
    let why = much.expect_err("that is too much").to_string();
    assert!(
        why.contains("copy_keys_per_second is at most 100000"),
        "{why}"
    );
}
