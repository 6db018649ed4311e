//! What to change to, and why.

use super::estimate::{Estimate, score};
use super::question::{Inputs, Question};
use crate::locality::model::{Architecture, shipped};

/// What a change has to gain at least: a share of what is to be small. Less is not worth moving every item.
pub const GAIN_MIN: f64 = 0.05;

/// How far the model may be from the latency that was measured, as a share of it, where latency counts: as far as it may be from
/// real servers. What cannot tell today's latency is not asked about another.
pub const MODEL_OFF_MAX: f64 = 0.1;

/// The architecture to change to, and why, in a sentence; `None` is no change. The inputs have been checked.
pub(super) fn choose(
    question: &Question,
    whole: &Inputs,
    samples: &[Inputs],
) -> (Option<Architecture>, String) {
    let today = question.today.architecture;
    if question.objective.has_latency()
        && let Some(reason) = model_is_off(question, whole, samples)
    {
        return (None, reason);
    }
    let score = |one| score(question, one, whole, samples);
    let Some(now) = score(today) else {
        return (
            None,
            format!("no change: {today} needs a central server, and there is none"),
        );
    };
    let scores = Architecture::ALL.into_iter();
    let scores = scores.filter_map(|one| Some((one, score(one)?)));
    let best = scores.min_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let (best, at_best) = best.unwrap_or((today, now));
    let what = question.objective.words();
    let gain = |of: Estimate| format!("{:.1} %", 100.0 * (1.0 - of.value / now.value));
    let would = format!("{best} would make {what} smaller by {}", gain(at_best));
    if at_best.value >= now.value {
        (
            None,
            format!("no change: nothing makes {what} smaller than {today} does"),
        )
    } else if at_best.value > (1.0 - GAIN_MIN) * now.value {
        let least = 100.0 * GAIN_MIN;
        (
            None,
            format!("no change: {would}, which is less than {least:.0} %"),
        )
    } else if at_best.high >= now.low {
        (
            None,
            format!("no change: {would}, and the intervals overlap"),
        )
    } else {
        let smaller = format!("makes {what} smaller by {}", gain(at_best));
        (Some(best), format!("{best} in place of {today} {smaller}"))
    }
}

/// The reason not to believe the model, if there is one: what it says of today's latency is not what was measured.
fn model_is_off(question: &Question, whole: &Inputs, samples: &[Inputs]) -> Option<String> {
    let today = question.today;
    let model = Estimate::of(whole, samples, |inputs| {
        shipped::mean(
            today.architecture,
            &inputs.usage,
            inputs.distances,
            question.racks,
        )
    })?;
    let off = MODEL_OFF_MAX * today.latency_ms;
    let is_near = model.low - off <= today.latency_ms && today.latency_ms <= model.high + off;
    (!is_near).then(|| {
        format!(
            "no change: for {1} the model says {0:.2} ms and {2:.2} ms were measured, so advice on latency would be no better than that",
            model.value, today.architecture, today.latency_ms
        )
    })
}
