//! A pool that is warmed from a former one, before real memcached processes: what depends on an item, on one that the former pool has and on
//! one that nobody has.

use crate::in_process::{connect, parsed};
use crate::patience::LINES;
use evenkeel_proxy::Proxy;
use evenkeel_testkit::{Client, Memcached, poll_until};
use std::time::Duration;

/// What a test waits for has come by then, unless something hangs.
const DEADLINE: Duration = Duration::from_secs(30);

fn start(old: &Memcached, new: &Memcached) -> Proxy {
    let text = format!(
        "[pools.old]\nservers = [\"{}\"]\n{LINES}[pools.new]\nservers = [\"{}\"]\n{LINES}\
         warm_from = \"old\"\n[[routes]]\npool = \"new\"\n",
        old.address(),
        new.address()
    );
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("proxy.toml");
    std::fs::write(&path, text).expect("room");
    let path = path.to_str().expect("UTF-8");
    let line = ["proxy", "--config", path, "-l", "127.0.0.1:0", "-t", "1"];
    Proxy::start(&parsed(line)).expect("the proxy starts")
}

/// What a key has.
fn item(client: &mut Client, key: &str) -> Option<(u32, String)> {
    let value = client.get(key)?;
    Some((value.flags, String::from_utf8(value.data).expect("digits")))
}

/// A command, its answer where the former pool has `7` with flags 5 and what is here then, and its answer where nobody has anything.
type Case = (
    &'static str,
    &'static str,
    Option<(u32, &'static str)>,
    &'static str,
);

#[test]
fn what_depends_on_an_item_is_answered_as_by_the_former_pool() {
    let (old, new) = (Memcached::spawn(&[]), Memcached::spawn(&[]));
    let proxy = start(&old, &new);
    let mut client = connect(&proxy);
    let (mut there, mut here) = (old.client(), new.client());
    let cases: &[Case] = &[
        ("incr KEY 2", "9", Some((5, "9")), "NOT_FOUND"),
        ("decr KEY 2", "5", Some((5, "5")), "NOT_FOUND"),
        (
            "append KEY 0 0 1\r\n1",
            "STORED",
            Some((5, "71")),
            "NOT_STORED",
        ),
        (
            "prepend KEY 0 0 1\r\n1",
            "STORED",
            Some((5, "17")),
            "NOT_STORED",
        ),
        (
            "replace KEY 6 0 1\r\n1",
            "STORED",
            Some((6, "1")),
            "NOT_STORED",
        ),
        ("add KEY 6 0 1\r\n1", "NOT_STORED", Some((5, "7")), "STORED"),
        (
            "cas KEY 6 0 1 1\r\n1",
            "EXISTS",
            Some((5, "7")),
            "NOT_FOUND",
        ),
        ("touch KEY 0", "TOUCHED", Some((5, "7")), "NOT_FOUND"),
        ("delete KEY", "DELETED", None, "NOT_FOUND"),
        ("set KEY 6 0 1\r\n1", "STORED", Some((6, "1")), "STORED"),
        ("ms KEY 1 MA\r\n1", "HD", Some((5, "71")), "NS"),
        ("ms KEY 1 MR O1\r\n1", "HD O1", Some((0, "1")), "NS O1"),
        ("ms KEY 1 C1\r\n1", "EX", Some((5, "7")), "NF"),
        ("ma KEY D2", "HD", Some((5, "9")), "NF"),
        ("ma KEY N0 J3 D2", "HD", Some((5, "9")), "HD"),
        ("md KEY C1", "EX", Some((5, "7")), "NF"),
        ("mg KEY T0", "HD", Some((5, "7")), "EN"),
        ("mg KEY s f t", "HD s1 f5 t-1", Some((5, "7")), "EN"),
    ];
    for (number, (command, answer, left, answer_to_nothing)) in cases.iter().enumerate() {
        let key = format!("key{number}");
        assert_eq!(there.set_with(&key, 5, 0, b"7"), "STORED");
        let said = client.command(&command.replace("KEY", &key));
        assert_eq!(said, *answer, "{command:?}");
        // What is brought behind an answer is there before the next one.
        let _ = client.command("mn");
        let found = item(&mut client, &key);
        let found = found
            .as_ref()
            .map(|(flags, value)| (*flags, value.as_str()));
        assert_eq!(found, *left, "{command:?}");
        let reads = command.starts_with("mg KEY s");
        assert_eq!(item(&mut there, &key).is_some(), reads, "{command:?}");
        // A placeholder is removed behind the answer.
        poll_until(DEADLINE, "what the new pool has", || {
            (item(&mut here, &key).is_some() == left.is_some()).then_some(())
        });
        let key = format!("none{number}");
        let said = client.command(&command.replace("KEY", &key));
        assert_eq!(said, *answer_to_nothing, "{command:?}");
        assert_eq!(item(&mut there, &key), None, "{command:?}");
    }
    assert_eq!(client.command("gat 0 key16"), "VALUE key16 5 1");
    assert_eq!((client.line(), client.line()), ("7".into(), "END".into()));
    // Neither a placeholder nor what was put together with one.
    for key in ["key0", "none0", "none4", "none12"] {
        let found = item(&mut here, key);
        assert!(
            found.is_none_or(|(flags, _)| flags != 1_163_283_276),
            "{key}"
        );
    }
}

/// Without CAS uniques a fill would cover what others have written meanwhile.
#[test]
fn a_memcached_without_uniques_is_not_asked() {
    let (old, new) = (Memcached::spawn(&[]), Memcached::spawn(&["-C"]));
    let proxy = start(&old, &new);
    assert_eq!(old.client().set_with("k", 0, 0, b"7"), "STORED");
    let mut client = connect(&proxy);
    assert_eq!(client.command("get k"), "END");
    let unavailable = format!(
        "SERVER_ERROR backend new/{} unavailable: marks refused",
        new.address()
    );
    assert_eq!(client.command("incr k 1"), unavailable);
    let refused = client.stats("servers");
    let name = format!("new/{}:marks_refused", new.address());
    assert_ne!(refused[&name], "0", "{refused:?}");
    assert_eq!(client.command("version").split(' ').next(), Some("VERSION"));
    let tried = new.client().command("get \u{1}trial");
    assert_eq!(tried, "END", "the trial leaves nothing to be read");
}
