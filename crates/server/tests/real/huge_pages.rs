//! `-L`: what it gets is said, whatever that is, and items are as safe there as elsewhere.

use evenkeel_testkit::{Client, EXIT_DEADLINE, Process, Signal, evenkeel};
use rustix::thread::disable_transparent_huge_pages;
use std::collections::BTreeMap;

/// Memory limit of the servers, in megabytes.
const LIMIT_MB: u64 = 64;

/// A sixteenth more, in steps of 32 MiB.
const MAPPED_BYTES: u64 = 96 << 20;

/// What this machine can give: the kind, and what the line of the start says of it.
fn expected() -> (&'static str, &'static str) {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let free = read("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    let transparent = read("/sys/kernel/mm/transparent_hugepage/enabled");
    let enough = free
        .trim()
        .parse()
        .is_ok_and(|free: u64| free << 21 >= MAPPED_BYTES);
    match enough {
        true => ("reserved", "-L: 96 MiB of reserved huge pages"),
        false if transparent.contains("[never]") || transparent.is_empty() => {
            ("none", "-L: no huge pages, because ")
        }
        false => (
            "transparent",
            "-L: 96 MiB of transparent huge pages, because ",
        ),
    }
}

fn number(stats: &BTreeMap<String, String>, name: &str) -> u64 {
    stats[name].parse().expect("a number")
}

/// Stores more than fits, of all sizes, by way of both workers, reads back what is left, and changes and deletes some.
fn use_memory(server: &Process) {
    let mut client = Client::connect(server.address());
    let value = |n: usize| {
        // Some thousand bytes on average; one in fifty is larger than a segment.
        let len = n * 7919 % 4000 + if n.is_multiple_of(50) { 150_000 } else { 0 };
        vec![b'a' + (n % 26) as u8; len]
    };
    let (count, mut found) = (20_000, 0);
    for n in 0..count {
        assert_eq!(client.set(&format!("key{n}"), &value(n)), "STORED");
    }
    for n in 0..count {
        if let Some(seen) = client.get(&format!("key{n}")) {
            assert!(seen.data == value(n), "key{n}");
            found += 1;
        }
    }
    assert!(
        (count / 3..count).contains(&found),
        "{found} of {count} are left"
    );
    let stats = client.stats("");
    assert!(number(&stats, "evictions") > 0);
    for n in (0..count).step_by(3) {
        let told = client.delete(&format!("key{n}"));
        assert!(["DELETED", "NOT_FOUND"].contains(&told.as_str()), "{told}");
        assert_eq!(client.set(&format!("new{n}"), &value(n)), "STORED");
    }
    let used = number(&client.stats("evenkeel"), "memory_used_bytes");
    assert!(used <= LIMIT_MB << 20, "{used} of {LIMIT_MB} MiB");
}

#[test]
fn what_was_got_is_said_and_items_are_safe_in_it() {
    let limit = LIMIT_MB.to_string();
    let arguments = ["-t", "2", "-m", &limit, "-L"];
    let (kind, line) = expected();
    let server = evenkeel::server(&arguments);
    let told = server.await_stderr(line);
    let stats = Client::connect(server.address()).stats("evenkeel");
    assert_eq!(stats["huge_pages"], kind, "{told}");
    let mapped = if kind == "none" { 0 } else { MAPPED_BYTES };
    assert_eq!(number(&stats, "mapped_bytes"), mapped);
    assert_eq!(
        number(&stats, "memory_unbound_bytes"),
        0,
        "nobody is pinned"
    );
    assert_eq!(stats["memory_node_of_worker"], "-,-");
    use_memory(&server);
    let stats = Client::connect(server.address()).stats("evenkeel");
    let refused = number(&stats, "mapped_refused");
    eprintln!("{kind} pages; {refused} blocks found no room in them");
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", server.pid()));
    eprintln!("{}", rollup.unwrap_or_default());
    drop(server);

    // A machine that has none: children inherit this.
    disable_transparent_huge_pages(true).expect("any process may");
    let server = evenkeel::server(&arguments);
    disable_transparent_huge_pages(false).expect("any process may");
    let stats = Client::connect(server.address()).stats("evenkeel");
    if kind != "reserved" {
        server.await_stderr("-L: no huge pages, because ");
        assert_eq!(
            (stats["huge_pages"].as_str(), number(&stats, "mapped_bytes")),
            ("none", 0)
        );
    }
    use_memory(&server);
    drop(server);

    // Without the option.
    let mut server = evenkeel::server(&["-t", "2", "-m", &limit]);
    let stats = Client::connect(server.address()).stats("evenkeel");
    assert_eq!(
        (stats["huge_pages"].as_str(), number(&stats, "mapped_bytes")),
        ("off", 0)
    );
    server.signal(Signal::Terminate);
    server.wait(EXIT_DEADLINE);
    assert!(!server.stderr_text().contains("huge pages"));
}

/// On one node nothing is bound, and pinned workers say where they are if the machine tells.
#[test]
fn pinned_workers_say_on_which_node_they_are() {
    let server = evenkeel::server(&["-t", "1", "--pin", "0"]);
    let stats = Client::connect(server.address()).stats("evenkeel");
    let nodes = number(&stats, "memory_nodes");
    assert!(nodes >= 1);
    let told = std::path::Path::new("/sys/devices/system/node/node0/cpulist").exists();
    let of_worker = &stats["memory_node_of_worker"];
    assert!(
        if told {
            of_worker.parse::<u32>().is_ok()
        } else {
            of_worker == "-"
        },
        "{of_worker}"
    );
    if nodes == 1 {
        assert_eq!(
            (
                number(&stats, "mapped_bytes"),
                number(&stats, "memory_unbound_bytes")
            ),
            (0, 0)
        );
    }
}
