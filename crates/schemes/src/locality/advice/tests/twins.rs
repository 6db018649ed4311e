//! What is advised, beside what trying everything says.

use super::*;
use crate::locality::model::{network, space};
use evenkeel_testkit::seed;

/// The twin of [`Estimate::of`]: a percentile is the least of the samples that this many in a hundred are not above.
fn counted(value: f64, samples: &[f64]) -> (f64, f64, f64) {
    let percentile = |percent: usize| {
        let reached = |&&limit: &&f64| {
            let below = samples.iter().filter(|&&sample| sample <= limit).count();
            100 * below >= percent * samples.len()
        };
        let reaching = samples.iter().filter(reached);
        reaching.copied().fold(f64::INFINITY, f64::min)
    };
    (value, percentile(5).min(value), percentile(95).max(value))
}

fn is_same(estimate: Estimate, twin: (f64, f64, f64)) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
    near(estimate.value, twin.0) && near(estimate.low, twin.1) && near(estimate.high, twin.2)
}

/// The twin of the costs: written down once more, by what is asked for.
fn cost(objective: Objective, one: Architecture, inputs: &Inputs, racks: Racks) -> Option<f64> {
    let latency = shipped::mean(one, &inputs.usage, inputs.distances, racks)?;
    let bytes = network::share(one, &inputs.usage, racks) * inputs.usage.object_bytes;
    let space = space::efficiency(one, &inputs.usage, racks);
    Some(match objective {
        Objective::Latency => latency,
        Objective::Network => bytes,
        Objective::Space => 1.0 / space,
        Objective::Mixed => latency * bytes / space,
    })
}

/// The twin of the choice: every architecture is tried, and the best of those is taken that keep all rules.
fn tried(question: &Question, whole: &Inputs, samples: &[Inputs]) -> Option<Architecture> {
    let today = question.today.architecture;
    let counted_of = |of: &dyn Fn(&Inputs) -> Option<f64>| {
        let samples: Option<Vec<f64>> = samples.iter().map(of).collect();
        Some(counted(of(whole)?, &samples?))
    };
    let model = counted_of(&|inputs| cost(Objective::Latency, today, inputs, question.racks))?;
    let measured = question.today.latency_ms;
    let is_off = measured < model.1 - 0.1 * measured || measured > model.2 + 0.1 * measured;
    if is_off && matches!(question.objective, Objective::Latency | Objective::Mixed) {
        return None;
    }
    let score = |one| {
        counted_of(&|inputs| {
            let cost = |one| cost(question.objective, one, inputs, question.racks);
            match question.objective {
                Objective::Mixed => Some(cost(one)? / cost(today)?),
                _ => cost(one),
            }
        })
    };
    let now = score(today)?;
    let mut best: Option<(Architecture, f64)> = None;
    for one in Architecture::ALL {
        let Some(of_it) = score(one) else { continue };
        let is_worth_it = of_it.0 <= 0.95 * now.0 && of_it.2 < now.1;
        if one != today && is_worth_it && best.is_none_or(|best| of_it.0 < best.1) {
            best = Some((one, of_it.0));
        }
    }
    best.map(|best| best.0)
}

#[test]
fn it_says_what_brute_force_says() {
    let seed = seed(0x139);
    let mut chance = Chance(SplitMix64::new(seed));
    let mut chosen = 0;
    for _ in 0..500 {
        let has_central = chance.unit() < 0.8;
        let whole = chance.inputs(has_central);
        let samples: Vec<Inputs> = (0..chance.one_of(&[1, 20, 101]))
            .map(|_| chance.again(&whole))
            .collect();
        let today = chance.one_of(&Architecture::ALL[usize::from(!has_central)..]);
        let mut question = question(today, &whole);
        question.objective = chance.one_of(&Objective::ALL);
        question.racks.racks = 2 + (chance.unit() * 60.0) as u32;
        let advice = advise(&question, &whole, &samples).unwrap();
        assert_eq!(
            advice.choice,
            tried(&question, &whole, &samples),
            "{question:?} {advice:?}"
        );
        chosen += usize::from(advice.choice.is_some());

        for row in advice.rows {
            let one = row.architecture;
            let latency = |inputs: &Inputs| cost(Objective::Latency, one, inputs, question.racks);
            let all: Option<Vec<f64>> = samples.iter().map(latency).collect();
            let twin = latency(&whole)
                .zip(all)
                .map(|(whole, all)| counted(whole, &all));
            match (row.latency_ms, twin) {
                (Some(estimate), Some(twin)) => {
                    assert!(is_same(estimate, twin), "{row:?} {twin:?}")
                }
                (estimate, twin) => assert!(estimate.is_none() && twin.is_none()),
            }
        }
    }
    assert!(chosen > 50, "{chosen}");
}

#[test]
fn the_answer_turns_where_trying_everything_says() {
    const PLACES: u32 = 2_000;
    let seed = seed(0x239);
    let mut chance = Chance(SplitMix64::new(seed));
    let mut turned = 0;
    for _ in 0..60 {
        let whole = chance.inputs(true);
        let mut question = question(Architecture::Sdc, &whole);
        question.objective = chance.one_of(&Objective::ALL);
        for turning in advise(&question, &whole, &[]).unwrap().turnings {
            turned += turning.turns.len();
            let mut differ = 0;
            for place in 0..=PLACES {
                let share = f64::from(place) / f64::from(PLACES);
                let value = turning.low + (turning.high - turning.low) * share;
                let mut inputs = whole;
                match turning.number {
                    Number::Ps => inputs.usage.ps = value,
                    Number::Reads => inputs.usage = whole.usage.with_reads(value),
                    Number::Switch => inputs.distances = whole.distances.with_switch(value),
                }
                let cost = |one| cost(question.objective, one, &inputs, question.racks).unwrap();
                let least = Architecture::ALL
                    .map(cost)
                    .into_iter()
                    .fold(f64::INFINITY, f64::min);
                let passed = turning.turns.iter().rfind(|turn| turn.at <= value);
                let said = match (passed, turning.turns.first()) {
                    (Some(turn), _) => cost(turn.to),
                    (None, Some(turn)) => cost(turn.from),
                    (None, None) => continue,
                };
                differ += u32::from(said > least * (1.0 + 1e-9));
            }
            // A step of the search is ten places: what holds for less may be overlooked.
            assert!(differ <= 10, "{differ} {turning:?}");
        }
    }
    assert!(turned > 50, "{turned}");
}
