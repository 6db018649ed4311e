//! `docs/hot-keys-states.md`: what servers and proxies decide, as tables made by the code that decides.
//!
//! A test fails when the page says something else; `EVENKEEL_WRITE_DOCS=1` writes it anew.

use core::fmt::Write;
use core::time::Duration;
use std::sync::Arc;

use evenkeel_types::{Epoch, Instant, KeyHash, Version};

use super::client::{Answer, ClientLeases, Connection, Grant, ReadTicket, Route, Verdict};
use super::state::{Event, MOVES};

const KEY: KeyHash = KeyHash(7);
const READER: Connection = Connection(1);
const OTHER: Connection = Connection(2);
const EPOCH: Epoch = Epoch(3);
const LEASE: Duration = Duration::from_secs(1);
const NOW: Instant = Instant(10_000_000_000);

/// What proxies have been shown of the key when the stories of the tables begin.
const KNOWN: Version = Version(50);

#[test]
fn the_page_of_states_says_what_the_code_does() {
    evenkeel_testkit::page::check_page("hot-keys-states.md", &page());
}

fn page() -> String {
    let mut page = String::from(
        "# Hot keys: states and decisions\n\n\
         What a home server does about a hot key, and what a proxy does with the answers. [Hot keys](hot-keys.md)\n\
         says what it is for and what is promised. These tables are made by the code that decides, and a test\n\
         compares them: after a change of it, `EVENKEEL_WRITE_DOCS=1 cargo test -p evenkeel-hotkeys page` writes\n\
         this page anew.\n\n",
    );
    write_moves(&mut page);
    write_routes(&mut page);
    write_verdicts(&mut page);
    page
}

fn write_moves(page: &mut String) {
    page.push_str(
        "## At the home server\n\n\
         States of a key: `invalid` (not tracked), `cold` (watched, no replicas), `hot_pending` (replicas are being\n\
         created or brought up to date; leases end one lease after the oldest write on its way, with `atomic` none are granted), `hot` (every replica is current; leases are granted),\n\
         `cold_pending` (no leases are granted; writes still go to the replicas until the last lease is over). Every\n\
         other move is a bug, and the server stops.\n\n\
         | what happened | | from | to |\n|---|---|---|---|\n",
    );
    for (event, from, to) in MOVES {
        let meaning = meaning(event);
        writeln!(page, "| `{event}` | {meaning} | `{from}` | `{to}` |").expect("it is a string");
    }
    page.push('\n');
}

fn meaning(event: Event) -> &'static str {
    match event {
        Event::Tracked => "a sampled read met the key",
        Event::Evicted => "another key needed the room",
        Event::Faded => "nobody asked for it for four slots of a quarter of a second",
        Event::Promoted => "it became popular on a loaded worker",
        Event::Current => "every replica has the newest value",
        Event::Prepared => "`atomic`: no shadow serves its replica any more",
        Event::LeasesOver => "`atomic`: a shadow may still serve it, but the last lease is over",
        Event::Written => "it was written",
        Event::Deleted => "it was deleted",
        Event::Flushed => "everything was deleted",
        Event::Absent => "it had expired or was evicted when its value was to be sent",
        Event::LinkLost => "the connection to a shadow broke",
        Event::Widened => "it became so popular that it needs more replicas",
        Event::Cooled => "it is not popular any more",
        Event::WriteHeavy => "its writes outweigh its reads",
        Event::SwitchedOff => "replication was switched off",
        Event::MapChanged => "a map gives it another home or other shadows",
        Event::Leaving => "`atomic`: its cachelet is to go to another worker once no lease is left",
        Event::Left => "its cachelet is at another worker of the server now",
        Event::ShadowSilent => "a shadow has confirmed nothing for a lease",
        Event::ShadowRefused => "a shadow cannot hold the replica",
        Event::Removed => "every shadow has removed its replica after a delete",
        Event::Retired => "the last lease is over",
    }
}

/// A client that has a lease from its home, by a read of [`READER`] that was shown [`KNOWN`].
fn leased() -> ClientLeases {
    let mut leases = ClientLeases::new(1);
    let ticket = leases.route_read(NOW, EPOCH, (KEY, READER), |_| Some(0));
    let answer = Answer::Hit(KNOWN);
    assert!(leases.grant(NOW, EPOCH, &ticket, answer, Grant::whole(1, LEASE)));
    leases.keep(EPOCH, &ticket, answer, 0, || Some(Arc::from([])));
    assert_eq!(leases.release(NOW, EPOCH, ticket, answer), Verdict::Show);
    // The first read was sent before there was a lease; the next one makes what is known known.
    let ticket = leases.home_read(NOW, EPOCH, (KEY, READER));
    assert_eq!(leases.release(NOW, EPOCH, ticket, answer), Verdict::Show);
    leases
}

/// A read by [`READER`] when it is a copy's turn; 0 is the home's.
fn read(leases: &mut ClientLeases, copy: u8) -> ReadTicket {
    leases.set_turn(KEY, copy);
    leases.route_read(NOW, EPOCH, (KEY, READER), |_| Some(0))
}

/// A read by [`READER`] when it is the turn of a home that has more to do than its shadow.
fn read_of_busy_home(leases: &mut ClientLeases) -> ReadTicket {
    leases.set_turn(KEY, 0);
    let load = |suffix: u8| Some(usize::from(suffix == 0));
    leases.route_read(NOW, EPOCH, (KEY, READER), load)
}

fn write_routes(page: &mut String) {
    page.push_str(
        "## Where a proxy sends a read\n\n\
         All leases of a key are those of one proxy worker, and serve all of its connections.\n\n\
         | when | to |\n|---|---|\n",
    );
    type Story = fn() -> ReadTicket;
    let stories: [(&str, Story); 18] = [
        ("there is no lease", || read(&mut ClientLeases::new(1), 1)),
        ("under a lease, it is the home's turn", || {
            read(&mut leased(), 0)
        }),
        (
            "… and it has clearly more to do than another copy",
            || read_of_busy_home(&mut leased()),
        ),
        ("… and it has given its turn before away", || {
            let mut leases = leased();
            let given = read_of_busy_home(&mut leases);
            leases.abandon(NOW, given);
            read_of_busy_home(&mut leases)
        }),
        ("under a lease, it is a shadow's turn", || {
            read(&mut leased(), 1)
        }),
        ("… and the shadow cannot be asked", || {
            let mut leases = leased();
            leases.set_turn(KEY, 1);
            leases.route_read(NOW, EPOCH, (KEY, READER), |_| None)
        }),
        ("… and only the home can answer the read", || {
            let mut leases = leased();
            leases.set_turn(KEY, 1);
            leases.home_read(NOW, EPOCH, (KEY, READER))
        }),
        (
            "… and the connection has touched the key since the lease was asked for",
            || {
                let mut leases = leased();
                leases.touch_sent(KEY, READER);
                read(&mut leases, 1)
            },
        ),
        (
            "… and the connection has written the key, and is not answered",
            || {
                let mut leases = leased();
                _ = leases.write_begun(KEY, READER, true);
                read(&mut leases, 1)
            },
        ),
        (
            "… and the answer will not tell the version, or what is stored cannot be kept",
            || {
                let mut leases = leased();
                let write = leases.write_begun(KEY, READER, false);
                leases.write_sent(write.expect("no mutant"));
                read(&mut leases, 1)
            },
        ),
        (
            "… and that write was answered, and its value is kept",
            || {
                let mut leases = leased();
                let write = leases.write_begun(KEY, READER, true).expect("no mutant");
                let newer = Answer::Hit(Version(KNOWN.0 + 1));
                leases.write_answered(EPOCH, (KEY, write), newer, 0, || Some(Arc::from([])));
                read(&mut leases, 1)
            },
        ),
        (
            "… and that write was answered, and its value is not kept",
            || {
                let mut leases = leased();
                let write = leases.write_begun(KEY, READER, true).expect("no mutant");
                let newer = Answer::Hit(Version(KNOWN.0 + 1));
                leases.write_answered(EPOCH, (KEY, write), newer, 0, || None);
                read(&mut leases, 1)
            },
        ),
        ("… and another connection has touched it", || {
            let mut leases = leased();
            leases.touch_sent(KEY, OTHER);
            read(&mut leases, 1)
        }),
        (
            "… and the connection has a whole lease for a read behind its touch",
            || {
                let mut leases = leased();
                leases.touch_sent(KEY, READER);
                let later = NOW + Duration::from_millis(1);
                let ticket = leases.route_read(later, EPOCH, (KEY, READER), |_| Some(0));
                let answer = Answer::Hit(KNOWN);
                leases.grant(later, EPOCH, &ticket, answer, Grant::whole(1, LEASE));
                assert_eq!(leases.release(later, EPOCH, ticket, answer), Verdict::Show);
                read(&mut leases, 1)
            },
        ),
        (
            "… and the connection has a lease for a read behind its touch that is not whole",
            || {
                let mut leases = leased();
                leases.touch_sent(KEY, READER);
                let later = NOW + Duration::from_millis(50);
                let ticket = leases.route_read(later, EPOCH, (KEY, READER), |_| Some(0));
                let left = LEASE - Duration::from_millis(1);
                let short = Grant {
                    left,
                    ..Grant::whole(1, LEASE)
                };
                leases.grant(later, EPOCH, &ticket, Answer::Hit(KNOWN), short);
                leases.abandon(later, ticket);
                read(&mut leases, 1)
            },
        ),
        ("… and somebody has sent `flush_all`", || {
            let mut leases = leased();
            leases.flush_sent();
            read(&mut leases, 1)
        }),
        ("… and there is another map", || {
            let mut leases = leased();
            leases.set_turn(KEY, 1);
            leases.route_read(NOW, Epoch(EPOCH.0 + 1), (KEY, READER), |_| Some(0))
        }),
        (
            "the lease is over, or will be within a twentieth of it",
            || {
                let mut leases = leased();
                leases.set_turn(KEY, 1);
                let late = NOW + LEASE - LEASE / 20;
                leases.route_read(late, EPOCH, (KEY, READER), |_| Some(0))
            },
        ),
    ];
    for (when, story) in stories {
        let to = match story().route() {
            Route::Home => "home",
            Route::Shadow { .. } => "shadow",
        };
        writeln!(page, "| {when} | {to} |").expect("it is a string");
    }
    page.push('\n');
}

/// A story up to an answer that is to be judged, and the version that it is compared with.
type Judged = fn(Answer) -> (ClientLeases, Verdict);

fn write_verdicts(page: &mut String) {
    page.push_str(
        "## What a proxy does with an answer\n\n\
         *Show* gives it to the application; *kept* gives the application the newest value that the proxy was answered, or has\n\
         written, in its place; *ask* throws it away and asks the home once more, whose answer to that is\n\
         shown whatever it is. *Ends* means that the lease is over. Newer and older are by version, and as compared\n\
         with the newest that had been shown of the key when the read was sent; if its connection was shown any of it\n\
         since, with the newest that is known. Where the newest is not kept, because it has more than 64 KiB or others have\n\
         4 MiB, *kept* is *ask*.\n\n\
         | the answer | of a shadow | of the home | of the home, after an answer asked for later | \
         first, under an older map | to the second question |\n|---|---|---|---|---|---|\n",
    );
    let (older, newer) = (Version(KNOWN.0 - 1), Version(KNOWN.0 + 1));
    let answers = [
        ("a newer value", Answer::Hit(newer)),
        ("the same value", Answer::Hit(KNOWN)),
        ("an older value", Answer::Hit(older)),
        ("nothing, as of the same version", Answer::Miss(Some(KNOWN))),
        ("nothing, as of an older version", Answer::Miss(Some(older))),
        ("nothing, without a version", Answer::Miss(None)),
        ("no answer", Answer::Failed),
    ];
    let columns: [Judged; 5] = [
        |answer| judge(leased(), 1, EPOCH, answer),
        |answer| judge(leased(), 0, EPOCH, answer),
        |answer| {
            let mut leases = leased();
            let ticket = read(&mut leases, 0);
            let shown = read(&mut leases, 1);
            assert_eq!(
                leases.release(NOW, EPOCH, shown, Answer::Hit(KNOWN)),
                Verdict::Show
            );
            let verdict = leases.release(NOW, EPOCH, ticket, answer);
            (leases, verdict)
        },
        |answer| judge(leased(), 0, Epoch(EPOCH.0 + 1), answer),
        |answer| {
            let mut leases = leased();
            let ticket = read(&mut leases, 1);
            let gone = Answer::Miss(None);
            let Verdict::AskHome(again) = leases.release(NOW, EPOCH, ticket, gone) else {
                panic!("what a copy does not have is asked again");
            };
            // What was asked before is asked of a lease that is given anew.
            let ticket = leases.home_read(NOW, EPOCH, (KEY, OTHER));
            leases.grant(NOW, EPOCH, &ticket, Answer::Failed, Grant::whole(1, LEASE));
            leases.abandon(NOW, ticket);
            let verdict = leases.release(NOW, EPOCH, again, answer);
            (leases, verdict)
        },
    ];
    for (name, answer) in answers {
        write!(page, "| {name} |").expect("it is a string");
        for judged in columns {
            let (leases, verdict) = judged(answer);
            let is_over = leases.leased_gamma(NOW, KEY) == 0;
            let verdict = match verdict {
                Verdict::Show => "show",
                Verdict::ShowKept(..) => "kept",
                Verdict::AskHome(_) => "ask",
            };
            let ends = if is_over { ", ends" } else { "" };
            write!(page, " {verdict}{ends} |").expect("it is a string");
        }
        page.push('\n');
    }
    page.push_str(
        "\nUnder a newer map all leases have ended anyway. A failed answer of the home is shown as the error that it is.\n",
    );
}

fn judge(
    mut leases: ClientLeases,
    copy: u8,
    epoch: Epoch,
    answer: Answer,
) -> (ClientLeases, Verdict) {
    let ticket = read(&mut leases, copy);
    let verdict = leases.release(NOW, epoch, ticket, answer);
    (leases, verdict)
}
