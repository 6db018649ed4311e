//! Changes of pools in steps, over real HTTP.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use evenkeel_control::bundles::{BundleWish, FollowedBundle};
use evenkeel_control::rings::{FollowedRing, RingPlan, RingWish};
use evenkeel_control::{FollowedPool, PoolStep};
use evenkeel_coordinator::Args;
use evenkeel_coordinator_core::{
    BeginRequest, BundleSwitchRequest, ChangeNews, ChangeView, GrainsMove, MemberKind,
    RingMoveRequest, Stage,
};
use evenkeel_member::client::{ApiClient, ClientError, ClientResult};
use evenkeel_member::{MemberEvent, MemberHandle, Report};
use evenkeel_placement::config::{PlacementConfig, Server};
use evenkeel_testkit::poll_until;
use serde_json::json;

use crate::support::{DEADLINE, Running, args, call, life, lively};

/// A proxy that follows a pool and acknowledges each step at once.
struct Follower {
    handle: MemberHandle,
    told: Arc<Mutex<Told>>,
}

/// What its file says of the pool.
#[derive(Clone, Default)]
struct Wish {
    ring: Option<RingWish>,
    copies: Option<BundleWish>,
}

#[derive(Default)]
struct Told {
    steps: BTreeMap<String, PoolStep>,
    /// What was told of the first pool, one after the other.
    stages: Vec<Stage>,
    /// The newest plan of its ring.
    plan: Option<Arc<RingPlan>>,
    refused: Option<String>,
    has_lost_name: bool,
}

impl Follower {
    fn start(coordinator: SocketAddr, n: u16) -> Follower {
        Follower::of_life(coordinator, n, 1_000 + u64::from(n))
    }

    fn of_life(coordinator: SocketAddr, n: u16, boot: u64) -> Follower {
        Follower::of(coordinator, n, boot, Wish::default())
    }

    fn of(coordinator: SocketAddr, n: u16, boot: u64, wish: Wish) -> Follower {
        let told = Arc::new(Mutex::new(Told::default()));
        let (said, heard) = (Arc::clone(&told), Arc::clone(&told));
        let report = move || {
            let told = said.lock().unwrap();
            let step = told.steps.get("main").map(|told| told.step);
            Report {
                pools: vec![FollowedPool {
                    pool: "main".into(),
                    told: step,
                    acknowledged: step.map_or(0, |step| step.version),
                    ring: wish.ring.as_ref().map(|wish| followed_ring(&told, wish)),
                    bundle: wish.copies.map(|wish| FollowedBundle {
                        wish,
                        plan: (told.steps.get("main").and_then(|told| told.bundle))
                            .map(|it| it.plan),
                    }),
                    found: None,
                }],
                ..Report::default()
            }
        };
        let on_event = move |event| {
            let mut told = heard.lock().unwrap();
            match event {
                MemberEvent::Step(step) => {
                    told.stages.push(step.step.stage);
                    let plan = step.ring.as_ref().and_then(|ring| ring.plan.clone());
                    told.plan = plan.or(told.plan.take());
                    told.steps.insert(step.pool.clone(), step);
                }
                MemberEvent::Refused { reason, .. } => told.refused = Some(reason),
                MemberEvent::NameLost { .. } => told.has_lost_name = true,
                _ => {}
            }
        };
        let config = life(&[coordinator], MemberKind::Proxy, n, boot);
        let handle = MemberHandle::start(config, report, on_event).unwrap();
        Follower { handle, told }
    }

    fn stage(&self) -> Option<Stage> {
        let told = self.told.lock().unwrap();
        told.stages.last().copied()
    }
}

fn followed_ring(told: &Told, wish: &RingWish) -> FollowedRing {
    let plan = told.plan.as_ref();
    FollowedRing {
        counts: None,
        unreached: None,
        number: plan.map_or(0, |plan| plan.number),
        incarnation: plan.map_or(0, |plan| plan.incarnation),
        wish: plan.is_none().then(|| wish.clone()),
    }
}

fn main_pool(client: &ApiClient) -> Option<ChangeView> {
    let changes = client.changes().ok()?.changes;
    changes.into_iter().find(|change| change.pool == "main")
}

fn wait_for_followers(client: &ApiClient, count: usize) {
    poll_until(DEADLINE, "proxies that follow", || {
        main_pool(client).filter(|change| change.proxies.len() == count)
    });
}

fn begin(client: &ApiClient, goal: Stage, proxies: usize) -> ClientResult<ChangeView> {
    client.begin_change("main", &BeginRequest::at_once(goal, proxies))
}

/// Brings a pool to a stage. A machine with much else to do may take longer than requests are let wait, and then it is begun again.
fn bring(client: &ApiClient, followers: &[Follower], goal: Stage) {
    poll_until(DEADLINE, "the stage", || {
        let change = main_pool(client)?;
        if change.stage == change.goal && change.stage != goal {
            // Somebody may have fallen silent meanwhile; then it is tried again.
            let _ = begin(client, goal, followers.len());
        }
        let are_there = followers.iter().all(|it| it.stage() == Some(goal));
        are_there.then_some(())
    });
}

fn reason<T>(result: ClientResult<T>) -> (u16, String) {
    match result.map(|_| ()).unwrap_err() {
        ClientError::Refused { status, reason, .. } => (status, reason),
        error => panic!("{error}"),
    }
}

#[test]
fn a_pool_is_changed_over_restarts_of_the_coordinator_with_and_without_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let first = Args {
        state: Some(folder.path().join("state")),
        ..lively()
    };
    let running = Running::start(&first);
    let at = running.address;
    let followers = [Follower::start(at, 1), Follower::start(at, 2)];
    let client = running.client();
    wait_for_followers(&client, 2);
    assert_eq!(
        reason(begin(&client, Stage::Done, 3)),
        (409, "other_count".into())
    );
    bring(&client, &followers, Stage::Warming);
    let version = main_pool(&client).unwrap().version;
    let metrics = call(at, "GET", "/metrics", "").1;
    for line in [
        "pool_changes{stage=\"warming\"} 1",
        "pool_changes_under_way 0",
        "pool_steps_taken_over_total 0",
    ] {
        let line = format!("evenkeel_coordinator_{line}\n");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    drop(running);

    let again = Args {
        listen: at.to_string(),
        ..first
    };
    let running = Running::start(&again);
    let client = running.client();
    let kept = poll_until(DEADLINE, "the pool", || main_pool(&client));
    assert_eq!((kept.stage, kept.version), (Stage::Warming, version));
    assert_eq!(kept.proxies.len(), 2);
    drop(running);

    // Nothing is known any more, and what proxies were told goes on.
    let running = Running::start(&Args {
        state: Some(folder.path().join("another")),
        ..again
    });
    let client = running.client();
    wait_for_followers(&client, 2);
    let taken = main_pool(&client).unwrap();
    assert_eq!((taken.stage, taken.version), (Stage::Warming, version));
    assert_eq!(taken.goal, Stage::Warming);
    let told = client.change_events().unwrap();
    let mut told = told.iter().map(|event| event.what);
    assert!(told.any(|what| what == ChangeNews::TakenOver));
    bring(&client, &followers, Stage::Done);
    for follower in &followers {
        let stages = follower.told.lock().unwrap().stages.clone();
        let mut steps = stages.windows(2);
        let goes_on = |pair: &[Stage]| {
            pair[0].next() == Some(pair[1]) || pair[0].withdrawn() == Some(pair[1])
        };
        assert!(steps.all(goes_on), "{stages:?}");
        assert_eq!(stages.first(), Some(&Stage::Former));
    }
    let [one, other] = followers;
    one.handle.leave();
    assert_eq!(
        reason(client.forget_change("main")),
        (409, "still_followed".into())
    );
    other.handle.leave();
    wait_for_followers(&client, 0);
    assert_eq!(client.forget_change("main").unwrap().pool, "main");
    assert_eq!(client.changes().unwrap().changes, []);
}

#[test]
fn a_part_of_a_ring_moves_over_a_restart_of_the_coordinator() {
    let folder = tempfile::tempdir().unwrap();
    let first = Args {
        state: Some(folder.path().join("state")),
        ..lively()
    };
    let running = Running::start(&first);
    let at = running.address;
    let servers = ["m1", "m2"].map(|host| Server::new(host, 11_211));
    let ring = RingWish {
        even: true,
        placement: PlacementConfig {
            servers: servers.into(),
            ..PlacementConfig::default()
        },
    };
    let wish = Wish {
        ring: Some(ring),
        copies: None,
    };
    let followers = [1, 2].map(|n| Follower::of(at, n, n.into(), wish.clone()));
    let client = running.client();
    wait_for_followers(&client, 2);
    let request = |proxies| RingMoveRequest {
        grains: vec![GrainsMove {
            from: "m1".into(),
            to: "m2".into(),
            grains: 100,
        }],
        proxies,
        ..RingMoveRequest::default()
    };
    let order = |client: &ApiClient, proxies| client.begin_ring_move("main", &request(proxies));
    assert_eq!(reason(order(&client, 3)), (409, "other_count".into()));
    assert_eq!(
        reason(begin(&client, Stage::Done, 2)),
        (409, "has_ring".into())
    );
    let (status, answer) = call(at, "POST", "/api/v1/rings/main/moves", "{\"proxies\":2}");
    assert_eq!(status, 400, "{answer}");
    assert!(answer.contains("\"bad_moves\""), "{answer}");
    let ordered = order(&client, 2).unwrap();
    assert!(ordered.change.ring.is_some(), "{ordered:?}");
    drop(running);

    let running = Running::start(&Args {
        listen: at.to_string(),
        ..first
    });
    let client = running.client();
    poll_until(DEADLINE, "the moved ring", || {
        let ring = client.rings().ok()?.rings.pop()?;
        let change = &ring.change;
        if change.stage == Stage::Former && change.goal == Stage::Former {
            // A machine with much else to do may have let requests wait for too long.
            let _ = order(&client, 2);
        }
        (change.stage == Stage::Done).then_some(())
    });
    let ring = client.rings().unwrap().rings.remove(0);
    assert!(ring.servers[1].share > 0.52, "{ring:?}");
    poll_until(DEADLINE, "all proxies", || {
        let is_there = |follower: &Follower| follower.stage() == Some(Stage::Done);
        followers.iter().all(is_there).then_some(())
    });
    let [one, other] = followers.map(|it| it.told.lock().unwrap().plan.clone().unwrap());
    assert_eq!(one, other);
    assert_eq!(one.moved().unwrap().generation(), ring.generation);
}

#[test]
fn copies_are_switched_over_restarts_of_the_coordinator_with_and_without_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let first = Args {
        state: Some(folder.path().join("state")),
        ..lively()
    };
    let running = Running::start(&first);
    let at = running.address;
    let copies = BundleWish {
        copies: 2,
        servers: 4,
        fingerprint: u64::MAX,
    };
    let wish = Wish {
        ring: None,
        copies: Some(copies),
    };
    let followers = [1, 2].map(|n| Follower::of(at, n, n.into(), wish.clone()));
    let client = running.client();
    wait_for_followers(&client, 2);
    let of = |proxies| BundleSwitchRequest { proxies };
    assert_eq!(
        reason(client.switch_bundle_on("main", &of(3))),
        (409, "other_count".into())
    );
    assert_eq!(
        reason(client.switch_bundle_off("main", &of(2))),
        (409, "switched".into())
    );
    let has_bundle = (409, "has_bundle".into());
    assert_eq!(reason(begin(&client, Stage::Done, 2)), has_bundle);
    let (status, answer) = call(at, "POST", "/api/v1/bundles/main/on", "{\"proxies\":0}");
    assert_eq!(status, 400, "{answer}");
    // Both have to follow what they are told first.
    let ordered = poll_until(DEADLINE, "all proxies", || {
        client.switch_bundle_on("main", &of(2)).ok()
    });
    assert_eq!(ordered.plan.unwrap().of, copies);
    drop(running);

    let again = Args {
        listen: at.to_string(),
        ..first
    };
    let running = Running::start(&again);
    let client = running.client();
    let plan_at = |client: &ApiClient, stage| {
        poll_until(DEADLINE, "the stage", || {
            let bundle = client.bundles().ok()?.bundles.pop()?;
            let are_there = followers.iter().all(|it| it.stage() == Some(stage));
            (bundle.change.stage == stage && are_there).then_some(bundle)
        })
    };
    let on = plan_at(&client, Stage::Warming);
    assert_eq!((on.switch.as_str(), on.plan), ("on", ordered.plan));
    assert!(on.wishes.iter().all(|it| it.fits), "{on:?}");
    drop(running);

    // Nothing is known any more, and what proxies were told goes on.
    let running = Running::start(&Args {
        state: Some(folder.path().join("another")),
        ..again
    });
    let client = running.client();
    let taken = plan_at(&client, Stage::Warming);
    assert_eq!(taken.plan, ordered.plan);
    assert!(taken.change.hint.contains("lost its state"), "{taken:?}");
    wait_for_followers(&client, 2);
    client.switch_bundle_off("main", &of(2)).unwrap();
    let off = plan_at(&client, Stage::Done);
    assert_eq!(off.switch, "off");
    let second = poll_until(DEADLINE, "all proxies", || {
        client.switch_bundle_on("main", &of(2)).ok()
    });
    let (first, second) = (ordered.plan.unwrap(), second.plan.unwrap());
    assert_eq!((first.number, second.number), (1, 2));
    assert_ne!(first.token, second.token);
    let metrics = call(at, "GET", "/metrics", "").1;
    assert!(metrics.contains("evenkeel_coordinator_bundles_on_total 1\n"));
}

#[test]
fn a_second_proxy_of_a_name_is_told_that_it_is_taken() {
    let running = Running::start(&lively());
    let at = running.address;
    let first = Follower::start(at, 1);
    let client = running.client();
    wait_for_followers(&client, 1);
    let second = Follower::of_life(at, 1, 77);
    let refused = |follower: &Follower| follower.told.lock().unwrap().refused.clone();
    poll_until(DEADLINE, "a refusal", || {
        (refused(&second).as_deref() == Some("name_taken")).then_some(())
    });
    first.handle.leave();
    poll_until(DEADLINE, "the name", || second.stage());
    let boot = main_pool(&client).unwrap().proxies[0].boot;
    assert_eq!(boot.0, 77);
    assert!(!second.told.lock().unwrap().has_lost_name);
}

#[test]
fn a_proxy_that_was_replaced_is_told_that_its_name_is_lost() {
    let running = Running::start(&Args {
        silent_ms: 300,
        ..args()
    });
    let at = running.address;
    let client = running.client();
    // It falls silent without a word, and another takes its name.
    let silent = Follower::start(at, 1);
    wait_for_followers(&client, 1);
    silent.handle.stop();
    let second = Follower::of_life(at, 1, 77);
    poll_until(DEADLINE, "the name", || second.stage());
    let first = Follower::of_life(at, 1, 1_001);
    poll_until(DEADLINE, "a word to the first", || {
        first.told.lock().unwrap().has_lost_name.then_some(())
    });
    let refused = first.told.lock().unwrap().refused.clone();
    assert_eq!(refused.as_deref(), Some("duplicate_name"));
}

#[test]
fn what_cannot_be_done_with_changes_is_refused_with_its_word() {
    let running = Running::start(&args());
    let at = running.address;
    let client = running.client();
    let heartbeat = json!({
        "cluster": "test", "kind": "proxy", "name": "p1", "boot": 1, "host": "h", "port": 0,
        "pools": [{"pool": "main"}],
    });
    let answer = poll_until(
        DEADLINE,
        "a coordinator to which nobody comes that knows better",
        || {
            let (status, answer) = call(at, "POST", "/api/v1/heartbeat", &heartbeat.to_string());
            assert_eq!(status, 200, "{answer}");
            let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
            answer.get("pools").is_some().then_some(answer)
        },
    );
    let step = json!([{"pool": "main", "step": {"version": 1, "stage": "former"}}]);
    assert_eq!(answer["pools"], step);
    assert_eq!(
        reason(begin(&client, Stage::Closing, 1)),
        (400, "bad_goal".into())
    );
    assert_eq!(
        reason(begin(&client, Stage::Done, 0)),
        (400, "no_proxies".into())
    );
    let unknown = (404, "unknown_pool".into());
    assert_eq!(reason(client.withdraw_change("a/b")), unknown);
    assert_eq!(
        reason(client.remove_proxy("p1")),
        (409, "still_heard".into())
    );
    assert_eq!(
        reason(client.remove_proxy("p 2")),
        (404, "unknown_proxy".into())
    );
    begin(&client, Stage::Done, 1).unwrap();
    let goal = client.withdraw_change("main").unwrap().goal;
    assert_eq!(goal, Stage::Former);
    let odd = json!({
        "pools": [{"pool": "main", "told": {"version": 1, "stage": "done"}}],
    });
    let mut foreign = heartbeat;
    foreign["pools"] = odd["pools"].clone();
    let (status, answer) = call(at, "POST", "/api/v1/heartbeat", &foreign.to_string());
    assert_eq!(status, 409);
    assert!(answer.contains("\"foreign_step\""), "{answer}");
    for (path, body) in [
        ("begin", "{\"goal\":\"done\"}"),
        ("begin", "{\"goal\":\"gone\",\"proxies\":1}"),
        ("begin", ""),
    ] {
        let path = format!("/api/v1/changes/main/{path}");
        let (status, answer) = call(at, "POST", &path, body);
        assert_eq!(status, 400, "{answer}");
        assert!(answer.contains("\"bad_json\""), "{answer}");
    }
}
