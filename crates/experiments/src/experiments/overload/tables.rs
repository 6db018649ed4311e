//! What was measured as tables, and over time as plots.

use super::capacity::{Capacities, Capacity};
use super::cell::{Cell, Event};
use super::seen::{AFTER, Moment, Outcome, Part, STEADY, Seen, Spread, by_cell};
use super::vulnerable::{TRIGGERS, Vulnerable};
use crate::report::Table;
use evenkeel_bench::plot::{Axis, Curve, Plot};

pub(super) fn capacities(capacities: &Capacities) -> Table {
    let mut table = Table::new("Capacity", "|requests/s|by uniform keys|max/mean");
    for (deployment, keys, found) in capacities.by_kind() {
        let spread = |figure: &dyn Fn(&Capacity) -> f64| {
            Spread::of(found.iter().map(|capacity| figure(capacity)))
        };
        let rate = |capacity: &Capacity| capacity.found.requests_per_second;
        let by_uniform =
            |capacity: &Capacity| rate(capacity) / capacities.uniform(deployment, capacity.seed);
        let even = found
            .iter()
            .filter_map(|capacity| capacity.found.max_to_mean);
        table.row([
            format!("{deployment}: {keys}"),
            format!("{:.0}", spread(&rate)),
            format!("{:.2}", spread(&by_uniform)),
            format!("{:.2}", Spread::of(even)),
        ]);
    }
    table
}

pub(super) fn parts(title: &str, outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(
        title,
        "||offered/s|served/s|p50 ms|p99 ms|failed|misses|wrong|max/mean",
    );
    for (cell, seeds) in by_cell(outcomes) {
        let seen = || seeds.iter().map(|outcome| &outcome.seen);
        for (at, part) in seeds[0].seen.parts.iter().enumerate() {
            let of_part = |figure: &dyn Fn(&Part) -> f64| {
                Spread::of(seen().filter_map(|seen| seen.parts.get(at)).map(figure))
            };
            let once = |text: String| if at == 0 { text } else { String::new() };
            let of_seen = |figure: &dyn Fn(&Seen) -> f64| Spread::of(seen().map(figure));
            let offered = match seeds[0].seen.offered_per_second {
                Some(_) => format!(
                    "{:.0}",
                    Spread::of(seen().filter_map(|seen| seen.offered_per_second))
                ),
                None => "-".into(),
            };
            table.row([
                once(cell.to_string()),
                part.label.clone(),
                once(offered),
                format!("{:.0}", of_part(&|part| part.served_per_second)),
                format!("{:.1}", of_part(&|part| part.p50_ms)),
                format!("{:.1}", of_part(&|part| part.p99_ms)),
                of_part(&|part| part.failed as f64).to_string(),
                of_part(&|part| part.misses as f64).to_string(),
                once(of_seen(&|seen| seen.wrong_values as f64).to_string()),
                once(format!("{:.2}", of_seen(&|seen| seen.max_to_mean))),
            ]);
        }
    }
    table
}

/// Vulnerable loads beside the capacity of uniform keys that they are parts of. Where a fleet came back from no load that
/// was tried, 0.
pub(super) fn vulnerable(found: &[Vulnerable], capacities: &Capacities) -> Table {
    let mut table = Table::new(
        "Vulnerable load",
        "|requests/s|% of the capacity|capacity/s",
    );
    for trigger in TRIGGERS {
        let of_trigger = || found.iter().filter(|found| found.trigger == trigger);
        if of_trigger().next().is_none() {
            continue;
        }
        let percent = |found: &Vulnerable| f64::from(found.percent.unwrap_or(0));
        let capacity = |found: &Vulnerable| capacities.uniform(Cell::BASE.deployment, found.seed);
        let rate = |found: &Vulnerable| percent(found) / 100.0 * capacity(found);
        table.row([
            trigger.to_string(),
            Spread::of(of_trigger().map(rate)).to_string(),
            Spread::of(of_trigger().map(percent)).to_string(),
            Spread::of(of_trigger().map(capacity)).to_string(),
        ]);
    }
    table
}

/// Two plots of each cell in which something happens: what was served, and the 99th percentile, over time.
pub(super) fn plots(name: &str, outcomes: &[Outcome]) -> Vec<Plot> {
    let eventful = by_cell(outcomes).into_iter();
    let eventful = eventful.filter(|(cell, _)| cell.event != Event::Nothing);
    eventful
        .flat_map(|(cell, seeds)| {
            let plot = |what: &str, y: Axis, of: fn(&Moment) -> f64| Plot {
                name: format!("{name}-{}-{what}", dashed(&cell.to_string())),
                title: title(&cell, &seeds[0].seen),
                x: Axis::linear("seconds"),
                y,
                curves: seeds.iter().map(|outcome| curve(outcome, of)).collect(),
            };
            [
                plot("served", Axis::linear("served/s"), |moment| {
                    moment.served_per_second
                }),
                plot("p99", Axis::log("99th percentile, ms"), |moment| {
                    moment.p99_ms
                }),
            ]
        })
        .filter(|plot| plot.curves.iter().any(|curve| !curve.points.is_empty()))
        .collect()
}

/// The name of the cell, and when it happens.
fn title(cell: &Cell, seen: &Seen) -> String {
    let end_of = |part: &Part| part.moments.last().map(|moment| moment.seconds);
    let quiet = [STEADY, AFTER];
    let begins = seen.part(STEADY).and_then(end_of);
    let happening = |part: &&Part| !quiet.contains(&part.label.as_str());
    let ends = seen
        .parts
        .iter()
        .skip_while(|part| part.label != STEADY)
        .filter(happening)
        .filter_map(end_of)
        .last();
    match (begins, ends) {
        (Some(begins), Some(ends)) => format!("{cell} ({begins:.1} to {ends:.1} s)"),
        _ => cell.to_string(),
    }
}

/// Moments in which nothing was served are left out of what has no logarithm.
fn curve(outcome: &Outcome, of: fn(&Moment) -> f64) -> Curve {
    let moments = outcome.seen.parts.iter().flat_map(|part| &part.moments);
    let points = moments.map(|moment| (moment.seconds, of(moment)));
    Curve::new(
        format!("seed {}", outcome.seed),
        points.filter(|(_, value)| *value > 0.0).collect(),
    )
}

/// Letters and digits of a name with dashes between, for the name of a file.
pub(super) fn dashed(name: &str) -> String {
    let words: Vec<&str> = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::overload::seen::EVENT;

    fn outcome(seed: u64, served_per_second: f64) -> Outcome {
        let part = |label: &str, seconds| Part {
            label: label.into(),
            served_per_second,
            moments: vec![Moment {
                seconds,
                served_per_second,
                p99_ms: 0.0,
            }],
            ..Part::default()
        };
        Outcome {
            cell: Cell {
                event: Event::Crowd,
                ..Cell::BASE
            },
            seed,
            seen: Seen {
                offered_per_second: Some(100.0),
                parts: vec![part(STEADY, 5.0), part(EVENT, 8.0), part(AFTER, 20.0)],
                ..Seen::default()
            },
        }
    }

    #[test]
    fn a_row_tells_of_all_seeds() {
        let table = parts(
            "Cells",
            &[outcome(1, 90.0), outcome(2, 99.0), outcome(3, 95.0)],
        );
        assert_eq!(table.rows.len(), 3, "{table:?}");
        assert_eq!(table.rows[0][2], "100 (100..100)");
        assert_eq!(table.rows[0][3], "95 (90..99)");
        assert_eq!(table.rows[1][2], "");
    }

    #[test]
    fn what_happens_is_shown_over_time_with_a_curve_for_each_seed() {
        let plots = plots("overload-real", &[outcome(1, 90.0), outcome(2, 99.0)]);
        // Nothing has a 99th percentile here.
        assert_eq!(plots.len(), 1, "{plots:?}");
        assert!(plots[0].title.ends_with("flash crowd (5.0 to 8.0 s)"));
        assert!(plots[0].name.ends_with("80-flash-crowd-served"));
        assert_eq!(plots[0].curves.len(), 2);
        assert_eq!(plots[0].curves[1].points.len(), 3);
    }
}
