//! `-L`: whether there are huge pages is said, and the server serves either way.

use evenkeel_testkit::{Client, evenkeel};
use rustix::thread::disable_transparent_huge_pages;

#[test]
fn it_is_said_whether_there_are_huge_pages() {
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let enabled = enabled.unwrap_or_default();
    let has_some = enabled.contains("[always]") || enabled.contains("[madvise]");
    let none = "-L: no huge pages, because ";
    let serves = |expected: &str| {
        let server = evenkeel::server(&["-t", "1", "-L"]);
        server.await_stderr(expected);
        let mut client = Client::connect(server.address());
        assert_eq!(client.set("k", b"v"), "STORED");
    };
    serves(if has_some {
        "-L: transparent huge pages as far as"
    } else {
        none
    });
    // A machine that has none: children inherit this.
    disable_transparent_huge_pages(true).expect("any process may");
    serves(none);
    disable_transparent_huge_pages(false).expect("any process may");
}
