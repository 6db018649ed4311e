//! Advice as people read it.

use super::Advised;
use crate::ask;
use evenkeel_schemes::locality::advice::{Estimate, Number, Row, Turning};
use std::fmt::Write;

/// All of it.
pub(super) fn text(advised: &Advised) -> String {
    let Advised {
        pool,
        racks,
        today,
        inputs,
        commands_per_page,
        advice,
        command,
        remarks,
        plots,
    } = advised;
    let mut out = match pool {
        Some(pool) => format!("pool {pool}: "),
        None => String::new(),
    };
    let choice = advice.choice.map_or_else(
        || "no change".to_owned(),
        |choice| format!("change to {choice}"),
    );
    let _ = writeln!(out, "{choice}\n{}\n", advice.reason);
    if let Some(command) = command {
        let _ = writeln!(out, "to switch, and first with --dry-run:\n  {command}\n");
    }
    let distances = inputs.distances;
    let central = distances
        .central
        .map_or_else(|| "-".to_owned(), |ms| format!("{ms:.3}"));
    let _ = writeln!(
        out,
        "today: {}, {} racks; round trips {:.3} ms in a rack, {central} to the backbone, {:.3} to\nanother rack; ps {:.2}, reads {:.2} of the commands",
        today.architecture,
        racks.racks,
        distances.own,
        distances.other,
        inputs.usage.ps,
        inputs.usage.reads(),
    );
    let heads = "|a command, ms|a page, ms|central bytes|space|measured, ms";
    let rows = advice
        .rows
        .iter()
        .map(|row| cells(row, commands_per_page.is_some()));
    let _ = write!(out, "{}", ask::table(heads, rows));
    for turning in &advice.turnings {
        let _ = write!(out, "\n{}", turning_words(turning));
    }
    for remark in remarks {
        let _ = write!(out, "\n* {remark}");
    }
    for plot in plots {
        let _ = write!(out, "\nplot: {}", plot.display());
    }
    out
}

fn cells(row: &Row, with_page: bool) -> [String; 6] {
    let figure = |estimate: Option<Estimate>, digits| {
        estimate.map_or_else(|| "-".into(), |it| range(it, digits))
    };
    let page = row.page_ms.filter(|_| with_page);
    let measured = row
        .measured_ms
        .map_or_else(String::new, |ms| format!("{ms:.3}"));
    [
        row.architecture.to_string(),
        figure(row.latency_ms, 3),
        figure(page, 1),
        figure(row.central_bytes, 0),
        figure(row.space, 2),
        measured,
    ]
}

/// A figure and its interval, which is left out where there is none.
fn range(estimate: Estimate, digits: usize) -> String {
    let Estimate { value, low, high } = estimate;
    match low < high {
        true => format!("{value:.digits$} ({low:.digits$}–{high:.digits$})"),
        false => format!("{value:.digits$}"),
    }
}

/// Where the answer turns, in a line.
fn turning_words(turning: &Turning) -> String {
    let Turning {
        number,
        now,
        low,
        high,
        turns,
    } = turning;
    let (name, unit) = match number {
        Number::Ps => ("ps", ""),
        Number::Switch => ("a switch", " ms"),
        Number::Reads => ("reads", ""),
    };
    let mut words = format!("{name} ({now:.2}{unit} now): ");
    match turns.first() {
        None => {
            let _ = write!(
                words,
                "the best is the same from {low:.2} to {high:.2}{unit}"
            );
        }
        Some(first) => {
            let _ = write!(words, "{}", first.from);
            for turn in turns {
                let _ = write!(words, ", from {:.2}{unit} on {}", turn.at, turn.to);
            }
        }
    }
    words
}
