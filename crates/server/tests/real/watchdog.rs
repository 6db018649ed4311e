//! Turns of workers that take long are counted.

use evenkeel_testkit::{Client, evenkeel, poll_until};
use std::time::Duration;

/// Longest wait for anything; reached only by a failure.
const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn slow_turns_are_counted() {
    let toll = Duration::from_millis(300).as_nanos().to_string();
    let flags = ["-t", "1", "--test-toll", &toll];
    let server = evenkeel::server(&flags);
    let mut client = Client::connect(server.address());
    poll_until(DEADLINE, "a slow turn to be counted", || {
        assert_eq!(client.get("k"), None);
        (client.stats("evenkeel")["turns_slow"] != "0").then_some(())
    });
    // What it costs is known to whoever has set a toll, so that nothing is said of it.
    assert!(!server.stderr_text().contains("in one turn"));
}
