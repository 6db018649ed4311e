//! Users who check what they read, on a server that is tampered with.

use evenkeel_bench::{Users, UsersPlan};
use evenkeel_testkit::{Memcached, poll_until};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(60);

fn users(server: &Memcached) -> Users {
    let users = Users::start(&UsersPlan {
        addresses: vec![server.address()],
        users: 2,
        prefix: "u".into(),
        keys: 20,
        value_len: 50,
        pause: Duration::from_millis(1),
    });
    let users = users.expect("there is a server");
    poll_until(DEADLINE, "all keys to be stored", || {
        users.have_filled().then_some(())
    });
    users
}

#[test]
fn on_an_honest_server_nothing_is_missed_and_nothing_wrong() {
    let server = Memcached::spawn(&[]);
    let users = users(&server);
    poll_until(DEADLINE, "requests", || {
        (users.tally().requests > 200).then_some(())
    });
    let tally = users.stop();
    assert_eq!((tally.misses, tally.failures, tally.wrong), (0, 0, 0));
    assert_eq!(tally.first_wrong, None);
}

#[test]
fn what_is_lost_is_a_miss_and_what_is_old_is_wrong() {
    let server = Memcached::spawn(&[]);
    let users = users(&server);
    let mut client = server.client();
    assert_eq!(client.delete("u0:3"), "DELETED");
    poll_until(DEADLINE, "a miss", || {
        (users.tally().misses > 0).then_some(())
    });
    assert_eq!(users.tally().wrong, 0);
    // Its first version again, until it is read before it is stored anew.
    let mut first = b"1.".to_vec();
    first.resize(50, b'x');
    poll_until(DEADLINE, "an old value to be seen", || {
        client.set("u1:4", &first);
        (users.tally().wrong > 0).then_some(())
    });
    let first_wrong = users.stop().first_wrong.expect("it is told");
    assert!(first_wrong.contains("u1:4"), "{first_wrong}");
}

#[test]
fn requests_fail_while_nobody_answers() {
    let mut server = Memcached::spawn(&[]);
    let users = users(&server);
    assert_eq!(users.tally().failures, 0);
    server.process().kill();
    poll_until(DEADLINE, "failures", || {
        (users.tally().failures > 2).then_some(())
    });
    assert_eq!(users.stop().wrong, 0);
}
