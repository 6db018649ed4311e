//! What is printed and written.

use serde_json::json;
use std::fmt;

pub const HEADER: &str = "trace               gets       keys  item_B  share   -m   MiB  memcached    ours   ours/memcached";

/// One trace with one size of memory. Misses are shares of the gets.
pub struct Row {
    pub trace: String,
    pub gets: u64,
    pub keys: usize,
    pub item_bytes: u64,
    pub share_percent: u32,
    /// What memcached was given.
    pub memcached_mib: u64,
    /// What it took, and ours was given.
    pub mib: u64,
    pub memcached: f64,
    pub ours: f64,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.ours / self.memcached
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row {
            trace,
            gets,
            keys,
            item_bytes,
            share_percent,
            memcached_mib,
            mib,
            memcached,
            ours,
        } = self;
        write!(
            f,
            "{trace:<17} {gets:>8} {keys:>8} {item_bytes:>7} {share_percent:>4} % {memcached_mib:>4} {mib:>5} \
             {memcached:>10.4} {ours:>7.4} {:>10.3}",
            self.ratio()
        )
    }
}

/// Geometric mean of the rows' ratios of misses.
fn mean_ratio(rows: &[Row]) -> f64 {
    let logarithms = rows.iter().map(|row| row.ratio().ln());
    (logarithms.sum::<f64>() / rows.len() as f64).exp()
}

pub fn summary(rows: &[Row]) -> String {
    let worse = rows.iter().filter(|row| row.ratio() > 1.0).count();
    format!(
        "geometric mean of ours/memcached: {:.3}; more misses than memcached in {worse} of {} rows",
        mean_ratio(rows),
        rows.len()
    )
}

/// Shares of misses in consecutive parts of a load; the sizes change after a third.
pub struct Drift {
    pub mib: u64,
    pub memcached: Vec<f64>,
    pub ours: Vec<f64>,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changed = self.ours.len() / 3;
        writeln!(
            f,
            "\nA change of value sizes, {} MiB; misses in each part:",
            self.mib
        )?;
        writeln!(f, "part  memcached    ours")?;
        for (part, (memcached, ours)) in self.memcached.iter().zip(&self.ours).enumerate() {
            let mark = if part == changed {
                "  <- values ten times as large"
            } else {
                ""
            };
            writeln!(f, "{:>4} {memcached:>10.4} {ours:>7.4}{mark}", part + 1)?;
        }
        Ok(())
    }
}

pub fn json(memcached_version: &str, rows: &[Row], drift: &Drift) -> String {
    let rows_json: Vec<_> = rows
        .iter()
        .map(|row| {
            json!({
                "trace": row.trace,
                "gets": row.gets,
                "keys": row.keys,
                "item_bytes": row.item_bytes,
                "share_percent": row.share_percent,
                "memcached_m_mib": row.memcached_mib,
                "memory_mib": row.mib,
                "memcached_miss_ratio": row.memcached,
                "evenkeel_miss_ratio": row.ours,
                "misses_to_memcached": row.ratio(),
            })
        })
        .collect();
    let report = json!({
        "reference": memcached_version,
        "traces": rows_json,
        "geometric_mean_misses_to_memcached": mean_ratio(rows),
        "change_of_sizes": {
            "memory_mib": drift.mib,
            "memcached_miss_ratio": drift.memcached,
            "evenkeel_miss_ratio": drift.ours,
        },
    });
    format!("{report:#}\n")
}
