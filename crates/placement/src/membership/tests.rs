//! What becomes of answers, told as short stories.

use super::*;
use std::fmt::Write;

const DNS: Pace = Pace {
    refresh: Duration::from_secs(30),
    answers: 1,
};

const FILE: Pace = Pace {
    refresh: Duration::from_secs(1),
    answers: 2,
};

fn servers(hosts: &str) -> Vec<Server> {
    hosts.split(' ').map(|host| Server::new(host, 1)).collect()
}

fn listed(hosts: &str) -> Answer {
    Answer::Servers(servers(hosts), None)
}

fn failed() -> Answer {
    Answer::Failed("timeout".into())
}

/// A pool and the time, which moves to the next question with each answer.
struct Story {
    pool: Membership,
    now: Instant,
}

impl Story {
    fn begin(pace: Pace) -> Self {
        Story {
            pool: Membership::new(pace, &PlacementConfig::default()),
            now: Instant::default(),
        }
    }

    /// Hosts in force after an answer, where the pool stands, and seconds until the next question.
    fn handle(&mut self, answer: Answer) -> (String, ListState, u64) {
        let before = self.pool.placement().servers.clone();
        let heard = self.pool.handle_answer(self.now, answer, 0.0);
        let servers = &self.pool.placement().servers;
        assert_eq!(heard.is_taken, before != *servers);
        let hosts: Vec<&str> = servers.iter().map(|server| server.host.as_str()).collect();
        let pause = self.pool.ask_at().since(self.now);
        self.now = self.pool.ask_at();
        (hosts.join(" "), self.pool.state(), pause.as_secs())
    }
}

#[test]
fn the_table_of_moves() {
    let mut table = String::new();
    for state in [
        ListState::Unknown,
        ListState::Current,
        ListState::Unsettled(1),
        ListState::Kept,
    ] {
        for seen in [
            Seen::Same,
            Seen::Other {
                times: 1,
                needed: 2,
            },
            Seen::Other {
                times: 2,
                needed: 2,
            },
            Seen::Nothing,
        ] {
            let what = match seen {
                Seen::Same => "same".into(),
                Seen::Other { times, needed } => format!("other {times}/{needed}"),
                Seen::Nothing => "nothing".into(),
            };
            let (to, is_taken) = next(state, seen);
            let taken = if is_taken { ", taken" } else { "" };
            writeln!(table, "{state:?} + {what} = {to:?}{taken}").unwrap();
        }
    }
    let expected = "\
Unknown + same = Current
Unknown + other 1/2 = Unsettled(1)
Unknown + other 2/2 = Current, taken
Unknown + nothing = Unknown
Current + same = Current
Current + other 1/2 = Unsettled(1)
Current + other 2/2 = Current, taken
Current + nothing = Kept
Unsettled(1) + same = Current
Unsettled(1) + other 1/2 = Unsettled(1)
Unsettled(1) + other 2/2 = Current, taken
Unsettled(1) + nothing = Kept
Kept + same = Current
Kept + other 1/2 = Unsettled(1)
Kept + other 2/2 = Current, taken
Kept + nothing = Kept
";
    assert_eq!(table, expected, "\n{table}");
}

#[test]
fn nothing_empties_a_pool() {
    let mut story = Story::begin(DNS);
    assert_eq!(story.handle(failed()), ("".into(), ListState::Unknown, 5));
    assert_eq!(
        story.handle(listed("a b")),
        ("a b".into(), ListState::Current, 30)
    );
    for _ in 0..10 {
        for useless in [Answer::Empty, Answer::Servers(vec![], None), failed()] {
            assert_eq!(story.handle(useless), ("a b".into(), ListState::Kept, 5));
        }
    }
    assert_eq!(story.pool.trouble(), "timeout");
    assert_eq!(
        story.handle(listed("b c")),
        ("b c".into(), ListState::Current, 30)
    );
    assert_eq!(story.pool.trouble(), "");
    let counts = Counts {
        answers: 33,
        taken: 2,
        empty: 20,
        failed: 11,
        ..Counts::default()
    };
    assert_eq!(story.pool.counts(), counts);
}

#[test]
fn a_list_that_makes_no_placement_is_not_taken() {
    let mut story = Story::begin(DNS);
    story.handle(listed("a b"));
    let (hosts, state, _) = story.handle(listed("c c"));
    assert_eq!((hosts.as_str(), state), ("a b", ListState::Kept));
    assert!(story.pool.trouble().contains("c:1 is listed twice"));
    assert_eq!(story.pool.counts().unusable, 1);
}

#[test]
fn a_file_must_say_a_change_twice_but_not_its_first_list() {
    let mut story = Story::begin(FILE);
    assert_eq!(
        story.handle(listed("a b c")),
        ("a b c".into(), ListState::Current, 1)
    );
    // Read while it is written.
    assert_eq!(
        story.handle(listed("a b")),
        ("a b c".into(), ListState::Unsettled(1), 1)
    );
    assert_eq!(
        story.handle(listed("a b d")),
        ("a b c".into(), ListState::Unsettled(1), 1)
    );
    assert_eq!(
        story.handle(listed("a b d")),
        ("a b d".into(), ListState::Current, 1)
    );
    // Gone, and back as it was.
    assert_eq!(
        story.handle(listed("a b")),
        ("a b d".into(), ListState::Unsettled(1), 1)
    );
    assert_eq!(story.handle(failed()), ("a b d".into(), ListState::Kept, 1));
    assert_eq!(
        story.handle(listed("a b")),
        ("a b d".into(), ListState::Unsettled(1), 1),
        "in a row"
    );
    assert_eq!(
        story.handle(listed("a b d")),
        ("a b d".into(), ListState::Current, 1)
    );
}

#[test]
fn a_list_that_shrinks_to_less_than_half_must_be_said_three_times() {
    let mut story = Story::begin(DNS);
    story.handle(listed("a b c d e"));
    // Two of five are less than half, so that it is asked again soon; three of five are not.
    for times in 1..SUSPECT_ANSWERS {
        assert_eq!(
            story.handle(listed("a b")),
            ("a b c d e".into(), ListState::Unsettled(times), 5)
        );
    }
    assert_eq!(
        story.handle(listed("a b")),
        ("a b".into(), ListState::Current, 30)
    );
    assert_eq!(
        story.handle(listed("x")),
        ("x".into(), ListState::Current, 30),
        "half is enough, and others in their place are a change like any other"
    );
    assert_eq!(story.pool.counts().suspect, 1);
}

#[test]
fn the_ttl_shortens_the_pause_within_bounds_and_chance_does_too() {
    let mut pool = Membership::new(DNS, &PlacementConfig::default());
    let now = Instant::from_millis(7);
    for (ttl, pause_ms, jitter) in [
        (None, 30_000, 0.0),
        (Some(600), 30_000, 0.0),
        (Some(10), 10_000, 0.0),
        (Some(0), 1_000, 0.0),
        (Some(10), 9_000, 1.0),
        (Some(10), 9_500, 0.5),
    ] {
        let ttl = ttl.map(Duration::from_secs);
        pool.handle_answer(now, Answer::Servers(servers("a"), ttl), jitter);
        assert_eq!(
            pool.ask_at().since(now),
            Duration::from_millis(pause_ms),
            "{ttl:?}"
        );
    }
}

#[test]
fn only_turns_for_worse_and_better_are_told() {
    let mut pool = Membership::new(DNS, &PlacementConfig::default());
    let mut turns = String::new();
    let now = Instant::default();
    for answer in [
        failed(),
        failed(),
        listed("a"),
        listed("b"),
        Answer::Empty,
        failed(),
        listed("b"),
    ] {
        let heard = pool.handle_answer(now, answer, 0.0);
        turns.push(if heard.has_turned { '!' } else { '.' });
    }
    assert_eq!(turns, "..!.!.!");
}

#[test]
fn lists_are_read_as_others_write_them() {
    let text = "# all of them\n\n10.0.0.1:11211\t600\n  b:7\n c:7:2 one # spare\nd\n[::1]:7 3\n\
                ::2\ne 5\nf:1:4 9\n";
    let read = parse_list(text).unwrap();
    let read: Vec<String> = read
        .iter()
        .map(|s| format!("{}|{}|{}|{:?}", s.host, s.port, s.weight, s.name))
        .collect();
    assert_eq!(
        read,
        [
            "10.0.0.1|11211|600|None",
            "b|7|1|None",
            "c|7|2|Some(\"one\")",
            "d|11211|1|None",
            "::1|7|3|None",
            "::2|11211|1|None",
            "e|11211|5|None",
            "f|1|4|Some(\"9\")",
        ]
    );
    assert_eq!(parse_list("# none\n").unwrap(), []);
    for (text, line) in [("a\nb:x", 2), ("a b c", 1), ("\n\na:0 1", 3)] {
        assert_eq!(parse_list(text).unwrap_err().line, line, "{text}");
    }
}

#[test]
fn answers_in_any_order_are_one_list() {
    let read = |texts: &[&str]| of_addresses(texts.iter().map(|text| text.parse().unwrap()), 5);
    let one = read(&["10.0.0.10", "::1", "10.0.0.9", "10.0.0.10"]);
    assert_eq!(one, read(&["10.0.0.9", "10.0.0.10", "::1"]));
    assert_eq!(one[0], Server::new("10.0.0.9", 5));
    assert_eq!(one.len(), 3);
}

#[test]
fn services_keep_the_lowest_priority_and_weights_that_differ() {
    let record = |priority, weight, port, target: &str| ServiceRecord {
        priority,
        weight,
        port,
        target: target.into(),
    };
    let weighted = |records: Vec<ServiceRecord>| {
        let servers = of_services(records).into_iter();
        let servers: Vec<_> = servers.map(|s| (s.host, s.port, s.weight)).collect();
        servers
    };
    let equal = weighted(vec![
        record(1, 33, 7, "B.x."),
        record(1, 33, 7, "a.x."),
        record(1, 33, 8, "a.x."),
        record(2, 33, 7, "spare.x."),
    ]);
    let expected = [
        ("a.x".to_owned(), 7, 1),
        ("a.x".into(), 8, 1),
        ("b.x".into(), 7, 1),
    ];
    assert_eq!(equal, expected);
    let differing = weighted(vec![record(0, 0, 7, "a"), record(0, 5, 7, "b")]);
    assert_eq!(differing, [("a".into(), 7, 1), ("b".into(), 7, 5)]);
    // "The service is decidedly not available" (RFC 2782).
    assert_eq!(weighted(vec![record(0, 0, 0, ".")]), []);
}
