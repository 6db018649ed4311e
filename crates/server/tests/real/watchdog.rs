//! Turns of workers that take long are counted.

use evenkeel_testkit::{Client, evenkeel, poll_until};
use std::time::Duration;

/// Longest wait for anything; reached only by a failure.
const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn slow_turns_are_counted() {
    let service_time = Duration::from_millis(300).as_nanos().to_string();
    let flags = ["-t", "1", "--test-service-time", &service_time];
    let server = evenkeel::server(&flags);
    let mut client = Client::connect(server.address());
    poll_until(DEADLINE, "a slow turn to be counted", || {
        assert_eq!(client.get("k"), None);
        (client.stats("evenkeel")["turns_slow"] != "0").then_some(())
    });
    // What it costs is known to anyone who has set a service time, so that nothing is said of it.
    assert!(!server.stderr_text().contains("in one turn"));
}
