//! What an operator may change, what becomes of the map, and what is refused.

use super::*;

fn promised(world: &World) -> Option<Promise> {
    world.core.map().expect("a map").promise()
}

fn leases_of(lease_ms: u64) -> Option<Promise> {
    Some(Promise {
        consistency: Consistency::Lease,
        lease_ms,
    })
}

#[test]
fn a_change_concerns_what_it_names_and_null_brings_the_default_back() {
    let mut world = World::new(1);
    world
        .set(r#"{"hot_share": 2.5, "hot_trigger_rps": 50, "gamma_max": 3}"#)
        .unwrap();
    let settings = world
        .set(r#"{"hot_trigger_rps": null, "hot_sampling": 100}"#)
        .unwrap();
    let expected = Settings {
        hot_share: 2.5,
        hot_sampling: Some(100.0),
        gamma_max: 3,
        ..Settings::default()
    };
    assert_eq!((settings, world.core.settings()), (expected, expected));
    for (name, _) in SETTINGS {
        world.set(&format!(r#"{{"{name}": null}}"#)).unwrap();
    }
    assert_eq!(world.core.settings(), Settings::default());
}

#[test]
fn what_cannot_be_chosen_is_refused_with_what_can_and_changes_nothing() {
    let mut world = World::new(1);
    let revision = world.core.revision();
    for (change, says) in [
        (r#"{"hot_key": "off"}"#, "hot_keys, hot_keys_consistency"),
        (r#"{"hot_keys": "maybe"}"#, "off, observe or on"),
        (r#"{"hot_keys": true}"#, "off, observe or on"),
        (r#"{"hot_keys_consistency": "strong"}"#, "lease or atomic"),
        (r#"{"lease_ms": 49}"#, "50 to 10000"),
        (r#"{"lease_ms": 1.5}"#, "50 to 10000"),
        (r#"{"lease_ms": -1}"#, "50 to 10000"),
        (r#"{"hot_sampling": 101}"#, "per cent, 0 to 100"),
        (r#"{"hot_share": "1"}"#, "per cent, 0 to 100"),
        (r#"{"hot_write_weight": -1}"#, "reads, 0 to 1000"),
        (r#"{"hot_trigger_rps": -1}"#, "from 0"),
        (r#"{"gamma_max": 256}"#, "0 to 255"),
        (
            r#"{"gamma_max": 1, "lease_ms": {}}"#,
            "lease_ms cannot be {}",
        ),
    ] {
        let refusal = world.set(change).expect_err(change).to_string();
        assert!(refusal.contains(says), "{change}: {refusal}");
    }
    let long = format!(r#"{{"{}": 1}}"#, "x".repeat(9999));
    assert!(world.set(&long).expect_err("unknown").to_string().len() < 300);
    assert_eq!(world.core.settings(), Settings::default());
    assert_eq!(world.core.revision(), revision);
}

#[test]
fn what_readers_are_promised_comes_with_a_map_and_outlives_the_coordinator() {
    let mut world = World::new(1);
    world.set(r#"{"lease_ms": 300}"#).unwrap();
    let mut members = [server(1, 1)];
    let answer = world.send(&members[0]).unwrap();
    let first = answer.map.expect("the first map").promise();
    assert_eq!(first, leases_of(300), "chosen before there was a map");
    world.send_current(&mut members);
    let owners = world.owners();
    world.set(r#"{"lease_ms": 200}"#).unwrap();
    let answer = world.send(&members[0]).unwrap();
    assert_eq!(answer.map.expect("a newer map").promise(), leases_of(200));
    assert_eq!(world.owners(), owners);
    assert_eq!(world.causes().last(), Some(&(2, Cause::SettingsChanged)));
    world.restart();
    assert_eq!(promised(&world), leases_of(200));
    world.set(r#"{"lease_ms": null}"#).unwrap();
    assert_eq!(promised(&world), None);
}

#[test]
fn a_lease_does_not_change_while_writes_are_atomic() {
    let mut world = World::new(1);
    world
        .set(r#"{"hot_keys_consistency": "atomic", "lease_ms": 400}"#)
        .unwrap();
    let refused = Err(SettingsRefusal::LeaseFixed);
    assert_eq!(world.set(r#"{"lease_ms": 300}"#), refused);
    assert_eq!(world.set(r#"{"lease_ms": null}"#), refused);
    world.set(r#"{"lease_ms": 400, "gamma_max": 1}"#).unwrap();
    world
        .set(r#"{"hot_keys_consistency": "lease", "lease_ms": 300}"#)
        .unwrap();
    world.set(r#"{"hot_keys_consistency": "atomic"}"#).unwrap();
}
