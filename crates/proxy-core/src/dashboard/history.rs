//! The last hour, a column a second.

use crate::dashboard::view::{DashboardView, HeatColumn, HeatMeasure, HeatRow, HeatView};
use crate::limits::{DASHBOARD_CELLS_MAX, DASHBOARD_SECONDS};
use evenkeel_types::UnixSeconds;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Milliseconds between two columns.
const INTERVAL_MS: u64 = 1000;

/// A server in a second.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub server: Arc<str>,
    /// Load and bytes a second: four bytes each are enough for what is drawn.
    pub rates: [f32; HeatMeasure::ALL.len()],
}

/// A second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Column {
    unix_s: UnixSeconds,
    reads: f64,
    hits: f64,
    p50_us: Option<u64>,
    p99_us: Option<u64>,
    shed_per_s: f64,
    rows: Vec<Row>,
}

impl Column {
    /// What was shown in a second, and its servers.
    pub fn of(shown: &DashboardView, rows: Vec<Row>) -> Self {
        Column {
            unix_s: shown.unix_s,
            reads: shown.reads_per_s,
            hits: shown.hits_per_s,
            p50_us: shown.p50_us,
            p99_us: shown.p99_us,
            shed_per_s: shown.shed_per_s,
            rows,
        }
    }
}

/// The last columns.
#[derive(Debug, Default)]
pub(super) struct History {
    columns: VecDeque<Column>,
    cells: usize,
}

impl History {
    pub fn push(&mut self, column: Column) {
        self.cells += column.rows.len();
        self.columns.push_back(column);
        while self.columns.len() > DASHBOARD_SECONDS
            || (self.cells > DASHBOARD_CELLS_MAX && self.columns.len() > 1)
        {
            let oldest = self.columns.pop_front();
            self.cells -= oldest.map_or(0, |column| column.rows.len());
        }
    }

    /// The newest columns, at most this many. O(columns × servers × log servers).
    pub fn heat(&self, of: HeatMeasure, columns: usize) -> HeatView {
        let told = || {
            let skipped = self.columns.len().saturating_sub(columns);
            self.columns.iter().skip(skipped)
        };
        let rows = told().flat_map(|column| &column.rows);
        let names: BTreeSet<&str> = rows.map(|row| &*row.server).collect();
        let places: BTreeMap<&str, usize> = names.into_iter().zip(0..).collect();
        let row = |&server: &&str| HeatRow {
            server: server.to_owned(),
            worker: None,
        };
        HeatView {
            of,
            interval_ms: INTERVAL_MS,
            workers: places.keys().map(row).collect(),
            cachelets: 0,
            columns: told().map(|column| column.view(of, &places)).collect(),
        }
    }
}

impl Column {
    fn view(&self, of: HeatMeasure, places: &BTreeMap<&str, usize>) -> HeatColumn {
        let mut workers = vec![None; places.len()];
        let mut sum = 0.0;
        for row in &self.rows {
            let rate = row.rates[of as usize];
            sum += f64::from(rate);
            workers[places[&*row.server]] = Some(rate as u64);
        }
        HeatColumn {
            unix_s: self.unix_s,
            reads: self.reads as u64,
            hits: self.hits as u64,
            p50_us: self.p50_us,
            p99_us: self.p99_us,
            shed_per_s: self.shed_per_s,
            sum: sum as u64,
            mean: sum / self.rows.len().max(1) as f64,
            workers,
            cachelets: Vec::new(),
            owners: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(unix_s: UnixSeconds, servers: &[(&str, f32)]) -> Column {
        let row = |&(server, load): &(&str, f32)| Row {
            server: server.into(),
            rates: [load, 10.0 * load],
        };
        Column {
            unix_s,
            rows: servers.iter().map(row).collect(),
            ..Column::default()
        }
    }

    #[test]
    fn servers_that_come_and_go_keep_their_rows() {
        let mut history = History::default();
        history.push(column(1, &[("b", 4.0), ("a", 2.0)]));
        history.push(column(2, &[("b", 5.0)]));
        history.push(column(3, &[("c", 6.9), ("b", 1.0)]));
        let heat = history.heat(HeatMeasure::Bytes, 9);
        let names: Vec<&str> = heat.workers.iter().map(|row| &*row.server).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let of: Vec<_> = heat.columns.iter().map(|it| it.workers.clone()).collect();
        assert_eq!(of[0], [Some(20), Some(40), None]);
        assert_eq!(of[1], [None, Some(50), None]);
        assert_eq!(of[2], [None, Some(10), Some(69)]);
        assert_eq!((heat.columns[0].sum, heat.columns[0].mean), (60, 30.0));
        let newest = history.heat(HeatMeasure::Load, 2);
        assert_eq!((newest.columns.len(), newest.workers.len()), (2, 2));
        assert_eq!(newest.columns[0].unix_s, 2);
    }

    #[test]
    fn it_is_bounded_in_columns_and_in_cells() {
        let mut history = History::default();
        for second in 0..2 * DASHBOARD_SECONDS as u32 {
            history.push(column(second, &[("a", 1.0)]));
        }
        assert_eq!(history.columns.len(), DASHBOARD_SECONDS);
        let names: Vec<String> = (0..DASHBOARD_CELLS_MAX / 10)
            .map(|n| n.to_string())
            .collect();
        let many: Vec<(&str, f32)> = names.iter().map(|name| (&**name, 1.0)).collect();
        for second in 0..15 {
            history.push(column(second, &many));
        }
        assert_eq!(history.columns.len(), 10);
        assert!(history.cells <= DASHBOARD_CELLS_MAX);
    }
}
