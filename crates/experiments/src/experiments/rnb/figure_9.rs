//! Replicate and Bundle, Figures 9 and 10: requests that come together are covered as one.

use super::bundles::Items;
use super::caches::{Found, Rule, Setting, measure, requests};
use super::figure_8::{JUDGED_MEMORY, MEMORY};
use super::sources::SOURCES;
use super::{COPIES_NAME, Experiment, JUDGED_AT, PLACEMENT_NAME};
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;

pub(in crate::experiments) const FIGURE_9: Experiment = Experiment {
    name: "rnb-9",
    title: "What copies save of requests that are merged",
    source: "Replicate and Bundle, Figure 9",
    modes: &[Mode::Sim],
    run: figure_9,
};

pub(in crate::experiments) const FIGURE_10: Experiment = Experiment {
    name: "rnb-10",
    title: "Transactions of a user's request, alone and merged",
    source: "Replicate and Bundle, Figure 10",
    modes: &[Mode::Sim],
    run: figure_10,
};

/// Copies of an item, the home's included: as in the paper.
const COPIES: [usize; 4] = [1, 2, 3, 4];

/// Requests that are covered as one.
const MERGED: [u32; 3] = [1, 2, 4];

/// What is found by how many requests are merged, memory and copies.
type Measured<'a> = &'a dyn Fn(u32, f64, usize) -> Found;

fn figure_9(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    of_graphs(experiment, run, &|name, found, report| {
        let tpr = |merged, memory, copies| found(merged, memory, copies).tally.tpr();
        for merged in &MERGED[1..] {
            let title = format!("{name}: {merged} requests as one, by the same without copies");
            report
                .tables
                .push(by_memory(&title, &COPIES[1..], &|memory, copies| {
                    found(*merged, memory, copies).shown(tpr(*merged, memory, 1))
                }));
        }
        let saved = |merged| tpr(merged, JUDGED_MEMORY, 4) / tpr(merged, JUDGED_MEMORY, 1);
        let (alone, two) = (saved(1), saved(2));
        report.claims.push(Claim::new(
            &format!("{name}, {JUDGED_MEMORY} times the memory: 4 copies save less of two merged requests than of one; transactions by those without copies"),
            "less",
            format!("{two:.2} of two, {alone:.2} of one"),
            Some(two > alone),
        ));
    })
}

fn figure_10(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    of_graphs(experiment, run, &|name, found, report| {
        let tpr = |merged, memory, copies| found(merged, memory, copies).tally.tpr();
        for merged in MERGED {
            let how = match merged {
                1 => "alone".to_owned(),
                merged => format!("{merged} covered as one"),
            };
            let title = format!("{name}: transactions of a user's request, {how}");
            report
                .tables
                .push(by_memory(&title, &COPIES, &|memory, copies| {
                    found(merged, memory, copies).shown(1.0)
                }));
        }
        let (neither, copies) = (tpr(1, JUDGED_MEMORY, 1), tpr(1, JUDGED_MEMORY, 4));
        let (merged, both) = (tpr(2, JUDGED_MEMORY, 1), tpr(2, JUDGED_MEMORY, 4));
        report.claims.push(Claim::new(
            &format!("{name}, {JUDGED_MEMORY} times the memory: transactions of a user's request by 4 copies, by merging two, by both"),
            "both together save most",
            format!("{copies:.2}, {merged:.2}, {both:.2} of {neither:.2}"),
            Some(both < copies.min(merged)),
        ));
    })
}

/// A report of both graphs, of each of which something is told.
fn of_graphs(
    experiment: &Experiment,
    run: &Run,
    tell: &dyn Fn(&str, Measured, &mut Report),
) -> anyhow::Result<Report> {
    let mut report = run.report(experiment);
    report.settings = vec![
        ("homes", PLACEMENT_NAME.into()),
        ("copies", COPIES_NAME.into()),
        ("servers", JUDGED_AT.to_string()),
        ("requests", requests(run)),
    ];
    for source in &SOURCES {
        let graph = source.load(run, &mut report.notes)?;
        let items = Items::new(graph.users() as u32, JUDGED_AT, COPIES[COPIES.len() - 1])?;
        let found = |merged, memory, copies| {
            let setting = Setting {
                copies,
                // Without copies more memory changes nothing.
                memory: if copies == 1 { 1.0 } else { memory },
                rule: Rule::Apart,
                riders: true,
                merged,
            };
            measure(run, source.name, (&items, &graph), setting)
        };
        tell(source.name, &found, &mut report);
    }
    report.note(
        "Copies take what ordinary items leave, and items ride along. Transactions are those of both rounds of reads; in brackets stand the copies that are \
         stored for a user's request.",
    );
    Ok(report)
}

/// A row for each memory, a column for each number of copies.
fn by_memory(title: &str, copies: &[usize], cell: &dyn Fn(f64, usize) -> String) -> Table {
    let names: Vec<String> = copies.iter().map(usize::to_string).collect();
    let mut table = Table::new(title, &format!("memory|copies: {}", names.join("|")));
    for memory in MEMORY {
        let cells = copies.iter().map(|&copies| cell(memory, copies));
        table.row([format!("{memory:.2}")].into_iter().chain(cells));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Scale;

    #[test]
    fn merging_and_copies_save_more_together() {
        // What both show is measured once.
        let run = Run::silent(Scale::Quick, Mode::Sim);
        let report = figure_10(&FIGURE_10, &run).unwrap();
        assert!(
            report.claims.iter().all(|claim| claim.holds == Some(true)),
            "{:?}",
            report.claims
        );
        let report = figure_9(&FIGURE_9, &run).unwrap();
        let roomy = report.tables.iter().flat_map(|table| &table.rows[4..]);
        for cell in roomy.flat_map(|row| &row[1..]) {
            let (by_plain, _) = cell.split_once(' ').unwrap();
            assert!(by_plain.parse::<f64>().unwrap() < 1.0, "{cell}");
        }
    }
}
