//! Replicate and Bundle, Figure 8: transactions of a request by the memory that there is for copies.

use super::bundles::Items;
use super::caches::{Found, Rule, Setting, measure, requests};
use super::sources::SOURCES;
use super::{COPIES_NAME, Experiment, JUDGED_AT, PLACEMENT_NAME};
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use evenkeel_bench::plot::{Axis, Curve, Plot};

pub(in crate::experiments) const FIGURE_8: Experiment = Experiment {
    name: "rnb-8",
    title: "Transactions of a request by memory, of servers that do not hold all copies",
    source: "Replicate and Bundle, Figure 8",
    modes: &[Mode::Sim],
    run: figure_8,
};

/// Memory of all servers by what all items take once.
pub(super) const MEMORY: [f64; 7] = [1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0];

/// Copies of an item that may be kept, the home's included.
const COPIES: [usize; 5] = [2, 3, 4, 6, 8];

/// The memory at which the paper has half of the transactions.
pub(super) const JUDGED_MEMORY: f64 = 2.5;

/// That half.
const HALF: f64 = 0.5;

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
