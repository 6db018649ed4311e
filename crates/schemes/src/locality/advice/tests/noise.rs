//! Advice that follows live traffic.

use super::super::choice::choose;
use super::*;
use evenkeel_testkit::seed;
use evenkeel_types::Instant;

/// Looks at live traffic each ten seconds for a day. Answers how often the choice of a look changed, and at which second the advice did.
fn a_day(mut look: impl FnMut() -> Option<Architecture>, steady: &mut Steady) -> (usize, Vec<u64>) {
    let (mut raw, mut given) = (None, None);
    let (mut flips, mut changes) = (0, Vec::new());
    for second in (0..86_400).step_by(10) {
        let choice = look();
        flips += usize::from(choice != raw);
        raw = choice;
        let advised = steady.handle(Instant::from_millis(1_000 * second), choice);
        if advised != given {
            changes.push(second);
            given = advised;
        }
    }
    (flips, changes)
}

#[test]
fn advice_does_not_flap_where_noise_is_around_a_turning_point() {
    let seed = seed(0x339);
    let mut chance = Chance(SplitMix64::new(seed));

    // The distance to the central servers is such that they gain 5 %, of this many answers.
    let answers = 400.0;
    let mut inputs = mediawiki();
    inputs.distances = Network {
        base: 9.4,
        ..NETWORK
    }
    .into();
    let asked = question(Architecture::Sds, &inputs);
    let mut steady = Steady::default();
    let (flips, changes) = a_day(
        || {
            let mut seen = inputs;
            let noise = chance.poisson(answers) / answers;
            seen.distances.central = inputs.distances.central.map(|central| central * noise);
            choose(&asked, &seen, &[]).0
        },
        &mut steady,
    );
    assert!(flips > 2_000, "{flips}");
    assert!(
        changes.windows(2).all(|pair| pair[1] - pair[0] >= 600),
        "{changes:?}"
    );

    // This many keys are a session's own that Snoop gains 5 %, where all that is asked for is there.
    let mut inputs = mediawiki();
    inputs.usage.shares = Usage::mix(&[(Outcome::GetHit, 0.6), (Outcome::SetHit, 0.4)]);
    let asked = question(Architecture::Sdc, &inputs);
    let mut steady = Steady::default();
    let (flips, changes) = a_day(
        || {
            let mut seen = inputs;
            let (own, shared) = (
                chance.poisson(0.85 * answers),
                chance.poisson(0.15 * answers),
            );
            seen.usage.ps = own / (own + shared);
            choose(&asked, &seen, &[]).0
        },
        &mut steady,
    );
    assert!(flips > 2_000, "{flips}");
    assert!(
        changes.windows(2).all(|pair| pair[1] - pair[0] >= 600),
        "{changes:?}"
    );
}

#[test]
fn advice_changes_once_in_ten_minutes_however_long_answers_last() {
    let seed = seed(0x439);
    let mut chance = Chance(SplitMix64::new(seed));
    let mut choice = None;
    let answers = [None, Some(Architecture::Sdc), Some(Architecture::Sds)];
    let (_, changes) = a_day(
        || {
            // For ten minutes on average.
            if chance.unit() < 1.0 / 60.0 {
                choice = chance.one_of(&answers);
            }
            choice
        },
        &mut Steady::default(),
    );
    assert!(changes.len() > 10, "{changes:?}");
    assert!(
        changes.windows(2).all(|pair| pair[1] - pair[0] >= 600),
        "{changes:?}"
    );
}

#[test]
fn what_goes_on_for_ten_minutes_is_advised_and_what_breaks_off_is_not() {
    let (sds, snoop) = (Some(Architecture::Sds), Some(Architecture::Snoop));
    let mut steady = Steady::default();
    let mut handle =
        |second: u64, choice| steady.handle(Instant::from_millis(1_000 * second), choice);
    assert_eq!(handle(0, sds), None);
    assert_eq!(handle(590, sds), None);
    assert_eq!(handle(600, sds), sds);
    // One look that says so again begins it anew.
    assert_eq!(handle(610, None), sds);
    assert_eq!(handle(1_200, sds), sds);
    assert_eq!(handle(1_210, None), sds);
    // Neither do two that alternate add up.
    assert_eq!(handle(1_500, snoop), sds);
    assert_eq!(handle(1_900, None), sds);
    assert_eq!(handle(2_499, None), sds);
    assert_eq!(handle(2_500, None), None);
}
