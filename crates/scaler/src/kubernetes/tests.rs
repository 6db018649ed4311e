//! Against an API server of our own that fails, hangs and lies. No real cluster was at hand.

use super::fake::{Fake, Manner, Pod, World};
use super::*;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::{TempDir, tempdir};

/// Of a StatefulSet with two pods of the operator's.
fn world() -> World {
    World {
        replicas: 2,
        service: "memcacheds",
        pods: BTreeMap::from([(0, Pod::Comes(9)), (1, Pod::Comes(9))]),
        version: 7,
        ..World::default()
    }
}

fn actuator_at(url: String, folder: &Path) -> KubernetesActuator {
    let file = |name: &str| Some(folder.join(name));
    let namespace = Some("caches".to_owned());
    let server = ApiServer::new(Some(url), namespace, file("token"), file("ca.pem")).unwrap();
    let mut actuator = KubernetesActuator::new(server, "cache", None).unwrap();
    actuator.look_interval = Duration::ZERO;
    actuator
}

fn actuator(world: World) -> (Fake, KubernetesActuator) {
    let fake = Fake::start(world, None);
    let url = format!("http://{}", fake.address);
    let actuator = actuator_at(url, Path::new("/nowhere"));
    (fake, actuator)
}

/// What there is: replicas, and ordinals by name.
fn there_is(fake: &Fake) -> (u32, String) {
    let world = fake.world();
    (world.replicas, world.annotation.clone().unwrap_or_default())
}

fn address(ordinal: u32) -> String {
    format!("cache-{ordinal}.memcacheds.caches.svc:11211")
}

#[test]
fn pods_are_added_behind_the_last_and_the_last_is_removed() {
    let (fake, mut actuator) = actuator(world());
    assert_eq!(actuator.list().unwrap(), BTreeMap::new());
    for _ in 0..2 {
        assert_eq!(actuator.add("main-7").unwrap(), address(2));
    }
    assert_eq!(actuator.add("main-8").unwrap(), address(3));
    assert_eq!(
        there_is(&fake),
        (4, r#"{"main-7":2,"main-8":3}"#.to_owned())
    );
    let listed = [("main-7", address(2)), ("main-8", address(3))];
    let listed = listed.map(|(name, at)| (name.to_owned(), at));
    assert_eq!(actuator.list().unwrap(), BTreeMap::from(listed));
    let said = actuator.remove("main-7").unwrap_err().to_string();
    assert_eq!(
        said,
        "main-7 is pod cache-2, and the last one is cache-3, which has to go first"
    );
    for name in ["main-8", "main-7", "main-8", "main-1"] {
        actuator.remove(name).unwrap();
    }
    assert_eq!(there_is(&fake), (2, "{}".to_owned()));
    assert_eq!(fake.world().pods.len(), 2);
    // What is added behind that is a new one.
    assert_eq!(actuator.add("main-9").unwrap(), address(2));
    assert!(matches!(fake.world().pods[&2], Pod::Comes(_)));
}

#[test]
fn an_order_that_comes_late_meets_no_pod_of_another_name() {
    let (fake, mut actuator) = actuator(world());
    actuator.add("main-7").unwrap();
    actuator.remove("main-7").unwrap();
    actuator.add("main-8").unwrap();
    actuator.remove("main-7").unwrap();
    assert_eq!(there_is(&fake), (3, r#"{"main-8":2}"#.to_owned()));
}

#[test]
fn a_pod_that_still_goes_is_not_taken_for_a_new_one() {
    let mut world = world();
    world.pods.insert(2, Pod::Goes(0));
    world.annotation = Some(r#"{"main-7":2}"#.to_owned());
    let (fake, mut actuator) = actuator(world);
    assert_eq!(actuator.list().unwrap(), BTreeMap::new());
    let said = actuator.add("main-7").unwrap_err().to_string();
    assert!(
        said.ends_with("main-7 is pod cache-2, which goes or was taken away"),
        "{said}"
    );
    assert_eq!(actuator.add("main-8").unwrap(), address(2));
    let world = fake.world();
    let patched = world
        .asked
        .iter()
        .position(|it| it.starts_with("PATCH"))
        .unwrap();
    let looks = |asked: &[String]| {
        asked
            .iter()
            .filter(|it| it.contains("/pods/cache-2"))
            .count()
    };
    assert!(
        looks(&world.asked[..patched]) >= 3,
        "it has waited for its end"
    );
    assert_eq!(world.annotation.as_deref(), Some(r#"{"main-8":2}"#));
}

#[test]
fn ordinals_may_begin_elsewhere_and_addresses_be_given() {
    let mut world = world();
    (world.start, world.service) = (5, "");
    world.pods.clear();
    let (fake, mut actuator) = actuator(world);
    let said = actuator.add("main-1").unwrap_err().to_string();
    assert!(
        said.contains("the StatefulSet has no serviceName"),
        "{said}"
    );
    for (given, address) in [
        ("{pod}.here:1", "cache-7.here:1"),
        ("10.0.0.{ordinal}:2", "10.0.0.7:2"),
    ] {
        actuator.address = Some(given.to_owned());
        assert_eq!(actuator.add("main-1").unwrap(), address);
    }
    assert_eq!(there_is(&fake), (3, r#"{"main-1":7}"#.to_owned()));
}

#[test]
fn a_pod_below_the_first_ordinal_is_gone() {
    let mut world = world();
    (world.start, world.replicas) = (5, 0);
    world.pods.clear();
    world.annotation = Some(r#"{"main-1":4}"#.to_owned());
    let (fake, mut actuator) = actuator(world);
    assert_eq!(actuator.list().unwrap(), BTreeMap::new());
    actuator.remove("main-1").unwrap();
    assert_eq!(there_is(&fake), (0, "{}".to_owned()));
}

#[test]
fn who_was_slower_than_others_decides_anew() {
    let mut world = world();
    world.others_are_faster = 2;
    let (fake, mut actuator) = actuator(world);
    assert_eq!(actuator.add("main-1").unwrap(), address(2));
    fake.world().others_are_faster = 1;
    actuator.remove("main-1").unwrap();
    assert_eq!(there_is(&fake), (2, "{}".to_owned()));
    // It never comes to an end where somebody always is.
    fake.world().others_are_faster = u32::MAX;
    actuator.within = Duration::from_millis(20);
    let failed = actuator.add("main-2").unwrap_err();
    assert!(matches!(failed, Failed::TooSlow { .. }), "{failed}");
    assert_eq!(there_is(&fake).0, 2);
}

#[test]
fn what_was_done_without_an_answer_is_not_done_twice() {
    let (fake, mut actuator) = actuator(world());
    fake.world().manners = vec![("PATCH", Manner::Breaks)];
    let failed = actuator.add("main-1").unwrap_err();
    assert!(matches!(failed, Failed::Unheard { .. }), "{failed}");
    assert_eq!(actuator.add("main-1").unwrap(), address(2));
    assert_eq!(there_is(&fake).0, 3);
    fake.world().manners = vec![("PATCH", Manner::Breaks)];
    assert!(actuator.remove("main-1").is_err());
    actuator.remove("main-1").unwrap();
    assert_eq!(there_is(&fake), (2, "{}".to_owned()));
}

#[test]
fn a_pod_that_finds_no_place_can_be_removed() {
    let (fake, mut actuator) = actuator(world());
    fake.world().is_full = true;
    actuator.within = Duration::from_millis(50);
    let said = actuator.add("main-1").unwrap_err().to_string();
    assert!(said.ends_with(" took longer than 50ms"), "{said}");
    assert_eq!(actuator.list().unwrap().len(), 1);
    actuator.within = KUBERNETES_WITHIN;
    actuator.remove("main-1").unwrap();
    assert_eq!((there_is(&fake).0, fake.world().pods.len()), (2, 2));
}

#[test]
fn what_an_operator_scales_by_hand_is_the_operators() {
    let (fake, mut actuator) = actuator(world());
    actuator.add("main-1").unwrap();
    fake.world().replicas = 4;
    assert!(matches!(
        actuator.remove("main-1"),
        Err(Failed::NotLast { .. })
    ));
    assert_eq!(actuator.list().unwrap().len(), 1);
    fake.world().replicas = 1;
    assert_eq!(actuator.list().unwrap(), BTreeMap::new());
    actuator.remove("main-1").unwrap();
    assert_eq!(there_is(&fake), (1, "{}".to_owned()));
}

#[test]
fn an_api_server_that_fails_hangs_or_lies_is_told_of() {
    let refusal = r#"{"kind": "Status", "message": "statefulsets \"cache\" is forbidden"}"#;
    let set = |annotation: &str| {
        format!(
            r#"{{"metadata": {{"resourceVersion": "1", "annotations": {{"evenkeel/servers": {annotation:?}}}}}, "spec": {{}}}}"#
        )
    };
    for (manner, what) in [
        (
            Manner::Says(403, refusal.into()),
            "answered 403: statefulsets \"cache\" is forbidden",
        ),
        (Manner::Says(500, "oh\nno".into()), "answered 500: oh; no"),
        (Manner::Says(302, String::new()), "answered 302: "),
        (
            Manner::Says(200, "{}".into()),
            "makes no sense: missing field `metadata`",
        ),
        (Manner::Says(200, "[".into()), "makes no sense: EOF"),
        (
            Manner::Says(200, set("[1]")),
            "annotation evenkeel/servers of the StatefulSet: invalid type",
        ),
        (
            Manner::Says(200, set(r#"{"a-1":1,"b-1":1}"#)),
            "ordinal 1 is there twice",
        ),
        (
            Manner::Says(200, set(r#"{"a-1":-1}"#)),
            "of the StatefulSet: invalid value",
        ),
        (Manner::Says(200, set(r#"{"../a":1}"#)), "cannot be named"),
        (
            Manner::Says(
                200,
                r#"{"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 4294967295}}"#
                    .into(),
            ),
            "makes no sense: ordinals up to 4294967295",
        ),
        (
            Manner::Says(200, "x".repeat(api::ANSWER_LEN_MAX + 1)),
            "its answer is longer than 3145728 bytes",
        ),
        (Manner::Breaks, "cannot ask http://127.0.0.1:"),
        (Manner::Hangs, "timeout"),
    ] {
        let (fake, mut actuator) = actuator(world());
        let shown = format!("{manner:?}");
        let shown = &shown[..shown.len().min(80)];
        if let Manner::Hangs = manner {
            actuator.api.set_patience(Duration::from_millis(50));
        }
        type Call = fn(&mut KubernetesActuator) -> Result<(), Failed>;
        let calls: [Call; 3] = [
            |it| it.add("main-1").map(drop),
            |it| it.remove("main-1"),
            |it| it.list().map(drop),
        ];
        for call in calls {
            fake.world().manners.push(("GET", manner.clone()));
            let said = call(&mut actuator).unwrap_err().to_string();
            assert!(said.contains(what), "{shown}: {said}");
        }
        assert_eq!(fake.world().replicas, 2, "{shown}");
    }
}

#[test]
fn nobody_answers_at_a_port_that_is_closed() {
    let mut actuator = actuator_at("http://127.0.0.1:1".into(), Path::new("/nowhere"));
    let said = actuator.list().unwrap_err().to_string();
    assert!(
        said.starts_with("cannot ask http://127.0.0.1:1: "),
        "{said}"
    );
}

/// A folder with a token and certificates, and what has to be shown to be known by them.
fn authority() -> (TempDir, Arc<ServerConfig>) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("ca.pem"), cert.pem()).unwrap();
    fs::write(folder.path().join("token"), "the-token\n").unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    (folder, Arc::new(config))
}

#[test]
fn a_token_is_shown_to_an_api_server_that_is_known_and_read_anew_each_time() {
    let (folder, config) = authority();
    let fake = Fake::start(world(), Some(config));
    let mut actuator = actuator_at(format!("https://{}", fake.address), folder.path());
    actuator.list().unwrap();
    fs::write(folder.path().join("token"), "another-token").unwrap();
    actuator.list().unwrap();
    assert_eq!(
        fake.world().authorization,
        ["bearer the-token", "bearer another-token"]
    );
    let (stranger, _) = authority();
    let mut actuator = actuator_at(format!("https://{}", fake.address), stranger.path());
    let said = actuator.list().unwrap_err().to_string();
    assert!(said.contains("certificate"), "{said}");
    assert_eq!(fake.world().authorization.len(), 2);
    fs::write(stranger.path().join("ca.pem"), "no certificate").unwrap();
    let said = actuator.list().unwrap_err().to_string();
    assert!(
        said.ends_with("ca.pem: there is no certificate in it"),
        "{said}"
    );
    fs::remove_file(stranger.path().join("token")).unwrap();
    fs::remove_file(stranger.path().join("ca.pem")).unwrap();
    let said = actuator.list().unwrap_err().to_string();
    assert!(said.starts_with("cannot read "), "{said}");
}
