//! The heat map of `evenkeel top`: workers, or servers where there are many, and cachelets in lines, seconds in columns, shaded by load.

use evenkeel_coordinator_core::HeatView;

/// From nothing to the highest load of all lines of its kind.
const SHADES: [char; 10] = [' ', '.', ':', '-', '=', '+', '*', '#', '%', '@'];

/// One line of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// A worker, or one cachelet or several that follow one another.
    pub label: String,
    /// The load in each column, of several the highest; nothing where it was not told.
    pub loads: Vec<Option<u64>>,
}

/// Lines of the same kind, and the highest load in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub lines: Vec<Line>,
    pub highest: u64,
}

/// Workers, and cachelets by their numbers, in this many lines together: neighbours share a line where there are more. Workers get
/// what they need up to half.
pub fn parts(view: &HeatView, lines: usize) -> [Part; 2] {
    let names: Vec<_> = (view.workers.iter())
        .map(|row| match row.worker {
            Some(worker) => format!("{}/{worker}", row.server),
            None => row.server.clone(),
        })
        .collect();
    let columns = view.columns.iter().map(|column| &column.workers[..]);
    let workers = part(&names, &columns.collect::<Vec<_>>(), lines / 2);
    let names: Vec<_> = (0..view.cachelets).map(|n| n.to_string()).collect();
    let columns = view.columns.iter().map(|column| &column.cachelets[..]);
    let left = lines.saturating_sub(workers.lines.len());
    let cachelets = part(&names, &columns.collect::<Vec<_>>(), left);
    [workers, cachelets]
}

/// Rows with these names in this many lines, from what each column tells of them.
fn part(names: &[String], columns: &[&[Option<u64>]], lines: usize) -> Part {
    let share = names.len().div_ceil(lines.max(1)).max(1);
    let line = |(index, names): (usize, &[String])| {
        let first = index * share;
        let load = |column: &&[Option<u64>]| {
            let rows = column.iter().skip(first).take(names.len());
            rows.copied().max().flatten()
        };
        let label = match names {
            [one] => one.clone(),
            [one, .., last] => format!("{one}..{last}"),
            [] => String::new(),
        };
        Line {
            label,
            loads: columns.iter().map(load).collect(),
        }
    };
    let lines: Vec<_> = match lines {
        0 => Vec::new(),
        _ => names.chunks(share).enumerate().map(line).collect(),
    };
    let loads = lines.iter().flat_map(|line| line.loads.iter().flatten());
    Part {
        highest: loads.copied().max().unwrap_or(0),
        lines,
    }
}

/// How a load is drawn: `?` where it was not told.
pub fn shade(load: Option<u64>, highest: u64) -> char {
    let Some(load) = load else { return '?' };
    let steps = SHADES.len() as u64 - 1;
    let step = (load.min(highest) * steps).div_ceil(highest.max(1));
    SHADES[step as usize]
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use evenkeel_coordinator_core::{HeatColumn, HeatWorker};

    /// Three workers and eight cachelets in two columns: first all load is at one of them, then it is even.
    pub fn view() -> HeatView {
        let workers = [("s1", Some(0)), ("s1", Some(1)), ("s2", None)];
        let columns = [[900, 0, 0], [300, 300, 300]].map(|loads| HeatColumn {
            workers: loads.map(Some).to_vec(),
            cachelets: (0..8)
                .map(|n| (n != 7).then_some(loads[0] / 10 * n))
                .collect(),
            ..HeatColumn::default()
        });
        HeatView {
            interval_ms: 1000,
            workers: workers
                .map(|(server, worker)| HeatWorker {
                    server: server.into(),
                    worker,
                })
                .into(),
            cachelets: 8,
            columns: columns.into(),
            ..HeatView::default()
        }
    }

    #[test]
    fn rows_have_lines_of_their_own_or_share_them_with_neighbours() {
        let [workers, cachelets] = parts(&view(), 14);
        let label = |line: &Line| line.label.clone();
        let labels: Vec<_> = workers.lines.iter().map(label).collect();
        assert_eq!(labels, ["s1/0", "s1/1", "s2"]);
        assert_eq!(workers.lines[0].loads, [Some(900), Some(300)]);
        assert_eq!((workers.highest, cachelets.highest), (900, 540));
        assert_eq!(cachelets.lines.len(), 8);
        assert_eq!(cachelets.lines[7].loads, [None, None]);

        let [workers, cachelets] = parts(&view(), 6);
        assert_eq!(workers.lines.len() + cachelets.lines.len(), 6);
        let labels: Vec<_> = cachelets.lines.iter().map(label).collect();
        assert_eq!(labels, ["0..2", "3..5", "6..7"]);
        assert_eq!(cachelets.lines[2].loads, [Some(540), Some(180)]);

        for lines in 0..3 {
            let drawn = parts(&view(), lines);
            assert!(drawn.iter().map(|part| part.lines.len()).sum::<usize>() <= lines);
        }
    }

    #[test]
    fn shades_grow_with_the_load_and_only_no_load_is_blank() {
        let of = |load| shade(Some(load), 1000);
        let loads = [0, 1, 111, 112, 500, 999, 1000, 2000];
        assert_eq!(loads.map(of), [' ', '.', '.', ':', '+', '@', '@', '@']);
        assert_eq!((shade(None, 1000), shade(Some(0), 0)), ('?', ' '));
    }
}
