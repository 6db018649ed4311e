//! `docs/balancing-phases.md`: the moves of the phase machine, as a table made by the code that decides.
//!
//! A test fails when the page says something else; `EVENKEEL_WRITE_DOCS=1` writes it anew.

use core::fmt::Write;

use super::super::share::{BUSY_MIN, TOLERANCE_MAX};
use super::{Event, MOVES, PhaseConfig, STATES, State};

#[test]
fn the_page_of_phases_says_what_the_code_does() {
    evenkeel_testkit::page::check_page("balancing-phases.md", &page());
}

fn page() -> String {
    let config = PhaseConfig::default();
    let mut page = String::from(
        "# Balancing: which phase acts, and why\n\n\
         What the balancer of a server is at, and every way from one to the other. These tables are made by the code\n\
         that decides, and a test compares them: after a change of it,\n\
         `EVENKEEL_WRITE_DOCS=1 cargo test -p evenkeel-balance page` writes this page anew.\n\n\
         | state | what is done |\n|---|---|\n",
    );
    for state in STATES {
        writeln!(page, "| `{state}` | {} |", what_is_done(state)).expect("it is a string");
    }
    page.push_str("\n| what happened | | from | to |\n|---|---|---|---|\n");
    for (event, from, to) in MOVES {
        let meaning = meaning(event, &config);
        writeln!(page, "| `{event}` | {meaning} | `{from}` | `{to}` |").expect("it is a string");
    }
    writeln!(
        page,
        "\nA worker is overloaded if it uses more of its capacity than the cluster does of its own, by half of what the cluster\n\
         has left of it and at most {} % of the capacity ([balancing](balancing.md#what-counts-as-overloaded)), and is busy for\n\
         {} % of its time at least. Phases that are switched off are passed over.\n\
         Whatever the state, lent cachelets go home when their lease is over and their home has room. With {} replicated\n\
         keys or more for each worker a server samples {} % of what it samples otherwise.",
        TOLERANCE_MAX * 100.0,
        BUSY_MIN * 100.0,
        config.replicated_keys_high,
        config.sampling_ratio_lowered * 100.0,
    )
    .expect("it is a string");
    page
}

fn what_is_done(state: State) -> &'static str {
    match state {
        State::Even => "nothing; nobody is overloaded",
        State::Watching => "nothing yet; somebody is overloaded",
        State::Replicating => "phase 1: hot keys are replicated",
        State::Local => {
            "phase 2: cachelets pass between the workers of the server; phase 1 goes on"
        }
        State::Coordinated => {
            "phase 3: the coordinator is asked to move cachelets to other servers; phase 1 goes on"
        }
    }
}

fn meaning(event: Event, config: &PhaseConfig) -> String {
    let intervals = config.intervals_min;
    let patience = config.intervals_patience;
    match event {
        Event::Noticed => "a worker is overloaded".to_owned(),
        Event::Passed => "nobody is overloaded any more".to_owned(),
        Event::Persisted => format!("somebody was overloaded for {intervals} intervals in a row"),
        Event::ManyKeys => format!(
            "{} keys or more for each worker are replicated, and somebody is overloaded",
            config.replicated_keys_high
        ),
        Event::WriteHeavy => format!(
            "more than {} % of the requests for the hottest keys write",
            config.write_share_high * 100.0
        ),
        Event::NotEnough => {
            format!(
                "after {patience} intervals of this phase, of a plan of phase 2, or without a further replicated key in phase 1, somebody is still overloaded"
            )
        }
        Event::CannotHelp => "no move within the server helps enough".to_owned(),
        Event::ServerOverloaded => format!(
            "more than {} % of the server's workers are overloaded",
            config.server_overloaded_ratio * 100.0
        ),
        Event::ServerRelieved => format!(
            "the server as a whole is down to its share, some worker is not, for {patience} intervals"
        ),
        Event::Evened => format!("nobody was overloaded for {intervals} intervals in a row"),
    }
}
