//! Single behaviours of one coordinator, told as short stories.

use super::*;

const TTL: Duration = Duration::from_secs(2);

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn rival() -> Leader {
    Leader {
        address: "b:1".into(),
        token: 5,
    }
}

/// A coordinator that leads with token 9 by lease 7, asked for at 100 ms.
fn leading() -> Election {
    let mut election = Election::new("a:1", at(0));
    assert_eq!(election.poll_action(at(0)), Some(Action::Look));
    assert_eq!(election.poll_action(at(0)), None, "one look at a time");
    election.handle(at(50), Input::Seen(None));
    assert_eq!(election.poll_action(at(100)), Some(Action::Grant));
    let granted = Input::Granted {
        lease: 7,
        ttl: TTL,
        asked: at(100),
    };
    election.handle(at(110), granted);
    assert_eq!(
        election.poll_action(at(110)),
        Some(Action::Campaign { lease: 7 })
    );
    election.handle(at(120), Input::Won { token: 9 });
    assert_eq!(election.leads(at(120)), None, "the state is not read yet");
    assert_eq!(election.writes(at(120)), Some(9));
    assert_eq!(
        election.poll_action(at(120)),
        Some(Action::Load { token: 9 })
    );
    election.handle(at(130), Input::Loaded { token: 9 });
    assert_eq!(election.leads(at(130)), Some(9));
    election
}

#[test]
fn the_table_of_moves_is_this() {
    let mut table = String::new();
    for from in Phase::ALL {
        let to: Vec<_> = Phase::ALL
            .into_iter()
            .filter(|next| from.may_become(*next))
            .map(Phase::as_str)
            .collect();
        table += &format!("{} -> {}\n", from.as_str(), to.join(", "));
    }
    let expected = "\
following -> granting
granting -> following, campaigning
campaigning -> preparing, resigning
preparing -> leading, resigning
leading -> resigning
resigning -> following
";
    assert_eq!(table, expected);
}

#[test]
fn a_follower_knows_the_leader_for_a_while_and_leaves_it_alone() {
    let mut election = Election::new("a:1", at(0));
    election.poll_action(at(0));
    election.handle(at(10), Input::Seen(Some(rival())));
    assert_eq!(election.poll_action(at(10)), None);
    assert_eq!(election.poll_deadline(), Some(at(10) + LOOK_EVERY));
    assert_eq!(election.leader(at(3_009)), Some(&rival()));
    assert_eq!(election.poll_action(at(300)), Some(Action::Look));
    election.handle(at(900), Input::NotSeen);
    assert_eq!(election.leader(at(3_009)), Some(&rival()));
    assert_eq!(election.leader(at(3_010)), None, "that was too long ago");
    assert_eq!(election.phase(), Phase::Following);
}

#[test]
fn its_own_former_life_is_no_leader_to_send_others_to() {
    let mut election = Election::new("b:1", at(0));
    election.poll_action(at(0));
    election.handle(at(10), Input::Seen(Some(rival())));
    assert_eq!(election.leader(at(10)), None);
    assert_eq!(election.leads(at(10)), None);
}

#[test]
fn belief_counts_from_the_question_and_ends_before_the_lease() {
    let mut election = leading();
    assert_eq!(election.leads(at(1_599)), Some(9));
    assert_eq!(election.leads(at(1_600)), None, "100 ms + 3/4 of 2 s");
    assert_eq!(
        election.poll_action(at(500)),
        Some(Action::Renew { lease: 7, token: 9 })
    );
    assert_eq!(election.poll_action(at(500)), None, "one renewal at a time");
    let renewed = Input::Renewed {
        lease: 7,
        ttl: TTL,
        asked: at(500),
    };
    election.handle(at(1_500), renewed);
    assert_eq!(election.leads(at(1_999)), Some(9));
    assert_eq!(election.leads(at(2_000)), None);
}

#[test]
fn anyone_who_was_stopped_for_long_leads_no_more_whatever_arrives_then() {
    let mut election = leading();
    election.poll_action(at(500));
    let renewed = Input::Renewed {
        lease: 7,
        ttl: TTL,
        asked: at(500),
    };
    election.handle(at(60_000), renewed);
    assert_eq!(election.leads(at(60_000)), None);
    assert_eq!(election.last_cause(), Some(Cause::LeaseOver));
    assert_eq!(
        election.poll_action(at(60_000)),
        Some(Action::Revoke { lease: 7 })
    );
    election.handle(at(60_010), Input::Revoked);
    assert_eq!(election.poll_action(at(60_010)), Some(Action::Look));
}

#[test]
fn a_write_of_unknown_end_is_the_last_with_its_token() {
    let mut election = leading();
    election.handle(at(200), Input::Unsaved { token: 8 });
    assert_eq!(election.leads(at(200)), Some(9), "that was another's");
    election.handle(at(200), Input::Unsaved { token: 9 });
    assert_eq!(
        (election.leads(at(200)), election.writes(at(200))),
        (None, None)
    );
    assert_eq!(
        election.poll_action(at(200)),
        Some(Action::Revoke { lease: 7 })
    );
}

#[test]
fn an_unusable_state_lets_others_try_first() {
    let mut election = leading();
    election.handle(at(200), Input::LeaseGone { lease: 7 });
    election.poll_action(at(200));
    election.handle(at(210), Input::Revoked);
    election.poll_action(at(210));
    election.handle(at(220), Input::Seen(None));
    election.poll_action(at(220));
    let granted = Input::Granted {
        lease: 8,
        ttl: TTL,
        asked: at(220),
    };
    election.handle(at(230), granted);
    election.handle(at(240), Input::Won { token: 12 });
    election.handle(at(250), Input::NotLoaded { token: 9 });
    assert_eq!(election.phase(), Phase::Preparing, "that was another's");
    election.handle(at(250), Input::NotLoaded { token: 12 });
    election.handle(at(260), Input::Revoked);
    election.poll_action(at(260));
    election.handle(at(270), Input::Seen(None));
    assert_eq!(election.phase(), Phase::Following);
    assert_eq!(election.poll_action(at(1_249)), Some(Action::Look));
    election.handle(at(1_250), Input::Seen(None));
    assert_eq!(election.phase(), Phase::Granting);
}

#[test]
fn anyone_who_is_told_to_stop_gives_the_lease_back_and_is_over() {
    let mut election = leading();
    election.handle(at(200), Input::Stop);
    assert!(!election.is_over());
    assert_eq!(
        election.poll_action(at(200)),
        Some(Action::Revoke { lease: 7 })
    );
    election.handle(at(210), Input::Revoked);
    assert!(election.is_over());
    assert_eq!(election.poll_action(at(9_999)), None);

    let mut early = Election::new("a:1", at(0));
    early.poll_action(at(0));
    early.handle(at(10), Input::Seen(None));
    early.poll_action(at(10));
    early.handle(at(11), Input::Stop);
    let granted = Input::Granted {
        lease: 1,
        ttl: TTL,
        asked: at(10),
    };
    early.handle(at(12), granted);
    assert_eq!(early.poll_action(at(12)), Some(Action::Revoke { lease: 1 }));
}
