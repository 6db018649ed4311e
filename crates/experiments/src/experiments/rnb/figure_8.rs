//! Replicate and Bundle, Figure 8: transactions of a request by the memory that there is for copies.

use super::bundles::Items;
use super::caches::{Found, Rule, Setting, measure, requests};
use super::real_caches::{self, Cell};
use super::sources::SOURCES;
use super::{COPIES_NAME, Experiment, JUDGED_AT, PLACEMENT_NAME};
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use evenkeel_bench::plot::{Axis, Curve, Plot};
use std::sync::Arc;

pub(in crate::experiments) const FIGURE_8: Experiment = Experiment {
    name: "rnb-8",
    title: "Transactions of a request by memory, of servers that do not hold all copies",
    source: "Replicate and Bundle, Figure 8",
    modes: &[Mode::Sim, Mode::Real],
    run: |experiment, run| match run.mode {
        Mode::Sim => figure_8(experiment, run),
        Mode::Real => on_servers(experiment, run),
    },
};

/// Memory of all servers by what all items take once.
pub(super) const MEMORY: [f64; 7] = [1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0];

/// Copies of an item that may be kept, the home's included.
const COPIES: [usize; 5] = [2, 3, 4, 6, 8];

/// The memory at which the paper has half of the transactions.
pub(super) const JUDGED_MEMORY: f64 = 2.5;

/// That half.
const HALF: f64 = 0.5;

/// Memory and copies of real servers, by scale.
const REAL_MEMORY: [&[f64]; 4] = [&[2.5], &[1.5, 2.5], &MEMORY, &MEMORY];
const REAL_COPIES: [&[usize]; 4] = [&[4], &[2, 4, 6], &COPIES, &COPIES];

/// What real servers are to come to with that memory: the cover chooses before it knows which copies are there.
const REAL_HALF: [f64; 2] = [0.54, 0.58];

fn figure_8(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let mut report = run.report(experiment);
    report.settings = vec![
        ("homes", PLACEMENT_NAME.into()),
        ("copies", COPIES_NAME.into()),
        ("servers", JUDGED_AT.to_string()),
        ("requests", requests(run)),
    ];
    let mut curves = Vec::new();
    for source in &SOURCES {
        let graph = source.load(run, &mut report.notes)?;
        let items = Items::new(graph.users() as u32, JUDGED_AT, COPIES[COPIES.len() - 1])?;
        let found = |setting| measure(run, source.name, (&items, &graph), setting);
        let one = Setting {
            copies: 1,
            memory: 1.0,
            rule: Rule::Apart,
            riders: true,
            merged: 1,
        };
        let plain = found(one).tally.tpr();
        let by_plain = |found: &Found| found.shown(plain);
        let mut add = |title: &str, setting, cell: &dyn Fn(&Found) -> String| {
            let title = format!("{}: {title}", source.name);
            report.tables.push(by_memory(&title, setting, &found, cell));
        };
        add("transactions by those without copies", one, &by_plain);
        let alone = Setting {
            riders: false,
            ..one
        };
        add("the same without riders", alone, &by_plain);
        let together = Setting {
            rule: Rule::Together,
            ..one
        };
        add("the same with memcached's rule", together, &by_plain);
        let lost = |found: &Found| format!("{:.2}", found.by_request(found.lost));
        add(
            "items asked of the database for a request, with memcached's rule",
            together,
            &lost,
        );

        let at = |memory, copies| {
            found(Setting {
                memory,
                copies,
                ..one
            })
            .tally
            .tpr()
                / plain
        };
        let all = COPIES.map(|copies| (at(JUDGED_MEMORY, copies), copies));
        let best = all.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
        let (least, copies) = best.unwrap_or((f64::NAN, 0));
        report.claims.push(Claim::new(
            &format!(
                "{}: transactions with {JUDGED_MEMORY} times the memory, by those without copies",
                source.name
            ),
            &format!("{HALF:.2}"),
            format!("{least:.2}, with {copies} copies"),
            Some(least <= HALF),
        ));
        for copies in [2, 3, 4, 8] {
            curves.push(Curve::new(
                format!("{}, {copies} copies", source.name),
                MEMORY.map(|memory| (memory, at(memory, copies))).to_vec(),
            ));
        }
    }
    report.plots.push(Plot {
        name: run.plot_name(experiment),
        title: experiment.title.into(),
        x: Axis::linear("memory by what the items take once"),
        y: Axis::linear("transactions by those without copies"),
        curves,
    });
    report.note(
        "Transactions are those of both rounds of reads; in brackets stand the copies that are stored for a request, which are none of \
         them. Unless said otherwise copies take what ordinary items leave, and items ride along; memcached's rule is one LRU for both.",
    );
    Ok(report)
}

/// The same of Evenkeel servers behind a proxy.
fn on_servers(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let mut report = run.report(experiment);
    report.settings = vec![
        (
            "servers",
            format!("{JUDGED_AT} Evenkeel servers of one worker, a proxy, a coordinator"),
        ),
        ("requests", requests(run)),
    ];
    let (memory, copies) = (run.by_scale(REAL_MEMORY), run.by_scale(REAL_COPIES));
    for (source, half) in SOURCES.iter().zip(REAL_HALF) {
        let graph = Arc::new(source.load(run, &mut report.notes)?);
        let columns: Vec<String> = copies.iter().map(usize::to_string).collect();
        let title = format!(
            "{}, {}: transactions by those without copies",
            source.name,
            real_caches::items(&graph)
        );
        let mut table = Table::new(&title, &format!("memory|copies: {}", columns.join("|")));
        let mut best: Option<(f64, usize)> = None;
        let (mut misses, mut evicted, mut copies_evicted) = (0, 0, 0);
        for &memory in memory {
            let mut row = vec![format!("{memory:.2}")];
            for &copies in copies {
                let cell = Cell {
                    servers: JUDGED_AT as usize,
                    copies,
                    memory,
                };
                let seen = real_caches::measure(run, &graph, cell)?;
                row.push(format!("{:.2} ({:.2})", seen.by_plain, seen.fills));
                misses += seen.misses;
                evicted += seen.items_evicted;
                copies_evicted += seen.copies_evicted;
                let is_better = best.is_none_or(|(least, _)| seen.by_plain < least);
                if memory == JUDGED_MEMORY && is_better {
                    best = Some((seen.by_plain, copies));
                }
            }
            table.row(row);
        }
        report.tables.push(table);
        let (least, copies) = best.unwrap_or((f64::NAN, 0));
        report.claims.push(Claim::new(
            &format!(
                "{}: transactions with {JUDGED_MEMORY} times the memory, by those without copies",
                source.name
            ),
            &format!("{HALF:.2}; ours: at most {half:.2}"),
            format!("{least:.2}, with {copies} copies"),
            Some(least <= half),
        ));
        report.claims.push(Claim::new(
            &format!(
                "{}: keys that were not found, and items that were evicted",
                source.name
            ),
            "ours: none",
            format!("{misses} and {evicted}, beside {copies_evicted} copies that were"),
            Some(misses == 0 && evicted == 0),
        ));
    }
    report.note(
        "Transactions are those of both rounds of reads, as the proxy counts them; in brackets stand the copies that are stored for a \
         multi-get, which are none of them. Nothing rides along.",
    );
    Ok(report)
}

/// A row for each memory, a column for each number of copies.
fn by_memory(
    title: &str,
    setting: Setting,
    found: &dyn Fn(Setting) -> Found,
    cell: &dyn Fn(&Found) -> String,
) -> Table {
    let columns = COPIES.map(|copies| copies.to_string());
    let mut table = Table::new(title, &format!("memory|copies: {}", columns.join("|")));
    for memory in MEMORY {
        let cells = COPIES.map(|copies| {
            cell(&found(Setting {
                copies,
                memory,
                ..setting
            }))
        });
        table.row([format!("{memory:.2}")].into_iter().chain(cells));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Scale;

    #[test]
    fn more_memory_never_costs_transactions_or_fills() {
        let report = figure_8(&FIGURE_8, &Run::silent(Scale::Quick, Mode::Sim)).unwrap();
        assert_eq!(report.tables.len(), 2 * 4);
        for table in &report.tables {
            for column in 1..=COPIES.len() {
                for part in 0..table.rows[0][column].split(' ').count() {
                    let number = |row: &Vec<String>| -> f64 {
                        let text = row[column].split(' ').nth(part).unwrap();
                        text.trim_matches(['(', ')']).parse().unwrap()
                    };
                    let numbers: Vec<f64> = table.rows.iter().map(number).collect();
                    let falls = numbers.is_sorted_by(|less, more| less >= more);
                    assert!(falls, "{}: {numbers:?}", table.title);
                }
            }
        }
    }
}
