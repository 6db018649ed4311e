//! Users of a cache, each of whom alone writes its keys and checks what it reads, while a test does something to processes.

use evenkeel_bench::{Users, UsersPlan, UsersTally};
use evenkeel_testkit::{Client, Process, poll_until};
use std::net::SocketAddr;
use std::time::Duration;

/// How long filling the cache may take.
const FULL_DEADLINE: Duration = Duration::from_secs(60);

/// Keys of each user.
const KEYS: usize = 400;

/// How many users there are.
pub const USERS: usize = 4;

/// Bytes of the smallest value; every tenth has 30 times as many.
const VALUE_LEN: usize = 200;

/// Before the names of their keys.
const PREFIX: &str = "m:";

/// The name of a user's key. Keys count round.
pub fn key_name(user: usize, key: usize) -> String {
    format!("{PREFIX}{user}:{}", key % KEYS)
}

/// Whether somebody has seen what nobody must, so that nothing more need be waited for.
pub fn is_broken(users: &Users) -> bool {
    users.tally().wrong > 0
}

/// Does something while the cache is full and users go on using it, each with this pause between two requests.
///
/// # Panics
/// When nobody listens, or a user has read what is neither what it stored last nor what may have been stored since.
pub fn while_used(address: SocketAddr, pause: Duration, act: impl FnOnce(&Users)) -> UsersTally {
    let users = Users::start(&UsersPlan {
        addresses: vec![address],
        users: USERS,
        prefix: PREFIX.into(),
        keys: KEYS,
        value_len: VALUE_LEN,
        pause,
    });
    let users = users.expect("the proxy listens");
    poll_until(FULL_DEADLINE, "a full cache", || {
        (is_broken(&users) || users.have_filled()).then_some(())
    });
    act(&users);
    let tally = users.stop();
    assert_eq!(tally.wrong, 0, "{tally:?}");
    tally
}

/// Checks that no request has failed and nothing was gone, but where servers have lost serving leases: then the machine has kept them
/// from hearing of each other, and nobody could serve.
///
/// # Panics
/// When it is otherwise.
pub fn assert_unnoticed(tally: &UsersTally, servers: &[Process]) {
    let lost = leases_lost(servers);
    println!("{tally:?}, {lost} leases lost");
    assert_eq!(tally.wrong, 0, "{tally:?}");
    let is_unnoticed = (tally.failures, tally.misses) == (0, 0);
    assert!(is_unnoticed || lost > 0, "{tally:?}");
}

/// Serving leases that the servers among these that live have lost.
fn leases_lost(servers: &[Process]) -> u64 {
    let lost = |server: &Process| -> Option<u64> {
        let mut client = Client::try_connect(server.address()).ok()?;
        client.try_stats("evenkeel").ok()?["leases_lost"]
            .parse()
            .ok()
    };
    servers.iter().filter_map(lost).sum()
}
