//! Hand-made histories, good and bad: each promise is seen to bite.

use super::*;

const MS: Nanos = 1_000_000;
const PROMISES: Promises = Promises {
    staleness: 100 * MS,
    misses_are_true: true,
};

/// Builds a history of one key, in milliseconds.
#[derive(Default)]
struct Story {
    history: History,
}

impl Story {
    fn op(mut self, client: u32, from: u64, to: u64, action: Action) -> Self {
        let (invoked, completed) = (from * MS, to * MS);
        self.history.operations.push(Operation {
            client,
            key: 0,
            invoked,
            completed,
            action,
        });
        self
    }

    fn set(self, client: u32, from: u64, to: u64, id: u64, version: Option<u64>) -> Self {
        let effect = Effect::Done { version };
        self.op(
            client,
            from,
            to,
            Action::Write {
                id: WriteId(id),
                expects: None,
                effect,
            },
        )
    }

    fn lost_set(self, client: u32, from: u64, id: u64) -> Self {
        let effect = Effect::Unknown;
        let action = Action::Write {
            id: WriteId(id),
            expects: None,
            effect,
        };
        let mut story = self.op(client, from, from, action);
        story
            .history
            .operations
            .last_mut()
            .expect("just pushed")
            .completed = NEVER;
        story
    }

    fn swap(self, client: u32, from: u64, to: u64, id: u64, expects: u64) -> Self {
        let expects = Some(WriteId(expects));
        let effect = Effect::Done { version: None };
        self.op(
            client,
            from,
            to,
            Action::Write {
                id: WriteId(id),
                expects,
                effect,
            },
        )
    }

    fn delete(self, client: u32, from: u64, to: u64) -> Self {
        self.op(
            client,
            from,
            to,
            Action::Delete(Effect::Done { version: None }),
        )
    }

    fn get(self, client: u32, from: u64, to: u64, id: u64) -> Self {
        self.gets(client, from, to, id, None)
    }

    fn gets(self, client: u32, from: u64, to: u64, id: u64, version: Option<u64>) -> Self {
        let write = WriteId(id);
        self.op(
            client,
            from,
            to,
            Action::Read(Found::Value { write, version }),
        )
    }

    fn miss(self, client: u32, from: u64, to: u64) -> Self {
        self.op(client, from, to, Action::Read(Found::Miss))
    }

    /// What the home did, as (time, value); zero stands for nothing.
    fn log(mut self, applied: &[(u64, u64)]) -> Self {
        let state = |id| (id > 0).then_some(WriteId(id));
        let applied = applied.iter().map(|&(at, id)| (at * MS, state(id)));
        let log = applied
            .map(|(at, state)| Applied { key: 0, at, state })
            .collect();
        self.history.log = Some(log);
        self
    }

    fn kinds(&self) -> Vec<Kind> {
        match check(&self.history, &PROMISES) {
            Ok(_) => Vec::new(),
            Err(violations) => {
                violations
                    .iter()
                    .for_each(|violation| println!("{violation}"));
                violations.iter().map(|violation| violation.kind).collect()
            }
        }
    }

    fn is_good(&self) {
        assert_eq!(self.kinds(), []);
    }

    fn is(&self, kind: Kind) {
        assert_eq!(self.kinds(), [kind]);
    }
}

fn story() -> Story {
    Story::default()
}

#[test]
fn what_a_cache_may_do_is_no_violation() {
    story()
        .miss(1, 0, 1)
        .set(1, 2, 3, 1, None)
        .get(1, 4, 5, 1)
        .miss(1, 6, 7)
        .is_good();
    // A value that was lost may be found again while it may be stale, by another client too.
    story()
        .set(1, 0, 1, 1, None)
        .delete(2, 10, 20)
        .get(3, 110, 111, 1)
        .is_good();
    story()
        .set(1, 0, 1, 1, None)
        .set(2, 10, 20, 2, None)
        .get(3, 110, 111, 1)
        .is_good();
    // Two writes at the same time come in either order.
    story()
        .set(1, 0, 50, 1, None)
        .set(2, 10, 20, 2, None)
        .get(3, 300, 301, 2)
        .get(4, 300, 301, 1)
        .is_good();
    // A write of unknown outcome may happen late, or never.
    story()
        .lost_set(1, 0, 1)
        .set(1, 10, 11, 2, None)
        .get(1, 900, 901, 1)
        .is_good();
    story()
        .lost_set(1, 0, 1)
        .set(1, 10, 11, 2, None)
        .get(1, 900, 901, 2)
        .is_good();
}

#[test]
fn own_writes_are_read() {
    let other = || story().set(2, 0, 1, 1, Some(5));
    other()
        .set(1, 10, 20, 2, Some(6))
        .get(1, 21, 22, 1)
        .is(Kind::ReadYourWrites);
    // Whatever the order of the answers' times: pipelined requests are answered in order.
    other()
        .set(1, 10, 20, 2, Some(6))
        .get(1, 11, 20, 1)
        .is(Kind::ReadYourWrites);
    other()
        .delete(1, 10, 20)
        .get(1, 21, 22, 1)
        .is(Kind::ReadYourWrites);
    // By versions alone, where times say nothing.
    story()
        .set(2, 0, 50, 1, Some(5))
        .set(1, 10, 20, 2, Some(6))
        .get(1, 21, 22, 1)
        .is(Kind::ReadYourWrites);
    // Another client has promised itself nothing.
    other()
        .set(1, 10, 20, 2, Some(6))
        .get(3, 21, 22, 1)
        .is_good();
}

#[test]
fn reads_of_a_connection_never_go_back() {
    let writes = || story().set(1, 0, 1, 1, None).set(1, 10, 11, 2, None);
    writes()
        .get(2, 20, 21, 2)
        .get(2, 22, 23, 1)
        .is(Kind::MonotonicReads);
    writes()
        .get(2, 20, 30, 2)
        .get(2, 21, 30, 1)
        .is(Kind::MonotonicReads);
    writes().get(2, 20, 21, 2).get(3, 22, 23, 1).is_good();
    // The version that a read was told places a write whose order nobody knew.
    story()
        .set(1, 0, 50, 1, None)
        .set(2, 0, 50, 2, None)
        .gets(3, 60, 61, 2, Some(8))
        .gets(3, 62, 63, 1, Some(7))
        .is(Kind::MonotonicReads);
}

#[test]
fn nothing_is_found_for_longer_than_the_bound() {
    let replaced = || story().set(1, 0, 1, 1, None).set(2, 10, 20, 2, None);
    replaced().get(3, 120, 130, 1).is_good();
    replaced().get(3, 121, 130, 1).is(Kind::Stale);
    let deleted = || story().set(1, 0, 1, 1, None).delete(2, 10, 20);
    deleted().get(3, 120, 130, 1).is_good();
    deleted().get(3, 121, 130, 1).is(Kind::Resurrected);
    // By versions, although the writes overlapped.
    let overlapping = || story().set(1, 0, 50, 1, Some(1)).set(2, 0, 50, 2, Some(2));
    overlapping().get(3, 150, 151, 1).is_good();
    overlapping().get(3, 151, 152, 1).is(Kind::Stale);
    // That a value was read proves that it had been written by then.
    story()
        .lost_set(1, 0, 1)
        .get(2, 5, 6, 1)
        .delete(3, 10, 20)
        .get(4, 200, 201, 1)
        .is(Kind::Resurrected);
}

#[test]
fn values_come_from_writes_that_happened() {
    story().get(1, 0, 1, 7).is(Kind::Invented);
    story()
        .get(1, 0, 1, 7)
        .set(2, 10, 11, 7, None)
        .is(Kind::Invented);
    let refused = Action::Write {
        id: WriteId(1),
        expects: None,
        effect: Effect::None,
    };
    story()
        .op(1, 0, 1, refused.clone())
        .get(2, 5, 6, 1)
        .is(Kind::Invented);
    story()
        .op(1, 0, 1, refused)
        .log(&[(1, 1)])
        .is(Kind::NotApplied);
    story().set(1, 0, 5, 1, None).log(&[(3, 1)]).is_good();
    story().set(1, 0, 5, 1, None).log(&[]).is(Kind::NotApplied);
    story()
        .set(1, 0, 5, 1, None)
        .log(&[(6, 1)])
        .is(Kind::NotApplied);
    story()
        .set(1, 0, 5, 1, None)
        .log(&[(3, 1), (4, 1)])
        .is(Kind::AppliedTwice);
    story().lost_set(1, 0, 1).log(&[]).is_good();
    story()
        .lost_set(1, 0, 1)
        .get(2, 5, 6, 1)
        .log(&[])
        .is(Kind::Invented);
}

#[test]
fn a_swap_replaces_what_it_is_for() {
    let sets = || story().set(1, 0, 5, 1, None).set(1, 6, 8, 2, None);
    sets()
        .swap(2, 10, 12, 3, 2)
        .log(&[(1, 1), (7, 2), (11, 3)])
        .is_good();
    sets()
        .swap(2, 10, 12, 3, 1)
        .log(&[(1, 1), (7, 2), (11, 3)])
        .is(Kind::CasBroken);
    sets()
        .swap(2, 10, 12, 3, 2)
        .log(&[(1, 1), (7, 2), (9, 0), (11, 3)])
        .is(Kind::CasBroken);
    sets()
        .swap(2, 10, 12, 3, 2)
        .swap(3, 10, 12, 4, 2)
        .is(Kind::CasBroken);
}

#[test]
fn versions_name_one_value_and_grow() {
    let set = || story().set(1, 0, 1, 1, Some(5));
    set().gets(2, 10, 11, 1, Some(6)).is(Kind::VersionReused);
    set()
        .lost_set(2, 0, 2)
        .gets(3, 10, 11, 2, Some(5))
        .is(Kind::VersionReused);
    set().set(1, 10, 11, 2, Some(4)).is(Kind::VersionWentBack);
    set().set(1, 10, 11, 2, Some(6)).is_good();
}

#[test]
fn with_a_log_the_home_knows_better_than_the_clients() {
    // The answer to the second write took long, but it happened early.
    let late = || story().set(1, 0, 1, 1, None).set(2, 10, 900, 2, None);
    late().get(3, 300, 301, 1).is_good();
    late()
        .get(3, 300, 301, 1)
        .log(&[(1, 1), (11, 2)])
        .is(Kind::Stale);
    // What died with its home is gone.
    let lost = || story().set(1, 0, 1, 1, None).log(&[(1, 1), (50, 0)]);
    lost().get(3, 149, 151, 1).is_good();
    lost().get(3, 151, 152, 1).is(Kind::Resurrected);
}

#[test]
fn a_true_miss_shows_a_removal_and_nothing_older_may_follow() {
    let log = [(1, 1), (50, 0)];
    let story = || story().set(1, 0, 1, 1, None).log(&log);
    story()
        .miss(2, 40, 60)
        .get(2, 61, 62, 1)
        .is(Kind::MonotonicReads);
    story().get(2, 51, 52, 1).miss(2, 60, 61).is_good();
    // There was something all the time: the miss says nothing (its home may just have moved).
    story().miss(2, 10, 40).get(2, 41, 42, 1).is_good();
    // Before the first write there was nothing either.
    story().miss(2, 0, 10).get(2, 11, 12, 1).is_good();
    // It may have expired by then, which says nothing of what came later.
    let mut expired = story().miss(2, 20, 60).get(2, 61, 62, 1);
    expired.history.lapses = vec![Lapse {
        key: 0,
        from: 15 * MS,
        to: 50 * MS,
    }];
    expired.is_good();
    let doubted = Promises {
        misses_are_true: false,
        ..PROMISES
    };
    let told = story().miss(2, 40, 60).get(2, 61, 62, 1).history;
    assert!(check(&told, &doubted).is_ok());
}

#[test]
fn a_violation_says_what_happened() {
    let told = story()
        .set(1, 0, 1, 1, None)
        .delete(2, 10, 20)
        .get(3, 500, 501, 1)
        .history;
    let violations = check(&told, &PROMISES).expect_err("a deleted value was found");
    let words = violations[0].to_string();
    for part in [
        "Resurrected",
        "client 3",
        "WriteId(1)",
        "sent at 500.000000 ms",
        "480.000000 ms",
    ] {
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn staleness_counts_from_the_first_state_that_is_newer() {
    let staleness = |story: Story| {
        let checked = check(&story.history, &PROMISES).expect("it is good");
        (checked.staleness.count(), checked.staleness.max_us())
    };
    // Two newer values: the first one counts. With a log its time is known, without one the answer's.
    let story_of_two = || {
        story()
            .set(1, 0, 1, 1, None)
            .set(1, 10, 20, 2, None)
            .set(1, 30, 40, 3, None)
            .get(2, 60, 61, 1)
            .get(2, 62, 63, 3)
    };
    assert_eq!(staleness(story_of_two()), (1, 40_000));
    let logged = story_of_two().log(&[(1, 1), (15, 2), (35, 3)]);
    assert_eq!(staleness(logged), (1, 45_000));
    // By versions, where times say nothing: the writes overlap.
    let versions = story()
        .set(1, 0, 50, 1, Some(7))
        .set(2, 0, 50, 2, Some(8))
        .gets(3, 80, 81, 1, Some(7));
    assert_eq!(staleness(versions), (1, 30_000));
    assert_eq!(
        staleness(story().set(1, 0, 1, 1, None).get(1, 5, 6, 1)).0,
        0
    );
}
